"""What the searches share: log-probabilities, the best tokens of a row, forced scoring."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding_toys import BOS, Toy, hypothesis
from dragoman.config import DecodeConfig
from dragoman.decoding import candidates, score_targets, search
from dragoman.decoding.candidates import best_candidates
from dragoman.decoding.step import best_tokens, log_probabilities
from dragoman.decoding.trail import Trail
from dragoman.errors import DataError, RunError
from tolerances import FLOAT64

END = 3


@given(
    rows=st.integers(1, 4),
    vocabulary=st.integers(1, 40),
    count=st.integers(1, 12),
    levels=st.integers(1, 6),
    seed=st.integers(0, 10**6),
    never=st.booleans(),
)
def test_the_best_tokens_are_those_of_a_stable_sort(
    rows: int, vocabulary: int, count: int, levels: int, seed: int, never: bool
) -> None:
    numbers = np.random.default_rng(seed).integers(-levels, 1, (rows, vocabulary)).astype(np.float32)
    if never:
        numbers[numbers == -levels] = -math.inf
    values, tokens = best_tokens(torch.tensor(numbers), count)
    assert values.dtype == torch.float64
    assert values.shape == tokens.shape == (rows, min(count, vocabulary))
    for row in range(rows):
        order = np.argsort(-numbers[row], kind="stable")[:count]
        assert values[row].tolist() == numbers[row][order].tolist()
        finite = np.isfinite(numbers[row][order])
        assert tokens[row].numpy()[finite].tolist() == order[finite].tolist()
        assert set(tokens[row].tolist()) <= set(range(vocabulary))


def test_equal_values_in_a_large_vocabulary_give_the_lower_ids() -> None:
    numbers = torch.zeros(2, 50_000)
    numbers[0, 40_000] = numbers[1, 49_999] = numbers[1, 7] = 1.0
    assert best_tokens(numbers, 4)[1].tolist() == [[40_000, 0, 1, 2], [7, 49_999, 0, 1]]


def test_where_nothing_can_come_the_places_still_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last group of tokens is not full, and all that is in it is dead."""
    monkeypatch.setattr(candidates, "_SMALL", 0)
    for vocabulary in (193, 200, 255, 330):
        for alive in (0, 1, 3):
            logprobs = torch.full((2, vocabulary), -math.inf)
            logprobs[0, :alive] = -1.0
            found = best_candidates(logprobs, np.zeros((2, 1)), 2)
            assert np.isfinite(found.sums).sum(1).tolist() == [min(alive, 2), 0]
            assert found.rows.tolist() == [[0, 0], [1, 1]]
            assert (found.tokens < vocabulary).all()


