"""Who may import whom: a file imports only what stands above it in `ORDER`. So there can be no cycle."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "glassformer"

# text → tokens → batches → model → search → text; then what stands around that line.
ORDER = """
    __init__ errors config recipe extend settings
    text/__init__ text/lines text/hashes text/sentences text/token text/merges text/pieces text/entries
    text/mapped text/tokenizer text/words text/pairs text/dates text/packages text/sources text/corpus
    data/__init__ data/batch data/store
    model/__init__ model/record model/silence model/products model/packing model/state
    model/parts model/neighbours model/positions model/scores model/attention model/layers model/stacks
    model/families model/masks
    model/seq2seq model/transformer
    model/recurrent
    model/vectors
    model/build
    model/ensemble
    compat/masks compat/checks compat/attention compat/transformer compat/__init__
    align
    search/__init__ search/scoring search/repeats search/greedy search/sample search/beam
    weights bundle workers engine
    formats/__init__ formats/proof formats/names formats/huggingface_files formats/huggingface_weights
    formats/huggingface_reading formats/ctranslate2_weights formats/ctranslate2 formats/ctranslate2_engine
    formats/huggingface formats/argos
    translation options translate metrics evaluate generate label fill
    train/__init__ train/loss train/objective train/precision train/muon train/optim train/feed
    train/family_feed train/distributed train/checkpoint
    train/report train/validate train/family_validate train/interrupt train/allocator train/loop
    train/defaults train/changes
    train/family_prepare train/prepare train/probe train/card train/curves train/run
    look/__init__ look/pack look/tree look/patterns look/variants look/run look/walk look/what_if
    look/trace look/page look/explain look/show look/heads look/ablate look/drawing
    look/reader look/six_words look/basics look/lessons look/uses look/plots
    compare/__init__ compare/language compare/contestants compare/ablations compare/texts compare/screen
    compare/race compare/measure compare/result compare/verdicts compare/figures compare/report compare/run
    serve/__init__ serve/settings serve/batcher serve/answers serve/fields serve/languages serve/models
    serve/detect serve/markup serve/metrics serve/security serve/run serve/schemas serve/segments
    serve/service serve/libretranslate serve/words serve/explore serve/family serve/app
    check/__init__ check/mask_forms check/mistakes check/report check/tools check/build check/calling
    check/attention check/evaluation check/heads check/losses check/mask_functions check/masking
    check/layers check/models check/positions check/subjects check/adapters check/adapt check/transformer
    check/core check/runner
    cli/__init__ cli/launch cli/app cli/check cli/classify cli/compare cli/config cli/data cli/demo
    cli/evaluate cli/explain cli/export cli/fill
    cli/generate cli/heads cli/import_ cli/look cli/plot cli/serve cli/tag cli/train cli/translate
    __main__
""".split()  # noqa: SIM905 - a list of quoted names would be three times as long


def module_name(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").as_posix()


def imports(path: Path) -> set[str]:
    """Files of this package that a file imports, wherever in it the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] != "glassformer":
                continue
            place = "/".join(parts[1:])
            for candidate in (place, f"{place}/__init__" if place else "__init__"):
                if (PACKAGE / f"{candidate}.py").is_file():
                    found.add(candidate)
    return found - {"__init__"}  # the package's own name brings nothing with it


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_file_has_its_place() -> None:
    assert sorted(map(module_name, FILES)) == sorted(ORDER)
    assert len(set(ORDER)) == len(ORDER)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_imports_only_what_stands_above_it(path: Path) -> None:
    above = set(ORDER[: ORDER.index(module_name(path))])
    assert imports(path) <= above, f"{module_name(path)} looks down at {sorted(imports(path) - above)}"


def test_search_knows_no_model() -> None:
    for path in (PACKAGE / "search").glob("*.py"):
        assert not any(name.startswith("model/") for name in imports(path)), path


def test_only_the_builder_reads_a_model_configuration() -> None:
    for path in (PACKAGE / "model").glob("*.py"):
        if path.name != "build.py":
            assert "ModelConfig" not in path.read_text(encoding="utf8"), path


@pytest.mark.parametrize(
    "code",
    [
        "import glassformer",
        "import glassformer; glassformer.Recipe; glassformer.GlassformerError; dir(glassformer)",
        "import sys; sys.argv = ['glass', '--help']; from glassformer.cli.app import main; main()",
    ],
)
def test_looking_around_imports_no_torch(code: str) -> None:
    check = f"""
import sys
try:
    {code}
except SystemExit:
    pass
heavy = sorted({{"torch", "sentencepiece", "numpy", "matplotlib", "transformers"}} & set(sys.modules))
sys.exit(f"imported {{heavy}}" if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_readme_has_a_line_for_every_file() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf8")
    tree = text[text.index("src/glassformer/") :]
    for path in FILES:
        name = path.parent.name if path.name == "__init__.py" else path.name
        assert name in tree, f"README.md's tree does not name {path.relative_to(ROOT)}"
