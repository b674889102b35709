"""The processes of one training: who leads, what all of them know, and whose gradients are summed.

A process is a rank. Rank 0 leads: it alone prepares the text, writes and speaks. :class:`Ranks` is the run of a single
process, in which every question is answered already; :mod:`dragoman.training.processes` has the same for several.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from dragoman.errors import DragomanError, RunError
from dragoman.model.transformer import Transformer
from dragoman.text.batching import Batch

T = TypeVar("T")
# A loss and a negative log-likelihood, both summed over the target tokens of a batch.
LossFunction = Callable[[Transformer, Batch, float], tuple[Tensor, Tensor]]


class Gradients:
    """The loss of one batch after the other; backward adds its gradients to the parameters'."""

    def __init__(self, model: Transformer, loss: LossFunction, device: torch.device) -> None:
        self.model = model
        self.loss = loss
        self.device = device

    def __call__(self, batch: Batch | None, smoothing: float) -> tuple[Tensor, Tensor]:
        """Loss and negative log-likelihood of a batch, summed over its target tokens. Some rank has a batch."""
        assert batch is not None
        return self.loss(self.model, batch.to(self.device), smoothing)

    def pending(self) -> contextlib.AbstractContextManager[Any]:
        """A block in which backward is not the last one of this rank's update."""
        return contextlib.nullcontext()


class Ranks:
    """A run of one process. ``rank`` counts from 0, ``size`` is the number of ranks."""

    rank = 0
    size = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def decide(self, work: Callable[[], T]) -> T:
        """Rank 0 does ``work``; its outcome, a JSON value, comes back on all ranks. So does its error."""
        return work()

    def lead(self, work: Callable[[], object]) -> None:
        """Rank 0 does ``work`` while the others wait."""
        work()

    def gather(self, value: T) -> list[T]:
        """A JSON value of each rank, on all of them."""
        return [value]

    def sum(self, values: Sequence[float]) -> list[float]:
        """The sums of each of some numbers over all ranks, in float64; the same on all."""
        return list(values)

    def own(self, items: Sequence[T]) -> Sequence[T]:
        """Of what all ranks hold this one's part: every ``size``-th item."""
        return items[self.rank :: self.size]

    def error(self, error: DragomanError) -> DragomanError:
        """The error to raise where all ranks have come to the same one: rank 0 alone speaks."""
        return error

    def seed(self, seed: int, step: int, place: int) -> None:
        """Begin the stream of random numbers of a batch. One process goes on with its own, from batch to batch."""

    def device(self, wanted: torch.device) -> torch.device:
        """The device of this rank."""
        return wanted

    def gradients(self, model: Transformer, loss: LossFunction, device: torch.device) -> Gradients:
        """The gradients of ``model``, which are summed over all ranks before each update."""
        return Gradients(model, loss, device)


def join(device: str) -> Ranks:
    """The ranks of this run: one, unless a launcher set ``WORLD_SIZE``. ``device`` is ``train.device``.

    Raises :class:`RunError` where several processes cannot work together.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Ranks()
    # Imports accelerate, which a run of one process need not wait for.
    from dragoman.training.processes import Processes

    if device == "mps":
        raise RunError("several processes cannot share Apple's GPU; set train.device=cpu, or start one process.")
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return Processes(on_cpu=True)
    here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if here > gpus:
        raise RunError(
            f"{here} processes were started on {socket.gethostname()}, which has {gpus} GPUs; start one for each GPU, "
            "or set train.device=cpu."
        )
    return Processes(on_cpu=False)
