"""Learning rates. A step is one update, counted from 1; progress in [0, 1] is the share of the horizon behind."""

from __future__ import annotations

import math
from typing import Any

from dragoman.config import TrainConfig


class Schedule:
    """A rate per update. ``warmup_steps``, or the share ``warmup_ratio`` of the horizon, is a linear rise."""

    def __init__(self, config: TrainConfig) -> None:
        self.peak = config.lr
        self.warmup_steps = config.warmup_steps
        self.warmup_ratio = config.warmup_ratio
        # Where the rise by steps ended on the horizon; the fall starts there.
        self.warmup_end = 0.0

    def rate(self, step: int, progress: float) -> float:
        """The rate of update ``step``."""
        rise = self._rise(step, progress)
        if rise < 1.0:
            self.warmup_end = progress
            return self.peak * rise
        return self.peak * self._after(step, progress)

    def _rise(self, step: int, progress: float) -> float:
        if self.warmup_ratio is not None:
            # One update counts as risen a little, so that the first is not wasted at rate 0.
            return max(progress / self.warmup_ratio, 1e-3) if progress < self.warmup_ratio else 1.0
        return step / self.warmup_steps if step < self.warmup_steps else 1.0

    def _after(self, step: int, progress: float) -> float:
        """The share of the peak once the rise is over."""
        return 1.0

    def fall(self, progress: float) -> float:
        """How much of the way from the end of the rise to the horizon is still ahead, in [0, 1]."""
        begin = self.warmup_end if self.warmup_ratio is None else self.warmup_ratio
        return max(0.0, 1.0 - progress) / max(1e-9, 1.0 - begin)

    def observe(self, loss: float) -> None:
        """Take note of a validation loss; most schedules do not mind."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs, as JSON values."""
        return {"warmup_end": self.warmup_end}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`."""
        vars(self).update(state)


class Constant(Schedule):
    """The peak, after the rise."""


class Linear(Schedule):
    """Falls in a line from the peak to 0 at the horizon."""

    def _after(self, step: int, progress: float) -> float:
        return self.fall(progress)


class Cosine(Schedule):
    """Falls along half a cosine from the peak to 0 at the horizon (Loshchilov and Hutter 2017, equation 5)."""

    def _after(self, step: int, progress: float) -> float:
        return 0.5 * (1.0 - math.cos(math.pi * self.fall(progress)))


class InverseSqrt(Schedule):
    """Falls with the root of the step: peak · sqrt(warm-up steps / step), as fairseq's inverse_sqrt."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(config)
        self.risen_at = max(1, config.warmup_steps)

    def _after(self, step: int, progress: float) -> float:
        return math.sqrt(self.risen_at / max(step, self.risen_at))

    def rate(self, step: int, progress: float) -> float:
        """The rate of update ``step``; with ``warmup_ratio`` the step at which the rise ended is remembered."""
        if self.warmup_ratio is not None and progress < self.warmup_ratio:
            self.risen_at = step
        return super().rate(step, progress)

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {**super().state_dict(), "risen_at": self.risen_at}


class Noam(Schedule):
    """factor · D^-0.5 · min(step^-0.5, step · warm-up^-1.5) (Vaswani et al. 2017, equation 3)."""

    def __init__(self, config: TrainConfig, d_model: int) -> None:
        super().__init__(config)
        self.d_model = d_model

    def rate(self, step: int, progress: float) -> float:
        """The rate of update ``step``; warm-up is by steps alone."""
        warmup = max(1, self.warmup_steps)
        return float(self.peak * self.d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


class Plateau(Schedule):
    """The peak times ``plateau_factor`` for every ``plateau_patience`` + 1 validations without a better loss.

    The rule of PyTorch's ReduceLROnPlateau (relative threshold 1e-4). Validations during the first
    ``warmup_steps`` updates are not counted: the gate of hyunwoongko's recipe; the rate does not rise there.
    """

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(config)
        self.factor = config.plateau_factor
        self.patience = config.plateau_patience
        self.share = 1.0
        self.best = math.inf
        self.bad = 0
        self.step = 0

    def rate(self, step: int, progress: float) -> float:
        """The rate of update ``step``."""
        self.step = step
        return self.peak * self.share

    def observe(self, loss: float) -> None:
        """Count a validation after the gate, and lower the rate where patience is out."""
        if self.step <= self.warmup_steps:
            return
        if loss < self.best * (1.0 - 1e-4):
            self.best, self.bad = loss, 0
            return
        self.bad += 1
        if self.bad > self.patience:
            self.share *= self.factor
            self.bad = 0

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs; an infinite best, which JSON lacks, is left out."""
        state = {"share": self.share, "best": self.best, "bad": self.bad, "step": self.step}
        return {name: value for name, value in state.items() if value != math.inf}


def make_schedule(config: TrainConfig, d_model: int) -> Schedule:
    """The schedule that ``config.schedule`` names."""
    if config.schedule == "noam":
        return Noam(config, d_model)
    kinds: dict[str, type[Schedule]] = {
        "inverse_sqrt": InverseSqrt,
        "cosine": Cosine,
        "linear": Linear,
        "plateau": Plateau,
        "constant": Constant,
    }
    return kinds[config.schedule](config)
