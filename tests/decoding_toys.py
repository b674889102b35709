"""Toy models for the searches, and slow, plain ways of finding what a search has to find."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis

BOS = 77  # no toy vocabulary is so large: a search that feeds <s> anywhere but first is found out

Logits = Callable[[int, tuple[int, ...]], Sequence[float]]


@dataclass
class ToyState:
    """What each row of the last step stands for: its source and its tokens, <s> included."""

    sources: list[int]
    rows: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)  # rows of each step


class Toy:
    """A model whose logits are any function of the source and of everything since <s>; the step honours parents."""

    def __init__(self, logits: Logits, vocabulary: int, dtype: torch.dtype = torch.float64) -> None:
        self.logits = logits
        self.vocabulary = vocabulary
        self.dtype = dtype

    @classmethod
    def random(cls, seed: int, vocabulary: int, *, whole: bool = False, spread: float = 1.0) -> Toy:
        """Logits drawn for each prefix; ``whole``: only the numbers -1, 0 and 1, so that many are equal."""

        def logits(source: int, prefix: tuple[int, ...]) -> Sequence[float]:
            generator = np.random.default_rng((seed, source, len(prefix), *prefix))
            if whole:
                return [float(value) for value in generator.integers(-1, 2, vocabulary)]
            return [float(value) for value in spread * generator.standard_normal(vocabulary)]

        return cls(logits, vocabulary)

    def start(self, sources: int | Sequence[int]) -> ToyState:
        """A state over some sources."""
        return ToyState(list(range(sources)) if isinstance(sources, int) else list(sources))

    def step(self, tokens: Tensor, state: ToyState, parents: Tensor | None = None) -> Tensor:
        """As :class:`dragoman.decoding.Step`."""
        assert tokens.dtype == torch.int64
        assert tokens.ndim == 1
        if not state.rows:
            assert parents is None
            assert tokens.tolist() == [BOS] * len(state.sources)
            before: list[tuple[int, tuple[int, ...]]] = [(source, ()) for source in state.sources]
        else:
            assert parents is not None
            assert len(parents) == len(tokens)
            before = [state.rows[parent] for parent in parents.tolist()]
        state.rows = [
            (source, (*prefix, token)) for (source, prefix), token in zip(before, tokens.tolist(), strict=True)
        ]
        state.asked.append(len(tokens))
        return torch.tensor([self.logits(source, prefix[1:]) for source, prefix in state.rows], dtype=self.dtype)

    def logprobs(self, source: int, prefix: tuple[int, ...]) -> list[float]:
        """Natural-log probabilities of the next token."""
        row = torch.tensor(self.logits(source, prefix), dtype=self.dtype)
        return [float(value) for value in torch.log_softmax(row, 0)]

    def token_logprobs(self, source: int, tokens: Sequence[int]) -> list[float]:
        """Those of each of some tokens."""
        return [self.logprobs(source, tuple(tokens[:n]))[token] for n, token in enumerate(tokens)]


def norm(config: DecodeConfig, n: int) -> float:
    """The length norm, written down a second time."""
    base = {"gnmt": (5 + n) / 6, "power": float(n), "none": 1.0}[config.length_norm]
    return math.exp(config.length_penalty * math.log(base))


def hypothesis(toy: Toy, source: int, tokens: Sequence[int], config: DecodeConfig, eos_id: int) -> Hypothesis:
    """What a search should report for some tokens."""
    logprobs = toy.token_logprobs(source, tokens)
    total = math.fsum(logprobs)
    return Hypothesis(list(tokens), total, total / norm(config, len(tokens)), logprobs, tokens[-1] == eos_id)


def sequences(vocabulary: int, eos_id: int, limit: int) -> Iterator[tuple[int, ...]]:
    """Everything that a model can say in ``limit`` tokens: all that end with </s>, and the unfinished at the limit."""
    others = [token for token in range(vocabulary) if token != eos_id]
    for n in range(limit):
        for body in itertools.product(others, repeat=n):
            yield (*body, eos_id)
    yield from itertools.product(others, repeat=limit)


def enumerated(
    toy: Toy,
    source: int,
    config: DecodeConfig,
    eos_id: int,
    limit: int,
    allowed: Callable[[tuple[int, ...]], bool] = lambda tokens: True,
) -> list[Hypothesis]:
    """The ``n_best`` of everything that a model can say and that is allowed, by trying it all."""
    found = [
        hypothesis(toy, source, tokens, config, eos_id)
        for tokens in sequences(toy.vocabulary, eos_id, limit)
        if allowed(tokens)
    ]
    return sorted(found, key=lambda one: -one.score)[: config.n_best]


def plain_greedy(toy: Toy, source: int, eos_id: int, limit: int) -> list[int]:
    """The likeliest token, again and again, to </s> or the limit; of equal ones the lower id."""
    tokens: list[int] = []
    while len(tokens) < limit and (not tokens or tokens[-1] != eos_id):
        logprobs = toy.logprobs(source, tuple(tokens))
        tokens.append(max(range(toy.vocabulary), key=lambda token: (logprobs[token], -token)))
    return tokens


def plain_beam(toy: Toy, source: int, config: DecodeConfig, eos_id: int, limit: int) -> list[list[int]]:
    """Beam search by lists, one sentence, to the limit unless ``stop_after`` have ended: no other rule may matter."""
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    ended: list[tuple[float, tuple[int, ...]]] = []
    for n in range(1, limit + 1):
        candidates = [
            (total + logprob, (*prefix, token))
            for total, prefix in beams
            for token, logprob in enumerate(toy.logprobs(source, prefix))
        ]
        candidates.sort(key=lambda candidate: -candidate[0])  # stable: hypothesis, then id
        candidates = candidates[: 2 * config.beam_size]
        ended += [one for one in candidates[: config.beam_size] if one[1][-1] == eos_id]
        beams = [one for one in candidates if one[1][-1] != eos_id][: config.beam_size]
        if n == limit:
            ended += beams
        elif 0 < config.stop_after <= len(ended) and len(ended) >= config.n_best:
            break
    ended.sort(key=lambda one: -one[0] / norm(config, len(one[1])))
    return [list(tokens) for _, tokens in ended[: config.n_best]]
