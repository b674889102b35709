"""Whether a model learns: one small batch has to be learned by heart, and the rate set has to be borne.

Shapes: B batch, T target length.
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from dragoman.config import TrainConfig
from dragoman.doctor.saying import Often, Say
from dragoman.model.transformer import Transformer
from dragoman.preflight.finding import Finding
from dragoman.text.batching import Batch
from dragoman.training.optim import clip_gradients, make_optimizer
from dragoman.training.validation import batch_loss

# Nats per target token. Learned by heart, a batch is below; a model that cannot see its source, or its own
# prefix, stays far above.
_LEARNED = 0.2
# Of the first loss: a model that is still above it after many updates does not learn at all.
_STUCK = 0.5
_UPDATES = 400
_LEAST_UPDATES = 60
_WARMUP = 20
# A loss that is above this share of what it was half as many updates ago stands still; the next try has a lower rate,
# unless more of the time than this is gone.
_STALLED = 0.85
_LAST_TRY = 0.05
_NEXT_TRY = 0.8
# A loss of so many times the first one is no noise: the first one is that of guessing.
_DIVERGED = 1.4
_RISE = 40
_HOLD = 20


@dataclass
class Pace:
    """What the rate test measured on the side: seconds of an update of ``batch_tokens`` tokens; None: nothing."""

    seconds: float | None = None


class _Learner:
    """A copy of a model and its optimizer, which makes updates at rates that it is told."""

    def __init__(self, model: Transformer, config: TrainConfig) -> None:
        # A tied copy stays tied.
        self.model = copy.deepcopy(model)
        self.config = config
        self.optimizer = make_optimizer(self.model, config)
        self.device = next(model.parameters()).device

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        # fp16 needs a scaler; whether a rate is borne does not hang on it.
        if self.config.precision != "bf16":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def update(self, batch: Batch, rate: float, smoothing: float) -> float:
        """One update; the negative log-likelihood per target token before it, infinite where it is no number."""
        with self._autocast():
            loss, nll = batch_loss(self.model, batch, smoothing)
        mean = loss / batch.n_tgt_tokens
        mean.backward()  # type: ignore[no-untyped-call]  # PyTorch
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        norm = clip_gradients(list(self.model.parameters()), self.config.clip_norm)
        if math.isfinite(norm):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        value = nll.item() / batch.n_tgt_tokens
        return value if math.isfinite(value) and math.isfinite(norm) else math.inf


def overfit(model: Transformer, batch: Batch, config: TrainConfig, seconds: float, say: Say) -> Iterator[Finding]:
    """Learn one small batch by heart, without dropout and smoothing, for at most ``seconds``.

    The rate is 0.03 / sqrt(D): 2.7e-3 at a width of 128, 1.3e-3 at 512. A deep post-norm model without a long warm-up
    does not bear that, so that a loss that stands still is tried again at a fifth of it, and at a twentieth.
    """
    rate = 0.03 * model.config.d_model**-0.5
    plain = config.changed(weight_decay=0.0, clip_norm=1.0)
    started = time.monotonic()
    often = Often(say)
    first = last = math.inf
    made = 0
    for factor in (1.0, 0.2, _LAST_TRY):
        learner = _Learner(model, plain)
        losses: list[float] = []
        # Dropout is off, so that the loss can reach nothing.
        learner.model.eval()
        for made in range(1, _UPDATES + 1):
            last = learner.update(batch, factor * rate * min(1.0, made / _WARMUP), 0.0)
            first = min(first, last) if made == 1 else first
            if last < _LEARNED:
                yield Finding(
                    "ok", f"the loss of {len(batch.src)} pairs fell from {first:.2f} to {last:.2f} in {made} updates"
                )
                return
            often(f"learning one batch by heart: {made} updates, loss {last:.2f}")
            losses.append(last)
            stalled = len(losses) >= _LEAST_UPDATES and last > _STALLED * losses[-_LEAST_UPDATES // 2]
            if last == math.inf or time.monotonic() - started > seconds or (stalled and factor > _LAST_TRY):
                break
        if time.monotonic() - started > _NEXT_TRY * seconds:
            break
    if last == math.inf:
        yield Finding(
            "error",
            f"the loss of one batch of {len(batch.src)} pairs is no number after {made} updates at "
            f"{factor * rate:.0e}; look for weights that are not finite, or a division by zero in a mask or a norm.",
        )
    elif last > _STUCK * first and made >= _LEAST_UPDATES:
        yield Finding(
            "error",
            f"one batch of {len(batch.src)} pairs cannot be learned by heart: the loss only went from {first:.2f} to "
            f"{last:.2f} in {made} updates; look for frozen or dead weights, masks that hide the source, or a model "
            "that is far too small.",
        )
    elif made == _UPDATES:
        yield Finding(
            "warning",
            f"one batch of {len(batch.src)} pairs is not learned by heart after {made} updates (loss {first:.2f} to "
            f"{last:.2f}); the model may be too small, or part of its input hidden.",
        )
    else:
        yield Finding(
            "note",
            f"the loss of one batch went from {first:.2f} to {last:.2f} in {made} updates and then the time was up; "
            "give doctor more --seconds to be sure.",
        )


def _rise(number: int, total: int, peak: float) -> float:
    """A hundredth of the peak to the peak, each update the same factor higher."""
    return float(peak * 100.0 ** (min(1.0, number / max(1, total - 1)) - 1.0))


def rate_test(
    model: Transformer,
    batches: Iterator[Batch],
    config: TrainConfig,
    peak: float,
    seconds: float,
    say: Say,
    pace: Pace,
) -> Iterator[Finding]:
    """Raise the rate to its peak within some updates, stay there, and see whether the loss explodes.

    A range test (Smith 2017) that ends at the rate that is set. The rise is shorter than a real warm-up, so only an
    explosion counts: a loss well above that of guessing, or one that is no number. ``pace`` receives the seconds of an
    update.
    """
    learner = _Learner(model, config)
    learner.model.train()
    losses: list[float] = []
    rise, hold = _RISE, _HOLD
    often = Often(say)
    started = time.monotonic()
    for number, batch in enumerate(batches):
        rate = _rise(number, rise, peak)
        losses.append(learner.update(batch.to(learner.device), rate, config.label_smoothing))
        now = time.monotonic() - started
        if number == 0:
            # The first one also pays for warming up.
            started = time.monotonic()
        elif number == 2:
            pace.seconds = now / 2
            # Fewer updates where the time does not suffice.
            fitting = max(12, int(seconds / pace.seconds))
            rise, hold = min(_RISE, fitting * 2 // 3), min(_HOLD, fitting // 3)
        often(f"trying the learning rate: {rate:.1e}, loss {losses[-1]:.2f}")
        if losses[-1] > _DIVERGED * losses[0]:
            yield Finding(
                "warning",
                f"at a learning rate of {rate:.1e} the loss exploded (from {losses[0]:.2f} to {losses[-1]:.2f}), and "
                f"the peak set is {peak:.1e}; lower train.lr to about {rate / 5:.0e}, keep train.clip_norm at 1 and "
                "lengthen the warm-up.",
            )
            return
        if number + 1 >= rise + hold:
            break
        if now > 2 * seconds:
            yield Finding("note", f"the time was up at a learning rate of {rate:.1e}; give doctor more --seconds.")
            return
    yield Finding("ok", f"up to {peak:.1e} the loss went from {losses[0]:.2f} to {losses[-1]:.2f}")
