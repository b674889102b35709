"""German inflection: articles, adjective endings, noun cases and verb forms, as tables and a few rules.

A case is one of ``nom acc dat gen``; a slot is a gender (``m f n``) or ``p``, the plural, which has no genders.
An agreement is ``I``, ``he`` or ``they``: the last also serves we and the polite Sie, whose forms are the same.
"""

from __future__ import annotations

from dragoman.phrasebook.nouns import Noun
from dragoman.phrasebook.verbs import Verb

CASES = ("nom", "acc", "dat", "gen")
SLOTS = ("m", "f", "n", "p")

Paradigm = dict[tuple[str, str], str]


def _paradigm(nominative: str, accusative: str, dative: str, genitive: str) -> Paradigm:
    """The endings by (case, slot), each row in the order m f n p; ``-`` is no ending."""
    rows = zip(CASES, (nominative, accusative, dative, genitive), strict=True)
    return {
        (case, slot): "" if ending == "-" else ending
        for case, row in rows
        for slot, ending in zip(SLOTS, row.split(), strict=True)
    }


DEFINITE = _paradigm("der die das die", "den die das die", "dem der dem den", "des der des der")
LIKE_DIESER = _paradigm("er e es e", "en e es e", "em er em en", "es er es er")
LIKE_EIN = _paradigm("- e - e", "en e - e", "em er em en", "es er es er")
RELATIVE = _paradigm("der die das die", "den die das die", "dem der dem denen", "dessen deren dessen deren")

WEAK = _paradigm("e e e en", "en e e en", "en en en en", "en en en en")
MIXED = _paradigm("er e es en", "en e es en", "en en en en", "en en en en")
STRONG = _paradigm("er e es e", "en e es e", "em er em en", "en er en er")

_DIESER_STEMS = {"this": "dies", "which": "welch"}
_EIN_STEMS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "Ihr",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
}
POSSESSIVES = ("my", "your", "his", "her", "our", "their")

_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("bei", "dem"): "beim",
    ("von", "dem"): "vom",
}

_SEIN = {"I": "bin", "he": "ist", "they": "sind"}
_AUXILIARIES = {
    "hat": {"I": "habe", "he": "hat", "they": "haben"},
    "ist": _SEIN,
    "wird": {"I": "werde", "he": "wird", "they": "werden"},
}


def slot_of(noun: Noun, plural: bool) -> str:
    """The column of the tables that a noun uses in that number."""
    return "p" if plural else noun.gender


def article(determiner: str, case: str, slot: str) -> str:
    """The German for the, a, no, this, which or a possessive; empty for no determiner."""
    if determiner == "the":
        return DEFINITE[case, slot]
    if determiner in _DIESER_STEMS:
        return _DIESER_STEMS[determiner] + LIKE_DIESER[case, slot]
    if determiner in _EIN_STEMS:
        return _EIN_STEMS[determiner] + LIKE_EIN[case, slot]
    return ""


def adjective(stem: str, determiner: str, case: str, slot: str) -> str:
    """The inflected adjective: weak after der and dieser, mixed after ein and the possessives, strong else."""
    if determiner == "the" or determiner in _DIESER_STEMS:
        endings = WEAK
    elif determiner in _EIN_STEMS:
        endings = MIXED
    else:
        endings = STRONG
    return _adjective_stem(stem) + endings[case, slot]


def _adjective_stem(stem: str) -> str:
    """The form before an ending: müd-, dunkl-, teur-."""
    if stem.endswith("e"):
        return stem[:-1]
    if stem.endswith("el"):
        return stem[:-2] + "l"
    if stem.endswith(("auer", "euer")):
        return stem[:-2] + "r"
    return stem


def noun_form(noun: Noun, plural: bool, case: str) -> str:
    """The noun in a number and case: weak masculines take their ending, the dative plural its -n."""
    if plural:
        return noun.plural + ("n" if case == "dat" and not noun.plural.endswith(("n", "s")) else "")
    weak = noun.gender == "m" and noun.genitive.endswith("n")
    return noun.genitive if case == "gen" or (weak and case != "nom") else noun.de


def with_preposition(preposition: str, phrase: str) -> str:
    """Preposition and phrase, contracted with a definite article (im, zur); ``phrase`` starts with its article."""
    first, _, rest = phrase.partition(" ")
    contracted = _CONTRACTIONS.get((preposition, first))
    return f"{contracted} {rest}" if contracted else f"{preposition} {phrase}"


def question_adverb(preposition: str) -> str:
    """The question word for a thing after a preposition: worauf, woran, womit."""
    return "wo" + ("r" if preposition[0] in "aeiouäöü" else "") + preposition


def present(verb: Verb, agreement: str) -> str:
    """The present form without the separable prefix."""
    if verb.base == "sein":
        return _SEIN[agreement]
    if agreement == "he":
        return verb.he
    if agreement == "they":
        return verb.base
    if verb.base in ("mögen", "wissen"):
        return verb.he
    return verb.base.removesuffix("n").removesuffix("e") + "e"


def preterite(verb: Verb, agreement: str) -> str:
    """The preterite of the verbs that use it here (war, hatte, kannte, mochte, gehörte)."""
    if agreement != "they":
        return verb.preterite
    return verb.preterite + ("n" if verb.preterite.endswith("e") else "en")


def auxiliary(he_form: str, agreement: str) -> str:
    """A form of haben, sein or werden, named by its er-form."""
    return _AUXILIARIES[he_form][agreement]


def infinitive(verb: Verb) -> str:
    """The infinitive, prefix included: anrufen."""
    return verb.prefix + verb.base


def infinitive_with_zu(verb: Verb) -> str:
    """The infinitive with zu, which a separable prefix encloses: anzurufen, zu lesen."""
    return f"{verb.prefix}zu{verb.base}" if verb.prefix else f"zu {verb.base}"
