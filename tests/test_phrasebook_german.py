"""German inflection against forms written by hand."""

from __future__ import annotations

import pytest

from dragoman.phrasebook import german
from dragoman.phrasebook.lexicon import lemmas
from dragoman.phrasebook.nouns import NOUNS
from dragoman.phrasebook.numerals import clock, english_number, german_number
from dragoman.phrasebook.phrases import prepositional
from dragoman.phrasebook.tables import read_table
from dragoman.phrasebook.verbs import INTRANSITIVE, MOVING, RESTING, THINKING, TRANSITIVE
from dragoman.phrasebook.words import ADJECTIVES
from phrasebook_words import noun, phrase, verb

# nominative, accusative, dative, genitive
DECLENSIONS = {
    # weak endings, after the definite article
    "the old man": "der alte Mann, den alten Mann, dem alten Mann, des alten Mannes",
    "the old woman": "die alte Frau, die alte Frau, der alten Frau, der alten Frau",
    "the small child": "das kleine Kind, das kleine Kind, dem kleinen Kind, des kleinen Kindes",
    "the small children": "die kleinen Kinder, die kleinen Kinder, den kleinen Kindern, der kleinen Kinder",
    # and after dieser and welcher
    "this new coat": "dieser neue Mantel, diesen neuen Mantel, diesem neuen Mantel, dieses neuen Mantels",
    "this blue lamp": "diese blaue Lampe, diese blaue Lampe, dieser blauen Lampe, dieser blauen Lampe",
    "this red dress": "dieses rote Kleid, dieses rote Kleid, diesem roten Kleid, dieses roten Kleides",
    "these red shoes": "diese roten Schuhe, diese roten Schuhe, diesen roten Schuhen, dieser roten Schuhe",
    "which old bus": "welcher alte Bus, welchen alten Bus, welchem alten Bus, welches alten Busses",
    "which good book": "welches gute Buch, welches gute Buch, welchem guten Buch, welches guten Buches",
    # mixed endings, after ein and the possessives
    "a big dog": "ein großer Hund, einen großen Hund, einem großen Hund, eines großen Hundes",
    "a black cat": "eine schwarze Katze, eine schwarze Katze, einer schwarzen Katze, einer schwarzen Katze",
    "a cheap hotel": "ein billiges Hotel, ein billiges Hotel, einem billigen Hotel, eines billigen Hotels",
    "my old uncle": "mein alter Onkel, meinen alten Onkel, meinem alten Onkel, meines alten Onkels",
    "our young aunt": "unsere junge Tante, unsere junge Tante, unserer jungen Tante, unserer jungen Tante",
    "your new car": "Ihr neues Auto, Ihr neues Auto, Ihrem neuen Auto, Ihres neuen Autos",
    "her old friends": "ihre alten Freunde, ihre alten Freunde, ihren alten Freunden, ihrer alten Freunde",
    "their fast horse": "ihr schnelles Pferd, ihr schnelles Pferd, ihrem schnellen Pferd, ihres schnellen Pferdes",
    # strong endings, without article
    "red wine": "roter Wein, roten Wein, rotem Wein, roten Weins",
    "cold water": "kaltes Wasser, kaltes Wasser, kaltem Wasser, kalten Wassers",
    "fresh milk": "frische Milch, frische Milch, frischer Milch, frischer Milch",
    "good coffee": "guter Kaffee, guten Kaffee, gutem Kaffee, guten Kaffees",
    "white flowers": "weiße Blumen, weiße Blumen, weißen Blumen, weißer Blumen",
    "many green apples": "viele grüne Äpfel, viele grüne Äpfel, vielen grünen Äpfeln, vieler grüner Äpfel",
    "some long letters": "einige lange Briefe, einige lange Briefe, einigen langen Briefen, einiger langer Briefe",
    # weak nouns
    "the student": "der Student, den Studenten, dem Studenten, des Studenten",
    "my neighbour": "mein Nachbar, meinen Nachbarn, meinem Nachbarn, meines Nachbarn",
    "a strong bear": "ein starker Bär, einen starken Bären, einem starken Bären, eines starken Bären",
    "the boy": "der Junge, den Jungen, dem Jungen, des Jungen",
    # stems that change
    "the dark forest": "der dunkle Wald, den dunklen Wald, dem dunklen Wald, des dunklen Waldes",
    "an expensive watch": "eine teure Uhr, eine teure Uhr, einer teuren Uhr, einer teuren Uhr",
    "the tired teacher": "der müde Lehrer, den müden Lehrer, dem müden Lehrer, des müden Lehrers",
    # plurals without -n in the dative
    "the cars": "die Autos, die Autos, den Autos, der Autos",
    "the women": "die Frauen, die Frauen, den Frauen, der Frauen",
    "the mice": "die Mäuse, die Mäuse, den Mäusen, der Mäuse",
    "my parents": "meine Eltern, meine Eltern, meinen Eltern, meiner Eltern",
}


@pytest.mark.parametrize(("english", "forms"), DECLENSIONS.items())
def test_declension(english: str, forms: str) -> None:
    built = noun(english)
    assert [built.de(case) for case in german.CASES] == forms.split(", ")
    assert built.en("nom") == english


