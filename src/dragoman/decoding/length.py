"""The length norm, and what an open hypothesis can still reach under it."""

from __future__ import annotations

from dragoman.config import DecodeConfig


def length_norm(config: DecodeConfig, n: int) -> float:
    """What the log-probability of ``n`` target tokens is divided by, A being ``length_penalty``.

    gnmt: ((5 + n) / 6)^A (Wu et al. 2016, equation 14); power: n^A; none: 1. All tokens after ``<s>`` count, a
    forced prefix and ``</s>`` included. The empty hypothesis counts as one token under power.
    """
    if config.length_norm == "gnmt":
        return float(((5.0 + n) / 6.0) ** config.length_penalty)
    if config.length_norm == "power":
        return float(float(max(n, 1)) ** config.length_penalty)
    return 1.0


def best_reachable(config: DecodeConfig, logprob: float, n: int, limit: int) -> float:
    """An upper bound of the scores that an open hypothesis of ``n`` tokens can end with, at ``limit`` at the latest.

    More tokens only lower ``logprob``, so the bound is ``logprob`` over the largest norm to come. The norms are
    monotonic in the length: the largest is that of the limit (A > 0) or that of the next token (A < 0).
    """
    return logprob / max(length_norm(config, n + 1), length_norm(config, limit))
