"""The guide keeps its promises: included code is the source's, snippets run, commands and links exist."""

from __future__ import annotations

import doctest
import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide"
LARGEST_FIGURE = 150_000

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def _tool() -> ModuleType:
    """docs/guide/refresh.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("refresh", GUIDE / "refresh.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


refresh = _tool()
CHAPTERS: list[Path] = refresh.chapters()
PAGES = [*CHAPTERS, *GUIDE.glob("*.md")]


def name_of(path: Path) -> str:
    return path.relative_to(GUIDE).as_posix()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf8")


def links(path: Path) -> list[tuple[bool, str]]:
    """Links outside of code, and whether each is an image."""
    return [(mark == "!", link) for mark, link in LINK.findall(FENCE.sub("", text_of(path)))]


def snippets(text: str) -> str:
    """The runnable fences of a chapter where they stand, and empty lines for all the rest."""
    included = [range(*found.span()) for found in refresh.INCLUDE.finditer(text)]
    kept = [""] * (text.count("\n") + 1)
    for fence in FENCE.finditer(text):
        if fence[1] != "python" or any(fence.start() in span for span in included):
            continue
        assert ">>>" in fence[2], f"neither included nor with prompts, so nobody runs it:\n{fence[0]}"
        first = text.count("\n", 0, fence.start(2))
        lines = fence[2].splitlines()
        kept[first : first + len(lines)] = lines
    return "\n".join(kept)


@pytest.mark.parametrize("path", CHAPTERS, ids=name_of)
def test_included_code_is_the_sources(path: Path) -> None:
    text = text_of(path)
    assert text.count("<!-- include") == len(refresh.INCLUDE.findall(text)), "an include without its fence"
    assert text == refresh.filled(text), "stale code: run python docs/guide/refresh.py code"


@pytest.mark.parametrize("path", CHAPTERS, ids=name_of)
def test_snippets_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # whatever a snippet writes stays here
    test = doctest.DocTestParser().get_doctest(snippets(text_of(path)), {}, name_of(path), str(path), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    said: list[str] = []
    assert runner.run(test, out=said.append).failed == 0, "".join(said)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_commands_are_understood(path: Path) -> None:
    from glassformer.cli.app import app

    for kind, code in FENCE.findall(text_of(path)):
        for line in refresh.COMMAND.findall(code if kind == "console" else ""):
            words = shlex.split(line.split(" | ")[0], comments=True)[1:]
            app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for is_image, link in links(path):
        if link.startswith(("http:", "https:", "#")):
            assert not is_image, f"{link}: the guide works offline"
            continue
        file = (path.parent / link.partition("#")[0]).resolve()
        assert file.exists(), link
        assert not is_image or file.stat().st_size < LARGEST_FIGURE, link


@pytest.mark.parametrize("path", CHAPTERS, ids=name_of)
def test_figures_are_made_by_commands_in_the_chapter(path: Path) -> None:
    made = {part for command in refresh.figure_commands(text_of(path)) for part in command}
    shown = {refresh.IMAGES + Path(link).name for is_image, link in links(path) if is_image}
    assert shown or path.stem == "15-errata"
    assert shown <= made


@pytest.mark.parametrize("path", sorted((GUIDE / "en").glob("*.md")), ids=name_of)
def test_both_languages_show_the_same(path: Path) -> None:
    other = GUIDE / "zh" / path.name
    includes, others = ([i.groups() for i in refresh.INCLUDE.finditer(text_of(p))] for p in (path, other))
    assert includes == others
    assert refresh.COMMAND.findall(text_of(path)) == refresh.COMMAND.findall(text_of(other))
    images = [[Path(link).name for is_image, link in links(p) if is_image] for p in (path, other)]
    assert images[0] == images[1]


def test_both_languages_have_the_same_chapters() -> None:
    names = [[path.name for path in CHAPTERS if path.parent.name == language] for language in ("en", "zh")]
    assert names[0] == names[1]
    index = text_of(GUIDE / "README.md")
    for path in CHAPTERS:
        assert f"({name_of(path)})" in index, f"{name_of(path)} is not in the index"
