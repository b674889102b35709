"""What has ended of a sentence's search: the best hypotheses, kept as places in the trail until they are wanted."""

from __future__ import annotations

from bisect import insort_right
from dataclasses import dataclass

from dragoman.config import DecodeConfig
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length import best_reachable, length_norm
from dragoman.decoding.trail import Trail


@dataclass(frozen=True)
class Ended:
    """A hypothesis that ended: the row ``row`` of step ``n`` and, where one came after that, a last token."""

    score: float
    logprob: float
    row: int
    n: int
    last: tuple[int, float] | None
    finished: bool
    unmet: tuple[int, ...] = ()

    @property
    def rank(self) -> tuple[int, bool, float]:
        """The less the better: what lacks the fewest phrases, of what lacks some what is finished, the best score."""
        return len(self.unmet), bool(self.unmet) and not self.finished, -self.score

    def tokens(self, trail: Trail) -> list[int]:
        """Its target ids."""
        return trail.back(self.row, self.n)[0] + ([] if self.last is None else [self.last[0]])

    def hypothesis(self, trail: Trail) -> Hypothesis:
        """The whole of it."""
        tokens, logprobs = trail.back(self.row, self.n)
        if self.last is not None:
            tokens.append(self.last[0])
            logprobs.append(self.last[1])
        return Hypothesis(tokens, self.logprob, self.score, logprobs, self.finished, list(self.unmet))


class Sentence:
    """The best ``n_best`` that ended of one sentence's search, best first."""

    def __init__(self, config: DecodeConfig, limit: int) -> None:
        self.config = config
        self.limit = limit
        self.best: list[Ended] = []
        self.finished = 0

    def offer(
        self,
        logprob: float,
        row: int,
        n: int,
        last: tuple[int, float] | None,
        *,
        finished: bool,
        unmet: tuple[int, ...] = (),
    ) -> None:
        """Keep what ended if it is among the best; of equal ones the earlier stays in front."""
        self.finished += finished
        score = logprob / length_norm(self.config, n + (last is not None))
        ended = Ended(score, logprob, row, n, last, finished, unmet)
        if self.is_full and ended.rank >= self.best[-1].rank:
            return
        insort_right(self.best, ended, key=lambda other: other.rank)
        del self.best[self.config.n_best :]

    def is_decided(self, logprob: float, n: int) -> bool:
        """Whether the search is over: nothing open can still be among the best, or ``stop_after`` have finished.

        The open hypotheses have ``n`` tokens, the best of them ``logprob``.
        """
        if not self.is_full or self.best[-1].unmet:
            return False
        if 0 < self.config.stop_after <= self.finished:
            return True
        return self.best[-1].score >= best_reachable(self.config, logprob, n, self.limit)

    @property
    def is_full(self) -> bool:
        """Whether ``n_best`` have ended."""
        return len(self.best) == self.config.n_best
