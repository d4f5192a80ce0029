"""Several bundles that answer together: the Translator, `glass translate` and `glass evaluate`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from glassformer.bundle import Bundle
from glassformer.cli.app import app
from glassformer.errors import RequestError
from glassformer.text.tokenizer import TokenizerPair, train_tokenizer
from glassformer.translate import Translator, load
from tests.unit.conftest import CHINESE, SENTENCES


@pytest.fixture(scope="module")
def shaken(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle that counts, with noise in its weights: it makes mistakes of its own."""
    bundle = Bundle.load(numbers)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in bundle.model.parameters():
            weight += 0.15 * weight.std() * torch.randn(weight.shape, generator=generator)
    return bundle.save(tmp_path_factory.mktemp("shaken") / "shaken")


@pytest.fixture(scope="module")
def foreign(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sizes, but the target's characters have other numbers."""
    bundle = Bundle.load(numbers)
    target = train_tokenizer("characters", ["十九八七六五四三二一。" * 2 + "十"])
    assert target.size == bundle.tokenizers.target.size
    bundle.tokenizers = TokenizerPair(bundle.tokenizers.source, target, shared=False)
    return bundle.save(tmp_path_factory.mktemp("foreign") / "foreign")


def test_a_bundle_and_itself_translate_as_it_does_alone(numbers: Path, translator: Translator) -> None:
    both = load(numbers, ensemble=[numbers])
    for beams in (1, 4):
        for one, other in zip(
            both.translate(SENTENCES, beams=beams), translator.translate(SENTENCES, beams=beams), strict=True
        ):
            assert one.text == other.text
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
    assert [one.text for one in both.translate(SENTENCES)] == CHINESE


def test_a_translation_is_as_likely_as_the_models_find_its_tokens_on_average(
    numbers: Path, shaken: Path
) -> None:
    together, alone = (
        load(numbers, ensemble=[shaken]),
        [load(path, engine="torch") for path in (numbers, shaken)],
    )
    source, target = SENTENCES[2], CHINESE[2]
    each = [torch.tensor(list(one.score(source, target).token_log_probs)).exp() for one in alone]
    mean = (each[0] + each[1]) / 2
    found = together.score(source, target)
    assert list(found.token_log_probs) == pytest.approx(mean.log().tolist(), abs=1e-4)
    said = together.translate(source, beams=4)
    forced = together.score(source, said.text)
    assert said.log_prob == pytest.approx(forced.log_prob, abs=1e-4)
    assert not torch.allclose(each[0], each[1])


def test_everything_a_translator_does_works_together(numbers: Path, shaken: Path) -> None:
    together = load(numbers, ensemble=[shaken])
    assert list(together.stream(SENTENCES[0]))[-1] == together.translate(SENTENCES[0]).text
    aligned = together.translate(SENTENCES[0], align=True)
    assert aligned.alignment is not None
    assert aligned.alignment.pharaoh()
    drawn = together.translate(SENTENCES[0], sampling=True, seed=3)
    assert drawn.text == together.translate(SENTENCES[0], sampling=True, seed=3).text
    assert together.engine_for()[0].name == "torch"
    with pytest.raises(RequestError, match="look at one of them"):
        together.look(SENTENCES[0])


def test_other_vocabularies_and_engines_are_refused(numbers: Path, foreign: Path, shaken: Path) -> None:
    with pytest.raises(RequestError, match=r"vocabularies differ.*train\.seed"):
        load(numbers, ensemble=[shaken, foreign])
    with pytest.raises(RequestError, match="single model; use engine torch"):
        load(numbers, engine="ctranslate2", ensemble=[shaken])


def glass(*arguments: object) -> None:
    app([str(argument) for argument in arguments], result_action="return_value")


def test_on_the_command_line(
    numbers: Path, shaken: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    glass("translate", "-v", "--model", numbers, "--ensemble", shaken, SENTENCES[0])
    said = capfdbinary.readouterr()
    assert said.out.decode().strip() == load(numbers, ensemble=[shaken]).translate(SENTENCES[0]).text
    assert f"{numbers} + {shaken}" in said.err.decode()
    (tmp_path / "source").write_text("".join(f"{line}\n" for line in SENTENCES), "utf-8")
    (tmp_path / "reference").write_text("".join(f"{line}\n" for line in CHINESE), "utf-8")
    files = ("--source", tmp_path / "source", "--reference", tmp_path / "reference")
    both = ("--model", numbers, "--ensemble", numbers, numbers)
    glass("evaluate", *both, *files, "--metric", "exact", "--bootstrap", "0")
    assert "100.00" in capfdbinary.readouterr().out.decode()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("translate --ensemble a text", "--model DIR"),
        ("evaluate --ensemble a --reference r --hypotheses h", "--model DIR"),
        ("evaluate --model m --ensemble a --text t", "only models that translate"),
    ],
)
def test_an_ensemble_of_nothing_is_refused(command: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        glass(*command.split())