@settings(max_examples=150)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 900)),
    count=st.integers(1, 9),
    levels=st.sampled_from([1, 3, 1000]),
    seed=st.integers(0, 10**6),
    small=st.sampled_from([0, 1 << 16]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_the_best_continuations_are_those_of_a_stable_sort(
    shape: tuple[int, int, int], count: int, levels: int, seed: int, small: int, dtype: torch.dtype
) -> None:
    """Found in groups of tokens or in one go, among few values or many, with dead hypotheses and tokens."""
    n, width, vocabulary = shape
    generator = np.random.default_rng(seed)
    numbers = generator.integers(-levels, 1, (n * width, vocabulary)) / 8
    numbers[generator.random(numbers.shape) < 0.1] = -math.inf
    sums = generator.integers(-2, 1, (n, width)) / 4
    sums[generator.random(sums.shape) < 0.2] = -math.inf
    logprobs = torch.tensor(numbers, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "_SMALL", small)
        found = best_candidates(logprobs, sums, count)
    count = min(count, width * vocabulary)
    assert found.sums.shape == found.rows.shape == found.tokens.shape == found.logprobs.shape == (n, count)
    for place in range(n):
        totals = (sums[place][:, None] + numbers[place * width : (place + 1) * width]).reshape(-1)
        order = np.argsort(-totals, kind="stable")[:count]
        finite = np.isfinite(totals[order])
        assert found.sums[place].tolist() == totals[order].tolist()
        own = (found.rows[place] - place * width) * vocabulary + found.tokens[place]
        assert own[finite].tolist() == order[finite].tolist()
        assert found.logprobs[place].tolist() == numbers[found.rows[place], found.tokens[place]].tolist()


def test_a_large_vocabulary_is_searched_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a vocabulary that is no multiple of the groups counts, its last token too."""
    for vocabulary in (256, 257, 511, 512, 8001):
        # No two are equal, or all tokens would be looked at.
        logprobs = -9.0 - torch.linspace(0.0, 1.0, vocabulary).repeat(300, 1)
        logprobs[:, vocabulary - 1] = -1.0
        logprobs[:, vocabulary // 2] = -2.0
        monkeypatch.setattr(candidates, "_SMALL", 0)
        found = best_candidates(logprobs, np.tile([0.0, -0.3, -0.7], (100, 1)), 4)
        assert set(found.tokens[:, :3].reshape(-1).tolist()) == {vocabulary - 1}
        assert found.rows[7].tolist() == [21, 22, 23, 21]
        assert set(found.tokens[:, 3].tolist()) == {vocabulary // 2}


def test_a_trail_is_read_backwards() -> None:
    trail = Trail(2)
    trail.append(np.array([1, 0, 1]), np.array([5, 6, 7]), np.array([-0.5, -0.25, -0.125]))
    trail.append(np.array([2, 2]), np.array([8, 9]), np.array([-1.0, -2.0]))
    assert (trail.length, trail.rows) == (2, 2)
    assert trail.history().tolist() == [[7, 8], [7, 9]]
    assert trail.history([1]).tolist() == [[7, 9]]
    assert trail.back(0, 2) == ([7, 8], [-0.125, -1.0])
    assert trail.back(1, 1) == ([6], [-0.25])
    assert trail.back(1, 0) == ([], [])


def test_log_probabilities_are_float32_or_better_and_leave_the_logits_alone() -> None:
    for dtype, expected in ((torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float64,) * 2):
        logits = torch.randn(3, 5, dtype=torch.float64).to(dtype)
        kept = logits.clone()
        result = log_probabilities(logits)
        result[:] = 0.0
        assert result.dtype == expected
        assert torch.equal(logits, kept)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (40, 6000), (2, 100_000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_probabilities_in_the_memory_of_the_logits_are_the_same(shape: tuple[int, int], dtype: torch.dtype) -> None:
    logits = 3.0 * torch.randn(shape, dtype=dtype)
    logits[0, -1] = -1e30
    expected = log_probabilities(logits)
    result = log_probabilities(logits, in_place=True)
    assert result.data_ptr() == logits.data_ptr()
    assert torch.equal(result, expected)
    # Columns of a larger table, and a type that is not computed in: what was given stays.
    for other in (torch.randn(4, 6, dtype=dtype)[:, 1:], torch.randn(4, 6).to(torch.bfloat16)):
        kept = other.clone()
        assert torch.equal(log_probabilities(other, in_place=True), log_probabilities(kept))
        assert torch.equal(other, kept)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_one_bad_logit_anywhere_is_an_error(bad: float, place: int) -> None:
    logits = torch.zeros(3, 5)
    logits[1, place] = bad
    with pytest.raises(RunError, match="NaN or infinite"):
        log_probabilities(logits)


def test_a_token_without_probability_is_not_an_error() -> None:
    logits = torch.zeros(1, 3)
    logits[0, 0] = -math.inf
    assert log_probabilities(logits)[0].tolist() == pytest.approx([-math.inf, -math.log(2), -math.log(2)])


@given(
    seed=st.integers(0, 10**6),
    targets=st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=4),
    kind=st.sampled_from(["gnmt", "power", "none"]),
)
def test_forced_scores_are_the_models(seed: int, targets: list[list[int]], kind: str) -> None:
    toy = Toy.random(seed, 5)
    config = DecodeConfig(length_norm=kind, length_penalty=0.6)
    state = toy.start(len(targets))
    found = score_targets(toy.step, state, targets, config, bos_id=BOS, eos_id=END)
    for source, (target, one) in enumerate(zip(targets, found, strict=True)):
        assert one.tokens == target
        if target:
            expected = hypothesis(toy, source, target, config, END)
            assert one.finished == expected.finished
            assert one.score == pytest.approx(expected.score, abs=FLOAT64)
            assert one.logprob == pytest.approx(expected.logprob, abs=FLOAT64)
            assert one.token_logprobs == pytest.approx(expected.token_logprobs, abs=FLOAT64)
        else:
            assert (one.logprob, one.score, one.token_logprobs, one.finished) == (0.0, 0.0, [], False)
    # The first step is asked for all sources, the later ones for those that have tokens left.
    lengths = [len(target) for target in targets]
    left = [sum(length > n for length in lengths) for n in range(max(lengths, default=0))]
    assert state.asked == [len(targets)][: len(left)] + left[1:]


def test_a_search_reports_the_score_that_forcing_its_tokens_gives() -> None:
    toy = Toy.random(5, 8)
    config = DecodeConfig(beam_size=4, n_best=3)
    found = search(toy.step, toy.start(3), 3, config, bos_id=BOS, eos_id=END, limits=[4, 7, 10])
    for best in zip(*found, strict=True):
        forced = score_targets(toy.step, toy.start(3), [one.tokens for one in best], config, bos_id=BOS, eos_id=END)
        assert [one.finished for one in forced] == [one.finished for one in best]
        assert [one.score for one in forced] == pytest.approx([one.score for one in best], abs=FLOAT64)


@pytest.mark.parametrize("token", [-1, 5, 1000])
def test_ids_outside_the_vocabulary_cannot_be_scored(token: int) -> None:
    toy = Toy.random(0, 5)
    with pytest.raises(DataError, match=f"the id {token}, and the target vocabulary has 5"):
        score_targets(toy.step, toy.start(1), [[1, token]], DecodeConfig(), bos_id=BOS, eos_id=END)
