"""Validation pairs held out from the training text, so that no sentence of either side stays in training."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator

from dragoman.errors import DataError

Pair = tuple[str, str]


def hold_out(
    read: Callable[[], Iterator[Pair]], count: int, seed: int
) -> tuple[Callable[[], Iterator[Pair]], list[Pair]]:
    """A reader of what stays in training, and ``count`` held-out pairs in the order of the text.

    A pair's rank is a hash of the seed and the pair, so the choice depends on neither order nor duplicates, and
    memory holds the chosen pairs alone. Pairs that share a side with a held-out one leave the training text.
    Raises :class:`DataError` where there are fewer than ``count`` + 1 different pairs.
    """
    chosen: dict[Pair, int] = {}
    worst: list[tuple[int, Pair]] = []
    others = False
    for src, tgt in read():
        pair = (src.strip(), tgt.strip())
        if pair in chosen or not all(pair):
            continue
        rank = _rank(seed, pair)
        if len(chosen) == count:
            others = True
            if -worst[0][0] <= rank:
                continue
            del chosen[heapq.heappop(worst)[1]]
        chosen[pair] = rank
        heapq.heappush(worst, (-rank, pair))
    if len(chosen) < count or not others:
        raise DataError(
            f"data.valid.split asks for {count:,} pairs, and the training text has only "
            f"{len(chosen):,} different ones; hold out fewer."
        )
    sources, targets = {src for src, _ in chosen}, {tgt for _, tgt in chosen}

    def rest() -> Iterator[Pair]:
        for src, tgt in read():
            if src.strip() not in sources and tgt.strip() not in targets:
                yield src, tgt

    return rest, list(chosen)


def _rank(seed: int, pair: Pair) -> int:
    text = "\0".join((str(seed), *pair)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
