"""Training text that is read while it is used: in several parts, each from any place on.

A corpus consists of shards: the files of a data set as ``datasets`` counts them, or the configuration's own. In each
epoch their order is drawn anew from the seed. Where they divide evenly each part reads some of them, else every part
reads all and keeps its share of the rows, as ``datasets.distributed.split_dataset_by_node`` does.

A place in a part is a small JSON value. Going on from it opens the shard that was being read, past the rows already
read: ``datasets`` skips those by its own state, our readers of files by reading over them. Its shuffle buffer, which
a state does not bring back, is not used; see :mod:`dragoman.text.stream_batches` for ours.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dragoman.config import HubCorpus, TableCorpus, TextCorpus
from dragoman.text.readers import Pair, hub_errors, load_hub, read_pairs, row_pair

# Parts that are read side by side where nothing is said: so many files are mixed.
_MOST_PARTS = 8
# Apart from the numbers that draw the order of batches.
_ORDER = 1 << 32

Place = dict[str, Any]


class Rows(Iterator[Pair], Protocol):
    """The pairs of one shard from a place on."""

    def state(self) -> Any:
        """What finds the next row quickly, as a JSON value; asked for once a row has been read."""
        ...

    def close(self) -> None:
        """Read no further: files are closed."""
        ...


class Shards(Protocol):
    """The shards of a corpus. ``count`` of them; ``size`` is the number of pairs in all, None where not known."""

    count: int
    size: int | None

    def open(self, shard: int, row: int, state: Any) -> Rows:
        """The pairs of a shard without the first ``row``; ``state`` is of :class:`Rows`, None with ``row`` 0."""
        ...


def open_shards(corpus: TextCorpus | TableCorpus | HubCorpus, folder: str | Path) -> Shards:
    """The shards of a corpus; relative paths start at ``folder``. Raises :class:`DataError`."""
    return _Hub(corpus) if isinstance(corpus, HubCorpus) else _Files(corpus, folder)


class _Files:
    """Files, each of them a shard; line-aligned ones are a shard together with their counterpart."""

    def __init__(self, corpus: TextCorpus | TableCorpus, folder: str | Path) -> None:
        self._folder = folder
        self._corpora: list[TextCorpus | TableCorpus] = [corpus]
        if isinstance(corpus, TableCorpus):
            self._corpora = [corpus.changed(path=path) for path in corpus.path]
        elif len(corpus.src) == len(corpus.tgt):
            self._corpora = [corpus.changed(src=src, tgt=tgt) for src, tgt in zip(corpus.src, corpus.tgt, strict=True)]
        self.count = len(self._corpora)
        self.size = corpus.pairs

    def open(self, shard: int, row: int, state: Any) -> Rows:
        return _FileRows(read_pairs(self._corpora[shard], self._folder), row)


class _FileRows(Rows):
    """The pairs of a file; its readers count and check all rows on the way."""

    def __init__(self, pairs: Iterator[Pair], row: int) -> None:
        self._reader = pairs
        self._pairs = islice(pairs, row, None)

    def __next__(self) -> Pair:
        return next(self._pairs)

    def state(self) -> Any:
        return None

    def close(self) -> None:
        _close(self._reader)


class _Hub:
    """A data set of ``datasets``, streamed."""

    def __init__(self, corpus: HubCorpus) -> None:
        self._corpus = corpus
        self._data = load_hub(corpus)
        with hub_errors(corpus):
            self.count = int(self._data.num_shards)
            splits = self._data.info.splits or {}
            # A part of a split ("train[:10%]") is under no name of its own.
            known = splits[corpus.split].num_examples if corpus.split in splits else None
        self.size = corpus.pairs or known or None

    def open(self, shard: int, row: int, state: Any) -> Rows:
        with hub_errors(self._corpus):
            data = self._data.shard(num_shards=self.count, index=shard)
            if state is not None:
                data.load_state_dict(state)
            where = f"{self._corpus.hub}, shard {shard + 1} of {self.count}"
            return _HubRows(self._corpus, data, where, row)


class _HubRows(Rows):
    """The pairs of one shard of a data set."""

    def __init__(self, corpus: HubCorpus, data: Any, where: str, row: int) -> None:
        self._corpus = corpus
        self._data = data
        self._rows = iter(data)
        self._where = where
        self._row = row

    def __next__(self) -> Pair:
        # The network may fail at any row.
        with hub_errors(self._corpus):
            row = next(self._rows, None)
        if row is None:
            raise StopIteration
        self._row += 1
        return row_pair(row, self._corpus.src_field, self._corpus.tgt_field, f"{self._where}, row {self._row}")

    def state(self) -> Any:
        return self._data.state_dict()

    def close(self) -> None:
        _close(self._rows)


def _close(rows: Iterator[Any]) -> None:
    """Close a generator, as readers are, while its file can still be closed: not when the process ends."""
    if isinstance(rows, Generator):
        rows.close()


class PartReader(Iterator[tuple[int, Pair]]):
    """Iterates over ``(number, pair)`` of one of ``parts`` parts of an epoch, from ``place`` on, or from its start.

    The number is the row's own in this epoch: no other row of any part has it.
    """

    def __init__(self, shards: Shards, part: int, parts: int, seed: tuple[int, int], place: Place | None) -> None:
        self._shards = shards
        self._part = part
        self._parts = parts
        order = np.random.default_rng((*seed, _ORDER)).permutation(shards.count).tolist()
        self._whole = shards.count % parts == 0
        self._order: list[int] = order[part::parts] if self._whole else order
        place = place or {"shard": 0, "row": 0, "read": 0, "state": None}
        self._shard, self._row, self._read = int(place["shard"]), int(place["row"]), int(place["read"])
        self._state = place["state"]
        self._rows: Rows | None = None

    @property
    def read(self) -> int:
        """Rows read so far, those of other parts included."""
        return self._read

    def place(self) -> Place:
        """Where the next row is: a JSON value."""
        state = self._state if self._rows is None else self._rows.state()
        return {"shard": self._shard, "row": self._row, "read": self._read, "state": state}

    def close(self) -> None:
        """Read no further: files are closed."""
        if self._rows is not None:
            self._rows.close()

    def __next__(self) -> tuple[int, Pair]:
        while True:
            pair = self._next_row()
            number = self._read
            self._read += 1
            if self._whole:
                return number * self._parts + self._part, pair
            if number % self._parts == self._part:
                return number, pair

    def _next_row(self) -> Pair:
        while self._shard < len(self._order):
            if self._rows is None:
                self._rows = self._shards.open(self._order[self._shard], self._row, self._state)
            pair = next(self._rows, None)
            if pair is not None:
                self._row += 1
                return pair
            self._shard, self._row, self._state, self._rows = self._shard + 1, 0, None, None
        raise StopIteration


def number_of_parts(wanted: int | None, shards: int, ranks: int) -> int:
    """The parts of an epoch: ``wanted``, or else as many files as fit and the ranks divide; or one for each rank."""
    if wanted is not None:
        return wanted
    fitting = (parts for parts in range(max(ranks, _MOST_PARTS), 0, -1) if not parts % ranks and not shards % parts)
    return next(fitting, ranks)
