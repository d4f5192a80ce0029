"""oneDNN's products against torch's own, which they stand in for."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from glassformer.model import products
from glassformer.model.parts import linear
from glassformer.model.products import affine, times


@pytest.fixture(autouse=True)
def small_is_large_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LARGE", 0)


has_onednn = pytest.mark.skipif(not products._has_onednn(), reason="this build of torch has no oneDNN")


@pytest.fixture(params=[True, False], ids=["Intel", "another"])
def whose_processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_mkl_is_at_home", lambda: request.param)


@pytest.mark.usefixtures("whose_processor")
@pytest.mark.parametrize("shape", [(7, 12), (2, 5, 12), (1, 12), (3, 1, 4, 12), (300, 12)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [20, 5], ids=["widens", "narrows"])
def test_values_and_gradients_are_those_of_a_linear_map(
    shape: tuple[int, ...], bias: bool, outputs: int
) -> None:
    torch.manual_seed(1)
    x = torch.randn(shape, requires_grad=True)
    weight_OD = torch.randn(outputs, 12, requires_grad=True)
    bias_O = torch.randn(outputs, requires_grad=True) if bias else None
    inputs = [x, weight_OD, *([bias_O] if bias_O is not None else [])]
    ours, theirs = affine(x, weight_OD, bias_O), F.linear(x, weight_OD, bias_O)
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(theirs)
    for one, other in zip(
        torch.autograd.grad((ours * weights).sum(), inputs),
        torch.autograd.grad((theirs * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.usefixtures("whose_processor")
def test_strided_inputs_and_gradients() -> None:
    torch.manual_seed(1)
    x_ND = torch.randn(12, 9).T
    weight_OD = torch.randn(12, 20).T.requires_grad_()
    torch.testing.assert_close(times(x_ND, weight_OD.detach()), x_ND @ weight_OD.detach().T)
    (gradient,) = torch.autograd.grad(
        affine(x_ND, weight_OD, None).sum(), weight_OD
    )  # its gradient is expanded
    (expected,) = torch.autograd.grad(F.linear(x_ND, weight_OD).sum(), weight_OD)
    torch.testing.assert_close(gradient, expected)


def test_only_what_learns_has_a_gradient() -> None:
    x_ND = torch.randn(5, 12, requires_grad=True)
    affine(x_ND, torch.randn(20, 12), torch.randn(20)).sum().backward()
    assert x_ND.grad is not None
    weight_OD = torch.randn(20, 12, requires_grad=True)
    affine(torch.randn(5, 12), weight_OD, None).sum().backward()
    assert weight_OD.grad is not None


@has_onednn
def test_training_in_float32_takes_it_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(products, "times", lambda *given: calls.append(given) or F.linear(*given))
    layer, x_ND = linear(12, 20), torch.randn(5, 12)
    layer(x_ND)
    assert len(calls) == 1
    with torch.no_grad():
        layer(x_ND)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x_ND).dtype == torch.bfloat16
    layer.double()(x_ND.double())
    with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        layer.float()(x_ND)
    assert len(calls) == 1


@has_onednn
def test_small_matrices_are_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    calls = []
    monkeypatch.setattr(products, "times", lambda *given: calls.append(given) or F.linear(*given))
    linear(511, 512)(torch.randn(3, 511))
    assert not calls
    linear(512, 512)(torch.randn(3, 512))
    assert calls


def test_no_rows_and_one_vector() -> None:
    layer = linear(12, 20)
    assert layer(torch.randn(0, 12)).shape == (0, 20)
    assert layer(torch.randn(12)).shape == (20,)


def test_without_onednn_it_is_torch_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_has_onednn", lambda: False)
    x_ND, layer = torch.randn(5, 12), linear(12, 20)
    assert torch.equal(layer(x_ND), F.linear(x_ND, layer.weight, layer.bias))
    assert torch.equal(times(x_ND, layer.weight), F.linear(x_ND, layer.weight))
