"""BPE-dropout (Provilkov et al., ACL 2020): the same text cut into other tokens each time it is read.

A word starts as its bytes. Of the merges that could be applied now, each is left out with probability p; the
best-ranked of the others is applied (the leftmost of equals), and so on, until none is left. With p = 0 these are the
tokenizer's own ids, with p -> 1 the bytes.

Nothing is drawn from a stream: the draw of a word in a round is a hash of (seed, epoch, side, pair, word, round), so
that a sentence's tokens depend on no other sentence. One draw a round is enough: walking down the ranks, the j-th best
merge is the one applied with probability p^j (1 - p).

A word of more than 1,024 bytes (a picture in base64, a page without spaces) is taken as several, cut between two of
its plain tokens: no merge reaches over such a cut.

Shapes: N words, M symbols of all words one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.text.json_tokenizer import ByteLevelTokenizer
from dragoman.text.tokenizer import Tokenizer, no_dropout

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Ids = NDArray[Any]

# The increment and the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FINAL = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)
# A merge's rank stands above its place, so that the smallest value is the best merge and the leftmost of equals.
_PLACE_BITS = 32
_PLACE = (1 << _PLACE_BITS) - 1
_NONE = np.int64((1 << 31) - 1) << _PLACE_BITS
# Bytes of a word that are merged together. A round is one merge in each word, so one of 80,000 bytes alone would take
# 14 seconds where it now takes 0.3; words of human languages are shorter.
_LONGEST_WORD = 1024


def hashed(keys: Keys, number: Ints | int) -> Keys:
    """The ``number``-th value (from 0) of the SplitMix64 generators that start at ``keys``."""
    # An array even of one number: it may overflow, a scalar warns.
    value: Keys = keys + _GAMMA * (np.atleast_1d(number).astype(np.uint64) + np.uint64(1))
    for shift, factor in _FINAL:
        value ^= value >> shift
        value *= factor
    value ^= value >> _LAST_SHIFT
    return value


def uniform(keys: Keys, number: Ints | int) -> NDArray[np.float64]:
    """Draws in [0, 1), the 53 upper bits of :func:`hashed`."""
    return (hashed(keys, number) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def ragged(at: Ints, lengths: Ints) -> Ints:
    """The indices of runs that begin ``at`` some places, one run after the other."""
    ends = np.cumsum(lengths)
    return np.repeat(at - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


def starts(lengths: Ints) -> Ints:
    """Where runs of some lengths begin that stand one after the other."""
    return np.cumsum(lengths) - lengths


@dataclass(frozen=True)
class _Words:
    """Some sentences' words: their tokens a word, the sentence of each, and the key of each one's draws."""

    pieces: Ints
    sentence: Ints
    keys: Keys

    @classmethod
    def of(cls, begins: NDArray[np.bool_], lengths: Ints, sentence_keys: Keys) -> _Words:
        first = np.flatnonzero(begins)
        pieces = np.diff(first, append=len(begins))
        sentence = np.repeat(np.arange(len(lengths)), lengths)[first]
        counts = np.bincount(sentence, minlength=len(lengths))
        ordinal = np.arange(len(first)) - np.repeat(starts(counts), counts)
        return cls(pieces, sentence, hashed(sentence_keys[sentence], ordinal))


def with_merges(tokenizer: Tokenizer) -> ByteLevelTokenizer:
    """The same tokenizer; raises :class:`ConfigError` where it is of another kind than bpe."""
    if not isinstance(tokenizer, ByteLevelTokenizer) or tokenizer.kind != "bpe":
        raise no_dropout(tokenizer.kind)
    return tokenizer


class BpeDropout:
    """Cuts tokenised sentences anew, merges left out with probability ``rate``, as the draws of ``seed`` have it."""

    def __init__(self, tokenizer: ByteLevelTokenizer, rate: float) -> None:
        self.rate = rate
        self._merges = _Merges(tokenizer)
        spelt = tokenizer.spelling()
        self._sizes = np.fromiter(map(len, spelt), np.int64, len(spelt))
        self._spelt = np.fromiter((byte for token in spelt for byte in token), np.int64, int(self._sizes.sum()))
        self._spelt_at = starts(self._sizes)

    @classmethod
    def of(cls, tokenizer: Tokenizer, rate: float) -> BpeDropout:
        """For a tokenizer of kind bpe. Raises :class:`ConfigError` for another: only bpe has merges to leave out."""
        return cls(with_merges(tokenizer), rate)

    def cut(
        self, ids: Ids, begins: NDArray[np.bool_], lengths: Ints, keys: Keys, longest: int
    ) -> tuple[NDArray[np.int64], Ints]:
        """Other ids of sentences, and their lengths.

        ``ids`` are the plain tokens of all sentences one after the other, ``begins`` says which of them begin a word,
        ``lengths`` are the sentences' and ``keys`` the starts of their draws. A sentence that would have more than
        ``longest`` tokens keeps its plain ones.
        """
        ids = ids.astype(np.int64)
        words = _Words.of(begins | self._cuts(ids, begins), lengths, keys)
        sizes = np.add.reduceat(self._sizes[ids], starts(words.pieces)) if len(ids) else words.pieces
        touched = self._touched(words.keys, sizes - words.pieces)
        tokens = ids[np.repeat(touched, words.pieces)]
        symbols = self._spelt[ragged(self._spelt_at[tokens], self._sizes[tokens])]
        symbols, counts = self.segment(symbols, sizes[touched], words.keys[touched])
        pieces = words.pieces.copy()
        pieces[touched] = counts
        new = np.bincount(words.sentence, pieces, len(lengths)).astype(np.int64)
        if (over := new > longest).any():
            stay = over[words.sentence[touched]]
            symbols = symbols[~np.repeat(stay, counts)]
            touched &= ~over[words.sentence]
            pieces = np.where(touched, pieces, words.pieces)
            new = np.where(over, lengths, new)
        changed = np.repeat(touched, pieces)
        out = np.empty(len(changed), np.int64)
        out[changed] = symbols
        out[~changed] = ids[np.repeat(~touched, words.pieces)]
        return out, new

    def _cuts(self, ids: Ints, begins: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The tokens before which a long word is cut."""
        if not len(ids):
            return begins
        first = np.flatnonzero(begins)
        at = starts(self._sizes[ids])
        inside = at - np.repeat(at[first], np.diff(first, append=len(ids)))
        number = inside // _LONGEST_WORD
        return np.diff(number, prepend=0) > 0

    def _touched(self, keys: Keys, merges: Ints) -> NDArray[np.bool_]:
        """The words in which a draw leaves a merge out. [N]

        The others have their plain tokens: in each of their ``merges`` rounds the best merge is applied.
        """
        touched = np.zeros(len(keys), np.bool_)
        rest, number = np.flatnonzero(merges > 0), 0
        while len(rest):
            dropped = uniform(keys[rest], number) < self.rate
            touched[rest[dropped]] = True
            number += 1
            rest = rest[~dropped]
            rest = rest[merges[rest] > number]
        return touched

    def segment(self, symbols: Ints, sizes: Ints, keys: Keys) -> tuple[Ints, Ints]:
        """The tokens [M'] of words given as their bytes [M], ``sizes`` [N] each, and how many each has [N]."""
        if not len(sizes):
            return symbols, sizes
        chains = _Chains(self._merges, symbols, sizes)
        number = 0
        while len(chains.words):
            chains.merge(uniform(keys[chains.words], number), self.rate)
            number += 1
        return chains.symbols[:-1][chains.live], np.add.reduceat(chains.live, starts(sizes), dtype=np.int64)


