"""Learning rates. A step is one update, counted from 1; progress in [0, 1] is the share of the horizon behind."""

from __future__ import annotations

import math
from typing import Any

from dragoman.config import TrainConfig
from dragoman.errors import BundleError

# The share of the peak that the first updates get at least where the rise goes by progress, which begins at 0.
_FIRST = 1e-3
# PyTorch's ReduceLROnPlateau: a loss is better if it is lower by this share of the best.
_THRESHOLD = 1e-4


class Schedule:
    """A rate per update. ``warmup_steps``, or the share ``warmup_ratio`` of the horizon, is a linear rise."""

    def __init__(self, config: TrainConfig) -> None:
        self.peak = config.lr
        self.warmup_steps = config.warmup_steps
        self.warmup_ratio = config.warmup_ratio
        # Where the rise ended on the horizon; the fall starts there.
        self.warmup_end = 0.0 if config.warmup_ratio is None else config.warmup_ratio

    def rate(self, step: int, progress: float) -> float:
        """The rate of update ``step``, made when the share ``progress`` of the horizon is behind."""
        if self.warmup_ratio is not None:
            if progress < self.warmup_ratio:
                return self.peak * max(progress / self.warmup_ratio, _FIRST)
        elif step <= self.warmup_steps:
            self.warmup_end = progress
            return self.peak * step / self.warmup_steps
        return self.peak * self._after(step, progress)

    def _after(self, step: int, progress: float) -> float:
        """The share of the peak once the rise is over."""
        return 1.0

    def _ahead(self, progress: float) -> float:
        """How much of the way from the end of the rise to the horizon is still ahead, in [0, 1]."""
        return max(0.0, 1.0 - progress) / max(1e-9, 1.0 - self.warmup_end)

    def observe(self, loss: float) -> None:
        """Take note of a validation loss; most schedules do not mind."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs, as JSON values."""
        return {"warmup_end": self.warmup_end}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from :meth:`state_dict`. Raises :class:`BundleError` for the state of another schedule."""
        if state.keys() != self.state_dict().keys():
            raise BundleError("the checkpoint was written with another train.schedule; resume with the same one.")
        vars(self).update(state)


class Constant(Schedule):
    """The peak, after the rise."""


class Linear(Schedule):
    """Falls in a line from the peak to 0 at the horizon."""

    def _after(self, step: int, progress: float) -> float:
        return self._ahead(progress)


class Cosine(Schedule):
    """Falls along half a cosine from the peak to 0 at the horizon (Loshchilov and Hutter 2017, equation 5)."""

    def _after(self, step: int, progress: float) -> float:
        return 0.5 * (1.0 - math.cos(math.pi * self._ahead(progress)))


class InverseSqrt(Schedule):
    """Falls with the root of the step: peak · sqrt(warm-up steps / step), as fairseq's inverse_sqrt.

    With ``warmup_ratio`` the warm-up steps are those that the rise turned out to take.
    """

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(config)
        self.risen_at = max(1, config.warmup_steps) if config.warmup_ratio is None else 1

    def rate(self, step: int, progress: float) -> float:
        """The rate of update ``step``; the step at which the rise ended is remembered."""
        if self.warmup_ratio is not None and progress < self.warmup_ratio:
            self.risen_at = step
        return super().rate(step, progress)

    def _after(self, step: int, progress: float) -> float:
        return math.sqrt(self.risen_at / max(step, self.risen_at))

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {**super().state_dict(), "risen_at": self.risen_at}


class Noam(Schedule):
    """factor · D^-0.5 · min(step^-0.5, step · warm-up^-1.5) (Vaswani et al. 2017, equation 3); warm-up is in steps."""

    def __init__(self, config: TrainConfig, d_model: int) -> None:
        super().__init__(config)
        self.d_model = d_model

    def rate(self, step: int, progress: float) -> float:
        """The rate of update ``step``."""
        warmup = max(1, self.warmup_steps)
        return float(self.peak * self.d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


class Plateau(Schedule):
    """The peak times ``plateau_factor`` for every ``plateau_patience`` + 1 validations without a better loss.

    The rule of PyTorch's ReduceLROnPlateau. Validations during the warm-up are not counted: the gate of
    hyunwoongko's recipe; the rate does not rise there.
    """

    def __init__(self, config: TrainConfig) -> None:
        super().__init__(config)
        self.factor = config.plateau_factor
        self.patience = config.plateau_patience
        self.share = 1.0
        self.best: float | None = None
        self.bad = 0
        self.gated = True

    def rate(self, step: int, progress: float) -> float:
        """The rate of update ``step``."""
        self.gated = step <= self.warmup_steps if self.warmup_ratio is None else progress < self.warmup_ratio
        return self.peak * self.share

    def observe(self, loss: float) -> None:
        """Count a validation after the gate, and lower the rate where patience is out."""
        if self.gated:
            return
        if loss < (math.inf if self.best is None else self.best * (1.0 - _THRESHOLD)):
            self.best, self.bad = loss, 0
            return
        self.bad += 1
        if self.bad > self.patience:
            self.share *= self.factor
            self.bad = 0

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"share": self.share, "best": self.best, "bad": self.bad, "gated": self.gated}


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
