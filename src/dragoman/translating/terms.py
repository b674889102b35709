"""Terms: how some words of the source have to be translated."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from dragoman.errors import DataError
from dragoman.text.readers import read_lines
from dragoman.text.scripts import is_boundary

_SPACE = re.compile(r"\s+")


class Terms:
    """Source terms with the target phrase of each.

    A term applies where it stands in a text: whole words in scripts that have spaces between words, anywhere in
    those that have none (Han, kana, Thai, …). White space of any length is one space. A term written in lower case
    applies in any case, so that ``straße`` applies to ``STRASSE`` (but not to ``strasse``, which is another spelling);
    one with a capital, only as it is written. Of terms that overlap, the one that begins first applies, of those the
    longest.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Raises :class:`DataError` for what are no pairs, an empty side, and a term that is there twice."""
        if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
            raise DataError("terms are no list of pairs; give (source term, target phrase) pairs.")
        self._exact: dict[str, str] = {}
        self._any_case: dict[str, str] = {}
        numbers: dict[str, int] = {}
        for number, pair in enumerate(pairs, start=1):
            try:
                source, target = pair
                source, target = _plain(source), " ".join(target.split())
            except (AttributeError, TypeError, ValueError):
                raise DataError(f"term {number} is no pair of texts; give (source term, target phrase).") from None
            if not source or not target:
                raise DataError(f"term {number} has an empty side; give the source term and its target phrase.")
            if source in numbers:
                raise DataError(f'terms {numbers[source]} and {number} are both for "{source}"; leave one of them out.')
            numbers[source] = number
            (self._any_case if source == source.lower() else self._exact)[source] = target
        # Some capitals are no single character that is made small again: SS of ß, Σ of ς, I of ı.
        self._capital: dict[str, str] = {}
        for source, target in self._any_case.items():
            self._capital.setdefault(source.upper(), target)
        self._lengths = sorted({len(source) for source in [*numbers, *self._capital]}, reverse=True)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Terms:
        """A UTF-8 file (plain or .gz) of lines source⇥target; blank lines are left out.

        Raises :class:`DataError` with file and line.
        """
        if not isinstance(path, str | os.PathLike):
            raise DataError(f"a file of terms is given as a {type(path).__name__}; give its path.")
        pairs: dict[str, tuple[str, int]] = {}
        for number, line in enumerate(read_lines(Path(path)), start=1):
            if not line.strip():
                continue
            sides = [side.strip() for side in line.split("\t")]
            if len(sides) != 2 or not all(sides):
                raise DataError(f"{path}, line {number}: not a source term, a tab and a target phrase; write it so.")
            source = _plain(sides[0])
            if source in pairs:
                raise DataError(
                    f'{path}, line {number}: "{source}" is a term already (line {pairs[source][1]}); '
                    "leave one of them out."
                )
            pairs[source] = sides[1], number
        return cls((source, target) for source, (target, _) in pairs.items())

    def targets(self, text: str) -> list[str]:
        """The target phrase of each term in a text, in the order of the text, as often as the term is there."""
        return list(self._found(_plain(text)))

    def _found(self, text: str) -> Iterator[str]:
        at = 0
        while at < len(text):
            for length in self._lengths if is_boundary(text, at) else ():
                end = at + length
                if end > len(text) or not is_boundary(text, end):
                    continue
                here = text[at:end]
                target = self._exact.get(here) or self._any_case.get(here.lower()) or self._capital.get(here)
                if target is not None:
                    yield target
                    at = end
                    break
            else:
                at += 1


def _plain(text: str) -> str:
    return _SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip()
