"""Splitting text into sentences without loss: the parts joined give the text again.

Rules, not a model, and careful ones: a missed end costs a longer sentence, a wrong one breaks a translation.
"""

from __future__ import annotations

import re

# Ends that need no space behind them: CJK and Devanagari.
_SURE_END = re.compile(r"[。！？｡।॥][»”’\"')\]」』）】]*\s*")
# Ends that need a space and then a capital, a digit, an opening mark or a script without capitals.
_LIKELY_END = re.compile(r"[.!?…‽؟۔]+[»”’\"')\]]*\s+")
_OPENING = "\"'«»„“‘‚¿¡([{-–—•"
_ABBREVIATIONS = frozenset(
    "dr mr mrs ms prof st vs etc bzw ca ggf inkl usw evtl str nr tel abs art bd hr fr z b d h u a o ä e g i p s v chr "
    "jan feb mär apr jun jul aug sep sept okt oct nov dez dec mme mlle m av jr sr inc ltd co corp no vol fig cf al "
    "approx est dept gen col sgt capt rev hon vgl sog mind max min mio mrd zzgl".split()
)


def _is_end(text: str, stop: int, after: int) -> bool:
    """Whether the full stop that ends at ``stop`` ends a sentence, the next word beginning at ``after``."""
    if after >= len(text):
        return True
    following = text[after]
    if not (following.isupper() or following.isdigit() or following in _OPENING or not following.islower()):
        return False
    before = re.search(r"(\w+)\.$", text[max(0, stop - 20) : stop])
    if before is None or text[stop - 1] != ".":
        return True
    word = before.group(1)
    # Initials, ordinals ("am 3. Mai") and abbreviations go on.
    return not (word.lower() in _ABBREVIATIONS or word.isdigit() or (len(word) == 1 and word.isalpha()))


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, each with the white space behind it; a line break always ends one."""
    parts: list[str] = []
    for line in re.split(r"(?<=\n)", text):
        begin = 0
        ends = sorted(
            {match.end() for match in _SURE_END.finditer(line)}
            | {match.end() for match in _LIKELY_END.finditer(line) if _is_end(line, _stop(match), match.end())}
        )
        for end in ends:
            if end > begin:
                parts.append(line[begin:end])
                begin = end
        if begin < len(line):
            parts.append(line[begin:])
    return parts


def _stop(match: re.Match[str]) -> int:
    """Where the marks that end the sentence end, closing quotes and spaces not counted."""
    return match.start() + len(re.match(r"[.!?…‽؟۔]+", match.group()).group())  # type: ignore[union-attr]  # it matched
