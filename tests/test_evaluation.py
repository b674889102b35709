"""Scores of translations: values by hand, signatures, intervals, paired tests, and what is refused."""

from __future__ import annotations

import json
import math
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError, UsageError
from dragoman.evaluation import METRICS, Score, compare, evaluate
from dragoman.evaluation.levenshtein import edit_distance
from dragoman.evaluation.metrics import RESAMPLED_SENTENCES
from tolerances import SCORE

GOLDEN = json.loads((Path(__file__).parent / "golden" / "metrics.json").read_text(encoding="utf-8"))

WORDS = ["der", "die", "das", "ein", "rot", "blau", "Haus", "Hund", "läuft", "schläft", "und", "nicht"]


def value(name: str, hypotheses: list[str], references: Any, **options: Any) -> float:
    (score,) = evaluate(hypotheses, references, [name], **options)
    assert score.name == name
    return score.value


def corpus(sentences: int, wrong: float, seed: int = 0) -> tuple[list[str], list[str]]:
    """Random references, and translations of them with a share of wrong words."""
    draw = random.Random(seed)
    references = [draw.choices(WORDS, k=draw.randint(4, 12)) for _ in range(sentences)]
    hypotheses = [[draw.choice(WORDS) if draw.random() < wrong else word for word in words] for words in references]
    return [" ".join(words) for words in hypotheses], [" ".join(words) for words in references]


