"""Linear layers over packed weights: the numbers of ``nn.Linear``, eight-bit ones as near as rounding allows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.engine import linear
from dragoman.engine.linear import Int8Linear, PackedLinear, SmallLinear, quantize_rows
from dragoman.engine.pack import Block, Pack
from dragoman.engine.rows import RealRows
from dragoman.model import masks
from model_variants import close
from tolerances import FLOAT32

SIZES = st.tuples(st.integers(0, 40), st.integers(1, 70), st.integers(1, 70))


def drawn(rows: int, inputs: int, outputs: int, bias: bool, seed: int = 0) -> tuple[Tensor, Tensor, Tensor | None]:
    generator = torch.Generator().manual_seed(seed)
    x, weight = (torch.randn(size, inputs, generator=generator) for size in (rows, outputs))
    return x, weight, torch.randn(outputs, generator=generator) if bias else None


@pytest.mark.parametrize("kind", [PackedLinear, SmallLinear])
@settings(max_examples=40, deadline=None)
@given(size=SIZES, bias=st.booleans(), relu=st.booleans())
def test_packed_layers_are_linear_layers(
    kind: type[PackedLinear], size: tuple[int, int, int], bias: bool, relu: bool
) -> None:
    x, weight, offset = drawn(*size, bias)
    layer = kind(weight, offset, relu=relu)
    wanted = F.linear(x, weight, offset)
    close(layer(x), wanted.relu() if relu else wanted, FLOAT32)
    residual = torch.randn(wanted.shape)
    close(kind(weight, offset).add_to(residual, x), residual + wanted, FLOAT32)


@settings(max_examples=40, deadline=None)
@given(size=SIZES, bias=st.booleans(), relu=st.booleans(), scale=st.sampled_from([1e-20, 1e-3, 1.0, 1e4]))
def test_int8_errs_by_no_more_than_its_rounding(
    size: tuple[int, int, int], bias: bool, relu: bool, scale: float
) -> None:
    x, weight, offset = drawn(*size, bias)
    x = x * scale
    exact = F.linear(x.double(), weight.double(), None if offset is None else offset.double())
    exact = exact.relu() if relu else exact
    x_step = x.double().abs().amax(1, keepdim=True) / 127
    w_step = weight.double().abs().amax(1) / linear.weight_limit()
    # Each factor errs by half a step: |(x+dx)(w+dw) - xw| <= |x||dw| + |dx||w| + |dx||dw|, summed over the inputs.
    x_sum, w_sum = x.double().abs().sum(1, keepdim=True), weight.double().abs().sum(1)
    bound = (x_sum * w_step + x_step * w_sum) / 2 + x_step * w_step * x.shape[1] / 4
    error = (Int8Linear(weight, offset, relu=relu)(x).double() - exact).abs()
    assert bool((error <= 1.001 * bound + FLOAT32 * (1 + exact.abs())).all())


@settings(max_examples=30, deadline=None)
@given(size=SIZES, bias=st.booleans(), relu=st.booleans())
def test_int8_rows_do_not_see_each_other(size: tuple[int, int, int], bias: bool, relu: bool) -> None:
    x, weight, offset = drawn(*size, bias)
    layer = Int8Linear(weight, offset, relu=relu)
    together = layer(x * torch.logspace(-3, 3, max(len(x), 1))[: len(x), None])
    again = layer(x.flip(0) * torch.logspace(-3, 3, max(len(x), 1))[: len(x), None].flip(0)).flip(0)
    assert torch.equal(together, again)
    for place in range(len(x)):
        row = x[place : place + 1] * torch.logspace(-3, 3, len(x))[place]
        assert torch.equal(layer(row)[0], together[place])


def test_rows_become_bytes_around_128() -> None:
    x = torch.tensor([[1.0, -1.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0], [-254.0, 2.0, 1.1, -0.9]])
    whole, step = quantize_rows(x)
    assert whole.dtype == torch.uint8
    assert whole.tolist() == [[255, 1, 192, 128], [128, 128, 128, 128], [1, 129, 129, 128]]
    close(step[[0, 2], 0], torch.tensor([1 / 127, 2.0]), FLOAT32)


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_and_weights_of_zeros_give_the_bias(rows: int) -> None:
    _, weight, bias = drawn(1, 5, 4, True)
    assert bias is not None
    assert torch.equal(Int8Linear(weight, bias)(torch.zeros(rows, 5)), bias.expand(rows, 4))
    assert torch.equal(Int8Linear(torch.zeros(4, 5), bias)(torch.ones(rows, 5)), bias.expand(rows, 4))


def test_weights_are_smaller_where_sums_have_sixteen_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    assert linear.weight_limit() == 64
    assert 2 * 255 * linear.weight_limit() < 1 << 15
    x, weight, bias = drawn(6, 30, 9, True)
    layer = Int8Linear(weight, bias)
    close(layer.scale * 64, weight.abs().amax(1), FLOAT32)
    assert (layer(x) - F.linear(x, weight, bias)).abs().max() < 0.5
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: True)
    assert linear.weight_limit() == 127


@pytest.mark.parametrize("int8", [False, True])
def test_several_layers_become_one_product(int8: bool) -> None:
    torch.manual_seed(0)
    one, two, three = nn.Linear(6, 4), nn.Linear(6, 2, bias=False), nn.Linear(6, 8)
    parts = [Block.of(one).scaled(0.5), Block.of(two), *Block.of(three).split(2)]
    packed = Pack(int8)(parts)
    x = torch.randn(5, 6)
    wanted = torch.cat([0.5 * one(x), two(x), three(x)], 1).detach()
    close(packed(x), wanted, 0.05 if int8 else FLOAT32)
    assert isinstance(packed, Int8Linear if int8 else PackedLinear)
    assert isinstance(Pack(small=True)([Block.of(two)]), SmallLinear)
    assert Pack()([Block.of(two)]).bias is None


@pytest.mark.parametrize(
    ("lengths", "worth"), [([4, 4, 4], False), ([4, 4, 3], True), ([4, 0, 2], True), ([0, 0, 0], False)]
)
def test_real_rows_are_picked_and_put_back(lengths: list[int], worth: bool) -> None:
    mask = masks.from_lengths(torch.tensor(lengths), 4)
    real = RealRows.of(mask)
    assert (real is not None) == worth
    if real is None:
        return
    rows = torch.arange(12.0).view(12, 1) + 1
    picked = real.pick(rows)
    assert len(picked) == sum(lengths)
    assert torch.equal(real.spread(picked)[mask.flatten()], rows[mask.flatten()])
    assert real.spread(picked).shape == rows.shape
    assert RealRows.of(None) is None
