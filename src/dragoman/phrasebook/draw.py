"""Chance: random noun phrases, times and clauses that make sense and are correct in both languages.

All randomness comes through :class:`Draw`, from ``random.Random.random`` alone, whose values are the same on every
platform and Python version.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Generic, TypeVar

from dragoman.phrasebook import words
from dragoman.phrasebook.clause import Clause
from dragoman.phrasebook.german import POSSESSIVES
from dragoman.phrasebook.nouns import NOUNS, Noun, flagged, of_kind
from dragoman.phrasebook.numerals import MINUTES, clock, english_number, german_number
from dragoman.phrasebook.phrases import PRONOUNS, Name, NounPhrase, Phrase, prepositional
from dragoman.phrasebook.verbs import Verb
from dragoman.phrasebook.words import ADJECTIVES, Adjective, Words

T = TypeVar("T")

PEOPLE = of_kind("person")
ANIMALS = of_kind("animal")
PLACES = flagged("at")
_OWNABLE_PLACES = tuple(NOUNS[lemma] for lemma in ("house", "garden", "kitchen", "room", "office", "flat"))
_PRONOUNS = tuple(PRONOUNS[lemma] for lemma in ("I", "I", "you", "he", "she", "we", "they"))
_NAMES = tuple(map(Name, words.NAMES))


def _suits(adjective: Adjective, noun: Noun) -> bool:
    suits = adjective.suits
    return (noun.lemma in suits or noun.kind in suits) and f"-{noun.lemma}" not in suits


SUITABLE: dict[str, tuple[Adjective, ...]] = {
    noun.lemma: tuple(adjective for adjective in ADJECTIVES.values() if _suits(adjective, noun))
    for noun in NOUNS.values()
}
"""The adjectives that go with each noun."""


class Weighted(Generic[T]):
    """Things to choose from, each with its weight."""

    def __init__(self, weights: dict[T, float]) -> None:
        self.items = tuple(weights)
        self.sums = tuple(accumulate(weights.values()))


_COUNT_DETERMINERS = Weighted(
    {
        "the": 27,
        "a": 24,
        "possessive": 14,
        "this": 6,
        "owner": 5,
        "the plural": 8,
        "bare plural": 6,
        "count": 6,
        "possessive plural": 3,
        "this plural": 3,
        "many": 2,
        "some": 3,
    }
)
_FEW_DETERMINERS = Weighted(
    {"the": 32, "a": 18, "possessive": 20, "this": 8, "owner": 5, "the plural": 9, "possessive plural": 8}
)
_KIN_DETERMINERS = Weighted({"the": 18, "a": 4, "possessive": 55, "the plural": 6, "possessive plural": 17})
_MASS_DETERMINERS = Weighted({"the": 42, "": 42, "possessive": 11, "this": 5})
_DEFINITE = {
    "a": "the",
    "bare plural": "the plural",
    "count": "possessive plural",
    "many": "this plural",
    "some": "the plural",
    "": "the",
}

_ACTIVE_TENSES = Weighted(
    {"simple": 20, "progressive": 20, "past": 23, "perfect": 10, "future": 8, "modal": 13, "past modal": 3, "gladly": 5}
)
_PLAIN_TENSES = Weighted({"simple": 42, "past": 28, "perfect": 8, "future": 8, "modal": 14})
_STATIVE_TENSES = Weighted({"simple": 68, "past": 32})
_MODALS = Weighted({"can": 24, "must": 18, "may": 10, "should": 16, "would like": 12, "want": 14, "have": 14})
_PRESENT = ("simple", "progressive", "modal")


class Draw:
    """A source of random phrases and clauses."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng.random

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return self._random() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of the items, each as likely."""
        return items[int(self._random() * len(items))]

    def weighted(self, choice: Weighted[T]) -> T:
        """One of the items, by weight."""
        return choice.items[bisect(choice.sums, self._random() * choice.sums[-1])]

    def number(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        return low + int(self._random() * (high - low + 1))

    # phrases

    def noun_phrase(
        self, noun: Noun, *, few: bool = False, definite: bool = False, adjective: float = 0.26
    ) -> NounPhrase:
        """A phrase around ``noun``; ``few``: no number words; ``adjective``: the chance of one."""
        if not noun.en:
            kind = "possessive plural" if noun.kind == "person" and self.chance(0.8) else "the plural"
        elif not noun.en_plural:
            kind = self.weighted(_MASS_DETERMINERS)
        elif "kin" in noun.flags:
            kind = self.weighted(_KIN_DETERMINERS)
        else:
            kind = self.weighted(_FEW_DETERMINERS if few or noun.kind == "person" else _COUNT_DETERMINERS)
        if noun.kind in ("person", "animal", "sky"):
            kind = self._decent(noun, kind)
        if definite:
            kind = _DEFINITE.get(kind, kind)
        chosen = self.pick(SUITABLE[noun.lemma]) if SUITABLE[noun.lemma] and self.chance(adjective) else None
        base, _, plural = kind.partition(" ")
        phrase = NounPhrase(noun, base, bool(plural), chosen)
        if base == "possessive":
            return replace(phrase, determiner=self.pick(POSSESSIVES))
        if base in ("bare", "count", "many", "some"):
            count = (self.number(2, 12) if self.chance(0.7) else self.number(13, 99)) if base == "count" else 0
            return replace(phrase, determiner=base if base in ("many", "some") else "", plural=True, count=count)
        if base == "owner":
            return replace(phrase, determiner="", owner=self.owner())
        return phrase

    def _decent(self, noun: Noun, kind: str) -> str:
        """The kind of determiner, but no possessive where it would be odd (my farmer, my mothers, my storm)."""
        if kind == "possessive plural" and "one" in noun.flags:
            return "possessive"
        if kind == "owner" and "own" not in noun.flags:
            return "the"
        if kind.startswith("possessive") and not noun.flags & {"kin", "own"}:
            return "the" if kind == "possessive" else "the plural"
        return kind

    def owner(self) -> NounPhrase | Name:
        """A person in the singular whom something belongs to."""
        if self.chance(0.4):
            return self.pick(_NAMES)
        noun = self.person_noun()
        possessive = "kin" in noun.flags or ("own" in noun.flags and self.chance(0.3))
        determiner = self.pick(POSSESSIVES) if possessive else "the"
        return NounPhrase(noun, determiner)

    def person_noun(self, other_than: Phrase | None = None) -> Noun:
        """A person with a singular who is not already named."""
        while True:
            noun = self.pick(PEOPLE)
            if noun.en and not (other_than and noun.lemma in other_than.lemmas):
                return noun

    def subject(self, other_than: Phrase | None = None, adjective: float = 0.15, indefinite: float = 0.07) -> Phrase:
        """A person, as pronoun, name or noun phrase."""
        kind = self._random()
        while kind < 0.45:
            phrase: Phrase = self.pick(_PRONOUNS) if kind < 0.33 else self.pick(_NAMES)
            if not (other_than and set(phrase.lemmas) & set(other_than.lemmas)):
                return phrase
        noun = self.pick(PEOPLE)
        while other_than and noun.lemma in other_than.lemmas:
            noun = self.pick(PEOPLE)
        return self.noun_phrase(noun, few=True, definite=not self.chance(indefinite), adjective=adjective)

    def person_object(self, subject: Phrase, adjective: float = 0.15) -> Phrase:
        """A person other than the subject, as the object or the recipient."""
        if self.chance(0.3):
            lemmas: tuple[str, ...] = ("you", "he", "she", "they")
            if not {"I", "we"} & set(subject.lemmas):
                lemmas += ("I", "we")
            choices = [PRONOUNS[lemma] for lemma in lemmas if lemma not in subject.lemmas]
            return self.pick(choices)
        if self.chance(0.16):
            return self.pick([name for name in _NAMES if name.lemma not in subject.lemmas])
        noun = self.pick(PEOPLE)
        while noun.lemma in subject.lemmas:
            noun = self.pick(PEOPLE)
        return self.noun_phrase(noun, few=True, definite=not self.chance(0.25), adjective=adjective)

    def object_for(self, verb: Verb, subject: Phrase, adjective: float = 0.26) -> Phrase:
        """Something that the verb takes, other than the subject."""
        noun = self.pick(verb.objects)
        while noun.lemma in subject.lemmas:
            noun = self.pick(verb.objects)
        if noun.kind == "person" and self.chance(0.4):
            return self.person_object(subject)
        return self.noun_phrase(noun, few="few" in verb.flags, adjective=adjective)

    def place(self) -> Words:
        """Where something happens."""
        if self.chance(0.15):
            town = self.pick(words.TOWNS + words.COUNTRIES)
            return Words(f"in {town.en}", f"in {town.de}")
        noun = self.pick(PLACES)
        en, de = noun.facts["at"].split(":")
        return prepositional(en, de, "dat", self.place_phrase(noun))

    def place_phrase(self, noun: Noun) -> NounPhrase:
        """A noun phrase for a place, mostly with the definite article."""
        determiner = "the"
        if noun in _OWNABLE_PLACES and self.chance(0.4):
            determiner = self.pick(POSSESSIVES)
        elif self.chance(0.12):
            determiner = self.pick(("a", "this"))
        adjective = self.pick(SUITABLE[noun.lemma]) if SUITABLE[noun.lemma] and self.chance(0.15) else None
        return NounPhrase(noun, determiner, adjective=adjective)

    # times

    def clock_time(self) -> Words:
        """At some time of the clock."""
        time = clock(self.number(1, 12), self.pick(MINUTES))
        return Words(f"at {time.en}", f"um {time.de}")

    def future_time(self, negated: bool) -> Words:
        """A time that is still to come."""
        kind = self._random()
        if kind < 0.55 or negated:
            return self.pick(words.FUTURE_TIMES)
        if kind < 0.65:
            return words.SOON
        if kind < 0.75:
            n, (_, en, _, de) = self.number(2, 12), self.pick(words.UNITS)
            return Words(f"in {english_number(n)} {en}", f"in {german_number(n)} {de}")
        if kind < 0.85:
            return self.weekday()
        if kind < 0.95:
            return self.month()
        day, time = self.pick(words.FUTURE_TIMES[:1]), self.clock_time()
        return Words(f"{day.en} {time.en}", f"{day.de} {time.de}")

    def past_time(self, negated: bool) -> Words:
        """A time that is over."""
        kind = self._random()
        if kind < 0.6 or negated:
            return self.pick(words.PAST_TIMES)
        if kind < 0.8:
            n, (_, en, _, de) = self.number(2, 12), self.pick(words.UNITS)
            return Words(f"{english_number(n)} {en} ago", f"vor {german_number(n)} {de}")
        if kind < 0.88:
            return self.weekday()
        if kind < 0.95:
            return self.month()
        return self.clock_time()

    def weekday(self) -> Words:
        """On a day of the week."""
        day = self.pick(words.DAYS)
        return Words(f"on {day.en}", f"am {day.de}")

    def month(self) -> Words:
        """In a month."""
        month = self.pick(words.MONTHS)
        return Words(f"in {month.en}", f"im {month.de}")

    # clauses

    def timed(self, clause: Clause, time: float = 0.4, negation: float = 0.16, family: str = "") -> Clause:
        """The clause with tense or modal, negation and time; ``family``: only a present or a past tense."""
        flags = clause.verb.flags
        table = _STATIVE_TENSES if "stative" in flags else _PLAIN_TENSES if "plain" in flags else _ACTIVE_TENSES
        tense = self.weighted(table)
        if family == "past":
            tense = "past"
        while (family == "present" and tense not in _PRESENT) or (tense == "gladly" and "bad" in flags):
            tense = self.weighted(table)
        if tense == "future" and "bad" in flags:
            tense = "past"
        modal = ""
        if tense == "modal":
            modal, tense = self.weighted(_MODALS), "simple"
            if "bad" in flags:
                modal = "must" if modal == "must" else "can"
        elif tense == "past modal":
            modal, tense = ("have" if "bad" in flags else self.pick(("want", "have"))), "past"
        gladly = tense == "gladly"
        clause = replace(clause, tense="simple" if gladly else tense, modal=modal, gladly=gladly)
        clause = self._told_apart(clause)
        clause = replace(clause, negated=self.chance(negation) and self._deniable(clause))
        if "stative" in flags or not self.chance(time):
            return clause
        return self._with_time(clause)

    def _told_apart(self, clause: Clause) -> Clause:
        """Another tense where the English form would be both present and past (they read)."""
        if not clause.verb.ambiguous or clause.modal or clause.gladly or clause.subject.agreement == "he":
            return clause
        return replace(clause, tense={"simple": "progressive", "past": "perfect"}.get(clause.tense, clause.tense))

    def _deniable(self, clause: Clause) -> bool:
        """Whether the clause can be negated without another reading."""
        phrases = [p for p in (clause.subject, clause.obj, clause.recipient) if isinstance(p, NounPhrase)]
        if any(p.count or p.determiner in ("many", "some") for p in phrases):
            return False
        indefinite = [p for p in (clause.subject, clause.recipient) if p and not p.definite]
        return not indefinite and not clause.manner and not (clause.place and clause.obj)

    def _with_time(self, clause: Clause) -> Clause:
        tense, negated = clause.tense, clause.negated
        if clause.gladly:
            return clause if negated else replace(clause, time=self.pick(words.HABIT_TIMES[4:]))
        if tense == "simple" and not clause.modal:
            if negated:
                return clause
            if self.chance(0.5):
                return replace(clause, often=self.pick(words.HABIT_ADVERBS))
            return replace(clause, time=self.pick(words.HABIT_TIMES))
        if tense == "progressive":
            if not negated and self.chance(0.25):
                return replace(clause, often=self.pick(words.PROGRESSIVE_ADVERBS))
            times = words.PRESENT_TIMES + words.FUTURE_TIMES[:2]
            return replace(clause, time=self.clock_time() if not negated and self.chance(0.15) else self.pick(times))
        if tense == "perfect":
            return clause if negated else replace(clause, often=self.pick(words.PERFECT_ADVERBS))
        if tense == "past":
            return replace(clause, time=self.past_time(negated))
        if clause.modal and self.chance(0.3):
            return replace(clause, time=self.pick(words.PRESENT_TIMES[1:]))
        if clause.modal and not negated and self.chance(0.3):
            return replace(clause, time=self.clock_time())
        return replace(clause, time=self.future_time(negated))
