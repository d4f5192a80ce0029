"""The Translator with streams of text, lines of files, several threads and those who listen in."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer.errors import RequestError
from glassformer.model.silence import silence
from glassformer.translate import Translator, load
from tests.unit.conftest import CHINESE, SENTENCES


@pytest.mark.parametrize("beams", [1, 4])
def test_a_stream_grows_into_the_translation(translator: Translator, beams: int) -> None:
    for text in [*SENTENCES, "one two.\n\n three.", "one two three four. " * 10, ""]:
        shown = list(translator.stream(text, beams=beams))
        assert shown[-1] == translator.translate(text, beams=beams).text
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(shown))
    assert len(list(translator.stream("one two three four five.", beams=1))) == 6
    assert next(translator.stream("one.", prefix="九九")).startswith("九")


def test_a_stream_of_lines_is_read_window_by_window(translator: Translator) -> None:
    taken = 0

    def lines() -> Any:
        nonlocal taken
        for text in itertools.cycle(SENTENCES):
            taken += 1
            yield text

    found = translator.translate_lines(lines(), window=10)
    assert [one.text for one in itertools.islice(found, 25)] == (CHINESE * 5)[:25]
    assert taken == 30


def test_lines_of_an_open_file(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"one.\r\n\ntwo.\nnine.")
    with (tmp_path / "in.txt").open(newline="\n") as file:
        found = list(translator.translate_lines(file))
    assert [one.text for one in found] == ["一。", "", "二。", "九。"]
    assert [one.source for one in found] == ["one.", "", "two.", "nine."]


def test_what_came_before_an_unreadable_line_is_not_lost(translator: Translator) -> None:
    def lines() -> Any:
        yield "one."
        yield "two."
        raise RequestError("line 3 is broken")

    found = translator.translate_lines(lines())
    assert [next(found).text, next(found).text] == ["一。", "二。"]
    with pytest.raises(RequestError, match="line 3 is broken"):
        next(found)


def test_one_bad_line_never_loses_the_others(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = load(numbers, engine="torch")
    whole = translator.torch_engine.translate_ids
    bad = translator.bundle.tokenizers.source.encode("nine.")

    def fragile(sources: Any, *rest: Any, **options: Any) -> Any:
        if bad in sources:
            raise RuntimeError("boom")
        return whole(sources, *rest, **options)

    monkeypatch.setattr(translator.torch_engine, "translate_ids", fragile)
    found = translator.translate(SENTENCES)
    assert [one.text for one in found] == [CHINESE[0], "", *CHINESE[2:]]
    assert [str(note) for note in found[1].notes] == ["not translated: RuntimeError: boom"]
    with pytest.raises(RuntimeError, match="boom"):  # nothing at all could be translated: that is an error
        translator.translate("nine.")


def test_threads_do_not_disturb_each_other(translator: Translator) -> None:
    found: dict[int, list[str]] = {}

    def work(number: int) -> None:
        texts = SENTENCES[number % 3 :]
        found[number] = [one.text for one in translator.translate(texts, align=number % 2 == 0)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: CHINESE[number % 3 :] for number in range(8)}


def test_a_recorder_hears_every_batch(numbers: Path) -> None:
    """Whatever the engine and the number of workers: who looks inside gets our own model, in this thread."""
    translator = load(numbers, threads=2)
    translator.torch_engine.batch_sentences = 2
    with glassformer.record() as recorder:
        assert translator.engine_for()[0].name == "torch"
        assert [one.text for one in translator.translate(SENTENCES)] == CHINESE
    assert len(recorder.attention["encoder.0.self"]) == 3
    with silence(
        [("decoder.1.cross", 0), ("decoder.1.cross", 1), ("decoder.0.cross", 0), ("decoder.0.cross", 1)]
    ):
        blind = [one.text for one in translator.translate(SENTENCES)]
    assert all(one != right for one, right in zip(blind, CHINESE, strict=True))
    assert [one.text for one in translator.translate(SENTENCES)] == CHINESE


def test_workers_change_nothing(numbers: Path) -> None:
    translator = load(numbers, engine="torch", threads=2)
    translator.torch_engine.batch_sentences = 2
    assert [one.text for one in translator.translate(SENTENCES * 3)] == CHINESE * 3
