"""Dropout: the right share, the right scale, the same mask backwards, each kind in its own places."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.dropout import Dropout, dropout
from model_variants import batch, make
from tolerances import BFLOAT16, FLOAT16, FLOAT32


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


@pytest.mark.parametrize("p", [1e-5, 0.1, 0.5, 1 - 1e-9])
def test_an_element_is_dropped_where_its_16_bits_are_below_p(p: float) -> None:
    torch.manual_seed(7)
    bits = torch.empty(1000, dtype=torch.int64).random_(-(2**63), None).view(torch.int16).int()
    torch.manual_seed(7)
    y = dropout(torch.ones(4000), p, training=True)
    dropped = min(round(p * 2**16), 2**16 - 1)
    assert torch.equal(y != 0, bits + 2**15 >= dropped)


def test_what_rounds_to_nothing_drops_nothing() -> None:
    x = torch.rand(1000)
    assert torch.equal(dropout(x, 1e-9, training=True), x)


@given(shape=st.lists(st.integers(0, 7), min_size=1, max_size=3), seed=st.integers(0, 2**31))
def test_any_shape_and_the_same_mask_backwards(shape: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.rand(shape, dtype=torch.float64) + 0.5
    x.requires_grad_()
    y = dropout(x, 0.4, training=True)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(y, x * x.grad)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, FLOAT32), (torch.float32, FLOAT32), (torch.float16, FLOAT16), (torch.bfloat16, BFLOAT16)],
)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9, 1001])
def test_every_type_and_size(dtype: torch.dtype, tolerance: float, size: int) -> None:
    """Each element is zero or scaled, whatever does not fill the last 64 bits drawn."""
    torch.manual_seed(size)
    x = torch.linspace(1, 2, size, dtype=torch.float64).to(dtype).requires_grad_()
    y = dropout(x, 0.5, training=True)
    assert y.dtype == dtype
    kept = y != 0
    torch.testing.assert_close(y[kept], x[kept] * 2, rtol=tolerance, atol=0.0)
    y.backward(torch.ones_like(y))
    assert x.grad is not None
    assert x.grad.dtype == dtype
    torch.testing.assert_close(x.grad, kept.to(dtype) * 2, rtol=tolerance, atol=0.0)


def test_the_expectation_is_kept() -> None:
    torch.manual_seed(0)
    x = torch.rand(5, dtype=torch.float64) + 1.0
    for p in (0.1, 0.4, 0.8):
        draws = dropout(x.expand(100_000, 5), p, training=True)
        # Of one draw: x² p / (1 - p). Six standard deviations of a mean of 100,000.
        allowed = 6 * x * math.sqrt(p / (1 - p) / 100_000)
        assert ((draws.mean(0) - x).abs() < allowed).all()
        torch.testing.assert_close(draws.var(0), x.square() * p / (1 - p), rtol=0.05, atol=0.0)


def test_neighbours_and_calls_are_independent() -> None:
    torch.manual_seed(0)
    first, second = (dropout(torch.ones(100_000), 0.5, training=True) - 1.0 for _ in range(2))
    for shift in (1, 2, 3, 4, 8):
        assert abs(float((first[:-shift] * first[shift:]).mean())) < 6 / math.sqrt(100_000)
    assert abs(float((first * second).mean())) < 6 / math.sqrt(100_000)


def test_the_seed_decides() -> None:
    x = torch.ones(1000)
    torch.manual_seed(7)
    first, second = dropout(x, 0.5, training=True), dropout(x, 0.5, training=True)
    torch.manual_seed(7)
    assert torch.equal(dropout(x, 0.5, training=True), first)
    assert torch.equal(dropout(x, 0.5, training=True), second)
    assert not torch.equal(first, second)
    torch.manual_seed(8)
    assert not torch.equal(dropout(x, 0.5, training=True), first)


def test_extreme_probabilities() -> None:
    torch.manual_seed(0)
    x = torch.ones(200_000, requires_grad=True)
    assert torch.equal(dropout(x, 1e-9, training=True), x)
    almost_all = dropout(x, 1 - 1e-9, training=True)
    almost_all.sum().backward()
    assert almost_all.isfinite().all()
    assert (almost_all == 0).float().mean() > 0.999
    assert x.grad is not None
    assert torch.equal(x.grad, almost_all.detach())


def test_views_keep_their_places() -> None:
    """A transposed, an expanded and a strided input: zeros and scaled values stand where the input's stand."""
    base = torch.arange(1.0, 61.0).view(5, 12)
    for x in (base.t(), base[:, ::3], base[:, None].expand(5, 4, 12)):
        y = dropout(x, 0.5, training=True)
        assert y.shape == x.shape
        assert ((y == 0) | ((y - 2 * x).abs() < 1e-3)).all()
        assert 0 < int((y == 0).sum()) < y.numel()
    assert torch.equal(base, torch.arange(1.0, 61.0).view(5, 12))


