"""Waiting with an end: times that run out, and clients that hang up."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any

# Where the connection of a request stands in its ASGI scope.
LINE = "dragoman.line"
# Seconds between two looks at the clock.
TICK = 0.1


class Clock:
    """Calls when a time is over, up to ``TICK`` seconds later.

    All times are looked at together: a request has several that almost never run out, and a timer of the event loop
    for each would cost more than what it guards.
    """

    def __init__(self) -> None:
        self._calls: dict[int, tuple[float, Callable[[], object]]] = {}
        self._numbers = itertools.count()
        self._ticking = False

    def at(self, due: float, call: Callable[[], object]) -> int:
        """Call when :func:`time.monotonic` is past ``due``, unless the number that is returned is forgotten before."""
        number = next(self._numbers)
        self._calls[number] = due, call
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(TICK, self._tick)
        return number

    def forget(self, number: int) -> None:
        """Do not call; nothing where it was called already."""
        self._calls.pop(number, None)

    def _tick(self) -> None:
        now = time.monotonic()
        for number in [number for number, (due, _) in self._calls.items() if due < now]:
            if number in self._calls:  # a call may have forgotten it
                self._calls.pop(number)[1]()
        self._ticking = bool(self._calls)
        if self._ticking:
            asyncio.get_running_loop().call_later(TICK, self._tick)


class Line:
    """The connection that requests come by; futures that wait for an answer fail when it is gone."""

    def __init__(self) -> None:
        self.gone = False
        self._calls: set[Callable[[], object]] = set()

    def watch(self, call: Callable[[], object]) -> None:
        """Call when the client hangs up, at once where it has."""
        if self.gone:
            call()
        else:
            self._calls.add(call)

    def forget(self, call: Callable[[], object]) -> None:
        """Do not call any more."""
        self._calls.discard(call)

    def hang_up(self) -> None:
        """The client is gone."""
        self.gone = True
        calls, self._calls = self._calls, set()
        for call in calls:
            call()


def fail(future: asyncio.Future[Any], error: Exception) -> None:
    """End a future with an error, unless it has ended."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # whoever waited may be gone; then nobody else looks at it
