"""Beam search, batched over sources. A beam of one is greedy search.

The log-probabilities stay on the model's device; the books (sums, tokens, parents) are small and kept on the CPU, the
sums in float64. Shapes: N open sentences, W hypotheses of each, R = N·W rows of a step, V vocabulary, n tokens so far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.candidates import Candidates, best_candidates
from dragoman.decoding.constraints import Rules
from dragoman.decoding.ended import Sentence
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.step import NEVER, log_probabilities
from dragoman.decoding.trail import Trail


class BeamSearch:
    """The best translations of each source, at most ``n_best``, best score first, all different.

    A step takes the best 2·``beam_size`` candidates of a sentence. ``</s>`` finishes a hypothesis only where it is
    among the first ``beam_size`` of them; the best ``beam_size`` others go on. A sentence's search ends when no
    open hypothesis can still be among its ``n_best``, or once it has these and ``stop_after`` (if not 0) have
    finished; with ``beam_size`` 1 (greedy) at its first ``</s>``, and in any case after ``limits[i]`` target tokens
    (``</s>`` counts), where the open hypotheses compete unfinished. Of equal candidates the earlier hypothesis and
    the lower id win. Where the rules leave a sentence nothing to go on with and nothing has finished, its hypotheses
    end as they are, unfinished.
    """

    def __init__(self, config: DecodeConfig, rules: Rules, eos_id: int, limits: Sequence[int]) -> None:
        self.size = config.beam_size
        self.rules = rules
        self.eos_id = eos_id
        self.sentences = [Sentence(config, limit) for limit in limits]
        self.trail = Trail(len(limits))
        self.sources = np.arange(len(limits))  # [N] of the open sentences
        # [N,W], each sentence's best first; where it has fewer than W, the rest is dead: -inf.
        self.sums: NDArray[np.float64] = np.zeros((len(limits), 1))
        self.tokens = self.parents = np.empty(0, np.int64)
        none = np.empty((len(limits), 0), np.int64)
        self._found = Candidates(self.sums[:, :0], none, none, self.sums[:, :0])

    @property
    def found(self) -> Candidates:
        """The candidates that the last step looked at."""
        return self._found

    @property
    def is_open(self) -> bool:
        """Whether any sentence still has hypotheses to extend."""
        return len(self.sources) > 0

    def advance(self, logits: Tensor) -> None:
        """Extend the open hypotheses by one token, ``logits`` [R,V] being the step's; they are used up."""
        logprobs = log_probabilities(logits, in_place=True)
        self.rules.apply(logprobs, self.trail, self.sources.repeat(self.sums.shape[1]))
        self._found = found = best_candidates(logprobs, self.sums, 2 * self.size)
        ends = found.tokens == self.eos_id
        self._finish(found, ends)
        going = _going_on(found, ends, self.size)
        places = self._undecided(going)
        self.sources, self.sums = self.sources[places], going.sums[places]
        self.tokens, self.parents = going.tokens[places].reshape(-1), going.rows[places].reshape(-1)
        self.trail.append(self.parents, self.tokens, going.logprobs[places].reshape(-1))

    def _finish(self, found: Candidates, ends: NDArray[np.bool_]) -> None:
        """Offer the candidates that end with ``</s>`` among the first ``beam_size`` to their sentences."""
        places, ranks = (ends[:, : self.size] & np.isfinite(found.sums[:, : self.size])).nonzero()
        for place, rank in zip(places.tolist(), ranks.tolist(), strict=True):
            self._offer(self.sentences[self.sources[place]], found, place, rank, finished=True)

    def _offer(self, sentence: Sentence, found: Candidates, place: int, rank: int, *, finished: bool) -> None:
        last = int(found.tokens[place, rank]), float(found.logprobs[place, rank])
        row = int(found.rows[place, rank])
        sentence.offer(float(found.sums[place, rank]), row, self.trail.length, last, finished=finished)

    def _undecided(self, going: Candidates) -> list[int]:
        """The places of the sentences whose search goes on; the hypotheses of one at its limit end unfinished."""
        places, n, width = [], self.trail.length + 1, self.sums.shape[1]
        for place, (source, best) in enumerate(zip(self.sources.tolist(), going.sums[:, 0].tolist(), strict=True)):
            sentence = self.sentences[source]
            if best == NEVER and not sentence.best:
                for rank in np.isfinite(self.sums[place]).nonzero()[0].tolist():
                    sentence.offer(float(self.sums[place, rank]), place * width + rank, n - 1, None, finished=False)
            elif n == sentence.limit:
                for rank in np.isfinite(going.sums[place]).nonzero()[0].tolist():
                    self._offer(sentence, going, place, rank, finished=False)
            elif best != NEVER and not ((self.size == 1 and sentence.is_full) or sentence.is_decided(best, n)):
                places.append(place)
        return places

    def settled(self, source: int) -> list[int]:
        """The tokens that the best translation of a source begins with, whatever comes: what all that can win share."""
        best = [ended.tokens(self.trail) for ended in self.sentences[source].best[:1]]
        for place in (self.sources == source).nonzero()[0].tolist():
            width = self.sums.shape[1]
            rows = place * width + np.isfinite(self.sums[place]).nonzero()[0]
            best += self.trail.history(rows).tolist()
        return common_start(best)

    @property
    def results(self) -> list[list[Hypothesis]]:
        """What each source's search has found so far."""
        return [[ended.hypothesis(self.trail) for ended in sentence.best] for sentence in self.sentences]


def _going_on(found: Candidates, ends: NDArray[np.bool_], count: int) -> Candidates:
    """Each sentence's best ``count`` candidates that do not end with ``</s>``, columns of dead ones left out."""
    sums, rows, tokens, logprobs = found
    if bool(ends[:, :count].any()):
        rank = np.argsort(ends, axis=1, kind="stable")[:, :count]
        place = np.arange(len(rank))[:, None]
        sums = np.where(ends, NEVER, sums)[place, rank]
        rows, tokens, logprobs = rows[place, rank], tokens[place, rank], logprobs[place, rank]
    width = max(1, int(np.isfinite(sums[:, :count]).sum(1).max()))
    return Candidates(sums[:, :width], rows[:, :width], tokens[:, :width], logprobs[:, :width])


def common_start(rows: list[list[int]]) -> list[int]:
    """The longest start that all rows share."""
    shared: list[int] = []
    for tokens in zip(*rows, strict=False):
        if len(set(tokens)) > 1:
            break
        shared.append(tokens[0])
    return shared
