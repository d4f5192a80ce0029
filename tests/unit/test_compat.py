from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.compat import MultiheadAttention, encoder_to_torch, from_torch, to_torch
from glassformer.config import ModelConfig, VocabularyConfig
from glassformer.errors import FormatError
from glassformer.model.build import build_model
from glassformer.model.state import Memory, may_attend_lengths

VOCABULARY = VocabularyConfig(20, 20, True, 0, 1, 19, 19, 19)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"kdim": 5, "vdim": 7},
        {"add_bias_kv": True, "add_zero_attn": True},
        {"kdim": 5, "add_bias_kv": True, "bias": False, "dtype": torch.float64},
    ],
    ids=str,
)
def test_weights_start_as_torchs_and_go_both_ways(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(8, 2, **options)
    torch.manual_seed(0)
    ours = MultiheadAttention(8, 2, **options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor)
        assert ours.state_dict()[name].dtype == tensor.dtype
    other = MultiheadAttention(8, 2, **options)
    theirs.load_state_dict(other.state_dict())
    ours.load_state_dict(theirs.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), other.parameters(), strict=True))
    assert isinstance(ours, nn.MultiheadAttention)


def test_all_ones_give_sixteen() -> None:
    """Width 4, all weights and inputs 1, no bias: 4 after the first map, 16 after the second."""
    ours = MultiheadAttention(4, 2, bias=False)
    for parameter in ours.parameters():
        parameter.data.fill_(1.0)
    x = torch.ones(3, 2, 4)
    for need_weights in (False, True):
        assert torch.equal(ours(x, x, x, need_weights=need_weights)[0], torch.full((3, 2, 4), 16.0))


def x(*shape: int) -> Tensor:
    return torch.zeros(shape)


def causal(length: int) -> Tensor:
    return nn.Transformer.generate_square_subsequent_mask(length)


