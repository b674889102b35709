"""Short names for building phrasebook clauses by hand."""

from __future__ import annotations

from dragoman.phrasebook.clause import Clause
from dragoman.phrasebook.nouns import NOUNS
from dragoman.phrasebook.phrases import PRONOUNS, Name, NounPhrase, Phrase
from dragoman.phrasebook.verbs import INTRANSITIVE, MOVING, RESTING, THINKING, TRANSITIVE, Verb
from dragoman.phrasebook.words import ADJECTIVES, Words

_DETERMINERS = ("the", "a", "an", "my", "your", "his", "her", "our", "their", "this", "these", "which", "many", "some")


def phrase(text: str, count: int = 0, owner: NounPhrase | Name | None = None) -> Phrase:
    """A pronoun, a name, or a noun phrase from its English words: ``the old dogs``."""
    if text in PRONOUNS:
        return PRONOUNS[text]
    if text in ("Anna", "Peter", "Maria", "Paul"):
        return Name(text)
    words = text.split()
    determiner = words.pop(0) if words[0] in _DETERMINERS else ""
    noun = next(n for n in NOUNS.values() if words[-1] in (n.en, n.en_plural))
    plural = words[-1] == noun.en_plural
    adjective = ADJECTIVES[words[0]] if len(words) > 1 else None
    return NounPhrase(noun, {"these": "this", "an": "a"}.get(determiner, determiner), plural, adjective, count, owner)


def noun(text: str) -> NounPhrase:
    """A noun phrase, for places that take nothing else."""
    found = phrase(text)
    assert isinstance(found, NounPhrase)
    return found


def verb(lemma: str) -> Verb:
    """A verb by its English lemma; with ``@`` the table: ``know@thinking``, ``hang@moving``."""
    name, _, table = lemma.partition("@")
    tables = {"alone": INTRANSITIVE, "thinking": THINKING, "resting": RESTING, "moving": MOVING}
    if table:
        return tables[table][name]
    return TRANSITIVE.get(name) or INTRANSITIVE.get(name) or THINKING[name]


def say(
    subject: str | Phrase,
    lemma: str,
    obj: str | Phrase = "",
    tense: str = "simple",
    *,
    to: str | Phrase = "",
    modal: str = "",
    negated: bool = False,
    gladly: bool = False,
    time: str = "",
    often: str = "",
    manner: str = "",
    place: str = "",
    end: str | Words = "",
) -> Clause:
    """A clause from English words; adverbials are written ``ENGLISH = GERMAN``."""

    def some(text: str | Phrase) -> Phrase | None:
        return (phrase(text) if isinstance(text, str) else text) if text else None

    def pair(text: str | Words) -> Words | None:
        if isinstance(text, Words):
            return text
        en, _, de = text.partition(" = ")
        return Words(en, de) if text else None

    doer = some(subject)
    assert doer is not None
    return Clause(
        doer,
        verb(lemma),
        tense,
        modal,
        some(obj),
        some(to),
        negated,
        pair(time),
        pair(often),
        gladly,
        pair(manner),
        pair(place),
        pair(end),
    )
