"""The rules on what may come next, in beam search and in sampling."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_toys import BOS, Toy, enumerated, hypothesis
from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis
from dragoman.decoding import search as search_for
from dragoman.decoding.constraints import NoRepeatNgram
from dragoman.decoding.trail import Trail
from dragoman.errors import DataError
from tolerances import FLOAT64

END = 0

Search = Callable[..., list[list[Hypothesis]]]


def by_beam(toy: Toy, config: DecodeConfig, limits: Sequence[int], **more: Any) -> list[list[Hypothesis]]:
    n = len(limits)
    return search_for(toy.step, toy.start(n), n, config, bos_id=BOS, eos_id=END, limits=limits, **more)


def by_drawing(toy: Toy, config: DecodeConfig, limits: Sequence[int], **more: Any) -> list[list[Hypothesis]]:
    n = len(limits)
    drawn = config.changed(sample=True)
    return search_for(toy.step, toy.start(n), n, drawn, bos_id=BOS, eos_id=END, limits=limits, **more)


both = pytest.mark.parametrize("search", [by_beam, by_drawing])


def repeats(tokens: Sequence[int], size: int) -> bool:
    """Whether an n-gram comes twice."""
    ngrams = [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]
    return len(set(ngrams)) < len(ngrams)


@settings(max_examples=80)
@given(data=st.data())
def test_a_wide_beam_finds_the_best_that_the_rules_allow(data: st.DataObject) -> None:
    vocabulary = data.draw(st.integers(3, 4))
    limit = data.draw(st.integers(1, 4 if vocabulary < 4 else 3))
    forbidden = data.draw(st.sets(st.integers(1, vocabulary - 1), max_size=1))
    size = data.draw(st.integers(0, 3))
    prefix = tuple(data.draw(st.lists(st.integers(1, vocabulary - 1), max_size=limit)))
    beam_size = vocabulary ** (limit - 1)
    config = DecodeConfig(
        beam_size=beam_size,
        n_best=data.draw(st.integers(1, beam_size)),
        length_penalty=data.draw(st.sampled_from([0.0, 1.0])),
        min_length=data.draw(st.integers(0, 3)),
        no_repeat_ngram=size,
    )

    def allowed(tokens: tuple[int, ...]) -> bool:
        # A prefix may do what the rules forbid; what follows it may not.
        free = [repeats(tokens[: n + 1], size) > repeats(tokens[:n], size) for n in range(len(prefix), len(tokens))]
        return (
            tokens[: len(prefix)] == prefix
            and not forbidden & set(tokens[len(prefix) :])
            and (tokens[-1] != END or len(tokens) > config.min_length)
            and not (size and (any(free) or _repeats_after(tokens, size, len(prefix))))
        )

    toy = Toy.random(data.draw(st.integers(0, 10**6)), vocabulary)
    (found,) = by_beam(toy, config, [limit], forbidden=sorted(forbidden), prefixes=[prefix])
    expected = enumerated(toy, 0, config, END, limit, allowed)
    if expected:
        assert [one.tokens for one in found] == [one.tokens for one in expected]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=FLOAT64)
    else:  # the rules lead nowhere within the limit: see the tests of dead ends
        assert not any(one.finished for one in found)


def _repeats_after(tokens: Sequence[int], size: int, start: int) -> bool:
    """Whether an n-gram that ends at ``start`` or later has come before."""
    ngrams = [tuple(tokens[n - size + 1 : n + 1]) for n in range(size - 1, len(tokens))]
    return any(ngrams[n - size + 1] in ngrams[: n - size + 1] for n in range(max(start, size - 1), len(tokens)))


@both
def test_forbidden_tokens_never_come_and_cost_the_others_nothing(search: Search) -> None:
    likely = Toy(lambda source, prefix: [-2.0, 3.0, 2.0, 1.0, 0.0], 5)
    config = DecodeConfig(beam_size=2, n_best=2)
    for found in search(likely, config, [4, 6], forbidden=(1, 2, 1)):
        for one in found:
            assert not {1, 2} & set(one.tokens)
            assert one.token_logprobs == pytest.approx(likely.token_logprobs(0, one.tokens), abs=FLOAT64)


@both
@pytest.mark.parametrize("minimum", range(5))
def test_the_end_comes_after_the_least_number_of_tokens(search: Search, minimum: int) -> None:
    brief = Toy(lambda source, prefix: [50.0, 1.0, 0.0], 3)
    for beam_size in (1, 3):
        for (one,) in search(brief, DecodeConfig(beam_size=beam_size, min_length=minimum), [8, 8]):
            assert len(one.tokens) == minimum + 1
            assert one.finished


@both
def test_a_least_length_at_the_limit_leaves_the_translation_unfinished(search: Search) -> None:
    brief = Toy(lambda source, prefix: [50.0, 1.0, 0.0], 3)
    (found,), (other,) = search(brief, DecodeConfig(beam_size=2, min_length=4), [4, 2])
    assert (len(found.tokens), found.finished) == (4, False)
    assert (len(other.tokens), other.finished) == (2, False)


@both
def test_the_tokens_of_a_prefix_count_for_the_least_length(search: Search) -> None:
    brief = Toy(lambda source, prefix: [50.0, 1.0, 0.0], 3)
    (one,), (other,) = search(brief, DecodeConfig(beam_size=1, min_length=3), [9, 9], prefixes=[[2, 2], [2, 2, 2, 2]])
    assert (len(one.tokens), len(other.tokens)) == (4, 5)


@both
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_comes_twice(search: Search, size: int) -> None:
    # Without the rule everything is the same token again and again.
    stubborn = Toy(lambda source, prefix: [-6.0, 5.0, 4.0, -1.0, -1.5], 5)
    limit = 4 if size == 1 else 12
    for beam_size in (1, 4):
        config = DecodeConfig(beam_size=beam_size, no_repeat_ngram=size)
        for (one,) in search(stubborn, config, [limit] * 3):
            assert not repeats(one.tokens, size)
        free = search(stubborn, config.changed(no_repeat_ngram=0), [limit] * 3)
        assert all(repeats(one.tokens, size) for (one,) in free)


@given(
    size=st.integers(1, 4),
    history=st.lists(st.integers(0, 2), max_size=9),
    others=st.integers(0, 2),
)
def test_the_ngram_rule_forbids_exactly_what_would_repeat(size: int, history: list[int], others: int) -> None:
    rows = torch.tensor([history] + [[2] * len(history)] * others, dtype=torch.int64).view(1 + others, -1)
    logprobs = torch.zeros(1 + others, 3)
    trail = Trail(1 + others)
    for column in rows.T.numpy():
        trail.append(np.arange(1 + others), column, np.zeros(1 + others))
    NoRepeatNgram(size)(logprobs, trail, np.arange(1 + others))
    for row, allowed in zip(rows.tolist(), logprobs.isfinite().tolist(), strict=True):
        for token in range(3):
            assert allowed[token] != _repeats_after([*row, token], size, len(row))


@both
@settings(max_examples=40)
@given(data=st.data())
def test_a_forced_prefix_begins_the_translation_and_is_paid_for(search: Search, data: st.DataObject) -> None:
    toy = Toy.random(data.draw(st.integers(0, 10**6)), 6)
    limits = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    prefixes = [data.draw(st.lists(st.integers(1, 5), max_size=limit)) for limit in limits]
    config = DecodeConfig(beam_size=data.draw(st.integers(1, 4)), min_length=data.draw(st.integers(0, 2)))
    batch = search(toy, config, limits, prefixes=prefixes, forbidden=[1])
    for source, (prefix, found) in enumerate(zip(prefixes, batch, strict=True)):
        (one,) = found
        expected = hypothesis(toy, source, one.tokens, config, END)
        assert one.tokens[: len(prefix)] == prefix
        assert 1 not in one.tokens[len(prefix) :]
        assert len(one.tokens) <= limits[source]
        assert one.finished == expected.finished
        assert one.score == pytest.approx(expected.score, abs=FLOAT64)
        assert one.token_logprobs == pytest.approx(expected.token_logprobs, abs=FLOAT64)


def test_prefixes_of_neighbours_change_nothing() -> None:
    toy = Toy.random(11, 7)
    config = DecodeConfig(beam_size=3, n_best=3, no_repeat_ngram=2)
    prefixes = [[], [3, 4, 3], [6], [2, 2, 2, 2, 2]]
    together = by_beam(toy, config, [8] * 4, prefixes=prefixes)
    for source, prefix in enumerate(prefixes):
        state = toy.start([source])
        alone = search_for(toy.step, state, 1, config, bos_id=BOS, eos_id=END, limits=[8], prefixes=[prefix])
        assert together[source] == alone[0]
        # While the prefix lasts there is one hypothesis to extend.
        assert state.asked[: len(prefix) + 1] == [1] * (len(prefix) + 1)


def test_a_prefix_as_long_as_the_limit_is_the_translation() -> None:
    (found,) = by_beam(Toy.random(2, 4), DecodeConfig(beam_size=3, n_best=3), [3], prefixes=[[1, 2, 3]])
    assert [(one.tokens, one.finished) for one in found] == [([1, 2, 3], False)]


@both
@pytest.mark.parametrize(
    ("prefixes", "said"),
    [
        ([[1], [1, END]], "source 2 holds the end token 0"),
        ([[1, 2, 3, 1, 2], []], "source 1 has 5 tokens, and its translation at most 4"),
        ([[1], [-1]], "source 2 holds the id -1, below 0"),
        ([[], [3, 4]], "the id 4, and the target vocabulary has 4"),
        ([[1]], "2 sources was given 1 prefixes"),
    ],
)
def test_prefixes_that_cannot_be_met_are_an_error(search: Search, prefixes: list[list[int]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        search(Toy.random(0, 4), DecodeConfig(), [4, 4], prefixes=prefixes)


@both
def test_where_the_rules_leave_nothing_the_translation_ends_unfinished(search: Search) -> None:
    # Three tokens, none twice, and </s> only after five others.
    toy = Toy.random(4, 4)
    config = DecodeConfig(beam_size=2, no_repeat_ngram=1, min_length=5)
    for source, (one,) in enumerate(search(toy, config, [9, 9])):
        assert sorted(one.tokens) == [1, 2, 3]
        assert not one.finished
        assert one.score == pytest.approx(hypothesis(toy, source, one.tokens, config, END).score, abs=FLOAT64)
    for kind in ("gnmt", "power", "none"):
        config = DecodeConfig(beam_size=2, min_length=1, length_norm=kind)
        ((one,),) = search(toy, config, [9], forbidden=[1, 2, 3])
        assert (one.tokens, one.logprob, one.score, one.finished) == ([], 0.0, 0.0, False)


def test_a_dead_end_is_dropped_where_another_hypothesis_ends() -> None:
    # After 1 only 1 may come, which the rule forbids; 2 leads to </s> although it is less likely.
    def logits(source: int, prefix: tuple[int, ...]) -> Sequence[float]:
        if prefix[:1] == (1,):
            return [float("-inf"), 0.0, float("-inf")]
        return [-9.0, 2.0, 1.0] if not prefix else [3.0, -9.0, -9.0]

    config = DecodeConfig(beam_size=2, n_best=2, no_repeat_ngram=1, length_norm="none")
    (found,) = by_beam(Toy(logits, 3), config, [6])
    assert found[0].tokens == [2, END]
    assert all(one.finished for one in found)


def test_every_combination_of_rules_runs_in_every_search() -> None:
    toy = Toy.random(9, 6)
    for minimum, size, forbidden, prefix in itertools.product((0, 2), (0, 2), ((), (1,)), ([], [2, 3])):
        config = DecodeConfig(beam_size=3, n_best=2, min_length=minimum, no_repeat_ngram=size)
        for search in (by_beam, by_drawing):
            for found in search(toy, config, [7, 7], forbidden=forbidden, prefixes=[prefix, []]):
                for one in found:
                    assert not one.finished or len(one.tokens) > minimum
                    assert not set(forbidden) & set(one.tokens[len(prefix) :])
                    assert not size or not repeats(one.tokens, size)
