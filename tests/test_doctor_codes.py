"""The doctor on language codes: what is none, what stands for any, what is not known here; never an error."""

from __future__ import annotations

import pytest

from dragoman.preflight.codes import _NAMES, codes
from dragoman.preflight.finding import Finding
from dragoman.preflight.writing import script_of_language
from dragoman.text.languages import KNOWN


def said(code: str) -> str | None:
    """What is said of a source's code, without the words around it; None for nothing."""
    found = list(codes(code, "de"))
    assert all(finding.severity == "note" for finding in found)
    begin, end = "data.src_lang is ", ", so the language of that side was not checked."
    assert all(one.text.startswith(begin) and one.text.endswith(end) for one in found)
    return found[0].text.removeprefix(begin).removesuffix(end) if found else None


@pytest.mark.parametrize(
    "code", ["fr", "FR", "fra", "fre", "fr_FR", "fr-CA", "fra_Latn", "zh-Hant-TW", "el", "th", "he"]
)
def test_a_known_language_in_any_form(code: str) -> None:
    assert said(code) is None


@pytest.mark.parametrize(
    ("code", "near"),
    [("french", "fr"), ("French", "fr"), ("frensh", "fr"), ("GERMAN", "de"), ("chinese-simplified", "zh")],
)
def test_a_name_is_no_code(code: str, near: str) -> None:
    assert said(code) == f"{code}, which is not known as a language code (did you mean {near}?)"


@pytest.mark.parametrize("code", ["klingonese", "1", "e", "en de", ""])
def test_no_code_and_no_guess(code: str) -> None:
    assert said(code) == f"{code}, which is not known as a language code"


def test_any_language() -> None:
    assert said("xx") == "xx, which stands for any language"


@pytest.mark.parametrize("code", ["sw", "swa", "swh_x", "quz", "ga-IE", "sah"])
def test_a_language_without_a_table_is_not_called_wrong(code: str) -> None:
    assert said(code) == f"{code}, of which nothing is known here"


def test_codes_that_nobody_set() -> None:
    assert list(codes("src", "tgt")) == [
        Finding("note", f"data.{name} is not set, so the language of that side was not checked.")
        for name in ("src_lang", "tgt_lang")
    ]


def test_every_name_leads_to_a_language_that_is_known() -> None:
    assert set(KNOWN) <= set(_NAMES.values())
    assert all(said(code) is None for code in _NAMES.values())
    assert all(code in KNOWN or script_of_language(code) for code in _NAMES.values())
