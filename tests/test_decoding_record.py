"""The record of a beam search against the search itself, and its fates by a hand-made example."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoding_toys import BOS, Toy, norm
from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis, make_search
from dragoman.decoding.beam import BeamSearch
from dragoman.decoding.record import SearchRecord, record_search
from tolerances import FLOAT64


def recorded(
    toy: Toy, config: DecodeConfig, eos_id: int, limit: int, **request: Any
) -> tuple[SearchRecord, list[Hypothesis]]:
    search = make_search(1, config, eos_id=eos_id, limits=[limit], **request)
    assert isinstance(search, BeamSearch)
    record = record_search(search, toy.step, toy.start(1), config, limit=limit, bos_id=BOS, eos_id=eos_id)
    return record, search.results[0]


@given(data=st.data())
def test_the_record_tells_what_the_search_did(data: st.DataObject) -> None:
    vocabulary = data.draw(st.integers(2, 6))
    beam_size = data.draw(st.integers(1, 5))
    limit = data.draw(st.integers(1, 6))
    eos_id = data.draw(st.integers(0, vocabulary - 1))
    config = DecodeConfig(
        beam_size=beam_size,
        n_best=data.draw(st.integers(1, beam_size)),
        length_norm=data.draw(st.sampled_from(["gnmt", "power", "none"])),
        length_penalty=data.draw(st.sampled_from([-0.5, 0.0, 1.0, 1.7])),
    )
    toy = Toy.random(data.draw(st.integers(0, 10**6)), vocabulary, whole=data.draw(st.booleans()))
    record, results = recorded(toy, config, eos_id, limit)
    assert [record.tokens(place) for place in record.results] == [one.tokens for one in results]
    for place, one in zip(record.results, results, strict=True):
        assert record.candidates[place].score == pytest.approx(one.score, abs=FLOAT64)
        assert record.candidates[place].fate == ("finished" if one.finished else "unfinished")
    for place, one in enumerate(record.candidates):
        tokens = record.tokens(place)
        logprobs = toy.token_logprobs(0, tokens)
        assert (len(tokens), tokens[-1]) == (one.n, one.token)
        assert one.logprob == pytest.approx(logprobs[-1], abs=FLOAT64)
        assert one.total == pytest.approx(math.fsum(logprobs), abs=FLOAT64)
        assert one.score == pytest.approx(one.total / norm(config, one.n), abs=FLOAT64)
        # Only what goes on has children.
        assert one.parent is None or record.candidates[one.parent].fate == "going"
    for standing in record.standings:
        own = [one for one in record.candidates if one.n == standing.n]
        assert [one.rank for one in own] == list(range(len(own)))
        assert len(own) <= 2 * beam_size
        assert sum(one.fate in ("going", "left", "unfinished") for one in own) <= beam_size
        assert [one.total for one in own] == sorted((one.total for one in own), reverse=True)
        # The search goes on just while some hypothesis does, and ends for good.
        assert any(one.fate == "going" for one in own) == (standing.n < len(record.standings))


def table(rows: dict[tuple[int, ...], Sequence[float]]) -> Toy:
    """A toy by the probabilities of its tokens 0, 1 and 2 (</s>) after each prefix."""
    return Toy(lambda source, prefix: [math.log(share) for share in rows[prefix]], 3)


def test_the_fate_of_every_candidate() -> None:
    """Beam of two, no length norm: worked out by hand."""
    toy = table(
        {
            (): (0.6, 0.3, 0.1),
            (0,): (0.05, 0.05, 0.9),
            (1,): (0.5, 0.1, 0.4),
        }
    )
    config = DecodeConfig(beam_size=2, length_norm="none")
    record, results = recorded(toy, config, eos_id=2, limit=5)
    seen = [(record.tokens(place), one.rank, one.fate) for place, one in enumerate(record.candidates)]
    assert seen == [
        ([0], 0, "going"),
        ([1], 1, "going"),
        ([2], 2, "late"),
        ([0, 2], 0, "finished"),
        ([1, 0], 1, "left"),
        ([1, 2], 2, "late"),
        ([0, 0], 3, "left"),
    ]
    assert [one.tokens for one in results] == [[0, 2]]
    first, last = record.standings
    assert (first.best_ended, last.best_ended) == (None, pytest.approx(math.log(0.54)))
    assert last.reachable == pytest.approx(math.log(0.15))


def test_what_the_limit_ends_competes_unfinished() -> None:
    toy = table({(): (0.6, 0.3, 0.1), (0,): (0.5, 0.4, 0.1), (1,): (0.8, 0.1, 0.1)})
    record, results = recorded(toy, DecodeConfig(beam_size=2, n_best=2, length_norm="none"), eos_id=2, limit=2)
    assert [record.tokens(place) for place in record.results] == [[0, 0], [0, 1]] == [one.tokens for one in results]
    assert [one.fate for one in record.candidates[3:]] == ["unfinished", "unfinished", "pruned", "late"]
    assert record.standings[-1].reachable is None


def test_where_the_rules_leave_nothing_the_hypotheses_end_as_they_are() -> None:
    """No bigram may come twice and </s> may not come yet: after 0 0 0 of a vocabulary of one word nothing can."""
    toy = Toy(lambda source, prefix: [0.0, -1.0], 2)
    config = DecodeConfig(beam_size=2, no_repeat_ngram=2, min_length=9)
    record, results = recorded(toy, config, eos_id=1, limit=9)
    assert [record.tokens(place) for place in record.results] == [one.tokens for one in results] == [[0, 0]]
    assert record.candidates[-1].fate == "unfinished"


def test_a_forced_prefix_is_recorded() -> None:
    record, results = recorded(Toy.random(3, 5), DecodeConfig(beam_size=3), eos_id=4, limit=6, prefixes=[[2, 1]])
    assert record.tokens(record.results[0])[:2] == [2, 1] == results[0].tokens[:2]
    assert [one.token for one in record.candidates if one.n == 1] == [2]
