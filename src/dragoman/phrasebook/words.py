"""The small words of the phrasebook: adjectives, adverbs, names, places with names, times, matrix verbs.

Everything here is a fixed pair of strings in the two languages; adjectives are inflected in
:mod:`dragoman.phrasebook.german`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from dragoman.phrasebook.tables import read_table


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """One adjective; a comparative may be empty.

    ``suits`` holds the noun kinds and lemmas that it goes with, and -lemmas that it does not.
    """

    en: str
    en_comparative: str
    de: str
    de_comparative: str
    suits: frozenset[str]


def _adjective(row: list[str]) -> Adjective:
    en, en_comparative, de, de_comparative, suits = ["" if cell == "-" else cell for cell in row]
    return Adjective(en, en_comparative, de, de_comparative, frozenset(suits.split()))


ADJECTIVES: dict[str, Adjective] = {
    adjective.en: adjective for adjective in map(_adjective, read_table("adjectives", 5)["adjectives"])
}


class Words(NamedTuple):
    """A piece of a sentence that is the same wherever it stands: an adverb or a realised phrase."""

    en: str
    de: str


def _words(text: str) -> tuple[Words, ...]:
    return tuple(Words(*(part.strip() for part in row.split("="))) for row in text.strip().splitlines())


NAMES = ("Anna", "Maria", "Laura", "Peter", "Paul", "Martin")
TOWNS = _words("Berlin = Berlin\nHamburg = Hamburg\nMunich = München\nCologne = Köln\nVienna = Wien\nZurich = Zürich")
COUNTRIES = _words("Germany = Deutschland\nAustria = Österreich\nItaly = Italien\nFrance = Frankreich\nSpain = Spanien")
DAYS = _words(
    """Monday = Montag
Tuesday = Dienstag
Wednesday = Mittwoch
Thursday = Donnerstag
Friday = Freitag
Saturday = Samstag
Sunday = Sonntag"""
)
MONTHS = _words(
    """January = Januar
March = März
May = Mai
July = Juli
October = Oktober
December = Dezember"""
)

PAST_TIMES = _words(
    """yesterday = gestern
last week = letzte Woche
last month = letzten Monat
last year = letztes Jahr
yesterday evening = gestern Abend
the day before yesterday = vorgestern"""
)
FUTURE_TIMES = _words(
    """tomorrow = morgen
next week = nächste Woche
next month = nächsten Monat
next year = nächstes Jahr
tomorrow evening = morgen Abend
the day after tomorrow = übermorgen"""
)
SOON = Words("soon", "bald")
PRESENT_TIMES = _words("now = jetzt\ntoday = heute\nthis evening = heute Abend")
HABIT_TIMES = _words(
    """every day = jeden Tag
every week = jede Woche
every year = jedes Jahr
every morning = jeden Morgen
in the evening = am Abend
in summer = im Sommer
in winter = im Winter"""
)
UNITS = (
    ("day", "days", "Tag", "Tagen"),
    ("week", "weeks", "Woche", "Wochen"),
    ("month", "months", "Monat", "Monaten"),
    ("year", "years", "Jahr", "Jahren"),
)
"""English singular and plural, German singular and dative plural."""

HABIT_ADVERBS = _words("always = immer\noften = oft\nsometimes = manchmal\nnever = nie\nrarely = selten")
PERFECT_ADVERBS = _words("already = schon\nnever = noch nie\njust = gerade\noften = oft")
PROGRESSIVE_ADVERBS = _words("still = noch\nalready = schon")
WEATHER = _words("cold = kalt\nwarm = warm\ndark = dunkel\nlate = spät")
MANNERS = _words("slowly = langsam\nquickly = schnell\ncarefully = sorgfältig\nalone = allein")

VEHICLES = _words(
    """by car = mit dem Auto
by bus = mit dem Bus
by train = mit dem Zug
by bicycle = mit dem Fahrrad
by taxi = mit dem Taxi"""
)

SUBORDINATORS = {
    "because": "weil",
    "although": "obwohl",
    "if": "wenn",
    "before": "bevor",
    "while": "während",
}
