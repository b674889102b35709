"""The sentence patterns and how often each is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dragoman.phrasebook import frames, scenes
from dragoman.phrasebook.clause import Clause
from dragoman.phrasebook.draw import SUITABLE, Draw, Weighted
from dragoman.phrasebook.frames import Sentence
from dragoman.phrasebook.nouns import NOUNS, Noun, of_kind
from dragoman.phrasebook.phrases import IT, PRONOUNS, NounPhrase, Phrase, prepositional
from dragoman.phrasebook.verbs import INTRANSITIVE, THINKING, TRANSITIVE, Verb
from dragoman.phrasebook.words import Words

_ASKED = ("you", "you", "he", "she", "they", "we")
_THINGS = tuple(verb for verb in scenes.DIRECT if all(noun.kind != "person" for noun in verb.objects))
_PERSONS = tuple(verb for verb in scenes.DIRECT if all(noun.kind == "person" for noun in verb.objects))
_WITH_COUNTABLE = tuple(verb for verb in scenes.DIRECT if any(noun.countable for noun in verb.objects))
_COUNTED = tuple(verb for verb in _WITH_COUNTABLE if "few" not in verb.flags)
_WHEN, _WHY, _WHERE = Words("when", "wann"), Words("why", "warum"), Words("where", "wo")
_OUTDOORS = ("garden", "park", "city", "village", "forest", "castle", "lake", "bridge", "market", "station")
_INDOORS = (
    "house",
    "hotel",
    "restaurant",
    "kitchen",
    "room",
    "office",
    "shop",
    "hospital",
    "library",
    "flat",
    "church",
)
_WHETHER, _THAT = Words("whether", "ob"), Words("that", "dass")


def _someone_asked(draw: Draw) -> Phrase:
    """The subject of a question: rarely the speaker."""
    return PRONOUNS[draw.pick(_ASKED)] if draw.chance(0.45) else _third_person(draw)


def _third_person(draw: Draw) -> Phrase:
    """A person named by a noun or a name."""
    while True:
        subject = draw.subject(adjective=0.08, indefinite=0)
        if not subject.pronoun:
            return subject


def _any_clause(draw: Draw, subject: Phrase | None = None) -> Clause:
    kind = draw.number(1, 20)
    if kind <= 11:
        return scenes.action(draw, subject=subject)
    if kind <= 14:
        return scenes.giving(draw, subject=subject)
    if kind <= 17:
        return scenes.alone(draw, subject=subject)
    if kind <= 19:
        return scenes.movement(draw, subject=subject)
    return scenes.moving(draw, subject=subject)


def _short_clause(draw: Draw, family: str, other_than: Phrase | None = None) -> Clause:
    """A clause for one half of a sentence."""
    kind = draw.number(1, 10)
    if kind <= 5:
        return scenes.action(draw, other_than=other_than, short=True, time=0, negation=0.08, family=family)
    if kind <= 7:
        return scenes.alone(draw, other_than=other_than, short=True, time=0, negation=0.08, family=family)
    if kind <= 9 or other_than is IT:
        return scenes.quality(draw, other_than=other_than, time=False, family=family)
    return scenes.weather(draw, family)


def _action_half(draw: Draw, family: str, other_than: Phrase | None = None) -> Clause:
    """A clause in which something happens, for one half of a sentence."""
    subject = draw.subject(other_than, adjective=0.05, indefinite=0)
    if draw.chance(0.75):
        return scenes.action(draw, subject=subject, short=True, time=0.1, negation=0.12, family=family)
    return scenes.movement(draw, subject=subject, time=0, negation=0.12, family=family)


# statements


def _action(draw: Draw) -> Sentence:
    return frames.statement(scenes.action(draw))


def _giving(draw: Draw) -> Sentence:
    return frames.statement(scenes.giving(draw))


def _alone(draw: Draw) -> Sentence:
    return frames.statement(scenes.alone(draw))


def _movement(draw: Draw) -> Sentence:
    return frames.statement(scenes.movement(draw) if draw.chance(0.75) else scenes.dwelling(draw))


def _placing(draw: Draw) -> Sentence:
    kind = draw.number(0, 4)
    scene = scenes.resting if kind < 2 else scenes.moving if kind < 4 else scenes.sitting
    return frames.statement(scene(draw))


def _fronted(draw: Draw) -> Sentence:
    clause = _any_clause(draw)
    while clause.time is None:
        clause = _any_clause(draw)
    return frames.fronted(clause)


def _circumstance(draw: Draw) -> Sentence:
    clause = scenes.circumstance(draw)
    return frames.fronted(clause) if draw.chance(0.5) else frames.statement(clause)


def _quality(draw: Draw) -> Sentence:
    return frames.statement(scenes.quality(draw))


def _comparison(draw: Draw) -> Sentence:
    return frames.statement(scenes.comparison(draw))


def _profession(draw: Draw) -> Sentence:
    return frames.statement(scenes.profession(draw))


def _figures(draw: Draw) -> Sentence:
    scene = draw.pick((scenes.age, scenes.price, scenes.price, scenes.schedule, scenes.schedule))
    return frames.statement(scene(draw))


def _impersonal(draw: Draw) -> Sentence:
    return frames.statement(scenes.weather(draw) if draw.chance(0.3) else scenes.the_time(draw))


def _belonging(draw: Draw) -> Sentence:
    return frames.statement(scenes.belonging(draw))


def _there_is(draw: Draw) -> Sentence:
    animal = draw.chance(0.35)
    thing = draw.noun_phrase(draw.pick(of_kind("animal") if animal else of_kind("furniture") + of_kind("thing")))
    if thing.definite:
        thing = NounPhrase(thing.noun, "a", adjective=thing.adjective)
    negated = thing.deniable and draw.chance(0.2)
    place = NOUNS[draw.pick(_OUTDOORS if animal else _INDOORS)]
    en, de = place.facts["at"].split(":")
    where = prepositional(en, de, "dat", draw.place_phrase(place))
    return frames.there_is(thing, where, negated, question=not negated and draw.chance(0.2))


# questions and commands


def _yes_no(draw: Draw) -> Sentence:
    subject = _someone_asked(draw)
    if draw.chance(0.15):
        clause = scenes.quality(draw)
        return frames.yes_no(replace(clause, negated=False))
    return frames.yes_no(replace(_any_clause(draw, subject), negated=False))


def _may_i(draw: Draw) -> Sentence:
    subject = PRONOUNS[draw.pick(("I", "we"))]
    clause = scenes.action(draw, subject=subject, time=0, negation=0)
    while "stative" in clause.verb.flags or "bad" in clause.verb.flags:
        clause = scenes.action(draw, subject=subject, time=0, negation=0)
    modal = draw.pick(("can", "may", "must", "should"))
    return frames.yes_no(replace(clause, tense="simple", modal=modal, gladly=False, often=None))


def _ask_subject(draw: Draw) -> Sentence:
    clause = (
        scenes.action(draw, subject=PRONOUNS["he"]) if draw.chance(0.75) else scenes.alone(draw, subject=PRONOUNS["he"])
    )
    return frames.ask_subject(replace(clause, negated=False))


def _asked_object(draw: Draw, verb: Verb, time: float = 0.25) -> Clause:
    """A clause without object, to be asked for it."""
    return draw.timed(Clause(_someone_asked(draw), verb), time, 0)


def _ask_object(draw: Draw) -> Sentence:
    person = draw.chance(0.5)
    return frames.ask_object(_asked_object(draw, draw.pick(_PERSONS if person else _THINGS)), person)


def _ask_which(draw: Draw) -> Sentence:
    many = draw.chance(0.4)
    verb = draw.pick(_COUNTED if many else _WITH_COUNTABLE)
    noun: Noun = draw.pick(tuple(noun for noun in verb.objects if noun.countable))
    clause = _asked_object(draw, verb, 0.15)
    clause = replace(clause, gladly=False)
    adjective = draw.pick(SUITABLE[noun.lemma]) if SUITABLE[noun.lemma] and draw.chance(0.15) else None
    phrase = NounPhrase(noun, "" if many else "which", plural=many or draw.chance(0.2), adjective=adjective)
    return frames.ask_which(replace(clause, obj=phrase), Words("how many", "wie viele") if many else None)


def _ask_adverb(draw: Draw) -> Sentence:
    subject = _someone_asked(draw)
    kind = draw.number(0, 9)
    if kind < 3:
        clause = replace(_any_clause(draw, subject), negated=False, time=None, often=None)
        return frames.ask_adverb(_WHY if "stative" in clause.verb.flags else _WHEN, clause)
    if kind < 6:
        return frames.ask_adverb(_WHY, _any_clause(draw, subject))
    if kind == 6:
        clause = replace(scenes.movement(draw, subject=subject, goal=False), negated=False)
        return frames.ask_adverb(Words("where", "wohin"), clause)
    if kind == 7:
        clause = replace(scenes.action(draw, subject=subject), place=None, negated=False)
        return frames.ask_adverb(_WHERE, clause)
    clause = replace(scenes.dwelling(draw, subject=subject, place=False), negated=False)
    return frames.ask_adverb(_WHERE, clause)


def _command(draw: Draw) -> Sentence:
    you = PRONOUNS["you"]
    scene = scenes.action if draw.chance(0.7) else scenes.giving
    clause = scene(draw, subject=you, time=0, negation=0.25)
    while clause.verb.flags & {"stative", "plain", "bad"}:
        clause = scene(draw, subject=you, time=0, negation=0.25)
    clause = replace(clause, tense="simple", modal="", gladly=False, often=None)
    return frames.command(clause, please=draw.chance(0.6))


# sentences of two clauses


def _subordinate(draw: Draw) -> Sentence:
    conjunction = draw.pick(("because", "because", "although", "if", "before", "while"))
    if conjunction == "while":
        main = _action_half(draw, "present")
        sub = _action_half(draw, "present", main.subject)
    elif conjunction == "before":
        family = draw.pick(("past", "past", "present"))
        main = _action_half(draw, family)
        sub = _action_half(draw, family, main.subject)
        while sub.verb.ambiguous or "stative" in sub.verb.flags:
            sub = _action_half(draw, family, main.subject)
        sub = replace(sub, negated=False, tense="past" if family == "past" else "simple", modal="", gladly=False)
    elif conjunction == "if":
        main = _action_half(draw, "present")
        sub = _short_clause(draw, "present", main.subject)
    else:
        family = draw.pick(("past", "present"))
        main = _action_half(draw, family)
        sub = _short_clause(draw, family, main.subject)
    return frames.subordinate(main, conjunction, sub, first=conjunction != "while" and draw.chance(0.35))


def _because_it(draw: Draw) -> Sentence:
    """She buys the coat because it is cheap: the pronoun takes the gender of the noun."""
    verb = TRANSITIVE[draw.pick(("buy", "sell", "read", "repair", "wear", "like", "visit", "look for", "eat"))]
    noun = draw.pick(tuple(n for n in verb.objects if n.kind != "person"))
    while not SUITABLE[noun.lemma]:
        noun = draw.pick(tuple(n for n in verb.objects if n.kind != "person"))
    subject = draw.subject(adjective=0, indefinite=0)
    thing = draw.noun_phrase(noun, few=True, definite=True, adjective=0)
    main = draw.timed(Clause(subject, verb, obj=thing), 0, 0, draw.pick(("past", "present")))
    quality = draw.pick(SUITABLE[noun.lemma])
    tense = "past" if main.tense == "past" else "simple"
    sub = Clause(thing.it(), INTRANSITIVE["be"], tense=tense, end=Words(quality.en, quality.de))
    return frames.subordinate(main, "because", sub)


def _reported(draw: Draw) -> Sentence:
    subject = draw.subject(adjective=0, indefinite=0)
    kind = draw.number(0, 9)
    sub = _short_clause(draw, draw.pick(("past", "present", "")), subject)
    if kind < 5:
        verb = THINKING[draw.pick(("know", "believe", "say", "hope"))]
        return frames.reported(Clause(subject, verb), _THAT, sub)
    if kind < 7:
        asking = Clause(_someone_asked(draw), THINKING["know"])
        return frames.reported(asking, draw.pick((_WHETHER, _THAT)), sub, question=True)
    sub = replace(_any_clause(draw, _third_person(draw)), time=None, often=None)
    word = draw.pick((_WHETHER, _WHEN, _WHY))
    sub = replace(sub, negated=sub.negated and word is not _WHEN)
    return frames.reported(Clause(subject, THINKING["know"], negated=True), word, sub)


def _infinitive(draw: Draw) -> Sentence:
    verb = THINKING[draw.pick(("try", "forget", "promise", "hope", "begin"))]
    subject = draw.subject(adjective=0.08, indefinite=0)
    tense = draw.pick(
        ("simple", "past", "progressive", "perfect") if verb.lemma in ("try", "begin") else ("simple", "past")
    )
    if verb.lemma == "hope":
        tense = "simple"
    scene = scenes.action if draw.chance(0.75) else scenes.alone
    sub = scene(draw, subject=subject, short=True, time=0, negation=0)
    while sub.verb.flags & {"stative", "bad"}:
        sub = scene(draw, subject=subject, short=True, time=0, negation=0)
    return frames.infinitive(Clause(subject, verb, tense=tense), sub)


def _purpose(draw: Draw) -> Sentence:
    main = scenes.movement(draw, time=0.1, negation=0)
    sub = scenes.action(draw, subject=main.subject, short=True, time=0, negation=0)
    while sub.verb.flags & {"stative", "bad", "plain"}:
        sub = scenes.action(draw, subject=main.subject, short=True, time=0, negation=0)
    return frames.infinitive(main, sub, purpose=True)


def _relative(draw: Draw) -> Sentence:
    if draw.chance(0.5):
        head = NounPhrase(draw.person_noun(), "the", plural=draw.chance(0.25))
        inner = scenes.action(draw, subject=head, short=True, time=0, negation=0.1)
        phrase, inner = frames.subject_relative(head, inner)
    else:
        verb = draw.pick(_WITH_COUNTABLE)
        subject = draw.subject(adjective=0, indefinite=0)
        nouns = tuple(n for n in verb.objects if n.lemma not in subject.lemmas and n.countable)
        head = NounPhrase(draw.pick(nouns), "the", plural=draw.chance(0.25))
        phrase, inner = frames.object_relative(head, draw.timed(Clause(subject, verb), 0, 0.1))
    recognising = tuple(verb for verb in _RECOGNISING if head.noun in verb.objects)
    if SUITABLE[head.noun.lemma] and (not recognising or draw.chance(0.6)):
        quality = draw.pick(SUITABLE[head.noun.lemma])
        outer = Clause(phrase, INTRANSITIVE["be"], end=Words(quality.en, quality.de))
    else:
        verb = draw.pick(recognising or (TRANSITIVE["think of"],))
        outer = Clause(draw.subject(head, adjective=0, indefinite=0), verb, obj=phrase)
    return frames.with_relative(outer, inner)


_RECOGNISING = tuple(TRANSITIVE[lemma] for lemma in ("know", "see", "like", "look for", "need"))


def _coordinated(draw: Draw) -> Sentence:
    family = draw.pick(("past", "present", "present"))
    first = _short_clause(draw, family)
    second = _short_clause(draw, family, first.subject)
    return frames.coordinated(first, draw.pick(("and", "and", "but")), second)


PATTERNS: Weighted[Callable[[Draw], Sentence]] = Weighted(
    {
        _action: 22,
        _giving: 6,
        _alone: 4,
        _movement: 4.5,
        _placing: 4,
        _fronted: 8,
        _circumstance: 2,
        _quality: 4,
        _comparison: 2.5,
        _profession: 1,
        _figures: 4,
        _impersonal: 0.8,
        _belonging: 1.5,
        _there_is: 1.7,
        _yes_no: 6,
        _may_i: 1.5,
        _ask_subject: 2.5,
        _ask_object: 2.5,
        _ask_which: 3,
        _ask_adverb: 4,
        _command: 3,
        _subordinate: 6,
        _because_it: 2,
        _reported: 3.5,
        _infinitive: 3,
        _purpose: 1.5,
        _relative: 3,
        _coordinated: 2.5,
    }
)
"""Every pattern with its weight."""


def draw_sentence(draw: Draw) -> Sentence:
    """One random sentence."""
    return draw.weighted(PATTERNS)(draw)