def test_kein_goes_like_ein() -> None:
    forms = [noun("a dog").denied().de(case) for case in german.CASES]
    assert forms == ["kein Hund", "keinen Hund", "keinem Hund", "keines Hundes"]
    assert noun("a big dog").denied().de("acc") == "keinen großen Hund"
    assert noun("big dogs").denied().de("acc") == "keine großen Hunde"
    assert noun("cold water").denied().de("acc") == "kein kaltes Wasser"


def test_owners() -> None:
    assert phrase("car", owner=noun("the teacher")).de("dat") == "dem Auto des Lehrers"
    assert phrase("old car", owner=noun("my sister")).de("nom") == "das alte Auto meiner Schwester"
    assert phrase("car", owner=noun("his colleague")).de("acc") == "das Auto seines Kollegen"
    anna = phrase("Anna")
    assert phrase("old car", owner=anna).de("nom") == "Annas altes Auto"
    assert phrase("new coat", owner=anna).de("acc") == "Annas neuen Mantel"
    assert phrase("new coat", owner=anna).de("dat") == "Annas neuem Mantel"
    assert phrase("old car", owner=anna).en("acc") == "Anna's old car"


def test_numbers_before_nouns() -> None:
    built = phrase("red apples", count=21)
    assert built.de("acc") == "einundzwanzig rote Äpfel"
    assert built.de("dat") == "einundzwanzig roten Äpfeln"
    assert built.en("acc") == "twenty-one red apples"


PRONOUNS = {
    "I": "ich mich mir",
    "you": "Sie Sie Ihnen",
    "he": "er ihn ihm",
    "she": "sie sie ihr",
    "we": "wir uns uns",
    "they": "sie sie ihnen",
}


@pytest.mark.parametrize(("english", "forms"), PRONOUNS.items())
def test_pronouns(english: str, forms: str) -> None:
    assert [phrase(english).de(case) for case in ("nom", "acc", "dat")] == forms.split()


@pytest.mark.parametrize(
    ("thing", "forms"),
    [
        ("the coat", "er ihn ihm"),
        ("the lamp", "sie sie ihr"),
        ("the book", "es es ihm"),
        ("the shoes", "sie sie ihnen"),
    ],
)
def test_it_takes_the_gender_of_its_noun(thing: str, forms: str) -> None:
    assert [noun(thing).it().de(case) for case in ("nom", "acc", "dat")] == forms.split()


# ich, er, wir; then participle with auxiliary
CONJUGATIONS = {
    "read": "lese liest lesen hat gelesen",
    "write": "schreibe schreibt schreiben hat geschrieben",
    "take": "nehme nimmt nehmen hat genommen",
    "eat": "esse isst essen hat gegessen",
    "carry": "trage trägt tragen hat getragen",
    "open": "öffne öffnet öffnen hat geöffnet",
    "find": "finde findet finden hat gefunden",
    "repair": "repariere repariert reparieren hat repariert",
    "know": "kenne kennt kennen hat gekannt",
    "like": "mag mag mögen hat gemocht",
    "have": "habe hat haben hat gehabt",
    "feed": "füttere füttert füttern hat gefüttert",
    "call": "rufe ruft rufen hat angerufen",
    "help": "helfe hilft helfen hat geholfen",
    "follow": "folge folgt folgen ist gefolgt",
    "remember": "erinnere erinnert erinnern hat erinnert",
    "steal": "stehle stiehlt stehlen hat gestohlen",
    "wash": "wasche wäscht waschen hat gewaschen",
    "be": "bin ist sind ist gewesen",
    "run": "laufe läuft laufen ist gelaufen",
    "get up": "stehe steht stehen ist aufgestanden",
    "know@thinking": "weiß weiß wissen hat gewusst",
    "promise": "verspreche verspricht versprechen hat versprochen",
    "hang@resting": "hänge hängt hängen hat gehangen",
    "hang@moving": "hänge hängt hängen hat gehängt",
}


@pytest.mark.parametrize(("lemma", "forms"), CONJUGATIONS.items())
def test_conjugation(lemma: str, forms: str) -> None:
    found = verb(lemma)
    present = [german.present(found, agreement) for agreement in ("I", "he", "they")]
    assert [*present, found.perfect, found.participle] == forms.split()


def test_preterites() -> None:
    forms = {
        lemma: [german.preterite(verb(lemma), a) for a in ("I", "they")] for lemma in ("be", "have", "like", "know")
    }
    assert forms == {
        "be": ["war", "waren"],
        "have": ["hatte", "hatten"],
        "like": ["mochte", "mochten"],
        "know": ["kannte", "kannten"],
    }


def test_infinitives_with_zu() -> None:
    assert german.infinitive_with_zu(verb("call")) == "anzurufen"
    assert german.infinitive_with_zu(verb("open")) == "zu öffnen"
    assert german.infinitive_with_zu(verb("come back")) == "zurückzukommen"


