"""Where words end: in scripts that put spaces between them, and in those that do not."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right

# First and last code points of scripts written without spaces between words (Unicode blocks): Thai, Lao, Tibetan,
# Myanmar, Khmer, kana with the marks of CJK, ideographs, compatibility ideographs, half-width kana, later ideographs.
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x0F00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3000, 0x30FF), (0x31F0, 0x31FF),
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x20000, 0x3FFFF),
)  # fmt: skip
_FIRSTS = [first for first, _ in _UNSPACED]
# The same as what stands between the brackets of a regular expression.
UNSPACED = "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSPACED)


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script that puts no spaces between words."""
    place = bisect_right(_FIRSTS, ord(character)) - 1
    return place >= 0 and ord(character) <= _UNSPACED[place][1]


def in_word(character: str) -> bool:
    """Whether a character is part of a word of a script with spaces: a letter, a digit, a mark on one."""
    return (character.isalnum() or unicodedata.category(character)[0] == "M") and not is_unspaced(character)


def is_boundary(text: str, place: int) -> bool:
    """Whether a word may begin or end before the character at ``place``: only not inside a word of a spaced script."""
    return not (0 < place < len(text) and in_word(text[place - 1]) and in_word(text[place]))
