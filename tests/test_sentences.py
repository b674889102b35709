"""Splitting into sentences: nothing is lost, and a full stop that ends nothing splits nothing."""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.sentences import split_sentences

# Text dense in everything that the rules look at.
DENSE = st.lists(
    st.sampled_from([*"aB.!?…。！？।»”\"'」)([„ \t\r\u3000\u2028と3猫", "\n", "Dr", "z", "...", "12", "猫。", "e.g."]),
    max_size=40,
).map("".join)


@given(st.one_of(DENSE, st.text()))
def test_nothing_is_lost(text: str) -> None:
    parts = split_sentences(text)
    assert "".join(parts) == text
    assert all(parts)


@given(DENSE)
def test_a_line_break_always_ends_a_sentence(text: str) -> None:
    assert all("\n" not in part[:-1] for part in split_sentences(text))


@given(st.one_of(DENSE, st.text()))
def test_no_part_is_marks_alone(text: str) -> None:
    """Unless its whole line is."""
    for line in text.split("\n"):
        parts = split_sentences(line)
        assert len(parts) <= 1 or all(any(map(str.isalnum, part)) for part in parts)


@given(DENSE)
def test_a_part_is_split_no_further_at_its_own_end(text: str) -> None:
    """The rules see the same ends in the text and in the part alone, but for what stood before it."""
    for part in split_sentences(text):
        assert "".join(split_sentences(part)) == part
        assert len(split_sentences(part)) == 1


@pytest.mark.parametrize(
    "parts",
    [
        ["One. ", "Two! ", "Three? ", "Four"],
        ["Er kam.  ", "Sie ging.\n", "Und dann?"],
        ["“Stop!” ", "“Why?” ", "(He left.) ", "She stayed."],
        ["Wait... ", "What?! ", "No…"],
        ["He asked “Why?” and left. ", "Nobody answered."],
        ["¿Qué? ", "¡Nada! ", "Él dijo: «Ven.» ", "Bien."],
        ["Он пришёл. ", "Она ушла."],
        ["第一句。", "第二句！", "第三句？", "“第四句。”", "第五句?", "完"],
        ["「行く。」と言った。", "終わり。"],
        ["यह एक वाक्य है। ", "यह दूसरा है।"],
        ["كيف حالك؟ ", "بخير."],
        ["It costs 3.50 in the U.S. today. ", "Version 1.2.3 is out. ", "See example.com/a?b=c!d for more."],
        ["Der Krieg endete 1945. ", "Danach kam der Frieden. ", "Um 7:15. ", "Oder später."],
        ["Ein Satz.\n", "\n", "  Noch einer.\n", "Ende"],
        ["Schön ! ! ! ", "Sehr . . . ", "Ja"],
        ["... und dann ging er. ", "Sie blieb."],
        ["one\u2028two. ", "Three"],
    ],
)
def test_where_sentences_end(parts: list[str]) -> None:
    assert split_sentences("".join(parts)) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "...",
        "Dr. Müller und Prof. Weber kommen z. B. am 3. Mai oder am 21. Juni.",
        "Das sind ca. 5 km, d. h. etwa 3 Mi. und u. a. der Weg nach St. Gallen.",
        "J. R. R. Tolkien and George W. Bush met Mr. Smith, Jr. and Mrs. Jones.",
        "Use fruit, e.g. apples, i.e. Granny Smith, vs. Golden Delicious etc.",
        "See Fig. 3 in Vol. 2, No. 7 of the J. Phys. by Smith et al. 2001.",
        "„Was? das?“, fragte er.",
        "He said “yes.” and left.",
        "1.000,50 Euro",
        "Am 100. Geburtstag der Stadt.",
        "A sentence without an end",
    ],
)
def test_one_sentence(text: str) -> None:
    assert split_sentences(text) == ([text] if text else [])


@pytest.mark.parametrize("piece", [".", ". ", "。", "...!?", ".) ", "a. ", "A.", "\n", ".\u3000", '."', "''", "! ! a"])
def test_the_time_is_linear(piece: str) -> None:
    """Thirty thousand repeats would take half a minute if the time were quadratic."""
    begun = time.process_time()
    assert "".join(split_sentences(piece * 30_000 + "x")) == piece * 30_000 + "x"
    assert time.process_time() - begun < 10


@pytest.mark.shared
@pytest.mark.parametrize(("language", "most"), [("en", 0.002), ("de", 0.005), ("fr", 0.002)])
def test_captions_are_mostly_one_sentence(shared_dir: Path, language: str, most: float) -> None:
    with gzip.open(shared_dir / f"data/multi30k/train.{language}.gz", "rt", encoding="utf-8", newline="\n") as stream:
        lines = [line.strip() for line in stream][:10_000]
    assert sum(len(split_sentences(line)) > 1 for line in lines) < most * len(lines)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "column", "space"),
    [("tatoeba/deu-eng.tsv.gz", 0, " "), ("tatoeba/deu-eng.tsv.gz", 1, " "), ("tatoeba/cmn-eng.tsv.gz", 1, "")],
)
def test_sentences_put_together_come_apart(shared_dir: Path, name: str, column: int, space: str) -> None:
    """At least 98 % of the ends between sentences that each are one."""
    with gzip.open(shared_dir / "data" / name, "rt", encoding="utf-8", newline="\n") as stream:
        texts = [line.rstrip("\n").split("\t")[column].strip() for line in stream]
    whole = [text for text in texts if text[-1:] in ".!?。！？" and len(split_sentences(text)) == 1]
    random.Random(1).shuffle(whole)
    found = 0
    for first, second in zip(whole[:4000:2], whole[1:4000:2], strict=True):
        found += [part.strip() for part in split_sentences(first + space + second)] == [first, second]
    assert found >= 0.98 * 2000
