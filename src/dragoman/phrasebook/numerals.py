"""Numbers from one to ninety-nine and clock times, in words, in both languages."""

from __future__ import annotations

from dragoman.phrasebook.words import Words

_EN_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen"""
_DE_SMALL = """null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
siebzehn achtzehn neunzehn"""
_EN_ONES, _DE_ONES = _EN_SMALL.split(), _DE_SMALL.split()
_EN_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_DE_TENS = ("", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")

MINUTES = (0, 5, 10, 15, 20, 30, 40, 45, 50, 55)
"""The minutes that :func:`clock` has words for."""


def english_number(n: int) -> str:
    """``n`` (1 to 99) in English words, with a hyphen: twenty-one."""
    if n < 20:
        return _EN_ONES[n]
    tens, ones = divmod(n, 10)
    return _EN_TENS[tens] + (f"-{_EN_ONES[ones]}" if ones else "")


def german_number(n: int) -> str:
    """``n`` (1 to 99) in German words, the ones first: einundzwanzig."""
    if n < 20:
        return _DE_ONES[n]
    tens, ones = divmod(n, 10)
    if not ones:
        return _DE_TENS[tens]
    return ("ein" if ones == 1 else _DE_ONES[ones]) + "und" + _DE_TENS[tens]


def clock(hour: int, minute: int) -> Words:
    """The time on a twelve-hour clock, as it is said: half past three, halb vier.

    ``hour`` is 1 to 12 and ``minute`` one of :data:`MINUTES`.
    """
    after = hour % 12 + 1
    if minute == 0:
        return Words(f"{english_number(hour)} o'clock", f"{'ein' if hour == 1 else german_number(hour)} Uhr")
    if minute == 30:
        return Words(f"half past {english_number(hour)}", f"halb {german_number(after)}")
    distance, en_word, de_word, near = (
        (minute, "past", "nach", hour) if minute < 30 else (60 - minute, "to", "vor", after)
    )
    en = "a quarter" if distance == 15 else english_number(distance)
    de = "Viertel" if distance == 15 else german_number(distance)
    return Words(f"{en} {en_word} {english_number(near)}", f"{de} {de_word} {german_number(near)}")
