"""Drawing translations at random. Line k draws from (seed, k), whatever its neighbours in the batch.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.beam import Step
from dragoman.decoding.hypothesis import Hypothesis, length_norm
from dragoman.decoding.rules import Rules, check_prefixes, log_probabilities


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
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """``n_best`` draws for each source, best score first; ``line_numbers`` name the sources for the seed.

    A token is drawn from softmax(logits / temperature), cut to the ``top_k`` likeliest and to the likeliest
    that together reach ``top_p`` (Holtzman et al. 2020). The log-probabilities reported are the model's own.
    """
    prefixes = [[] for _ in range(n_sources)] if prefixes is None else prefixes
    check_prefixes(prefixes, limits, eos_id)
    rules = Rules(config, eos_id, forbidden, prefixes)
    sources = [source for source in range(n_sources) for _ in range(config.n_best)]
    draws = [
        np.random.default_rng((abs(config.seed), line_numbers[source], copy))
        for source in range(n_sources)
        for copy in range(config.n_best)
    ]
    tokens: list[list[int]] = [[] for _ in sources]
    logprobs: list[list[float]] = [[] for _ in sources]
    rows = list(range(len(sources)))
    feed = torch.full((n_sources,), bos_id, device=device)
    parents: Tensor | None = None
    while rows:
        logits = step(feed, state, parents)
        if parents is None:
            logits = logits.repeat_interleave(config.n_best, 0)
        scores = log_probabilities(logits)
        history = torch.tensor([tokens[row] for row in rows], dtype=torch.int64, device=scores.device)
        allowed = rules.apply(scores, history.view(len(rows), -1), [sources[row] for row in rows])
        drawn = _draw(allowed, config, [draws[row] for row in rows])
        for place, (row, token) in enumerate(zip(rows, drawn, strict=True)):
            tokens[row].append(token)
            logprobs[row].append(scores[place, token].item())
        open_places = [
            place
            for place, row in enumerate(rows)
            if tokens[row][-1] != eos_id and len(tokens[row]) < limits[sources[row]]
        ]
        first = [sources[row] for row in rows] if parents is None else list(range(len(rows)))
        parents = torch.tensor([first[place] for place in open_places], dtype=torch.int64, device=scores.device)
        feed = torch.tensor([drawn[place] for place in open_places], dtype=torch.int64, device=scores.device)
        rows = [rows[place] for place in open_places]
    results: list[list[Hypothesis]] = [[] for _ in range(n_sources)]
    for source, ids, values in zip(sources, tokens, logprobs, strict=True):
        total = sum(values)
        score = total / length_norm(config, len(ids))
        results[source].append(Hypothesis(ids, total, score, values, ids[-1] == eos_id))
    return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in results]


def _draw(allowed: Tensor, config: DecodeConfig, draws: list[np.random.Generator]) -> list[int]:
    """One token a row by inverting the cumulative distribution of the tokens, likeliest first."""
    scaled = allowed.double() / config.temperature
    ordered, index = scaled.sort(dim=-1, descending=True, stable=True)
    if config.top_k:
        ordered[:, config.top_k :] = float("-inf")
    probabilities = ordered.softmax(-1)
    if config.top_p < 1.0:
        before = probabilities.cumsum(-1) - probabilities
        probabilities = probabilities.masked_fill(before >= config.top_p, 0.0)
        probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    cumulative = probabilities.cumsum(-1)
    points = torch.tensor([[draw.random()] for draw in draws], dtype=torch.float64, device=allowed.device)
    rank = torch.searchsorted(cumulative, points * cumulative[:, -1:], right=True)
    last = (probabilities > 0).sum(-1, keepdim=True) - 1
    return index.gather(1, torch.minimum(rank, last)).flatten().tolist()
