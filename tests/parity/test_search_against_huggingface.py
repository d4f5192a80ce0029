"""Our search and `generate` of Hugging Face over the very same network: same tokens, same scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.search.beam import beam
from glassformer.search.greedy import greedy

transformers = pytest.importorskip("transformers")

SIZE, EOS, PAD = 60, 0, 59
LONGEST = 14


@pytest.fixture(scope="module")
def marian() -> Any:
    torch.manual_seed(1)
    config = transformers.MarianConfig(
        vocab_size=SIZE,
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        init_std=0.8,
    )
    model = transformers.MarianMTModel(config).eval().double()
    with torch.no_grad():
        model.final_logits_bias[0, PAD] = -1e6
        model.final_logits_bias[0, EOS] = 5.0  # sentences of all lengths, some cut at the maximum
    return model


@pytest.fixture(scope="module")
def sources() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    lengths_B = torch.randint(2, 9, (24,), generator=generator)
    source_BS = torch.randint(2, PAD, (24, 9), generator=generator)
    may_attend_BS = torch.arange(9) < lengths_B[:, None]
    source_BS = source_BS.masked_fill(~may_attend_BS, PAD)
    return source_BS, may_attend_BS.long()


@dataclass
class WholeState:
    """All that was said, so that the network reads it anew at each step: slow, and nothing can go wrong."""

    memory_BSD: Tensor
    may_attend_BS: Tensor
    said_BNT: Tensor

    def reorder(self, parents_BN: Tensor) -> None:
        self.said_BNT = self.said_BNT.gather(1, parents_BN[..., None].expand_as(self.said_BNT))

    def keep(self, rows: Tensor) -> None:
        self.memory_BSD, self.may_attend_BS = self.memory_BSD[rows], self.may_attend_BS[rows]
        self.said_BNT = self.said_BNT[rows]


def ours(model: Any, sources: tuple[Tensor, Tensor], beams: int, **options: Any) -> list[Any]:
    source_BS, may_attend_BS = sources
    batch = len(source_BS)

    def step(last_BN: Tensor, state: WholeState) -> tuple[Tensor, WholeState]:
        state.said_BNT = torch.cat([state.said_BNT, last_BN[..., None]], -1)
        n = last_BN.shape[1]
        logits_XTV = model(
            encoder_outputs=(state.memory_BSD.repeat_interleave(n, 0),),
            attention_mask=state.may_attend_BS.repeat_interleave(n, 0),
            decoder_input_ids=state.said_BNT.flatten(0, 1),
            use_cache=False,
        ).logits
        return logits_XTV[:, -1].log_softmax(-1).unflatten(0, (-1, n)), state

    with torch.inference_mode():
        memory_BSD = model.get_encoder()(source_BS, attention_mask=may_attend_BS).last_hidden_state
        empty_BNT = torch.empty(batch, beams, 0, dtype=torch.long)
        state = WholeState(memory_BSD, may_attend_BS, empty_BNT)
        fixed: dict[str, Any] = {"batch": batch, "start": PAD, "eos": EOS, "max_lengths": [LONGEST] * batch}
        if beams == 1 and not options.pop("as_beam", False):
            return greedy(step, state, **fixed, **options)
        return beam(step, state, beams=beams, **fixed, **options)


def theirs(
    model: Any, sources: tuple[Tensor, Tensor], beams: int, **options: Any
) -> tuple[list[Any], list[Any]]:
    """Tokens (without start, end and padding) and scores, `n_best` for each sentence."""
    source_BS, may_attend_BS = sources
    n_best = options.pop("n_best", 1)
    found = model.generate(
        source_BS,
        attention_mask=may_attend_BS,
        num_beams=beams,
        num_return_sequences=n_best,
        early_stopping=beams > 1,
        max_new_tokens=LONGEST,
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
        **options,
    )
    rows = [[token for token in row[1:] if token not in (EOS, PAD)] for row in found.sequences.tolist()]
    scores = found.sequences_scores.tolist() if beams > 1 else [None] * len(rows)
    grouped = range(0, len(rows), n_best)
    return [rows[at : at + n_best] for at in grouped], [scores[at : at + n_best] for at in grouped]


@pytest.mark.parametrize("beams", [1, 2, 4, 7])
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize(("min_length", "no_repeat"), [(0, 0), (5, 0), (0, 2), (3, 1)])
def test_same_tokens_and_scores(
    marian: Any, sources: Any, beams: int, length_penalty: float, min_length: int, no_repeat: int
) -> None:
    n_best = min(beams, 3)
    options: dict[str, Any] = {} if beams == 1 else {"n_best": n_best}
    found = ours(
        marian,
        sources,
        beams,
        length_penalty=length_penalty,
        min_length=min_length,
        no_repeat_ngram=no_repeat,
        **options,
    )
    asked: dict[str, Any] = {"n_best": n_best, "no_repeat_ngram_size": no_repeat}
    if min_length:
        asked["min_new_tokens"] = min_length
    if beams > 1:
        asked["length_penalty"] = length_penalty
    tokens, scores = theirs(marian, sources, beams, **asked)
    assert [[h.tokens for h in row] for row in found] == tokens
    if beams > 1:
        for row, expected in zip(found, scores, strict=True):
            assert [h.score for h in row] == pytest.approx(expected, abs=1e-5)
    if not (min_length or no_repeat):
        lengths = {len(row[0]) for row in tokens}
        assert len(lengths) >= 3  # the test sees short, long and cut sentences


def test_a_beam_of_one_is_their_greedy(marian: Any, sources: Any) -> None:
    found = ours(marian, sources, 1, as_beam=True)
    tokens, _ = theirs(marian, sources, 1)
    assert [[h.tokens for h in row] for row in found] == tokens
