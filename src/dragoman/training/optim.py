"""The optimizer, which parameters decay, and gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from dragoman.config import TrainConfig
from dragoman.model.positions import Learned

# Devices with fused kernels in every PyTorch that we accept. On a CPU they take a third of the time of the others.
_FUSED = ("cpu", "cuda")


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam (Kingma and Ba 2015) or AdamW (Loshchilov and Hutter 2019), in PyTorch's fused form where there is one.

    ``weight_decay`` acts on matrices alone: norms, biases, embeddings (learned positions too) and whatever is tied
    to an embedding are spared. With ``adam`` it is added to the gradient (L2), with ``adamw`` it shrinks the weights.
    The groups carry the parameters' names, which checkpoints use.
    """
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding | Learned)}
    decayed: list[tuple[str, nn.Parameter]] = []
    spared: list[tuple[str, nn.Parameter]] = []
    for name, parameter in model.named_parameters():
        (decayed if parameter.dim() > 1 and id(parameter) not in tables else spared).append((name, parameter))
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    fused = next(model.parameters()).device.type in _FUSED
    return kind(
        [group for group in groups if group["params"]], lr=config.lr, betas=config.betas, eps=config.eps, fused=fused
    )


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Scale all gradients down to a common norm of at most ``max_norm`` (0: leave them); the norm before comes back.

    A norm that is not finite comes back as infinity, and the gradients are left as they are: skip that update.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    if not math.isfinite(norm):
        return math.inf
    if 0.0 < max_norm < norm:
        torch._foreach_mul_(gradients, max_norm / norm)
    return norm
