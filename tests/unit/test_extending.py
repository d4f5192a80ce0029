"""docs/EXTENDING.md is run as it stands, and what it plugs in works everywhere."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from glassformer import extend, settings
from glassformer.bundle import load_weights, weights_of, write_safetensors
from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.errors import ConfigError
from glassformer.model.build import build_model
from glassformer.model.record import record
from glassformer.model.scores import Score
from glassformer.model.transformer import Transformer
from glassformer.recipe import Recipe

PAGE = Path(__file__).resolve().parents[2] / "docs" / "EXTENDING.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
PYTHON = [text for language, text in BLOCKS if language == "python"]
TOML = [text for language, text in BLOCKS if language == "toml"]

OWN = {"score": "cosine", "positions": "relative", "norm_kind": "scale"}
VOCABULARY = VocabularyConfig(20, 20, True, 0, 1, 19, 19, 19)


@pytest.fixture(autouse=True)
def page() -> Iterator[dict[str, Any]]:
    """Every Python block of the page, run in one namespace; afterwards nothing stays plugged in."""
    parts = [extend.SCORES, extend.ADDED_POSITIONS, extend.ATTENTION_POSITIONS, extend.NORMS]
    before = [dict(part) for part in parts]
    namespace: dict[str, Any] = {"__name__": "extending"}
    exec(compile("\n".join(PYTHON), str(PAGE), "exec"), namespace)
    yield namespace
    for part, old in zip(parts, before, strict=True):
        part.clear()
        part.update(old)


def own_model(norm: str = "pre", **choices: str) -> Transformer:
    torch.manual_seed(0)
    config = ModelConfig(2, 2, 16, 32, 4, norm=norm, dropout=0.0, attention_dropout=0.0, **choices)  # type: ignore[arg-type]
    model = build_model(config, VOCABULARY).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        model.source_embedding.weight_VD[19] = 0.0
    return model


def test_the_page_does_what_it_says(page: dict[str, Any]) -> None:
    model = page["model"]
    assert all(type(layer.attention.score) is page["Cosine"] for layer in model.encoder.layers)
    assert all(type(layer.cross.score) is page["Cosine"] for layer in model.decoder.layers)
    assert page["out_BHTK"].shape == (2, 4, 5, 8)
    torch.testing.assert_close(page["weights_BHTS"].sum(-1), torch.ones(2, 4, 5))
    assert page["states_BSD"].shape == (2, 5, 32)
    assert bool(page["states_BSD"].isfinite().all())


def test_each_part_takes_about_twenty_lines() -> None:
    trees = [ast.parse(text) for text in PYTHON]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    assert [node.name for node in classes] == ["Cosine", "Relative", "ScaleNorm"]
    for node in classes:
        assert node.end_lineno - node.decorator_list[0].lineno < 20  # type: ignore[operator]


@pytest.mark.parametrize("own", [{key: name} for key, name in OWN.items()] + [OWN], ids=str)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_own_parts_train_decode_with_the_cache_and_are_seen(own: dict[str, str], norm: str) -> None:
    model = own_model(norm, **own)
    source_BS = torch.tensor([[5, 6, 7, 8, 0], [9, 4, 0, 19, 19]])
    lengths_B = torch.tensor([5, 3])
    target_BT = torch.tensor([[19, 5, 6, 7, 8], [19, 9, 4, 0, 0]])
    names = {name for name, _ in model.named_parameters()}
    for key, part in (("score", "temperature_H11"), ("positions", "bias_HC"), ("norm_kind", "norm.gain")):
        assert any(part in name for name in names) == (key in own)

    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    losses = []
    for _ in range(15):
        logits_BTV = model.decode(model.encode(source_BS, lengths_B), target_BT)
        loss = F.cross_entropy(logits_BTV[:, :-1].flatten(0, 1), target_BT[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]

    model.eval()
    memory = model.encode(source_BS, lengths_B)
    state = model.start(memory)
    steps = [model.step(target_BT[:, t : t + 1], state)[0] for t in range(5)]
    expected = model.decode(memory, target_BT).log_softmax(-1)
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=1e-9, atol=1e-9)
    with record() as recorder:
        model.decode(memory, target_BT)
    assert recorder.attention["decoder.1.cross"][0].shape == (2, 4, 5, 5)


def test_names_stand_in_recipes_and_weights_come_back(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(TOML[0])
    recipe = settings.read(Recipe, tmp_path / "recipe.toml")
    assert {key: getattr(recipe.model, key) for key in OWN} == OWN
    assert settings.from_mapping(ModelConfig, settings.to_mapping(recipe.model)) == recipe.model
    model = own_model(**OWN)
    write_safetensors(tmp_path / "model.safetensors", weights_of(model))
    again = own_model(**OWN)
    for parameter in again.parameters():
        parameter.data.zero_()
    load_weights(again, tmp_path / "model.safetensors", VOCABULARY)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), model.parameters(), strict=True))


def test_what_is_not_plugged_in_is_refused_by_name() -> None:
    mapping = settings.to_mapping(ModelConfig(score="cosine"))  # type: ignore[arg-type]
    extend.SCORES.clear()
    with pytest.raises(ConfigError, match=r"score = 'cosine': choose scaled_dot .* plugged in first"):
        settings.from_mapping(ModelConfig, mapping)
    for choice in ({"score": "cosine"}, {"positions": "rotten"}, {"norm_kind": "layr"}, {"norm": "after"}):
        with pytest.raises(ConfigError, match=f"model.{next(iter(choice))} = "):
            build_model(ModelConfig(2, 2, 16, 32, 4, **choice), VOCABULARY)  # type: ignore[arg-type]


def test_built_in_names_are_taken_and_own_ones_may_be_given_anew(page: dict[str, Any]) -> None:
    for plug_in, name in (
        (extend.score, "scaled_dot"),
        (extend.norm, "layer"),
        (extend.added_positions, "alibi"),
        (extend.attention_positions, "none"),
    ):
        with pytest.raises(ConfigError, match=f"{name!r} is there already"):
            plug_in(name)

    class Other(Score):
        pass

    assert extend.score("cosine")(lambda heads, head_width: Other()) is extend.SCORES["cosine"]
    assert "cosine" in extend.names("score")  # beside what other tests may have plugged in
    model = build_model(ModelConfig(1, 1, 16, 32, 4, score="cosine"), VOCABULARY)  # type: ignore[arg-type]
    assert type(model.encoder.layers[0].attention.score) is Other


def test_positions_may_be_added_to_embeddings_and_act_in_attention_at_once(page: dict[str, Any]) -> None:
    class Marks(page["Positions"]):  # type: ignore[misc]
        def embed(self, x_BTD: torch.Tensor, places: range) -> torch.Tensor:
            return x_BTD + torch.arange(places.start, places.stop)[:, None]

    extend.added_positions("both")(lambda width: Marks())
    extend.attention_positions("both")(page["Relative"])
    assert extend.names("positions") == ["both", "relative"]
    model = build_model(ModelConfig(1, 1, 16, 32, 4, positions="both"), VOCABULARY)  # type: ignore[arg-type]
    assert type(model.source_embedding.positions) is Marks
    assert type(model.decoder.layers[0].attention.positions) is page["Relative"]


def test_a_file_of_own_parts_hands_over_to_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "my_parts.py").write_text("\n".join(PYTHON[:4]))
    (tmp_path / "recipe.toml").write_text(TOML[0])
    done = subprocess.run(
        [sys.executable, "my_parts.py", "config", "recipe.toml"],
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'score = "cosine"' in done.stdout
