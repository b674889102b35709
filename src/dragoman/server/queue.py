"""What waits for a model: requests whose sentences may share batches, and work that needs the model for itself."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
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
class Alone(Entry):
    """Work that needs the translator for itself; what it translates, where that is one ``sentence``."""

    work: Callable[[Translator], Any] = lambda translator: None
    sentence: Sentence | None = None


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


class Taker:
    """One of those who take from a queue, each in a thread of its own: entries of some ``kinds``."""

    def __init__(self, kinds: tuple[type[Entry], ...], lock: threading.Lock) -> None:
        self.kinds = kinds
        self.changed = threading.Condition(lock)
        self.last = 0  # requests of its last batch
        self.taken = 0.0  # when it took that
        self.working = 0  # sentences of it, until it comes back for more
        self.until: int | None = None  # while it sleeps: how many entries must have come to wake it


class Queue:
    """Bounded, first come first served; safe between threads.

    A batch begins with the oldest sentence; sentences of other requests with the same options join it, as long as it
    stays within the token budget and is not mostly padding. Where several take batches, none takes more than its
    share of all sentences that wait or are worked at.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.rate = _FIRST_RATE  # of one who takes batches
        self._entries: deque[Entry] = deque()
        self._lock = threading.Lock()
        self._takers: list[Taker] = []
        self._closed = False
        self._came = 0  # entries, since the beginning
        self._tokens = 0  # that wait, not counting work alone

    def __len__(self) -> int:
        return len(self._entries)

    def taker(self, *kinds: type[Entry]) -> Taker:
        """Somebody who takes entries of these kinds, all where none is named."""
        self._takers.append(Taker(kinds or (Entry,), self._lock))
        return self._takers[-1]

    def put(self, entry: Entry, *, within: bool = True) -> None:
        """Add an entry. ``within``: raises :class:`BusyError` where the queue is full, :class:`StoppingError`."""
        with self._lock:
            if self._closed:
                raise StoppingError
            if within and len(self._entries) >= self.most:
                waiting = sum(one.tokens_left for one in self._entries) / (self.rate * max(1, len(self._able())))
                raise BusyError(min(_LONGEST_WAIT, max(1, math.ceil(waiting))))
            self._entries.append(entry)
            self._came += 1
            self._tokens += entry.tokens_left if isinstance(entry, Texts) else 0
            self._wake(entry)

    def _wake(self, entry: Entry) -> None:
        """Wake one who waits for this: to wake a thread costs more than all the rest of putting."""
        for taker in self._takers:
            if taker.until is None or not isinstance(entry, taker.kinds):
                continue
            if self._came >= taker.until or self._is_full(entry):
                taker.until = None
                taker.changed.notify()
                return

    def close(self, *, drop: bool = False) -> None:
        """Take nothing more; what is there is still given out, unless it is dropped."""
        with self._lock:
            self._closed = True
            if drop:
                self._keep([])
            for taker in self._takers:
                taker.changed.notify()

    def take(self, taker: Taker) -> Batch | Alone | Dead | None:
        """What to do next, waiting for it; None after :meth:`close`, when all has been taken.

        What ``taker`` took before is done.
        """
        with self._lock:
            now = time.monotonic()
            taker.working = 0
            end, expected = now + min(_LONGEST, _SHARE * (now - taker.taken)), self._came + taker.last
            while (first := self._first(taker)) is None:
                if self._closed:
                    return None
                self._sleep(taker, self._came + 1)
            if taker.last > 1 and isinstance(first, Texts):
                self._gather(taker, end, expected)
            dead = [one for one in self._entries if one.dead()]
            if dead:
                self._keep(one for one in self._entries if one not in dead)
                return Dead(dead)
            return self._taken(taker)

    def finish(self, entry: Texts, count: int) -> bool:
        """Count sentences of a request that are translated; whether they were the last, which is said once."""
        with self._lock:
            entry.done += count
            return entry.done == len(entry.sentences)

    def _taken(self, taker: Taker) -> Batch | Alone | Dead:
        first = self._first(taker)
        if isinstance(first, Texts):
            batch = self._batch(first, self._share())
            taker.last, taker.taken, taker.working = len({entry for entry, _ in batch}), time.monotonic(), len(batch)
            self._keep(one for one in self._entries if not isinstance(one, Texts) or one.taken < len(one.sentences))
            return batch
        taker.last = 0
        if isinstance(first, Alone):
            self._entries.remove(first)
            return first
        return Dead([])  # another took it while this one waited

    def _keep(self, entries: Iterable[Entry]) -> None:
        self._entries = deque(entries)
        self._tokens = sum(one.tokens_left for one in self._entries if isinstance(one, Texts))

    def _first(self, taker: Taker) -> Entry | None:
        return next((one for one in self._entries if isinstance(one, taker.kinds)), None)

    def _sleep(self, taker: Taker, until: int, seconds: float | None = None) -> None:
        taker.until = until
        taker.changed.wait(seconds)
        taker.until = None

    def _gather(self, taker: Taker, end: float, expected: int) -> None:
        """Wait for the requests of those that were answered just now, until ``end``."""
        while self._came < expected and not self._closed:
            left, first = end - time.monotonic(), self._first(taker)
            if left <= 0 or first is None or self._is_full(first):
                break
            self._sleep(taker, expected, left)

    def _is_full(self, entry: Entry) -> bool:
        return not isinstance(entry, Texts) or self._tokens >= entry.budget

    def _able(self) -> list[Taker]:
        return [one for one in self._takers if issubclass(Texts, one.kinds)]

    def _share(self) -> int:
        """How many sentences are a fair part for one of those who take batches."""
        able = self._able()
        waiting = sum(len(one.sentences) - one.taken for one in self._entries if isinstance(one, Texts))
        return math.ceil((waiting + sum(one.working for one in able)) / len(able))

    def _batch(self, first: Texts, most: int) -> Batch:
        batch: Batch = []
        cost = widest = 0
        for entry in self._entries:
            if not isinstance(entry, Texts) or entry.key != first.key:
                continue
            while entry.taken < len(entry.sentences) and len(batch) < most:
                sentence = entry.sentences[entry.taken]
                width = max(widest, sentence.cost)
                size = width * (len(batch) + 1)
                if batch and (size > first.budget or size > 2 * (cost + sentence.cost) + _SLACK):
                    break
                batch.append((entry, sentence))
                entry.taken += 1
                cost, widest = cost + sentence.cost, width
        return batch