class _Merges:
    """What two symbols merge to, and at which rank."""

    def __init__(self, tokenizer: ByteLevelTokenizer) -> None:
        merges = np.asarray(tokenizer.merges(), np.int64).reshape(-1, 3)
        # Stands after the last symbol of a word and before its first, and merges with nothing.
        self.nothing = tokenizer.vocab_size
        self.merged = merges[:, 2]
        self._factor = tokenizer.vocab_size + 1
        pairs = merges[:, 0] * self._factor + merges[:, 1]
        order = np.argsort(pairs)
        # One more than any pair, so that a search always ends on an entry.
        self._pairs = np.append(pairs[order], self._factor**2)
        self._values = np.append(order << _PLACE_BITS, _NONE)

    def values(self, left: Ints, right: Ints, place: Ints) -> Ints:
        """Rank above place, ``_NONE`` above place where the two do not merge."""
        pairs = left * self._factor + right
        found = np.searchsorted(self._pairs, pairs)
        return np.where(self._pairs[found] == pairs, self._values[found], _NONE) | place


class _Chains:
    """Words as chains of symbols in one array, and the merge that could be applied at each symbol.

    ``words`` are those that are not done; ``values`` holds their merges alone, each word's from ``at`` on.
    """

    def __init__(self, merges: _Merges, symbols: Ints, sizes: Ints) -> None:
        total, first = len(symbols), starts(sizes)
        self.merges = merges
        self.symbols = np.append(symbols, merges.nothing)
        self.live = np.ones(total, np.bool_)
        self.words = np.arange(len(sizes))
        # Place ``total`` is the neighbour of the first and of the last symbol of each word.
        self._next = np.arange(1, total + 2)
        self._next[first + sizes - 1] = total
        self._previous = np.arange(-1, total)
        self._previous[first] = total
        self._sizes, self._at, self._shift = sizes, first, np.zeros_like(first)
        places = np.arange(total)
        # One more than there are symbols, for what is written at place ``total``.
        self._values = np.append(merges.values(symbols, self.symbols[self._next[:-1]], places), _NONE)

    def merge(self, draws: NDArray[np.float64], rate: float) -> None:
        """One round: a merge in each of ``words``, of which those where none is left or all are left out leave."""
        best = np.minimum.reduceat(self._values[:-1], self._at)
        self._leave_out(best, draws, rate)
        going = best < _NONE
        done = ~going
        # The values of a word that left lie between those of others: they must not be taken for theirs.
        self._values[ragged(self._at[done], self._sizes[done])] = _NONE
        self.words, self._at, self._sizes, self._shift = (
            part[going] for part in (self.words, self._at, self._sizes, self._shift)
        )
        self._apply(best[going])
        if 2 * self._sizes.sum() < len(self._values):
            self._close_up()

    def _leave_out(self, best: Ints, draws: NDArray[np.float64], rate: float) -> None:
        """Replace the best merges that the draws leave out by the next ones."""
        which = np.flatnonzero((draws < rate) & (best < _NONE))
        values = self._values[ragged(self._at[which], self._sizes[which])]
        level = rate
        while len(which):
            sizes = self._sizes[which]
            at = starts(sizes)
            values[(best[which] & _PLACE) + self._shift[which] - self._at[which] + at] = _NONE
            best[which] = np.minimum.reduceat(values, at)
            level *= rate
            more = (draws[which] < level) & (best[which] < _NONE)
            values, which = values[np.repeat(more, sizes)], which[more]

    def _apply(self, best: Ints) -> None:
        """Apply a merge in each of ``words``."""
        left = best & _PLACE
        merged = self.merges.merged[best >> _PLACE_BITS]
        right, before = self._next[left], self._previous[left]
        after = self._next[right]
        self.symbols[left] = merged
        self.live[right] = False
        self._next[left] = after
        self._previous[after] = left
        values, spare = self._values, len(self._values) - 1
        values[right + self._shift] = _NONE
        values[left + self._shift] = self.merges.values(merged, self.symbols[after], left)
        outside = before == len(self.live)
        values[np.where(outside, spare, before + self._shift)] = self.merges.values(
            self.symbols[before], merged, before
        )

    def _close_up(self) -> None:
        """Leave out the values of words that are done."""
        first = self._at - self._shift
        self._values = np.append(self._values[ragged(self._at, self._sizes)], _NONE)
        self._at = starts(self._sizes)
        self._shift = self._at - first
