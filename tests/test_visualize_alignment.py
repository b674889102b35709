"""Word alignment from source attention, the alignment error rate, and the hand-checked set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_samples import SPECIAL, Sample, Weights, sample
from bundles import LINES, make_bundle
from conftest import REPOSITORY
from dragoman import Translator
from dragoman.errors import DataError, UsageError
from dragoman.evaluation import GoldLinks, alignment_error_rate
from dragoman.visualize.alignment import Layer, align, check_layer, pharaoh, word_weights
from tolerances import FLOAT32, FLOAT64

GOLD = REPOSITORY / "tests" / "golden" / "alignments.txt"


def translation(*layers: list[list[float]]) -> Sample:
    """ "x y" of "a b" with one head a layer: rows are ▁x, y-first-half, y-second-half, </s>; keys ▁a, ▁b, </s>."""
    cross = [np.array([layer], dtype=np.float32) for layer in layers]
    return Sample("x yz", ["▁x", "▁y", "z", "</s>"], ["▁a", "▁b", "</s>"], Weights(cross=cross))


FIRST = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.7, 0.2], [0.0, 0.0, 1.0]]
SECOND = [[0.9, 0.1, 0.0], [0.3, 0.6, 0.1], [0.3, 0.6, 0.1], [0.0, 0.0, 1.0]]


def test_each_word_goes_to_its_heaviest_word() -> None:
    found = translation(FIRST, SECOND)
    # Of x the end of the sentence has most, and is no word; of yz the mean of both halves counts.
    assert align("a b", found, SPECIAL, layer=1) == [(1, 0), (1, 1)]
    assert align("a b", found, SPECIAL, layer=2) == [(0, 0), (1, 1)]
    assert align("a b", found, SPECIAL, layer="mean") == [(0, 0), (1, 1)]
    weights, sources, targets = word_weights("a b", found, SPECIAL, layer=1)
    np.testing.assert_allclose(weights, [[0.2, 0.3], [0.35, 0.5]], atol=FLOAT32)
    assert (sources, targets) == ([0, 1], [0, 1])


def test_a_layer_that_is_not_there() -> None:
    for layer in (0, 3, -1):
        with pytest.raises(UsageError, match=rf"no decoder layer {layer}; choose one of 1 to 2"):
            align("a b", translation(FIRST, SECOND), SPECIAL, layer)


def test_the_best_layer_is_the_one_that_agrees_with_itself() -> None:
    """In the first layer both words point at b, which points back at one of them alone; in the second each at its own.

    Among layers that agree alike the more decided one counts, and the mean before a layer that is no better.
    """
    second = [(0, 0), (1, 1)]
    for layers in ((FIRST, SECOND), (SECOND, FIRST)):
        assert align("a b", translation(*layers), SPECIAL) == second
    crossed = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    # The mean has the links of SECOND or of the crossed layer; that layer is more decided than either.
    assert align("a b", translation(SECOND, crossed), SPECIAL) == [(1, 0), (0, 1)]
    assert align("a b", translation(SECOND, SECOND), SPECIAL) == second


def test_layers_are_checked_beforehand_too() -> None:
    layers: list[Layer] = ["best", "mean", 1, 2]
    for layer in layers:
        check_layer(layer, 2)
    with pytest.raises(UsageError, match="no decoder layer 3; choose one of 1 to 2"):
        check_layer(3, 2)


def test_nothing_to_align() -> None:
    assert align("", Sample("", [], [], None), SPECIAL) == []
    source, empty = sample(["▁a", "</s>"], ["</s>"])
    assert align(source, empty, SPECIAL) == []
    with pytest.raises(DataError, match="no attention"):
        align("a", Sample("x", ["▁x"], ["▁a"], None), SPECIAL)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordlevel"])
def test_every_word_of_a_real_translation_has_one_link(kind: str) -> None:
    translator = Translator(make_bundle(kind=kind, n_decoder_layers=2))
    for line in LINES:
        found = translator.force(line, "Die Fähre 北京 🙂 verlässt, den Hafen.", attention=True)
        layers: list[Layer] = ["best", "mean", 1, 2]
        for layer in layers:
            links = align(line, found, SPECIAL, layer)
            # An unknown word of a word-level model shows as <unk> in the text too, and is a word.
            assert [target for _, target in links] == list(range(len(found.text.split())))
            assert all(0 <= source < len(line.split()) for source, _ in links)


def test_the_format() -> None:
    assert pharaoh([(2, 1), (0, 0), (0, 10), (0, 2)]) == "0-0 0-2 0-10 2-1"
    assert pharaoh([]) == ""


def test_gold_links_are_read() -> None:
    gold = GoldLinks.parse(" 0-0  1?2 10-3 ")
    assert gold.sure == {(0, 0), (10, 3)}
    assert gold.possible == {(0, 0), (1, 2), (10, 3)}
    assert GoldLinks.parse("") == GoldLinks(frozenset(), frozenset())
    for wrong in ("0", "0-", "-1-2", "a-b", "0–0", "1-2-3", "٣-1"):
        with pytest.raises(DataError, match=r"is no link; write i-j"):
            GoldLinks.parse(f"0-0 {wrong}")


def test_the_error_rate_by_hand() -> None:
    """A = 5 links, 3 of them sure and 4 possible; S = 4: precision 4/5, recall 3/4, error 1 - 7/9."""
    found = [[(0, 0), (1, 1), (2, 2)], [(0, 1), (1, 0)]]
    gold = [GoldLinks.parse("0-0 1-1 2?2"), GoldLinks.parse("0-1 1-1")]
    score = alignment_error_rate(found, gold)
    assert score.precision == pytest.approx(80.0, abs=FLOAT64)
    assert score.recall == pytest.approx(75.0, abs=FLOAT64)
    assert score.error_rate == pytest.approx(100.0 * (1 - 7 / 9), abs=FLOAT64)
    with pytest.raises(DataError, match="1 alignments but 2 gold ones"):
        alignment_error_rate(found[:1], gold)


LINKS = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)))


@given(sentences=st.lists(st.tuples(LINKS, LINKS, LINKS), max_size=4))
def test_laws_of_the_error_rate(sentences: list[tuple[set[tuple[int, int]], ...]]) -> None:
    gold = [GoldLinks(frozenset(sure), frozenset(sure | more)) for sure, more, _ in sentences]
    score = alignment_error_rate([list(found) for *_, found in sentences], gold)
    assert 0.0 <= score.error_rate <= 100.0
    # Between the sure links and the possible ones nothing is wrong.
    for good in ([sorted(one.sure) for one in gold], [sorted(one.possible) for one in gold]):
        assert alignment_error_rate(good, gold).error_rate == pytest.approx(0.0, abs=FLOAT64)
    # A link that is given twice counts once.
    twice = [[*found, *found] for *_, found in sentences]
    assert alignment_error_rate(twice, gold) == score


def hand_checked(path: Path = GOLD) -> list[list[str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def test_the_hand_checked_set_is_whole() -> None:
    """Every word of both sides has a link, and none points outside."""
    rows = hand_checked()
    assert len(rows) >= 30
    for english, german, links in rows:
        gold = GoldLinks.parse(links)
        assert {source for source, _ in gold.possible} == set(range(len(english.split()))), english
        assert {target for _, target in gold.possible} == set(range(len(german.split()))), german
        assert len(links.split()) == len(gold.possible), "a link stands twice"


def test_what_always_goes_along_the_diagonal_is_worse_than_the_hand() -> None:
    """The set is no easy one: words change places in it."""
    rows = hand_checked()
    diagonal = []
    for english, german, _ in rows:
        sources, targets = len(english.split()), len(german.split())
        diagonal.append([(min(sources - 1, target * sources // targets), target) for target in range(targets)])
    score = alignment_error_rate(diagonal, [GoldLinks.parse(links) for *_, links in rows])
    assert 20.0 < score.error_rate < 80.0
