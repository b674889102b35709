"""Losses: cross-entropy with label smoothing, and the output projection joined to it.

Shapes: N target positions, D ``d_model``, V target vocabulary. Losses are sums over rows, in nats.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Elements of a chunk's logits: enough for full-speed matrix products, and the chunk stays in the cache.
_CHUNK_ELEMENTS = 1 << 22


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


def projected_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float,
    chunk_rows: int | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`smoothed_cross_entropy` of ``hidden`` [N,D] · ``weight`` [V,D]ᵀ + ``bias`` [V], in chunks of rows.

    The logits [N,V] never exist whole. The gradient is computed along with the loss, from the softmax itself,
    so that a training step reads each chunk once. The second value has no gradient.
    """
    rows = chunk_rows or max(1, _CHUNK_ELEMENTS // weight.shape[0])
    loss, nll = _ProjectedLoss.apply(hidden, weight, bias, targets, smoothing, rows)  # type: ignore[no-untyped-call]
    return loss, nll


class _ProjectedLoss(torch.autograd.Function):
    """Per row: lse - (1 - ε)·l_t - ε·mean(l), whose gradient by l is softmax(l) - ε/V - (1 - ε)·onehot(t).

    The two last parts of the gradient are the same for all chunks or touch one row of the weight each, so they
    are added outside the [rows,V] buffer.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, rows: int
    ) -> tuple[Tensor, Tensor]:
        wanted = any(ctx.needs_input_grad[:3])
        exact = torch.promote_types(hidden.dtype, torch.float32)
        matrix = weight.to(hidden.dtype)
        grad_hidden = torch.empty_like(hidden) if wanted else None
        grad_weight = torch.zeros_like(weight, dtype=exact) if wanted else None
        grad_bias = torch.zeros_like(bias, dtype=exact) if wanted and bias is not None else None
        lse = torch.empty(len(targets), dtype=exact, device=hidden.device)
        for begin in range(0, len(targets), rows):
            part = hidden[begin : begin + rows]
            logits = (part @ matrix.t() if bias is None else torch.addmm(bias.to(hidden.dtype), part, matrix.t())).to(
                exact
            )
            logprobs = torch.log_softmax(logits, dim=-1)
            lse[begin : begin + rows] = logits[:, 0] - logprobs[:, 0]
            if grad_hidden is not None and grad_weight is not None:
                softmax = logprobs.exp_().to(hidden.dtype)
                torch.mm(softmax, matrix, out=grad_hidden[begin : begin + rows])
                if exact == hidden.dtype:
                    grad_weight.addmm_(softmax.t(), part)
                else:
                    grad_weight += softmax.t() @ part
                if grad_bias is not None:
                    grad_bias += softmax.sum(0)
        target_rows = weight.index_select(0, targets).to(exact)
        column_sum = weight.sum(0, dtype=exact)
        target_logits = (hidden.to(exact) * target_rows).sum(1)
        mean_logits = hidden.to(exact) @ column_sum / len(weight)
        if bias is not None:
            target_logits = target_logits + bias.index_select(0, targets)
            mean_logits = mean_logits + bias.mean(dtype=exact)
        nll = (lse - target_logits).sum()
        loss = (1.0 - smoothing) * nll + smoothing * (lse - mean_logits).sum()
        if grad_hidden is not None and grad_weight is not None:
            spread = smoothing / len(weight)
            grad_hidden -= ((1.0 - smoothing) * target_rows + spread * column_sum).to(hidden.dtype)
            grad_weight -= spread * hidden.sum(0, dtype=exact)
            grad_weight.index_add_(0, targets, hidden.to(exact), alpha=smoothing - 1.0)
            if grad_bias is not None:
                grad_bias -= spread * len(targets)
                grad_bias.index_add_(0, targets, torch.ones_like(lse), alpha=smoothing - 1.0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scale = gradients[0]
        scaled = [None if saved is None else saved.mul(scale.to(saved.dtype)) for saved in ctx.saved_tensors]
        return scaled[0], scaled[1], scaled[2], None, None, None
