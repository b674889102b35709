"""Batches of sentences of like length under a token budget, seeded, resumable, planned a window at a time.

Shapes: B batch, S source length, T target length; special tokens and padding included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.errors import DataError
from dragoman.text.corpus import TokenCorpus, Window

# Pairs sorted by length together: enough that every length fills batches of its own, little to plan.
_WINDOW = 1 << 16

Indices = NDArray[np.int64]
Ids = Sequence[int] | NDArray[Any]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Batch:
    """Padded ids. ``src`` [B,S]; ``tgt_in`` [B,T] begins with ``<s>``, ``tgt_out`` [B,T] ends with ``</s>``.

    A mask is None where its side has no padding. ``indices`` are the pairs' places in the corpus.
    """

    src: Tensor
    src_mask: Tensor | None
    tgt_in: Tensor
    tgt_out: Tensor
    tgt_mask: Tensor | None
    n_src_tokens: int
    n_tgt_tokens: int
    indices: Sequence[int]

    def to(self, device: torch.device) -> Batch:
        """The same batch on another device."""
        if device.type == "cpu":
            return self
        moved: dict[str, Any] = {
            name: value if value is None else value.to(device, non_blocking=True)
            for name in ("src", "src_mask", "tgt_in", "tgt_out", "tgt_mask")
            for value in (getattr(self, name),)
        }
        return replace(self, **moved)


def pad(
    rows: Sequence[Ids], pad_id: int, first: Sequence[int] = (), last: Sequence[int] = ()
) -> tuple[Tensor, Tensor | None]:
    """Ids [B,S] with ``first`` before and ``last`` after each row, and the mask of real places (None: all)."""
    extra = len(first) + len(last)
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows)) + extra
    width = int(lengths.max())
    ids = np.full((len(rows), width), pad_id, np.int64)
    for place, row, length in zip(ids, rows, lengths, strict=True):
        place[: len(first)] = first
        place[len(first) : length - len(last)] = row
        place[length - len(last) : length] = last
    real = np.arange(width) < lengths[:, None]
    return torch.from_numpy(ids), None if real.all() else torch.from_numpy(real)


def pad_sources(rows: Sequence[Ids], config: ModelConfig) -> tuple[Tensor, Tensor | None]:
    """Source ids [B,S] and mask with the special tokens that the model expects."""
    first = [config.bos_id] if config.src_bos else []
    last = [config.eos_id] if config.src_eos else []
    return pad(rows, config.src_pad_id, first, last)


def collate(pairs: Sequence[tuple[Ids, Ids]], config: ModelConfig, indices: Sequence[int]) -> Batch:
    """A batch of pairs of ids without special tokens."""
    src, src_mask = pad_sources([src for src, _ in pairs], config)
    targets = [tgt for _, tgt in pairs]
    tgt_in, tgt_mask = pad(targets, config.tgt_pad_id, first=[config.bos_id])
    tgt_out, _ = pad(targets, config.tgt_pad_id, last=[config.eos_id])
    n_src = src.numel() if src_mask is None else int(src_mask.sum())
    n_tgt = tgt_in.numel() if tgt_mask is None else int(tgt_mask.sum())
    return Batch(src, src_mask, tgt_in, tgt_out, tgt_mask, n_src, n_tgt, indices)


class Position(NamedTuple):
    """A place in the stream of batches: the next one to come.

    ``parts`` say where each part of a streamed text is, in its epoch (:mod:`dragoman.text.stream_batches`); there
    window and batch are 0, and at the start of an epoch there are no parts.
    """

    epoch: int = 0
    window: int = 0
    batch: int = 0
    parts: Sequence[dict[str, Any]] = ()


_START = Position()


class Plan(NamedTuple):
    """A batch before it is made: where its pairs stand in a window, and in the corpus."""

    window: Window
    places: Indices
    indices: Indices


class _Pairs(NamedTuple):
    """The pairs of one window: the epoch, the window's number in it, and the places of the pairs in the corpus."""

    epoch: int
    number: int
    indices: NDArray[np.uint32]


