"""Language codes by which nothing can be checked: none at all, or of a language of which nothing is known here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from dragoman.preflight.finding import Finding
from dragoman.preflight.writing import script_of_language
from dragoman.text.languages import KNOWN, language_of
from dragoman.text.tokenizer import ANY_LANGUAGE

# English names of languages, which stand where a code should -> the code.
_NAMES = {
    "english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it", "portuguese": "pt",
    "dutch": "nl", "swedish": "sv", "danish": "da", "norwegian": "no", "polish": "pl", "czech": "cs",
    "romanian": "ro", "finnish": "fi", "hungarian": "hu", "turkish": "tr", "russian": "ru", "ukrainian": "uk",
    "bulgarian": "bg", "catalan": "ca", "afrikaans": "af", "icelandic": "is", "slovak": "sk", "slovenian": "sl",
    "croatian": "hr", "estonian": "et", "latvian": "lv", "lithuanian": "lt", "indonesian": "id", "vietnamese": "vi",
    "esperanto": "eo", "belarusian": "be", "macedonian": "mk", "arabic": "ar", "persian": "fa", "urdu": "ur",
    "chinese": "zh", "japanese": "ja", "korean": "ko", "greek": "el", "hebrew": "he", "hindi": "hi", "thai": "th",
    "basque": "eu", "nepali": "ne", "marathi": "mr",
}  # fmt: skip
# A language and maybe more: fr, FR, fra, fr_FR, fra_Latn, zh-Hant-TW (BCP 47).
_CODE = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{1,8})*", re.IGNORECASE)
# What data.src_lang and data.tgt_lang are where nobody sets them.
_DEFAULTS = {"src_lang": "src", "tgt_lang": "tgt"}


def codes(src_lang: str, tgt_lang: str) -> Iterator[Finding]:
    """A note for each code that says too little for the language of its side to be checked."""
    for name, code in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
        if why := _unknown(name, code):
            yield Finding("note", f"data.{name} {why}, so the language of that side was not checked.")


def _unknown(name: str, code: str) -> str | None:
    """Why nothing is known of a code's language; None where something is."""
    language = language_of(code)
    if code == _DEFAULTS[name]:
        return "is not set"
    if language == ANY_LANGUAGE:
        return f"is {code}, which stands for any language"
    if not _CODE.fullmatch(code):
        near = difflib.get_close_matches(re.split("[-_ ]", code.lower())[0], _NAMES, n=1, cutoff=0.75)
        hint = f" (did you mean {_NAMES[near[0]]}?)" if near else ""
        return f"is {code}, which is not known as a language code{hint}"
    if language not in KNOWN and script_of_language(code) is None:
        return f"is {code}, of which nothing is known here"
    return None
