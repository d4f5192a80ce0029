"""Attention between tokens becomes links between words."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.align import Alignment, align, aligning, cross_attention, information, spans_of_ids, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  ", []),
        (" the  cat, ", ["the", "cat,"]),
        ("我爱 you。", ["我", "爱", "you", "。"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("สวัส", ["ส", "วั", "ส"]),
        ("e\u0301te\u0301 ok", ["e\u0301te\u0301", "ok"]),
        ("👍🏽 fine", ["👍🏽", "fine"]),
        ("が\u3099", ["が\u3099"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in words(text)] == expected


@given(st.text(max_size=60))
def test_words_hold_all_but_white_space(text: str) -> None:
    spans = words(text)
    assert all(start < end for start, end in spans)
    assert [span for pair in spans for span in pair] == sorted(span for pair in spans for span in pair)
    assert "".join(text[a:b] for a, b in spans) == "".join(c for c in text if not c.isspace())


def test_spans_follow_the_text_as_it_grows() -> None:
    pieces = {1: b"Hel", 2: b"lo", 3: b" w", 4: "é".encode()[:1], 5: "é".encode()[1:], 6: b"!"}

    def decode(ids: object) -> str:
        return b"".join(pieces[i] for i in ids).decode("utf-8", "replace")  # type: ignore[attr-defined]

    assert spans_of_ids([1, 2, 3, 4, 5, 6], decode) == [(0, 3), (3, 5), (5, 7), (7, 7), (7, 8), (8, 9)]
    assert spans_of_ids([], decode) == []
    assert spans_of_ids([1, 4], decode) == [(0, 3), (3, 4)]  # half a character at the end is shown as U+FFFD


def test_words_add_up_their_tokens() -> None:
    # source: "ab c" = a|b|c and the end; target: "X YZ" = X|Y|Z and the end
    weights_TS = torch.tensor(
        [[0.3, 0.3, 0.4, 0.0], [0.0, 0.2, 0.7, 0.1], [0.5, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]]
    )
    found = align(weights_TS, "ab c", [(0, 1), (1, 2), (2, 4)], "X YZ", [(0, 1), (1, 3), (3, 4)])
    assert (found.source_words, found.target_words) == (["ab", "c"], ["X", "YZ"])
    assert found.weights[0] == pytest.approx([0.6, 0.4])
    assert found.weights[1] == pytest.approx([0.35, 0.6])
    assert found.links == [(0, 0), (1, 1)]
    assert found.pharaoh() == "0-0 1-1"


def test_empty_sides() -> None:
    nothing = align(torch.ones(1, 1), "", [], "", [])
    assert nothing == Alignment([], [], [], [])
    assert align(torch.ones(2, 1), "", [], "x", [(0, 1)]).links == []
    assert align(torch.ones(1, 2), "x", [(0, 1)], "", []).links == []


def test_two_texts_stand_side_by_side() -> None:
    left = Alignment(["a"], ["x", "y"], [[1.0], [0.5]], [(0, 0), (0, 1)])
    right = Alignment(["b", "c"], ["z"], [[0.2, 0.8]], [(1, 0)])
    both = left + right
    assert both.weights == [[1.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.2, 0.8]]
    assert both.links == [(0, 0), (0, 1), (2, 2)]


def test_information_prefers_what_aligns() -> None:
    diagonal = torch.eye(4)
    uniform = torch.full((4, 4), 0.25)
    sink = torch.zeros(4, 4)
    sink[:, 0] = 1
    blurred = 0.7 * diagonal + 0.3 * uniform
    bits = information(torch.stack([uniform, sink, blurred, diagonal])).tolist()
    assert bits[0] == pytest.approx(0.0, abs=1e-6)
    assert bits[1] == pytest.approx(0.0, abs=1e-6)
    assert 0 < bits[2] < bits[3] == pytest.approx(torch.tensor(4.0).log().item())
    assert torch.equal(aligning(torch.stack([uniform, blurred, sink])), blurred)
    assert torch.equal(aligning(torch.ones(2, 1, 3)), torch.ones(1, 3))


def test_layers_are_taken_in_order() -> None:
    attention = {f"decoder.{layer}.cross": [torch.full((1, 2, 1, 1), float(layer))] for layer in (10, 2, 0)}
    attention["decoder.0.self"] = [torch.zeros(1, 2, 1, 1)]
    assert cross_attention(attention).flatten().tolist() == [0.0, 2.0, 10.0]
