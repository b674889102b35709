"""A corpus whose sentences are cut into other tokens in each epoch, by BPE-dropout; constant memory, nothing on disk.

A window of pairs is cut when it is planned. A pair's tokens depend on (seed, epoch, pair, side) alone: not on the
batch, the rank or where a run was resumed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dragoman.errors import BundleError
from dragoman.text.bpe_dropout import BpeDropout, hashed, ragged
from dragoman.text.corpus import Ids, Ints, Side, TokenCorpus, Window
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
        src = BpeDropout.of(tokenizers.src, rate)
        tgt = src if tokenizers.src is tokenizers.tgt else BpeDropout.of(tokenizers.tgt, rate)
        self._dropouts = (src, tgt)
        self._seed = seed
        self._longest = longest

    def window(self, indices: Ints, epoch: int) -> Window:
        """Some pairs as epoch ``epoch`` has them, in memory."""
        sides = (self.src, self.tgt)
        return _Recut(*(self._cut(number, side, indices, epoch) for number, side in enumerate(sides)))

    def _cut(self, number: int, side: Side, indices: Ints, epoch: int) -> Side:
        begins = side.begins
        assert begins is not None
        draws = np.random.SeedSequence((self._seed, epoch), spawn_key=(number,))
        start = draws.generate_state(1, np.uint64).astype(np.uint64)
        keys, lengths, dropout = hashed(start, indices), side.lengths(indices), self._dropouts[number]
        ends = np.cumsum(lengths)
        cuts = np.searchsorted(ends, np.arange(_CHUNK, ends[-1], _CHUNK), side="right")
        rows, counts = [], []
        for part in np.split(np.arange(len(indices)), cuts):
            tokens = ragged(side.offsets[indices[part]], lengths[part])
            ids, new = dropout.cut(side.ids[tokens], begins[tokens], lengths[part], keys[part], self._longest)
            rows.append(ids.astype(side.ids.dtype))
            counts.append(new)
        offsets = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
        return Side(np.concatenate(rows), offsets)


class _Recut(NamedTuple):
    """A window that was cut anew."""

    src: Side
    tgt: Side

    def pair(self, place: int) -> tuple[Ids, Ids]:
        return self.src.row(place), self.tgt.row(place)

    def lengths(self) -> tuple[Ints, Ints]:
        return np.diff(self.src.offsets), np.diff(self.tgt.offsets)
