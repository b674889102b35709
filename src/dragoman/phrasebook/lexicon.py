"""All lemmas of the phrasebook in one place, each with its English forms."""

from __future__ import annotations

from dragoman.phrasebook import words
from dragoman.phrasebook.nouns import NOUNS
from dragoman.phrasebook.verbs import INTRANSITIVE, MOVING, RESTING, THINKING, TRANSITIVE, Verb
from dragoman.phrasebook.words import ADJECTIVES, Words

_FIXED: dict[str, tuple[Words, ...]] = {
    "day": words.DAYS,
    "month": words.MONTHS,
    "manner": words.MANNERS,
    "frequency": words.HABIT_ADVERBS,
}


def _forms(verb: Verb) -> tuple[str, ...]:
    """The English forms of a verb without its particle."""
    return (verb.en, verb.third, verb.past, verb.en_participle, verb.ing)


def lemmas() -> dict[str, tuple[str, ...]]:
    """The English forms of every content word by ``PART:GERMAN``; grammatical words and numbers are not counted.

    A German verb counts once, whatever the English verbs that it translates.
    """
    found: dict[str, tuple[str, ...]] = {}
    for noun in NOUNS.values():
        found[f"noun:{noun.de or noun.plural}"] = tuple(form for form in (noun.en, noun.en_plural) if form)
    for table in (TRANSITIVE, INTRANSITIVE, THINKING, RESTING, MOVING):
        for verb in table.values():
            key = f"verb:{verb.prefix}{verb.base}"
            found[key] = found.get(key, ()) + _forms(verb)
    for adjective in ADJECTIVES.values():
        key = f"adjective:{adjective.de}"
        forms = tuple(form for form in (adjective.en, adjective.en_comparative) if form)
        found[key] = found.get(key, ()) + forms
    for part, rows in _FIXED.items():
        for row in rows:
            found[f"{part}:{row.de}"] = (row.en,)
    return found
