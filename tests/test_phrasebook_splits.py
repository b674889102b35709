"""The generated bitext as a whole: splits, uniqueness, coverage, size, and the nearest-neighbour baseline."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from dragoman import phrasebook
from dragoman.errors import DataError
from dragoman.phrasebook import Pair, PhrasebookSplits, held_out
from dragoman.phrasebook.lexicon import lemmas

WORD = re.compile(r"[\w'-]+")


@pytest.fixture(scope="module")
def splits() -> PhrasebookSplits:
    """As many pairs as the demo trains on."""
    return phrasebook.generate(40_000, 500, 700, seed=1)


@pytest.fixture(scope="module")
def everything(splits: PhrasebookSplits) -> list[Pair]:
    return splits.train + splits.valid + splits.test


def test_sizes(splits: PhrasebookSplits) -> None:
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [40_000, 500, 700]


def test_every_english_sentence_occurs_once(everything: list[Pair]) -> None:
    assert len({pair.src for pair in everything}) == len(everything)


def test_no_held_out_triple_occurs_in_training(splits: PhrasebookSplits) -> None:
    trained = {triple for pair in splits.train for triple in pair.triples}
    kept = splits.valid + splits.test
    assert not trained & {pair.triple for pair in kept}
    assert all(not held_out(triple, 1) for triple in trained)
    with_triple = [pair for pair in kept if pair.triple]
    assert len(with_triple) > 0.5 * len(kept)
    assert all(pair.triple and held_out(pair.triple, 1) for pair in with_triple)
    assert len(trained) > 10_000


def test_triple_is_one_of_the_triples(everything: list[Pair]) -> None:
    assert all(pair.triple in pair.triples if pair.triples else pair.triple is None for pair in everything)


def test_one_german_per_english() -> None:
    """Over many draws with repetition: an English sentence never comes with two different translations."""
    import random

    from dragoman.phrasebook.draw import Draw
    from dragoman.phrasebook.patterns import draw_sentence

    draw = Draw(random.Random(7))
    german: dict[str, str] = {}
    repeated = 0
    for _ in range(120_000):
        sentence = draw_sentence(draw)
        repeated += sentence.en in german
        assert german.setdefault(sentence.en, sentence.de) == sentence.de
    assert repeated > 1000


def test_several_hundred_thousand_different_pairs_are_possible() -> None:
    """Capture–recapture: two independent samples of n that share m sentences estimate n²/m, here a lower bound."""
    first, second = (phrasebook.generate(12_000, 0, 0, seed=seed).train for seed in (11, 12))
    shared = {pair.src for pair in first} & {pair.src for pair in second}
    assert len(first) * len(second) / max(len(shared), 1) > 200_000


def test_every_lemma_is_trained_on(splits: PhrasebookSplits) -> None:
    counts = Counter(word for pair in splits.train for word in WORD.findall(pair.src.lower()))
    rare = {}
    for name, forms in lemmas().items():
        seen = sum(counts[form.split()[-1].lower()] for form in set(forms))
        if seen < 15:
            rare[name] = seen
    assert not rare


def test_every_held_out_word_is_trained_on(splits: PhrasebookSplits) -> None:
    """What is new in the test set is the combination, not the words (a rare inflected form may be)."""
    for side in ("src", "tgt"):
        known = {word for pair in splits.train for word in WORD.findall(getattr(pair, side))}
        words = [word for pair in splits.test for word in WORD.findall(getattr(pair, side))]
        assert sum(word not in known for word in words) <= 3


def test_sentences_look_like_sentences(everything: list[Pair]) -> None:
    for pair in everything:
        for text in (pair.src, pair.tgt):
            assert text[0].isupper()
            assert text[-1] in ".?"
            assert text == " ".join(text.split())
            assert ",." not in text
            assert ",?" not in text
            assert " ," not in text
        assert (pair.src[-1] == "?") == (pair.tgt[-1] == "?")
        assert 2 <= len(pair.src.split()) <= 24
    lengths = sorted(len(pair.src.split()) for pair in everything)
    assert lengths[len(lengths) // 20] >= 4
    assert lengths[-len(lengths) // 50] <= 14


def test_the_languages_do_not_mix(everything: list[Pair]) -> None:
    """No English function word is left over on the German side, and no German one on the English."""
    english = {"the", "a", "is", "are", "does", "did", "has", "have", "and", "with", "every", "who", "what", "which"}
    german = {"der", "das", "den", "dem", "ist", "sind", "haben", "wird", "und", "mit", "nicht", "ein", "eine", "wer"}
    for pair in everything:
        assert not english & set(WORD.findall(pair.tgt.lower()))
        assert not german & set(WORD.findall(pair.src.lower()))


def test_same_seed_same_output_in_another_process(splits: PhrasebookSplits) -> None:
    code = "from dragoman import phrasebook as p; s = p.generate(300, 20, 20, 1); print(*s.train, *s.test, sep='\\n')"
    outputs = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-X", "utf8", "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
        outputs.add(done.stdout)
    here = phrasebook.generate(300, 20, 20, 1)
    assert outputs == {"\n".join(map(str, [*here.train, *here.test])) + "\n"}


def test_the_output_is_frozen() -> None:
    """A change of the grammar or of the order of draws must be meant: the first pairs of seed 1."""
    import hashlib

    text = "\n".join(f"{pair.src}\t{pair.tgt}" for pair in phrasebook.generate(2000, 0, 0, 1).train)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "4aa5397f5ba34ecf"


def test_a_larger_set_starts_with_the_smaller(splits: PhrasebookSplits) -> None:
    small = phrasebook.generate(1000, 500, 700, seed=1)
    assert small.train == splits.train[:1000]
    assert (small.valid, small.test) == (splits.valid, splits.test)


def test_another_seed_gives_other_sentences() -> None:
    first, second = (phrasebook.generate(200, 0, 0, seed).train for seed in (1, 2))
    assert len({pair.src for pair in first} & {pair.src for pair in second}) < 20


def test_nothing_asked_nothing_given() -> None:
    assert phrasebook.generate(0, 0, 0, 1) == PhrasebookSplits([], [], [])


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="-1 valid pairs"):
        phrasebook.generate(10, -1, 0, 1)


def test_running_out_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.phrasebook import splits as module
    from dragoman.phrasebook.frames import Sentence

    monkeypatch.setattr(module, "draw_sentence", lambda draw: Sentence("Yes.", "Ja.", ()))
    monkeypatch.setattr(module, "_PATIENCE", 50)
    with pytest.raises(DataError, match="ran out of new sentences"):
        phrasebook.generate(2, 0, 0, 1)


def _pairs(*texts: str) -> list[Pair]:
    return [Pair(text, text.upper(), None) for text in texts]


def test_nearest_neighbour_by_words_and_their_neighbours() -> None:
    train = _pairs("The man reads the book.", "The woman reads the letter.", "Is the dog old?")
    sources = ["The man reads the letter.", "Is the dog young?", "The woman reads the letter.", "Xyzzy"]
    found = phrasebook.nearest_neighbour(train, sources)
    assert found[1:] == [train[2].tgt, train[1].tgt, train[0].tgt]
    assert found[0] in (train[0].tgt, train[1].tgt)


def test_nearest_neighbour_takes_the_first_of_equals() -> None:
    assert phrasebook.nearest_neighbour(_pairs("a b", "a c"), ["a d"]) == ["A B"]


def test_nearest_neighbour_needs_pairs() -> None:
    with pytest.raises(DataError, match="needs training pairs"):
        phrasebook.nearest_neighbour([], ["Hello."])


def test_looking_up_does_not_translate(splits: PhrasebookSplits) -> None:
    sample = splits.test[:200]
    found = phrasebook.nearest_neighbour(splits.train, [pair.src for pair in sample])
    assert sum(text == pair.tgt for text, pair in zip(found, sample, strict=True)) <= 0.05 * len(sample)
