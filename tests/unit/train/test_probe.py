"""The dry run: its counting is right, and it measures something."""

from __future__ import annotations

import pytest

from glassformer import settings
from glassformer.model.build import count_parameters
from glassformer.recipe import Recipe
from glassformer.train import probe
from glassformer.train.distributed import Processes
from glassformer.train.prepare import Prepared, prepare
from tests.unit.train.conftest import NETWORK, make_pairs


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("probe")
    (folder / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in make_pairs()))
    mapping = {
        "model": NETWORK,
        "tokenizer": {"size": 280},
        "data": {"corpora": [{"pairs": str(folder / "a.tsv")}]},
        "train": {"batch_tokens": 100, "max_epochs": 3, "ema": 5, "accumulate": 2},
    }
    return prepare(settings.from_mapping(Recipe, mapping), folder, say=lambda text: None)


def test_an_epoch_is_counted_token_by_token(prepared: Prepared) -> None:
    feed = prepared.feed
    expected = sum(feed.batch(0, number).tokens for number in range(feed.count(0)))
    assert probe.epoch_tokens(prepared) == expected


def test_operations_are_six_a_weight_and_some_for_attention(prepared: Prepared) -> None:
    model = prepared.bundle.model
    flops = probe.flops_per_token(prepared)
    decoder = sum(p.numel() for p in model.decoder.parameters() if p.ndim == 2)
    assert flops > 6 * (decoder + model.output_weight.numel())
    assert flops < 9 * count_parameters(model)


def test_the_report_names_parts_memory_and_time(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SECONDS", 0.01)
    text = probe.dry_run(prepared, Processes())
    for part in (
        "source embedding",
        "encoder",
        "decoder",
        "tied to the above",
        "5 × the weights",
        "3 epochs",
    ):
        assert part in text
    assert f"all               {count_parameters(prepared.bundle.model):,}" in text


def test_muon_remembers_less(prepared: Prepared) -> None:
    recipe = settings.change(prepared.recipe, ["train.optimizer=muon"])
    changed = Prepared(**{**prepared.__dict__, "recipe": recipe})
    muon = probe._memory(changed, 0)[0]
    assert 4 < float(muon.split()[0]) < 5
    assert "one of Muon" in muon


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("train.max_steps=10", "10 updates"),
        ("train.max_minutes=1e-6", "1e-06 minutes"),
        ("train.patience=4", "or less if it stops improving"),
    ],
)
def test_the_nearest_limit_decides(prepared: Prepared, override: str, says: str) -> None:
    recipe = settings.change(prepared.recipe, [override])
    changed = Prepared(**{**prepared.__dict__, "recipe": recipe})
    assert says in probe._expected(changed, 1000, 60.0)
