"""Greedy search: a beam of one, which needs no more than the best token of each row.

Shapes: N open sentences, a row of each; V vocabulary, n tokens so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.beam import BeamSearch
from dragoman.decoding.candidates import Candidates, best_candidates
from dragoman.decoding.constraints import Rules
from dragoman.decoding.step import NEVER, best_token, damaged, unchecked_log_probabilities


class GreedySearch(BeamSearch):
    """What :class:`BeamSearch` finds with ``beam_size`` 1, with less work a step."""

    def __init__(self, config: DecodeConfig, rules: Rules, eos_id: int, limits: Sequence[int]) -> None:
        super().__init__(config, rules, eos_id, limits)
        self._seen: tuple[Tensor, NDArray[np.float64]] | None = None  # log-probabilities of the last step, sums before

    @property
    def found(self) -> Candidates:
        """The best two candidates that the last step looked at; worked out when they are asked for."""
        return self._found if self._seen is None else best_candidates(*self._seen, 2)

    def advance(self, logits: Tensor) -> None:
        """Extend the open hypotheses by one token, ``logits`` [N,V] being the step's for their rows."""
        logprobs = unchecked_log_probabilities(logits)
        self.rules.apply(logprobs, self.trail, self.sources)
        self._seen = logprobs, self.sums
        values, tokens = best_token(logprobs)
        sums = self.sums[:, 0] + values
        n = self.trail.length + 1
        going = []
        for place, (source, token, total) in enumerate(
            zip(self.sources.tolist(), tokens.tolist(), sums.tolist(), strict=True)
        ):
            sentence, finished = self.sentences[source], token == self.eos_id
            if math.isnan(total):
                raise damaged()
            if total == NEVER:
                sentence.offer(float(self.sums[place, 0]), place, n - 1, None, finished=False)
            elif finished or n == sentence.limit:
                sentence.offer(total, place, n - 1, (token, float(values[place])), finished=finished)
            else:
                going.append(place)
        parents = np.array(going, np.int64)
        self.sources, self.sums = self.sources[parents], sums[parents, None]
        self.parents, self.tokens = parents, tokens[parents]
        self.trail.append(parents, self.tokens, values[parents])
