"""What is made of clauses: statements, questions, commands and sentences of two clauses.

Every function is pure: the same clauses give the same :class:`Sentence`. Chance is in ``draw.py`` and ``patterns.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from dragoman.phrasebook import german, order
from dragoman.phrasebook.clause import Clause, Triple
from dragoman.phrasebook.phrases import WHO, NounPhrase, Phrase, RelativePronoun, WithRelative
from dragoman.phrasebook.words import SUBORDINATORS, Words


class Sentence(NamedTuple):
    """A finished sentence in both languages and the subject–verb–object triples of all its clauses."""

    en: str
    de: str
    triples: tuple[Triple, ...]


def _finish(text: str, mark: str) -> str:
    text = text.removesuffix(",")
    return text[0].upper() + text[1:] + mark


def _sentence(en: str, de: str, mark: str, *clauses: Clause) -> Sentence:
    return Sentence(_finish(en, mark), _finish(de, mark), tuple(t for clause in clauses for t in clause.triples))


def statement(clause: Clause) -> Sentence:
    """A plain main clause."""
    return _sentence(order.english_statement(clause), order.german_statement(clause), ".", clause)


def fronted(clause: Clause) -> Sentence:
    """A main clause with its time in front, after which German inverts."""
    if clause.time is None:
        return statement(clause)
    rest = replace(clause, time=None)
    en = f"{clause.time.en} {order.english_statement(rest)}"
    return _sentence(en, f"{clause.time.de} {order.german_inverted(rest)}", ".", clause)


def yes_no(clause: Clause) -> Sentence:
    """A question for yes or no."""
    return _sentence(order.english_question(clause), order.german_inverted(clause), "?", clause)


def ask_subject(clause: Clause) -> Sentence:
    """A question for the person who does it; the clause's own subject is dropped."""
    clause = replace(clause, subject=WHO)
    return _sentence(order.english_statement(clause), order.german_statement(clause), "?", clause)


def ask_object(clause: Clause, person: bool) -> Sentence:
    """A question for the object: whom or what, with the verb's preposition (auf wen, worauf)."""
    preposition, case = clause.verb.preposition, clause.verb.case
    clause = replace(clause, obj=None)
    if person:
        word = f"{preposition} {WHO.de(case)}".strip()
    else:
        word = german.question_adverb(preposition) if preposition else "was"
    en = f"{'who' if person else 'what'} {order.english_question(clause)}"
    return _sentence(en, f"{word} {order.german_inverted(clause)}", "?", clause)


def ask_which(clause: Clause, prefix: Words | None = None) -> Sentence:
    """A question that begins with the object: which book, or after a ``prefix`` (how many books)."""
    rest = replace(clause, obj=None)
    en, de = clause.obj.en("acc") if clause.obj else "", order.german_object(clause)
    if prefix:
        en, de = f"{prefix.en} {en}", f"{prefix.de} {de}"
    return _sentence(f"{en} {order.english_question(rest)}", f"{de} {order.german_inverted(rest)}", "?", clause)


def ask_adverb(word: Words, clause: Clause) -> Sentence:
    """A question that begins with an adverb: when, why, where, how often."""
    en, de = order.english_question(clause), order.german_inverted(clause)
    return _sentence(f"{word.en} {en}", f"{word.de} {de}", "?", clause)


def command(clause: Clause, please: bool = False) -> Sentence:
    """A polite command; the clause's subject is you."""
    en = ("do not " if clause.negated else "") + order.english_infinitive(clause)
    de = order.german_inverted(clause)
    if please:
        en, de = f"please {en}", f"bitte {de}"
    return _sentence(en, de, ".", clause)


def subordinate(main: Clause, conjunction: str, sub: Clause, first: bool = False) -> Sentence:
    """A main and a subordinate clause, joined by a key of ``SUBORDINATORS``; ``first``: the subordinate one."""
    en, de = f"{conjunction} {order.english_statement(sub)}", order.german_subordinate(sub)
    de = f"{SUBORDINATORS[conjunction]} {de}"
    if first:
        return _sentence(
            f"{en}, {order.english_statement(main)}", f"{de}, {order.german_inverted(main)}", ".", main, sub
        )
    return _sentence(f"{order.english_statement(main)} {en}", f"{order.german_statement(main)}, {de}", ".", main, sub)


