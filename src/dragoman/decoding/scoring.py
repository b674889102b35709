"""Forced scoring: what a model gives to target tokens that are known already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dragoman.config import DecodeConfig
from dragoman.decoding.hypothesis import Hypothesis
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
    tokens = torch.full((len(targets),), bos_id, dtype=torch.int64, device=device)
    parents = None
    for n in range(max(map(len, targets), default=0)):
        logprobs = log_probabilities(step(tokens, state, parents))
        # Without a token at n is a row in the first step only, where its target is empty.
        wanted = [(row, source, targets[source][n]) for row, source in enumerate(going) if n < len(targets[source])]
        _check_ids([token for _, _, token in wanted], logprobs.shape[1])
        values = logprobs[[row for row, _, _ in wanted], [token for _, _, token in wanted]]
        for (_, source, _), value in zip(wanted, values.tolist(), strict=True):
            scores[source].append(value)
        left = [(row, source, token) for row, source, token in wanted if n + 1 < len(targets[source])]
        going = [source for _, source, _ in left]
        tokens = torch.tensor([token for _, _, token in left], dtype=torch.int64, device=device)
        parents = torch.tensor([row for row, _, _ in left], dtype=torch.int64, device=device)
    return [Hypothesis.of(list(target), own, config, eos_id) for target, own in zip(targets, scores, strict=True)]


def _check_ids(ids: list[int], vocabulary: int) -> None:
    """Raises :class:`DataError` for an id outside the vocabulary."""
    for token in (min(ids), max(ids)):
        if not 0 <= token < vocabulary:
            raise DataError(
                f"a target to be scored holds the id {token}, and the target vocabulary has {vocabulary} tokens; "
                "encode the text with the model's own tokenizer."
            )
