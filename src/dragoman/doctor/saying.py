"""What the person who waits is told while one check takes long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Say = Callable[[str], None]
T = TypeVar("T")

# Seconds between two words at least.
SILENCE = 3.0
# Items that pass between two looks at the clock.
_ITEMS = 100


class Often:
    """How far something is, said every few seconds and not more often."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._last = time.monotonic()

    def __call__(self, text: str) -> None:
        """Say ``text`` if it is time to."""
        now = time.monotonic()
        if now - self._last >= SILENCE:
            self._last = now
            self._say(text)


def counted(items: Iterable[T], what: str, say: Say) -> Iterator[T]:
    """The items as they are; every few seconds it is said that ``what`` is done with so many pairs."""
    often = Often(say)
    for number, item in enumerate(items, start=1):
        yield item
        if number % _ITEMS == 0:
            often(f"{what}: {number:,} pairs")
