"""Beam search: against enumeration, against a plain beam search, and by hand-made examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_toys import BOS, Toy, enumerated, hypothesis, norm, plain_beam, plain_greedy
from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis, length_norm
from dragoman.decoding import search as search_for
from dragoman.decoding.length import best_reachable
from dragoman.errors import DataError, RunError
from tolerances import FLOAT64, LOGPROB

NORMS = ["gnmt", "power", "none"]
PENALTIES = [-0.5, 0.0, 0.6, 1.0, 1.7]


def search(
    toy: Toy, sources: int | Sequence[int], config: DecodeConfig, eos_id: int, limit: int | Sequence[int], **more: Any
) -> list[list[Hypothesis]]:
    state = toy.start(sources)
    limits = [limit] * len(state.sources) if isinstance(limit, int) else limit
    return search_for(toy.step, state, len(state.sources), config, bos_id=BOS, eos_id=eos_id, limits=limits, **more)


def tokens_of(found: Sequence[Hypothesis]) -> list[list[int]]:
    return [one.tokens for one in found]


def assert_same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis], tolerance: float = FLOAT64) -> None:
    assert tokens_of(found) == tokens_of(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.finished == other.finished
        assert one.logprob == pytest.approx(other.logprob, abs=tolerance)
        assert one.score == pytest.approx(other.score, abs=tolerance)
        assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=tolerance)


# -- against enumeration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length_norm", NORMS)
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("vocabulary", "limit"), [(2, 4), (3, 4), (4, 3), (5, 2), (5, 4), (3, 1)])
def test_a_wide_beam_finds_what_enumeration_finds(
    length_norm: str, penalty: float, vocabulary: int, limit: int
) -> None:
    beam_size = vocabulary ** (limit - 1)
    eos_id = vocabulary // 2
    for seed in range(3):
        config = DecodeConfig(
            beam_size=beam_size, length_norm=length_norm, length_penalty=penalty, n_best=min(beam_size, 1 + 3 * seed)
        )
        toy = Toy.random(seed, vocabulary)
        for source, found in enumerate(search(toy, 2, config, eos_id, limit)):
            assert_same(found, enumerated(toy, source, config, eos_id, limit))


@settings(max_examples=60)
@given(data=st.data())
def test_a_wide_beam_finds_what_enumeration_finds_in_any_setting(data: st.DataObject) -> None:
    vocabulary = data.draw(st.integers(2, 4))
    limits = data.draw(st.lists(st.integers(1, 4 if vocabulary < 4 else 3), min_size=1, max_size=3))
    beam_size = vocabulary ** (max(limits) - 1)
    config = DecodeConfig(
        beam_size=beam_size,
        length_norm=data.draw(st.sampled_from(NORMS)),
        length_penalty=data.draw(st.sampled_from(PENALTIES)),
        n_best=data.draw(st.integers(1, beam_size)),
    )
    eos_id = data.draw(st.integers(0, vocabulary - 1))
    toy = Toy.random(data.draw(st.integers(0, 10**6)), vocabulary, spread=data.draw(st.sampled_from([0.3, 1.0, 3.0])))
    for source, found in enumerate(search(toy, len(limits), config, eos_id, limits)):
        assert_same(found, enumerated(toy, source, config, eos_id, limits[source]))


# -- against a plain beam search, small beams and equal numbers included -----------------------------------------------


@st.composite
def cases(draw: st.DrawFn, *, largest_beam: int = 5) -> tuple[Toy, DecodeConfig, int, list[int]]:
    vocabulary = draw(st.integers(2, 14))
    beam_size = draw(st.integers(1, largest_beam))
    config = DecodeConfig(
        beam_size=beam_size,
        length_norm=draw(st.sampled_from(NORMS)),
        length_penalty=draw(st.sampled_from(PENALTIES)),
        n_best=draw(st.integers(1, beam_size)),
        stop_after=draw(st.sampled_from([0, 0, 1, 2, 5])),
    )
    toy = Toy.random(draw(st.integers(0, 10**6)), vocabulary, whole=draw(st.booleans()))
    limits = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    return toy, config, draw(st.integers(0, vocabulary - 1)), limits


@settings(max_examples=150)
@given(case=cases())
def test_small_beams_and_ties_are_as_in_a_plain_search_to_the_limit(
    case: tuple[Toy, DecodeConfig, int, list[int]],
) -> None:
    toy, config, eos_id, limits = case
    if config.beam_size == 1:
        expected = [[plain_greedy(toy, source, eos_id, limit)] for source, limit in enumerate(limits)]
    else:
        expected = [plain_beam(toy, source, config, eos_id, limit) for source, limit in enumerate(limits)]
    assert [tokens_of(found) for found in search(toy, len(limits), config, eos_id, limits)] == expected


@given(case=cases(largest_beam=1))
def test_a_beam_of_one_is_greedy_whatever_the_norm(case: tuple[Toy, DecodeConfig, int, list[int]]) -> None:
    toy, config, eos_id, limits = case
    for source, found in enumerate(search(toy, len(limits), config, eos_id, limits)):
        tokens = plain_greedy(toy, source, eos_id, limits[source])
        assert_same(found, [hypothesis(toy, source, tokens, config, eos_id)])


@given(case=cases(), order=st.randoms(use_true_random=False))
def test_neighbours_and_their_order_change_nothing(case: tuple[Toy, DecodeConfig, int, list[int]], order: Any) -> None:
    toy, config, eos_id, limits = case
    alone = [search(toy, [source], config, eos_id, [limit])[0] for source, limit in enumerate(limits)]
    assert search(toy, len(limits), config, eos_id, limits) == alone
    sources = list(range(len(limits)))
    order.shuffle(sources)
    mixed = search(toy, sources, config, eos_id, [limits[source] for source in sources])
    assert mixed == [alone[source] for source in sources]


@given(case=cases())
def test_results_are_sorted_distinct_and_scored_as_the_model_scores_them(
    case: tuple[Toy, DecodeConfig, int, list[int]],
) -> None:
    toy, config, eos_id, limits = case
    for source, found in enumerate(search(toy, len(limits), config, eos_id, limits)):
        assert 1 <= len(found) <= config.n_best
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert len({tuple(one.tokens) for one in found}) == len(found)
        assert_same(found, [hypothesis(toy, source, one.tokens, config, eos_id) for one in found])
        for one in found:
            assert one.tokens.count(eos_id) == one.finished
            assert len(one.tokens) <= limits[source]
            assert one.finished or len(one.tokens) == limits[source]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_low_precision_logits_are_summed_in_float32_or_better(dtype: torch.dtype) -> None:
    toy = Toy.random(3, 6)
    exact = Toy(lambda source, prefix: torch.tensor(toy.logits(source, prefix)).to(dtype).tolist(), 6)
    config = DecodeConfig(beam_size=4, n_best=4)
    low = Toy(toy.logits, 6, dtype)
    for found, expected in zip(search(low, 3, config, 0, 12), search(exact, 3, config, 0, 12), strict=True):
        assert_same(found, expected, LOGPROB / 100)


def test_float64_logits_are_not_rounded_to_float32() -> None:
    close = Toy(lambda source, prefix: [0.0, 1.0, 1.0 + 1e-12], 3)
    assert tokens_of(search(close, 1, DecodeConfig(beam_size=1), 0, 2)[0]) == [[2, 2]]


# -- the rules one by one, by hand -------------------------------------------------------------------------------------


def from_table(table: dict[tuple[int, ...], Sequence[float]], vocabulary: int) -> Toy:
    """A model that gives the probabilities of a table, and where that has none, an even chance of each token."""

    def logits(source: int, prefix: tuple[int, ...]) -> Sequence[float]:
        probabilities = table.get(prefix, [1 / vocabulary] * vocabulary)
        assert math.isclose(sum(probabilities), 1.0)
        return [math.log(value) if value else -math.inf for value in probabilities]

    return Toy(logits, vocabulary)


A, B, C, END = 0, 1, 2, 3


def test_the_end_counts_only_among_the_first_candidates() -> None:
    # Third of four candidates in step 1 with a beam of 2: </s> alone (0.2) is lost although everything after is worse.
    table = {
        (): [0.38, 0.35, 0.07, 0.2],
        **{(first,): [0.25, 0.25, 0.25, 0.25] for first in (A, B)},
        **{(first, second): [0.01, 0.01, 0.01, 0.97] for first in (A, B, C) for second in (A, B, C)},
    }
    config = DecodeConfig(beam_size=2, length_norm="none")
    (found,) = search(from_table(table, 4), 1, config, END, 3)
    assert found[0].tokens == [A, A, END]
    assert found[0].logprob < math.log(0.2)
    (found,) = search(from_table(table, 4), 1, config.changed(beam_size=3), END, 3)
    assert found[0].tokens == [END]


def test_as_many_open_hypotheses_go_on_as_the_beam_holds_though_some_ended() -> None:
    # With a beam of 2, </s> takes one of the first two places and two hypotheses go on all the same.
    toy = from_table({(): [0.3, 0.25, 0.05, 0.4]}, 4)
    state = toy.start(1)
    search_for(toy.step, state, 1, DecodeConfig(beam_size=2, length_penalty=1.0), bos_id=BOS, eos_id=END, limits=[6])
    assert state.asked[:2] == [1, 2]


def test_a_longer_hypothesis_may_win_late_when_the_norm_grows() -> None:
    # ln 0.30 / 1 = -1.20 for </s> at once; A A A A </s> has ln 0.165 = -1.80, and -1.80 / (10/6) = -1.08.
    sure = [0.9, 0.04, 0.03, 0.03]
    table = {
        (): [0.28, 0.22, 0.2, 0.3],
        (A,): sure,
        (A, A): sure,
        (A, A, A): sure,
        (A, A, A, A): [0.07, 0.02, 0.01, 0.9],
    }
    toy = from_table(table, 4)
    for penalty, winner in ((1.0, [A, A, A, A, END]), (0.0, [END])):
        (found,) = search(toy, 1, DecodeConfig(beam_size=2, length_penalty=penalty), END, 8)
        assert found[0].tokens == winner


@pytest.mark.parametrize(
    ("changes", "limit", "steps"),
    [
        # </s> at once has ln 0.5. Without a norm the best open one, ln 0.3, has lost already.
        ({"length_norm": "none"}, 9, 1),
        ({"length_penalty": 0.0}, 9, 1),
        # gnmt, A = 1: ln 0.3 · 6/7 < ln 0.5 loses at limit 2; at limit 9 it might reach -1.204 / (14/6) = -0.52.
        ({}, 2, 1),
        ({}, 9, 2),
        # A < 0: the norm falls with the length, so that the next token bounds what can come.
        ({"length_penalty": -1.0}, 9, 1),
        # Three translations wanted: </s> alone does not end the search, and A </s>, B </s> finish in the next step.
        ({"length_norm": "none", "n_best": 3, "beam_size": 3}, 9, 2),
    ],
)
def test_the_search_ends_as_soon_as_no_open_hypothesis_can_win(changes: dict[str, Any], limit: int, steps: int) -> None:
    table = {(): [0.3, 0.15, 0.05, 0.5], (A,): [0.02, 0.02, 0.01, 0.95], (B,): [0.02, 0.02, 0.01, 0.95]}
    toy = from_table(table, 4)
    state = toy.start(1)
    config = DecodeConfig(**{"beam_size": 2, **changes})
    search_for(toy.step, state, 1, config, bos_id=BOS, eos_id=END, limits=[limit])
    assert len(state.asked) == steps


@given(
    length_norm=st.sampled_from(NORMS),
    penalty=st.floats(-2, 2),
    logprob=st.floats(-50, 0),
    n=st.integers(0, 20),
    more=st.integers(1, 20),
)
def test_the_bound_on_what_can_be_reached_holds_and_is_tight(
    length_norm: str, penalty: float, logprob: float, n: int, more: int
) -> None:
    config = DecodeConfig(length_norm=length_norm, length_penalty=penalty)
    reachable = max(logprob / norm(config, later) for later in range(n + 1, n + more + 1))
    assert best_reachable(config, logprob, n, n + more) == pytest.approx(reachable)


@pytest.mark.parametrize("kind", NORMS)
def test_the_length_norms(kind: str) -> None:
    for penalty in PENALTIES:
        config = DecodeConfig(length_norm=kind, length_penalty=penalty)
        for n in (1, 2, 7, 100):
            assert length_norm(config, n) == pytest.approx(norm(config, n))
    assert length_norm(DecodeConfig(length_norm="gnmt", length_penalty=1.0), 7) == 2.0
    assert length_norm(DecodeConfig(length_norm="power", length_penalty=0.5), 9) == 3.0


def test_unfinished_hypotheses_compete_at_the_limit() -> None:
    # A A (0.36, unfinished) beats </s> (0.3) and loses to it when the limit lets it go on to worse.
    table = {(): [0.6, 0.05, 0.05, 0.3], (A,): [0.6, 0.2, 0.1, 0.1]}
    config = DecodeConfig(beam_size=2, n_best=2, length_norm="none")
    (found,) = search(from_table(table, 4), 1, config, END, 2)
    assert [(one.tokens, one.finished) for one in found] == [([A, A], False), ([END], True)]
    (found,) = search(from_table(table, 4), 1, config, END, 3)
    assert (found[0].tokens, found[0].finished) == ([END], True)


def test_each_source_keeps_its_own_limit() -> None:
    never = Toy(lambda source, prefix: [2.0, 1.0, 0.0, -50.0], 4)
    for beam_size in (1, 3):
        found = search(never, 4, DecodeConfig(beam_size=beam_size), END, [5, 1, 3, 5])
        assert [found_.tokens for (found_,) in found] == [[A] * 5, [A], [A] * 3, [A] * 5]
        assert not any(one.finished for (one,) in found)


def test_rows_of_finished_sentences_leave_the_batch() -> None:
    # Source s ends after s tokens.
    toy = Toy(lambda source, prefix: [0.0, -1.0, -2.0, 9.0 if len(prefix) >= source else -9.0], 4)
    state = toy.start(4)
    config = DecodeConfig(beam_size=2, length_norm="none")
    found = search_for(toy.step, state, 4, config, bos_id=BOS, eos_id=END, limits=[9] * 4)
    assert [one.tokens for (one,) in found] == [[A] * n + [END] for n in range(4)]
    assert state.asked == [4, 6, 4, 2]
    state = toy.start(4)
    search_for(toy.step, state, 4, DecodeConfig(beam_size=1), bos_id=BOS, eos_id=END, limits=[9] * 4)
    assert state.asked == [4, 3, 2, 1]


def test_a_beam_wider_than_the_vocabulary_asks_for_no_dead_rows() -> None:
    toy = Toy(lambda source, prefix: [0.0, 0.1, -30.0], 3)
    state = toy.start(2)
    search_for(toy.step, state, 2, DecodeConfig(beam_size=64), bos_id=BOS, eos_id=2, limits=[5, 5])
    assert state.asked == [2, 4, 8, 16, 32]


def test_of_equal_candidates_the_earlier_hypothesis_and_the_lower_id_win() -> None:
    flat = Toy(lambda source, prefix: [0.0] * 300, 300)
    (found,) = search(flat, 1, DecodeConfig(beam_size=3, n_best=3), 299, 2)
    assert tokens_of(found) == [[0, 0], [0, 1], [0, 2]]


def test_tokens_of_no_probability_are_never_taken() -> None:
    toy = from_table({(): [0.5, 0.5, 0.0, 0.0], (A,): [0.0, 0.0, 0.0, 1.0], (B,): [0.0, 0.0, 0.0, 1.0]}, 4)
    (found,) = search(toy, 1, DecodeConfig(beam_size=4, n_best=4), END, 5)
    assert tokens_of(found) == [[A, END], [B, END]]


def test_no_sources_give_no_translations() -> None:
    assert search(Toy.random(0, 4), 0, DecodeConfig(), END, 5) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_logits_that_are_not_numbers_are_an_error(bad: float, beam_size: int) -> None:
    toy = Toy(lambda source, prefix: [0.0, bad if len(prefix) == 2 and source == 1 else 0.5, 0.0, -9.0], 4)
    with pytest.raises(RunError, match="NaN or infinite"):
        search(toy, 3, DecodeConfig(beam_size=beam_size), END, 5)


def test_a_row_without_any_probability_is_an_error() -> None:
    with pytest.raises(RunError, match="NaN or infinite"):
        search(Toy(lambda source, prefix: [-math.inf] * 4, 4), 1, DecodeConfig(), END, 5)


@pytest.mark.parametrize(("limits", "said"), [([3], "2 sources was given 1 limits"), ([3, 0], "source 2 may have 0")])
def test_impossible_limits_are_an_error(limits: list[int], said: str) -> None:
    with pytest.raises(DataError, match=said):
        search(Toy.random(0, 4), 2, DecodeConfig(), END, limits)


def test_a_search_that_stops_early_takes_fewer_steps() -> None:
    """And what it finds is no better."""
    steps = []

    class Counting(Toy):
        def step(self, *arguments: Any) -> Any:
            steps.append(1)
            return super().step(*arguments)

    found = {}
    for stop_after in (0, 1, 2):
        steps.clear()
        toy = Counting.random(3, 6)
        config = DecodeConfig(beam_size=4, length_penalty=1.7, stop_after=stop_after)
        ((best,),) = search(toy, 1, config, 2, 12)
        found[stop_after] = len(steps), best.score
    assert found[1][0] < found[2][0] < found[0][0]
    assert found[1][1] <= found[2][1] <= found[0][1]