class TrainingBatches:
    """The corpus in batches of at most ``batch_tokens`` a side, each pair once an epoch, without end.

    An epoch is a seeded permutation cut into windows of equal size; a window is sorted by length, cut into batches
    and the batches shuffled. A window is planned from the seed alone, in a thread while the one before it is used:
    resuming costs the same at any step. Raises :class:`DataError` for an empty corpus.
    """

    def __init__(self, corpus: TokenCorpus, config: ModelConfig, batch_tokens: int, seed: int) -> None:
        if not len(corpus):
            raise DataError("the training text holds no pairs to make batches of; check data.train.")
        self.corpus = corpus
        self.config = config
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.n_windows = -(-len(corpus) // _WINDOW)

    def iterate(self, position: Position = _START) -> Iterator[tuple[Batch, Position]]:
        """Batches from ``position`` on for ever, each with the position after it."""
        for plan, after in self.planned(position):
            yield self.batch(plan), after

    def planned(self, position: Position = _START) -> Iterator[tuple[Plan, Position]]:
        """The same before it is made, so that each of several processes makes its own batches alone."""
        starts = ((epoch, position.window if epoch == position.epoch else 0) for epoch in count(position.epoch))
        return self._from_windows(chain.from_iterable(self._windows(*start) for start in starts), position.batch)

    def epoch_batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of one epoch."""
        for plan, _ in self._from_windows(self._windows(epoch)):
            yield self.batch(plan)

    def batch(self, plan: Plan) -> Batch:
        """The batch of a plan."""
        return make_batch(plan, self.config)

    def _from_windows(self, windows: Iterator[_Pairs], skip: int = 0) -> Iterator[tuple[Plan, Position]]:
        """The batches of windows, without the first ``skip``, each with the position after it."""
        for (epoch, number, _), plans in _ahead(self._plan, windows):
            for index in range(skip, len(plans)):
                after = Position(epoch, number, index + 1)
                if index + 1 == len(plans):
                    after = Position(epoch, number + 1, 0) if number + 1 < self.n_windows else Position(epoch + 1)
                yield plans[index], after
            skip = 0

    def _windows(self, epoch: int, first: int = 0) -> Iterator[_Pairs]:
        """The pairs of each window of an epoch."""
        windows = np.array_split(self._permutation(epoch), self.n_windows)
        for number in range(first, self.n_windows):
            yield _Pairs(epoch, number, windows[number])

    def _permutation(self, epoch: int) -> NDArray[np.uint32]:
        """A shuffled order of all pairs, 4 bytes each."""
        order = np.arange(len(self.corpus), dtype=np.uint32)
        np.random.default_rng((self.seed, epoch)).shuffle(order)
        return order

    def _plan(self, pairs: _Pairs) -> list[Plan]:
        indices = pairs.indices.astype(np.int64)
        window = self.corpus.window(indices, pairs.epoch)
        shuffle = (self.seed, pairs.epoch, pairs.number + 1)
        return plan_batches(window, indices, self.config, self.batch_tokens, shuffle)


def plan_batches(
    window: Window, indices: Indices, config: ModelConfig, batch_tokens: int, shuffle: Sequence[int]
) -> list[Plan]:
    """The batches of a window: sorted by length, cut, and shuffled by the numbers in ``shuffle``."""
    src, tgt = window.lengths()
    src, tgt = src + config.src_bos + config.src_eos, tgt + 1
    order = _by_length(src, tgt)
    batches = [order[begin:end] for begin, end in _cut(src[order], tgt[order], batch_tokens)]
    shuffled = np.random.default_rng(shuffle).permutation(len(batches))
    return [Plan(window, batches[index], indices[batches[index]]) for index in shuffled]


def make_batch(plan: Plan, config: ModelConfig) -> Batch:
    """The batch of a plan."""
    return collate([plan.window.pair(int(place)) for place in plan.places], config, plan.indices.tolist())


def _ahead(function: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Each item with the function of it, which a thread computes while the caller uses the one before."""
    with ThreadPoolExecutor(1, thread_name_prefix="dragoman-batches") as pool:
        waiting: deque[tuple[T, Future[R]]] = deque()
        for item in items:
            waiting.append((item, pool.submit(function, item)))
            if len(waiting) > 1:
                done, future = waiting.popleft()
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()


def _by_length(src: Indices, tgt: Indices) -> Indices:
    """The order by target length, then source length, rising and falling in turn.

    So the sources on both sides of a step in target length are alike, and a batch that spans it is not padded.
    """
    return np.lexsort((np.where(tgt % 2, src, -src), tgt))


def _cut(src: Indices, tgt: Indices, budget: int) -> list[tuple[int, int]]:
    """Cut a sorted run into pieces whose padded size stays within ``budget`` on both sides.

    A sentence that is longer than the budget stands alone.
    """
    cuts, begin, widest = [], 0, 0
    for index, width in enumerate(np.maximum(src, tgt).tolist()):
        grown = max(widest, width)
        if index > begin and grown * (index + 1 - begin) > budget:
            cuts.append((begin, index))
            begin, grown = index, width
        widest = grown
    if begin < len(src):
        cuts.append((begin, len(src)))
    return cuts


def ordered_batches(
    src_lengths: Sequence[int], budget: int, tgt_lengths: Sequence[int] | None = None
) -> list[list[int]]:
    """All indices, grouped by like length under a token budget per side, longest first.

    Longest first, so that a batch that does not fit into memory fails at once. The lengths include what
    special tokens there are.
    """
    if not len(src_lengths):
        return []
    src = np.asarray(src_lengths, np.int64)
    tgt = src if tgt_lengths is None else np.asarray(tgt_lengths, np.int64)
    order = _by_length(src, tgt)
    cuts = _cut(src[order], tgt[order], budget)
    return [order[begin:end].tolist() for begin, end in reversed(cuts)]
