"""The position-wise feed-forward part over packed weights. Shapes: M rows, D ``d_model``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.engine.linear import Linear
from dragoman.engine.pack import Block, Pack
from dragoman.model.feedforward import ACTIVATIONS, GATES, FeedForward, GatedFeedForward


class PackedFeedForward:
    """output(activation(inner(x))), ReLU inside the first product."""

    def __init__(self, module: FeedForward, kind: str, pack: Pack) -> None:
        self.activation = None if kind == "relu" else ACTIVATIONS[kind]
        self.inner: Linear = pack([Block.of(module.inner)], relu=kind == "relu")
        self.output: Linear = pack([Block.of(module.output)])

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` + the part's result for ``x``, all [M,D]."""
        hidden = self.inner(x)
        return self.output.add_to(residual, hidden if self.activation is None else self.activation(hidden))


class PackedGatedFeedForward:
    """output(gate(inner(x)) · value(x)), both branches in one product."""

    def __init__(self, module: GatedFeedForward, kind: str, pack: Pack) -> None:
        self.gate = GATES[kind]
        self.steady = pack.int8  # a GELU of rows apart has another last digit than of rows that follow each other
        self.inner: Linear = pack([Block.of(module.inner), Block.of(module.value)])
        self.output: Linear = pack([Block.of(module.output)])

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` + the part's result for ``x``, all [M,D]."""
        inner, value = self.inner(x).chunk(2, 1)
        gate = self.gate(inner.contiguous() if self.steady else inner)
        return self.output.add_to(residual, torch.mul(gate, value))


def pack_feed_forward(module: nn.Module, kind: str, pack: Pack) -> PackedFeedForward | PackedGatedFeedForward:
    """The packed form of a feed-forward part of ``ModelConfig.feed_forward`` ``kind``."""
    if isinstance(module, GatedFeedForward):
        return PackedGatedFeedForward(module, kind, pack)
    assert isinstance(module, FeedForward)
    return PackedFeedForward(module, kind, pack)
