"""Batches of a text that is read, cleaned and tokenised while training; constant memory, resumable to the bit.

Each part of an epoch (:mod:`dragoman.text.streaming`) is a run of windows: the shuffle buffer. A window holds the
next ``shuffle_buffer / parts`` rows; it is sorted by length, cut into batches, and the batches are shuffled. Nothing
is left over from one window to the next, so that a checkpoint holds no sentences: the place where the window begins,
and how many of its batches are used up. Going on reads one window of each part again, whatever the step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain, compress, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.config import DataConfig, HubCorpus, ModelConfig, TableCorpus, TextCorpus
from dragoman.text.batching import Batch, Plan, make_batch, plan_batches
from dragoman.text.cleaning import Cleaner, DropCounts
from dragoman.text.corpus import Cut, Ints, MadeWindow, Side, chunks, cut_texts, keeps
from dragoman.text.readers import Pair
from dragoman.text.recut import draws, dropouts, recut
from dragoman.text.streaming import PartReader, Place, number_of_parts, open_shards
from dragoman.text.tokenizer import TokenizerPair

# Parts whose next windows are made at the same time.
_MOST_THREADS = 4


class StreamCorpus:
    """The training text of ``data``, which is not stored.

    ``keeps`` leaves out what is held out for validation. ``rate`` is the probability of BPE-dropout; a pair's tokens
    depend on (seed, epoch, number of the pair in the epoch, side). Raises :class:`DataError` where the text cannot be
    opened, :class:`ConfigError` for BPE-dropout of tokenizers without merges.
    """

    def __init__(
        self, data: DataConfig, tokenizers: TokenizerPair, rate: float, seed: int, keeps: Callable[[Pair], bool]
    ) -> None:
        self.source: TextCorpus | TableCorpus | HubCorpus = data.train
        self.shards = open_shards(data.train, data.dir)
        self.seed = seed
        self._data = data
        self._tokenizers = tokenizers
        self._keeps = keeps
        self._dropouts = dropouts(tokenizers, rate) if rate else None

    @property
    def size(self) -> int | None:
        """Pairs of an epoch, None where that is not known."""
        return self.shards.size

    def reader(self, part: int, parts: int, epoch: int, place: Place | None) -> PartReader:
        """The rows of a part of an epoch."""
        return PartReader(self.shards, part, parts, (self.seed, epoch), place)

    def window(self, reader: PartReader, rows: int, epoch: int, counts: DropCounts) -> tuple[MadeWindow, Ints]:
        """The next ``rows`` rows, those without the pairs that cleaning drops, and the pairs' numbers."""
        cleaner = Cleaner(self._data.max_length, self._data.max_ratio)
        cleaner.counts = counts
        words = self._dropouts is not None
        sides = (_Rows(), _Rows())
        numbers: list[int] = []
        for chunk in chunks(islice(reader, rows)):
            left = [(number, pair) for number, pair in chunk if self._keeps(pair)]
            src = cut_texts(self._tokenizers.src, [pair[0] for _, pair in left], words)
            tgt = cut_texts(self._tokenizers.tgt, [pair[1] for _, pair in left], words)
            cuts = list(zip(src, tgt, strict=True))
            stay = [keeps(cleaner, pair, cut) for (_, pair), cut in zip(left, cuts, strict=True)]
            numbers += [number for number, _ in compress(left, stay)]
            for side, rows_of_side in enumerate(sides):
                rows_of_side.add([cut[side] for cut in compress(cuts, stay)])
        made, at = MadeWindow(*(side.made() for side in sides)), np.asarray(numbers, np.int64)
        if self._dropouts is None or not numbers:
            return made, at
        every, longest = np.arange(len(at)), self._data.max_length
        new = (
            recut(side, every, draws(self.seed, epoch, number, at), self._dropouts[number], longest)
            for number, side in enumerate(made)
        )
        return MadeWindow(*new), at


class _Rows:
    """One side of a window while it grows: 4 bytes a token, whatever the chunks were."""

    def __init__(self) -> None:
        self._lengths = [np.zeros(1, np.int64)]
        self._ids = [np.empty(0, np.uint32)]
        self._begins: list[NDArray[np.bool_]] = []

    def add(self, cuts: list[Cut]) -> None:
        """Append sentences."""
        self._lengths.append(np.asarray([len(ids) for ids, _ in cuts], np.int64))
        self._ids.append(np.fromiter(chain.from_iterable(ids for ids, _ in cuts), np.uint32))
        if cuts and cuts[0][1] is not None:
            self._begins.append(np.fromiter(chain.from_iterable(begins or () for _, begins in cuts), np.bool_))

    def made(self) -> Side:
        """The side, complete."""
        begins = np.concatenate(self._begins) if self._begins else None
        return Side(np.concatenate(self._ids), np.cumsum(np.concatenate(self._lengths)), begins)


