"""Several processes that train one model, on accelerate: what they tell each other, and the sum of their gradients."""

from __future__ import annotations

import atexit
import contextlib
import json
import socket
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from accelerate import Accelerator, DistributedType
from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs
from torch import Tensor, nn

from dragoman.errors import DragomanError, RunError, ToldError
from dragoman.model.transformer import Transformer
from dragoman.text.batching import Batch
from dragoman.training.ranks import Gradients, LossFunction, Ranks

# So long a rank waits for the others inside an update: many times what the slowest update takes, compiling included.
PEER_TIMEOUT = timedelta(minutes=10)
# So long the others wait for what rank 0 does alone, such as tokenising. A rank that dies is noticed at once, by its
# closed connections, so that this bounds nothing but a rank 0 that hangs.
LEADER_TIMEOUT = timedelta(days=7)

T = TypeVar("T")


class Processes(Ranks):
    """One of several processes, which ``torchrun`` or ``accelerate launch`` started.

    Raises :class:`RunError` where they cannot find each other or are not made for one GPU or CPU each.
    """

    def __init__(self, on_cpu: bool) -> None:
        settings = [
            InitProcessGroupKwargs(timeout=PEER_TIMEOUT),
            DistributedDataParallelKwargs(gradient_as_bucket_view=True),
        ]
        try:
            # The trainer casts and scales for itself, in one way for any number of ranks.
            self._accelerator = Accelerator(cpu=on_cpu, mixed_precision="no", kwargs_handlers=settings)
        except (RuntimeError, ValueError, OSError) as error:
            raise RunError(
                f"the processes of this training cannot find each other ({str(error).splitlines()[0]}); "
                "start them with torchrun as docs/scaling.md says."
            ) from error
        if self._accelerator.distributed_type not in (DistributedType.MULTI_CPU, DistributedType.MULTI_GPU):
            raise RunError(
                f"several processes train on CPUs or on NVIDIA or AMD GPUs, each with the whole model, and not as "
                f"{self._accelerator.distributed_type.value}; set train.device, or start one process."
            )
        self.rank = self._accelerator.process_index
        self.size = self._accelerator.num_processes
        # Decisions travel between the processors, whatever the gradients use.
        self._quick = dist.new_group(backend="gloo", timeout=PEER_TIMEOUT)
        self._patient = dist.new_group(backend="gloo", timeout=LEADER_TIMEOUT)
        # Not before the end: a process may train several models one after the other.
        _at_exit(_leave)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            _at_exit(_break_off, self._quick, self._patient)
        if isinstance(error, RuntimeError) and _is_lost(error):
            raise RunError(
                "another process of this training ended or hangs, so that this one on "
                f"{socket.gethostname()} ends too; go on with --resume."
            ) from error

    def decide(self, work: Callable[[], T]) -> T:
        """Rank 0 does ``work``; its outcome, a JSON value, comes back on all ranks. So does its error."""
        if not self.leads:
            answer = json.loads(self._broadcast(b""))
            if "error" in answer:
                raise ToldError(answer["error"], answer["exit_code"])
            outcome: T = answer["outcome"]
            return outcome
        try:
            outcome = work()
        except DragomanError as error:
            self._broadcast(json.dumps({"error": str(error), "exit_code": error.exit_code}).encode())
            raise
        self._broadcast(json.dumps({"outcome": outcome}).encode())
        return outcome

    def lead(self, work: Callable[[], object]) -> None:
        """Rank 0 does ``work`` while the others wait."""

        def silent() -> None:
            work()

        self.decide(silent)

    def _broadcast(self, content: bytes) -> bytes:
        """The content that rank 0 has, on all ranks."""
        length = torch.tensor(len(content))
        dist.broadcast(length, 0, group=self._patient)
        sent = _bytes(content) if self.leads else torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(sent, 0, group=self._patient)
        return sent.numpy().tobytes()

    def gather(self, value: T) -> list[T]:
        """A JSON value of each rank, on all of them."""
        content = _bytes(json.dumps(value).encode())
        lengths = [torch.zeros((), dtype=torch.int64) for _ in range(self.size)]
        dist.all_gather(lengths, torch.tensor(len(content)), group=self._patient)
        widest = int(max(lengths))
        padded = torch.zeros(widest, dtype=torch.uint8)
        padded[: len(content)] = content
        parts = [torch.empty(widest, dtype=torch.uint8) for _ in range(self.size)]
        dist.all_gather(parts, padded, group=self._patient)
        return [json.loads(part[: int(length)].numpy().tobytes()) for part, length in zip(parts, lengths, strict=True)]

    def sum(self, values: Sequence[float]) -> list[float]:
        """The sums of each of some numbers over all ranks, in float64; the same on all."""
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total, group=self._quick)
        return total.tolist()

    def error(self, error: DragomanError) -> DragomanError:
        """The error to raise where all ranks have come to the same one: rank 0 alone speaks."""
        return error if self.leads else ToldError(str(error), error.exit_code)

    def seed(self, seed: int, step: int, place: int) -> None:
        """Begin the stream of random numbers of this rank's ``place``-th batch of an update.

        It belongs to the batch, whichever rank it is dealt to, so that a run on more or fewer ranks drops the same.
        """
        numbers = (seed, step, place * self.size + self.rank)
        torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]))

    def device(self, wanted: torch.device) -> torch.device:
        """The device of this rank: of several GPUs its own."""
        own: torch.device = self._accelerator.device
        return own if own.type == "cuda" else torch.device("cpu")

    def gradients(self, model: Transformer, loss: LossFunction, device: torch.device) -> Gradients:
        """The gradients of ``model``, which are summed over all ranks before each update."""
        return _SummedGradients(model, loss, device, self._accelerator)


