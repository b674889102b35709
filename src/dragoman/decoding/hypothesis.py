"""A translation as a search gives it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dragoman.config import DecodeConfig
from dragoman.decoding.length import length_norm


@dataclass(frozen=True)
class Hypothesis:
    """Target ids after ``<s>`` with what the model gives them.

    ``tokens`` holds a forced prefix, and ``</s>`` at its end where the hypothesis is ``finished``.
    ``token_logprobs`` are the tokens' natural-log probabilities, ``logprob`` is their sum, and ``score`` is
    ``logprob`` over the length norm. They are the model's own: nothing is renormalised for tokens that were
    ruled out, for a forced prefix or for a temperature. ``unmet`` are the places of the source's phrases that do
    not stand in it as often as they were asked for, a place as often as it is lacking.
    """

    tokens: list[int]
    logprob: float
    score: float
    token_logprobs: list[float]
    finished: bool
    unmet: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, tokens: list[int], token_logprobs: list[float], config: DecodeConfig, eos_id: int) -> Hypothesis:
        """The hypothesis of some tokens and their log-probabilities."""
        logprob = math.fsum(token_logprobs)
        score = logprob / length_norm(config, len(tokens))
        return cls(tokens, logprob, score, token_logprobs, tokens[-1:] == [eos_id])
