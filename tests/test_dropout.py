"""Dropout: the right share, the right scale, the same mask backwards."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.dropout import Dropout, dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.93])
def test_share_and_scale(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(400_000)
    y = dropout(x, p, training=True)
    # Six standard deviations of a binomial share.
    assert abs((y == 0).float().mean().item() - p) < 6 * (p * (1 - p) / len(x)) ** 0.5
    assert y[y != 0].unique().numel() == 1
    assert y.max().item() == pytest.approx(1 / (1 - p), rel=1e-3)


def test_each_16_bit_lane_is_drawn_alike() -> None:
    """Four elements share a 64-bit draw: none of them may be special."""
    torch.manual_seed(0)
    dropped = (dropout(torch.ones(400_000), 0.3, training=True) == 0).view(-1, 4).float().mean(0)
    assert (dropped - 0.3).abs().max() < 0.01


@given(shape=st.lists(st.integers(0, 7), min_size=1, max_size=3), seed=st.integers(0, 2**31))
def test_any_shape_and_the_same_mask_backwards(shape: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.rand(shape, dtype=torch.float64) + 0.5
    x.requires_grad_()
    y = dropout(x, 0.4, training=True)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(y, x * x.grad)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_types_are_kept(dtype: torch.dtype) -> None:
    assert dropout(torch.ones(9, dtype=dtype), 0.5, training=True).dtype == dtype


def test_views_and_off() -> None:
    x = torch.rand(6, 5).t()
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert dropout(x, 0.5, training=True).shape == x.shape
    assert Dropout(0.5).eval()(x) is x
