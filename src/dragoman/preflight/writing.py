"""Which script a text is written in, and which one a language code asks for."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

# First word of a character's Unicode name -> script. Ideographs and kana are one: Japanese mixes them.
_SCRIPTS = {
    "LATIN": "Latin", "CYRILLIC": "Cyrillic", "GREEK": "Greek", "ARABIC": "Arabic", "HEBREW": "Hebrew",
    "DEVANAGARI": "Devanagari", "CJK": "Chinese or Japanese", "HIRAGANA": "Chinese or Japanese",
    "KATAKANA": "Chinese or Japanese", "HANGUL": "Korean", "THAI": "Thai", "GEORGIAN": "Georgian",
    "ARMENIAN": "Armenian", "BENGALI": "Bengali", "TAMIL": "Tamil",
}  # fmt: skip
# ISO 15924 codes, as they stand behind a language: rus_Cyrl.
_CODES = {
    "latn": "Latin", "cyrl": "Cyrillic", "grek": "Greek", "arab": "Arabic", "hebr": "Hebrew", "deva": "Devanagari",
    "hans": "Chinese or Japanese", "hant": "Chinese or Japanese", "jpan": "Chinese or Japanese", "kore": "Korean",
    "hang": "Korean", "thai": "Thai",
}  # fmt: skip
# ISO 639 codes of languages that are written in one script.
_LANGUAGES = {
    "Latin": (
        "en eng de deu ger fr fra fre es spa it ita pt por nl nld dut pl pol cs ces cze sv swe da dan no nor nb nob "
        "fi fin tr tur ro ron rum hu hun vi vie id ind et est lv lav lt lit sk slk sl slv hr hrv is isl ca cat eu eus"
    ),
    "Cyrillic": "ru rus uk ukr be bel bg bul mk mkd",
    "Greek": "el ell gre",
    "Arabic": "ar ara fa fas per ur urd",
    "Hebrew": "he heb",
    "Devanagari": "hi hin ne nep npi mr mar",
    "Chinese or Japanese": "zh zho chi cmn yue ja jpn",
    "Korean": "ko kor",
    "Thai": "th tha",
}
_OF_LANGUAGE = {code: script for script, codes in _LANGUAGES.items() for code in codes.split()}


def script_of_language(code: str) -> str | None:
    """The script that a language code asks for; None for a code that leaves it open or is unknown."""
    first, *rest = re.split("[-_]", code.lower())
    return next((_CODES[part] for part in rest if part in _CODES), _OF_LANGUAGE.get(first))


@lru_cache(1 << 14)
def _script_of_character(character: str) -> str | None:
    if not character.isalpha():
        return None
    return _SCRIPTS.get(unicodedata.name(character, "").partition(" ")[0])


def script_of(text: str) -> str | None:
    """The script of most letters of a text; None where it has no letters of a known one."""
    if text.isascii():
        return "Latin" if any(map(str.isalpha, text)) else None
    counts = Counter(script for script in map(_script_of_character, text) if script is not None)
    return max(counts, key=lambda script: counts[script]) if counts else None


def script_of_many(texts: Iterable[str]) -> tuple[str | None, Counter[str]]:
    """The script of most of the texts, and how many are written in each."""
    counts = Counter(script for script in map(script_of, texts) if script is not None)
    return (max(counts, key=lambda script: counts[script]) if counts else None), counts
