"""Beam search for translations that hold given phrases (Post and Vilar 2018, with a place for every bank).

The hypotheses of a sentence stand in banks by how many tokens of its phrases they hold, so that those which have paid
for a phrase do not lose to those which have not. Shapes: N open sentences, W hypotheses of each, R = N·W rows of a
step, V vocabulary, n tokens so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.beam import common_start
from dragoman.decoding.constraints import Rules
from dragoman.decoding.ended import Sentence
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.phrases import Phrase, Tracker
from dragoman.decoding.step import NEVER, best_tokens, log_probabilities
from dragoman.decoding.trail import Trail


class _Open(NamedTuple):
    """A hypothesis that goes on, or may: the less, the better within its bank."""

    late: int  # 0: its phrases and </s> still fit within the limit, 1: the phrases alone do, 2: they do not
    cost: float  # minus its log-probability
    row: int  # of this step
    token: int
    logprob: float  # of the token
    state: int


class GridSearch:
    """The best translations of each source that hold its phrases, at most ``n_best``, best score first.

    A sentence keeps ``beam_size`` hypotheses, or one more than its phrases have tokens where that is more. They are
    shared out evenly over the banks; what a bank cannot fill goes to the best of the others. Within a bank, what can
    still meet all phrases within the limit comes first. So phrases that fit are met, whatever the beam, unless a
    rule forbids their tokens. Candidates are each hypothesis' best 2·``beam_size`` tokens, those that take a phrase
    further, and ``</s>``, which ends a hypothesis where it is among the first ``beam_size`` of its bank.

    What lacks phrases comes after all that lack fewer, and only where not enough others were found; of what lacks
    as many, the finished comes first. The search ends when ``n_best`` hold every phrase and no open hypothesis can
    still be among them, or at the limit.
    """

    def __init__(
        self,
        config: DecodeConfig,
        rules: Rules,
        eos_id: int,
        limits: Sequence[int],
        phrases: Sequence[Sequence[Phrase]],
    ) -> None:
        self.size = config.beam_size
        self.rules = rules
        self.eos_id = eos_id
        self.sentences = [Sentence(config, limit) for limit in limits]
        self.trackers = [Tracker(own) for own in phrases]
        self.trail = Trail(len(limits))
        self.sources = list(range(len(limits)))  # [N]
        self.open = [[_Open(0, 0.0, place, 0, 0.0, 0)] for place in self.sources]  # of each open sentence
        self.width = 1
        self.tokens = self.parents = np.empty(0, np.int64)

    @property
    def is_open(self) -> bool:
        """Whether any sentence still has hypotheses to extend."""
        return bool(self.sources)

    def advance(self, logits: Tensor) -> None:
        """Extend the open hypotheses by one token, ``logits`` [R,V] being the step's for their rows."""
        logprobs = log_probabilities(logits)
        self.rules.apply(logprobs, self.trail, np.repeat(np.array(self.sources, np.int64), self.width))
        values, tokens = (part.tolist() for part in best_tokens(logprobs, 2 * self.size))
        asked = self._asked(tokens)
        rows, wanted = torch.tensor(asked, dtype=torch.int64, device=logprobs.device).view(-1, 2).T
        found = logprobs[rows, wanted].cpu().double().tolist()
        pairs = [list(zip(*both, strict=True)) for both in zip(tokens, values, strict=True)]
        for (row, token), value in zip(asked, found, strict=True):
            pairs[row].append((token, value))
        going: list[list[_Open]] = []
        sources: list[int] = []
        for place, source in enumerate(self.sources):
            banks = self._banks(place, source, pairs)
            self._finish(source, banks)
            kept = self._kept(source, banks)
            if self._goes_on(place, source, kept):
                going.append(kept)
                sources.append(source)
        self._take(sources, going)

    def _asked(self, tokens: list[list[int]]) -> list[tuple[int, int]]:
        """The row and token of each candidate that is wanted though it is not among its row's best ``tokens``."""
        asked = []
        for place, source in enumerate(self.sources):
            for rank, one in enumerate(self.open[place]):
                row = place * self.width + rank
                own = set(tokens[row])
                wanted = (*self.trackers[source].wanted[one.state], self.eos_id)
                asked += [(row, token) for token in dict.fromkeys(wanted) if token not in own]
        return asked

    def _banks(self, place: int, source: int, pairs: list[list[tuple[int, float]]]) -> list[list[_Open]]:
        """The candidates of a sentence by the tokens of its phrases that they hold, each bank's best first."""
        tracker, limit, n = self.trackers[source], self.sentences[source].limit, self.trail.length + 1
        banks: list[list[_Open]] = [[] for _ in range(tracker.total + 1)]
        for rank, one in enumerate(self.open[place]):
            row = place * self.width + rank
            for token, value in pairs[row]:
                if value == NEVER:
                    continue
                ends = token == self.eos_id
                state = one.state if ends else tracker.after(one.state, token)
                needed = n + tracker.remaining[state]
                late = (needed + (not ends) > limit) + (needed > limit)
                banks[tracker.total - tracker.remaining[state]].append(
                    _Open(late, one.cost - value, row, token, value, state)
                )
        return [sorted(bank) for bank in banks]

    def _finish(self, source: int, banks: list[list[_Open]]) -> None:
        """Offer what ends with ``</s>`` among the first ``beam_size`` of its bank."""
        for one in (one for bank in banks for one in bank[: self.size] if one.token == self.eos_id):
            self._offer(source, one, finished=True)

    def _offer(self, source: int, one: _Open, *, finished: bool) -> None:
        self.sentences[source].offer(
            -one.cost,
            one.row,
            self.trail.length,
            (one.token, one.logprob),
            finished=finished,
            unmet=self.trackers[source].unmet(one.state),
        )

    def _kept(self, source: int, banks: list[list[_Open]]) -> list[_Open]:
        """The hypotheses that a sentence goes on with, best first."""
        width = max(self.size, self.trackers[source].total + 1)
        share = width // len(banks)
        kept: list[_Open] = []
        others: list[_Open] = []
        for place, bank in enumerate(banks):
            going = [one for one in bank if one.token != self.eos_id]
            room = share if place + 1 < len(banks) else width - share * place
            kept += going[:room]
            others += going[room:]
        kept += sorted(others)[: width - len(kept)]
        return sorted(kept, key=lambda one: (one.cost, one.row, one.token))

    def _goes_on(self, place: int, source: int, kept: list[_Open]) -> bool:
        """Whether a sentence's search goes on; at its limit, or with nothing to go on with, its hypotheses end."""
        sentence, n = self.sentences[source], self.trail.length + 1
        if not kept and not sentence.best:
            for rank, one in enumerate(self.open[place]):
                unmet = self.trackers[source].unmet(one.state)
                row = place * self.width + rank
                sentence.offer(-one.cost, row, n - 1, None, finished=False, unmet=unmet)
        elif n == sentence.limit:
            for one in kept:
                self._offer(source, one, finished=False)
        return bool(kept) and n < sentence.limit and not sentence.is_decided(-kept[0].cost, n)

    def _take(self, sources: list[int], going: list[list[_Open]]) -> None:
        """Go on with these. A sentence of fewer than W repeats its first, so that every sentence has W rows."""
        self.width = max(map(len, going), default=1)
        rows = [one for own in going for one in (*own, *own[:1] * (self.width - len(own)))]
        self.tokens = np.array([one.token for one in rows], np.int64)
        self.parents = np.array([one.row for one in rows], np.int64)
        self.trail.append(self.parents, self.tokens, np.array([one.logprob for one in rows]))
        self.sources, self.open = sources, going

    def settled(self, source: int) -> list[int]:
        """The tokens that the best translation of a source begins with, whatever comes: what all that can win share."""
        best = [ended.tokens(self.trail) for ended in self.sentences[source].best[:1]]
        return common_start(best + list(self._histories(source)))

    def _histories(self, source: int) -> Iterator[list[int]]:
        if source in self.sources:
            place = self.sources.index(source)
            rows = place * self.width + np.arange(len(self.open[place]))
            yield from self.trail.history(rows).tolist()

    @property
    def results(self) -> list[list[Hypothesis]]:
        """What each source's search has found so far."""
        return [[ended.hypothesis(self.trail) for ended in sentence.best] for sentence in self.sentences]
