"""What may come next: rules that take tokens away before a search looks at the candidates.

A rule sets the log-probabilities of what it forbids to -inf and leaves the others as they are. (Phrases that have to
come are no rule: :mod:`dragoman.decoding.grid` searches for them.)
Shapes: R rows (hypotheses), V vocabulary, n tokens so far, S sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.step import NEVER
from dragoman.decoding.trail import Ids, Trail
from dragoman.errors import DataError


class Rule(Protocol):
    """Something that forbids tokens by what a row holds so far."""

    def __call__(self, logprobs: Tensor, trail: Trail, sources: Ids) -> None:
        """Set entries of ``logprobs`` [R,V] to -inf in place, for the rows of ``trail``, of ``sources`` [R]."""


class ForbiddenTokens:
    """Some ids never come."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = torch.tensor(sorted(set(ids)), dtype=torch.int64)

    def __call__(self, logprobs: Tensor, trail: Trail, sources: Ids) -> None:
        """See :class:`Rule`."""
        logprobs.index_fill_(1, self.ids.to(logprobs.device), NEVER)


class MinLength:
    """``</s>`` comes only after so many other target tokens of each source, those of a forced prefix included."""

    def __init__(self, minimums: Sequence[int], eos_id: int) -> None:
        self.minimums = torch.tensor(minimums, dtype=torch.int64)
        self.least, self.most = min(minimums, default=0), max(minimums, default=0)
        self.eos_id = eos_id

    def __call__(self, logprobs: Tensor, trail: Trail, sources: Ids) -> None:
        """See :class:`Rule`."""
        if trail.length < self.least:
            logprobs[:, self.eos_id] = NEVER
        elif trail.length < self.most:
            early = self.minimums[torch.from_numpy(sources)] > trail.length
            logprobs[:, self.eos_id].masked_fill_(early.to(logprobs.device), NEVER)


class NoRepeatNgram:
    """No n-gram of ``size`` tokens comes twice in a row's tokens."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, logprobs: Tensor, trail: Trail, sources: Ids) -> None:
        """See :class:`Rule`."""
        n = trail.length
        if n < self.size:
            return
        history = torch.from_numpy(trail.history())
        ngrams = history.unfold(1, self.size, 1)  # [R, n - size + 1, size]
        last = history[:, n - self.size + 1 :]
        row, place = (ngrams[:, :, :-1] == last[:, None]).all(-1).nonzero(as_tuple=True)
        token = ngrams[row, place, -1]
        logprobs[row.to(logprobs.device), token.to(logprobs.device)] = NEVER


class ForcedPrefixes:
    """The tokens that each source's translation has to begin with."""

    def __init__(self, prefixes: Sequence[Sequence[int]]) -> None:
        self.length = max((len(prefix) for prefix in prefixes), default=0)
        self.table = torch.full((len(prefixes), self.length), -1, dtype=torch.int64)  # [S, longest], -1: free
        for source, prefix in enumerate(prefixes):
            self.table[source, : len(prefix)] = torch.tensor(prefix, dtype=torch.int64)

    def forced(self, sources: Ids, n: int, vocabulary: int) -> tuple[Tensor, Tensor]:
        """The rows, of hypotheses for ``sources`` [R] after ``n`` tokens, whose next token is forced, and that token.

        Raises :class:`DataError` where the token lies outside the vocabulary.
        """
        token = self.table[torch.from_numpy(sources), n]
        rows = (token >= 0).nonzero().flatten()
        token = token[rows]
        if token.numel() and int(token.max()) >= vocabulary:
            raise DataError(
                f"a forced target prefix holds the id {int(token.max())}, and the target vocabulary has {vocabulary} "
                "tokens; encode the prefix with the model's own tokenizer."
            )
        return rows, token


class Rules:
    """Every rule of one search. A forced token is never taken away: while a prefix lasts, it alone may come."""

    def __init__(
        self,
        config: DecodeConfig,
        *,
        eos_id: int,
        minimums: Sequence[int],
        forbidden: Sequence[int] = (),
        prefixes: Sequence[Sequence[int]] = (),
    ) -> None:
        self.bans: list[Rule] = []
        if forbidden:
            self.bans.append(ForbiddenTokens(forbidden))
        if any(minimums):
            self.bans.append(MinLength(minimums, eos_id))
        if config.no_repeat_ngram:
            self.bans.append(NoRepeatNgram(config.no_repeat_ngram))
        self.prefixes = ForcedPrefixes(prefixes)

    def apply(self, logprobs: Tensor, trail: Trail, sources: Ids) -> None:
        """Set what may not come in ``logprobs`` [R,V] to -inf, for the rows of ``trail``, of ``sources`` [R].

        Raises :class:`DataError` for a forced token outside the vocabulary.
        """
        if trail.length >= self.prefixes.length:
            self._ban(logprobs, trail, sources)
            return
        rows, token = self.prefixes.forced(sources, trail.length, logprobs.shape[1])
        rows, token = rows.to(logprobs.device), token.to(logprobs.device)
        forced = logprobs[rows, token]
        self._ban(logprobs, trail, sources)
        logprobs[rows] = NEVER
        logprobs[rows, token] = forced

    def _ban(self, logprobs: Tensor, trail: Trail, sources: Ids) -> None:
        for rule in self.bans:
            rule(logprobs, trail, sources)


def check_request(
    n_sources: int, limits: Sequence[int], prefixes: Sequence[Sequence[int]] | None, eos_id: int
) -> Sequence[Sequence[int]]:
    """The prefixes, one for each source (None: empty ones), checked against the limits.

    Raises :class:`DataError` for a limit below 1, for a prefix that is longer than its limit, that holds ``</s>`` or
    a negative id, and where there is not one limit and one prefix for each source.
    """
    prefixes = [()] * n_sources if prefixes is None else prefixes
    for name, given in (("limits", limits), ("prefixes", prefixes)):
        if len(given) != n_sources:
            raise DataError(f"a search over {n_sources} sources was given {len(given)} {name}; give one for each.")
    for source, (prefix, limit) in enumerate(zip(prefixes, limits, strict=True), start=1):
        if limit < 1:
            raise DataError(f"source {source} may have {limit} target tokens, and one is the least; raise max_length.")
        if len(prefix) > limit:
            raise DataError(
                f"the forced target prefix of source {source} has {len(prefix)} tokens, and its translation at most "
                f"{limit}; raise max_length or shorten the prefix."
            )
        if eos_id in prefix:
            raise DataError(f"the forced target prefix of source {source} holds the end token {eos_id}; leave it out.")
        if min(prefix, default=0) < 0:
            raise DataError(f"the forced target prefix of source {source} holds the id {min(prefix)}, below 0.")
    return prefixes
