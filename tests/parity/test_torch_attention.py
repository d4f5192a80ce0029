"""Our drop-in = torch.nn.MultiheadAttention: outputs, weights and gradients, over a grid of everything."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from glassformer.compat import MultiheadAttention

MASKS = ["none", "bool 2-D", "bool 3-D", "float 2-D", "float 3-D", "byte 2-D", "byte 3-D", "causal"]
PADDINGS = ["none", "bool", "float", "byte"]


@dataclass(frozen=True)
class Case:
    """One point of the grid."""

    seed: int
    batch: int
    target: int
    source: int
    heads: int
    head_width: int
    self_attention: bool
    other_widths: bool
    bias: bool
    add_bias_kv: bool
    add_zero_attn: bool
    batch_first: bool
    unbatched: bool
    mask: str
    padding: str
    is_causal: bool
    need_weights: bool
    average: bool

    @property
    def width(self) -> int:
        return self.heads * self.head_width


cases = st.builds(
    Case,
    seed=st.integers(0, 1_000_000),
    batch=st.integers(1, 3),
    target=st.integers(1, 5),
    source=st.integers(1, 5),
    heads=st.integers(1, 4),
    head_width=st.integers(1, 4),
    self_attention=st.booleans(),
    other_widths=st.booleans(),
    bias=st.booleans(),
    add_bias_kv=st.booleans(),
    add_zero_attn=st.booleans(),
    batch_first=st.booleans(),
    unbatched=st.booleans(),
    mask=st.sampled_from(MASKS),
    padding=st.sampled_from(PADDINGS),
    is_causal=st.booleans(),
    need_weights=st.booleans(),
    average=st.booleans(),
)


def modules(case: Case, dropout: float = 0.0) -> tuple[nn.MultiheadAttention, MultiheadAttention]:
    """Torch's and ours with the same weights, biases included."""
    widths = {"kdim": case.width + 1, "vdim": case.width + 2} if other_widths(case) else {}
    options = {"bias": case.bias, "add_bias_kv": case.add_bias_kv, "add_zero_attn": case.add_zero_attn}
    torch.manual_seed(case.seed)
    theirs = nn.MultiheadAttention(
        case.width,
        case.heads,
        dropout,
        batch_first=case.batch_first,
        dtype=torch.float64,
        **options,
        **widths,
    )
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.7)
    ours = MultiheadAttention(
        case.width,
        case.heads,
        dropout,
        batch_first=case.batch_first,
        dtype=torch.float64,
        **options,
        **widths,
    )
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def other_widths(case: Case) -> bool:
    return case.other_widths and not case.self_attention


def inputs(case: Case) -> list[Tensor]:
    target, source = lengths(case)
    if case.self_attention:
        shapes = [(target, case.width)]
    elif other_widths(case):
        shapes = [(target, case.width), (source, case.width + 1), (source, case.width + 2)]
    else:
        shapes = [(target, case.width), (source, case.width), (source, case.width)]
    made = []
    for length, width in shapes:
        batched = (case.batch, length, width) if case.batch_first else (length, case.batch, width)
        shape = (length, width) if case.unbatched else batched
        made.append(torch.randn(shape, dtype=torch.float64, requires_grad=True))
    return made


def lengths(case: Case) -> tuple[int, int]:
    return case.target, case.target if case.self_attention else case.source


def masks(case: Case) -> tuple[Tensor | None, Tensor | None]:
    """attn_mask and key_padding_mask that hide some keys, but never all (there torch gives NaN)."""
    target, source = lengths(case)
    batch = 1 if case.unbatched else case.batch
    hidden = torch.rand(batch, case.heads, target, source) < 0.4
    padded = torch.rand(batch, source) < 0.4
    padded[:, 0] = False
    hidden[..., 0] = False
    mask: Tensor | None = hidden.flatten(0, 1) if case.mask.endswith("3-D") else hidden[0, 0]
    if case.mask == "causal":
        mask = torch.ones(target, source, dtype=torch.bool).triu(1)
    padding: Tensor | None = padded[0] if case.unbatched else padded
    return as_kind(mask, case.mask), as_kind(padding, case.padding)


def as_kind(mask: Tensor | None, kind: str) -> Tensor | None:
    assert mask is not None
    if kind == "none":
        return None
    if kind.startswith("byte"):
        return mask.to(torch.uint8) * 3
    if kind.startswith("float"):
        return torch.randn(mask.shape, dtype=torch.float64).masked_fill(mask, float("-inf"))
    return mask


