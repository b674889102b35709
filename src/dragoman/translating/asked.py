"""What a caller may give: texts, targets, terms and phrases of several forms, each made into one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, cast

from dragoman.errors import ConfigError, DataError, Setting
from dragoman.translating.terms import Terms
from dragoman.translation import Translation

Target = Translation | Sequence[int] | str
TermPairs = Terms | Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """Texts with what was asked for each: line number (from 0), prefix, phrases; ``terms`` are for all.

    White space around a prefix is none of it, so that a blank one is empty: no prefix.
    """

    texts: list[str]
    lines: Sequence[int]
    prefixes: Sequence[str] | None = None
    phrases: Sequence[Sequence[str]] | None = None
    terms: Terms | None = None

    @classmethod
    def of(
        cls,
        text: object,
        lines: object = None,
        prefix: object = None,
        constraints: object = None,
        terms: object = None,
        *,
        strict: bool = False,
    ) -> Request:
        """What ``translate`` was given, for one text or several.

        Raises :class:`DataError` for what does not fit, and :class:`ConfigError` where to be ``strict`` about terms and
        constraints was asked for, and none of them.
        """
        if strict and terms is None and constraints is None:
            raise ConfigError(Setting("strict_terms"), " is about terms and constraints; give some, or leave it out.")
        texts, single = texts_of(text), isinstance(text, str)
        prefixes = None if prefix is None else texts_of(prefix, "prefix")
        if prefixes is not None and (len(prefixes) != len(texts) or (isinstance(prefix, str) and not single)):
            raise DataError(f"{len(texts)} texts need as many prefixes; give a list of that length.")
        if prefixes is not None:
            prefixes = [prefix.strip() for prefix in prefixes]
        phrases = None
        if constraints is not None:
            each = [constraints] if single else _listed(constraints)
            if len(each) != len(texts):
                raise DataError(f"{len(texts)} texts need as many lists of constraints; give a list of that length.")
            phrases = [_phrases(one) for one in each]
        return cls(texts, lines_of(lines, len(texts)), prefixes, phrases, terms_of(terms))


def texts_of(text: object, what: str = "text") -> list[str]:
    """The texts of a string or a list of strings. Raises :class:`DataError` for anything else."""
    items = [text] if isinstance(text, str) else items_of(text)
    odd = text if items is None else next((one for one in items if not isinstance(one, str)), None)
    if items is None or odd is not None or None in items:
        raise DataError(f"a {what} is a {type(odd).__name__}; give a string, or a list of strings.")
    return cast("list[str]", items)


def one_text(text: object, done: str) -> str:
    """A text that has to be a string. Raises :class:`DataError` for anything else, saying what can be ``done``."""
    if not isinstance(text, str):
        raise DataError(f"only one text can be {done}, and this is a {type(text).__name__}; give a string.")
    return text


def items_of(value: object) -> list[object] | None:
    """The items of what can be iterated over; None for anything else, and for bytes."""
    try:
        return None if isinstance(value, bytes) else list(cast("Iterable[object]", value))
    except TypeError:
        return None


def lines_of(lines: object, count: int) -> Sequence[int]:
    """The line numbers of so many texts, 0, 1, … by default. Raises :class:`DataError` for what is none."""
    if lines is None:
        return range(count)
    try:
        numbers = [index(cast("int", one)) for one in items_of(lines) or ()]
    except TypeError:
        numbers = [-1]
    if len(numbers) != count or min(numbers, default=0) < 0:
        raise DataError(f"{count} texts need as many line_numbers, whole numbers from 0; give a list of that length.")
    return numbers


def paths_of(path: object) -> list[Path]:
    """The model directories of a path, or of a list of them. Raises :class:`ConfigError` for anything else."""
    items = [path] if isinstance(path, str | os.PathLike) else items_of(path)
    odd = [path] if items is None else [one for one in items if not isinstance(one, str | os.PathLike)]
    if items is None or odd:
        raise ConfigError(f"a model directory is given as a {type(odd[0]).__name__}; give a path, or a list of paths.")
    if not items:
        raise ConfigError("an ensemble of no models was asked for; give at least one model directory.")
    return [Path(cast("str", one)) for one in items]


def check_document(options: Mapping[str, Any]) -> None:
    """Raises :class:`ConfigError` for options that a document cannot have, or that show nothing in its text."""
    for name in ("prefix", "constraints"):
        if name in options:
            raise ConfigError(f"{name} belongs to one sentence, and a document has many; use translate.")
    for name, usual in (("attention", False), ("n_best", 1)):
        if options.get(name, usual) != usual:
            raise ConfigError(Setting(name), " has no effect on a document, which is given as text; use translate.")


def check_report(report: object) -> None:
    """Raises :class:`ConfigError` for what cannot be called."""
    if report is not None and not callable(report):
        raise ConfigError(
            Setting("report"),
            f" is a {type(report).__name__}; give a function, which is told the number of texts done.",
        )


def check_check(check: object) -> None:
    """Raises :class:`ConfigError` for what cannot be called."""
    if not callable(check):
        raise ConfigError(Setting("check"), f" is a {type(check).__name__}; give a function, which is called as it is.")


def _listed(constraints: object) -> list[object]:
    items = None if isinstance(constraints, str) else items_of(constraints)
    if items is None:
        raise DataError("the constraints of several texts are no list; give a list of phrases for each text.")
    return items


def _phrases(constraints: object) -> list[str]:
    if isinstance(constraints, str):
        raise DataError(f'the constraints of a text are a text ("{constraints}"); give a list of phrases.')
    return [] if constraints is None else texts_of(constraints, "constraint")


def terms_of(terms: object) -> Terms | None:
    """Terms as they are, or made of (source term, target phrase) pairs. Raises :class:`DataError`."""
    if terms is None or isinstance(terms, Terms):
        return terms
    if isinstance(terms, str | bytes) or not isinstance(terms, Iterable):
        raise DataError("terms are no list of pairs; give (source term, target phrase) pairs, or Terms.read(FILE).")
    return Terms(cast("Iterable[tuple[str, str]]", terms.items() if isinstance(terms, dict) else terms))


def ids_of(tgt: object) -> list[int]:
    """The target ids of a translation or a list of whole numbers. Raises :class:`DataError` for anything else.

    The ids of a translation in parts are no target: each part is one, of its own piece of the source.
    """
    if isinstance(tgt, Translation) and tgt.parts > 1:
        raise DataError(
            f"the text of this translation was translated in {tgt.parts} parts; give its sentences one by one."
        )
    try:
        if isinstance(tgt, bytes):
            raise TypeError
        return [index(one) for one in (tgt.ids if isinstance(tgt, Translation) else cast("Sequence[int]", tgt))]
    except TypeError:
        raise DataError("a target is neither a text, nor token ids, nor a Translation; give one of these.") from None


def whole_number(name: str, value: Any, most: int | None = None) -> int:
    """A number of at least 1 and at most ``most``. Raises :class:`ConfigError`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(Setting(name), f" is {value!r}; give a whole number of at least 1.")
    if most is not None and value > most:
        raise ConfigError(Setting(name), f" is {value}; give at most {most}.")
    return value