def reported(main: Clause, word: Words, sub: Clause, question: bool = False) -> Sentence:
    """A clause as the object of another: after that, whether, or a question word; ``question`` asks the main one."""
    en = order.english_question(main) if question else order.english_statement(main)
    de = order.german_inverted(main) if question else order.german_statement(main)
    en = f"{en} {word.en} {order.english_statement(sub)}"
    de = f"{de}, {word.de} {order.german_subordinate(sub)}"
    return _sentence(en, de, "?" if question else ".", main, sub)


def infinitive(main: Clause, sub: Clause, purpose: bool = False) -> Sentence:
    """An infinitive clause after a main clause with the same subject; ``purpose``: in order to, um … zu.

    What an infinitive cannot say, tense, modal and gern, is dropped from ``sub``.
    """
    sub = replace(sub, tense="simple", modal="", gladly=False)
    en = f"{order.english_statement(main)} {'in order to' if purpose else 'to'} {order.english_infinitive(sub)}"
    de = f"{order.german_statement(main)}, {'um ' if purpose else ''}{order.german_infinitive(sub)}"
    return _sentence(en, de, ".", main, sub)


def coordinated(first: Clause, word: str, second: Clause) -> Sentence:
    """Two main clauses joined by and (no comma) or but (a comma)."""
    join = {"and": Words(" and", " und"), "but": Words(", but", ", aber")}[word]
    en = f"{order.english_statement(first)}{join.en} {order.english_statement(second)}"
    de = f"{order.german_statement(first)}{join.de} {order.german_statement(second)}"
    return _sentence(en, de, ".", first, second)


def subject_relative(head: NounPhrase, clause: Clause) -> tuple[WithRelative, Clause]:
    """``head`` with a relative clause in which it is the subject, and that clause; its own subject is replaced."""
    clause = replace(clause, subject=RelativePronoun(head))
    words = Words(order.english_statement(clause), order.german_subordinate(clause))
    return WithRelative(head, words), clause


def object_relative(head: NounPhrase, clause: Clause) -> tuple[WithRelative, Clause]:
    """``head`` with a relative clause in which it is the object, and that clause; its own object is replaced."""
    bare = replace(clause, obj=None)
    words = Words(f"that {order.english_statement(bare)}", order.german_object_relative(bare, head.slot))
    return WithRelative(head, words), replace(clause, obj=head)


def with_relative(outer: Clause, inner: Clause) -> Sentence:
    """A statement one of whose phrases has a relative clause; ``inner`` is that clause, for its triples."""
    return _sentence(order.english_statement(outer), order.german_statement(outer), ".", outer, inner)


def there_is(thing: NounPhrase, place: Words, negated: bool = False, question: bool = False) -> Sentence:
    """That something exists at a place: in der Küche gibt es einen Tisch."""
    be = "are" if thing.plural else "is"
    de = (thing.denied() if negated else thing).de("acc")
    if question:
        return _sentence(f"{be} there {thing.en('acc')} {place.en}", f"gibt es {place.de} {de}", "?")
    en = replace(thing, determiner="no").en("acc") if negated else thing.en("acc")
    return _sentence(f"there {be} {en} {place.en}", f"{place.de} gibt es {de}", ".")


def than(adjective_en: str, adjective_de: str, other: Phrase, equal: bool) -> Words:
    """The predicate of a comparison; the adjectives are comparatives unless ``equal``."""
    if equal:
        return Words(f"as {adjective_en} as {other.en('nom')}", f"so {adjective_de} wie {other.de('nom')}")
    return Words(f"{adjective_en} than {other.en('nom')}", f"{adjective_de} als {other.de('nom')}")
