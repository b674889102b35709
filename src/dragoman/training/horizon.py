"""When a training ends, and how far it has come: by steps, by epochs or by the clock, whichever is first."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.config import TrainConfig


@dataclass(frozen=True)
class Horizon:
    """The end of a training; at least one of the three is set."""

    max_steps: int | None
    max_epochs: int | None
    max_seconds: float | None

    @classmethod
    def of(cls, config: TrainConfig) -> Horizon:
        """The horizon that the configuration sets."""
        seconds = None if config.max_minutes is None else 60.0 * config.max_minutes
        return cls(config.max_steps, config.max_epochs, seconds)

    def progress(self, step: int, epochs: float, seconds: float) -> float:
        """The share of the horizon that is behind, in [0, 1]: the largest of the three."""
        shares = (
            step / self.max_steps if self.max_steps else 0.0,
            epochs / self.max_epochs if self.max_epochs else 0.0,
            seconds / self.max_seconds if self.max_seconds else 0.0,
        )
        return min(1.0, max(shares))

    def seconds_left(self, step: int, epochs: float, seconds: float) -> float | None:
        """An estimate from the pace so far; None before there is any."""
        progress = self.progress(step, epochs, seconds)
        if self.max_seconds is not None and progress == seconds / self.max_seconds:
            return self.max_seconds - seconds
        return None if progress == 0.0 else seconds * (1.0 - progress) / progress
