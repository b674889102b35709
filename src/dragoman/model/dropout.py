"""Dropout, with a mask drawn as small integers on the CPU, where PyTorch's own is slow."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_STEPS = 1 << 16


class _IntegerDropout(torch.autograd.Function):
    """Draws 16 random bits an element; keeps a byte an element, 0 or 1, for the backward pass.

    ``dropped`` is at least 1. The mask is made and multiplied as integers: comparisons and booleans take PyTorch three
    to six times as long.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dropped: int) -> Tensor:
        count, least = x.numel(), dropped - _STEPS // 2
        bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        drawn = bits.view(torch.int16)[:count]
        keep = drawn.clamp_(least - 1, least).sub_(least - 1).to(torch.uint8).view(x.shape)
        ctx.scale = _STEPS / (_STEPS - dropped)
        ctx.save_for_backward(keep)
        return torch.mul(x, keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return torch.mul(gradients[0], keep).mul_(ctx.scale), None


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Zero each element with probability ``p`` and scale the rest by 1 / (1 - p) (Srivastava et al. 2014).

    On the CPU ``p`` is rounded to a multiple of 2^-16 and the scale fits the rounded value.
    """
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    dropped = min(round(p * _STEPS), _STEPS - 1)
    if not dropped:
        return x
    out: Tensor = _IntegerDropout.apply(x, dropped)  # type: ignore[no-untyped-call]  # PyTorch
    return out


class Dropout(nn.Module):
    """:func:`dropout` as a module."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Any shape in, the same shape out."""
        return dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """What ``print(model)`` shows."""
        return f"p={self.p}"
