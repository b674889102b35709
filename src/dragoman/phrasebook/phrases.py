"""Noun phrases in both languages at once: pronouns, names, and nouns with determiner, adjective and owner.

A phrase gives its text with ``en(case)`` and ``de(case)`` (a case of :mod:`dragoman.phrasebook.german`; English
tells only the nominative apart) and says what the words around it must know: ``agreement`` for the verb,
``reflexive`` for sich, ``definite`` and ``pronoun`` for the German word order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from dragoman.phrasebook import german, numerals
from dragoman.phrasebook.nouns import Noun
from dragoman.phrasebook.words import Adjective, Words


class Phrase(Protocol):
    """What subjects and objects have in common."""

    @property
    def lemmas(self) -> tuple[str, ...]:
        """The names under which the phrase enters subject–verb–object triples; empty for a question word."""

    @property
    def agreement(self) -> str:
        """The verb's agreement in both languages: I, he or they."""

    @property
    def reflexive(self) -> str:
        """The German reflexive pronoun of a subject like this."""

    @property
    def definite(self) -> bool:
        """Whether the German phrase stands before the adverbs of time."""

    @property
    def pronoun(self) -> bool:
        """Whether the phrase is a personal pronoun."""

    def en(self, case: str) -> str:
        """The English text."""

    def de(self, case: str) -> str:
        """The German text."""


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun, or who."""

    lemma: str
    en_object: str
    agreement: str
    reflexive: str
    forms: tuple[str, str, str]
    definite: bool = True
    pronoun: bool = True

    @property
    def lemmas(self) -> tuple[str, ...]:
        """The English subject form, but nothing for who."""
        return () if self.lemma == "who" else (self.lemma,)

    def en(self, case: str) -> str:
        """The English pronoun."""
        return self.lemma if case == "nom" else self.en_object

    def de(self, case: str) -> str:
        """The German pronoun in the nominative, accusative or dative."""
        return self.forms[german.CASES.index(case)]


PRONOUNS: dict[str, Pronoun] = {
    pronoun.lemma: pronoun
    for pronoun in (
        Pronoun("I", "me", "I", "mich", ("ich", "mich", "mir")),
        Pronoun("you", "you", "they", "sich", ("Sie", "Sie", "Ihnen")),
        Pronoun("he", "him", "he", "sich", ("er", "ihn", "ihm")),
        Pronoun("she", "her", "he", "sich", ("sie", "sie", "ihr")),
        Pronoun("we", "us", "they", "uns", ("wir", "uns", "uns")),
        Pronoun("they", "them", "they", "sich", ("sie", "sie", "ihnen")),
    )
}

IT = Pronoun("it", "it", "he", "sich", ("es", "es", "ihm"))
"""The it of the weather and the clock."""

WHO = Pronoun("who", "who", "he", "sich", ("wer", "wen", "wem"))

_IT = {"m": ("er", "ihn", "ihm"), "f": ("sie", "sie", "ihr"), "n": ("es", "es", "ihm")}


@dataclass(frozen=True, slots=True)
class Name:
    """A person's name."""

    lemma: str
    agreement: str = "he"
    reflexive: str = "sich"
    definite: bool = True
    pronoun: bool = False

    @property
    def lemmas(self) -> tuple[str, ...]:
        """The name."""
        return (self.lemma,)

    def en(self, case: str) -> str:
        """The name."""
        return self.lemma

    def de(self, case: str) -> str:
        """The name, with an -s in the genitive."""
        return self.lemma + ("s" if case == "gen" else "")


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with what belongs to it.

    ``determiner`` is the, a, no, this, which, a possessive, many, some, or empty; ``count`` (from 2) puts a number
    there. An ``owner`` takes the place of the determiner: the teacher's car, das Auto des Lehrers.
    ``no`` is written ``a`` or nothing in English, where the negation stands with the verb.
    """

    noun: Noun
    determiner: str = ""
    plural: bool = False
    adjective: Adjective | None = None
    count: int = 0
    owner: NounPhrase | Name | None = None
    none: bool = False

    @property
    def lemmas(self) -> tuple[str, ...]:
        """The noun's lemma."""
        return (self.noun.lemma,)

    @property
    def agreement(self) -> str:
        """he for the singular, they for the plural."""
        return "they" if self.plural else "he"

    @property
    def reflexive(self) -> str:
        """Always sich."""
        return "sich"

    @property
    def definite(self) -> bool:
        """Whether a definite article, this, a possessive or an owner stands before the noun."""
        return bool(self.owner) or self.determiner in ("the", "this") or self.determiner in german.POSSESSIVES

    @property
    def pronoun(self) -> bool:
        """Never."""
        return False

    @property
    def slot(self) -> str:
        """The column of the German tables: the gender, or p."""
        return german.slot_of(self.noun, self.plural)

    @property
    def relative_en(self) -> str:
        """The English relative pronoun."""
        return "who" if self.noun.kind == "person" else "that"

    @property
    def deniable(self) -> bool:
        """Whether a negation of the sentence turns the determiner into kein."""
        return not (self.definite or self.count) and self.determiner in ("", "a")

    def denied(self) -> NounPhrase:
        """The phrase with kein in German."""
        return replace(self, none=True)

    def en(self, case: str) -> str:
        """The English phrase, the same for every case."""
        noun = self.noun.en_plural if self.plural else self.noun.en
        body = f"{self.adjective.en} {noun}" if self.adjective else noun
        if self.owner:
            return f"{self.owner.en('nom')}'s {body}"
        if self.count:
            return f"{numerals.english_number(self.count)} {body}"
        determiner = self.determiner
        if determiner == "a":
            determiner = "an" if body[0] in "aeiou" else "a"
        elif determiner == "this" and self.plural:
            determiner = "these"
        return f"{determiner} {body}" if determiner else body

    def de(self, case: str) -> str:
        """The German phrase in a case."""
        slot = self.slot
        words = []
        determiner = "no" if self.none else self.determiner
        if isinstance(self.owner, Name):
            words.append(self.owner.de("gen"))
        elif self.owner:
            determiner = "the"
        article = german.article(determiner, case, slot)
        if article:
            words.append(article)
        elif self.count:
            words.append(numerals.german_number(self.count))
        elif determiner in _QUANTITIES:
            words.append(_QUANTITIES[determiner] + german.STRONG[case, slot])
        if self.adjective:
            words.append(german.adjective(self.adjective.de, determiner, case, slot))
        words.append(german.noun_form(self.noun, self.plural, case))
        if isinstance(self.owner, NounPhrase):
            words.append(self.owner.de("gen"))
        return " ".join(words)

    def it(self) -> Pronoun:
        """The pronoun that takes up this thing: it or they, er, sie or es by the noun's gender."""
        if self.plural:
            return PRONOUNS["they"]
        return Pronoun("it", "it", "he", "sich", _IT[self.slot])


