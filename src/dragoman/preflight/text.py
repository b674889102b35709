"""Characters that do not belong into a corpus: what bad conversions leave behind."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dragoman.preflight.finding import Finding, Severity, share_text
from dragoman.preflight.survey import Survey

# Most sentences have nothing that any kind of noise could be made of.
_SUSPECT = re.compile("[^ -~]|&")
# From this share of sentences on it is a warning.
_WARNING = 1e-3

# What the bytes 0x80 to 0xBF of UTF-8 become when they are read as Windows-1252 or Latin-1.
_REST = "".join(sorted({bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0xC0)} - {"�"}))
_REST_CLASS = f"[{re.escape(_REST)}\x80-\x9f]"
# UTF-8 read as Windows-1252. Two letters of Latin-1 (Ã¼), or a quotation mark (â€œ), are proof alone. The first bytes
# of other scripts also stand before marks in honest text (Spaß“, voilà »), so those have to come twice in a row.
_MOJIBAKE = re.compile(
    f"[ÂÃ]{_REST_CLASS}|â€{_REST_CLASS}|(?:[Ä-ß]{_REST_CLASS}){{2,}}|(?:[à-ï]{_REST_CLASS}{{2}}){{2,}}"
)


@dataclass(frozen=True)
class _Noise:
    """A kind of noise: how a sentence shows it, its name, what to do, and the sentences that it takes to be sure."""

    shows: Callable[[str], object]
    name: str
    advice: str
    least: int = 1


def _decomposed(text: str) -> bool:
    """Whether a text is in NFD and NFC would be another; scripts that NFC leaves apart are not meant."""
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return False
    return unicodedata.is_normalized("NFD", text)


_KINDS = (
    _Noise(
        re.compile("\r").search,
        "a carriage return inside",
        "remove them (tr -d '\\r'), or check that the lines of both sides still match",
    ),
    _Noise(
        re.compile("\ufeff").search,
        "a byte order mark (U+FEFF) inside",
        "remove it; it comes from files that were joined",
    ),
    _Noise(
        re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d{1,6}|#[xX][0-9A-Fa-f]{1,5});").search,
        "HTML entities such as &amp;",
        "unescape both sides (html.unescape in Python), and do the same to what is translated later",
    ),
    _Noise(
        lambda text: not text.isascii() and _MOJIBAKE.search(text),
        "UTF-8 that was read as Latin-1 (Ã¼ for ü)",
        "read the original again as UTF-8, or repair it (text.encode('cp1252').decode('utf-8'))",
        least=2,
    ),
    _Noise(
        re.compile("\ufffd").search,
        "the replacement character U+FFFD, where text was lost",
        "convert the original again with its true encoding, or drop these pairs",
    ),
    _Noise(
        _decomposed,
        "decomposed letters (NFD: u and ¨ for ü)",
        "normalise to NFC; the tokenizers do so, and references in NFD never match what comes out",
    ),
    _Noise(
        re.compile("\t").search,
        "a tab inside",
        "check that the right columns of a table were read, or replace tabs by spaces",
    ),
    _Noise(
        re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]").search,
        "control characters",
        "remove them; U+0085, U+2028 and U+2029 also end a line in some tools",
    ),
)


def noise(survey: Survey) -> Iterator[Finding]:
    """A finding for each kind of noise that the sample shows, with the share of each side and the first place."""
    size = survey.size
    suspects = [
        (number, side, pair[side])
        for number, pair in survey.numbered()
        for side in (0, 1)
        if _SUSPECT.search(pair[side])
    ]
    for kind in _KINDS:
        counts = [0, 0]
        first = 0
        for number, side, text in suspects:
            if kind.shows(text):
                counts[side] += 1
                first = first or number
        if sum(counts) < kind.least:
            continue
        sides = [f"{share_text(counts[at] / size)} of the {name}" for at, name in enumerate(("sources", "targets"))]
        where = " and ".join(side for side, count in zip(sides, counts, strict=True) if count)
        severity: Severity = "warning" if max(counts) >= _WARNING * size else "note"
        yield Finding(severity, f"{where} have {kind.name}, the first in pair {first:,}; {kind.advice}.")
