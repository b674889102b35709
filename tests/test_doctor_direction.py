"""Which language stands on which side: every way to swap a text is seen, honest text gives no alarm."""

from __future__ import annotations

import gzip
import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dragoman import phrasebook
from dragoman.config import RunConfig
from dragoman.preflight import direction as module
from dragoman.preflight.direction import direction, is_swapped
from dragoman.preflight.start import text_checks
from dragoman.preflight.survey import Pair, Survey, survey
from dragoman.text.languages import COMMON_LETTERS, KNOWN, common_signs, language_of, signs

Texts = dict[str, list[Pair]]
UNKNOWN = ("src", "tgt")


@pytest.fixture(scope="module")
def texts() -> Texts:
    """English and German."""
    splits = phrasebook.generate(2000, 100, 100, seed=3)
    return {name: [(pair.src, pair.tgt) for pair in getattr(splits, name)] for name in ("train", "valid", "test")}


def swapped(pairs: Sequence[Pair]) -> list[Pair]:
    return [(tgt, src) for src, tgt in pairs]


def swap(texts: Texts, names: Sequence[str]) -> Texts:
    return {name: swapped(pairs) if name in names else pairs for name, pairs in texts.items()}


def look(pairs: Sequence[Pair]) -> Survey:
    return survey(pairs, {}, 10**6)


def found(texts: Texts, codes: tuple[str, str] = ("en", "de")) -> list[str]:
    held: Mapping[str, Sequence[Pair]] = {name: pairs for name, pairs in texts.items() if name != "train"}
    findings = list(direction(look(texts["train"]), held, *codes))
    assert all(finding.severity == "warning" and finding.text.endswith(".") for finding in findings)
    return [finding.text for finding in findings]


def named(text: str) -> set[str]:
    return {name for name in ("train", "valid", "test") if f"data.{name}" in text}


def subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [some for count in range(1, len(names) + 1) for some in itertools.combinations(names, count)]


@pytest.mark.parametrize("codes", [("en", "de"), ("eng_Latn", "DE-at"), ("en", "xx"), ("xx", "de"), UNKNOWN])
@pytest.mark.parametrize("names", subsets(("valid", "test")))
def test_honest_text_gives_no_finding(texts: Texts, names: tuple[str, ...], codes: tuple[str, str]) -> None:
    assert found({name: texts[name] for name in ("train", *names)}, codes) == []


@pytest.mark.parametrize("codes", [("en", "de"), ("eng_Latn", "deu"), ("en", "xx"), ("xx", "de")])
@pytest.mark.parametrize("which", subsets(("train", "valid", "test")))
def test_the_languages_say_which_texts_are_swapped(
    texts: Texts, which: tuple[str, ...], codes: tuple[str, str]
) -> None:
    """One of the two languages is enough, and so is the training text alone."""
    for there in subsets(("valid", "test")):
        some = {name: texts[name] for name in ("train", *there)}
        if wrong := [name for name in which if name in some]:
            (text,) = found(swap(some, wrong), codes)
            assert named(text.partition(" is in ")[0]) == set(wrong)
            assert f"is in {codes[1]} and the target in {codes[0]}, the other way round" in text
    if which == ("train",):
        (text,) = found({"train": swapped(texts["train"])}, codes)
        assert text == (
            f"the source of data.train is in {codes[1]} and the target in {codes[0]}, the other way round than "
            "data.src_lang and data.tgt_lang say; swap src and tgt there, or the codes."
        )


@pytest.mark.parametrize("codes", [UNKNOWN, ("xx", "yy")])
@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_of_three_texts_the_odd_one_is_named(texts: Texts, name: str, codes: tuple[str, str]) -> None:
    (text,) = found(swap(texts, [name]), codes)
    assert text.startswith(f"the words of data.{name}'s source stand in the target of ")
    assert text.endswith(f"; swap src and tgt in data.{name}.")
    # The languages are not known, so that the fewer are taken for the wrong ones.
    assert found(swap(texts, [one for one in texts if one != name]), codes) == [text]


@pytest.mark.parametrize("other", ["valid", "test"])
@pytest.mark.parametrize("wrong", [0, 1])
def test_of_two_texts_both_are_named(texts: Texts, other: str, wrong: int) -> None:
    pair = {name: texts[name] for name in ("train", other)}
    (text,) = found(swap(pair, [("train", other)[wrong]]), UNKNOWN)
    assert named(text) == {"train", other}
    assert text.endswith("in the one of the two that has them wrong.")


def test_a_text_without_common_words_is_judged_by_another(texts: Texts) -> None:
    """Rows of nouns, say, of which another text shows the language."""
    train = [("the dog and a cat with this tree", "der Hund und eine Katze mit dem Baum")] * 60
    nouns = [("tree dog cat", "Baum Hund Katze")] * 60
    assert found({"train": nouns}) == found({"train": swapped(nouns)}) == []
    for which in subsets(("train", "test")):
        (text,) = found(swap({"train": train, "test": nouns}, which))
        assert named(text.partition(" is in ")[0]) == set(which)
    assert found({"train": train, "test": nouns}) == []


