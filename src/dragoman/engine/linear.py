"""Linear layers over weights laid out once for the processor. One class per way of computing the product.

Shapes: M rows, I input width, O output width. All take contiguous float32 rows [M,I] and give float32 [M,O].
"""

from __future__ import annotations

import torch
from torch import Tensor

_RELU = "relu"
_PLAIN = "none"
_ZERO = 128  # what stands for zero in an unsigned byte
# A row of zeros has steps of this size, so that dividing by them is possible.
_LEAST = 1e-30

# The number of rows that oneDNN is told to lay a weight out for. It prefers a plain layout for one row, which is slower
# for all other numbers and no faster for one; from 2 to 512 the layouts are the same.
_ROWS = 32

# Beginning a oneDNN call takes 10 µs longer than beginning one of the BLAS. Up to so many products of two numbers, and
# for one row of any weight, that is more than it saves where the weights come from a cache.
_FEW_PRODUCTS = 650_000


class PackedLinear:
    """x · weightᵀ + bias in float32, the weight in oneDNN's blocked layout; ReLU, or a sum with a residual, fused."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> None:
        self.bias = bias
        self.relu = relu
        self.post = _RELU if relu else _PLAIN
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS)

    def __call__(self, x: Tensor) -> Tensor:
        """[M,I] -> [M,O]."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, self.post, [], "")
        return result

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` [M,O] and the product of ``x`` [M,I], added: a new tensor."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.packed, self.bias, "add")
        return result


class SmallLinear(PackedLinear):
    """The same of a small model, where few rows are the usual case: for these the weight is kept transposed too."""

    def __init__(self, weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> None:
        super().__init__(weight, bias, relu=relu)
        self.transposed = weight.t().contiguous()
        self.few = max(1, _FEW_PRODUCTS // weight.numel())

    def __call__(self, x: Tensor) -> Tensor:
        """[M,I] -> [M,O]."""
        if x.shape[0] > self.few:
            return super().__call__(x)
        y = torch.mm(x, self.transposed) if self.bias is None else torch.addmm(self.bias, x, self.transposed)
        return y.relu_() if self.relu else y

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` [M,O] and the product of ``x`` [M,I], added: a new tensor."""
        return super().add_to(residual, x) if x.shape[0] > self.few else self(x).add_(residual)


class Int8Linear:
    """x · weightᵀ + bias with both factors in eight bits and sums in 32: about a quarter of float32's time and memory.

    The weight is scaled per output, the input per row, both symmetrically, so that a row's result does not depend on
    the rows beside it. Multiplying whole numbers is exact; what is lost is lost in rounding to them.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> None:
        self.bias = bias
        self.relu = relu
        top = weight_limit()
        self.scale = weight.abs().amax(1).clamp_min_(_LEAST) / top
        whole = (weight / self.scale[:, None]).round_().to(torch.int8)
        self.packed = torch.ops.onednn.qlinear_prepack(whole, [_ROWS, weight.shape[1]])
        self.zero_points = torch.zeros(len(weight), dtype=torch.int32)

    def __call__(self, x: Tensor) -> Tensor:
        """[M,I] -> [M,O]."""
        whole, step = quantize_rows(x)
        result: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole, 1.0, _ZERO, self.packed, self.scale, self.zero_points, None, 1.0, 0, torch.float32, _PLAIN, [], ""
        )
        if self.bias is None:
            result.mul_(step)
        else:
            torch.addcmul(self.bias, result, step, out=result)
        return result.relu_() if self.relu else result

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` [M,O] and the product of ``x`` [M,I], added: a new tensor."""
        return self(x).add_(residual)


Linear = PackedLinear | Int8Linear


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [M,I] as whole numbers from 1 to 255 with 128 for zero, and what one step is worth in each row, [M,1]."""
    step = x.abs().amax(1, keepdim=True).clamp_min_(_LEAST).mul_(1 / 127)
    # Through signed bytes: PyTorch converts to these with vector instructions, and to unsigned ones without.
    return (x / step).round_().to(torch.int8).view(torch.uint8).bitwise_xor_(_ZERO), step


def weight_limit() -> int:
    """The largest whole number that an eight-bit weight may be on this processor.

    Without VNNI instructions two products of an input of up to 255 are added in 16 bits: 2 · 255 · 64 fits, 2 · 255 ·
    127 does not.
    """
    return 127 if torch.cpu._is_vnni_supported() else 64
