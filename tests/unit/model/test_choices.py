"""Every construction choice with every other one: a grid that contains each pair of values at least once."""

from __future__ import annotations

import dataclasses
import itertools
import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from glassformer import settings
from glassformer.config import DROPOUTS, ModelConfig
from glassformer.model.build import build_model
from glassformer.model.transformer import Transformer
from glassformer.weights import read_safetensors, write_safetensors
from tests.unit.model.models import vocabulary

VALUES: dict[str, list[object]] = {
    "norm": ["post", "pre"],
    "norm_kind": ["layer", "rms"],
    "activation": ["relu", "gelu", "silu", "swiglu"],
    "positions": ["sinusoidal", "learned", "rotary", "alibi", "none"],
    "score": ["scaled_dot", "additive", "bilinear", "projected"],
    "scale": ["sqrt", "init"],
    "query_key_norm": [False, True],
    "tied": ["all", "output", "none"],
    "key_value_heads": [0, 1, 2],
    "head_width": [0, 6],
    "value_width": [0, 5],
    "attention_bias": [True, False],
    "output_bias": [False, True],
    "scale_embeddings": [True, False],
    "neighbours": [0, 3],
}
SHAPE = {
    "encoder_layers": 1,
    "decoder_layers": 1,
    "width": 16,
    "feed_forward": 32,
    "heads": 4,
    "max_length": 32,
    "neighbour_rows": 50,
}


def pairwise() -> tuple[list[dict[str, object]], set[frozenset[tuple[str, object]]]]:
    """Combinations that are not refused, until each possible pair of values has been in one; and the pairs
    that no sensible combination can hold."""
    draw = random.Random(0)
    wanted = {
        frozenset([(a, x), (b, y)])
        for a, b in itertools.combinations(VALUES, 2)
        for x in VALUES[a]
        for y in VALUES[b]
    }
    rows: list[dict[str, object]] = []
    impossible: set[frozenset[tuple[str, object]]] = set()
    while wanted:
        best: dict[str, object] = {}
        goal = min(wanted, key=sorted_text)
        for _ in range(60):
            row = {key: draw.choice(values) for key, values in VALUES.items()} | dict(goal)
            if ModelConfig(**{**SHAPE, **row}).problems():  # type: ignore[arg-type]
                continue
            if not best or covered(row, wanted) > covered(best, wanted):
                best = row
        if best:
            rows.append(best)
            wanted -= {frozenset(pair) for pair in itertools.combinations(best.items(), 2)}
        else:
            impossible.add(goal)
            wanted.remove(goal)
    return rows, impossible


def sorted_text(pair: frozenset[tuple[str, object]]) -> list[str]:
    return sorted(map(str, pair))


def covered(row: dict[str, object], wanted: set[frozenset[tuple[str, object]]]) -> int:
    return sum(frozenset(pair) in wanted for pair in itertools.combinations(row.items(), 2))


ROWS, IMPOSSIBLE = pairwise()


def copy_batch(step: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sentences of one to five tokens; the target is the source."""
    generator = torch.Generator().manual_seed(step)
    lengths = torch.randint(1, 6, (32,), generator=generator)
    source = torch.randint(2, 11, (32, 5), generator=generator)
    source[torch.arange(5) >= lengths[:, None]] = 11
    target_in = torch.cat([torch.full((32, 1), 11), source], dim=1)
    target_out = torch.cat([source, torch.full((32, 1), 11)], dim=1)
    target_out[torch.arange(32), lengths] = 0
    return source, lengths, target_in, target_out


def train(model: Transformer, steps: int = 30) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        source, lengths, target_in, target_out = copy_batch(step)
        logits = model.decode(model.encode(source, lengths), target_in)
        loss = F.cross_entropy(logits[target_out != 11], target_out[target_out != 11])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(str(v) for v in row.values()))
def test_each_combination_trains_decodes_and_saves(row: dict[str, object], tmp_path: Path) -> None:
    config = settings.from_mapping(ModelConfig, {**SHAPE, **row})
    torch.manual_seed(0)
    model = build_model(config, vocabulary(12))
    losses = train(model)
    assert sum(losses[-5:]) / 5 < 0.87 * losses[0], losses

    model.eval()
    source, lengths, target_in, _ = copy_batch(99)
    with torch.no_grad():
        memory = model.encode(source, lengths)
        full, state = model.decode(memory, target_in).log_softmax(-1), model.start(memory)
        for t in range(target_in.shape[1]):
            log_probs, state = model.step(target_in[:, t : t + 1], state)
            torch.testing.assert_close(log_probs[:, 0, :-1], full[:, t, :-1], atol=2e-5, rtol=1e-5)

    write_safetensors(tmp_path / "model.safetensors", dict(model.named_parameters()))
    loaded = build_model(config, vocabulary(12)).eval()
    missing = loaded.load_state_dict(read_safetensors(tmp_path / "model.safetensors"), strict=False)
    assert not missing.unexpected_keys
    with torch.no_grad():
        again = loaded.decode(loaded.encode(source, lengths), target_in).log_softmax(-1)
    assert torch.equal(again, full)


def test_only_known_contradictions_are_left_out() -> None:
    assert {frozenset(map(str, pair)) for pair in IMPOSSIBLE} == {
        frozenset(map(str, pair))
        for pair in (
            [("positions", "rotary"), ("score", "additive")],
            [("positions", "rotary"), ("score", "bilinear")],
            [("positions", "rotary"), ("score", "projected")],
            [("scale", "init"), ("query_key_norm", True)],
            [("scale", "init"), ("score", "additive")],
        )
    }


def test_the_grid_knows_every_choice() -> None:
    """A new field of ModelConfig must be put into the grid, or named here as a mere size."""
    sizes = {*SHAPE, *DROPOUTS, "patch"}
    elsewhere = {"architecture", "recurrent_attention"}  # test_recurrent.py
    assert {field.name for field in dataclasses.fields(ModelConfig)} == sizes | set(VALUES) | elsewhere