def test_sides_that_each_hold_both_languages_are_left_alone(texts: Texts) -> None:
    """A model for both directions learns from such text."""
    draw = random.Random(2)
    both = {name: [pair[:: draw.choice((1, -1))] for pair in rows] for name, rows in texts.items()}
    for codes in (("en", "de"), UNKNOWN):
        assert found(both, codes) == found({"train": both["train"]}, codes) == []


def test_a_few_words_of_the_other_language_are_no_proof() -> None:
    """Titles and names hold words of a language that is not that of the text."""
    names = [("Zorro Zelda Zeno", "Quark Quito Quinn")] * 8
    rows = [*names, ("Zorro Zelda der", "Quark Quito the")] * 40
    assert found({"train": rows}) == []


def test_part_of_the_training_text_is_swapped(texts: Texts) -> None:
    train = texts["train"]
    (text,) = found({"train": [*train[:1500], *swapped(train[1500:])]})
    assert text == (
        "in 1 of 4 blocks of neighbouring pairs of data.train, the first from about pair 1,501 on, the source is in de "
        "and the target in en, and in the others it is the other way round; swap the sides there."
    )
    (text,) = found({"train": [*train[:500], *swapped(train[500:])]})
    assert "in 1 of 4 blocks" in text
    assert "the first from about pair 1 on, the source is in en and the target in de" in text


def test_held_out_pairs_say_nothing_of_the_training_text(texts: Texts) -> None:
    """They come from it, and are no witness for it."""
    data = {"src_lang": "xx", "tgt_lang": "yy", "train": {"src": "a", "tgt": "b"}}
    held = {"valid": texts["valid"], "test": swapped(texts["test"])}
    for valid, last in (
        ({"split": 100}, "the one of the two that has them wrong."),
        ({"src": "c", "tgt": "d"}, "data.test."),
    ):
        config = RunConfig(data={**data, "valid": valid}, train={"max_steps": 1})
        checks = dict(text_checks(config, look(texts["train"]), held))
        (finding,) = checks["languages of the sides, and whether any are swapped"]()
        assert finding.text.endswith(f"swap src and tgt in {last}")


def test_one_language_on_both_sides(texts: Texts) -> None:
    german = [(tgt, tgt + " Ja.") for _, tgt in texts["valid"]]
    (text,) = found({"train": texts["train"], "valid": german})
    assert text.startswith("the source of data.valid has the commonest words of de, and hardly any of en, which ")
    assert "data.src_lang says" in text
    (text,) = found({"train": [(src, src + " Yes.") for src, _ in texts["train"]]})
    assert text.startswith("the target of data.train has the commonest words of en, and hardly any of de")


def test_a_third_language(texts: Texts) -> None:
    for codes in (("en", "fr"), ("en", "en")):
        (text,) = found(texts, codes)
        assert text == (
            "the target of data.train and data.valid and data.test has the commonest words of de, and hardly any of "
            f"{codes[1]}, which data.tgt_lang says; check the files and the code."
        )
    # Of a language that is not in the tables nothing can be said.
    assert found(texts, ("en", "xx")) == []


def test_scripts_decide_where_they_differ(texts: Texts) -> None:
    russian = {
        name: [(src, "Собака спит в доме и видит сон.") for src, _ in rows[:150]] for name, rows in texts.items()
    }
    assert found(russian, ("en", "ru")) == []
    for which in subsets(tuple(russian)):
        (text,) = found(swap(russian, which), ("en", "ru"))
        assert named(text.partition(" is in ")[0]) == set(which)


def test_text_without_words_and_short_text_say_nothing(texts: Texts) -> None:
    numbers = [(str(number), str(number + 1)) for number in range(300)]
    assert found({"train": numbers, "valid": numbers, "test": texts["test"]}) == []
    assert found({"train": swapped(texts["train"][:5]), "test": texts["test"][:5]}) == []
    assert found({"train": []}) == []


def test_sides_of_the_same_words_have_no_direction() -> None:
    """As where a model learns to put words into another order."""
    draw = random.Random(1)
    words = [f"w{chr(97 + a)}{chr(97 + b)}" for a in range(5) for b in range(5)]
    rows = [" ".join(draw.choices(words, k=6)) for _ in range(900)]
    pairs = [(row, " ".join(reversed(row.split()))) for row in rows]
    assert found({"train": pairs[:600], "valid": pairs[600:750], "test": swapped(pairs[750:])}, UNKNOWN) == []


