"""Lines that arrive through a pipe: those that come together, as soon as no more are coming."""

from __future__ import annotations

import io
import os
import select
import stat
import time
from collections import deque
from collections.abc import Iterator
from typing import Self, TypeGuard

# A program that waits for an answer has fallen silent for so long; one that goes on writing has not.
_SECONDS_OF_SILENCE = 0.05
# Lines that come one by one, without such a silence, do not wait for each other longer than this.
_SECONDS_TO_GATHER = 1.0
# Bytes read at once: what a pipe of Linux holds.
_BLOCK = 1 << 16


class Arriving:
    """The lines of a pipe, a socket or a device, as bytes without their line feed.

    Nothing else may read ``stream``, whose buffer has to be empty; ``begun`` is what it has given already.
    """

    def __init__(self, stream: io.BufferedReader, begun: bytes = b"") -> None:
        self._stream = stream
        self._lines: deque[bytes] = deque()
        self._open: list[bytes] = []  # what is there of a line without its end, block by block
        self._ended = False
        self._until = 0.0
        self._take(begun)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        """The next line; waits for it as long as it takes."""
        while not self._lines and not self._ended:
            self._receive(None)
        if not self._lines:
            raise StopIteration
        return self._lines.popleft()

    def is_silent(self) -> bool:
        """Whether no line is here, and none comes within a moment. At the end of the stream nothing is waited for."""
        while not self._lines and not self._ended:
            if not self._receive(min(_SECONDS_OF_SILENCE, max(0.0, self._until - time.monotonic()))):
                return True
        return False

    def together(self, lines: Iterator[str]) -> Iterator[str]:
        """The next of ``lines``, which are made of these, and those that come with it."""
        for line in lines:
            # From the first of them on; before it there is no end of waiting.
            self._until = self._until or time.monotonic() + _SECONDS_TO_GATHER
            yield line
            if self.is_silent():
                break
        self._until = 0.0

    def _receive(self, seconds: float | None) -> bool:
        """Take what comes within so many seconds (None: whenever it comes); whether something did, or the end."""
        if not select.select([self._stream], [], [], seconds)[0]:
            return False
        block = self._stream.read1(_BLOCK)
        self._take(block)
        if not block:
            self._ended = True
            self._lines += [line for line in [b"".join(self._open)] if line]
        return True

    def _take(self, block: bytes) -> None:
        first, *others = block.split(b"\n")
        self._open.append(first)
        if others:
            self._lines += [b"".join(self._open), *others[:-1]]
            self._open = [others[-1]]


def has_to_be_waited_for(stream: object) -> TypeGuard[io.BufferedReader]:
    """Whether what a stream gives comes when somebody writes it, and can be waited for: a pipe, a socket, a device."""
    if os.name != "posix" or not isinstance(stream, io.BufferedReader):
        return False
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # no file of the system's is behind it
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)
