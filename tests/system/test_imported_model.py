"""A Marian model of Hugging Face in all our rooms: translate, look, evaluate, fine-tune, export."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer import settings
from glassformer.bundle import Bundle
from glassformer.evaluate import evaluate
from glassformer.formats import argos, ctranslate2, huggingface
from glassformer.look.show import look
from glassformer.recipe import Recipe
from glassformer.train.report import Report
from glassformer.train.run import train
from glassformer.translate import Translator
from tests.foreign import ENGLISH, GERMAN, PAIRS, make_marian

pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_an_imported_model_is_at_home_everywhere(tmp_path: Path) -> None:
    make_marian(tmp_path / "hf", eos_first=False)
    huggingface.import_bundle(tmp_path / "hf", tmp_path / "bundle")
    before = Translator(Bundle.load(tmp_path / "bundle"), engine="torch").score(ENGLISH[:20], GERMAN[:20])

    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), "utf-8")
    recipe = settings.from_mapping(
        Recipe,
        {
            "data": {
                "corpora": [{"pairs": str(tmp_path / "pairs.tsv")}],
                "source_language": "en",
                "target_language": "de",
                "hold_out": 20,
            },
            "train": {
                "start_from": str(tmp_path / "bundle"),
                "max_steps": 60,
                "warmup": 10,
                "learning_rate": 0.003,
                "batch_tokens": 600,
                "validate_every": 60,
                "validate_bleu": 0,
                "threads": 1,
            },
        },
    )
    result = train(recipe, tmp_path / "run", report=Report())
    tuned = Bundle.load(result.path)
    assert tuned.config.vocabulary == Bundle.load(tmp_path / "bundle").config.vocabulary
    translator = Translator(tuned, engine="torch")
    after = translator.score(ENGLISH[:20], GERMAN[:20])
    assert sum(one.log_prob for one in after) > 0.7 * sum(one.log_prob for one in before)  # both are negative

    texts = [one.text for one in translator.translate(ENGLISH[:20])]
    assert evaluate(texts, [[line] for line in GERMAN[:20]], bootstrap=0).scores
    assert look(translator, ENGLISH[0]).translation == texts[0]
    fast = Translator(tuned, engine="ctranslate2").translate(ENGLISH[:20])
    assert [one.text for one in fast] == texts
    assert ctranslate2.export_bundle(tuned, tmp_path / "ct2").holds
    assert argos.export_bundle(tuned, tmp_path / "en_de.argosmodel").holds
    assert huggingface.export_bundle(tuned, tmp_path / "again").holds
