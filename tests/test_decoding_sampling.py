"""Sampling: what is drawn follows the distribution asked for, and depends on the line and the seed alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_toys import BOS, Toy, hypothesis
from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis
from dragoman.decoding import search as search_for
from dragoman.decoding.sampling import drawn_ranks
from dragoman.errors import RunError
from tolerances import FLOAT64

END = 0


def draw(
    toy: Toy, lines: Sequence[int], config: DecodeConfig, limit: int | Sequence[int] = 6, **more: Any
) -> list[list[Hypothesis]]:
    """Source k stands for line k."""
    n = len(lines)
    limits = [limit] * n if isinstance(limit, int) else limit
    return search_for(
        toy.step, toy.start(lines), n, config, bos_id=BOS, eos_id=END, limits=limits, line_numbers=lines, **more
    )


def chi_square(counts: Counter[Any], probabilities: dict[Any, float]) -> float:
    """Pearson's statistic over its degrees of freedom: near 1 where the counts follow the probabilities."""
    assert set(counts) <= set(probabilities)
    total = sum(counts.values())
    terms = [(counts[key] - total * value) ** 2 / (total * value) for key, value in probabilities.items()]
    return sum(terms) / (len(terms) - 1)


def softmax(values: Sequence[float]) -> list[float]:
    return [float(value) for value in torch.tensor(values, dtype=torch.float64).softmax(0)]


FIXED = [0.3, 1.0, -0.5, 0.0, -1.5, 0.7]


@pytest.mark.parametrize(
    ("changes", "cut"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"temperature": 0.5}, [0, 1, 2, 3, 4, 5]),
        ({"temperature": 2.0}, [0, 1, 2, 3, 4, 5]),
        ({"top_k": 3}, [0, 1, 5]),
        ({"top_k": 99}, [0, 1, 2, 3, 4, 5]),
        ({"top_k": 4, "temperature": 1.5}, [0, 1, 3, 5]),
        # 1 has 0.344, 5 has 0.255 and 0 has 0.171: the third is needed for 0.61, and not for 0.59.
        ({"top_p": 0.59}, [1, 5]),
        ({"top_p": 0.61}, [0, 1, 5]),
        ({"top_p": 1e-9}, [1]),
        # Of the three likeliest 1 has 0.447 and 5 has 0.331.
        ({"top_k": 3, "top_p": 0.7}, [1, 5]),
    ],
)
def test_tokens_come_as_often_as_the_distribution_says(changes: dict[str, Any], cut: list[int]) -> None:
    config = DecodeConfig(sample=True, **changes)
    toy = Toy(lambda source, prefix: FIXED, 6)
    found = draw(toy, range(4000), config, limit=1)
    counts = Counter(one.tokens[0] for (one,) in found)
    scaled = softmax([FIXED[token] / config.temperature for token in cut])
    assert set(counts) == set(cut)
    if len(cut) > 1:
        # Five sigma of a statistic with at least one degree of freedom; the seed is fixed.
        assert chi_square(counts, dict(zip(cut, scaled, strict=True))) < 1 + 5 * math.sqrt(2 / (len(cut) - 1))


def test_whole_translations_come_as_often_as_the_model_says() -> None:
    toy = Toy.random(8, 3)
    same = Toy(lambda source, prefix: toy.logits(0, prefix), 3)
    found = draw(same, range(1500), DecodeConfig(sample=True, n_best=4), limit=3)
    counts = Counter(tuple(one.tokens) for copies in found for one in copies)
    bodies = [(), (1,), (2,), (1, 1), (1, 2), (2, 1), (2, 2)]
    every = [(*body, END) for body in bodies] + [(*body, last) for body in bodies[3:] for last in (1, 2)]
    chances = {tokens: math.exp(sum(same.token_logprobs(0, tokens))) for tokens in every}
    assert sum(chances.values()) == pytest.approx(1.0)
    assert chi_square(counts, chances) < 1 + 5 * math.sqrt(2 / (len(chances) - 1))


@given(
    seed=st.integers(0, 10**12),
    lines=st.lists(st.integers(0, 10**9), min_size=1, max_size=5, unique=True),
    n_best=st.integers(1, 3),
    changes=st.sampled_from([{}, {"top_k": 3}, {"top_p": 0.8}, {"temperature": 3.0}]),
)
def test_a_line_draws_the_same_whatever_its_neighbours(
    seed: int, lines: list[int], n_best: int, changes: dict[str, Any]
) -> None:
    toy = Toy.random(1, 7)
    config = DecodeConfig(sample=True, seed=seed, n_best=n_best, **changes)
    limits = [1 + line % 9 for line in lines]
    together = draw(toy, lines, config, limits)
    assert draw(toy, lines[::-1], config, limits[::-1]) == together[::-1]
    for line, limit, found in zip(lines, limits, together, strict=True):
        assert draw(toy, [line], config, [limit]) == [found]


def test_other_seeds_lines_and_copies_draw_otherwise() -> None:
    toy = Toy(lambda source, prefix: [-9.0] + [0.0] * 31, 32)
    config = DecodeConfig(sample=True, seed=5, n_best=2)
    drawn = [
        tuple(one.tokens)
        for seed in (0, 1, 5, 6, 2**32, 2**32 + 1)
        for copies in draw(toy, range(20), config.changed(seed=seed), limit=12)
        for one in copies
    ]
    assert len(set(drawn)) == len(drawn)