class _Window(NamedTuple):
    """The batches of a window, where it begins, and what was kept and dropped before it and after it.

    After the last window of a part comes one without batches.
    """

    place: Place
    before: DropCounts
    after: DropCounts
    plans: list[Plan]


@dataclass(frozen=True)
class PartState:
    """How far a part of an epoch is: JSON values. ``given`` counts the epoch's batches, ``batch`` the window's."""

    part: int
    parts: int
    place: Place | None = None
    batch: int = 0
    given: int = 0
    counts: dict[str, int] | None = None


class Part:
    """The batches of one part of an epoch; its next window is made in a thread while the last one is used."""

    def __init__(self, windows: Generator[_Window, None, None], state: PartState, pool: ThreadPoolExecutor) -> None:
        self._state = state
        self._windows = windows
        self._pool = pool
        self._batch = state.batch
        self._given = state.given
        self._next: Future[_Window] = pool.submit(next, windows)
        self._window: _Window | None = None

    @property
    def given(self) -> int:
        """Batches of this epoch so far."""
        return self._given

    def _current(self) -> _Window:
        """The window that the next batch is in; the one without batches at the end of the part."""
        while self._window is None or 0 < len(self._window.plans) <= self._batch:
            if self._window is not None:
                self._batch = 0
            self._window = self._next.result()
            if self._window.plans:
                self._next = self._pool.submit(next, self._windows)
        return self._window

    @property
    def is_open(self) -> bool:
        """Whether there is another batch in this epoch. Raises :class:`DataError` where the text cannot be read."""
        return bool(self._current().plans)

    def take(self) -> Plan:
        """The next batch."""
        plan = self._current().plans[self._batch]
        self._batch += 1
        self._given += 1
        return plan

    def close(self) -> None:
        """Read no further."""
        wait([self._next])
        self._windows.close()

    def counts(self) -> DropCounts:
        """What was kept and dropped in this epoch, up to the end of the present window."""
        return self._current().after

    def state(self) -> dict[str, Any]:
        """Where the part is, for :class:`PartState`."""
        window = self._current()
        counts = asdict(window.before)
        return asdict(replace(self._state, place=window.place, batch=self._batch, given=self._given, counts=counts))


class StreamBatches:
    """A streamed corpus in batches of at most ``batch_tokens`` a side, each pair once an epoch, without end.

    ``say`` is told what the first epoch kept and dropped.
    """

    def __init__(
        self, corpus: StreamCorpus, config: ModelConfig, batch_tokens: int, seed: int, say: Callable[[str], None]
    ) -> None:
        self.corpus = corpus
        self.config = config
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.say = say

    def batch(self, plan: Plan) -> Batch:
        """The batch of a plan."""
        return make_batch(plan, self.config)

    def parts(self, ranks: int) -> int:
        """The parts of an epoch that so many ranks begin."""
        return number_of_parts(self.corpus.source.parts, self.corpus.shards.count, ranks)

    def part(self, epoch: int, state: PartState, pool: ThreadPoolExecutor) -> Part:
        """One part of an epoch, from ``state`` on."""
        return Part(self._windows(epoch, state), state, pool)

    def _windows(self, epoch: int, state: PartState) -> Generator[_Window, None, None]:
        with contextlib.closing(self.corpus.reader(state.part, state.parts, epoch, state.place)) as reader:
            yield from self._windows_of(reader, epoch, state)

    def _windows_of(self, reader: PartReader, epoch: int, state: PartState) -> Iterator[_Window]:
        rows = max(1, self.corpus.source.shuffle_buffer // state.parts)
        counts = DropCounts(**state.counts or {})
        while True:
            place, before, after = reader.place(), counts, replace(counts)
            window, numbers = self.corpus.window(reader, rows, epoch, after)
            shuffle = (self.seed, epoch, state.part, place["read"])
            plans = plan_batches(window, numbers, self.config, self.batch_tokens, shuffle) if len(numbers) else []
            counts = after
            at_end = reader.read == place["read"]
            if plans or at_end:
                yield _Window(place, before, after, plans)


def pool_for(parts: int) -> ThreadPoolExecutor:
    """The threads that make the windows of so many parts."""
    return ThreadPoolExecutor(min(parts, _MOST_THREADS), thread_name_prefix="dragoman-stream")


def summed(counts: list[DropCounts]) -> DropCounts:
    """The counts of several parts together."""
    return DropCounts(*(sum(getattr(one, field.name) for one in counts) for field in fields(DropCounts)))
