"""The position-wise feed-forward part (Vaswani et al. 2017, section 3.3) and its gated variants.

Shapes: [..., D] in and out, D is ``d_model``; the inner width is ``d_ff``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.model.dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
# Shazeer 2020, "GLU Variants Improve Transformer": the activation of the gate.
GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "glu": torch.sigmoid,
    "bilinear": lambda x: x,
    "reglu": F.relu,
    "geglu": F.gelu,
    "swiglu": F.silu,
}


class FeedForward(nn.Module):
    """output(dropout(activation(inner(x))))."""

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", bias: bool = True, dropout: float = 0.0):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.output = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] in and out."""
        hidden: Tensor = self.output(self.dropout(self.activation(self.inner(x))))
        return hidden


class GatedFeedForward(nn.Module):
    """output(dropout(gate(inner(x)) · value(x))): ``inner`` is the branch that is activated."""

    def __init__(self, d_model: int, d_ff: int, gate: str = "swiglu", bias: bool = True, dropout: float = 0.0):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.value = nn.Linear(d_model, d_ff, bias=bias)
        self.output = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)
        self.gate = GATES[gate]

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] in and out."""
        hidden: Tensor = self.output(self.dropout(self.gate(self.inner(x)) * self.value(x)))
        return hidden


def make_feed_forward(kind: str, d_model: int, d_ff: int, bias: bool, dropout: float) -> nn.Module:
    """The feed-forward part that ``ModelConfig.feed_forward`` names."""
    cls = GatedFeedForward if kind in GATES else FeedForward
    return cls(d_model, d_ff, kind, bias, dropout)
