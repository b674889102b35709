"""A translation as a search gives it, and the length norm that ranks it."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.config import DecodeConfig


@dataclass(frozen=True)
class Hypothesis:
    """Target tokens after ``<s>`` (``</s>`` included where ``finished``) with their log-probabilities.

    ``logprob`` is the sum of the natural log-probabilities of all tokens, a forced prefix included; ``score``
    is ``logprob`` over the length norm.
    """

    tokens: list[int]
    logprob: float
    score: float
    token_logprobs: list[float]
    finished: bool


def length_norm(config: DecodeConfig, length: int) -> float:
    """What the log-probability of ``length`` tokens is divided by.

    gnmt: ((5 + n) / 6)^A (Wu et al. 2016, equation 14); power: n^A; none: 1. A is ``length_penalty``.
    """
    if config.length_norm == "gnmt":
        return float(((5.0 + length) / 6.0) ** config.length_penalty)
    if config.length_norm == "power":
        return float(max(length, 1) ** config.length_penalty)
    return 1.0


def best_reachable(config: DecodeConfig, logprob: float, length: int, limit: int) -> float:
    """The best score that an open hypothesis of ``length`` tokens can still end with.

    Further tokens only lower the log-probability; the norm is monotonic in the length, so the best norm is
    that of the next token or that of the limit.
    """
    return max(logprob / length_norm(config, min(length + 1, limit)), logprob / length_norm(config, limit))
