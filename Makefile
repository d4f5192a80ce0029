# Two commands matter: `make demo` and `make test`. Each sets up what it needs on a fresh machine.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -q -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-full check format bench bench-full clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# Set-up happens in layers; a stamp file says that a layer is done for these very requirements.
$(VENV)/.made:
	@echo "· making a virtual environment in $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "glassformer needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  echo "· Debian ships venv apart from Python: installing python3-venv"; \
	  apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); }
	@touch $@

$(VENV)/.torch: constraints.txt $(VENV)/.made
	@echo "· installing torch (the large part: about a minute)"
	@$(PIP) torch numpy
	@touch $@

$(VENV)/.run: pyproject.toml $(VENV)/.torch
	@echo "· installing glassformer and what it runs on"
	@$(PIP) -e '.[fast,plots,serve]'
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "· installing the tools for tests and checks"
	@$(PIP) -e '.[dev]'
	@touch $@

# The pages are tested in a real browser, with a font that has Chinese characters.
$(VENV)/.browser: $(VENV)/.dev
	@command -v chromium >/dev/null && fc-list 2>/dev/null | grep -qi 'noto.*cjk' || { \
	  echo "· installing Debian's chromium and fonts-noto-cjk"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium fonts-noto-cjk fontconfig >/dev/null; }
	@touch $@

demo: $(VENV)/.run  ## train a small model here and now, then translate with it
	@$(BIN)/glass demo

test: $(VENV)/.dev  ## the tests, in at most ten minutes
	@$(BIN)/python -m pytest -m "not full" -n 2 --dist worksteal

test-full: $(VENV)/.browser  ## and the long ones: killed processes, load, browsers
	@$(BIN)/python -m pytest -m full

check: $(VENV)/.dev  ## ruff, formatting and types
	@$(BIN)/ruff check src tests benchmarks examples docs
	@$(BIN)/ruff format --check src tests benchmarks examples docs
	@$(BIN)/mypy

format: $(VENV)/.dev  ## let ruff lay the code out
	@$(BIN)/ruff check --fix src tests benchmarks examples docs
	@$(BIN)/ruff format src tests benchmarks examples docs

$(VENV)/.bench: $(VENV)/.run
	@echo "· installing those that we compare ourselves with"
	@$(PIP) -e '.[bench]'
	@touch $@

bench: $(VENV)/.bench  ## us and the peers side by side: a quick run, in less than ten minutes
	@$(BIN)/python -m benchmarks

bench-full: $(VENV)/.bench  ## all of it: two hours on a machine that does nothing else
	@$(BIN)/python -m benchmarks --full

clean:  ## remove the environment and everything made by a run
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist
