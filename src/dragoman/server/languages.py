"""English names of languages by their code (ISO 639-1)."""

from __future__ import annotations

_NAMES = """
af Afrikaans, am Amharic, ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, bs Bosnian, ca Catalan,
cs Czech, cy Welsh, da Danish, de German, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque,
fa Persian, fi Finnish, fr French, ga Irish, gl Galician, gu Gujarati, he Hebrew, hi Hindi, hr Croatian, hu Hungarian,
hy Armenian, id Indonesian, is Icelandic, it Italian, ja Japanese, ka Georgian, kk Kazakh, km Khmer, kn Kannada,
ko Korean, lo Lao, lt Lithuanian, lv Latvian, mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay,
mt Maltese, my Burmese, nb Norwegian Bokmål, ne Nepali, nl Dutch, no Norwegian, pa Punjabi, pl Polish, pt Portuguese,
ro Romanian, ru Russian, si Sinhala, sk Slovak, sl Slovenian, sq Albanian, sr Serbian, sv Swedish, sw Swahili,
ta Tamil, te Telugu, th Thai, tl Tagalog, tr Turkish, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, zh Chinese
"""
NAMES = dict(entry.split(maxsplit=1) for entry in _NAMES.replace("\n", " ").split(", "))


def name_of(code: str) -> str:
    """The English name of a language, with its region as it stands; an unknown code is its own name."""
    language, mark, region = code.partition("-")
    name = NAMES.get(language.lower())
    return code if name is None else f"{name.strip()} ({region})" if mark else name.strip()
