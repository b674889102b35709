"""Word order: a clause laid out in English and in German, as a statement, a question or a subordinate clause.

The German middle field, between the finite verb and the closing bracket, has this order:
subject, pronouns and sich, definite objects (dative before accusative), time and frequency, gern, nicht, manner,
place, indefinite objects, object with preposition, direction or predicate. So a definite object comes before the
time and an indefinite one after it, and nicht comes after both. Of two objects the accusative comes after the time
all the same, where nothing is negated (er gibt dem Kind heute das Buch, er gibt dem Kind das Buch heute nicht).
"""

from __future__ import annotations

from dragoman.phrasebook import german
from dragoman.phrasebook.clause import Clause, english_verb, german_verb


def _join(parts: list[str]) -> str:
    return " ".join(part for part in parts if part)


def english_object_part(clause: Clause) -> str:
    """The English words after the verb: preposition or particle, objects, adverbials."""
    verb, obj, recipient = clause.verb, clause.obj, clause.recipient
    thing = obj.en("acc") if obj else ""
    if obj and obj.pronoun:
        parts = [verb.rest, thing, verb.particle]
    else:
        parts = [verb.rest, verb.particle, thing]
    if recipient:
        person = recipient.en("acc")
        parts = [thing, f"to {person}"] if "to" in verb.flags else [person, thing]
    parts += [words.en for words in (clause.manner, clause.place, clause.end, clause.time) if words]
    return _join(parts)


def english_statement(clause: Clause) -> str:
    """The clause in the order of a statement, which subordinate clauses share."""
    return _english(clause, inverted=False)


def english_question(clause: Clause) -> str:
    """The clause with its auxiliary before the subject."""
    return _english(clause, inverted=True)


def english_infinitive(clause: Clause) -> str:
    """The clause without subject, its verb in the base form."""
    return _join([clause.verb.en, english_object_part(clause)])


def _english(clause: Clause, inverted: bool) -> str:
    auxiliary, verb = english_verb(clause, support=inverted)
    subject = clause.subject.en("nom")
    often = clause.often.en if clause.often else ""
    negation = "not" if clause.negated else ""
    if negation and auxiliary == "can" and not inverted:
        auxiliary, negation = "cannot", ""
    first = [auxiliary, subject] if inverted else [subject, auxiliary]
    return _join([*first, negation, often, verb, english_object_part(clause)])


def german_object(clause: Clause) -> str:
    """The object in its case, after the verb's preposition if it has one, as kein where the clause is negated so."""
    obj = clause.obj
    if obj is None:
        return ""
    denied = None if clause.gladly else clause.denied_object
    text = (denied.denied() if denied else obj).de(clause.verb.case)
    return german.with_preposition(clause.verb.preposition, text) if clause.verb.preposition else text


def _german_middle(clause: Clause) -> list[str]:
    """The middle field after the subject and without sich."""
    obj, recipient = clause.obj, clause.recipient
    text = german_object(clause)
    pronouns: list[str] = []
    definite: list[str] = []
    indefinite: list[str] = []
    governed = ""
    if recipient:
        (pronouns if recipient.pronoun else definite).append(recipient.de("dat"))
    if obj and clause.verb.preposition:
        governed = text
    elif obj and obj.pronoun:
        pronouns.append(text)
    elif obj:
        early = obj.definite and (clause.negated or not recipient)
        (definite if early else indefinite).append(text)
    negation = "nicht" if clause.negated and (clause.gladly or not clause.denied_object) else ""
    adverbs = [words.de for words in (clause.time, clause.often) if words]
    glad = [negation, "gern"] if clause.gladly else [negation]
    return [
        *pronouns,
        *definite,
        *adverbs,
        *glad,
        clause.manner.de if clause.manner else "",
        clause.place.de if clause.place else "",
        *indefinite,
        governed,
        clause.end.de if clause.end else "",
    ]


def _sich(clause: Clause) -> str:
    return clause.subject.reflexive if clause.verb.reflexive else ""


def german_statement(clause: Clause) -> str:
    """A main clause that begins with its subject."""
    verb = german_verb(clause)
    return _join([clause.subject.de("nom"), verb.finite, _sich(clause), *_german_middle(clause), verb.close])


def german_inverted(clause: Clause) -> str:
    """A main clause from its finite verb on: a question, or what follows a first element that is not the subject.

    sich comes before a noun (erinnert sich der Mann) and after a pronoun (erinnert er sich).
    """
    verb = german_verb(clause)
    subject = [clause.subject.de("nom"), _sich(clause)]
    if not clause.subject.pronoun:
        subject.reverse()
    return _join([verb.finite, *subject, *_german_middle(clause), verb.close])


def german_subordinate(clause: Clause) -> str:
    """A clause with its verb at the end."""
    verb = german_verb(clause)
    return _join([clause.subject.de("nom"), _sich(clause), *_german_middle(clause), verb.final])


def german_infinitive(clause: Clause) -> str:
    """An infinitive clause with zu: die Tür zu öffnen."""
    return _join([_sich(clause), *_german_middle(clause), german.infinitive_with_zu(clause.verb)])


def german_object_relative(clause: Clause, slot: str) -> str:
    """A relative clause whose pronoun is the object: das Buch, ``das der Mann liest``; ``slot`` is the noun's."""
    pronoun = german.RELATIVE[clause.verb.case, slot]
    preposition = clause.verb.preposition
    return _join([preposition, pronoun, german_subordinate(clause)])