def call(
    module: nn.MultiheadAttention,
    case: Case,
    given_: list[Tensor],
    mask: Tensor | None,
    padding: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    query, key, value = given_ * 3 if case.self_attention else given_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch: masks of two types
        return module(
            query,
            key,
            value,
            key_padding_mask=padding,
            need_weights=case.need_weights,
            attn_mask=mask,
            average_attn_weights=case.average,
            is_causal=case.is_causal and case.mask == "causal",
        )


def as_torch_takes(mask: Tensor | None) -> Tensor | None:
    """Torch no longer takes bytes: what they meant, as bool."""
    return mask.bool() if mask is not None and mask.dtype == torch.uint8 else mask


def gradients(outputs: tuple[Tensor, Tensor | None], wanted: list[Tensor], seed: int) -> list[Tensor | None]:
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros((), dtype=torch.float64)
    for output in outputs:
        if output is not None:
            total = (
                total + (output * torch.randn(output.shape, generator=generator, dtype=output.dtype)).sum()
            )
    return list(torch.autograd.grad(total, wanted, allow_unused=True))


def assert_same(case: Case, dropout: float = 0.0) -> None:
    theirs, ours = modules(case, dropout)
    given_, (mask, padding) = inputs(case), masks(case)
    torch.manual_seed(case.seed)
    expected = call(theirs, case, given_, as_torch_takes(mask), as_torch_takes(padding))
    torch.manual_seed(case.seed)
    found = call(ours, case, given_, mask, padding)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-11, atol=1e-11)
    assert (found[1] is None) == (expected[1] is None)
    if expected[1] is not None:
        torch.testing.assert_close(found[1], expected[1], rtol=1e-11, atol=1e-11)
    for mine, right, name in zip(
        gradients(found, [*given_, *ours.parameters()], case.seed),
        gradients(expected, [*given_, *theirs.parameters()], case.seed),
        ["query", "key", "value"][: len(given_)] + [name for name, _ in ours.named_parameters()],
        strict=True,
    ):
        # a part that takes no part gets None from the one and zeros from the other
        mine = torch.zeros(1) if mine is None else mine
        right = torch.zeros_like(mine) if right is None else right
        torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")


@settings(max_examples=600)
@given(case=cases)
def test_outputs_weights_and_gradients_are_torchs(case: Case) -> None:
    assert_same(case)


@settings(max_examples=150)
@given(case=cases)
def test_dropout_draws_what_torch_draws(case: Case) -> None:
    """Same seed, same dropped weights; torch hands out the weights after dropout, and so do we."""
    assert_same(case, dropout=0.3)


@settings(max_examples=200)
@given(case=cases)
def test_torchs_fast_path_gives_the_same(case: Case) -> None:
    """In evaluation without gradients torch may take a kernel of its own."""
    theirs, ours = (module.eval() for module in modules(case))
    given_, (mask, padding) = inputs(case), masks(case)
    with torch.no_grad():
        expected = call(theirs, case, given_, as_torch_takes(mask), as_torch_takes(padding))
        found = call(ours, case, given_, mask, padding)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-10)
    if expected[1] is not None:
        torch.testing.assert_close(found[1], expected[1], rtol=1e-10, atol=1e-10)


@settings(max_examples=200)
@given(case=cases)
def test_our_explicit_and_fused_twins_agree(case: Case) -> None:
    """need_weights chooses the twin. A true hint changes nothing, unless keys are added at the end."""
    _, ours = modules(case)
    given_, (mask, padding) = inputs(case), masks(case)
    if case.is_causal and case.mask == "causal" and (case.add_bias_kv or case.add_zero_attn):
        return
    query, key, value = given_ * 3 if case.self_attention else given_
    hint = case.is_causal and case.mask == "causal"
    explicit, fused = (
        ours(query, key, value, padding, need_weights=weights, attn_mask=mask, is_causal=hint)[0]
        for weights in (True, False)
    )
    torch.testing.assert_close(fused, explicit, rtol=1e-12, atol=1e-12)
    for mine, right in zip(
        gradients((fused, None), given_, case.seed),
        gradients((explicit, None), given_, case.seed),
        strict=True,
    ):
        torch.testing.assert_close(mine, right, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_float_mask_can_be_learned(need_weights: bool) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(8, 2, dtype=torch.float64)
    ours = MultiheadAttention(8, 2, dtype=torch.float64)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(4, 3, 8, dtype=torch.float64)
    mask = torch.randn(4, 4, dtype=torch.float64).masked_fill(torch.eye(4).bool(), float("-inf"))
    grads = []
    for module in (theirs, ours):
        learned = mask.clone().requires_grad_()
        module(x, x, x, attn_mask=learned, need_weights=need_weights)[0].pow(2).sum().backward()
        grads.append(learned.grad)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-10, atol=1e-12)
