"""Beam search over a step function, batched over sources. A beam of one is greedy search.

The logits stay on the model's device; the books (sums, tokens, parents) are small and kept on the CPU, the sums in
float64. Shapes: N open sentences, W hypotheses of each, R = N·W rows of a step, V vocabulary, n tokens so far.
"""

from __future__ import annotations

from bisect import insort_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.constraints import Rules, check_request
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length import best_reachable, length_norm
from dragoman.decoding.step import NEVER, Step, best_tokens, log_probabilities


@torch.no_grad()
def beam_search(
    step: Step,
    state: Any,
    n_sources: int,
    config: DecodeConfig,
    *,
    bos_id: int,
    eos_id: int,
    limits: Sequence[int],
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Sequence[int]] | None = None,
    device: torch.device | str | None = None,
) -> list[list[Hypothesis]]:
    """The best translations of each source, at most ``n_best``, best score first, all different.

    A step takes the best 2·``beam_size`` candidates of a sentence. ``</s>`` finishes a hypothesis only where it is
    among the first ``beam_size`` of them; the best ``beam_size`` others go on. A sentence's search ends when no
    open hypothesis can still be among its ``n_best``, with ``beam_size`` 1 (greedy) at its first ``</s>``, and in
    any case after ``limits[i]`` target tokens (``</s>`` counts), where the open hypotheses compete unfinished. Of
    equal candidates the earlier hypothesis and the lower id win. Where the rules leave a sentence nothing to go on
    with and nothing has finished, its hypotheses end as they are, unfinished.

    ``forbidden`` ids never come, save in ``prefixes`` (ids that the translation of each source has to begin with).
    The tokens for ``step`` are made on ``device``, the model's.
    Raises :class:`DataError` for limits or prefixes that cannot be met, :class:`RunError` for logits that are NaN.
    """
    prefixes = check_request(n_sources, limits, prefixes, eos_id)
    rules = Rules(config, eos_id=eos_id, forbidden=forbidden, prefixes=prefixes)
    search = BeamSearch(config, rules, eos_id, limits)
    tokens, parents = torch.full((n_sources,), bos_id, dtype=torch.int64, device=device), None
    while search.is_open:
        search.advance(step(tokens, state, parents))
        tokens, parents = search.beams.last.to(device), search.beams.parents.to(device)
    return [sentence.best for sentence in search.sentences]


class BeamSearch:
    """The state of one search: the hypotheses that are open, and for each sentence the best of those that ended."""

    def __init__(self, config: DecodeConfig, rules: Rules, eos_id: int, limits: Sequence[int]) -> None:
        self.size = config.beam_size
        self.rules = rules
        self.eos_id = eos_id
        self.sentences = [Sentence(config, limit) for limit in limits]
        self.beams = Beams.start(len(limits))

    @property
    def is_open(self) -> bool:
        """Whether any sentence still has hypotheses to extend."""
        return len(self.beams.sources) > 0

    def advance(self, logits: Tensor) -> None:
        """Extend the open hypotheses by one token, ``logits`` [R,V] being the step's for their rows."""
        before = self.beams
        logprobs = log_probabilities(logits)
        self.rules.apply(logprobs, before.history, before.row_sources)
        candidates = before.extended(logprobs, 2 * self.size)
        self._finish(candidates)
        going = candidates.going_on(self.eos_id, self.size)
        self.beams = going.of_sentences(self._undecided(going, before))

    def _finish(self, candidates: Beams) -> None:
        """Offer the candidates that end with ``</s>`` among the first ``beam_size`` to their sentences."""
        first = slice(0, self.size)
        ends = (candidates.tokens[:, first, -1] == self.eos_id) & candidates.sums[:, first].isfinite()
        for place, rank in ends.nonzero().tolist():
            self.sentences[int(candidates.sources[place])].offer(candidates, place, rank, finished=True)

    def _undecided(self, going: Beams, before: Beams) -> list[int]:
        """The places of the sentences whose search goes on; the hypotheses of one at its limit end unfinished."""
        places = []
        for place, (source, best) in enumerate(zip(going.sources.tolist(), going.sums[:, 0].tolist(), strict=True)):
            sentence = self.sentences[source]
            if best == NEVER and not sentence.best:
                sentence.offer_all(before, place)
            elif going.n == sentence.limit:
                sentence.offer_all(going, place)
            elif best != NEVER and not sentence.is_decided(best, going.n):
                places.append(place)
        return places


