"""Random clauses by what they are about: an action, a movement, a state, a schedule, a comparison.

Each function takes a :class:`Draw` and returns a :class:`Clause`; ``patterns.py`` makes sentences of them.
"""

from __future__ import annotations

from dataclasses import replace

from dragoman.phrasebook import words
from dragoman.phrasebook.clause import Clause
from dragoman.phrasebook.draw import Draw
from dragoman.phrasebook.frames import than
from dragoman.phrasebook.german import POSSESSIVES
from dragoman.phrasebook.nouns import NOUNS, flagged, of_kind
from dragoman.phrasebook.numerals import MINUTES, clock, english_number, german_number
from dragoman.phrasebook.phrases import IT, PRONOUNS, Both, Name, NounPhrase, Phrase, prepositional
from dragoman.phrasebook.verbs import INTRANSITIVE, MOVING, RESTING, TRANSITIVE, Verb
from dragoman.phrasebook.words import ADJECTIVES, Words

DIRECT = tuple(verb for verb in TRANSITIVE.values() if not verb.recipient)
GIVING = tuple(verb for verb in TRANSITIVE.values() if verb.recipient)
_FOR_ANIMALS = tuple(verb for verb in DIRECT if "animal" in verb.flags)


def _intransitive(flag: str) -> tuple[Verb, ...]:
    return tuple(verb for verb in INTRANSITIVE.values() if flag in verb.flags)


_SPECIAL = frozenset({"live", "goal", "town", "train", "weather", "event", "hours", "stative"})
ALONE = tuple(verb for verb in INTRANSITIVE.values() if not verb.flags & _SPECIAL)
_SCHEDULED_TRANSPORT = tuple(NOUNS[lemma] for lemma in "train bus ship".split())
_SCHEDULED_HOUSES = tuple(NOUNS[lemma] for lemma in "shop museum library theatre restaurant".split())
_EVENTS = tuple(NOUNS[lemma] for lemma in "party meeting concert exam course game film".split())
_PRICED = tuple(noun for noun in TRANSITIVE["buy"].objects if noun.countable and noun.kind not in ("place", "vehicle"))
_DESCRIBED = tuple(
    noun
    for noun in NOUNS.values()
    if noun.kind not in ("weather", "mass") and any(noun.lemma in a.suits or noun.kind in a.suits for a in ADJECTIVES.values())
)
_ON = {"table": ("on", "auf"), "chair": ("on", "auf"), "sofa": ("on", "auf"), "bed": ("on", "auf")}
_NEAR = (("under", "unter"), ("next to", "neben"), ("behind", "hinter"), ("in front of", "vor"))
_FEMALE = tuple(NOUNS[lemma] for lemma in "sister mother daughter aunt grandmother".split())
_MALE = tuple(NOUNS[lemma] for lemma in "brother father son uncle".split())
_JOBS = flagged("fem")


def action(draw: Draw, *, subject: Phrase | None = None, other_than: Phrase | None = None, short: bool = False,
           time: float = 0.4, negation: float = 0.16, family: str = "") -> Clause:
    """Someone does something to something; ``short``: fewer adjectives and no adverbs."""
    extra = 0.08 if short else 0.22
    if subject is None and not short and draw.chance(0.05):
        verb = draw.pick(_FOR_ANIMALS)
        animal = draw.pick(of_kind("animal"))
        subject = draw.noun_phrase(animal, few=True, definite=True, adjective=extra)
    else:
        verb = draw.pick(DIRECT)
    if subject is None:
        subject = draw.subject(other_than, adjective=extra / 2 if short else 0.15, indefinite=0.0 if short else 0.07)
    clause = Clause(subject, verb, obj=draw.object_for(verb, subject, extra))
    if not short and "place" in verb.flags and draw.chance(0.2):
        clause = replace(clause, place=draw.place())
    elif not short and "manner" in verb.flags and draw.chance(0.15):
        clause = replace(clause, manner=draw.pick(words.MANNERS))
    return draw.timed(clause, time, negation, family)


def giving(draw: Draw, *, subject: Phrase | None = None, time: float = 0.3, negation: float = 0.12,
           family: str = "") -> Clause:
    """Someone gives someone something."""
    subject = subject or draw.subject(adjective=0.08)
    verb = draw.pick(GIVING)
    recipient = draw.person_object(subject, 0.08)
    thing = draw.object_for(verb, Both(subject, recipient))
    if thing.pronoun:
        thing = draw.noun_phrase(NOUNS["doctor"], few=True, definite=True, adjective=0)
    return draw.timed(Clause(subject, verb, obj=thing, recipient=recipient), time, negation, family)


def alone(draw: Draw, *, subject: Phrase | None = None, other_than: Phrase | None = None, short: bool = False,
          time: float = 0.4, negation: float = 0.14, family: str = "") -> Clause:
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


def movement(draw: Draw, *, subject: Phrase | None = None, time: float = 0.4, negation: float = 0.12,
             family: str = "", goal: bool = True) -> Clause:
    """Someone goes somewhere; without ``goal`` the direction is left out, to be asked for."""
    subject = subject or draw.subject()
    if draw.chance(0.55):
        clause = Clause(subject, draw.pick(_intransitive("goal")), end=direction(draw))
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


