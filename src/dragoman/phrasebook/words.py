"""The small words of the phrasebook: adjectives, adverbs, names, places with names, times, matrix verbs.

Everything here is a fixed pair of strings in the two languages; adjectives are inflected in
:mod:`dragoman.phrasebook.german`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

_ADJECTIVES = """
old         | alt         | älter         | person animal text clothes thing furniture vehicle house castle church city
young       | jung        | jünger        | person animal
big         | groß        | größer        | animal food thing furniture vehicle part place
tall        | groß        | größer        | person
small       | klein       | kleiner       | child boy girl animal food thing furniture vehicle part place
new         | neu         | -             | text clothes thing furniture vehicle hotel museum shop flat school film song plan
beautiful   | schön       | schöner       | clothes thing flower garden house city castle lake church flat park song poem story
expensive   | teuer       | teurer        | clothes thing furniture vehicle wine hotel flat restaurant
cheap       | billig      | billiger      | clothes thing furniture wine hotel flat
heavy       | schwer      | schwerer      | suitcase bag box basket computer furniture
red         | rot         | -             | clothes bag umbrella lamp cup box flower ball car bicycle door sofa chair apple
blue        | blau        | -             | clothes bag umbrella lamp cup box flower ball car bicycle door sofa chair vase
green       | grün        | -             | clothes bag umbrella lamp cup box ball car bicycle door sofa chair apple pear
yellow      | gelb        | -             | clothes bag umbrella lamp cup box flower ball car bicycle sofa pear
black       | schwarz     | -             | clothes bag umbrella suitcase car bicycle dog cat horse bird
white       | weiß        | -             | clothes plate cup box flower car door wall cat horse house
brown       | braun       | -             | clothes bag suitcase furniture dog horse cow bear bottle
fresh       | frisch      | frischer      | food milk water juice
sweet       | süß         | süßer         | apple pear orange cake juice wine
hot         | heiß        | heißer        | soup coffee tea milk water
warm        | warm        | wärmer        | coat jacket sweater room milk water bread
cold        | kalt        | kälter        | drink soup room water
good        | gut         | besser        | text film song food drink hotel restaurant course doctor teacher lawyer baker plan idea
interesting | interessant | interessanter | text film museum city course trip question language answer plan
boring      | langweilig  | langweiliger  | text film course meeting concert game party
long        | lang        | länger        | text clothes film course meeting trip song word
short       | kurz        | kürzer        | text film course meeting trip dress skirt answer word
important   | wichtig     | wichtiger     | text meeting exam question answer plan result problem
difficult   | schwierig   | schwieriger   | exam question problem language word text
easy        | einfach     | einfacher     | exam question problem language word game
famous      | berühmt     | berühmter     | painter actress journalist lawyer doctor city castle museum picture film book song
rich        | reich       | reicher       | person
poor        | arm         | ärmer         | person
strong      | stark       | stärker       | man boy farmer horse bear lion storm
friendly    | freundlich  | freundlicher  | person dog
polite      | höflich     | höflicher     | person
strict      | streng      | strenger      | teacher judge father mother doctor
lazy        | faul        | fauler        | person cat dog
hard-working | fleißig    | fleißiger     | person
happy       | glücklich   | glücklicher   | person
sad         | traurig     | trauriger     | person
tired       | müde        | müder         | person animal
sick        | krank       | kränker       | person animal
hungry      | hungrig     | hungriger     | person animal
nervous     | nervös      | nervöser      | person
brave       | mutig       | mutiger       | person dog
dangerous   | gefährlich  | gefährlicher  | lion bear dog storm bridge trip game
fast        | schnell     | schneller     | vehicle horse dog
slow        | langsam     | langsamer     | bus train ship boat computer
quiet       | ruhig       | ruhiger       | village hotel park garden flat room library child
modern      | modern      | moderner      | museum city school hospital office furniture lamp kitchen computer
clean       | sauber      | sauberer      | clothes plate cup glass room kitchen flat hotel window
dirty       | schmutzig   | schmutziger   | clothes plate cup glass room kitchen window car wall
empty       | leer        | -             | bottle glass cup box basket room church bus train cupboard
broken      | kaputt      | -             | watch umbrella camera radio computer lamp cup vase bottle chair bicycle window mirror
comfortable | bequem      | bequemer      | bed chair sofa shoe coat sweater
dark        | dunkel      | dunkler       | room forest church flat coat dress beer kitchen
funny       | lustig      | lustiger      | story film song poem monkey joke dream
healthy     | gesund      | gesünder      | food person animal
thin        | dünn        | dünner        | book coat wall man woman cat
thick       | dick        | dicker        | book coat wall novel sweater
"""

_COMPARED_WITH_MORE = frozenset(
    "expensive beautiful interesting boring important difficult famous dangerous comfortable modern nervous"
    " hard-working polite".split()
)
_ENGLISH_COMPARATIVES = {
    "big": "bigger",
    "hot": "hotter",
    "sad": "sadder",
    "thin": "thinner",
    "good": "better",
    "lazy": "lazier",
    "happy": "happier",
    "easy": "easier",
    "funny": "funnier",
    "hungry": "hungrier",
    "friendly": "friendlier",
    "healthy": "healthier",
    "heavy": "heavier",
    "dirty": "dirtier",
}


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """One adjective; ``suits`` holds the noun kinds and noun lemmas that it goes with."""

    en: str
    de: str
    de_comparative: str
    suits: frozenset[str]

    @property
    def en_comparative(self) -> str:
        """The English comparative, with ``more`` for the long ones."""
        if self.en in _COMPARED_WITH_MORE:
            return f"more {self.en}"
        return _ENGLISH_COMPARATIVES.get(self.en, self.en + ("r" if self.en.endswith("e") else "er"))


def _adjective(line: str) -> Adjective:
    en, de, comparative, suits = (cell.strip() for cell in line.split("|"))
    return Adjective(en, de, "" if comparative == "-" else comparative, frozenset(suits.split()))


ADJECTIVES: dict[str, Adjective] = {
    adjective.en: adjective for adjective in map(_adjective, _ADJECTIVES.strip().splitlines())
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

HABIT_ADVERBS = _words("always = immer\noften = oft\nsometimes = manchmal\nnever = nie\nusually = meistens\nrarely = selten")
PERFECT_ADVERBS = _words("already = schon\nnever = noch nie\njust = gerade\noften = oft")
PROGRESSIVE_ADVERBS = _words("still = noch\nalready = schon")
WEATHER = _words("cold = kalt\nwarm = warm\ndark = dunkel\nlate = spät")
MANNERS = _words("slowly = langsam\nquickly = schnell\ncarefully = vorsichtig\nalone = allein")

VEHICLES = _words(
    "by car = mit dem Auto\nby bus = mit dem Bus\nby train = mit dem Zug\nby bicycle = mit dem Fahrrad\nby taxi = mit dem Taxi"
)

SUBORDINATORS = {
    "because": "weil",
    "although": "obwohl",
    "if": "wenn",
    "before": "bevor",
    "while": "während",
}
