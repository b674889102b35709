"""Terms: where they apply, and how a file of them is read."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.text.scripts import in_word, is_boundary, is_unspaced
from dragoman.translating.terms import Terms

WriteLines = Callable[[str, Sequence[str]], Path]


@pytest.mark.parametrize(
    ("terms", "text", "targets"),
    [
        ([("key", "Schlüssel")], "The key.", ["Schlüssel"]),
        ([("key", "Schlüssel")], "keys, keyboard, monkey, key_", ["Schlüssel"]),
        ([("key", "Schlüssel")], "Key KEY key-ring", ["Schlüssel"] * 3),
        # A capital in a term counts, none applies in any case.
        ([("Polish", "polnisch"), ("polish", "putzen")], "Polish polish POLISH", ["polnisch", "putzen", "putzen"]),
        ([("IT", "EDV")], "it is IT", ["EDV"]),
        # The longest of those that begin at a place, and nothing inside it.
        ([("dog", "Hund"), ("hot dog", "Würstchen")], "A hot dog and a dog", ["Würstchen", "Hund"]),
        ([("hot dog", "Würstchen"), ("dog house", "Hundehütte")], "hot dog house", ["Würstchen"]),
        # White space of any kind and length.
        ([("hot  dog", "Würstchen")], "a hot\t dog", ["Würstchen"]),
        ([("hot dog", "heißer   Hund")], "hot dog", ["heißer Hund"]),
        # Marks of punctuation need no spaces around them.
        ([("C++", "C++"), (".", "Punkt")], "Use C++.", ["C++", "Punkt"]),
        ([("C++", "C++")], "xC++ C++x", ["C++"]),
        # Scripts without spaces: anywhere. Mixed with Latin letters too.
        ([("犬", "dog")], "猫と犬がいる", ["dog"]),
        ([("ไทย", "Thai")], "ภาษาไทยดี", ["Thai"]),
        ([("AI", "KI")], "生成AIの犬", ["KI"]),
        # Composed or not, and letters whose small form is longer.
        ([("café", "Kaffeehaus")], "the cafe\u0301", ["Kaffeehaus"]),
        ([("ızgara", "Grill"), ("İstanbul", "Stambul")], "İİ İstanbul ızgara", ["Stambul", "Grill"]),
        ([("cafe", "X")], "café cafe\u0323", []),
        ([], "key", []),
        ([("key", "a")], "", []),
    ],
)
def test_terms_apply_where_they_stand(terms: list[tuple[str, str]], text: str, targets: list[str]) -> None:
    assert Terms(terms).targets(text) == targets


@given(
    words=st.lists(st.sampled_from(["ab", "AB", "c", "Ab c", "x", "c x"]), max_size=8),
    terms=st.sets(st.sampled_from(["ab", "c", "Ab c", "c x", "x"])),
)
def test_each_word_is_in_at_most_one_term(words: list[str], terms: set[str]) -> None:
    found = Terms((term, f"<{term}>") for term in terms).targets(" ".join(words))
    assert set(found) <= {f"<{term}>" for term in terms}
    covered = sum(len(target.split()) for target in found)
    assert covered <= len(" ".join(words).split())
    for word in " ".join(words).split():
        if word.lower() in terms and len(terms) == 1:
            assert found


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([("key", "a"), ("  key ", "b")], 'terms 1 and 2 are both for "key"'),
        ([("a", "b"), ("", "x")], "term 2 has an empty side"),
        ([("key", " ")], "term 1 has an empty side"),
        (["ab c"], "term 1 is no pair"),
        ([("a", "b", "c")], "term 1 is no pair"),
        ([("a", None)], "term 1 is no pair"),
        ([3], "term 1 is no pair"),
    ],
)
def test_terms_that_are_none(terms: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Terms(terms)


def test_a_file_of_terms(write_lines: WriteLines, tmp_path: Path) -> None:
    path = write_lines("terms", ["\ufeffkey\tSchlüssel", "", "  old man \t alter  Mann ", " "])
    assert Terms.read(path).targets("The old man has a key") == ["alter Mann", "Schlüssel"]
    packed = tmp_path / "terms.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert Terms.read(packed).targets("key") == ["Schlüssel"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["key Schlüssel"], "terms, line 1: not a source term, a tab and a target phrase"),
        (["a\tb", "a\tb\tc"], "terms, line 2: not a source term"),
        (["a\tb", "", "\tc"], "terms, line 3: not a source term"),
        (["a\tb", "c\td", " a\tx"], r'terms, line 3: "a" is a term already \(line 1\)'),
    ],
)
def test_files_that_are_refused(write_lines: WriteLines, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Terms.read(write_lines("terms", lines))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "terms").write_bytes(b"a\tb\n\xff\tb\n")
    with pytest.raises(DataError, match="terms, line 2: byte 0xff"):
        Terms.read(tmp_path / "terms")
    with pytest.raises(DataError, match="cannot read"):
        Terms.read(tmp_path / "nothing")


@pytest.mark.parametrize("character", "aZäßж9あア犬ไ漢한عक\u0301ｱＡ𠀀Ⅳ_ -.▁")
def test_scripts(character: str) -> None:
    spaced = "aZäßж9한عक\u0301ＡⅣ"
    unspaced = "あア犬ไ漢ｱ𠀀"
    assert in_word(character) == (character in spaced)
    assert is_unspaced(character) == (character in unspaced)


def test_boundaries() -> None:
    assert [is_boundary("ab c", place) for place in range(5)] == [True, False, True, True, True]
    assert [is_boundary("犬a", place) for place in range(3)] == [True, True, True]