def test_more_copies_leave_the_first_ones_as_they_are() -> None:
    toy = Toy.random(2, 9)
    few, many = (draw(toy, [4], DecodeConfig(sample=True, n_best=n))[0] for n in (2, 5))
    assert all(one in many for one in few)


@given(seed=st.integers(0, 10**6), n_best=st.integers(1, 4), temperature=st.sampled_from([0.2, 1.0, 5.0]))
def test_reported_scores_are_the_models_own(seed: int, n_best: int, temperature: float) -> None:
    toy = Toy.random(seed, 6)
    config = DecodeConfig(sample=True, n_best=n_best, temperature=temperature, top_k=4, top_p=0.9, length_norm="power")
    for source, found in enumerate(draw(toy, range(3), config, [2, 5, 7])):
        assert len(found) == n_best
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        for one in found:
            expected = hypothesis(toy, source, one.tokens, config, END)
            assert one.finished == expected.finished
            assert one.score == pytest.approx(expected.score, abs=FLOAT64)
            assert one.token_logprobs == pytest.approx(expected.token_logprobs, abs=FLOAT64)


def test_the_likeliest_alone_is_greedy_search() -> None:
    toy = Toy.random(6, 8)
    greedy = search_for(toy.step, toy.start(5), 5, DecodeConfig(beam_size=1), bos_id=BOS, eos_id=END, limits=[9] * 5)
    for changes in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-5}, {"temperature": 1e-300}):
        drawn = draw(toy, range(5), DecodeConfig(sample=True, **changes), 9)
        assert [[one.tokens for one in found] for found in drawn] == [[one.tokens for one in found] for found in greedy]


def test_rows_of_ended_draws_leave_the_batch() -> None:
    # Source s ends after s tokens.
    toy = Toy(lambda source, prefix: [99.0 if len(prefix) >= source else -99.0, 0.0, 0.0], 3)
    state = toy.start(3)
    config = DecodeConfig(sample=True, n_best=2)
    search_for(toy.step, state, 3, config, bos_id=BOS, eos_id=END, limits=[9] * 3, line_numbers=[0, 1, 2])
    assert state.asked == [3, 4, 2]


def test_each_source_keeps_its_own_limit() -> None:
    never = Toy(lambda source, prefix: [-99.0, 0.0, 0.0], 3)
    found = draw(never, range(4), DecodeConfig(sample=True), [5, 1, 3, 5])
    assert [(len(one.tokens), one.finished) for (one,) in found] == [(5, False), (1, False), (3, False), (5, False)]


@given(seed=st.integers(0, 1000), top_p=st.floats(0.01, 1.0), temperature=st.sampled_from([0.5, 1.0, 2.0]))
@settings(max_examples=25, deadline=None)
def test_each_token_is_drawn_with_its_share(seed: int, top_p: float, temperature: float) -> None:
    """Of 4,000 draws each share is within five of its standard deviations; what is cut off never comes."""
    shares = np.array([0.5, 0.25, 0.125, 0.125, 0.0])
    shares = shares ** (1 / temperature) / (shares ** (1 / temperature)).sum()
    kept = np.where(np.concatenate([[0.0], shares.cumsum()[:-1]]) < top_p, shares, 0.0)
    kept /= kept.sum()
    values = torch.tensor([0.5, 0.25, 0.125, 0.125, 0.0], dtype=torch.float64).log().expand(4000, -1)
    waits = torch.from_numpy(np.random.default_rng(seed).standard_exponential(values.shape))
    found = np.bincount(drawn_ranks(values, waits, temperature, top_p).numpy(), minlength=5) / 4000
    assert (found[kept == 0] == 0).all()
    assert (np.abs(found - kept) <= 5 * np.sqrt(kept * (1 - kept) / 4000) + 1e-12).all()


def test_a_row_that_allows_nothing_gives_rank_0() -> None:
    values = torch.full((2, 3), -math.inf, dtype=torch.float64)
    assert drawn_ranks(values, torch.ones(2, 3, dtype=torch.float64), 1.0, 0.9).tolist() == [0, 0]


def test_rounding_does_not_change_what_is_drawn() -> None:
    """Neighbours change sums in their last digits. Of 3,000 nearly equal tokens many change places in the order."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 3000, generator=generator) * 0.1
    other = logits + 1e-6 * torch.randn(50, 3000, generator=generator)

    def drawn(of: torch.Tensor) -> list[list[int]]:
        toy = Toy(lambda source, prefix: [-99.0, *of[len(prefix)].tolist()], 3001)
        return [one.tokens for (one,) in draw(toy, range(20), DecodeConfig(sample=True), [50] * 20)]

    assert not torch.equal(logits.argsort(1), other.argsort(1))
    assert drawn(logits) == drawn(other)


def test_no_sources_give_no_translations() -> None:
    assert draw(Toy.random(0, 4), [], DecodeConfig(sample=True)) == []


def test_logits_that_are_not_numbers_are_an_error() -> None:
    with pytest.raises(RunError, match="NaN or infinite"):
        draw(Toy(lambda source, prefix: [0.0, math.nan], 2), [0], DecodeConfig(sample=True))
