"""Losses: cross-entropy with label smoothing, and the output projection joined to it.

Shapes: N target positions, R rows of a chunk, D ``d_model``, V target vocabulary. Losses are sums over rows, in nats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.training.products import multiply, multiply_rows, supported

# Elements of a chunk [R,V]. On a CPU it should fit the cache, and several times as much memory is at work with it; on a
# GPU few, large products are best.
_CPU_ELEMENTS = 1 << 21
_GPU_ELEMENTS = 1 << 26
# With fewer rows than this, reading the weight and its gradient once a chunk costs more than the products.
_LEAST_ROWS = 512


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Loss and negative log-likelihood of ``targets`` [N] under ``logits`` [N,V], both summed.

    The target distribution is (1 - ε) on the target plus ε / V on every token, the target included (Szegedy et
    al. 2016, section 7), as ``torch.nn.functional.cross_entropy`` has it.
    """
    logprobs = F.log_softmax(logits, dim=-1)
    nll = -logprobs.gather(1, targets[:, None]).sum()
    return (1.0 - smoothing) * nll - smoothing * logprobs.mean(-1).sum(), nll


def smoothed_kl(logits: Tensor, targets: Tensor, smoothing: float, pad_id: int) -> Tensor:
    """Kullback-Leibler divergence from smoothed targets, summed: the Annotated Transformer's loss.

    1 - ε on the target, ε / (V - 2) on every other token but padding; rows whose target is ``pad_id`` count nothing.
    """
    size = logits.shape[-1]
    wanted = torch.full_like(logits, smoothing / (size - 2))
    wanted.scatter_(1, targets[:, None], 1.0 - smoothing)
    wanted[:, pad_id] = 0.0
    wanted = wanted * (targets != pad_id)[:, None]
    return F.kl_div(F.log_softmax(logits, dim=-1), wanted, reduction="sum")


# Compiled, the loop over chunks would be unrolled anew for every N; its time is in library calls anyway.
_eager: Callable[[Callable[..., tuple[Tensor, Tensor]]], Callable[..., tuple[Tensor, Tensor]]] = torch.compiler.disable


@_eager
def projected_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    chunk_rows: int | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`smoothed_cross_entropy` of ``hidden`` [N,D] · ``weight`` [V,D]ᵀ + ``bias`` [V], in chunks of rows.

    The logits [N,V] never exist whole. The gradient is computed along with the loss, from the softmax itself, so
    that a training step fills each chunk once. The second value has no gradient. Under autocast the products run
    in its type; softmax, sums and the weight's gradient stay in float32.
    """
    kind = hidden.device.type
    if chunk_rows is None:
        chunk_rows = max(_LEAST_ROWS, (_CPU_ELEMENTS if kind == "cpu" else _GPU_ELEMENTS) // len(weight))
    if torch.is_autocast_enabled(kind):
        hidden = hidden.to(torch.get_autocast_dtype(kind))
    with torch.autocast(kind, enabled=False):
        arguments = hidden, weight, bias, targets, smoothing, chunk_rows
        loss, nll = _ProjectedLoss.apply(*arguments)  # type: ignore[no-untyped-call]  # PyTorch
    return loss, nll


class _ProjectedLoss(torch.autograd.Function):
    """Per row: lse - (1 - ε)·l_t - ε·mean(l), whose gradient by the logits l is softmax(l) - (1 - ε)·onehot(t) - ε/V.

    lse is the log of the sum of exp(l). One buffer [R,V] holds in turn a chunk's logits, softmax and gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, rows: int
    ) -> tuple[Tensor, Tensor]:
        exact = torch.promote_types(hidden.dtype, torch.float32)
        matrix = weight.to(hidden.dtype)
        sums = _Gradients(hidden, weight, bias, exact, ctx.needs_input_grad)
        # oneDNN has its own memory for each chunk's.
        held = 0 if supported(hidden, matrix) else min(rows, len(targets))
        buffer = torch.empty(held, len(weight), dtype=exact, device=hidden.device)
        nll = torch.zeros((), dtype=exact, device=hidden.device)
        loss = torch.zeros_like(nll)
        for begin in range(0, len(targets), rows):
            part = hidden[begin : begin + rows]
            column = targets[begin : begin + rows, None]
            logits = _project(part, matrix, bias, buffer[: len(part)])
            target_logits = logits.gather(1, column).squeeze(1)
            mean_logits = logits.mean(1) if smoothing else target_logits
            largest = logits.amax(1)
            softmax = torch.softmax(logits, 1, out=logits)
            # The largest softmax is 1 / Σ exp(l - largest) and at least 1 / V: no second pass of exponentials,
            # and no logarithm of 0.
            lse = largest - softmax.amax(1).log_()
            nll += (lse - target_logits).sum()
            loss += (lse - (1.0 - smoothing) * target_logits - smoothing * mean_logits).sum()
            if sums.wanted:
                softmax.scatter_add_(1, column, softmax.new_full((1, 1), smoothing - 1.0).expand_as(column))
                sums.add(begin, part, matrix, softmax.sub_(smoothing / len(weight)) if smoothing else softmax)
            # The next chunk finds their memory free, and in the cache.
            del logits, softmax
        ctx.save_for_backward(sums.hidden, sums.weight, sums.bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scale = gradients[0]
        scaled = [None if saved is None else saved.mul(scale.to(saved.dtype)) for saved in ctx.saved_tensors]
        return scaled[0], scaled[1], scaled[2], None, None, None


class _Gradients:
    """The gradients of the summed loss, gathered chunk by chunk; None for an input that needs none."""

    def __init__(
        self, hidden: Tensor, weight: Tensor, bias: Tensor | None, exact: torch.dtype, needed: tuple[bool, ...]
    ) -> None:
        self.wanted = any(needed[:3])
        self.hidden = torch.empty_like(hidden) if needed[0] else None
        self.weight = torch.zeros_like(weight, dtype=exact) if needed[1] else None
        self.bias = torch.zeros_like(bias, dtype=exact) if bias is not None and needed[2] else None

    def add(self, begin: int, part: Tensor, matrix: Tensor, by_logits: Tensor) -> None:
        """Add the chunk of rows ``part`` [R,D] that begins at row ``begin``; ``by_logits`` [R,V]."""
        if self.bias is not None:
            self.bias += by_logits.sum(0)
        by_logits = by_logits.to(matrix.dtype)
        fast = supported(by_logits, matrix)
        if self.hidden is not None:
            rows = self.hidden[begin : begin + len(part)]
            rows.copy_(multiply(by_logits, matrix.t())) if fast else torch.mm(by_logits, matrix, out=rows)
        if self.weight is None:
            return
        if fast:
            self.weight += multiply_rows(by_logits, part)
        elif self.weight.dtype == part.dtype:
            self.weight.addmm_(by_logits.t(), part)
        else:
            self.weight += by_logits.t() @ part


def _project(part: Tensor, matrix: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """``part`` [R,D] · ``matrix`` [V,D]ᵀ + ``bias`` [V], in ``out`` [R,V] but where oneDNN multiplies.

    ``out`` may be of a wider type.
    """
    if supported(part, matrix):
        return multiply(part, matrix, bias)
    if out.dtype != part.dtype:
        out.copy_(part @ matrix.t())
        return out if bias is None else out.add_(bias)
    if bias is None:
        return torch.mm(part, matrix.t(), out=out)
    return torch.addmm(bias, part, matrix.t(), out=out)
