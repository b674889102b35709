"""Forced scoring: what a model gives to target tokens that are known already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dragoman.config import DecodeConfig
from dragoman.decoding.hypothesis import Hypothesis
from dragoman.decoding.length import length_norm
from dragoman.decoding.step import Step, log_probabilities
from dragoman.errors import DataError


@torch.no_grad()
def score_targets(
    step: Step,
    state: Any,
    targets: Sequence[Sequence[int]],
    config: DecodeConfig,
    *,
    bos_id: int,
    eos_id: int,
    device: torch.device | str | None = None,
) -> list[Hypothesis]:
    """One target of each source, as a search would have reported it.

    A target holds the ids after ``<s>``, and ``</s>`` at its end where that is to be scored (``finished``). A source
    leaves the batch with its last token. Raises :class:`DataError` for ids outside the vocabulary and
    :class:`RunError` for logits that are NaN.
    """
    scores: list[list[float]] = [[] for _ in targets]
    going = list(range(len(targets)))
    tokens, parents = torch.full((len(targets),), bos_id, dtype=torch.int64, device=device), None
    for n in range(max(map(len, targets), default=0)):
        logprobs = log_probabilities(step(tokens, state, parents))
        rows = [row for row, source in enumerate(going) if len(targets[source]) > n]
        going = [going[row] for row in rows]
        ids = [targets[source][n] for source in going]
        _check_ids(ids, logprobs.shape[1])
        tokens, parents = torch.tensor(ids, device=device), torch.tensor(rows, device=device)
        values = logprobs[parents.to(logprobs.device), tokens.to(logprobs.device)]
        for source, value in zip(going, values.tolist(), strict=True):
            scores[source].append(value)
    return [_hypothesis(list(target), own, config, eos_id) for target, own in zip(targets, scores, strict=True)]


def _check_ids(ids: list[int], vocabulary: int) -> None:
    """Raises :class:`DataError` for an id outside the vocabulary."""
    for token in (min(ids), max(ids)):
        if not 0 <= token < vocabulary:
            raise DataError(
                f"a target to be scored holds the id {token}, and the target vocabulary has {vocabulary} tokens; "
                "encode the text with the model's own tokenizer."
            )


def _hypothesis(tokens: list[int], logprobs: list[float], config: DecodeConfig, eos_id: int) -> Hypothesis:
    logprob = sum(logprobs)
    return Hypothesis(tokens, logprob, logprob / length_norm(config, len(tokens)), logprobs, tokens[-1:] == [eos_id])
