"""Norms: their formulas, PyTorch's own, precision, and rows without any spread."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.model.norms import LayerNorm, RMSNorm, StdNorm, make_norm
from model_variants import close
from tolerances import BFLOAT16, CANCELLED, FLOAT16, FLOAT32, FLOAT64

KINDS = ["layer", "std", "std_scalar", "rms"]


def filled(kind: str, width: int, eps: float, seed: int = 0) -> nn.Module:
    """A norm with random gain and bias, float64."""
    norm = make_norm(kind, width, eps).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in norm.parameters():
        parameter.data.normal_(generator=generator)
    return norm


def by_hand(kind: str, norm: nn.Module, row: list[float], eps: float) -> Tensor:
    """Sums in Python's own arithmetic."""
    n = len(row)
    mean = 0.0 if kind == "rms" else sum(row) / n
    squares = sum((x - mean) ** 2 for x in row)
    if kind.startswith("std"):
        divisor = (squares / (n - 1)) ** 0.5 + eps
    else:
        divisor = (squares / n + eps) ** 0.5
    out = torch.tensor([(x - mean) / divisor for x in row], dtype=torch.float64) * norm.get_parameter("weight")
    return out if kind == "rms" else out + norm.get_parameter("bias")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(
    row=st.lists(st.floats(-100, 100), min_size=2, max_size=9),
    eps=st.sampled_from([1e-12, 1e-6, 1e-5, 0.1]),
    seed=st.integers(0, 99),
)
def test_the_formula(kind: str, row: list[float], eps: float, seed: int) -> None:
    norm = filled(kind, len(row), eps, seed)
    x = torch.tensor([[row]], dtype=torch.float64)
    spread = float(x.std()) if kind != "rms" else float(x.norm())
    # Where the spread is lost in rounding beside the mean, two right ways of summing differ by anything.
    if spread > 1e-6 or spread == 0.0:
        torch.testing.assert_close(norm(x)[0, 0], by_hand(kind, norm, row, eps), rtol=CANCELLED, atol=CANCELLED)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradients_are_those_of_finite_differences(kind: str) -> None:
    norm = filled(kind, 6, 1e-5)
    x = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    parameters = dict(norm.named_parameters())

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(norm, dict(zip(parameters, values, strict=True)), x)

    assert torch.autograd.gradcheck(run, (x, *parameters.values()))


def test_layer_and_rms_are_pytorch_s() -> None:
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    for ours, theirs in ((LayerNorm(8, 1e-5), nn.LayerNorm(8, eps=1e-5)), (RMSNorm(8, 1e-6), nn.RMSNorm(8, eps=1e-6))):
        theirs.load_state_dict(ours.state_dict())
        close(ours.double()(x), theirs.double()(x))


@pytest.mark.parametrize("kind", ["layer", "std", "std_scalar"])
def test_shifting_a_row_changes_nothing(kind: str) -> None:
    norm, x = filled(kind, 8, 1e-6), torch.randn(2, 8, dtype=torch.float64)
    close(norm(x + 5.0), norm(x))


@pytest.mark.parametrize("kind", KINDS)
def test_scaling_a_row_changes_nothing_but_through_eps(kind: str) -> None:
    norm, x = filled(kind, 8, 1e-12), torch.randn(2, 8, dtype=torch.float64)
    close(norm(x * 50.0), norm(x))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("value", [0.0, 3.0, -40.0])
def test_a_row_without_spread_is_finite_both_ways(kind: str, dtype: torch.dtype, value: float) -> None:
    norm = make_norm(kind, 8, 1e-6).to(dtype)
    x = torch.full((2, 8), value, dtype=dtype, requires_grad=True)
    out = norm(x)
    assert out.dtype == dtype
    out.sum().backward()
    assert x.grad is not None
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
    if kind != "rms":
        # Not exactly zero: PyTorch's layer norm subtracts the mean after multiplying by 1 / sqrt(eps).
        close(out, torch.zeros_like(out), FLOAT16)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, FLOAT32), (torch.float16, FLOAT16), (torch.bfloat16, BFLOAT16)]
)
def test_lower_precisions_sum_in_float32(kind: str, dtype: torch.dtype, tolerance: float) -> None:
    """Squares of these values would leave float16's range."""
    x = (500 * torch.randn(4, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))).to(dtype)
    close(
        make_norm(kind, 64, 1e-5).to(dtype)(x).double(), make_norm(kind, 64, 1e-5).double()(x.double()), tolerance * 2
    )


def test_parameters_by_kind() -> None:
    shapes = {kind: {n: tuple(p.shape) for n, p in make_norm(kind, 6, 1e-5).named_parameters()} for kind in KINDS}
    assert shapes["layer"] == shapes["std"] == {"weight": (6,), "bias": (6,)}
    assert shapes["std_scalar"] == {"weight": (1,), "bias": (1,)}
    assert shapes["rms"] == {"weight": (6,)}


def test_where_the_eps_stands() -> None:
    """A large eps tells inside from outside the root, and n from n - 1."""
    x = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    close(LayerNorm(2, 3.0).double()(x), x / 2, FLOAT64)
    close(RMSNorm(2, 3.0).double()(x), x / 2, FLOAT64)
    close(StdNorm(2, 3.0).double()(x), x / (2**0.5 + 3.0), FLOAT64)
