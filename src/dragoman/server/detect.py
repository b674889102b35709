"""Which of a few languages a text is in: by its script, its commonest words and its letters.

Only the languages that a server translates from are compared, so that the answer is the likeliest of those, not of
all there are. Nothing is trained: the tables below are all it knows. A language that is not in them gets what the
text leaves to chance.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import islice

# Language -> words that make up a large part of any text of it, and few of any other's.
_WORDS = {
    code: frozenset(words.split())
    for code, words in {
        "en": "the of and to in is was that it for on with as he she his her be at by this have are from they we you "
        "not or an but which will would there their what i my your one all has had were do does can who when",
        "de": "der die das und in zu den ist nicht von sie er es mit sich ein eine auf für dem des im auch als an nach "
        "wie ich wir ihr war hat haben sind einen einer eines bei aus aber oder wird noch nur über mein dein kein was",
        "fr": "le la les de des et un une du en est que qui dans pour pas sur au aux ne se ce il elle je nous vous ils "
        "avec par plus sont cette son sa ses mais ou où leur être avoir mon ton très c'est",
        "es": "el la los las de y que en un una es no por con para se lo su del al como más pero sus le ya o este "
        "porque está son muy yo tú nos qué hay fue ser cuando también mi",
        "it": "il lo la gli le di e che in un una è non per con si del della dei al alla sono come più ma anche io tu "
        "ho ha nel nella questo questa dal da mi ci molto era suo sua",
        "pt": "o a os as de e que em um uma é não por com para se do da dos das no na ao como mais mas foi seu sua ou "
        "está são eu você nos muito também isso ele ela meu minha",
        "nl": "de het een en van in is dat op te zijn met voor niet aan er om ook als maar bij nog uit hij zij ik wij "
        "je naar dan wordt heeft hebben deze die was werd kan mijn geen over",
        "sv": "och att det som en på är av för med till den har inte om ett han hon jag vi du de var från men ska kan "
        "så när sig eller också min din mycket efter vid",
        "da": "og at det som en på er af for med til den har ikke om et han hun jeg vi du de var fra men skal kan så "
        "når sig eller også min din meget efter ved",
        "no": "og at det som en på er av for med til den har ikke om et han hun jeg vi du de var fra men skal kan så "
        "når seg eller også min din veldig etter ved",
        "pl": "i w na z do się nie to jest że o jak za od po ale co tak przez dla czy są był była jego jej ich tym "
        "który która już tylko może bardzo ja ty on ona",
        "cs": "a v na se je že to s z do o i ve k jako za po pro ale by jsem jsou byl byla který která co tak už jen "
        "jeho její také nebo když velmi já ty on ona",
        "ro": "și în de la cu pe un o este nu că pentru care din mai sunt a fost se ce dar sau am are lui ei acest "
        "această foarte eu tu el ea",
        "fi": "ja on ei se että hän oli mutta ovat kun niin myös kuin joka mitä tämä minä sinä me he ole olen kanssa "
        "jos vain nyt hyvin",
        "hu": "a az és hogy nem is egy ez van volt meg csak de mint már el még ki ha én te mi ők nagyon azt vagy lesz",
        "tr": "ve bir bu da de için ile çok ne o ben sen biz var yok daha gibi ama olarak olan değil mi en sonra kadar",
        "ru": "и в не на я что он с как это по но они к у ты из мы за вы так же от она его её был была есть для или",
        "uk": "і в не на я що він з як це по але вони до у ти із ми за ви так же від вона його її був була є для або",
        "bg": "и в не на аз че той с как това по но те към ти от ние за вие така е са се да ще или беше",
    }.items()
}
# Language -> letters that its neighbours in the alphabet do without.
_LETTERS = {
    "de": "äöüß", "fr": "éèêàçùœîôû", "es": "ñ¿¡áíóú", "it": "àèìòù", "pt": "ãõçâê", "sv": "åäö", "da": "æøå",
    "no": "æøå", "pl": "ąćęłńśźż", "cs": "ěščřžůťď", "ro": "ăâîșț", "fi": "äö", "hu": "őűáé", "tr": "ğışç",
    "ru": "ыэъё", "uk": "іїєґ", "bg": "ъщ", "zh": "的了你她这们说书个么为门马时对没吗吧呢着过",
    "ja": "のにはをたがでてとしれさいるすまもなこ",
}  # fmt: skip
# First words of Unicode names -> languages written so; where there are several, words and letters decide.
_SCRIPTS = {
    "LATIN": frozenset(_WORDS) - {"ru", "uk", "bg"},
    "CYRILLIC": frozenset(("ru", "uk", "bg", "be", "sr", "mk", "kk", "mn")),
    "CJK": frozenset(("zh", "ja")),
    "HIRAGANA": frozenset(("ja",)),
    "KATAKANA": frozenset(("ja",)),
    "HANGUL": frozenset(("ko",)),
    "GREEK": frozenset(("el",)),
    "ARABIC": frozenset(("ar", "fa", "ur")),
    "HEBREW": frozenset(("he",)),
    "DEVANAGARI": frozenset(("hi", "mr", "ne")),
    "THAI": frozenset(("th",)),
    "BENGALI": frozenset(("bn",)),
    "TAMIL": frozenset(("ta",)),
    "GEORGIAN": frozenset(("ka",)),
    "ARMENIAN": frozenset(("hy",)),
}
_SCRIPTED = frozenset(code for codes in _SCRIPTS.values() for code in codes)
# What a sign is worth, as natural logarithms of the odds: a common word, a letter, and a letter of another script.
_WORD, _LETTER, _SCRIPT = 1.6, 0.7, 0.5
# No more of a text is looked at, and no more than this many nats are believed: the tables are no proof.
_SHOWN, _SUREST = 4000, 6.0
_WORD_SIGNS = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def detect(text: str, languages: Sequence[str]) -> list[tuple[str, float]]:
    """The languages with their share of 100 % each, likeliest first; of equal ones the first given stays first.

    One language alone gets 100.
    """
    if len(languages) == 1:
        return [(languages[0], 100.0)]
    scores = {code: _score(text[:_SHOWN], code.partition("-")[0].lower()) for code in languages}
    best = max(scores.values())
    odds = {code: math.exp(max(score - best, -_SUREST)) for code, score in scores.items()}
    total = sum(odds.values())
    return sorted(((code, round(100.0 * odd / total, 1)) for code, odd in odds.items()), key=lambda item: -item[1])


def _score(text: str, code: str) -> float:
    words = [word.group().lower() for word in _WORD_SIGNS.finditer(text)]
    common = _WORDS.get(code, frozenset())
    letters = frozenset(_LETTERS.get(code, ""))
    score = _WORD * sum(word in common for word in words)
    score += _LETTER * sum(letter in letters for letter in text.lower())
    if code in _SCRIPTED:
        score -= _SCRIPT * sum(code not in _written_so(letter) for letter in islice(_letters(text), 200))
    return score


def _letters(text: str) -> list[str]:
    return [letter for letter in text if letter.isalpha()]


def _written_so(letter: str) -> frozenset[str]:
    """The languages that are written with a letter; all where that is not known."""
    return _SCRIPTS.get(unicodedata.name(letter, "").partition(" ")[0], _SCRIPTED)
