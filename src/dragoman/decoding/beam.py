"""Beam search over a step function, batched over sentences. A beam of 1 is greedy search.

Shapes: N open sentences, K beam size, R = N·K rows, V vocabulary, n tokens so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.hypothesis import Hypothesis, best_reachable, length_norm
from dragoman.decoding.rules import Rules, check_prefixes, log_probabilities


class Step(Protocol):
    """One decoding step: tokens [R] -> logits [R,V]; row i goes on from row ``parents[i]`` of the last step."""

    def __call__(self, tokens: Tensor, state: Any, parents: Tensor | None = None) -> Tensor:
        """Logits for the token after ``tokens``."""


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
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The ``n_best`` best translations of each source, best first.

    A step considers the best 2·K candidates of a sentence; ``</s>`` finishes a hypothesis only among the first
    K of them. A sentence ends when no open hypothesis can still win, or at its limit (target tokens after
    ``<s>``, ``</s>`` included), where open hypotheses compete unfinished. ``forbidden`` ids are never produced.
    Raises :class:`DataError` for a prefix that cannot be forced and for logits that are not numbers.
    """
    prefixes = [[] for _ in range(n_sources)] if prefixes is None else prefixes
    check_prefixes(prefixes, limits, eos_id)
    search = _Search(config, eos_id, limits, Rules(config, eos_id, forbidden, prefixes), device)
    tokens = torch.full((n_sources,), bos_id, device=device)
    parents: Tensor | None = None
    while search.open:
        logits = step(tokens, state, parents)
        tokens, parents = search.advance(logits)
    return [search.results(source) for source in range(n_sources)]


class _Search:
    """The open hypotheses of all sentences as tensors, and the hypotheses that ended."""

    def __init__(
        self, config: DecodeConfig, eos_id: int, limits: Sequence[int], rules: Rules, device: torch.device | None
    ) -> None:
        self.config = config
        self.eos_id = eos_id
        self.limits = limits
        self.rules = rules
        self.open = list(range(len(limits)))
        self.done: list[list[Hypothesis]] = [[] for _ in limits]
        # Before the first step each sentence has one row; afterwards `width` rows, some perhaps dead (-inf).
        self.width = 1
        self.history = torch.empty(len(limits), 0, dtype=torch.int64, device=device)
        self.token_logprobs = torch.empty(len(limits), 0, device=device)
        self.sums = torch.zeros(len(limits), 1, device=device)

    def advance(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Take the best candidates of a step; the next step's tokens [R] and their parent rows [R] come back."""
        scores = log_probabilities(logits)
        rows = [source for source in self.open for _ in range(self.width)]
        allowed = self.rules.apply(scores, self.history, rows)
        size, beam = allowed.shape[-1], self.config.beam_size
        totals = (self.sums.to(scores.dtype).view(-1, 1) + allowed).view(len(self.open), self.width * size)
        count = min(2 * beam, totals.shape[1])
        best, flat = totals.topk(count, dim=1)
        origin = (
            flat.div(size, rounding_mode="floor")
            + self.width * torch.arange(len(self.open), device=flat.device)[:, None]
        )
        token = flat % size
        ends = (token == self.eos_id) & best.isfinite()
        length = self.history.shape[1] + 1
        self._finish(best, origin, token, ends[:, :beam], scores, length)
        return self._go_on(best, origin, token, ends, scores, length)

    def _finish(self, best: Tensor, origin: Tensor, token: Tensor, ends: Tensor, scores: Tensor, length: int) -> None:
        """Keep the candidates that end with ``</s>`` among the first ``beam_size``."""
        for sentence, rank in ends.nonzero().tolist():
            row = int(origin[sentence, rank])
            self._keep(sentence, row, self.eos_id, best[sentence, rank].item(), scores[row, self.eos_id].item(), True)

    def _keep(self, sentence: int, row: int, token: int, total: float, last: float, finished: bool) -> None:
        tokens = [*self.history[row].tolist(), token]
        logprobs = [*self.token_logprobs[row].tolist(), last]
        score = total / length_norm(self.config, len(tokens))
        self.done[self.open[sentence]].append(Hypothesis(tokens, total, score, logprobs, finished))

    def _go_on(
        self, best: Tensor, origin: Tensor, token: Tensor, ends: Tensor, scores: Tensor, length: int
    ) -> tuple[Tensor, Tensor]:
        """The best ``beam_size`` candidates without ``</s>`` become the open hypotheses; decided sentences leave."""
        live = best.masked_fill(token == self.eos_id, float("-inf"))
        sums, rank = live.topk(min(self.config.beam_size, live.shape[1]), dim=1)
        origin, token = origin.gather(1, rank), token.gather(1, rank)
        for sentence, source in enumerate(self.open):
            if length == self.limits[source]:
                for place in sums[sentence].isfinite().nonzero().flatten().tolist():
                    row, last = int(origin[sentence, place]), int(token[sentence, place])
                    self._keep(sentence, row, last, sums[sentence, place].item(), scores[row, last].item(), False)
        still = [
            place for place, best_sum in enumerate(sums[:, 0].tolist()) if not self._decided(place, best_sum, length)
        ]
        kept = torch.tensor(still, dtype=torch.int64, device=sums.device)
        sums, origin, token = sums[kept], origin[kept].flatten(), token[kept].flatten()
        last_logprobs = scores[origin, token].to(self.token_logprobs.dtype if length > 1 else scores.dtype)
        self.history = torch.cat([self.history[origin], token[:, None]], dim=1)
        self.token_logprobs = torch.cat([self.token_logprobs[origin].to(scores.dtype), last_logprobs[:, None]], dim=1)
        self.sums = sums
        self.width = sums.shape[1]
        self.open = [self.open[place] for place in still]
        return token, origin

    def _decided(self, place: int, best_sum: float, length: int) -> bool:
        """Whether no open hypothesis of a sentence can still enter its ``n_best``."""
        source = self.open[place]
        if length >= self.limits[source] or best_sum == float("-inf"):
            return True
        finished = self.done[source]
        if len(finished) < self.config.n_best:
            return False
        bar = sorted((hypothesis.score for hypothesis in finished), reverse=True)[self.config.n_best - 1]
        return bar >= best_reachable(self.config, best_sum, length, self.limits[source])

    def results(self, source: int) -> list[Hypothesis]:
        """The best of a sentence's ended hypotheses."""
        return sorted(self.done[source], key=lambda hypothesis: -hypothesis.score)[: self.config.n_best]
