"""Validation pairs held out from the training text, so that no sentence of either side stays in training."""

from __future__ import annotations

import hashlib
import heapq
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from dragoman.errors import DataError

Pair = tuple[str, str]


class Remaining:
    """Reads the training text without the pairs that share a side with a held-out one.

    ``left_out`` is their number, the held-out pairs included, once the text has been read to its end.
    """

    def __init__(self, read: Callable[[], Iterator[Pair]], held: set[Pair]) -> None:
        self._read = read
        self._sources = {src for src, _ in held}
        self._targets = {tgt for _, tgt in held}
        self.left_out = 0

    def __call__(self) -> Iterator[Pair]:
        """The pairs that stay, from the start of the text."""
        left_out = 0
        for pair in self._read():
            if self.keeps(pair):
                yield pair
            else:
                left_out += 1
        self.left_out = left_out

    def keeps(self, pair: Pair) -> bool:
        """Whether a pair stays in training."""
        src, tgt = _key(pair)
        return src not in self._sources and tgt not in self._targets

    @classmethod
    def without(cls, read: Callable[[], Iterator[Pair]], held: Iterable[Pair]) -> Remaining:
        """What stays where these pairs are held out."""
        return cls(read, {_key(pair) for pair in held})


def hold_out(read: Callable[[], Iterator[Pair]], count: int, seed: int) -> tuple[Remaining, list[Pair]]:
    """A reader of what stays in training, and ``count`` held-out pairs in the order of the text.

    Two sentences are the same where they differ in white space, case or Unicode composition only. A pair's rank
    is a hash of the seed and the pair, so the choice depends on neither order nor duplicates, and memory holds the
    chosen pairs alone. Raises :class:`DataError` where there are fewer than ``count`` + 1 different pairs.
    """
    chosen: dict[Pair, Pair] = {}
    worst: list[tuple[int, Pair]] = []
    others = False
    for pair in read():
        key = _key(pair)
        if key in chosen or not all(key):
            continue
        rank = _rank(seed, key)
        if len(chosen) == count:
            others = True
            if -worst[0][0] <= rank:
                continue
            del chosen[heapq.heappop(worst)[1]]
        chosen[key] = pair
        heapq.heappush(worst, (-rank, key))
    if len(chosen) < count or not others:
        raise DataError(
            f"data.valid.split asks for {count:,} pairs, and the training text has only "
            f"{len(chosen):,} different ones; hold out fewer."
        )
    return Remaining(read, set(chosen)), list(chosen.values())


def _key(pair: Pair) -> Pair:
    """What makes two pairs the same."""
    src, tgt = (" ".join(unicodedata.normalize("NFC", text.casefold()).split()) for text in pair)
    return src, tgt


def _rank(seed: int, pair: Pair) -> int:
    text = "\0".join((str(seed), *pair)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
