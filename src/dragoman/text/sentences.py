"""Splitting text into sentences without loss: the parts joined give the text again.

Rules, not a model, and careful ones: a missed end costs a longer sentence, a wrong one breaks a translation.
"""

from __future__ import annotations

import re

# Ends that need no space behind them: CJK and Devanagari.
_SURE = frozenset("。！？｡।॥")
# Between these stand the letters that need no space after "!" and "?".
_FIRST_KANA, _LAST_HAN = "\u3040", "\u9fff"
# Every mark, the closing quotes and brackets that belong to it, and the space behind. It matches wherever a mark
# stands and takes the whole run of them, so that the time to find all is linear in the text. German closes with the
# signs that open in English (“ ‘ «): they close where a space follows.
_MARKS = re.compile(r"([.!?…‽؟۔。！？｡।॥]+)((?:[»”’\"')\]」』）】]|[«“‘](?=\s|$))*)(\s*)")
_ABBREVIATED = """
dr mr mrs ms prof st vs etc bzw ca ggf inkl usw evtl str nr tel abs art bd hr fr z b d h u a o ä e g i p s v chr
jan feb mär apr jun jul aug sep sept okt oct nov dez dec mme mlle m av jr sr inc ltd co corp no vol fig cf al
approx est dept gen col sgt capt rev hon vgl sog mind max min mio mrd zzgl
"""
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())
# Characters before a full stop that are looked at: more than the longest abbreviation.
_CONTEXT = 20
# The most digits of a day, a floor or a place in a row; longer numbers are years and sums, which have no full stop.
_ORDINAL = 3


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, each with the white space behind it; a line break always ends one.

    ``"".join`` of the parts is the text, and an empty text has no parts.
    """
    parts: list[str] = []
    for line in re.split(r"(?<=\n)", text):
        parts += _split_line(line)
    return parts


def plainly_spaced(sentence: str) -> str:
    """A sentence as a model reads it: tabs, no-break spaces, line breaks and runs of space are one space each."""
    return " ".join(sentence.split())


def put_into(part: str, translation: str) -> str:
    """The translation between the white space that stands around the sentence in ``part``."""
    body = part.strip() if has_word(part) else ""
    before, _, after = part.partition(body) if body else (part, "", "")
    return before + translation + after


def _split_line(line: str) -> list[str]:
    """Marks without a word ("! !", a lone full stop) are no sentence: they stay with their neighbour."""
    parts: list[str] = []
    begin, seen, spoken = 0, 0, False
    ends = [match.end() for match in _MARKS.finditer(line) if _ends_sentence(line, match)]
    for end in (*ends, len(line)):
        if has_word(line[seen:end]):
            if spoken:
                parts.append(line[begin:seen])
                begin = seen
            spoken = True
        seen = end
    return [*parts, line[begin:]] if line else []


def has_word(part: str) -> bool:
    """Whether there is a letter or a digit of any script (Unicode's L and N): without one there is nothing to say."""
    return any(character.isalnum() for character in part)


def _ends_sentence(line: str, match: re.Match[str]) -> bool:
    """Whether the marks found end a sentence, judged by what stands around them."""
    marks, closing, space = match.groups()
    if match.end() == len(line):
        return True
    following = line[match.end()]
    if marks[-1] in _SURE or (marks[-1] in "!?" and _FIRST_KANA <= following <= _LAST_HAN):
        # Japanese goes on with と after quoted speech.
        return not (closing and following == "と")
    if not space or following.islower():
        return False
    return marks != "." or not _takes_full_stop(line[max(0, match.start() - _CONTEXT) : match.start()])


def _takes_full_stop(before: str) -> bool:
    """Whether the text before a full stop ends in an abbreviation, an initial or an ordinal number ("am 3. Mai")."""
    found = re.search(r"(\W?)(\w+)$", before)
    if found is None:
        return False
    sign, word = found.groups()
    if word.isdigit():
        return len(word) <= _ORDINAL and sign != ":"
    return word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isalpha())