@dataclass(frozen=True)
class Beams:
    """The hypotheses of the open sentences, each sentence's best first.

    Where a sentence has fewer than W, the rest is dead: a sum of -inf over tokens without meaning.
    """

    sources: Tensor  # [N] which source each sentence is
    sums: Tensor  # [N,W] log-probabilities, float64
    tokens: Tensor  # [N,W,n]
    logprobs: Tensor  # [N,W,n] of each token, float64
    rows: Tensor  # [N,W] the rows of the last step that they go on from

    @classmethod
    def start(cls, n_sources: int) -> Beams:
        """One empty hypothesis for each source."""
        empty = torch.empty(n_sources, 1, 0)
        sources = torch.arange(n_sources)
        return cls(sources, torch.zeros(n_sources, 1).double(), empty.long(), empty.double(), sources[:, None])

    @property
    def n(self) -> int:
        """Tokens so far."""
        return self.tokens.shape[2]

    @property
    def last(self) -> Tensor:
        """The last token of each hypothesis, [R]."""
        return self.tokens[:, :, -1].flatten()

    @property
    def parents(self) -> Tensor:
        """The row of the last step that each hypothesis goes on from, [R]."""
        return self.rows.flatten()

    @property
    def history(self) -> Tensor:
        """The tokens of each row, [R,n]."""
        return self.tokens.flatten(0, 1)

    @property
    def row_sources(self) -> Tensor:
        """The source of each row, [R]."""
        return self.sources.repeat_interleave(self.sums.shape[1])

    def extended(self, logprobs: Tensor, count: int) -> Beams:
        """Each sentence's best ``count`` continuations by one token, given those of its rows, ``logprobs`` [R,V]."""
        sentences, width = self.sums.shape
        values, tokens = best_tokens(logprobs, count)
        sums = (self.sums.reshape(-1, 1) + values).view(sentences, -1)
        # The order of the candidates is that of (hypothesis, value, id), and the sort is stable.
        sums, order = sums.sort(dim=1, descending=True, stable=True)
        sums, order = sums[:, :count], order[:, :count]
        rows = order // values.shape[1] + width * torch.arange(sentences)[:, None]
        token, value = (part.reshape(sentences, -1).gather(1, order)[:, :, None] for part in (tokens, values))
        return Beams(
            self.sources,
            sums,
            torch.cat([self.tokens.flatten(0, 1)[rows], token], dim=2),
            torch.cat([self.logprobs.flatten(0, 1)[rows], value], dim=2),
            rows,
        )

    def going_on(self, eos_id: int, count: int) -> Beams:
        """Each sentence's best ``count`` hypotheses that do not end with ``</s>``, columns of dead ones left out."""
        sums = self.sums.masked_fill(self.tokens[:, :, -1] == eos_id, NEVER)
        sums, rank = sums.sort(dim=1, descending=True, stable=True)
        width = max(1, min(count, int(sums.isfinite().sum(1).max())))
        sums, rank = sums[:, :width], rank[:, :width]
        place = torch.arange(len(rank))[:, None]
        return Beams(self.sources, sums, self.tokens[place, rank], self.logprobs[place, rank], self.rows[place, rank])

    def of_sentences(self, places: list[int]) -> Beams:
        """The hypotheses of the sentences at ``places``."""
        if len(places) == len(self.sources):
            return self
        kept = torch.tensor(places, dtype=torch.int64)
        return Beams(self.sources[kept], self.sums[kept], self.tokens[kept], self.logprobs[kept], self.rows[kept])


class Sentence:
    """What has ended of one sentence's search: the best ``n_best`` hypotheses, best first."""

    def __init__(self, config: DecodeConfig, limit: int) -> None:
        self.config = config
        self.limit = limit
        self.best: list[Hypothesis] = []

    def offer(self, beams: Beams, place: int, rank: int, *, finished: bool) -> None:
        """Keep a hypothesis that ended if it is among the best; of equal scores the earlier stays in front."""
        logprob = beams.sums[place, rank].item()
        score = logprob / length_norm(self.config, beams.n)
        if self._is_full and score <= self.best[-1].score:
            return
        tokens, logprobs = beams.tokens[place, rank].tolist(), beams.logprobs[place, rank].tolist()
        hypothesis = Hypothesis(tokens, logprob, score, logprobs, finished)
        insort_right(self.best, hypothesis, key=lambda other: -other.score)
        del self.best[self.config.n_best :]

    def offer_all(self, beams: Beams, place: int) -> None:
        """Offer the sentence's hypotheses as they are, unfinished."""
        for rank in beams.sums[place].isfinite().nonzero().flatten().tolist():
            self.offer(beams, place, rank, finished=False)

    def is_decided(self, logprob: float, n: int) -> bool:
        """Whether an open hypothesis of ``n`` tokens, the best having ``logprob``, can no longer be among the best."""
        if not self._is_full:
            return False
        return self.config.beam_size == 1 or self.best[-1].score >= best_reachable(self.config, logprob, n, self.limit)

    @property
    def _is_full(self) -> bool:
        return len(self.best) == self.config.n_best
