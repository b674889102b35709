"""Averages of weights: exponential over the updates, or plain over the last checkpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]


def _parameters(model: nn.Module) -> Weights:
    """The parameters by name, a tied one once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


class Ema:
    """An exponential moving average of the parameters (Polyak and Juditsky 1992; decay per update).

    The decay grows with the updates, min(decay, (1 + n) / (10 + n)), as TensorFlow's ExponentialMovingAverage
    has it, so that the random first weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.decay = decay
        self.updates = 0
        self.averages = {name: tensor.clone() for name, tensor in _parameters(model).items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the model's weights after an update."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        current = _parameters(self.model)
        torch._foreach_lerp_(list(self.averages.values()), [current[name] for name in self.averages], 1.0 - decay)

    def weights(self) -> Weights:
        """The averages by parameter name."""
        return self.averages


def mean_weights(models: Sequence[Weights]) -> Weights:
    """The mean of several sets of weights, summed in float64."""
    return {
        name: (
            sum((weights[name].double() for weights in models), torch.zeros((), dtype=torch.float64)) / len(models)
        ).to(tensor.dtype)
        for name, tensor in models[0].items()
    }


@contextlib.contextmanager
def swapped(model: nn.Module, weights: Weights) -> Iterator[None]:
    """Other ``weights`` in the model while the block runs; afterwards its own, to the bit."""
    own = {name: tensor.clone() for name, tensor in _parameters(model).items()}
    parameters = _parameters(model)
    try:
        for name, tensor in parameters.items():
            tensor.copy_(weights[name])
        yield
    finally:
        for name, tensor in parameters.items():
            tensor.copy_(own[name])
