"""What the searches share: log-probabilities, the best tokens of a row, forced scoring."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decoding_toys import BOS, Toy, hypothesis
from dragoman.config import DecodeConfig
from dragoman.decoding import score_targets, search
from dragoman.decoding.step import best_tokens, log_probabilities
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


def test_log_probabilities_are_float32_or_better_and_leave_the_logits_alone() -> None:
    for dtype, expected in ((torch.float16, torch.float32), (torch.bfloat16, torch.float32), (torch.float64,) * 2):
        logits = torch.randn(3, 5, dtype=torch.float64).to(dtype)
        kept = logits.clone()
        result = log_probabilities(logits)
        result[:] = 0.0
        assert result.dtype == expected
        assert torch.equal(logits, kept)


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
