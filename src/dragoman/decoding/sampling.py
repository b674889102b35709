"""Translations drawn at random. Line k draws from (seed, k), whatever its neighbours in the batch.

Shapes: R rows (translations being drawn), V vocabulary, C candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.constraints import Rules, check_request
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.step import NEVER, Step, best_tokens, log_probabilities


@torch.no_grad()
def sample(
    step: Step,
    state: Any,
    n_sources: int,
    config: DecodeConfig,
    *,
    bos_id: int,
    eos_id: int,
    limits: Sequence[int],
    line_numbers: Sequence[int],
    forbidden: Sequence[int] = (),
    prefixes: Sequence[Sequence[int]] | None = None,
    device: torch.device | str | None = None,
) -> list[list[Hypothesis]]:
    """``n_best`` independent draws for each source, best score first; two may be alike.

    A token is drawn from softmax(log-probability / ``temperature``) over what the rules allow, cut to the ``top_k``
    likeliest (Fan et al. 2018) and then to the fewest of these that together reach ``top_p`` (Holtzman et al. 2020).
    Draw j of source i depends on ``seed``, ``line_numbers[i]`` (from 0) and j, and on no other source. The
    log-probabilities reported are the model's own. A draw ends unfinished at its limit, or where the rules leave it
    no token. The other parameters and the errors are those of :func:`dragoman.decoding.beam.beam_search`.
    """
    prefixes = check_request(n_sources, limits, prefixes, eos_id)
    rules = Rules(config, eos_id=eos_id, forbidden=forbidden, prefixes=prefixes)
    draws = [
        [_Draw(source, limit, _generator(config.seed, line, copy)) for copy in range(config.n_best)]
        for source, (limit, line) in enumerate(zip(limits, line_numbers, strict=True))
    ]
    going = [draw for copies in draws for draw in copies]
    tokens, parents = torch.full((n_sources,), bos_id, dtype=torch.int64, device=device), None
    while going:
        logits = step(tokens, state, parents)
        rows = torch.tensor([draw.row for draw in going])
        values, drawn = _draw(log_probabilities(logits)[rows.to(logits.device)], rules, config, going)
        for draw, token, value in zip(going, drawn.tolist(), values.tolist(), strict=True):
            draw.append(token, value, eos_id)
        going = [draw for draw in going if not draw.ended]
        tokens = torch.tensor([draw.tokens[-1] for draw in going], dtype=torch.int64, device=device)
        parents = torch.tensor([draw.row for draw in going], dtype=torch.int64, device=device)
        for row, draw in enumerate(going):
            draw.row = row
    results = [[Hypothesis.of(draw.tokens, draw.logprobs, config, eos_id) for draw in copies] for copies in draws]
    return [sorted(copies, key=lambda hypothesis: -hypothesis.score) for copies in results]


class _Draw:
    """One translation being drawn; ``row`` is its row in the last step, in the first step its source."""

    def __init__(self, source: int, limit: int, generator: np.random.Generator) -> None:
        self.source = self.row = source
        self.limit = limit
        self.generator = generator
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.ended = False

    def append(self, token: int, logprob: float, eos_id: int) -> None:
        """Take the token drawn; -inf says that the rules left none."""
        if logprob == NEVER:
            self.ended = True
            return
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.ended = token == eos_id or len(self.tokens) == self.limit


def _generator(seed: int, line: int, copy: int) -> np.random.Generator:
    """The source of randomness of one draw; a negative seed is one of its own."""
    return np.random.default_rng(np.random.SeedSequence(entropy=seed % 2**64, spawn_key=(line, copy)))


def _draw(logprobs: Tensor, rules: Rules, config: DecodeConfig, draws: list[_Draw]) -> tuple[Tensor, Tensor]:
    """One token for each row of ``logprobs`` [R,V]: its log-probability (-inf where none is allowed) and its id, [R].

    ``logprobs`` is changed in place.
    """
    history = torch.tensor([draw.tokens for draw in draws], dtype=torch.int64).view(len(draws), -1)
    rules.apply(logprobs, history, torch.tensor([draw.source for draw in draws]))
    values, tokens = best_tokens(logprobs, config.top_k or logprobs.shape[1])
    points = torch.tensor([draw.generator.random() for draw in draws], dtype=torch.float64)
    rank = drawn_ranks(values, points, config.temperature, config.top_p)[:, None]
    return values.gather(1, rank)[:, 0], tokens.gather(1, rank)[:, 0]


def drawn_ranks(values: Tensor, points: Tensor, temperature: float, top_p: float) -> Tensor:
    """The rank [R] that each row's point in [0,1) falls on, in the distribution of ``values`` [R,C], best first.

    The values are log-probabilities up to a constant, in float64. A row of -inf gives rank 0.
    """
    probabilities = torch.softmax((values - values[:, :1]) / temperature, dim=1).nan_to_num(0.0)
    before = probabilities.cumsum(1).roll(1, dims=1)
    before[:, 0] = 0.0
    probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    cumulative = probabilities.cumsum(1)
    rank = torch.searchsorted(cumulative, points[:, None] * cumulative[:, -1:], right=True)
    # Rounding may carry a point past the end.
    last = (probabilities > 0).sum(1, keepdim=True) - 1
    return torch.minimum(rank, last).clamp(min=0)[:, 0]
