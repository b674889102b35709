"""Averages of weights: exponential over the updates, or plain over the last checkpoints.

Weights go by the names of ``named_parameters``, where a tied matrix stands once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from dragoman.errors import BundleError

Weights = dict[str, Tensor]


def _parameters(model: nn.Module) -> Weights:
    """The parameters by name, a tied one once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _fill(targets: Weights, weights: Weights, where: str) -> None:
    """Copy ``weights`` into ``targets``, all or none. Raises :class:`BundleError` for the first that does not fit."""
    for name, target in targets.items():
        if name not in weights or weights[name].shape != target.shape:
            raise BundleError(f"{where} do not fit this model: {name} is missing or of another shape; use its own.")
    for name, target in targets.items():
        target.copy_(weights[name])


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

    def restore(self, weights: Weights, updates: int) -> None:
        """Go on from the :meth:`weights` after so many updates. Raises :class:`BundleError` where they do not fit."""
        _fill(self.averages, weights, "the averaged weights of the checkpoint")
        self.updates = updates


def mean_weights(models: Sequence[Weights]) -> Weights:
    """The mean of several sets of weights on the CPU, summed in float64; each keeps the type of the first set's."""
    return {
        name: torch.stack([weights[name].to("cpu", torch.float64) for weights in models]).mean(0).to(tensor.dtype)
        for name, tensor in models[0].items()
    }


@contextlib.contextmanager
def swapped(model: nn.Module, weights: Weights) -> Iterator[None]:
    """Other ``weights`` in the model while the block runs; afterwards its own, to the bit.

    Raises :class:`BundleError` where the weights are not those of such a model.
    """
    parameters = _parameters(model)
    own = {name: tensor.clone() for name, tensor in parameters.items()}
    _fill(parameters, weights, "the averaged weights")
    try:
        yield
    finally:
        for name, tensor in parameters.items():
            tensor.copy_(own[name])