@dataclass(frozen=True, slots=True)
class Both:
    """Two phrases joined by and."""

    first: Phrase
    second: Phrase
    agreement: str = "they"
    reflexive: str = "sich"
    pronoun: bool = False

    @property
    def lemmas(self) -> tuple[str, ...]:
        """Those of both."""
        return self.first.lemmas + self.second.lemmas

    @property
    def definite(self) -> bool:
        """Whether both are."""
        return self.first.definite and self.second.definite

    def en(self, case: str) -> str:
        """Both in English."""
        return f"{self.first.en(case)} and {self.second.en(case)}"

    def de(self, case: str) -> str:
        """Both in German."""
        return f"{self.first.de(case)} und {self.second.de(case)}"


@dataclass(frozen=True, slots=True)
class RelativePronoun:
    """The subject of a relative clause: who or that, der, die or das."""

    head: NounPhrase
    reflexive: str = "sich"
    definite: bool = True
    pronoun: bool = True

    @property
    def lemmas(self) -> tuple[str, ...]:
        """The lemma of the noun that it stands for."""
        return self.head.lemmas

    @property
    def agreement(self) -> str:
        """That of the noun that it stands for."""
        return self.head.agreement

    def en(self, case: str) -> str:
        """Who for a person, that for anything else."""
        return self.head.relative_en

    def de(self, case: str) -> str:
        """The German relative pronoun in a case."""
        return german.RELATIVE[case, self.head.slot]


@dataclass(frozen=True, slots=True)
class WithRelative:
    """A noun phrase and its relative clause, which in German stands between commas."""

    head: NounPhrase
    clause: Words
    reflexive: str = "sich"
    definite: bool = True
    pronoun: bool = False

    @property
    def lemmas(self) -> tuple[str, ...]:
        """The noun's lemma."""
        return self.head.lemmas

    @property
    def agreement(self) -> str:
        """The noun's."""
        return self.head.agreement

    def en(self, case: str) -> str:
        """Noun and clause in English."""
        return f"{self.head.en(case)} {self.clause.en}"

    def de(self, case: str) -> str:
        """Noun in its case and clause in German; the closing comma goes where the sentence ends."""
        return f"{self.head.de(case)}, {self.clause.de},"


_QUANTITIES = {"many": "viel", "some": "einig"}


def prepositional(en: str, de: str, case: str, phrase: Phrase) -> Words:
    """A phrase after a preposition, contracted in German where that is usual (im, zum)."""
    return Words(f"{en} {phrase.en(case)}", german.with_preposition(de, phrase.de(case)))
