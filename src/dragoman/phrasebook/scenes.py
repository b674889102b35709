"""Random clauses by what they are about: an action, a movement, a state, a schedule, a comparison.

Each function takes a :class:`Draw` and returns a :class:`Clause`; ``patterns.py`` makes sentences of them.
"""

from __future__ import annotations

from dataclasses import replace

from dragoman.phrasebook import words
from dragoman.phrasebook.clause import Clause
from dragoman.phrasebook.draw import PLACES, SUITABLE, Draw
from dragoman.phrasebook.frames import than
from dragoman.phrasebook.german import POSSESSIVES
from dragoman.phrasebook.nouns import NOUNS, Noun, flagged, of_kind
from dragoman.phrasebook.numerals import MINUTES, clock, english_number, german_number
from dragoman.phrasebook.phrases import IT, PRONOUNS, Both, Name, NounPhrase, Phrase, prepositional
from dragoman.phrasebook.verbs import INTRANSITIVE, MOVING, RESTING, TRANSITIVE, Verb
from dragoman.phrasebook.words import ADJECTIVES, Words

DIRECT = tuple(verb for verb in TRANSITIVE.values() if not verb.recipient)
GIVING = tuple(verb for verb in TRANSITIVE.values() if verb.recipient)
_FOR_ANIMALS = tuple(verb for verb in DIRECT if "animal" in verb.flags)


_FAR = tuple(noun for noun in PLACES if noun.lemma not in ("kitchen", "room", "garden", "bridge"))


def _intransitive(flag: str) -> tuple[Verb, ...]:
    return tuple(verb for verb in INTRANSITIVE.values() if flag in verb.flags)


_SPECIAL = frozenset({"live", "goal", "town", "train", "weather", "event", "hours", "stative"})
ALONE = tuple(verb for verb in INTRANSITIVE.values() if not verb.flags & _SPECIAL)
_SCHEDULED_TRANSPORT = tuple(NOUNS[lemma] for lemma in ("train", "bus", "ship"))
_SCHEDULED_HOUSES = tuple(NOUNS[lemma] for lemma in ("shop", "museum", "library", "theatre", "restaurant"))
_EVENTS = tuple(NOUNS[lemma] for lemma in ("party", "meeting", "concert", "exam", "course", "game", "film"))
_REASONS = tuple(NOUNS[lemma] for lemma in ("weather", "rain", "snow", "storm", "noise", "exam", "trip", "money"))
_PRICED = tuple(noun for noun in TRANSITIVE["buy"].objects if noun.countable and noun.kind not in ("place", "vehicle"))
_DESCRIBED = tuple(noun for noun in NOUNS.values() if noun.kind != "sky" and SUITABLE[noun.lemma])
_AGES = {
    "child": (2, 14),
    "boy": (2, 14),
    "girl": (2, 14),
    "son": (2, 60),
    "daughter": (2, 60),
    "grandmother": (50, 99),
}
_OF_PEOPLE = tuple(adjective for adjective in ADJECTIVES.values() if "person" in adjective.suits)
_NEAR = (("under", "unter"), ("next to", "neben"), ("behind", "hinter"), ("in front of", "vor"))
_FEMALE = tuple(NOUNS[lemma] for lemma in ("sister", "mother", "daughter", "aunt", "grandmother"))
_MALE = tuple(NOUNS[lemma] for lemma in ("brother", "father", "son", "uncle"))
_JOBS = flagged("fem")


def action(
    draw: Draw,
    *,
    subject: Phrase | None = None,
    other_than: Phrase | None = None,
    short: bool = False,
    time: float = 0.4,
    negation: float = 0.16,
    family: str = "",
) -> Clause:
    """Someone does something to something; ``short``: fewer adjectives and no adverbs."""
    extra = 0.08 if short else 0.27
    if subject is None and not short and draw.chance(0.05):
        verb = draw.pick(_FOR_ANIMALS)
        animal = draw.pick(of_kind("animal"))
        subject = draw.noun_phrase(animal, few=True, definite=True, adjective=extra)
    else:
        verb = draw.pick(DIRECT)
    if subject is None:
        subject = draw.subject(other_than, adjective=extra / 2 if short else 0.15, indefinite=0.0 if short else 0.07)
    clause = Clause(subject, verb, obj=draw.object_for(verb, subject, extra))
    if isinstance(subject, NounPhrase) and subject.noun.kind == "animal":
        short = True
    if not short and "place" in verb.flags and draw.chance(0.2):
        clause = replace(clause, place=draw.place())
    elif not short and "manner" in verb.flags and draw.chance(0.15):
        clause = replace(clause, manner=draw.pick(words.MANNERS))
    clause = draw.timed(clause, time, negation, family)
    return replace(clause, manner=None) if clause.gladly else clause


