"""The words of a translation, as runs of its tokens."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.text.scripts import in_word, is_unspaced

_PART = "�"  # stands for a token that is a part of a character


def word_starts(pieces: Sequence[str], marks_spaces: bool) -> list[int]:
    """The places of the tokens that begin a word or a mark, given the readable pieces of all (no special tokens).

    A word begins with a space, where letters turn to other signs or back, and, in a script without spaces, with each
    token. Where tokens do not hold the spaces (``marks_spaces``), each is a word. A token of spaces alone belongs to
    what follows.
    """
    if not marks_spaces:
        return list(range(len(pieces)))
    starts: list[int] = []
    last = " "
    for place, piece in enumerate(pieces):
        bare = piece.lstrip("▁")
        if not starts or (last != "▁" and (piece != bare or _parts(last, bare[:1]))):
            starts.append(place)
        last = piece[-1:] or last
    return starts


def _parts(before: str, after: str) -> bool:
    """Whether a word ends between two characters."""
    if _PART in (before, after) or not after:
        return False
    return is_unspaced(after) or in_word(before) != in_word(after)