def direction(draw: Draw) -> Words:
    """To a place, or to a person."""
    if draw.chance(0.15):
        noun = draw.pick(_JOBS)
        return prepositional("to", "zu", "dat", NounPhrase(noun, "the"))
    noun = draw.pick(flagged("to"))
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


def _spot(draw: Draw, case: str) -> Words:
    noun = draw.pick(of_kind("furniture"))
    en, de = _ON.get(noun.lemma, ("in", "in")) if draw.chance(0.5) else draw.pick(_NEAR)
    return prepositional(en, de, case, draw.noun_phrase(noun, few=True, definite=True, adjective=0.12))


def resting(draw: Draw) -> Clause:
    """Something lies, stands or hangs somewhere, or someone sits or stands there."""
    kind = draw.pick(("lie", "stand", "hang", "sit", "be"))
    verb = INTRANSITIVE["be"] if kind == "be" else RESTING[kind]
    if kind == "sit":
        noun = draw.pick(NOUNS["cat"], ) if False else NOUNS["cat"]
        subject: Phrase = draw.subject() if draw.chance(0.8) else draw.noun_phrase(noun, few=True, definite=True)
        seat = draw.pick(tuple(NOUNS[lemma] for lemma in ("chair", "sofa", "table", "bed")))
        at = ("at", "an") if seat.lemma == "table" else ("on", "auf")
        spot = prepositional(*at, "dat", draw.noun_phrase(seat, few=True, definite=True, adjective=0.12))
    else:
        noun = draw.pick(flagged("lie" if kind == "be" else kind))
        spot = _spot(draw, "dat")
        while noun.lemma in spot.en:
            spot = _spot(draw, "dat")
        if kind == "hang":
            place = draw.pick(flagged("hang"))
            noun = place if place.kind == "thing" else NOUNS["picture"]
            spot = prepositional("on", "an", "dat", NounPhrase(NOUNS["wall"], "the"))
        subject = draw.noun_phrase(noun, few=True, definite=True)
    clause = Clause(subject, verb, end=spot)
    tense = "past" if draw.chance(0.3) else "simple" if verb.en == "be" else "progressive"
    negated = draw.chance(0.12)
    return replace(clause, tense=tense, negated=negated)


def moving(draw: Draw, *, time: float = 0.25, subject: Phrase | None = None, family: str = "") -> Clause:
    """Someone lays, puts or hangs something somewhere."""
    subject = subject or draw.subject()
    verb = draw.pick(tuple(MOVING.values()))
    flag = {"lay": "lie", "put": "stand", "hang": "hang"}[verb.lemma]
    noun = draw.pick(tuple(n for n in flagged(flag) if n.kind not in ("vehicle", "part") and n.lemma != "bed"))
    if flag == "hang":
        spot = prepositional("on", "an", "acc", NounPhrase(NOUNS["wall"], "the"))
        noun = noun if noun.kind == "thing" else NOUNS["picture"]
    else:
        spot = _spot(draw, "acc")
        while noun.lemma in spot.en or noun.kind == "furniture" and spot.en.startswith(("in ", "on ")):
            spot = _spot(draw, "acc")
    thing = draw.noun_phrase(noun, few=True, adjective=0.15)
    return draw.timed(Clause(subject, verb, obj=thing, end=spot), time, 0.1, family)


def quality(draw: Draw, *, other_than: Phrase | None = None, time: bool = True, family: str = "") -> Clause:
    """Someone or something is so."""
    adjectives = tuple(ADJECTIVES.values())
    if draw.chance(0.55):
        subject = draw.subject(other_than, adjective=0.0)
        suits = tuple(a for a in adjectives if "person" in a.suits)
    else:
        noun = draw.pick(_DESCRIBED)
        subject = draw.noun_phrase(noun, few=True, definite=True, adjective=0.0)
        suits = tuple(a for a in adjectives if noun.lemma in a.suits or noun.kind in a.suits)
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


_PASSING = frozenset("tired sick hungry nervous happy sad".split())


def comparison(draw: Draw) -> Clause:
    """One thing is bigger than another, or as big."""
    kind = draw.pick(("person", "person", "animal", "vehicle", "food", "clothes", "furniture", "text", "thing"))
    gradable = tuple(a for a in ADJECTIVES.values() if a.de_comparative and kind in a.suits)
    chosen = draw.pick(gradable)
    subject = draw.subject(adjective=0.0, indefinite=0) if kind == "person" else None
    if subject is None:
        subject = draw.noun_phrase(draw.pick(of_kind(kind)), few=True, definite=True, adjective=0.0)
    noun = draw.pick(of_kind(kind))
    while noun.lemma in subject.lemmas:
        noun = draw.pick(of_kind(kind))
    other: Phrase = draw.noun_phrase(noun, few=True, definite=True, adjective=0.0)
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
    n = draw.number(2, 99)
    end = Words(f"{english_number(n)} years old", f"{german_number(n)} Jahre alt")
    return Clause(draw.subject(adjective=0, indefinite=0), INTRANSITIVE["be"], end=end)


def price(draw: Draw) -> Clause:
    """Something costs so many euros."""
    subject = draw.noun_phrase(draw.pick(_PRICED), few=True, definite=True)
    n = draw.number(2, 99)
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
