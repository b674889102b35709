"""A run that is asked to stop: by Ctrl-C, SIGTERM or a closed terminal, it ends after the update it is in."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from dragoman.errors import RunError
from dragoman.training.trainer import Trainer


class InterruptedRunError(RunError):
    """Training was asked to stop after an update: everything is saved; ``again`` says what goes on.

    ``last`` is the model directory to use where there is no best one yet.
    """

    exit_code = 130

    def __init__(self, step: int, again: str, last: Path | None = None) -> None:
        model = "" if last is None else f" (the model so far is in {last})"
        super().__init__(f"stopped at step {step}{model}, all saved; go on with: {again}")
        self.step = step
        self.last = last


@contextlib.contextmanager
def stop_signals(trainer: Trainer) -> Iterator[None]:
    """The first Ctrl-C, SIGTERM or SIGHUP asks the loop to stop after the update it is in; the second is as ever.

    A SIGHUP that is ignored (``nohup``) stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in old.items():
            signal.signal(number, handler)

    def ask(number: int, frame: FrameType | None) -> None:
        if number not in (signal.SIGINT, signal.SIGTERM):
            _speak_to_nobody()
        trainer.stop_requested = True
        restore()

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = signal.Signals.__members__.get(name)
        if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
            old[number] = signal.signal(number, ask)
    try:
        yield
    finally:
        restore()


def _speak_to_nobody() -> None:
    """Let output go on where the terminal is gone: each write to it would fail, before the weights are saved."""
    with open(os.devnull, "wb") as nowhere:
        for output in (1, 2):
            with contextlib.suppress(OSError):  # closed before
                if stat.S_ISCHR(os.fstat(output).st_mode):
                    os.dup2(nowhere.fileno(), output)
