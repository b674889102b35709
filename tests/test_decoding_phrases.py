"""Phrases that have to appear: counting them, and the search that meets them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from decoding_toys import BOS, Toy, enumerated, hypothesis
from dragoman.config import DecodeConfig
from dragoman.decoding import Hypothesis, Phrase, score_targets
from dragoman.decoding import search as search_for
from dragoman.decoding.phrases import Tracker
from dragoman.errors import ConfigError
from tolerances import FLOAT64

END = 0


def search(
    toy: Toy,
    sources: Sequence[int],
    config: DecodeConfig,
    limits: Sequence[int],
    phrases: Sequence[Sequence[Phrase]],
    **more: Any,
) -> list[list[Hypothesis]]:
    state, n = toy.start(sources), len(sources)
    return search_for(
        toy.step, state, n, config, bos_id=BOS, eos_id=END, limits=limits, phrases=phrases, **more
    )  # fmt: skip


def occurrences(phrase: Phrase, tokens: Sequence[int]) -> int:
    """How often a phrase stands in some tokens, from the left and without overlap, by looking everywhere."""
    tokens = [token for token in tokens if token != END]
    found = at = 0
    while at < len(tokens):
        ends = [at + len(form) for form in phrase.forms if tuple(tokens[at : at + len(form)]) == form]
        ends = [end for end in ends if end == len(tokens) or tokens[end] not in phrase.inner]
        found += bool(ends)
        at = min(ends, default=at + 1)
    return found


def lacking(phrases: Sequence[Phrase], tokens: Sequence[int]) -> list[int]:
    return [
        place for place, phrase in enumerate(phrases) for _ in range(phrase.count - occurrences(phrase, tokens))
    ]  # fmt: skip


def phrase(*tokens: int, count: int = 1) -> Phrase:
    return Phrase((tokens,), count)


forms = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
# One form, so that "from the left" leaves no choice.
single = st.builds(
    lambda form, count, inner: Phrase((form,), count, frozenset(inner)),
    forms,
    st.integers(1, 2),
    st.sets(st.integers(1, 4), max_size=2),
)


@settings(max_examples=300)
@given(phrases=st.lists(single, max_size=3), tokens=st.lists(st.integers(1, 4), max_size=12))
@example(phrases=[phrase(1, 2, 1, 3)], tokens=[1, 2, 1, 2, 1, 3])
@example(phrases=[phrase(1, 1, count=2)], tokens=[1, 1, 1])
@example(phrases=[phrase(1, 1, count=2)], tokens=[1, 1, 1, 1])
@example(phrases=[phrase(1, 2), phrase(2, 3)], tokens=[1, 2, 3])
@example(phrases=[Phrase(((1, 2, 1),), 1, frozenset([2]))], tokens=[1, 2, 1, 2, 1])
def test_phrases_are_counted_as_by_looking_everywhere(phrases: list[Phrase], tokens: list[int]) -> None:
    tracker, state = Tracker(phrases), 0
    for token in tokens:
        state = tracker.after(state, token)
    assert list(tracker.unmet(state)) == lacking(phrases, tokens)
    assert (tracker.remaining[state] == 0) == (not lacking(phrases, tokens))
    assert 0 <= tracker.remaining[state] <= tracker.total == sum(one.count * one.length for one in phrases)


@settings(max_examples=100)
@given(
    phrases=st.lists(
        st.builds(lambda some, count: Phrase(tuple(some), count), st.lists(forms, min_size=1, max_size=3), st.just(1)),
        min_size=1,
        max_size=3,
    ),
    tokens=st.lists(st.integers(1, 4), max_size=8),
)
def test_any_form_of_a_phrase_will_do(phrases: list[Phrase], tokens: list[int]) -> None:
    tracker, state = Tracker(phrases), 0
    for token in tokens:
        state = tracker.after(state, token)
    met = [any(_stands(form, tokens) for form in one.forms) for one in phrases]
    assert tracker.unmet(state) == tuple(place for place, one in enumerate(met) if not one)


def _stands(form: tuple[int, ...], tokens: Sequence[int]) -> bool:
    return any(tuple(tokens[at : at + len(form)]) == form for at in range(len(tokens)))


@given(phrases=st.lists(single, min_size=1, max_size=3), tokens=st.lists(st.integers(1, 4), max_size=6))
def test_a_wanted_token_always_takes_the_phrases_further(phrases: list[Phrase], tokens: list[int]) -> None:
    """What makes a promise of the search: as many tokens as remain can meet what is unmet."""
    phrases = [Phrase(one.forms, one.count) for one in phrases]
    tracker, state = Tracker(phrases), 0
    for token in tokens:
        state = tracker.after(state, token)
    while tracker.remaining[state]:
        after = [tracker.after(state, token) for token in tracker.wanted[state]]
        best = min(after, key=lambda one: tracker.remaining[one])
        assert tracker.remaining[best] < tracker.remaining[state]
        state = best
    assert tracker.wanted[state] == ()


# -- the search --------------------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn, *, vocabulary: int = 3) -> tuple[Toy, list[Phrase]]:
    tokens = st.integers(1, vocabulary - 1)
    one = st.builds(
        lambda form, count, inner: Phrase((tuple(form),), count, frozenset(inner)),
        st.lists(tokens, min_size=1, max_size=2),
        st.integers(1, 2),
        st.sets(tokens, max_size=1),
    )
    seed, spread = draw(st.integers(0, 10**6)), draw(st.sampled_from([0.5, 1.0, 3.0]))
    return Toy.random(seed, vocabulary, spread=spread), draw(st.lists(one, min_size=1, max_size=2))


@settings(max_examples=120)
@given(
    case=cases(),
    limit=st.integers(1, 5),
    kind=st.sampled_from(["gnmt", "power", "none"]),
    penalty=st.sampled_from([0.0, 0.6, 1.0]),
    n_best=st.integers(1, 4),
)
def test_a_wide_beam_finds_the_best_that_holds_the_phrases(
    case: tuple[Toy, list[Phrase]], limit: int, kind: str, penalty: float, n_best: int
) -> None:
    """The order of everything that can be said: what lacks fewer phrases, what ends in spite of that, the score."""
    toy, phrases = case
    config = DecodeConfig(beam_size=3**5, n_best=n_best, length_norm=kind, length_penalty=penalty)
    ((*found,),) = search(toy, [0], config, [limit], [phrases])
    every = enumerated(toy, 0, config.model_copy(update={"beam_size": 10**6, "n_best": 10**6}), END, limit)
    unmet = {tuple(one.tokens): lacking(phrases, one.tokens) for one in every}
    expected = sorted(
        every,
        key=lambda one: (
            len(unmet[tuple(one.tokens)]),
            bool(unmet[tuple(one.tokens)]) and not one.finished,
            -one.score,
        ),
    )[:n_best]
    assert [one.tokens for one in found] == [one.tokens for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=FLOAT64)
    assert [one.unmet for one in found] == [lacking(phrases, one.tokens) for one in expected]


@settings(max_examples=120)
@given(data=st.data(), beam_size=st.integers(1, 5), seed=st.integers(0, 10**6), spread=st.sampled_from([1.0, 8.0]))
def test_phrases_that_fit_are_met_whatever_the_beam(
    data: st.DataObject, beam_size: int, seed: int, spread: float
) -> None:
    some = st.builds(
        lambda form, count, inner: Phrase((tuple(form),), count, frozenset(inner)),
        st.lists(st.integers(1, 6), min_size=1, max_size=4),
        st.integers(1, 2),
        st.sets(st.integers(7, 9), max_size=2),
    )
    batch = data.draw(st.lists(st.lists(some, min_size=0, max_size=3), min_size=1, max_size=3))
    needed = [sum(phrase.count * phrase.length for phrase in own) for own in batch]
    limits = [length + data.draw(st.integers(1, 6)) for length in needed]
    toy = Toy.random(seed, 10, spread=spread)
    config = DecodeConfig(beam_size=beam_size, n_best=data.draw(st.integers(1, beam_size)))
    for source, found in enumerate(search(toy, range(len(batch)), config, limits, batch)):
        assert found[0].unmet == []
        assert [one.score for one in found if not one.unmet] == sorted(
            (one.score for one in found if not one.unmet), reverse=True
        )
        assert len({tuple(one.tokens) for one in found}) == len(found)
        for one in found:
            assert one.unmet == lacking(batch[source], one.tokens)
            assert len(one.tokens) <= limits[source]
            assert one.finished == (one.tokens[-1] == END)
            expected = hypothesis(toy, source, one.tokens, config, END)
            assert one.score == pytest.approx(expected.score, abs=FLOAT64)
            assert one.token_logprobs == pytest.approx(expected.token_logprobs, abs=FLOAT64)


@given(
    batch=st.lists(st.lists(single, max_size=2), min_size=1, max_size=4),
    seed=st.integers(0, 10**6),
    order=st.randoms(use_true_random=False),
    beam_size=st.integers(1, 4),
)
def test_neighbours_and_their_order_change_nothing(
    batch: list[list[Phrase]], seed: int, order: Any, beam_size: int
) -> None:
    toy = Toy.random(seed, 6)
    config = DecodeConfig(beam_size=beam_size, n_best=min(2, beam_size))
    # Where no source has phrases the search is another one; the last has some.
    batch = [*batch, [phrase(4)]]
    limits = [9 + place for place in range(len(batch))]
    alone = [search(toy, [place], config, [limits[place]], [own])[0] for place, own in enumerate(batch) if own]
    places = list(range(len(batch)))
    order.shuffle(places)
    mixed = search(toy, places, config, [limits[p] for p in places], [batch[p] for p in places])
    together = {place: found for place, found in zip(places, mixed, strict=True) if batch[place]}
    assert [together[place] for place in sorted(together)] == alone


def test_the_score_is_that_of_forcing_the_tokens() -> None:
    toy = Toy.random(8, 9)
    config = DecodeConfig(beam_size=4, n_best=2)
    phrases = [[phrase(5, 6, 7)], [phrase(2), phrase(3, 3)], [phrase(8, count=2)]]
    for best in zip(*search(toy, range(3), config, [12] * 3, phrases), strict=True):
        forced = score_targets(toy.step, toy.start(3), [one.tokens for one in best], config, bos_id=BOS, eos_id=END)
        assert [one.score for one in forced] == pytest.approx([one.score for one in best], abs=FLOAT64)


def test_what_does_not_fit_is_said() -> None:
    toy = Toy.random(4, 7)
    ((found,),) = search(toy, [0], DecodeConfig(beam_size=3), [4], [[phrase(1, 2), phrase(3, 4, 5), phrase(6)]])
    assert found.unmet == lacking([phrase(1, 2), phrase(3, 4, 5), phrase(6)], found.tokens)
    assert len(found.unmet) == 1
    # Of the same phrase wanted three times, two fit.
    ((found,),) = search(toy, [0], DecodeConfig(beam_size=3), [5], [[phrase(1, 2, count=3)]])
    assert found.unmet == [0]


def test_what_the_rules_forbid_is_said_and_the_rest_is_a_translation() -> None:
    toy = Toy.random(4, 7)
    config = DecodeConfig(beam_size=3)
    ((found,),) = search(toy, [0], config, [12], [[phrase(1), phrase(6)]], forbidden=[6])
    assert found.unmet == [1]
    assert 1 in found.tokens
    assert found.finished
    ((found,),) = search(toy, [0], config, [12], [[phrase(1, 1, 1)]], prefixes=[[2] * 11])
    assert (found.unmet, found.tokens[:11]) == ([0], [2] * 11)
    # Nothing may come at all: the translation ends as it is.
    ((found,),) = search(toy, [0], config.changed(min_length=3), [12], [[phrase(1)]], forbidden=range(1, 7))
    assert (found.tokens, found.unmet, found.finished) == ([], [0], False)


def test_a_phrase_may_stand_in_the_prefix() -> None:
    toy = Toy.random(2, 7)
    ((found,),) = search(toy, [0], DecodeConfig(beam_size=2), [6], [[phrase(3, 4)]], prefixes=[[5, 3, 4]])
    ((free,),) = search_for(
        toy.step, toy.start(1), 1, DecodeConfig(beam_size=2), bos_id=BOS, eos_id=END, limits=[6], prefixes=[[5, 3, 4]]
    )
    assert found.unmet == []
    assert found.score >= free.score - FLOAT64


def test_a_phrase_that_comes_anyway_costs_nothing() -> None:
    toy = Toy(lambda source, prefix: [9.0 if len(prefix) == 3 else -9.0, *([0.0, -2.0] if prefix else [-3.0, 0.0])], 3)
    ((free,),) = search_for(toy.step, toy.start(1), 1, DecodeConfig(), bos_id=BOS, eos_id=END, limits=[8])
    ((found,),) = search(toy, [0], DecodeConfig(), [8], [[phrase(2, 1)]])
    assert found.tokens == free.tokens == [2, 1, 1, END]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_first_that_holds_the_phrase_is_not_yet_the_best(beam_size: int) -> None:
    # 1 at once is unlikely and ends soon; two tokens later it is what the model would say anyway.
    table = {(): [-9.0, -5.0, 2.0], (1,): [5.0, 0.0, 0.0], (2,): [-9.0, -8.0, 3.0], (2, 2): [-9.0, 3.0, 0.0]}
    toy = Toy(lambda source, prefix: table.get(prefix, [4.0, -4.0, -4.0]), 3)
    ((found,),) = search(toy, [0], DecodeConfig(beam_size=beam_size), [8], [[phrase(1)]])
    assert found.tokens == [2, 2, 1, END]


def test_the_last_word_of_a_phrase_is_whole() -> None:
    # After 1 the model goes on with 2, which would make another word of it.
    toy = Toy(lambda source, prefix: [0.0, -1.0, 3.0 if prefix[-1:] == (1,) else -5.0, -1.5], 4)
    ((found,),) = search(toy, [0], DecodeConfig(), [8], [[phrase(1)]])
    assert (1, 2) in zip(found.tokens, found.tokens[1:], strict=False)
    ((found,),) = search(toy, [0], DecodeConfig(), [8], [[Phrase(((1,),), 1, frozenset([2]))]])
    assert found.unmet == []
    assert (1, 2) not in zip(found.tokens, found.tokens[1:], strict=False) or found.tokens.count(1) > 1


def test_every_sentence_has_as_many_rows_as_its_neighbours() -> None:
    """A step's rows come in runs of one length, which is what lets a model keep a source's keys once."""
    toy = Toy.random(1, 9)
    state = toy.start(3)
    phrases = [[phrase(1, 2, 3, 4, 5, 6)], [phrase(7)], []]
    search_for(toy.step, state, 3, DecodeConfig(beam_size=2), bos_id=BOS, eos_id=END, limits=[9, 9, 9], phrases=phrases)
    assert state.asked[0] == 3
    assert all(rows % 3 == 0 or rows % 2 == 0 or rows <= 7 for rows in state.asked)
    assert max(state.asked) == 3 * 7


def test_drawing_and_phrases_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="sample draws at random"):
        search(Toy.random(0, 4), [0], DecodeConfig(sample=True), [5], [[phrase(1)]])


def test_logits_that_are_not_numbers_are_an_error() -> None:
    from dragoman.errors import RunError

    with pytest.raises(RunError, match="NaN or infinite"):
        search(Toy(lambda source, prefix: [0.0, math.nan], 2), [0], DecodeConfig(), [5], [[phrase(1)]])
