"""The products of training by oneDNN: PyTorch's own, values and gradients, and the plain ones where it has none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman import ModelConfig, Transformer
from dragoman.training import products
from dragoman.training.products import Product, multiply_rows, supported, use_products
from tolerances import FLOAT32, FLOAT32_GRADIENT

SIZES = st.integers(1, 40)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def close(ours: Tensor | None, theirs: Tensor | None, tolerance: float) -> None:
    assert ours is not None
    assert theirs is not None
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=tolerance)


def both(linear: Product, x: Tensor, push: Tensor) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """(value, gradient of x, of the weight, of the bias), by :class:`Product` and by ``F.linear``."""
    found = []
    for plain in (False, True):
        linear.zero_grad(set_to_none=True)
        leaf = x.clone().requires_grad_()
        y = F.linear(leaf, linear.weight, linear.bias) if plain else linear(leaf)
        (y * push).sum().backward()
        found.append([y.detach(), leaf.grad, linear.weight.grad, None if linear.bias is None else linear.bias.grad])
    return found[0], found[1]


@settings(max_examples=60, deadline=None)
@given(rows=SIZES, columns=SIZES, wide=SIZES, inputs=SIZES, bias=st.booleans(), turned=st.booleans())
def test_value_and_gradients_are_those_of_linear(
    rows: int, columns: int, wide: int, inputs: int, bias: bool, turned: bool
) -> None:
    linear = nn.Linear(inputs, wide, bias=bias)
    use_products(linear)
    assert isinstance(linear, Product)
    x = draw(columns, rows, inputs).transpose(0, 1) if turned else draw(rows, columns, inputs)
    ours, theirs = both(linear, x, draw(rows, columns, wide, seed=1))
    close(ours[0], theirs[0], FLOAT32)
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        if other is None:
            assert mine is None
        else:
            close(mine, other, FLOAT32_GRADIENT)


@given(rows=SIZES, left=SIZES, right=SIZES)
@settings(max_examples=40, deadline=None)
def test_rows_multiply_in_either_order(rows: int, left: int, right: int) -> None:
    one, other = draw(rows, left), draw(rows, right, seed=1)
    close(multiply_rows(one, other), one.t() @ other, FLOAT32_GRADIENT)


def test_onednn_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast way is taken forward and backward, and not for what it cannot do."""
    calls: list[tuple[int, ...]] = []
    multiply = products.multiply

    def counted(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        calls.append(tuple(x.shape))
        return multiply(x, weight, bias)

    monkeypatch.setattr(products, "multiply", counted)
    linear = nn.Linear(4, 6)
    use_products(linear)
    linear(draw(3, 4).requires_grad_()).sum().backward()
    assert calls == [(3, 4), (3, 6), (4, 3)]
    calls.clear()
    assert linear(draw(0, 4)).shape == (0, 6)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(draw(3, 4)).dtype == torch.bfloat16
    assert linear.double()(draw(3, 4).double()).dtype == torch.float64
    assert calls == []


def test_what_is_supported() -> None:
    assert supported(draw(2), None)
    assert not supported(draw(2), draw(2).double())
    assert not supported(draw(2).to("meta"))


def test_a_frozen_weight_gets_no_gradient() -> None:
    linear = nn.Linear(4, 6)
    use_products(linear)
    linear.weight.requires_grad_(False)
    x = draw(3, 4).requires_grad_()
    linear(x).sum().backward()
    assert linear.weight.grad is None
    close(x.grad, linear.weight.sum(0).expand(3, 4), FLOAT32)


def test_a_whole_model_keeps_its_parameters_and_gradients() -> None:
    config = ModelConfig(
        src_vocab_size=30, tgt_vocab_size=30, d_model=16, n_heads=2, n_encoder_layers=2, n_decoder_layers=2, d_ff=24,
        tie_embeddings="all", dropout=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Transformer(config)
    src, tgt = torch.randint(4, 30, (3, 7)), torch.randint(4, 30, (3, 5))
    found = []
    for fast in (False, True):
        if fast:
            use_products(model)
            assert all(type(part) is not nn.Linear for part in model.modules())
        model.zero_grad(set_to_none=True)
        logits = model(src, tgt)
        F.cross_entropy(logits.flatten(0, 1), tgt.flatten()).backward()
        found.append((logits.detach(), {name: value.grad for name, value in model.named_parameters()}))
    close(found[1][0], found[0][0], FLOAT32)
    assert list(found[1][1]) == list(found[0][1])
    for name, gradient in found[0][1].items():
        close(found[1][1][name], gradient, FLOAT32_GRADIENT)


MEMORY = """
import random, sys, torch
from torch import nn
from dragoman.training.products import use_products

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

model = nn.Sequential(nn.Linear(128, 128), nn.Linear(128, 256))
use_products(model)
random.seed(0)
x = torch.randn(2560, 128)
begin = resident()
for _ in range(400):
    model(x[: random.randint(1000, 2560)]).sum().backward()
print(resident() - begin)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_shapes_met() -> None:
    """400 shapes took 400 MB while a program was kept for each; a process of its own, as the caches are made once."""
    if not sys.platform.startswith("linux"):
        return
    environment = {name: value for name, value in os.environ.items() if not name.endswith("CACHE_CAPACITY")}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, env=environment
    )  # fmt: skip
    assert float(done.stdout) < 150
