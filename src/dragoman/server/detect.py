"""Which of a few languages a text is in, and how sure that is: by its script, its commonest words and its letters.

The languages that a server translates from are ranked; how sure that is, they are told beside all languages that the
tables know, so that a text in another one makes none of them sure. Nothing is trained: the tables below and in
``text/languages.py`` are all it knows. A language that is not in them gets what the text leaves to chance.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from dragoman.text.languages import COMMON_LETTERS, COMMON_WORDS, language_of, signs

# First words of Unicode names -> languages written so; where there are several, words and letters decide.
_SCRIPTS = {
    "LATIN": frozenset(COMMON_WORDS) - {"ru", "uk", "bg", "be", "mk", "ar", "fa", "ur"},
    "CYRILLIC": frozenset(("ru", "uk", "bg", "be", "sr", "mk", "kk", "mn")),
    "CJK": frozenset(("zh", "ja")),
    "HIRAGANA": frozenset(("ja",)),
    "KATAKANA": frozenset(("ja",)),
    "HANGUL": frozenset(("ko",)),
    "GREEK": frozenset(("el",)),
    "ARABIC": frozenset(("ar", "fa", "ur")),
    "HEBREW": frozenset(("he",)),
    "DEVANAGARI": frozenset(("hi", "mr", "ne")),
    "THAI": frozenset(("th",)),
    "BENGALI": frozenset(("bn",)),
    "TAMIL": frozenset(("ta",)),
    "GEORGIAN": frozenset(("ka",)),
    "ARMENIAN": frozenset(("hy",)),
}
_SCRIPTED = frozenset(code for codes in _SCRIPTS.values() for code in codes)
# Languages that something is known of.
_KNOWN = _SCRIPTED | frozenset(COMMON_WORDS) | frozenset(COMMON_LETTERS)


def _by_sign(signs: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The languages of each sign."""
    found: dict[str, list[str]] = {}
    for code, own in signs.items():
        for sign in set(own):
            found.setdefault(sign, []).append(code)
    return found


_OF_WORD, _OF_LETTER = _by_sign(COMMON_WORDS), _by_sign(COMMON_LETTERS)
# What a sign is worth, as natural logarithms of the odds: a common word, a letter, and a letter of another script. So
# much that, of texts that are half a sure thing or more, no fewer are right than their confidence says (see the tests).
_WORD, _LETTER, _SCRIPT = 4.8, 2.1, 1.5
# No more of a text is looked at, and of its letters for their scripts; this share of the confidence goes to all
# languages alike, whatever is found: the tables are no proof.
_SHOWN, _LETTERS_SHOWN, _DOUBT = 4000, 200, 0.005


def detect(text: str, languages: Sequence[str]) -> list[tuple[str, float]]:
    """The languages with their confidence in per cent, likeliest first; of equal ones the first given stays first.

    The confidence is the probability of a language among these and all that are known: it adds up to 100 over all of
    them, not over ``languages``. Two codes of one language share it.
    """
    asked = [language_of(code) for code in languages]
    scores = {**dict.fromkeys(asked, 0.0), **_Evidence.of(text[:_SHOWN]).scores()}
    best = max(scores.values())
    odds = {code: math.exp(score - best) for code, score in scores.items()}
    total, codes = sum(odds.values()), Counter(asked)
    shares = [((1 - _DOUBT) * odds[code] / total + _DOUBT / len(odds)) / codes[code] for code in asked]
    ranked = sorted(zip(languages, shares, strict=True), key=lambda item: -item[1])
    return [(code, round(100 * share, 1)) for code, share in ranked]


@dataclass(frozen=True)
class _Evidence:
    """How often each word stands in a text, each character, and letters that each set of languages has."""

    words: Counter[str]
    characters: Counter[str]
    scripts: Counter[frozenset[str]]

    @classmethod
    def of(cls, text: str) -> _Evidence:
        letters = islice((letter for letter in text if letter.isalpha()), _LETTERS_SHOWN)
        return cls(Counter(signs(text)), Counter(text.lower()), Counter(map(_written_so, letters)))

    def scores(self) -> dict[str, float]:
        """The evidence for each language that is known, in nats."""
        words, letters, others = Counter[str](), Counter[str](), Counter[str]()
        for found, counted, known in ((words, self.words, _OF_WORD), (letters, self.characters, _OF_LETTER)):
            for sign in counted.keys() & known.keys():
                for code in known[sign]:
                    found[code] += counted[sign]
        for written, count in self.scripts.items():
            for code in _SCRIPTED - written:
                others[code] += count
        return {code: _WORD * words[code] + _LETTER * letters[code] - _SCRIPT * others[code] for code in _KNOWN}


def _written_so(letter: str) -> frozenset[str]:
    """The languages that are written with a letter; all where that is not known."""
    return _SCRIPTS.get(unicodedata.name(letter, "").partition(" ")[0], _SCRIPTED)