WRONG: dict[str, tuple[type[Exception], str, tuple[Tensor, ...], dict[str, Any]]] = {
    "query of 1 axis": (AssertionError, "query", (x(8), x(8), x(8)), {}),
    "query of 4 axes": (AssertionError, "query", (x(1, 1, 1, 8),) * 3, {}),
    "batch and sentence": (AssertionError, "key", (x(3, 2, 8), x(3, 8), x(3, 8)), {}),
    "sentence and batch": (AssertionError, "key", (x(3, 8), x(3, 2, 8), x(3, 2, 8)), {}),
    "width of the query": (AssertionError, "embedding dimension", (x(3, 2, 6),) * 3, {}),
    "width of the key": (RuntimeError, "", (x(3, 2, 8), x(3, 2, 6), x(3, 2, 6)), {}),
    "key and value": (AssertionError, "key shape", (x(3, 2, 8), x(4, 2, 8), x(5, 2, 8)), {}),
    "two batches": (RuntimeError, "", (x(3, 2, 8), x(4, 1, 8), x(4, 1, 8)), {}),
    "padding of 1 axis": (AssertionError, "padding", (x(3, 2, 8),) * 3, {"key_padding_mask": x(3)}),
    "padding of 2 axes": (AssertionError, "padding", (x(3, 8),) * 3, {"key_padding_mask": x(1, 3)}),
    "padding's batch": (AssertionError, "", (x(3, 2, 8),) * 3, {"key_padding_mask": x(3, 3)}),
    "padding's length": (AssertionError, "", (x(3, 2, 8),) * 3, {"key_padding_mask": x(2, 4)}),
    "padding of integers": (
        AssertionError, "only bool", (x(3, 2, 8),) * 3, {"key_padding_mask": x(2, 3).long()},
    ),
    "mask of integers": (AssertionError, "only bool", (x(3, 2, 8),) * 3, {"attn_mask": x(3, 3).int()}),
    "mask of 1 axis": (AssertionError, "attn_mask", (x(3, 2, 8),) * 3, {"attn_mask": x(3)}),
    "mask of 4 axes": (AssertionError, "attn_mask", (x(3, 2, 8),) * 3, {"attn_mask": x(2, 4, 3, 3)}),
    "mask's size": (RuntimeError, "should be", (x(3, 2, 8),) * 3, {"attn_mask": x(3, 4)}),
    "mask's batch": (RuntimeError, "should be", (x(3, 2, 8),) * 3, {"attn_mask": x(2, 3, 3)}),
    "a sentence's 3-D mask": (AssertionError, "", (x(3, 8),) * 3, {"attn_mask": x(2, 3, 3)}),
    "a hint without a mask": (RuntimeError, "attn_mask", (x(3, 2, 8),) * 3, {"is_causal": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("need_weights", [False, True])
def test_errors_are_torchs(name: str, need_weights: bool) -> None:
    kind, words, given, options = WRONG[name]
    for module in (nn.MultiheadAttention(8, 4), MultiheadAttention(8, 4)):
        with pytest.raises(kind, match=words or None) as caught:
            module(*given, need_weights=need_weights, **options)
        assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("kind", "given"), [(AssertionError, (8, 3)), (ValueError, (0, 1)), (ValueError, (8, 0))]
)
def test_senseless_modules_are_refused_as_by_torch(kind: type[Exception], given: tuple[int, int]) -> None:
    for module in (nn.MultiheadAttention, MultiheadAttention):
        with pytest.raises(kind):
            module(*given)


@pytest.mark.parametrize(
    ("key", "value"), [((4, 2, 5), (3, 2, 6)), ((4, 2, 8), (4, 2, 6)), ((4, 2, 5), (4, 2, 8))]
)
def test_keys_and_values_of_other_widths_must_still_go_together(
    key: tuple[int, ...], value: tuple[int, ...]
) -> None:
    for module in (nn.MultiheadAttention(8, 2, kdim=5, vdim=6), MultiheadAttention(8, 2, kdim=5, vdim=6)):
        with pytest.raises(AssertionError, match=r"key|value"):
            module(x(3, 2, 8), x(*key), x(*value))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("mask", ["padding", "attn bool", "attn float"])
@pytest.mark.parametrize("training", [False, True])
def test_a_row_with_only_padding_is_zero_and_harms_nobody(
    need_weights: bool, mask: str, training: bool
) -> None:
    """Torch gives NaN with need_weights=True, and then NaN in every gradient."""
    torch.manual_seed(0)
    ours = MultiheadAttention(8, 2, batch_first=True, dropout=0.2 if training else 0.0, dtype=torch.float64)
    nn.init.normal_(ours.out_proj.bias)
    x_BTD = torch.randn(3, 4, 8, dtype=torch.float64, requires_grad=True)
    hidden_BS = torch.tensor([[False] * 4, [True] * 4, [False, False, True, True]])
    options: dict[str, Any] = {"key_padding_mask": hidden_BS}
    if mask != "padding":
        hidden = hidden_BS[:, None, None].expand(3, 2, 4, 4).flatten(0, 1)
        infinite = torch.zeros(hidden.shape, dtype=torch.float64).masked_fill(hidden, float("-inf"))
        options = {"attn_mask": hidden if mask == "attn bool" else infinite}
    out, weights = ours(x_BTD, x_BTD, x_BTD, need_weights=need_weights, **options)
    assert torch.equal(out[1], ours.out_proj.bias.expand(4, 8))
    if weights is not None:
        assert torch.equal(weights[1], torch.zeros(4, 4, dtype=torch.float64))
    out.pow(2).sum().backward()
    for tensor in (out, x_BTD.grad, *(parameter.grad for parameter in ours.parameters())):
        assert tensor is not None
        assert bool(tensor.isfinite().all())
    assert torch.equal(x_BTD.grad[1], torch.zeros(4, 8, dtype=torch.float64))  # type: ignore[index]
    if not training:
        alone = ours(x_BTD[2:, :], x_BTD[2:, :2], x_BTD[2:, :2], need_weights=need_weights)[0]
        torch.testing.assert_close(out[2:], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("need_weights", [False, True])
def test_very_low_numbers_beside_infinity_mean_what_they_mean_in_torch(need_weights: bool) -> None:
    """Masks in the Hugging Face manner hold the lowest finite number; alone in a row it still counts."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(8, 2)
    ours = MultiheadAttention(8, 2)
    ours.load_state_dict(theirs.state_dict())
    x_TBD = torch.randn(3, 1, 8)
    lowest, never = torch.finfo(torch.float32).min, float("-inf")
    mask = torch.tensor([[lowest, never, never], [lowest, lowest, never], [0.0, lowest, -1e9]])
    expected, right = theirs(x_TBD, x_TBD, x_TBD, attn_mask=mask, need_weights=need_weights)
    found, weights = ours(x_TBD, x_TBD, x_TBD, attn_mask=mask, need_weights=need_weights)
    torch.testing.assert_close(found, expected)
    if need_weights:
        torch.testing.assert_close(weights, right)
    twice = ours(x_TBD, x_TBD, x_TBD, torch.full((1, 3), lowest), attn_mask=mask, need_weights=need_weights)
    assert bool(twice[0].isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_half_precision_stays_finite(dtype: torch.dtype, need_weights: bool, kind: str) -> None:
    torch.manual_seed(0)
    ours = MultiheadAttention(16, 4, batch_first=True, dtype=dtype)
    x_BTD = (torch.randn(2, 5, 16) * 10).to(dtype).requires_grad_()
    padding_BS = torch.arange(5) >= torch.tensor([[5], [0]])
    mask = causal(5) if kind == "float" else causal(5) != 0  # float32, beside half precision
    out, weights = ours(x_BTD, x_BTD, x_BTD, padding_BS, need_weights=need_weights, attn_mask=mask)
    assert out.dtype == dtype
    out.float().sum().backward()
    assert x_BTD.grad is not None
    for tensor in (out, weights, x_BTD.grad):
        assert tensor is None or bool(tensor.isfinite().all())


def test_outputs_can_be_viewed_as_torchs_can() -> None:
    for batch_first in (False, True):
        ours = MultiheadAttention(8, 2, batch_first=batch_first)
        assert ours(x(3, 2, 8), x(3, 2, 8), x(3, 2, 8))[0].is_contiguous()


@pytest.mark.parametrize("need_weights", [False, True])
def test_empty_batches_and_lengths_pass_through(need_weights: bool) -> None:
    for query, key in (((3, 0, 8), (4, 0, 8)), ((0, 2, 8), (4, 2, 8)), ((3, 2, 8), (0, 2, 8))):
        expected = nn.MultiheadAttention(8, 2)(x(*query), x(*key), x(*key), need_weights=need_weights)
        found = MultiheadAttention(8, 2)(x(*query), x(*key), x(*key), need_weights=need_weights)
        assert found[0].shape == expected[0].shape
        assert (found[1] is None) or found[1].shape == expected[1].shape


def test_it_works_inside_torchs_own_layer() -> None:
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    ours = copy.deepcopy(theirs)
    ours.self_attn = MultiheadAttention(8, 2, batch_first=True).eval()
    ours.self_attn.load_state_dict(theirs.self_attn.state_dict())
    given, padding = torch.randn(2, 4, 8), torch.tensor([[False] * 4, [False, False, True, True]])
    torch.testing.assert_close(
        ours(given, src_key_padding_mask=padding), theirs(given, src_key_padding_mask=padding)
    )


def test_nested_tensors_are_left_to_torch() -> None:
    torch.manual_seed(0)
    ours = MultiheadAttention(8, 2, batch_first=True).eval()
    parts = [torch.randn(3, 8), torch.randn(2, 8)]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", UserWarning)
        ragged = torch.nested.nested_tensor(parts)
        out = ours(ragged, ragged, ragged, need_weights=False)[0].to_padded_tensor(0.0)
        for row, part in enumerate(parts):
            torch.testing.assert_close(out[row, : len(part)], ours(part, part, part)[0])


def test_torch_compile_takes_it() -> None:
    """Traced without a break; what is compiled is another matter, and no compiler is needed here."""
    ours = MultiheadAttention(8, 2, batch_first=True)
    given, mask = torch.randn(2, 3, 8), causal(3)
    compiled = torch.compile(ours, backend="eager", fullgraph=True)
    for need_weights in (False, True):
        expected = ours(given, given, given, attn_mask=mask, need_weights=need_weights)[0]
        found = compiled(given, given, given, attn_mask=mask, need_weights=need_weights)[0]
        torch.testing.assert_close(found, expected)


# nn.Transformer in and out


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("attention_bias", [False, True])
def test_the_stacks_of_a_built_model_go_out(norm: str, attention_bias: bool) -> None:
    """Without a final norm (post-norm) torch's norm is None; biases missing beside others become zeros."""
    torch.manual_seed(0)
    config = ModelConfig(2, 2, 16, 32, 4, norm=norm, attention_bias=attention_bias)  # type: ignore[arg-type]
    model = build_model(config, VOCABULARY).double().eval()
    module = to_torch(model.encoder, model.decoder)
    assert not module.training
    assert (module.encoder.norm is None) == (norm == "post")
    source_BSD, target_BTD = torch.randn(2, 5, 16).double(), torch.randn(2, 4, 16).double()
    lengths_B = torch.tensor([5, 3])
    padding_BS = torch.arange(5) >= lengths_B[:, None]
    expected = model.decoder(
        target_BTD, Memory(model.encoder(source_BSD, may_attend_lengths(lengths_B, 5)), lengths_B)
    )
    found = module(
        source_BSD, target_BTD, tgt_mask=causal(4) != 0,
        src_key_padding_mask=padding_BS, memory_key_padding_mask=padding_BS,
    )  # fmt: skip
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    back, _ = from_torch(module)
    torch.testing.assert_close(
        back(source_BSD, None), model.encoder(source_BSD, None), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"positions": "rotary"}, "Rotary"),
        ({"positions": "alibi"}, "Alibi"),
        ({"score": "additive"}, "Additive"),
        ({"scale": "init"}, "√d_k"),
        ({"key_value_heads": 2}, "share"),
        ({"head_width": 5}, "make 20"),
        ({"value_width": 5}, "20 values"),
        ({"query_key_norm": True}, "normalised"),
        ({"activation": "swiglu"}, "GatedFeedForward"),
        ({"norm_kind": "rms", "norm": "pre"}, "RMSNorm"),
    ],
    ids=str,
)
def test_what_torch_cannot_hold_is_refused(choices: dict[str, Any], reason: str) -> None:
    model = build_model(ModelConfig(2, 2, 16, 32, 4, **choices), VOCABULARY)
    with pytest.raises(FormatError, match=reason) as caught:
        to_torch(model.encoder, model.decoder)
    assert {r.split(":")[0] for r in caught.value.reasons} == {"encoder", "decoder"}
    with pytest.raises(FormatError, match=reason):
        encoder_to_torch(model.encoder)


def test_every_reason_is_given_at_once() -> None:
    config = ModelConfig(1, 1, 16, 32, 4, positions="alibi", activation="swiglu", norm_kind="rms")
    model = build_model(config, VOCABULARY)
    with pytest.raises(FormatError) as caught:
        encoder_to_torch(model.encoder)
    assert len(caught.value.reasons) == 3


def test_changed_torch_modules_are_refused() -> None:
    def module() -> nn.Transformer:
        return nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    custom = module()
    custom.encoder = nn.Linear(8, 8)
    with pytest.raises(FormatError, match="Linear"):
        from_torch(custom)
    derived = module()
    derived.encoder.layers[0] = type("Mine", (nn.TransformerEncoderLayer,), {})(8, 2, 16)
    with pytest.raises(FormatError, match="Mine"):
        from_torch(derived)
    extra = module()
    extra.decoder.layers[0].self_attn = nn.MultiheadAttention(8, 2, add_zero_attn=True)
    with pytest.raises(FormatError, match="add_zero_attn"):
        from_torch(extra)
    normed = module()
    normed.decoder.layers[0].norm2 = nn.RMSNorm(8)
    with pytest.raises(FormatError, match="RMSNorm"):
        from_torch(normed)
