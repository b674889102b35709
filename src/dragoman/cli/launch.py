"""Several processes of one command on this machine: what ``torchrun --nproc-per-node`` does, without its reports."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from dragoman.cli import ending
from dragoman.errors import UsageError

# How often the launcher looks whether a process has ended.
_SECONDS_BETWEEN_LOOKS = 0.1
# A process that has lost the others ends by itself, and says why; one that does not is ended after so long.
_SECONDS_TO_END = 30.0


# Says to a process how many this launcher started; torchrun's know nothing of it.
_PROCESSES = "DRAGOMAN_PROCESSES"


def is_launched() -> bool:
    """Whether a launcher started this process as one of several."""
    return "WORLD_SIZE" in os.environ


def launched_processes() -> int | None:
    """How many processes were started together with this one; None where another launcher did that."""
    return None if is_launched() and _PROCESSES not in os.environ else int(os.environ.get(_PROCESSES, "1"))


def launch(arguments: list[str], processes: int, threads: int | None, again: str) -> int:
    """Run ``dragoman`` with ``arguments`` in several processes that know each other; the exit code of all.

    ``again`` is the command that goes on with what one that a signal ended had begun.
    Each has ``threads`` OpenMP threads (None: its share of the processors). A signal to this process reaches all of
    them. Where one fails the others are given time to end by themselves; the code is that of the first that failed.
    On Linux they end, with a checkpoint, when this process is killed.

    Raises :class:`UsageError` inside of another launcher.
    """
    if is_launched():
        raise UsageError("--processes starts processes by itself; leave it out where torchrun has started them.")
    share = threads or max(1, (os.cpu_count() or 1) // processes)
    together = {
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "OMP_NUM_THREADS": str(share),
        _PROCESSES: str(processes),
    }
    command = [sys.executable, "-m", "dragoman", *arguments]
    ranks: list[subprocess.Popen[bytes]] = []
    saving = functools.partial(ending.end_with_parent, signal.SIGTERM)
    with _forwarded(ranks):
        for rank in range(processes):
            environment = {**os.environ, **together, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            ranks.append(subprocess.Popen(command, env=environment, preexec_fn=saving))
        return _wait(ranks, again)


def _wait(ranks: list[subprocess.Popen[bytes]], again: str) -> int:
    """Wait until all have ended; the exit code of the first that failed, or 0."""
    code, deadline = 0, float("inf")
    while True:
        codes = [process.poll() for process in ranks]
        failed = [(rank, found) for rank, found in enumerate(codes) if found]
        if failed and code == 0:
            code = _explained(*failed[0], again)
            deadline = time.monotonic() + _SECONDS_TO_END
        if None not in codes:
            return code
        if time.monotonic() > deadline:
            for process in ranks:
                process.kill()
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _explained(rank: int, code: int, again: str) -> int:
    """The exit code to end with. A process that a signal ended, whose code is negative, said nothing itself."""
    if code > 0:
        return code
    name = signal.Signals(-code).name
    print(f"dragoman: rank {rank} was ended by {name}; go on with: {again}", file=sys.stderr)
    return 128 - code


@contextlib.contextmanager
def _forwarded(ranks: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """SIGTERM goes on to all. Ctrl-C on a terminal reaches them without us, and a SIGINT to us alone goes on too."""

    def forward(number: int, frame: FrameType | None) -> None:
        for process in ranks:
            # The second Ctrl-C ends a process at once; where the terminal sent one already, a second would be ours.
            if number != signal.SIGINT or not _from_terminal():
                process.send_signal(number)

    old: dict[int, Any] = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _from_terminal() -> bool:
    """Whether this process is in the foreground of a terminal, whose Ctrl-C goes to the whole group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
