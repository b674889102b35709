"""A run that is asked to stop: by Ctrl-C or SIGTERM, it ends after the update it is in."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from dragoman.errors import RunError
from dragoman.training.trainer import Trainer


class InterruptedRunError(RunError):
    """Training was asked to stop after an update: everything is saved; ``again`` says what goes on."""

    exit_code = 130

    def __init__(self, step: int, again: str) -> None:
        super().__init__(f"stopped at step {step}, all saved; go on with: {again}")
        self.step = step


@contextlib.contextmanager
def stop_signals(trainer: Trainer) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks the loop to stop after the update it is in; the second is as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in old.items():
            signal.signal(number, handler)

    def ask(number: int, frame: FrameType | None) -> None:
        trainer.stop_requested = True
        restore()

    for number in (signal.SIGINT, signal.SIGTERM):
        old[number] = signal.signal(number, ask)
    try:
        yield
    finally:
        restore()