def giving(
    draw: Draw, *, subject: Phrase | None = None, time: float = 0.3, negation: float = 0.12, family: str = ""
) -> Clause:
    """Someone gives someone something."""
    subject = subject or draw.subject(adjective=0.08)
    verb = draw.pick(GIVING)
    recipient = draw.person_object(subject, 0.08)
    thing = draw.object_for(verb, Both(subject, recipient))
    if thing.pronoun:
        thing = draw.noun_phrase(NOUNS["doctor"], few=True, definite=True, adjective=0)
    return draw.timed(Clause(subject, verb, obj=thing, recipient=recipient), time, negation, family)


def alone(
    draw: Draw,
    *,
    subject: Phrase | None = None,
    other_than: Phrase | None = None,
    short: bool = False,
    time: float = 0.4,
    negation: float = 0.14,
    family: str = "",
) -> Clause:
    """Someone does something that needs no object."""
    verb = draw.pick(ALONE)
    if subject is None and not short and draw.chance(0.12):
        subject = Both(draw.subject(adjective=0), NounPhrase(draw.person_noun(), "the"))
        if subject.first.pronoun or set(subject.first.lemmas) & set(subject.second.lemmas):
            subject = subject.second
    subject = subject or draw.subject(other_than, adjective=0.05 if short else 0.2, indefinite=0.0 if short else 0.08)
    clause = Clause(subject, verb)
    if not short and "with" in verb.flags and draw.chance(0.3):
        clause = replace(clause, manner=prepositional("with", "mit", "dat", draw.person_object(subject, 0.1)))
    elif not short and "manner" in verb.flags and draw.chance(0.25):
        clause = replace(clause, manner=draw.pick(words.MANNERS[:2]))
    if "place" in verb.flags and draw.chance(0.2 if short else 0.45):
        clause = replace(clause, place=draw.place())
    return draw.timed(clause, time, negation, family)


def movement(
    draw: Draw,
    *,
    subject: Phrase | None = None,
    time: float = 0.4,
    negation: float = 0.12,
    family: str = "",
    goal: bool = True,
) -> Clause:
    """Someone goes somewhere; without ``goal`` the direction is left out, to be asked for."""
    subject = subject or draw.subject()
    if draw.chance(0.55):
        clause = Clause(subject, draw.pick(_intransitive("goal")), end=None)
        clause = replace(clause, end=direction(draw, subject, far="town" in clause.verb.flags))
    else:
        verb = draw.pick(_intransitive("town"))
        town = draw.pick(words.TOWNS + words.COUNTRIES)
        clause = Clause(subject, verb, end=Words(f"to {town.en}", f"nach {town.de}"))
        if "vehicle" in verb.flags and draw.chance(0.5):
            clause = replace(clause, manner=draw.pick(words.VEHICLES))
    if not goal:
        clause = replace(clause, end=None)
    kept = clause.manner
    return replace(draw.timed(replace(clause, manner=None), time, negation, family), manner=kept)


def direction(draw: Draw, subject: Phrase, far: bool) -> Words:
    """To a place, or to a person other than the subject; ``far``: not to another room."""
    noun = draw.pick(_JOBS)
    if draw.chance(0.15) and noun.lemma not in subject.lemmas:
        return prepositional("to", "zu", "dat", NounPhrase(noun, "the"))
    noun = draw.pick(_FAR if far else PLACES)
    phrase = draw.place_phrase(noun)
    if noun.facts["to"] == "zu":
        return prepositional("to", "zu", "dat", phrase)
    return prepositional(draw.pick(("to", "into")) if noun.facts["at"] == "in:in" else "to", "in", "acc", phrase)


def dwelling(draw: Draw, *, subject: Phrase | None = None, place: bool = True) -> Clause:
    """Someone lives or stays somewhere."""
    subject = subject or draw.subject()
    verb = draw.pick(_intransitive("live"))
    clause = draw.timed(Clause(subject, verb), 0.3, 0.12)
    return replace(clause, end=draw.place()) if place else clause


def _spot(draw: Draw, thing: Noun, case: str) -> Words:
    """A spot for a thing: pictures go on the wall, coats in the cupboard, the rest on, in or beside the furniture."""
    if "hang" in thing.flags:
        en, de, lemma = ("on", "an", "wall") if thing.kind == "thing" else ("in", "in", "cupboard")
        return prepositional(en, de, case, NounPhrase(NOUNS[lemma], "the"))
    near = thing.kind == "furniture" or draw.chance(0.5)
    positions = _NEAR[1:] if thing.kind == "furniture" else _NEAR
    furniture = draw.pick(of_kind("furniture"))
    while furniture is thing or (furniture.lemma == "chair" and not near):
        furniture = draw.pick(of_kind("furniture"))
    inside = ("in", "in") if furniture.lemma == "cupboard" else ("on", "auf")
    phrase = draw.noun_phrase(furniture, few=True, definite=True, adjective=0.12)
    return prepositional(*(draw.pick(positions) if near else inside), case, phrase)


