"""What a training run tells the person who waits: a bar on a terminal, plain lines elsewhere; always on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn


def duration(seconds: float) -> str:
    """``75.0`` -> ``1m15s``; hours where there are any."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def train_line(record: dict[str, Any], left: float | None) -> str:
    """One training record as a line: step, epoch, loss, rate, speed and the seconds left."""
    parts = [
        f"step {record['step']}",
        f"epoch {record['epoch']:.2f}",
        f"loss {record['loss']:.3f}",
        f"lr {record['lr']:.2e}",
        f"{record['tokens_per_second']:,.0f} tokens/s",
    ]
    if left is not None:
        parts.append(f"{duration(left)} left")
    return "  ".join(parts)


def valid_line(record: dict[str, Any]) -> str:
    """One validation record as a line: loss, perplexity and the scores that were computed."""
    parts = [
        f"step {record['step']}",
        f"validation loss {record['loss']:.3f}",
        f"perplexity {record['perplexity']:.2f}",
    ]
    parts += [f"{name} {record[key]:.1f}" for key, name in (("bleu", "BLEU"), ("chrf", "chrF")) if key in record]
    return "  ".join(parts)


class Reporter:
    """Shows progress between ``with`` and its end; lines of news stand above the bar.

    On a terminal the bar moves with every update. Elsewhere a line is printed at most every ``quiet_seconds``.
    ``quiet`` leaves warnings, ``mute`` (a rank that does not speak) nothing.
    """

    def __init__(self, quiet: bool = False, quiet_seconds: float = 10.0, mute: bool = False) -> None:
        self.console = Console(file=sys.stderr, quiet=quiet, highlight=False, soft_wrap=True)
        self._mute = mute
        self.quiet_seconds = quiet_seconds
        self._last = 0.0
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal and not self.console.quiet:
            self._bar = Progress(
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f}%"),
                TextColumn("{task.description}"),
                console=self.console,
            )
            self._bar.add_task("training", total=1.0)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def train(self, record: dict[str, Any], progress: float, left: float | None) -> None:
        """A training record; ``progress`` in [0, 1]; ``left`` in seconds."""
        line = train_line(record, left)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=progress, description=line)
        elif time.monotonic() - self._last >= self.quiet_seconds:
            self._last = time.monotonic()
            self.news(line)

    def tick(self, progress: float) -> None:
        """Move the bar, if there is one; ``progress`` in [0, 1]."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=progress)

    def news(self, text: str) -> None:
        """A line (or several) that stays."""
        self.console.print(text, markup=False)

    def warn(self, text: str) -> None:
        """A warning: a line that stays and that ``quiet`` does not hide."""
        if self._mute:
            return
        if self.console.quiet:
            print(f"warning: {text}", file=sys.stderr, flush=True)
        else:
            self.news(f"warning: {text}")