def test_a_second_derivative() -> None:
    x = torch.rand(20, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.5, training=True)
    (slope,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    slope.sum().backward()
    scale = (y / x).detach()
    torch.testing.assert_close(x.grad, 6 * x.detach() * scale.pow(3))


def test_off() -> None:
    x = torch.rand(6, 5).t()
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x

    assert Dropout(0.5).eval()(x) is x


PARTS = ["dropout", "attention_dropout", "activation_dropout", "embedding_dropout"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("norm_first", [True, False])
def test_each_dropout_acts_in_training_alone(part: str, norm_first: bool) -> None:
    off = dict.fromkeys(PARTS, 0.0)
    model = make(norm_first=norm_first, **{**off, part: 0.9})
    src, tgt, _, _ = batch()
    still = model(src, tgt)
    assert torch.equal(still, make(norm_first=norm_first, **off)(src, tgt))
    model.train()
    torch.manual_seed(3)
    first, second = model(src, tgt), model(src, tgt)
    assert not torch.equal(first, second)
    assert not torch.equal(first, still)
    torch.manual_seed(3)
    assert torch.equal(model(src, tgt), first)
    for run in (model.encode, lambda ids: model.decode(ids, None)):  # on either side alone
        assert not torch.equal(run(src), run(src))
    assert torch.equal(model.eval()(src, tgt), still)


@pytest.mark.parametrize("part", PARTS)
def test_each_dropout_stands_in_its_own_places(part: str) -> None:
    model = make(**{**dict.fromkeys(PARTS, 0.0), part: 0.25})
    attentions = [name for name, module in model.named_modules() if isinstance(module, MultiHeadAttention)]
    rates = {name: model.get_submodule(name).p for name in attentions}
    rates |= {name: module.p for name, module in model.named_modules() if isinstance(module, Dropout)}
    places = {
        "dropout": {name for name in rates if name.endswith("_residual.dropout")},
        "attention_dropout": set(attentions),
        "activation_dropout": {name for name in rates if name.endswith("feed_forward.dropout")},
        "embedding_dropout": {"embedding_dropout"},
    }
    # Two layers of two and of three sub-layers; one feed-forward part a layer.
    assert [len(places[kind]) for kind in PARTS] == [10, 6, 4, 1]
    assert set(rates) == set.union(*places.values())
    assert rates == {name: 0.25 if name in places[part] else 0.0 for name in rates}


def test_embedding_dropout_zeroes_features_of_both_sides() -> None:
    model = make(dropout=0.0, embedding_dropout=0.5).train()
    src, tgt, _, _ = batch()
    torch.manual_seed(0)
    for embed, ids in ((model.embed_src, src), (model.embed_tgt, tgt)):
        dropped = embed(ids)
        model.eval()
        whole = embed(ids)
        model.train()
        assert torch.equal(dropped, torch.where(dropped == 0, 0.0, whole * 2))
        assert 0.25 < float((dropped == 0).double().mean()) < 0.75


def test_the_other_dropouts_default_to_the_residual_one() -> None:
    model = make(dropout=0.3)
    rates = [module.p for module in model.modules() if isinstance(module, Dropout | MultiHeadAttention)]
    assert len(rates) == 21
    assert set(rates) == {0.3}
