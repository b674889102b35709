"""Greedy search: to the last number what a beam of one finds, for less work."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_toys import BOS, Toy
from dragoman.config import DecodeConfig
from dragoman.decoding import make_search
from dragoman.decoding.beam import BeamSearch
from dragoman.decoding.constraints import Rules
from dragoman.decoding.greedy import GreedySearch
from dragoman.decoding.search import run
from dragoman.decoding.step import best_token
from dragoman.errors import RunError

EOS = 3
GREEDY = DecodeConfig(beam_size=1)


def rules(config: DecodeConfig, minimums: Sequence[int], prefixes: Sequence[Sequence[int]], banned: list[int]) -> Rules:
    return Rules(config, eos_id=EOS, minimums=minimums, forbidden=banned, prefixes=prefixes)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    whole=st.booleans(),
    vocabulary=st.integers(4, 7),
    limits=st.lists(st.integers(1, 7), min_size=0, max_size=4),
    minimum=st.integers(0, 4),
    uneven=st.booleans(),
    prefix=st.lists(st.sampled_from([0, 1, 2]), max_size=1),
    banned=st.sets(st.integers(0, 3), max_size=4),
    options=st.fixed_dictionaries(
        {},
        optional={
            "no_repeat_ngram": st.integers(1, 2),
            "length_penalty": st.sampled_from([-1.0, 0.0, 2.0]),
            "length_norm": st.sampled_from(["gnmt", "power", "none"]),
        },
    ),
)
def test_it_is_a_beam_of_one(
    seed: int,
    whole: bool,
    vocabulary: int,
    limits: list[int],
    minimum: int,
    uneven: bool,
    prefix: list[int],
    banned: set[int],
    options: dict[str, object],
) -> None:
    """Ties, forced and forbidden tokens, sources that end one by one; what each step looked at is the same too."""
    toy, config, n = Toy.random(seed, vocabulary, whole=whole), GREEDY.changed(**options), len(limits)
    minimums = [minimum + (place if uneven else 0) for place in range(n)]
    prefixes = [prefix if place % 2 else [] for place in range(n)]
    ways = [
        kind(config, rules(config, minimums, prefixes, sorted(banned)), EOS, limits)
        for kind in (BeamSearch, GreedySearch)
    ]
    seen = []
    for search in ways:
        looked = []
        for _ in run(search, toy.step, toy.start(n), n, BOS):
            looked.append([part.tolist() for part in search.found] + [search.tokens.tolist(), search.parents.tolist()])
        seen.append(looked)
    assert seen[0] == seen[1]
    assert ways[0].results == ways[1].results
    assert [ways[0].settled(source) for source in range(n)] == [ways[1].settled(source) for source in range(n)]


def test_each_source_has_its_own_minimum() -> None:
    search = make_search(3, GREEDY, eos_id=EOS, limits=[9, 9, 9], minimums=[2, 0, 4])
    while search.is_open:
        search.advance(torch.tensor([0.0, 0.0, 1.0, 9.0, 0.0]).repeat(len(search.tokens) or 3, 1))
    assert [found[0].tokens for found in search.results] == [[2, 2, EOS], [EOS], [2, 2, 2, 2, EOS]]


def test_a_beam_of_one_is_searched_greedily() -> None:
    assert type(make_search(1, GREEDY, eos_id=EOS, limits=[3])) is GreedySearch
    assert type(make_search(1, DecodeConfig(beam_size=2), eos_id=EOS, limits=[3])) is BeamSearch


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 4])
def test_damaged_logits_are_an_error(bad: float, place: int) -> None:
    search = make_search(2, GREEDY, eos_id=EOS, limits=[3, 3])
    logits = torch.zeros(2, 5)
    logits[1, place] = bad
    with pytest.raises(RunError, match="the model's output holds NaN or infinite values"):
        search.advance(logits)


def test_nan_of_a_forbidden_token_is_found() -> None:
    search = make_search(1, GREEDY, eos_id=EOS, limits=[3], forbidden=[2])
    logits = torch.zeros(1, 5)
    logits[0, 2] = math.nan
    with pytest.raises(RunError, match="NaN"):
        search.advance(logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_equal_tokens_the_lowest_is_best(dtype: torch.dtype) -> None:
    values, tokens = best_token(torch.tensor([[0.0, 1.5, 1.5], [-math.inf] * 3, [2.0, 1.0, 2.0]], dtype=dtype))
    assert values.dtype == np.float64
    assert values.tolist() == [1.5, -math.inf, 2.0]
    assert tokens.tolist() == [1, 0, 0]
