"""The matrix products of training on a CPU, by oneDNN.

PyTorch gives float32 products to MKL, which on processors of other makers than its own leaves half of their speed
unused: on a Zen 5 core 105 GFLOP/s where oneDNN does 230 (``benchmarks/products.py``). The numbers are float32's
either way. Shapes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dragoman.engine.programs import keep_few_programs


def supported(*tensors: Tensor | None) -> bool:
    """Whether oneDNN can multiply these: float32 on a CPU, outside of autocast and of compilation."""
    return (
        all(tensor is None or (tensor.dtype == torch.float32 and tensor.device.type == "cpu") for tensor in tensors)
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # PyTorch
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x`` [...,I] · ``weight`` [O,I]ᵀ + ``bias`` [O] -> [...,O], without a gradient of its own."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return product


def multiply_rows(left: Tensor, right: Tensor) -> Tensor:
    """``left`` [N,O], ``right`` [N,I] -> leftᵀ · right [O,I], as a weight's gradient is.

    oneDNN is fast where the first factor of a product has the fewer rows, so the product of the two orders is taken
    that has them.
    """
    if left.shape[1] > right.shape[1]:
        return multiply(right.t(), left.t()).t()
    return multiply(left.t(), right.t())


class Product(nn.Linear):
    """``nn.Linear`` whose products, forward and backward, are oneDNN's where it can do them."""

    def forward(self, x: Tensor) -> Tensor:
        """[...,I] -> [...,O]."""
        if x.numel() == 0 or not supported(x, self.weight, self.bias):
            return F.linear(x, self.weight, self.bias)
        product: Tensor = _Product.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]  # PyTorch
        return product


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # oneDNN has slow programs alone for strides that are no matrix's, such as those of an expanded tensor.
        x = x.contiguous()
        ctx.save_for_backward(x, weight)
        return multiply(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        by_x, by_weight, by_bias = ctx.needs_input_grad
        gradient = gradients[0].reshape(-1, len(weight)).contiguous()
        return (
            multiply(gradient, weight.t()).view_as(x) if by_x else None,
            multiply_rows(gradient, x.reshape(-1, weight.shape[1])) if by_weight else None,
            gradient.sum(0) if by_bias else None,
        )


def use_products(model: nn.Module) -> None:
    """Make every plain ``nn.Linear`` of ``model`` a :class:`Product`; parameters and their names stay."""
    keep_few_programs()
    for part in model.modules():
        if type(part) is nn.Linear:
            part.__class__ = Product
