"""Translations drawn at random. Line k draws from (seed, k), whatever its neighbours in the batch.

Shapes: R rows (translations being drawn), V vocabulary, C candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.constraints import Rules
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.step import NEVER, best_tokens, log_probabilities
from dragoman.decoding.trail import Ids, Trail


class Sampling:
    """``n_best`` independent draws for each source, best score first; two may be alike.

    A token is drawn from softmax(log-probability / ``temperature``) over what the rules allow, cut to the ``top_k``
    likeliest (Fan et al. 2018) and then to the fewest of these that together reach ``top_p`` (Holtzman et al. 2020).
    Draw j of source i depends on ``seed``, ``line_numbers[i]`` (from 0) and j, and on no other source. The
    log-probabilities reported are the model's own. A draw ends unfinished at its limit, or where the rules leave it
    no token.
    """

    def __init__(
        self, config: DecodeConfig, rules: Rules, eos_id: int, limits: Sequence[int], line_numbers: Sequence[int]
    ) -> None:
        self.config = config
        self.rules = rules
        self.eos_id = eos_id
        self.draws = [
            [_Draw(source, limit, _generator(config.seed, line, copy)) for copy in range(config.n_best)]
            for source, (limit, line) in enumerate(zip(limits, line_numbers, strict=True))
        ]
        self.going = [draw for copies in self.draws for draw in copies]
        self.trail = Trail(len(self.going))
        self.tokens = np.empty(0, np.int64)
        # The first step has a row per source, which the draws of that source share.
        self.parents: Ids = np.array([draw.source for draw in self.going], np.int64)

    @property
    def is_open(self) -> bool:
        """Whether any draw goes on."""
        return bool(self.going)

    def advance(self, logits: Tensor) -> None:
        """Draw a token for each draw that goes on, ``logits`` [R,V] being the step's."""
        logprobs = log_probabilities(logits)
        rows = np.arange(len(self.going))
        if self.trail.length == 0:
            rows = self.parents
            logprobs = logprobs[torch.from_numpy(rows).to(logprobs.device)]
        values, tokens = self._draw(logprobs)
        for draw, token, value in zip(self.going, tokens.tolist(), values.tolist(), strict=True):
            draw.append(token, value, self.eos_id)
        kept = np.array([place for place, draw in enumerate(self.going) if not draw.ended], np.int64)
        self.going = [self.going[place] for place in kept]
        self.tokens, self.parents = tokens.numpy()[kept], rows[kept]
        self.trail.append(kept, self.tokens, values.numpy()[kept])

    def _draw(self, logprobs: Tensor) -> tuple[Tensor, Tensor]:
        """One token for each row of ``logprobs`` [R,V]: its log-probability (-inf: none is allowed) and its id, [R].

        ``logprobs`` is changed in place.
        """
        self.rules.apply(logprobs, self.trail, np.array([draw.source for draw in self.going], np.int64))
        values, tokens = best_tokens(logprobs, self.config.top_k or logprobs.shape[1])
        waits = np.stack([draw.generator.standard_exponential(logprobs.shape[1]) for draw in self.going])
        own = torch.from_numpy(waits).gather(1, tokens)
        rank = drawn_ranks(values, own, self.config.temperature, self.config.top_p)[:, None]
        return values.gather(1, rank)[:, 0], tokens.gather(1, rank)[:, 0]

    def settled(self, source: int) -> list[int]:
        """The tokens drawn for a source, where there is one draw of it: nothing is taken back."""
        draws = self.draws[source]
        return list(draws[0].tokens) if len(draws) == 1 else []

    @property
    def results(self) -> list[list[Hypothesis]]:
        """The draws of each source."""
        every = [
            [Hypothesis.of(draw.tokens, draw.logprobs, self.config, self.eos_id) for draw in copies]
            for copies in self.draws
        ]
        return [sorted(copies, key=lambda hypothesis: -hypothesis.score) for copies in every]


class _Draw:
    """One translation being drawn."""

    def __init__(self, source: int, limit: int, generator: np.random.Generator) -> None:
        self.source = source
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
    """The source of randomness of one draw."""
    return np.random.default_rng(np.random.SeedSequence(entropy=seed, spawn_key=(line, copy)))


def drawn_ranks(values: Tensor, waits: Tensor, temperature: float, top_p: float) -> Tensor:
    """The rank [R] drawn in each row of ``values`` [R,C]: log-probabilities up to a constant, best first, in float64.

    ``waits`` [R,C] are independent draws from the exponential distribution. The token is drawn whose wait over its
    probability is the shortest, which each is with its probability: the Gumbel-max trick (Maddison et al. 2014). As
    the waits belong to tokens, rounding in the values changes a draw only where two of these times are as close; a
    point on the line of all shares in order moves to another token with every two shares that change places.
    A row of -inf gives rank 0.
    """
    scaled = (values - values[:, :1]) / temperature
    probabilities = torch.softmax(scaled, dim=1).nan_to_num(0.0)
    before = probabilities.cumsum(1).roll(1, dims=1)
    before[:, 0] = 0.0
    return (scaled - waits.log()).masked_fill(before >= top_p, NEVER).nan_to_num(NEVER).argmax(1)
