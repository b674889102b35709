"""Norms as plain functions of their weights. Shapes: [..., D] in and out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from dragoman.model.norms import LayerNorm

Norm = Callable[[Tensor], Tensor]


def fast_norm(module: nn.Module) -> Norm:
    """What ``module`` computes, with less around it where it is a layer norm."""
    if isinstance(module, LayerNorm):
        shape = list(module.weight.shape)
        return partial(
            _layer_norm, shape=shape, weight=module.weight.detach(), bias=module.bias.detach(), eps=module.eps
        )
    return cast("Norm", module)


def _layer_norm(x: Tensor, shape: list[int], weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return torch.layer_norm(x, shape, weight, bias, eps, False)
