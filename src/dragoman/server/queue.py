"""What waits for a model: requests whose sentences may share batches, and work that needs the model for itself."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.server.refusals import BusyError, StoppingError
from dragoman.translation import Translation
from dragoman.translator import Translator

# Of a batch, at least one place in two is a token and no padding, beside this many places.
_SLACK = 64
# Clients that were answered together ask again together, and a batch of all of them costs less than two of halves. So
# after a batch of several requests the next one waits until as many have come, or a batch is full; at most this share
# of the time that the last one took, and at most these seconds.
_SHARE, _LONGEST = 0.25, 0.05
# Seconds that a client is told to wait, at most; and what a model does in a second before it was measured, in tokens.
_LONGEST_WAIT, _FIRST_RATE = 60, 1000.0


@dataclass(eq=False)
class Entry:
    """One piece of work of a request: ``future`` gets its outcome; nobody wants it after ``deadline`` (monotonic)."""

    future: asyncio.Future[Any]
    deadline: float
    seconds: float
    abandoned: bool = False

    def dead(self) -> bool:
        """Whether there is no use in beginning."""
        return self.abandoned or time.monotonic() > self.deadline

    @property
    def tokens_left(self) -> int:
        """Source tokens that have not been taken yet, special ones included."""
        return 1


@dataclass(eq=False)
class Alone(Entry):
    """Work that needs the translator for itself."""

    work: Callable[[Translator], Any] = lambda translator: None


@dataclass(eq=False)
class Sentence:
    """One sentence of a request; ``tokens`` with special ones, ``line`` chooses the draws of sampling.

    ``phrases`` that have to appear each make it as costly as it would be once more.
    """

    text: str
    tokens: int
    line: int = 0
    prefix: str = ""
    constraints: Sequence[str] = ()
    phrases: int = 0
    found: Translation | None = None

    @property
    def cost(self) -> int:
        """Its part of a batch's budget."""
        return self.tokens * (1 + self.phrases)


@dataclass(eq=False)
class Texts(Entry):
    """Sentences to translate. Those of requests with an equal ``key`` may share a batch.

    ``options`` are the keyword arguments of :meth:`Translator.translate`, equal where the keys are.
    """

    sentences: list[Sentence] = field(default_factory=list)
    key: Hashable = None
    options: dict[str, Any] = field(default_factory=dict)
    budget: int = 0
    taken: int = 0
    done: int = 0

    @property
    def tokens_left(self) -> int:
        """Source tokens that have not been taken yet, special ones included."""
        return sum(one.tokens for one in self.sentences[self.taken :])


Batch = list[tuple[Texts, Sentence]]


@dataclass(frozen=True)
class Dead:
    """Entries whose time is over, or that nobody waits for."""

    entries: list[Entry]


class Queue:
    """Bounded, first come first served; safe between threads.

    A batch begins with the oldest sentence; sentences of other requests with the same options join it, as long as it
    stays within the token budget and is not mostly padding.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.rate = _FIRST_RATE
        self._entries: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._came = 0  # entries, since the beginning
        self._last = 0  # requests of the last batch, which was taken at this time
        self._taken = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: Entry, *, within: bool = True) -> None:
        """Add an entry. ``within``: raises :class:`BusyError` where the queue is full, :class:`StoppingError`."""
        with self._changed:
            if self._closed:
                raise StoppingError
            if within and len(self._entries) >= self.most:
                waiting = sum(one.tokens_left for one in self._entries)
                raise BusyError(min(_LONGEST_WAIT, max(1, math.ceil(waiting / self.rate))))
            self._entries.append(entry)
            self._came += 1
            self._changed.notify()

    def close(self, *, drop: bool = False) -> None:
        """Take nothing more; what is there is still given out, unless it is dropped."""
        with self._changed:
            self._closed = True
            if drop:
                self._entries.clear()
            self._changed.notify_all()

    def take(self) -> Batch | Alone | Dead | None:
        """What to do next, waiting for it; None after :meth:`close`, when all has been taken."""
        with self._changed:
            now = time.monotonic()
            end, expected = now + min(_LONGEST, _SHARE * (now - self._taken)), self._came + self._last
            while not self._entries:
                if self._closed:
                    return None
                self._changed.wait()
            if self._last > 1:
                self._gather(end, expected)
            dead = [one for one in self._entries if one.dead()]
            if dead:
                self._entries = deque(one for one in self._entries if one not in dead)
                return Dead(dead)
            first = self._entries[0]
            if isinstance(first, Alone):
                self._entries.popleft()
                self._last = 0
                return first
            assert isinstance(first, Texts)
            batch = self._batch(first)
            self._last, self._taken = len({entry for entry, _ in batch}), time.monotonic()
            self._entries = deque(
                one for one in self._entries if not isinstance(one, Texts) or one.taken < len(one.sentences)
            )
            return batch

    def _gather(self, end: float, expected: int) -> None:
        """Wait for the requests of those that were answered just now, until ``end``."""
        while self._came < expected and not self._closed and isinstance(self._entries[0], Texts):
            left = end - time.monotonic()
            if left <= 0 or self._is_full():
                break
            self._changed.wait(left)

    def _is_full(self) -> bool:
        waiting = [one for one in self._entries if isinstance(one, Texts)]
        return bool(waiting) and sum(one.tokens_left for one in waiting) >= waiting[0].budget

    def _batch(self, first: Texts) -> Batch:
        batch: Batch = []
        cost = widest = 0
        for entry in self._entries:
            if not isinstance(entry, Texts) or entry.key != first.key:
                continue
            while entry.taken < len(entry.sentences):
                sentence = entry.sentences[entry.taken]
                width = max(widest, sentence.cost)
                size = width * (len(batch) + 1)
                if batch and (size > first.budget or size > 2 * (cost + sentence.cost) + _SLACK):
                    break
                batch.append((entry, sentence))
                entry.taken += 1
                cost, widest = cost + sentence.cost, width
        return batch
