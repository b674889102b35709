"""The nouns of the phrasebook, read from ``data/nouns.txt``, where their columns and flags are described."""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman.phrasebook.tables import read_table

_GENDERS = {"der": "m", "die": "f", "das": "n"}


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """One noun. Forms that do not exist are empty strings; ``gender`` is m, f or n."""

    lemma: str
    en: str
    en_plural: str
    de: str
    gender: str
    genitive: str
    plural: str
    kind: str
    flags: frozenset[str] = frozenset()
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def countable(self) -> bool:
        """Whether the noun has both numbers (apple) rather than one (milk, parents)."""
        return bool(self.en and self.en_plural)


def _noun(row: list[str]) -> Noun:
    en, en_plural, german, genitive, plural, kind, flags = ["" if cell == "-" else cell for cell in row]
    article, _, de = german.partition(" ")
    words = flags.split()
    facts = dict(word.split("=") for word in words if "=" in word)
    return Noun(
        lemma=en or en_plural,
        en=en,
        en_plural=en_plural,
        de="" if de == "-" else de,
        gender=_GENDERS[article],
        genitive=genitive,
        plural=plural,
        kind=kind,
        flags=frozenset(word for word in words if "=" not in word),
        facts=facts,
    )


NOUNS: dict[str, Noun] = {noun.lemma: noun for noun in map(_noun, read_table("nouns", 7)["nouns"])}
"""Every noun by its English lemma, in the order of the table."""


def of_kind(kind: str) -> tuple[Noun, ...]:
    """The nouns of one kind, in the order of the table."""
    return tuple(noun for noun in NOUNS.values() if noun.kind == kind)


def flagged(flag: str) -> tuple[Noun, ...]:
    """The nouns that carry a flag or a fact of that name, in the order of the table."""
    return tuple(noun for noun in NOUNS.values() if flag in noun.flags or flag in noun.facts)