def test_contractions() -> None:
    cases = [
        ("in", "dat", "the garden", "im Garten"),
        ("in", "dat", "the kitchen", "in der Küche"),
        ("in", "acc", "the house", "ins Haus"),
        ("in", "acc", "the old house", "ins alte Haus"),
        ("zu", "dat", "the school", "zur Schule"),
        ("zu", "dat", "the doctor", "zum Arzt"),
        ("zu", "dat", "the doctors", "zu den Ärzten"),
        ("bei", "dat", "the neighbour", "beim Nachbarn"),
        ("an", "dat", "the lake", "am See"),
        ("in", "dat", "a garden", "in einem Garten"),
        ("auf", "acc", "the bed", "auf das Bett"),
        ("wegen", "gen", "the bad weather", "wegen des schlechten Wetters"),
        ("während", "gen", "this long meeting", "während dieser langen Besprechung"),
    ]
    for preposition, case, text, expected in cases:
        assert prepositional("", preposition, case, noun(text)).de == expected


def test_question_adverbs() -> None:
    assert [german.question_adverb(p) for p in ("auf", "an", "über", "um", "vor")] == (
        ["worauf", "woran", "worüber", "worum", "wovor"]
    )


def test_numbers() -> None:
    german_words = {1: "eins", 2: "zwei", 7: "sieben", 12: "zwölf", 16: "sechzehn", 17: "siebzehn", 20: "zwanzig"}
    german_words |= {21: "einundzwanzig", 30: "dreißig", 37: "siebenunddreißig", 66: "sechsundsechzig"}
    german_words |= {71: "einundsiebzig", 99: "neunundneunzig"}
    assert {n: german_number(n) for n in german_words} == german_words
    english_words = {1: "one", 13: "thirteen", 20: "twenty", 21: "twenty-one", 40: "forty", 88: "eighty-eight"}
    assert {n: english_number(n) for n in english_words} == english_words
    assert len({german_number(n) for n in range(1, 100)}) == 99
    assert len({english_number(n) for n in range(1, 100)}) == 99


CLOCK = {
    (1, 0): ("one o'clock", "ein Uhr"),
    (7, 0): ("seven o'clock", "sieben Uhr"),
    (3, 30): ("half past three", "halb vier"),
    (12, 30): ("half past twelve", "halb eins"),
    (1, 15): ("a quarter past one", "Viertel nach eins"),
    (12, 45): ("a quarter to one", "Viertel vor eins"),
    (11, 45): ("a quarter to twelve", "Viertel vor zwölf"),
    (8, 5): ("five past eight", "fünf nach acht"),
    (8, 20): ("twenty past eight", "zwanzig nach acht"),
    (8, 40): ("twenty to nine", "zwanzig vor neun"),
    (9, 55): ("five to ten", "fünf vor zehn"),
}


@pytest.mark.parametrize(("time", "expected"), CLOCK.items())
def test_clock(time: tuple[int, int], expected: tuple[str, str]) -> None:
    assert clock(*time) == expected


ENGLISH = {
    "read": "reads reading",
    "try +on": "tries trying",
    "carry": "carries carrying",
    "wash": "washes washing",
    "miss": "misses missing",
    "put +on": "puts putting",
    "lie@resting": "lies lying",
    "sit@resting": "sits sitting",
    "have": "has having",
    "go": "goes going",
    "forget": "forgets forgetting",
    "greet": "greets greeting",
    "see": "sees seeing",
    "stay": "stays staying",
    "cancel": "cancels cancelling",
}


@pytest.mark.parametrize(("lemma", "forms"), ENGLISH.items())
def test_english_forms(lemma: str, forms: str) -> None:
    found = verb(lemma.replace("+", ""))
    assert [found.third, found.ing] == forms.split()


def test_english_articles() -> None:
    for text in ("an old man", "an apple", "a big apple", "an umbrella", "a new umbrella"):
        assert noun(text).en("nom") == text


def test_tables_are_complete() -> None:
    """Every row has its columns, every lemma its genders and participles, and no lemma stands twice."""
    for name, columns in {"nouns": 7, "verbs": 9, "adjectives": 5}.items():
        for rows in read_table(name, columns).values():
            assert all(len(row) == columns for row in rows)
            assert len({row[0] + row[1] for row in rows}) == len(rows)
    for item in NOUNS.values():
        assert (item.en and item.de and item.genitive) or (item.en_plural and item.plural)
        assert bool(item.en_plural) == bool(item.plural)
    for table in (TRANSITIVE, INTRANSITIVE, THINKING, RESTING, MOVING):
        for item in table.values():
            assert item.perfect in ("hat", "ist")
            assert item.case in ("", "acc", "dat")
            assert item.participle.startswith(item.prefix)
            assert bool(item.objects) == (table is TRANSITIVE or item.lemma == "belong to")
    kinds = {n.kind for n in NOUNS.values()}
    for adjective in ADJECTIVES.values():
        assert all(word.removeprefix("-") in kinds | set(NOUNS) for word in adjective.suits)


def test_at_least_300_lemmas() -> None:
    assert len(lemmas()) >= 300


def test_no_german_noun_stands_for_two_english_ones() -> None:
    assert len({noun.de or noun.plural for noun in NOUNS.values()}) == len(NOUNS)
