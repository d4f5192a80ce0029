"""Our stacks = torch.nn.Transformer with the same weights, to 1e-10 in float64; and back, bit for bit."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

from glassformer.compat import (
    decoder_from_torch,
    decoder_to_torch,
    encoder_from_torch,
    encoder_to_torch,
    from_torch,
    to_torch,
)
from glassformer.model.build import count_parameters
from glassformer.model.record import record
from glassformer.model.stacks import Decoder, Encoder
from glassformer.model.state import Memory, may_attend_lengths

WIDTH, SOURCE, TARGET = 16, 7, 5
LENGTHS = torch.tensor([7, 3, 1, 5])


def torch_model(
    norm_first: bool = False,
    activation: str = "relu",
    bias: bool = True,
    batch_first: bool = True,
    dropout: float = 0.1,
) -> nn.Transformer:
    """Three layers of random weights: the zeros and ones of a fresh model would hide a lost one."""
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch: no nested tensors with these options
        module = nn.Transformer(
            WIDTH, 4, 3, 3, 32, dropout, activation, layer_norm_eps=1e-4,
            batch_first=batch_first, norm_first=norm_first, bias=bias, dtype=torch.float64,
        )  # fmt: skip
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def sentences() -> tuple[Tensor, Tensor]:
    torch.manual_seed(4)
    source_BSD = torch.randn(len(LENGTHS), SOURCE, WIDTH, dtype=torch.float64, requires_grad=True)
    target_BTD = torch.randn(len(LENGTHS), TARGET, WIDTH, dtype=torch.float64, requires_grad=True)
    return source_BSD, target_BTD


def run_torch(module: nn.Transformer, source_BSD: Tensor, target_BTD: Tensor) -> Tensor:
    padding_BS = torch.arange(SOURCE) >= LENGTHS[:, None]
    causal_TT = nn.Transformer.generate_square_subsequent_mask(TARGET, dtype=torch.float64)
    given = [source_BSD, target_BTD]
    if not module.batch_first:
        given = [x.transpose(0, 1) for x in given]
    out = module(
        *given, tgt_mask=causal_TT, src_key_padding_mask=padding_BS, memory_key_padding_mask=padding_BS
    )
    return out if module.batch_first else out.transpose(0, 1)


def run_ours(encoder: Encoder, decoder: Decoder, source_BSD: Tensor, target_BTD: Tensor) -> Tensor:
    states_BSD = encoder(source_BSD, may_attend_lengths(LENGTHS, SOURCE))
    return decoder(target_BTD, Memory(states_BSD, LENGTHS))


CHOICES = [
    {"norm_first": norm_first, "activation": activation, "bias": bias, "batch_first": batch_first}
    for norm_first in (False, True)
    for activation in ("relu", "gelu")
    for bias, batch_first in ((True, True), (False, True), (True, False))
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
def test_from_torch_computes_the_same(choices: dict[str, bool], explicit: bool) -> None:
    module = torch_model(**choices).eval()  # type: ignore[arg-type]
    encoder, decoder = from_torch(module)
    source_BSD, target_BTD = sentences()
    expected = run_torch(module, source_BSD, target_BTD)
    if explicit:
        with record():
            found = run_ours(encoder, decoder, source_BSD, target_BTD)
    else:
        found = run_ours(encoder, decoder, source_BSD, target_BTD)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    direction = torch.randn_like(expected)
    for mine, theirs in zip(
        torch.autograd.grad(found, [source_BSD, target_BTD], direction),
        torch.autograd.grad(expected, [source_BSD, target_BTD], direction),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm_first", [False, True])
def test_torchs_fast_path_gives_the_same_at_real_places(norm_first: bool) -> None:
    """Without gradients torch's encoder drops the padding: only real places can be compared."""
    module = torch_model(norm_first).eval()
    encoder, _ = from_torch(module)
    source_BSD, _ = sentences()
    real_BS = torch.arange(SOURCE) < LENGTHS[:, None]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch: nested tensors are a prototype
        expected = module.encoder(source_BSD, src_key_padding_mask=~real_BS)
        found = encoder(source_BSD, may_attend_lengths(LENGTHS, SOURCE))
    torch.testing.assert_close(found[real_BS], expected[real_BS], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm_first", [False, True])
def test_step_by_step_gives_what_torch_gives_at_once(norm_first: bool) -> None:
    """Torch has no cache; ours, filled by torch's weights, must end where torch ends."""
    module = torch_model(norm_first).eval()
    encoder, decoder = from_torch(module)
    source_BSD, target_BTD = sentences()
    memory = Memory(encoder(source_BSD, may_attend_lengths(LENGTHS, SOURCE)), LENGTHS)
    state = decoder.start(memory, beams=1)
    steps = [decoder.step(target_BTD[:, t : t + 1], state) for t in range(TARGET)]
    torch.testing.assert_close(
        torch.cat(steps, dim=1), run_torch(module, source_BSD, target_BTD), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_there_and_back_is_the_same_bit_for_bit(choices: dict[str, bool]) -> None:
    module = torch_model(**choices)  # type: ignore[arg-type]
    again = to_torch(*from_torch(module), batch_first=choices["batch_first"])
    before, after = module.state_dict(), again.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    source_BSD, target_BTD = sentences()
    assert again.training
    torch.testing.assert_close(
        run_torch(again.eval(), source_BSD, target_BTD),
        run_torch(module.eval(), source_BSD, target_BTD),
        rtol=1e-13,
        atol=1e-13,
    )
    assert [str(m) for m in again.modules() if isinstance(m, (nn.Dropout, nn.LayerNorm))] == [
        str(m) for m in module.modules() if isinstance(m, (nn.Dropout, nn.LayerNorm))
    ]
    assert {m.dropout for m in again.modules() if isinstance(m, nn.MultiheadAttention)} == {0.1}


def test_weights_are_copies() -> None:
    module = torch_model().eval()
    encoder, decoder = from_torch(module)
    source_BSD, target_BTD = sentences()
    before = run_ours(encoder, decoder, source_BSD, target_BTD)
    for parameter in module.parameters():
        parameter.data.zero_()
    assert torch.equal(run_ours(encoder, decoder, source_BSD, target_BTD), before)


def test_converting_draws_no_random_numbers() -> None:
    module = torch_model()
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    encoder, decoder = from_torch(module)
    to_torch(encoder, decoder)
    assert torch.equal(torch.rand(1), expected)


def test_single_stacks_convert_too() -> None:
    module = torch_model(norm_first=True)
    encoder, decoder = encoder_from_torch(module.encoder), decoder_from_torch(module.decoder)
    for stack, theirs in (
        (encoder_to_torch(encoder), module.encoder),
        (decoder_to_torch(decoder), module.decoder),
    ):
        assert all(torch.equal(w, theirs.state_dict()[name]) for name, w in stack.state_dict().items())


def test_the_default_model_has_the_parameters_that_torch_counts() -> None:
    with torch.device("meta"):
        module = nn.Transformer(batch_first=True)
    assert count_parameters(module) == 44_140_544
    encoder, decoder = from_torch(module)
    assert count_parameters(encoder) + count_parameters(decoder) == 44_140_544
    assert count_parameters(to_torch(encoder, decoder)) == 44_140_544