def distance_by_table(a: str, b: str) -> int:
    """The textbook recurrence, cell by cell (Wagner and Fischer 1974)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


@pytest.mark.parametrize(
    ("a", "b", "distance"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("kitten", "sitting", 3),
        ("Saturday", "Sunday", 3),
        ("abc", "cba", 2),
        ("a" * 200, "a" * 199 + "b", 1),
        ("ab" * 100, "ba" * 100, 2),
    ],
)
def test_edit_distance_by_hand(a: str, b: str, distance: int) -> None:
    assert edit_distance(a, b) == distance
    assert edit_distance(a.split(), a.split()) == 0


LETTERS = st.text(alphabet="abc", max_size=80)


@given(LETTERS, LETTERS)
def test_edit_distance_is_that_of_the_table(a: str, b: str) -> None:
    assert edit_distance(a, b) == edit_distance(b, a) == distance_by_table(a, b)


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_edit_distance_is_a_metric(a: str, b: str, c: str) -> None:
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert edit_distance(tuple(a), list(b)) == edit_distance(a, b)


def test_error_rates_by_hand() -> None:
    hypotheses, references = ["the cat sat", "a dog"], ["the cat sat down", "a big dog"]
    assert value("wer", hypotheses, references) == pytest.approx(100 * 2 / 7, abs=SCORE)
    assert value("cer", hypotheses, references) == pytest.approx(100 * (5 + 4) / (16 + 9), abs=SCORE)
    assert value("wer", ["a b c d e"], ["a"]) == 400.0


def test_word_error_rate_is_not_ter() -> None:
    """TER counts moving a phrase as one edit; a word error rate does not know moves."""
    hypotheses, references = ["c d e a b"], ["a b c d e"]
    assert value("ter", hypotheses, references) == pytest.approx(20.0, abs=SCORE)
    assert value("wer", hypotheses, references) == pytest.approx(80.0, abs=SCORE)


@pytest.mark.parametrize("name", ["cer", "wer", "ter"])
def test_error_rates_of_empty_references(name: str) -> None:
    assert value(name, [""], [""]) == 0.0
    assert value(name, ["x"], [""]) == 100.0
    assert value(name, ["x", "y"], ["", "y"]) == 100.0


def test_words_are_split_at_any_white_space() -> None:
    assert value("wer", ["a\u00a0 b\tc"], ["a b c"]) == 0.0


@pytest.mark.parametrize("name", METRICS)
def test_a_perfect_translation(name: str) -> None:
    _, references = corpus(5, 0.0)
    assert value(name, references, references) == pytest.approx(100.0 if name in ("bleu", "chrf") else 0.0, abs=SCORE)


def test_bleu_by_hand() -> None:
    # 1- to 4-grams: 5/6, 3/5, 2/4, 1/3; equal lengths, so no brevity penalty
    hypotheses, references = ["the cat sat on a mat"], ["the cat sat on the mat"]
    expected = 100 * math.prod([5 / 6, 3 / 5, 2 / 4, 1 / 3]) ** 0.25
    assert value("bleu", hypotheses, references) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", METRICS)
def test_case_counts_unless_told_otherwise(name: str) -> None:
    hypotheses, references = ["das haus ist rot und gross ."], ["Das Haus ist rot und gross ."]
    cased, lowered = (evaluate(hypotheses, references, [name], lowercase=flag)[0] for flag in (False, True))
    assert cased.value != lowered.value
    assert lowered.value == pytest.approx(100.0 if name in ("bleu", "chrf") else 0.0, abs=SCORE)
    assert "|case:mixed|" in cased.signature
    assert "|case:lc|" in lowered.signature


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("bleu", {"BLEU", "nrefs:1", "eff:no", "tok:13a", "smooth:exp"}),
        ("chrf", {"chrF2", "nrefs:1", "nc:6", "nw:0"}),
        ("ter", {"TER", "nrefs:1", "tok:tercom", "norm:no"}),
        ("cer", {"CER", "nrefs:1", "unit:character", "edit:levenshtein"}),
        ("wer", {"WER", "nrefs:1", "unit:word", "edit:levenshtein"}),
    ],
)
def test_signatures(name: str, fields: set[str]) -> None:
    hypotheses, references = corpus(3, 0.2)
    (score,) = evaluate(hypotheses, references, [name])
    parts = score.signature.split("|")
    assert fields <= set(parts)
    assert parts[0] in fields
    assert parts[-1].startswith("version:")
    assert not any(part.startswith(("bs:", "seed:")) for part in parts)
    (twice,) = evaluate(hypotheses, [references, references], [name], confidence=True)
    assert {"nrefs:2", "bs:1000", "seed:12345"} <= set(twice.signature.split("|"))


def test_signature_is_the_one_that_sacrebleu_prints() -> None:
    import sacrebleu

    metric = sacrebleu.BLEU()
    metric.corpus_score(["a b c d"], [["a b c d"]])
    assert evaluate(["a b c d"], ["a b c d"], ["bleu"])[0].signature == f"BLEU|{metric.get_signature()}"


def test_several_references() -> None:
    hypotheses = ["a b c d", "e f g h"]
    first, second = ["a b c x", "e f g h"], ["a b c d", "x y z w"]
    for name in METRICS:
        one, both = value(name, hypotheses, first), value(name, hypotheses, [first, second])
        assert both > one if name in ("bleu", "chrf") else both < one
        assert value(name, hypotheses, [first]) == one
    assert value("wer", hypotheses, [first, second]) == 0.0


def test_the_closest_reference_gives_the_length() -> None:
    assert value("wer", ["a b x"], [["a b c d e f"], ["a b c"]]) == pytest.approx(100 / 3, abs=SCORE)
    assert value("wer", ["a b"], [["a"], ["a b c"]]) == 100.0  # one edit either way: the shorter of equals


@pytest.mark.parametrize("name", METRICS)
def test_intervals(name: str) -> None:
    hypotheses, references = corpus(60, 0.3)
    (first,), (again,) = (evaluate(hypotheses, references, [name], confidence=True) for _ in range(2))
    assert first == again
    assert first.low is not None
    assert first.high is not None
    assert 0.0 <= first.low < first.value < first.high
    assert {type(number) for number in (first.value, first.low, first.high)} == {float}
    (plain,) = evaluate(hypotheses, references, [name])
    assert (plain.low, plain.high, plain.value) == (None, None, first.value)
    (wide,) = evaluate(hypotheses[:15], references[:15], [name], confidence=True)
    assert wide.high - wide.low > first.high - first.low


@pytest.mark.parametrize("name", METRICS)
def test_intervals_where_a_resample_scores_zero(name: str) -> None:
    (score,) = evaluate(["ein Hund", "", ""], ["ein Hund", "xy", "zw"], [name], confidence=True)
    assert score.low is not None
    assert score.high is not None
    assert 0.0 <= score.low <= score.high


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("test", ["ar", "bs"])
def test_a_clear_improvement_is_significant(name: str, test: Any) -> None:
    better, references = corpus(80, 0.1)
    worse, _ = corpus(80, 0.5)
    (result,) = compare(better, worse, references, [name], test=test)
    assert result.p_value < 0.01
    assert (result.difference > 0) == (name in ("bleu", "chrf"))
    assert (result.value, result.baseline) == (value(name, better, references), value(name, worse, references))
    assert {f"{test}:{10_000 if test == 'ar' else 1_000}", "seed:12345"} <= set(result.signature.split("|"))
    assert compare(better, worse, references, [name], test=test) == [result]


@pytest.mark.parametrize("test", ["ar", "bs"])
def test_chance_is_not_significant(test: Any) -> None:
    """Two systems that err equally often, at other places."""
    one, references = corpus(80, 0.3)
    draw = random.Random(11)
    other = [" ".join(draw.choice(WORDS) if draw.random() < 0.3 else w for w in text.split()) for text in references]
    (result,) = compare(one, other, references, ["wer"], test=test)
    assert result.difference != 0.0
    assert result.p_value > 0.05


@pytest.mark.parametrize("name", METRICS)
def test_a_system_does_not_differ_from_itself(name: str) -> None:
    hypotheses, references = corpus(20, 0.3)
    (result,) = compare(hypotheses, hypotheses, references, [name])
    assert (result.difference, result.p_value) == (0.0, 1.0)


def test_order_and_repetition_of_metrics() -> None:
    assert [score.name for score in evaluate(["a"], ["a"], ["wer", "bleu", "wer"])] == ["wer", "bleu"]
    assert [score.name for score in evaluate(["a"], ["a"])] == ["bleu", "chrf"]
    assert isinstance(evaluate(["a"], ["a"])[0], Score)


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "nothing to score: 0 hypotheses and 0 references; give some of both."),
        (["a"], [], "nothing to score: 1 hypotheses and 0 references; give some of both."),
        ([], ["a"], "nothing to score: 0 hypotheses and 1 references; give some of both."),
        (["a", "b"], ["a"], "2 hypotheses but 1 references; give one reference for each."),
        (["a"], [["a"], ["b", "c"]], "1 hypotheses but 2 references; give one reference for each."),
        ("a", ["a"], "hypotheses and references should be lists of sentences, not one string."),
        (["a"], "a", "hypotheses and references should be lists of sentences, not one string."),
        (["a"], [["a"], "b"], "references mix strings and lists; give one list of strings, or a list of such lists."),
    ],
)
def test_lists_that_do_not_fit(hypotheses: Any, references: Any, message: str) -> None:
    for call in (lambda: evaluate(hypotheses, references), lambda: compare(hypotheses, hypotheses, references)):
        with pytest.raises(DataError) as caught:
            call()
        assert str(caught.value) == message


def test_a_baseline_of_another_length() -> None:
    with pytest.raises(DataError, match="1 baseline translations but 2 references"):
        compare(["a", "b"], ["a"], ["a", "b"])


def test_unknown_names() -> None:
    with pytest.raises(UsageError, match=r'no metric is called "blue" \(did you mean "bleu"\?\); there are bleu, chrf'):
        evaluate(["a"], ["a"], ["blue"])
    with pytest.raises(UsageError, match="a list of some of bleu, chrf"):
        evaluate(["a"], ["a"], "bleu")
    with pytest.raises(UsageError, match="a list of some of bleu, chrf"):
        evaluate(["a"], ["a"], [])
    with pytest.raises(UsageError, match='no significance test is called "t"'):
        compare(["a"], ["a"], ["a"], test="t")  # type: ignore[arg-type]


def test_resampling_has_a_limit() -> None:
    many = ["a"] * (RESAMPLED_SENTENCES + 1)
    with pytest.raises(DataError, match="resampling takes at most 20,000 sentences and there are 20,001"):
        evaluate(many, many, ["wer"], confidence=True)
    with pytest.raises(DataError, match="resampling takes at most 20,000 sentences"):
        compare(many, many, many, ["wer"])
    assert value("wer", many, many) == 0.0


def test_error_rates_are_fast() -> None:
    """A thousand sentences of 25 words take 0.02 s (wer) and 0.12 s (cer); the bound leaves room for a busy machine."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(2, 9))) for _ in range(500)]
    hypotheses, references = ([" ".join(draw.choices(words, k=25)) for _ in range(1000)] for _ in range(2))
    value("wer", ["a"], ["a"])  # the import is not measured
    start = time.process_time()
    value("wer", hypotheses, references)
    value("cer", hypotheses, references)
    assert time.process_time() - start < 2.0


@pytest.mark.shared
def test_golden_numbers(shared_dir: Path) -> None:
    metrics = json.loads((shared_dir / "fixtures/reference/text.json").read_text(encoding="utf-8"))["metrics"]
    for key in ("corpus_word_bleu", "character_error_rate", "word_error_rate"):
        assert GOLDEN[key] == metrics[key]
    hypotheses = [pair["hypothesis"] for pair in metrics["pairs"]]
    references = [pair["reference"] for pair in metrics["pairs"]]
    assert value("bleu", hypotheses, references) == pytest.approx(GOLDEN["corpus_word_bleu"], abs=SCORE)
    assert value("cer", hypotheses, references) == pytest.approx(100 * GOLDEN["character_error_rate"], abs=SCORE)
    assert value("wer", hypotheses, references) == pytest.approx(100 * GOLDEN["word_error_rate"], abs=SCORE)
    for hypothesis, reference, expected in zip(hypotheses, references, GOLDEN["word_bleu"], strict=True):
        # A single sentence without a common 4-gram is 0 by the plain rule; sacreBLEU smooths it.
        if expected:
            assert value("bleu", [hypothesis], [reference]) == pytest.approx(expected, abs=SCORE)
