"""What a caller may give: texts, targets, terms and phrases of several forms, each made into one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, cast

from dragoman.errors import ConfigError, DataError, Setting
from dragoman.translating.terms import Terms
from dragoman.translation import Translation

Target = Translation | Sequence[int] | str
TermPairs = Terms | Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """Texts with what was asked for each: line number (from 0), prefix, phrases; ``terms`` are for all."""

    texts: list[str]
    lines: Sequence[int]
    prefixes: Sequence[str] | None = None
    phrases: Sequence[Sequence[str]] | None = None
    terms: Terms | None = None

    @classmethod
    def of(
        cls,
        text: object,
        lines: Sequence[int] | None = None,
        prefix: object = None,
        constraints: object = None,
        terms: object = None,
    ) -> Request:
        """What ``translate`` was given, for one text or several. Raises :class:`DataError` for what does not fit."""
        texts, single = texts_of(text), isinstance(text, str)
        prefixes = None if prefix is None else texts_of(prefix, "prefix")
        if prefixes is not None and (len(prefixes) != len(texts) or (isinstance(prefix, str) and not single)):
            raise DataError(f"{len(texts)} texts need as many prefixes; give a list of that length.")
        phrases = None
        if constraints is not None:
            each = [constraints] if single else _listed(constraints)
            if len(each) != len(texts):
                raise DataError(f"{len(texts)} texts need as many lists of constraints; give a list of that length.")
            phrases = [_phrases(one) for one in each]
        return cls(texts, range(len(texts)) if lines is None else lines, prefixes, phrases, terms_of(terms))


def texts_of(text: object, what: str = "text") -> list[str]:
    """The texts of a string or a list of strings. Raises :class:`DataError` for anything else."""
    texts = [text] if isinstance(text, str) else list(text) if isinstance(text, Iterable) else [text]
    strings = [one for one in texts if isinstance(one, str)]
    if isinstance(text, bytes) or len(strings) != len(texts):
        odd = text if isinstance(text, bytes) else next(one for one in texts if not isinstance(one, str))
        raise DataError(f"a {what} is a {type(odd).__name__}; give a string, or a list of strings.")
    return strings


def _listed(constraints: object) -> list[object]:
    if isinstance(constraints, str | bytes) or not isinstance(constraints, Iterable):
        raise DataError("the constraints of several texts are no list; give a list of phrases for each text.")
    return list(constraints)


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
    """The target ids of a translation or a list of whole numbers. Raises :class:`DataError` for anything else."""
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