def test_a_sample_is_enough(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    original = module._Part.of.__func__  # type: ignore[attr-defined]

    def of(cls: type, start: int, pairs: Sequence[Pair]) -> object:
        counted.append(len(pairs))
        return original(cls, start, pairs)

    monkeypatch.setattr(module, "_MOST_PAIRS", 300)
    monkeypatch.setattr(module._Part, "of", classmethod(of))
    (text,) = found({"train": swapped(texts["train"])})
    assert named(text) == {"train"}
    assert sum(counted) <= 300


@pytest.mark.parametrize("codes", [("en", "de"), ("eng_Latn", "DE-at"), ("en", "xx"), ("xx", "de")])
def test_one_text_alone_is_swapped_or_not(texts: Texts, codes: tuple[str, str]) -> None:
    """A hundred sentences tell it; a text without words, one of one language, and unknown languages do not."""
    pairs = texts["test"]
    assert is_swapped(swapped(pairs), *codes)
    assert not is_swapped(pairs, *codes)
    assert not is_swapped(swapped(pairs[:5]), *codes)
    assert not is_swapped([], *codes)
    assert not is_swapped([(src, src) for src, _ in pairs], *codes)
    assert not is_swapped([(tgt, tgt) for _, tgt in pairs], *codes)
    assert not is_swapped([("", tgt) for _, tgt in pairs], *codes)
    for others in (UNKNOWN, ("", ""), ("en", "en"), ("fr", "es")):
        assert not is_swapped(swapped(pairs), *others)


# The tables


def test_codes() -> None:
    codes = {"de": "de", "DE-at": "de", "deu_Latn": "de", "zho_Hant": "zh", "cmn": "zh", "nb": "no", "xx": "xx", "": ""}
    assert {code: language_of(code) for code in codes} == codes


def test_signs() -> None:
    assert list(signs("C'est l'été, 24 Männer_2 ohne T-Shirt!")) == ["c'est", "l'été", "männer", "ohne", "t", "shirt"]
    assert list(signs("我是 Tom。ねこ")) == ["我", "是", "tom", "ね", "こ"]
    assert common_signs("xx") == frozenset()
    assert "の" in common_signs("ja")


def test_the_tables_are_in_the_form_that_words_come_in() -> None:
    for language in KNOWN:
        assert len(common_signs(language)) >= 15, language
        assert all(list(signs(word)) == [word] for word in common_signs(language)), language
    assert set(COMMON_LETTERS) <= set(KNOWN)


# Real text

REAL = {
    "multi30k en-de": ("multi30k/train.en.gz", "multi30k/train.de.gz", "en", "de"),
    "multi30k en-fr": ("multi30k/train.en.gz", "multi30k/train.fr.gz", "en", "fr"),
    "multi30k de-fr": ("multi30k/train.de.gz", "multi30k/train.fr.gz", "de", "fr"),
    "tatoeba en-de": ("tatoeba/deu-eng.tsv.gz", "", "en", "de"),
    "tatoeba en-fr": ("tatoeba/fra-eng.tsv.gz", "", "en", "fr"),
    "tatoeba en-zh": ("tatoeba/cmn-eng.tsv.gz", "", "en", "zh"),
    "tanaka en-ja": ("tanaka_en-ja/train.en.gz", "tanaka_en-ja/train.ja.gz", "en", "ja"),
    "bible en-es": ("bible_en-es/train.en.gz", "bible_en-es/train.es.gz", "en", "es"),
    "health en-ru": ("elrc_health_en-ru/train.en.gz", "elrc_health_en-ru/train.ru.gz", "en", "ru"),
    "flores en-ne": ("flores_v1_ne-en/dev.en.gz", "flores_v1_ne-en/dev.ne.gz", "en", "ne"),
    "flores ru-zh": ("flores200/dev.rus_Cyrl.gz", "flores200/dev.zho_Hans.gz", "rus_Cyrl", "zho_Hans"),
}


def real(folder: Path, name: str) -> Texts:
    """Some hundred pairs, spread, and a hundred each of validation and test text."""
    src_file, tgt_file, _, _ = REAL[name]

    def lines(file: str) -> list[str]:
        with gzip.open(folder / "data" / file, "rt", encoding="utf-8", newline="\n") as stream:
            return stream.read().splitlines()

    rows = (
        [(fields[0], fields[1]) for fields in (line.split("\t") for line in lines(src_file))]
        if src_file.endswith(".tsv.gz")
        else list(zip(lines(src_file), lines(tgt_file), strict=True))
    )
    rows = rows[:: max(1, len(rows) // 800)]
    random.Random(1).shuffle(held := list(range(len(rows))))
    valid, test = held[:100], held[100:200]
    train = [row for number, row in enumerate(rows) if number not in {*valid, *test}]
    return {"train": train, "valid": [rows[at] for at in valid], "test": [rows[at] for at in test]}


@pytest.mark.shared
@pytest.mark.parametrize("name", REAL)
def test_real_text(name: str, shared_dir: Path) -> None:
    texts = real(shared_dir, name)
    codes = REAL[name][2:]
    assert found(texts, codes) == found(texts, UNKNOWN) == []
    assert found({"train": texts["train"]}, codes) == []
    assert is_swapped(swapped(texts["test"]), *codes)
    assert not is_swapped(texts["test"], *codes)
    (text,) = found({"train": swapped(texts["train"])}, codes)
    assert named(text) == {"train"}
    for which in subsets(tuple(texts)):
        (text,) = found(swap(texts, which), codes)
        assert named(text.partition(" is in ")[0]) == set(which)
    for one in texts:
        (text,) = found(swap(texts, [one]), UNKNOWN)
        assert text.endswith(f"swap src and tgt in data.{one}.")
