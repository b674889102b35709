"""A corpus whose sentences are cut into other tokens in each epoch, by BPE-dropout; constant memory, nothing on disk.

A window of pairs is cut when it is planned. A pair's tokens depend on (seed, epoch, pair, side) alone: not on the
batch, the rank or where a run was resumed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import BundleError
from dragoman.text.bpe_dropout import BpeDropout, hashed, ragged
from dragoman.text.corpus import Ints, MadeWindow, Side, TokenCorpus, Window
from dragoman.text.tokenizer import TokenizerPair

# Tokens cut at once: what the work needs beside the result is a few MB.
_CHUNK = 1 << 14


class RecutCorpus(TokenCorpus):
    """``plain``, whose windows leave each merge out with probability ``rate``; ``pair`` is the plain one.

    A sentence that would be cut into more than ``longest`` tokens (``data.max_length``) keeps its plain ones in that
    epoch, so that no pair is lost and no batch is longer than without dropout. ``plain`` must have been written with
    its words, else :class:`BundleError` is raised. Raises :class:`ConfigError` for tokenizers without merges.
    """

    def __init__(self, plain: TokenCorpus, tokenizers: TokenizerPair, rate: float, seed: int, longest: int) -> None:
        super().__init__(plain.src, plain.tgt, plain.counts)
        if plain.src.begins is None or plain.tgt.begins is None:
            raise BundleError("the tokenised corpus does not say where words begin; delete it to rebuild.")
        self._dropouts = dropouts(tokenizers, rate)
        self._seed = seed
        self._longest = longest

    def window(self, indices: Ints, epoch: int) -> Window:
        """Some pairs as epoch ``epoch`` has them, in memory."""
        sides = (self.src, self.tgt)
        return MadeWindow(*(self._cut(number, side, indices, epoch) for number, side in enumerate(sides)))

    def _cut(self, number: int, side: Side, indices: Ints, epoch: int) -> Side:
        keys = draws(self._seed, epoch, number, indices)
        return recut(side, indices, keys, self._dropouts[number], self._longest)


def dropouts(tokenizers: TokenizerPair, rate: float) -> tuple[BpeDropout, BpeDropout]:
    """The BPE-dropout of both sides, one and the same where their tokenizer is."""
    src = BpeDropout.of(tokenizers.src, rate)
    return src, src if tokenizers.src is tokenizers.tgt else BpeDropout.of(tokenizers.tgt, rate)


def draws(seed: int, epoch: int, side: int, numbers: Ints) -> NDArray[np.uint64]:
    """Where the draws of some pairs start, on side 0 or 1."""
    start = np.random.SeedSequence((seed, epoch), spawn_key=(side,)).generate_state(1, np.uint64).astype(np.uint64)
    return hashed(start, numbers)


def recut(side: Side, rows: Ints, keys: NDArray[np.uint64], dropout: BpeDropout, longest: int) -> Side:
    """Some rows of a side, cut anew; ``keys`` are the starts of their draws."""
    begins = side.begins
    assert begins is not None
    lengths = side.lengths(rows)
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(ends, np.arange(_CHUNK, ends[-1], _CHUNK), side="right")
    parts, counts = [], []
    for part in np.split(np.arange(len(rows)), cuts):
        tokens = ragged(side.offsets[rows[part]], lengths[part])
        ids, new = dropout.cut(side.ids[tokens], begins[tokens], lengths[part], keys[part], longest)
        parts.append(ids.astype(side.ids.dtype))
        counts.append(new)
    offsets = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
    return Side(np.concatenate(parts), offsets)
