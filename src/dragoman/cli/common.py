"""What commands share: logging, verbosity, settings of the process, progress, and lines of a file or of standard input.

Importing this imports neither torch nor anything else that is heavy.
"""

from __future__ import annotations

import ctypes
import logging
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from dragoman.errors import DataError, UsageError

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

logger = logging.getLogger("dragoman")

# What errors call it.
STANDARD_INPUT = "standard input"

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Stderr(logging.Handler):
    """Writes to whatever ``sys.stderr`` is at that moment: a progress bar replaces it to stay below the lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, its level before it from WARNING up."""
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        print(f"{level}{self.format(record)}", file=sys.stderr, flush=True)


def set_up_streams() -> None:
    """Data on standard output in UTF-8 with plain line feeds; our log on standard error, from INFO up."""
    if sys.stderr is None:  # closed by whoever started us; what we would say is no reason to end
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for as long as the process lives
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    logger.addHandler(_Stderr())
    logger.setLevel(logging.INFO)
    logger.propagate = False


def _set_level(level: int) -> None:
    if logger.level not in (logging.INFO, level):
        raise UsageError("-q and -v exclude each other; give one of them.")
    logger.setLevel(level)


def _quieter(wanted: bool) -> bool:
    if wanted:
        _set_level(logging.WARNING)
    return wanted


def _louder(wanted: bool) -> bool:
    if wanted:
        _set_level(logging.DEBUG)
    return wanted


# Every command takes both, so that they may stand after its name too; the callbacks do all there is to do.
Quiet = Annotated[bool, typer.Option("-q", "--quiet", callback=_quieter, help="Warnings and errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", callback=_louder, help="Say more; tracebacks of errors.")]


def is_quiet() -> bool:
    """Whether ``-q`` was given, before the command's name or after it."""
    return logger.level > logging.INFO


def verbosity() -> list[str]:
    """The options that make another ``dragoman`` say as much as this one."""
    return ["-q"] if is_quiet() else ["-v"] if logger.level == logging.DEBUG else []


# glibc's malloc.h: parameter numbers of mallopt.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

# Linux: the fourth field is RUNNING/ALL, threads that run or could, this one among them.
_LOAD = Path("/proc/loadavg")


def is_shared(threads: int | None = None) -> bool:
    """Whether ``threads`` threads and what else runs are more than the processors.

    None: as many as ``OMP_NUM_THREADS`` says, else as processors. Looks for a twentieth of a second, on Linux alone.
    """
    processors = os.cpu_count() or 1
    told = os.environ.get("OMP_NUM_THREADS", "")
    wanted = threads or (int(told) if told.isdecimal() and int(told) else processors)
    if wanted == 1:
        return False
    others = []
    for _ in range(5):
        try:
            running = int(_LOAD.read_text(encoding="ascii").split()[3].partition("/")[0])
        except (OSError, ValueError, IndexError):
            return False
        others.append(running - 1)
        time.sleep(0.01)
    return statistics.median(others) + wanted > processors


def prepare_runtime(threads: int | None = None) -> None:
    """Settings of the process that make small models faster on the CPU; call it before torch is imported.

    glibc is told to keep freed memory: by default it gives every large tensor back to the system at once, and
    the next one costs page faults again. ``threads`` limits OpenMP, MKL and the tokenizers' threads; ``None``
    leaves them to the environment and the libraries. OpenMP threads wait for each other by spinning, GNU's default,
    where there is a processor for each, and asleep where others compute as well (:func:`is_shared`). Asleep, a training
    step of a small model is 25 to 45 % slower on a machine of its own, and three times faster on a busy one
    (docs/results.md).
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            # Older releases of glibc refuse (with 0) anything above 32 MiB.
            _ = mallopt(_M_MMAP_THRESHOLD, 1 << 30) or mallopt(_M_MMAP_THRESHOLD, 1 << 25)
            mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys() and is_shared(threads):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    if threads is not None:
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
            os.environ[name] = str(threads)


def read_text(path: str) -> Iterator[str]:
    """The lines of a text file (plain or .gz), or of standard input for ``-``; strict UTF-8."""
    from dragoman.text.readers import decode_lines, read_lines

    if path != "-":
        return read_lines(path)
    if sys.stdin is None:
        raise DataError("standard input is closed; give a file, or open it.")
    return decode_lines(sys.stdin.buffer, STANDARD_INPUT)


class Progress:
    """How far a task of ``total`` steps (0: unknown) is: a bar on a terminal, a line every ``seconds`` elsewhere.

    Both go to stderr.
    Nothing is shown with ``-q``. On a terminal the bar goes away when the task ends.
    """

    def __init__(self, label: str, total: int, seconds: float = 10.0) -> None:
        self.label = label
        self.total = total
        self.seconds = seconds
        self._started = self._last = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not is_quiet():
            self._bar = _make_bar()
            self._bar.add_task(self.label, total=self.total or None, note="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, note: str = "") -> None:
        """``done`` of the steps are done; ``note`` stands behind them."""
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, note=note)
        elif now - self._last >= self.seconds and done:
            self._last = now
            left = (now - self._started) * (self.total - done) / done
            ahead = f" of {self.total}, {left:.0f} s left" if self.total else ""
            logger.info("%s: %d%s%s", self.label, done, ahead, f", {note}" if note else "")


def _make_bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [TimeRemainingColumn(), TextColumn("{task.fields[note]}")]
    # Standard output carries data and is left alone, whatever the bar does to standard error.
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
