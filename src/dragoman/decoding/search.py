"""One way in to every search: what is asked decides which one runs.

Shapes: R rows (hypotheses being extended), V vocabulary, n tokens so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.beam import BeamSearch
from dragoman.decoding.constraints import Rules, check_request
from dragoman.decoding.greedy import GreedySearch
from dragoman.decoding.grid import GridSearch
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.phrases import Phrase
from dragoman.decoding.sampling import Sampling
from dragoman.decoding.step import Step
from dragoman.decoding.trail import Ids
from dragoman.errors import ConfigError


class Search(Protocol):
    """A search in progress."""

    tokens: Ids  # [R] the last token of each row that goes on
    parents: Ids  # [R] the row of the last step that each goes on from

    @property
    def is_open(self) -> bool:
        """Whether there is anything to extend."""

    def advance(self, logits: Tensor) -> None:
        """Extend every row by one token, ``logits`` [R,V] being the step's."""

    def settled(self, source: int) -> list[int]:
        """The tokens that the best translation of a source is sure to begin with."""

    @property
    def results(self) -> list[list[Hypothesis]]:
        """The translations of each source, best first."""


def make_search(
    n_sources: int,
    config: DecodeConfig,
    *,
    eos_id: int,
    limits: Sequence[int],
    minimums: Sequence[int] | None = None,
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Sequence[int]] | None = None,
    phrases: Sequence[Sequence[Phrase]] | None = None,
    line_numbers: Sequence[int] | None = None,
) -> Search:
    """The search that ``config`` and the phrases ask for: beam (or greedy, for a beam of one), drawing, or a grid.

    For each source: ``limits``, the most target tokens, ``</s>`` included; ``minimums``, those before ``</s>`` (None:
    ``min_length``); ``prefixes``, the ids that its translation has to begin with; ``phrases`` that have to stand in
    it; ``line_numbers``, which choose the draws of sampling (None: 0, 1, …). ``forbidden`` ids never come, save in
    ``prefixes``. Raises :class:`DataError` for limits or prefixes that cannot be met and :class:`ConfigError` for
    phrases in drawing.
    """
    prefixes = check_request(n_sources, limits, prefixes, eos_id)
    least = [config.min_length] * n_sources if minimums is None else minimums
    rules = Rules(config, eos_id=eos_id, minimums=least, forbidden=forbidden, prefixes=prefixes)
    if phrases is not None and any(phrases):
        if config.sample:
            raise ConfigError("phrases that must appear need a search, and sample draws at random; leave one out.")
        return GridSearch(config, rules, eos_id, limits, phrases)
    if config.sample:
        return Sampling(config, rules, eos_id, limits, range(n_sources) if line_numbers is None else line_numbers)
    return (GreedySearch if config.beam_size == 1 else BeamSearch)(config, rules, eos_id, limits)


def run(
    search: Search, step: Step, state: Any, n_sources: int, bos_id: int, device: torch.device | str | None = None
) -> Iterator[None]:
    """Take the search to its end; stops after each step. The tokens for ``step`` are made on ``device``, the model's.

    Raises :class:`RunError` for logits that are NaN, :class:`DataError` for a forced token outside the vocabulary.
    """
    tokens, parents = torch.full((n_sources,), bos_id, dtype=torch.int64, device=device), None
    while search.is_open:
        with torch.no_grad():
            search.advance(step(tokens, state, parents))
        yield
        tokens, parents = torch.from_numpy(search.tokens).to(device), torch.from_numpy(search.parents).to(device)


def search(
    step: Step,
    state: Any,
    n_sources: int,
    config: DecodeConfig,
    *,
    bos_id: int,
    device: torch.device | str | None = None,
    **request: Any,
) -> list[list[Hypothesis]]:
    """The translations of each source, best first: :func:`make_search` and :func:`run` in one."""
    found = make_search(n_sources, config, **request)
    for _ in run(found, step, state, n_sources, bos_id, device):
        pass
    return found.results