class _SummedGradients(Gradients):
    """Gradients that the last backward of each rank's update sums over all ranks, by DistributedDataParallel.

    Summed, not averaged: the trainer has divided by the target tokens of all ranks already.
    """

    def __init__(self, model: Transformer, loss: LossFunction, device: torch.device, accelerator: Any) -> None:
        super().__init__(model, loss, device)
        self._parallel = accelerator.prepare_model(_BatchLoss(model, loss))
        # PyTorch refuses a hook whose annotations are strings, as ours are: a lambda has none.
        self._parallel.register_comm_hook(None, lambda _, bucket: _sum_bucket(bucket))

    def __call__(self, batch: Batch | None, smoothing: float) -> tuple[Tensor, Tensor]:
        """Loss and negative log-likelihood of a batch; of None, zeros that have gradients, which are zeros too."""
        loss, nll = self._parallel(None if batch is None else batch.to(self.device), smoothing)
        return loss, nll

    def pending(self) -> contextlib.AbstractContextManager[Any]:
        """A block in which backward keeps its gradients to this rank."""
        block: contextlib.AbstractContextManager[Any] = self._parallel.no_sync()
        return block


class _BatchLoss(nn.Module):
    """The loss as a module of the model's parameters, which is what DistributedDataParallel wraps.

    The model itself is no part of it: its buffers are the same everywhere and need not be sent before each batch.
    """

    def __init__(self, model: Transformer, loss: LossFunction) -> None:
        super().__init__()
        self.weights = nn.ParameterList(model.parameters())
        self._run: Callable[[Batch, float], tuple[Tensor, Tensor]] = lambda *given: loss(model, *given)

    def forward(self, batch: Batch | None, smoothing: float) -> tuple[Tensor, Tensor]:
        """The loss of a batch, or zeros that depend on every parameter."""
        if batch is not None:
            return self._run(batch, smoothing)
        zero = torch.stack([weight.sum() for weight in self.weights]).sum() * 0.0
        return zero, zero.detach()


def _sum_bucket(bucket: Any) -> Any:
    """DistributedDataParallel's communication hook without its division by the number of ranks."""
    work: Any = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def _at_exit(leave: Callable[..., None], *groups: Any) -> None:
    """Let ``leave`` end the connections when the process ends, in place of what was to do so before.

    Gloo's threads run our Python, and abort a process whose interpreter is gone before they are.
    """
    for other in (_leave, _break_off):
        atexit.unregister(other)
    atexit.register(leave, *groups)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _break_off(*groups: Any) -> None:
    """The same after an error: what is under way with others is not waited for."""
    if dist.is_initialized():
        for group in (dist.group.WORLD, *groups):
            group.abort()
    _leave()


def _bytes(content: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy())


def _is_lost(error: RuntimeError) -> bool:
    """Whether an error of PyTorch's is that another rank does not answer. Gloo's have no type of their own."""
    return isinstance(error, dist.DistError) or "gloo" in str(error).lower()
