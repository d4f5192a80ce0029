"""n-grams that have vectors of their own: a slow twin in plain Python, and independence of the batch."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.errors import ConfigError
from glassformer.model.build import build_model, build_reader
from glassformer.model.neighbours import FACTOR, PRIME, Neighbours
from tests.unit.model.models import SMALL, sentences, small_model, vocabulary

PAD = 19


def make_neighbours(longest: int = 4, rows: int = 50, dropout: float = 0.0) -> Neighbours:
    torch.manual_seed(1)
    neighbours = Neighbours(rows, 8, longest, PAD, dropout)
    torch.nn.init.normal_(neighbours.weight_RD)
    return neighbours


def slow_twin(neighbours: Neighbours, ids: list[int]) -> torch.Tensor:
    """Each n-gram spelled out: n // 2 tokens before the place, the place, and the rest after it."""
    rows = []
    for place in range(len(ids)):
        total = torch.zeros(8)
        for n in range(2, neighbours.longest + 1):
            code = n
            for k in range(place - n // 2, place - n // 2 + n):
                code = (code * FACTOR + (ids[k] if 0 <= k < len(ids) else PAD)) % PRIME
            total = total + neighbours.weight_RD[code % len(neighbours.weight_RD)]
        rows.append(total)
    return torch.stack(rows)


@pytest.mark.parametrize("longest", [2, 3, 4, 7])
@pytest.mark.parametrize("ids", [[5], [3, 4], [2, 3, 4, 5, 6, 7, 8, 0]], ids=len)
def test_the_sum_of_all_n_grams(longest: int, ids: list[int]) -> None:
    neighbours = make_neighbours(longest)
    torch.testing.assert_close(neighbours(torch.tensor([ids]))[0], slow_twin(neighbours, ids))


def test_n_grams_begin_by_saying_nothing() -> None:
    plain, with_them = (
        build_model(ModelConfig(**SMALL, neighbours=n, neighbour_rows=10), vocabulary()).eval()
        for n in (0, 3)
    )
    with_them.load_state_dict(plain.state_dict(), strict=False)
    source_BS, lengths_B, target_BT = sentences()
    one, other = (model.decode(model.encode(source_BS, lengths_B), target_BT) for model in (plain, with_them))
    torch.testing.assert_close(one, other)


def test_padding_in_the_batch_changes_nothing() -> None:
    model = small_model(neighbours=5, neighbour_rows=40)
    torch.nn.init.normal_(model.source_embedding.neighbours.weight_RD)
    source_BS, lengths_B, _ = sentences()
    together_BSD = model.encode(source_BS, lengths_B).states_BSD
    for row, length in enumerate(lengths_B.tolist()):
        alone_1SD = model.encode(source_BS[row : row + 1, :length], lengths_B[row : row + 1]).states_BSD
        torch.testing.assert_close(together_BSD[row, :length], alone_1SD[0])


def test_order_matters_and_so_does_the_size() -> None:
    neighbours = make_neighbours(longest=3, rows=1000)
    rows = [
        neighbours.rows(torch.tensor([ids]), n)[0, 1] for ids, n in [([2, 3], 2), ([3, 2], 2), ([2, 3], 3)]
    ]
    assert len({int(row) for row in rows}) == 3


def test_every_row_is_used_about_equally() -> None:
    neighbours = make_neighbours(longest=3, rows=64)
    ids = torch.randint(0, 200, (200, 100), generator=torch.Generator().manual_seed(1))
    counts = torch.bincount(neighbours.rows(ids, 3).flatten(), minlength=64)
    assert counts.min() > 200
    assert counts.max() < 450


def test_whole_n_grams_are_left_out_in_training() -> None:
    neighbours = make_neighbours(longest=2, dropout=0.5).train()
    torch.nn.init.ones_(neighbours.weight_RD)
    x_BTD = neighbours(torch.randint(0, 19, (50, 20))).detach()
    assert set(x_BTD.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(x_BTD.amin(-1), x_BTD.amax(-1))
    assert abs(float(x_BTD.mean()) - 1) < 0.15


def test_only_rows_that_were_read_learn() -> None:
    neighbours = make_neighbours(longest=2, rows=500)
    ids = [2, 3, 4, 5]
    neighbours(torch.tensor([ids])).sum().backward()
    read = {int(row) for row in neighbours.rows(torch.tensor([ids]), 2).flatten()}
    assert {int(row) for row in neighbours.weight_RD.grad.abs().sum(1).nonzero()} == read
    assert len(read) == len(list(pairwise([PAD, *ids])))


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        ({"neighbours": 1}, "neighbours = 1 must be 0, for none, or at least 2"),
        ({"neighbours": -2}, "neighbours = -2"),
        ({"neighbours": 3, "neighbour_rows": 0}, "neighbour_rows = 0"),
        ({"neighbours": 3, "neighbour_dropout": 1.0}, "neighbour_dropout = 1.0"),
    ],
)
def test_nonsense_is_refused(choices: dict[str, float], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        build_model(ModelConfig(**SMALL, **choices), vocabulary())


def test_the_family_says_that_it_has_none() -> None:
    config = ModelConfig(**SMALL, neighbours=3)
    with pytest.raises(ConfigError, match="works for task = 'translate' only"):
        build_reader("classify", config, VocabularyConfig(20, 5, False, source_pad=19, target_pad=4, start=4))
