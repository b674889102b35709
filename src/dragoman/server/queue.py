"""What waits for a model: requests whose sentences may share batches, and work that needs the model for itself."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.server.refusals import BusyError, StoppingError
from dragoman.translation import Translation
from dragoman.translator import Translator

# Hypotheses of a batch times the most tokens that they may come to. Keys and values of all are kept: of a model of six
# layers and 512 numbers a token, at most 3.2 GB. No batch of 2,048 source tokens comes to it by our own settings.
_PLACES = 1 << 17
# Sentences that are let in at once beside a search that takes long.
_LIGHT = 16
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

    ``phrases`` that have to appear each make it as costly as it would be once more. Its translation has at ``least``
    and at ``most`` so many tokens. ``tagged``: the words of its translations are linked afterwards.
    """

    text: str
    tokens: int
    line: int = 0
    least: int = 0
    most: int = 0
    prefix: str = ""
    constraints: Sequence[str] = ()
    phrases: int = 0
    tagged: bool = False
    found: Translation | None = None

    @property
    def cost(self) -> int:
        """Its part of a batch's budget."""
        return max(self.tokens, self.least) * (1 + self.phrases)


@dataclass(eq=False)
class Alone(Entry):
    """Work that needs the translator for itself; what it translates, where that is one ``sentence``."""

    work: Callable[[Translator], Any] = lambda translator: None
    sentence: Sentence | None = None


@dataclass(eq=False)
class Texts(Entry):
    """Sentences to translate. Those of requests with an equal ``key`` may share a batch.

    ``options`` are the keyword arguments of :meth:`Translator.translate`, equal where the keys are. A search has
    ``width`` hypotheses of each sentence, and is ``light`` where nothing makes it a long one.
    """

    sentences: list[Sentence] = field(default_factory=list)
    key: Hashable = None
    options: dict[str, Any] = field(default_factory=dict)
    budget: int = 0
    width: int = 1
    light: bool = False
    taken: int = 0
    done: int = 0

    @property
    def tokens_left(self) -> int:
        """Source tokens that have not been taken yet, special ones included."""
        return sum(one.tokens for one in self.sentences[self.taken :])


Batch = list[tuple[Texts, Sentence]]


@dataclass(frozen=True)
class _Size:
    """Of a batch: its sentences, their cost together and at most, its hypotheses, and the tokens of the longest."""

    count: int = 0
    cost: int = 0
    widest: int = 0
    rows: int = 0
    longest: int = 0

    def with_another(self, sentence: Sentence, width: int) -> _Size:
        """With a sentence of which a search has ``width`` hypotheses."""
        return _Size(
            self.count + 1,
            self.cost + sentence.cost,
            max(self.widest, sentence.cost),
            self.rows + width * (1 + sentence.phrases),
            max(self.longest, sentence.most),
        )

    def fits(self, budget: int) -> bool:
        """Whether it stays within the budget, its padding included, is not mostly padding, and has enough memory."""
        padded = self.count * self.widest
        return padded <= min(budget, 2 * self.cost + _SLACK) and self.rows * self.longest <= _PLACES


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
        self.served: set[Entry] = set()  # those, until it comes back for more
        self.working = 0  # sentences of it, as long
        self.until: int | None = None  # while it sleeps: how many entries must have come to wake it


class Queue:
    """Bounded, in turns; safe between threads.

    A batch begins with a sentence of the first request; those of others with the same options join it, as long as it
    stays within the token budget and is not mostly padding. A request of which sentences are left goes behind the
    others, so that nobody waits for the whole of a long one. Where several take batches, none takes more than its
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

    def close(self, *, drop: bool = False) -> list[Entry]:
        """Take nothing more; what is there is still given out, unless it is dropped, and returned."""
        with self._lock:
            self._closed = True
            dropped = list(self._entries) if drop else []
            if drop:
                self._keep([])
            for taker in self._takers:
                taker.changed.notify()
            return dropped

    def take(self, taker: Taker) -> Batch | Alone | Dead | None:
        """What to do next, waiting for it; None after :meth:`close`, when all has been taken.

        What ``taker`` took before is done.
        """
        with self._lock:
            now = time.monotonic()
            taker.working = 0
            # Whoever had a turn goes behind those who came meanwhile.
            self._entries = deque(sorted(self._entries, key=lambda one: one in taker.served))
            taker.served = set()
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

    def take_light(self, beside: Collection[Entry]) -> Batch | None:
        """A batch that is translated soon, for one who is at work ``beside``; None where no other request has one."""
        with self._lock:
            waiting = [one for one in self._entries if isinstance(one, Texts) and one not in beside]
            others = [one for one in waiting if one.light and not one.dead()]
            first = next(iter(others), None)
            if first is None:
                return None
            batch = self._batch(first, others, min(_LIGHT, self._share()))
            self._keep_waiting()
            return batch

    def finish(self, entry: Texts, count: int) -> bool:
        """Count sentences of a request that are translated; whether they were the last, which is said once."""
        with self._lock:
            entry.done += count
            return entry.done == len(entry.sentences)

    def _taken(self, taker: Taker) -> Batch | Alone | Dead:
        first = self._first(taker)
        if isinstance(first, Texts):
            batch = self._batch(first, self._entries, self._share())
            taker.served = {entry for entry, _ in batch}
            taker.last, taker.taken, taker.working = len(taker.served), time.monotonic(), len(batch)
            self._keep_waiting()
            if first.taken < len(first.sentences):
                self._wake(first)  # another has a share in it
            return batch
        taker.last = 0
        if isinstance(first, Alone):
            self._entries.remove(first)
            return first
        return Dead([])  # another took it while this one waited

    def _keep_waiting(self) -> None:
        """Leave out requests of which every sentence was taken."""
        self._keep(one for one in self._entries if not isinstance(one, Texts) or one.taken < len(one.sentences))

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

    def _batch(self, first: Texts, entries: Iterable[Entry], most: int) -> Batch:
        batch: Batch = []
        size = _Size()
        for entry in entries:
            if not isinstance(entry, Texts) or entry.key != first.key:
                continue
            while entry.taken < len(entry.sentences) and len(batch) < most:
                sentence = entry.sentences[entry.taken]
                larger = size.with_another(sentence, entry.width)
                if batch and not larger.fits(first.budget):
                    break
                batch.append((entry, sentence))
                entry.taken += 1
                size = larger
        return batch
