"""Normalisation over the features, one class per kind. Shapes: [..., D] in, the same out; D is ``d_model``."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) · weight + bias, with the biased variance (Ba et al. 2016)."""

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] in and out."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class StdNorm(nn.Module):
    """(x - mean) / (deviation + eps) · weight + bias, with the n-1 deviation and eps outside the root.

    The norm of the Annotated Transformer and of hkproj; ``width`` 1 gives the one gain and bias for all
    features that hkproj's article has.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] in and out."""
        # As in the other norms, float32 inside: the gradient over a small eps leaves float16.
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        deviation = wide.std(-1, keepdim=True)
        normed = (wide - wide.mean(-1, keepdim=True)) / (deviation + self.eps)
        return self.weight * normed.to(x.dtype) + self.bias


class RMSNorm(nn.Module):
    """x / sqrt(mean of x² + eps) · weight (Zhang and Sennrich 2019)."""

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] in and out."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def make_norm(kind: str, d_model: int, eps: float) -> nn.Module:
    """The norm that ``ModelConfig.norm`` names."""
    if kind == "layer":
        return LayerNorm(d_model, eps)
    if kind == "rms":
        return RMSNorm(d_model, eps)
    return StdNorm(1 if kind == "std_scalar" else d_model, eps)
