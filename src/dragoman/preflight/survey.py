"""One pass over the training text: how much there is, what repeats, what of the held-out text is in it, a sample.

The sample holds blocks of neighbouring pairs spread evenly over what was read, so that a shift by a line can be seen;
memory stays the same however long the text is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from dragoman.text.languages import signs

Pair = tuple[str, str]

# Neighbouring pairs in a block, and the most blocks: up to 50,000 pairs, which every check gets through in seconds.
_BLOCK = 500
_MOST_BLOCKS = 100
# Words of a target from which on its coming twice is no everyday phrase.
_LONG = 5


@dataclass(frozen=True)
class Block:
    """Neighbouring pairs; ``start`` is the number of the first one in the text, from 1."""

    start: int
    pairs: list[Pair]


@dataclass
class Shared:
    """How many of ``total`` held-out pairs stand in the training text: whole, their source, or their target.

    Targets of a few words are not counted: many sentences are translated by the same short one.
    """

    total: int = 0
    pairs: int = 0
    sources: int = 0
    targets: int = 0


@dataclass
class Survey:
    """What one pass saw. ``complete``: the text was read to its end. ``repeated``: pairs that had come before."""

    read: int = 0
    complete: bool = True
    repeated: int = 0
    blocks: list[Block] = field(default_factory=list)
    shared: dict[str, Shared] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Pairs of the sample."""
        return sum(len(block.pairs) for block in self.blocks)

    def pairs(self) -> Iterator[Pair]:
        """The pairs of the sample."""
        for block in self.blocks:
            yield from block.pairs

    def numbered(self) -> Iterator[tuple[int, Pair]]:
        """The pairs of the sample, each with its number in the text, from 1."""
        for block in self.blocks:
            yield from enumerate(block.pairs, block.start)

    def extent(self) -> str:
        """What was looked at, in words."""
        read = f"{self.read:,} pairs" if self.complete else f"the first {self.read:,} pairs"
        return read if self.size == self.read else f"{self.size:,} of {read}"


def key(text: str) -> str:
    """What makes two sentences the same: all but white space, case and Unicode composition."""
    folded = text.casefold()
    return " ".join((folded if folded.isascii() else unicodedata.normalize("NFC", folded)).split())


def survey(pairs: Iterable[Pair], held: Mapping[str, Sequence[Pair]], most: int) -> Survey:
    """Read at most ``most`` training pairs; ``held`` are validation and test pairs by name."""
    result = Survey()
    sources = {name: {key(src) for src, _ in rows} for name, rows in held.items()}
    targets = {name: {key(tgt) for _, tgt in rows} for name, rows in held.items()}
    whole = {name: {(key(src), key(tgt)) for src, tgt in rows} for name, rows in held.items()}
    found_sources: dict[str, set[str]] = {name: set() for name in held}
    found_targets: dict[str, set[str]] = {name: set() for name in held}
    found_whole: dict[str, set[Pair]] = {name: set() for name in held}
    seen: set[int] = set()
    sampler = _Sampler()
    for pair in pairs:
        if result.read == most:
            result.complete = False
            break
        sampler.add(pair)
        result.read += 1
        src, tgt = key(pair[0]), key(pair[1])
        seen.add(hash((src, tgt)))
        for name, known in sources.items():
            if src in known:
                found_sources[name].add(src)
                if (src, tgt) in whole[name]:
                    found_whole[name].add((src, tgt))
            if tgt in targets[name]:
                found_targets[name].add(tgt)
    result.repeated = result.read - len(seen)
    result.blocks = sampler.blocks()
    for name, rows in held.items():
        keys = [(key(src), key(tgt)) for src, tgt in rows if src.strip()]
        result.shared[name] = Shared(
            len(keys),
            sum(one in found_whole[name] for one in keys),
            sum(src in found_sources[name] for src, _ in keys),
            sum(tgt in found_targets[name] and _is_long(tgt) for _, tgt in keys),
        )
    return result


def _is_long(text: str) -> bool:
    """Whether a sentence has so many words, or letters of scripts without spaces, that it hardly comes by chance."""
    return sum(1 for _ in islice(signs(text), _LONG)) == _LONG


class _Sampler:
    """Keeps every block at first; each time there are too many, every second one goes and the stride doubles."""

    def __init__(self) -> None:
        self._kept: list[Block] = []
        self._stride = 1
        self._number = 0
        self._current: list[Pair] | None = None

    def add(self, pair: Pair) -> None:
        """The next pair of the text."""
        if self._number % _BLOCK == 0:
            self._begin()
        self._number += 1
        if self._current is not None:
            self._current.append(pair)

    def _begin(self) -> None:
        if self._number // _BLOCK % self._stride:
            self._current = None
            return
        if len(self._kept) == _MOST_BLOCKS:
            self._kept = self._kept[::2]
            self._stride *= 2
            if self._number // _BLOCK % self._stride:
                self._current = None
                return
        self._current = []
        self._kept.append(Block(self._number + 1, self._current))

    def blocks(self) -> list[Block]:
        """The blocks that are kept, in the order of the text."""
        return self._kept
