"""One clause: what it says, and its verb phrase in both languages. Word order is in ``order.py``.

A :class:`Clause` is language-neutral: subject, verb, tense or modal, objects, adverbials. The tenses are those of
English; German has fewer, so that several meet (reads, is reading: liest; bought, has bought: hat gekauft).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dragoman.phrasebook import german
from dragoman.phrasebook.phrases import NounPhrase, Phrase
from dragoman.phrasebook.verbs import Verb
from dragoman.phrasebook.words import Words

Triple = tuple[str, str, str]

TENSES = ("simple", "progressive", "past", "perfect", "future")


class Modal(NamedTuple):
    """A modal: English base, third person and past (empty for those that never change), German forms and past.

    An English modal with a ``third`` is conjugated and takes to (wants to); the others are auxiliaries.
    ``negated`` names the modal whose German is used when negated: must not is darf nicht.
    """

    en: str
    third: str
    past: str
    de_he: str
    de_plural: str
    de_past: str
    negated: str = ""


MODALS: dict[str, Modal] = {
    "can": Modal("can", "", "", "kann", "können", ""),
    "must": Modal("must", "", "", "muss", "müssen", "", "may"),
    "may": Modal("may", "", "", "darf", "dürfen", ""),
    "should": Modal("should", "", "", "sollte", "sollten", ""),
    "would like": Modal("would", "", "", "möchte", "möchten", ""),
    "want": Modal("want", "wants", "wanted", "will", "wollen", "wollte"),
    "have": Modal("have", "has", "had", "muss", "müssen", "musste"),
}


@dataclass(frozen=True, slots=True)
class Clause:
    """What a clause says.

    ``tense`` is one of :data:`TENSES`, with ``modal`` (a key of :data:`MODALS`) ``simple`` or ``past``.
    ``often`` is an adverb of frequency or degree beside the verb, ``gladly`` likes to (gern), ``place`` where
    something happens, ``end`` what stands last: a direction or a predicate. Every adverbial is optional.
    """

    subject: Phrase
    verb: Verb
    tense: str = "simple"
    modal: str = ""
    obj: Phrase | None = None
    recipient: Phrase | None = None
    negated: bool = False
    time: Words | None = None
    often: Words | None = None
    gladly: bool = False
    manner: Words | None = None
    place: Words | None = None
    end: Words | None = None

    @property
    def triples(self) -> tuple[Triple, ...]:
        """Subject, verb and object lemmas, for every subject and object; none where a part is missing or asked for."""
        if self.obj is None:
            return ()
        return tuple((s, self.verb.lemma, o) for s in self.subject.lemmas for o in self.obj.lemmas)

    @property
    def denied_object(self) -> NounPhrase | None:
        """The object that carries the negation as kein: an indefinite one without preposition."""
        obj = self.obj
        if self.negated and isinstance(obj, NounPhrase) and obj.deniable and not self.verb.preposition:
            return obj
        return None


class EnglishVerb(NamedTuple):
    """``auxiliary`` (may be empty) stands before the subject in a question; ``rest`` follows it or the subject."""

    auxiliary: str
    rest: str


_BE = {"I": "am", "he": "is", "they": "are"}
_BE_PAST = {"I": "was", "he": "was", "they": "were"}


def english_verb(clause: Clause, support: bool = False) -> EnglishVerb:
    """The conjugated English verb; ``support`` asks for an auxiliary in any case (does read), for questions."""
    verb, agreement = clause.verb, clause.subject.agreement
    support = support or clause.negated
    if clause.modal and not MODALS[clause.modal].third:
        to = "like to " if clause.modal == "would like" else ""
        return EnglishVerb(MODALS[clause.modal].en, to + verb.en)
    if clause.modal:
        modal = MODALS[clause.modal]
        return _conjugate(modal.en, modal.third, modal.past, f" to {verb.en}", clause, support)
    if clause.gladly:
        return _conjugate("like", "likes", "liked", f" to {verb.en}", clause, support)
    if clause.tense == "progressive":
        return EnglishVerb(_BE[agreement], verb.ing)
    if clause.tense == "perfect":
        return EnglishVerb("has" if agreement == "he" else "have", verb.en_participle)
    if clause.tense == "future":
        return EnglishVerb("will", verb.en)
    if verb.en == "be":
        return EnglishVerb((_BE_PAST if clause.tense == "past" else _BE)[agreement], "")
    return _conjugate(verb.en, verb.third, verb.past, "", clause, support)


def _conjugate(base: str, third: str, past: str, after: str, clause: Clause, support: bool) -> EnglishVerb:
    he = clause.subject.agreement == "he"
    if support:
        auxiliary = "did" if clause.tense == "past" else "does" if he else "do"
        return EnglishVerb(auxiliary, base + after)
    if clause.tense == "past":
        return EnglishVerb("", past + after)
    return EnglishVerb("", (third if he else base) + after)


class GermanVerb(NamedTuple):
    """The bracket of a German clause: the ``finite`` verb, and what closes it, a ``prefix`` or a ``nonfinite`` form."""

    finite: str
    prefix: str
    nonfinite: str

    @property
    def close(self) -> str:
        """What stands at the end of a main clause."""
        return self.prefix or self.nonfinite

    @property
    def final(self) -> str:
        """The whole verb at the end of a subordinate clause."""
        return f"{self.nonfinite} {self.finite}" if self.nonfinite else self.prefix + self.finite


def german_verb(clause: Clause) -> GermanVerb:
    """The German verb: present for simple and progressive, perfect for the past, unless the verb has a preterite."""
    verb, agreement = clause.verb, clause.subject.agreement
    if clause.modal:
        modal = MODALS[clause.modal]
        if clause.negated and modal.negated:
            modal = MODALS[modal.negated]
        if clause.tense == "past":
            finite = modal.de_past + ("n" if agreement == "they" else "")
        else:
            finite = modal.de_plural if agreement == "they" else modal.de_he
        return GermanVerb(finite, "", german.infinitive(verb))
    if clause.tense == "future":
        return GermanVerb(german.auxiliary("wird", agreement), "", german.infinitive(verb))
    if clause.tense in ("past", "perfect"):
        if verb.preterite:
            return GermanVerb(german.preterite(verb, agreement), "", "")
        return GermanVerb(german.auxiliary(verb.perfect, agreement), "", verb.participle)
    return GermanVerb(german.present(verb, agreement), verb.prefix, "")
