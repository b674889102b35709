"""The verbs of the phrasebook, read from ``data/verbs.txt``, where their columns and flags are described."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.phrasebook.nouns import NOUNS, Noun, of_kind
from dragoman.phrasebook.tables import read_table

DOUBLED = frozenset({"get", "put", "swim", "run", "sit", "forget", "win", "begin", "cancel", "travel"})
"""English verbs whose last consonant is doubled before -ing."""


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """One verb in both languages: ``rest`` and ``particle`` are the English words after the conjugated one.

    ``base`` is the German infinitive without its separable ``prefix``; ``he`` the er-form without it; ``perfect``
    the er-form of the auxiliary (hat, ist). ``preposition`` is German and empty for a bare case.
    """

    lemma: str
    en: str
    rest: str
    particle: str
    past: str
    en_participle: str
    prefix: str
    base: str
    he: str
    perfect: str
    participle: str
    reflexive: bool
    preposition: str
    case: str
    recipient: bool
    preterite: str
    objects: tuple[Noun, ...]
    flags: frozenset[str]

    @property
    def third(self) -> str:
        """The English form for he, she and it."""
        if self.en in ("be", "have"):
            return {"be": "is", "have": "has"}[self.en]
        if self.en.endswith("y") and self.en[-2] not in "aeou":
            return self.en[:-1] + "ies"
        return self.en + ("es" if self.en.endswith(("s", "sh", "ch", "x", "o")) else "s")

    @property
    def ing(self) -> str:
        """The English present participle."""
        if self.en in DOUBLED:
            return self.en + self.en[-1] + "ing"
        if self.en.endswith("ie"):
            return self.en[:-2] + "ying"
        if self.en.endswith("e") and not self.en.endswith(("ee", "be")):
            return self.en[:-1] + "ing"
        return self.en + "ing"

    @property
    def ambiguous(self) -> bool:
        """Whether the English past looks like the present (they read), so that only he and she tell them apart."""
        return self.past == self.en


def _objects(cell: str) -> tuple[Noun, ...]:
    nouns: dict[str, Noun] = {}
    for word in cell.split():
        for noun in of_kind(word[1:]) if word.startswith("@") else (NOUNS[word],):
            nouns[noun.lemma] = noun
    return tuple(nouns.values())


def _verb(row: list[str]) -> Verb:
    english, past, participle, german, he, perfect, government, objects, flags = row
    head, *rest = english.split()
    auxiliary, german_participle = perfect.split()
    reflexive = german.startswith("sich ")
    prefix, _, base = german.removeprefix("sich ").rpartition("/")
    preposition, _, case = government.rpartition("+")
    words = flags.split()
    return Verb(
        lemma=english.replace("+", ""),
        en=head,
        rest=" ".join(word for word in rest if not word.startswith("+")),
        particle=" ".join(word[1:] for word in rest if word.startswith("+")),
        past=past,
        en_participle=participle,
        prefix=prefix,
        base=base,
        he=he,
        perfect=auxiliary,
        participle=german_participle,
        reflexive=reflexive,
        preposition="" if preposition == "dat" else preposition,
        case="" if case == "-" else case,
        recipient=preposition == "dat",
        preterite=next((word[5:] for word in words if word.startswith("pret=")), ""),
        objects=_objects(objects),
        flags=frozenset(word for word in words if not word.startswith("pret=")),
    )


_TABLES = read_table("verbs", 9)


def _section(name: str) -> dict[str, Verb]:
    return {verb.lemma: verb for verb in map(_verb, _TABLES[name])}


TRANSITIVE: dict[str, Verb] = _section("transitive")
"""Verbs with an object, by English lemma."""

INTRANSITIVE: dict[str, Verb] = _section("intransitive")
"""Verbs without an object (and belong to, whose subject is a thing), by English lemma."""

THINKING: dict[str, Verb] = _section("thinking")
"""Verbs with a that-clause or an infinitive, by English lemma; ``know`` is wissen here and kennen above."""

RESTING: dict[str, Verb] = _section("resting")
"""Verbs that say where something is (with the dative), by English lemma."""

MOVING: dict[str, Verb] = _section("moving")
"""Verbs that say where something is put (with the accusative), by English lemma."""
