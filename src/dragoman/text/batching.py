"""Batches of sentences of like length under a token budget, seeded, resumable, planned a window at a time.

Shapes: B batch, S source length, T target length; special tokens and padding included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.errors import DataError
from dragoman.text.corpus import TokenCorpus

# Pairs sorted by length together: enough that every length fills batches of its own, little to plan.
_WINDOW = 1 << 16

Indices = NDArray[np.int64]
Ids = Sequence[int] | NDArray[Any]


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
    """A place in the stream of batches: the next one to come."""

    epoch: int = 0
    window: int = 0
    batch: int = 0


_START = Position()


class TrainingBatches:
    """The corpus in batches of at most ``batch_tokens`` a side, each pair once an epoch, without end.

    An epoch is a seeded permutation cut into windows of equal size; a window is sorted by length, cut into batches
    and the batches shuffled. A window is planned when it is reached, from the seed alone: resuming costs the same
    at any step. Of several ranks each takes every ``world_size``-th batch; some batches are halved, so that all
    ranks have the same number in every window (one is repeated where each is a single pair). Raises
    :class:`DataError` for an empty corpus.
    """

    def __init__(
        self, corpus: TokenCorpus, config: ModelConfig, batch_tokens: int, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        if not len(corpus):
            raise DataError("the training text holds no pairs to make batches of; check data.train.")
        self.corpus = corpus
        self.config = config
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.n_windows = -(-len(corpus) // _WINDOW)
        self._src_extra = config.src_bos + config.src_eos

    def iterate(self, position: Position = _START) -> Iterator[tuple[Batch, Position]]:
        """Batches from ``position`` on for ever, each with the position after it."""
        yield from self._of_epoch(*position)
        for epoch in count(position.epoch + 1):
            yield from self._of_epoch(epoch)

    def epoch_batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of one epoch."""
        for batch, _ in self._of_epoch(epoch):
            yield batch

    def _of_epoch(self, epoch: int, window: int = 0, skip: int = 0) -> Iterator[tuple[Batch, Position]]:
        """The batches of an epoch from a window on, without the window's first ``skip``."""
        windows = np.array_split(self._permutation(epoch), self.n_windows)
        for number in range(window, self.n_windows):
            own = self._plan(windows[number], epoch, number)[self.rank :: self.world_size]
            for index in range(skip, len(own)):
                after = Position(epoch, number, index + 1)
                if index + 1 == len(own):
                    after = Position(epoch, number + 1, 0) if number + 1 < self.n_windows else Position(epoch + 1)
                yield self._batch(own[index]), after
            skip = 0

    def _batch(self, indices: Indices) -> Batch:
        chosen = [int(index) for index in indices]
        return collate([self.corpus.pair(index) for index in chosen], self.config, chosen)

    def _permutation(self, epoch: int) -> NDArray[np.uint32]:
        """A shuffled order of all pairs, 4 bytes each."""
        order = np.arange(len(self.corpus), dtype=np.uint32)
        np.random.default_rng((self.seed, epoch)).shuffle(order)
        return order

    def _plan(self, window: NDArray[np.uint32], epoch: int, number: int) -> list[Indices]:
        """The batches of a window: sorted by length, cut, and shuffled; their number is a multiple of the ranks."""
        indices = window.astype(np.int64)
        src, tgt = self.corpus.lengths(indices)
        src, tgt = src + self._src_extra, tgt + 1
        order = _by_length(src, tgt)
        batches = [indices[order[begin:end]] for begin, end in _cut(src[order], tgt[order], self.batch_tokens)]
        _add(batches, -len(batches) % self.world_size)
        shuffled = np.random.default_rng((self.seed, epoch, number + 1)).permutation(len(batches))
        return [batches[index] for index in shuffled]


def _add(batches: list[Indices], number: int) -> None:
    """Make ``number`` more batches: each time the one of the most pairs is halved, or repeated where it is one pair."""
    for _ in range(number):
        whole = batches.pop(max(range(len(batches)), key=lambda index: len(batches[index])))
        batches += np.array_split(whole, 2) if len(whole) > 1 else [whole, whole]


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