def _placed(draw: Draw, flag: str) -> Noun:
    """A thing that lies, stands or hangs indoors."""
    return draw.pick(tuple(n for n in flagged(flag) if n.kind not in ("vehicle", "part")))


def sitting(draw: Draw) -> Clause:
    """Someone sits somewhere."""
    subject = draw.noun_phrase(NOUNS["cat"], few=True, definite=True) if draw.chance(0.15) else draw.subject()
    seat = draw.noun_phrase(
        NOUNS[draw.pick(("chair", "sofa", "table", "bed"))], few=True, definite=True, adjective=0.12
    )
    en, de = ("at", "an") if seat.noun.lemma == "table" else ("on", "auf")
    clause = Clause(subject, RESTING["sit"], end=prepositional(en, de, "dat", seat))
    return replace(clause, tense="past" if draw.chance(0.3) else "progressive", negated=draw.chance(0.1))


def resting(draw: Draw) -> Clause:
    """Something lies, stands or hangs somewhere, or is simply there."""
    kind = draw.pick(("lie", "stand", "hang", "be"))
    verb = INTRANSITIVE["be"] if kind == "be" else RESTING[kind]
    noun = _placed(draw, "lie" if kind == "be" else kind)
    subject = draw.noun_phrase(noun, few=True, definite=True)
    tense = "past" if draw.chance(0.3) else "simple" if kind == "be" else "progressive"
    return Clause(subject, verb, tense=tense, negated=draw.chance(0.12), end=_spot(draw, noun, "dat"))


def moving(draw: Draw, *, time: float = 0.25, subject: Phrase | None = None, family: str = "") -> Clause:
    """Someone lays, puts or hangs something somewhere."""
    subject = subject or draw.subject()
    verb = draw.pick(tuple(MOVING.values()))
    noun = _placed(draw, {"lay": "lie", "put": "stand", "hang": "hang"}[verb.lemma])
    while noun.kind == "furniture" and noun.lemma != "chair":
        noun = _placed(draw, "stand")
    thing = draw.noun_phrase(noun, few=True, adjective=0.15)
    return draw.timed(Clause(subject, verb, obj=thing, end=_spot(draw, noun, "acc")), time, 0.1, family)


def quality(draw: Draw, *, other_than: Phrase | None = None, time: bool = True, family: str = "") -> Clause:
    """Someone or something is so."""
    if draw.chance(0.55):
        subject = draw.subject(other_than, adjective=0.0)
        suits = _OF_PEOPLE
    else:
        noun = draw.pick(_DESCRIBED)
        subject = draw.noun_phrase(noun, few=True, definite=True, adjective=0.0)
        suits = SUITABLE[noun.lemma]
    chosen = draw.pick(suits)
    tense = "past" if family == "past" or (not family and draw.chance(0.25)) else "simple"
    clause = Clause(subject, INTRANSITIVE["be"], tense=tense, negated=draw.chance(0.2), end=Words(chosen.en, chosen.de))
    if time and "person" in chosen.suits and chosen.en in _PASSING and draw.chance(0.5):
        if tense == "past":
            return replace(clause, time=draw.pick(words.PAST_TIMES))
        if not clause.negated and draw.chance(0.5):
            return replace(clause, often=draw.pick(words.HABIT_ADVERBS))
        return replace(clause, time=words.PRESENT_TIMES[1])
    return clause


_PASSING = frozenset(("tired", "sick", "hungry", "nervous", "happy", "sad"))


def comparison(draw: Draw) -> Clause:
    """One thing is bigger than another, or as big."""
    kind = draw.pick(("person", "person", "animal", "vehicle", "food", "clothes", "furniture", "text", "thing"))
    if kind == "person":
        subject: Phrase = draw.subject(adjective=0.0, indefinite=0)
        noun = draw.person_noun(subject)
        choice = _OF_PEOPLE
    else:
        first, noun = draw.pick(of_kind(kind)), draw.pick(of_kind(kind))
        subject = draw.noun_phrase(first, few=True, definite=True, adjective=0.0)
        choice = tuple(a for a in SUITABLE[first.lemma] if a in SUITABLE[noun.lemma] and a.de_comparative)
        if first is noun or not choice:
            return comparison(draw)
    chosen = draw.pick(choice)
    other = draw.noun_phrase(noun, few=True, definite=True, adjective=0.0)
    equal = draw.chance(0.35)
    forms = (chosen.en, chosen.de) if equal else (chosen.en_comparative, chosen.de_comparative)
    tense = "past" if draw.chance(0.15) else "simple"
    negated = draw.chance(0.3) if equal else False
    return Clause(subject, INTRANSITIVE["be"], tense=tense, negated=negated, end=than(*forms, other, equal))


