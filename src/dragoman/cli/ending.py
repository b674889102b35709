"""How commands end at a signal: what is unfinished goes first, and no process outlives the one that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

# Signals that ask a process to end; Python leaves them to the system, which ends it on the spot. Not all have SIGHUP.
_ASKING = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if name in signal.Signals.__members__]
# Linux's prctl.h: the signal that a process gets when the one that started it is gone.
_PR_SET_PDEATHSIG = 1


class Ended(SystemExit):
    """A signal asked this process to end; its code is that of a process which the signal has ended."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.signal = signal.Signals(number)


@contextlib.contextmanager
def at_signals() -> Iterator[None]:
    """Raise :class:`Ended` at the first SIGTERM or SIGHUP inside of the block, as Python does at Ctrl-C.

    More of them change nothing: ``timeout`` sends one to a process and one to its group. A signal that is ignored
    (``nohup``) or handled already is left as it is.
    """
    came: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            raise Ended(number)

    ours = threading.current_thread() is threading.main_thread()
    taken = [number for number in _ASKING if ours and signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            if signal.getsignal(number) is end:
                signal.signal(number, signal.SIG_DFL)


def left_to_others() -> None:
    """The system decides again: for a command that handles the signals itself, or has to end whatever it is in."""
    for number in _ASKING:
        handler: Any = signal.getsignal(number)
        if getattr(handler, "__module__", None) == __name__:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def kept_from_children() -> Iterator[None]:
    """Hide SIGHUP from the processes that are started inside of the block: they inherit what is blocked here.

    For those that others start for us, and that have to be there until the last of us has ended.
    """
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent(number: int, parent: int | None = None) -> None:
    """Let this process get the signal ``number`` when the one that started it is gone, on Linux.

    ``parent`` is the process that has started it: where that is gone already, the signal comes at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
        if parent is not None and os.getppid() != parent:
            os.kill(os.getpid(), number)