def profession(draw: Draw) -> Clause:
    """Someone is a teacher: without article in German, and with a form of its own for a woman."""
    job = draw.pick(_JOBS)
    female = draw.chance(0.5)
    kind = draw.number(0, 2)
    subject: Phrase
    if kind == 0:
        subject = PRONOUNS["she" if female else "he"]
    elif kind == 1:
        subject = Name(draw.pick(words.NAMES[:3] if female else words.NAMES[3:]))
    else:
        subject = NounPhrase(draw.pick(_FEMALE if female else _MALE), draw.pick(POSSESSIVES))
    phrase = NounPhrase(job, "a")
    end = Words(phrase.en("nom"), job.facts["fem"] if female else job.de)
    tense = "past" if draw.chance(0.25) else "simple"
    return Clause(subject, INTRANSITIVE["be"], tense=tense, negated=draw.chance(0.15), end=end)


def age(draw: Draw) -> Clause:
    """Someone is so many years old."""
    subject = draw.subject(adjective=0, indefinite=0)
    low, high = (2, 99) if subject.pronoun else _AGES.get(subject.lemmas[0], (18, 99))
    n = draw.number(low, high)
    end = Words(f"{english_number(n)} years old", f"{german_number(n)} Jahre alt")
    return Clause(subject, INTRANSITIVE["be"], end=end)


def price(draw: Draw) -> Clause:
    """Something costs so many euros."""
    subject = draw.noun_phrase(draw.pick(_PRICED), few=True, definite=True)
    n = draw.number(2, 9 if subject.noun.kind == "food" else 99)
    end = Words(f"{english_number(n)} euros", f"{german_number(n)} Euro")
    return Clause(subject, INTRANSITIVE["cost"], end=end)


def schedule(draw: Draw) -> Clause:
    """A train leaves or arrives, a shop opens or closes, a concert begins or ends, at some time."""
    verbs = INTRANSITIVE
    kind = draw.number(0, 2)
    if kind == 0:
        noun, verb = draw.pick(_SCHEDULED_TRANSPORT), draw.pick((verbs["leave"], verbs["arrive"]))
    elif kind == 1:
        noun, verb = draw.pick(_SCHEDULED_HOUSES), draw.pick(_intransitive("hours"))
    else:
        noun, verb = draw.pick(_EVENTS), draw.pick(_intransitive("event"))
    phrase = NounPhrase(noun, draw.pick(("the", "the", "the", "this", "our")))
    tense = draw.pick(("simple", "simple", "past", "future"))
    return Clause(phrase, verb, tense=tense, time=draw.clock_time())


def circumstance(draw: Draw) -> Clause:
    """Someone does something during an event or because of the weather: the German genitive."""
    if draw.chance(0.5):
        en, de, noun = "during", "während", draw.pick(_EVENTS)
    else:
        en, de, noun = "because of", "wegen", draw.pick(_REASONS)
    determiner = draw.pick(("the", "the", "this"))
    if noun.en_plural and draw.chance(0.2):
        determiner = draw.pick(POSSESSIVES)
    adjective = draw.pick(SUITABLE[noun.lemma]) if SUITABLE[noun.lemma] and draw.chance(0.3) else None
    clause = action(draw, short=True, time=0, negation=0) if draw.chance(0.6) else alone(draw, time=0, negation=0)
    return replace(clause, time=prepositional(en, de, "gen", NounPhrase(noun, determiner, adjective=adjective)))


def weather(draw: Draw, family: str = "") -> Clause:
    """It rains, it is cold."""
    past = family == "past" or (not family and draw.chance(0.25))
    if draw.chance(0.6):
        clause = Clause(IT, draw.pick(_intransitive("weather")), tense="past" if past else "progressive")
    else:
        clause = Clause(IT, INTRANSITIVE["be"], tense="past" if past else "simple", end=draw.pick(words.WEATHER))
    return replace(clause, negated=draw.chance(0.15))


def the_time(draw: Draw) -> Clause:
    """It is half past three."""
    time = clock(draw.number(1, 12), draw.pick(MINUTES))
    return Clause(IT, INTRANSITIVE["be"], end=time)


def belonging(draw: Draw) -> Clause:
    """Something belongs to someone."""
    thing = draw.noun_phrase(draw.pick(TRANSITIVE["lend"].objects + of_kind("thing")), few=True, definite=True)
    thing = replace(thing, determiner="the", owner=None) if thing.owner or thing.determiner in POSSESSIVES else thing
    verb = INTRANSITIVE["belong to"]
    return draw.timed(Clause(thing, verb, obj=draw.person_object(thing)), 0, 0.2)
