"""Texts as sentences with the white space around them, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.text.sentences import split_sentences


@dataclass(frozen=True)
class Part:
    """A sentence ``body`` and the white space before and behind it."""

    before: str
    body: str
    after: str


def parts_of(text: str, split: bool = True) -> list[Part]:
    """The sentences of a text (``split`` False: all of it as one); joined, their three fields are the text.

    Blank lines stand behind the sentence before them. A text of white space alone is one part with an empty body.
    """
    parts: list[Part] = []
    for piece in split_sentences(text) if split else [text]:
        body = piece.strip()
        if not body and parts:
            last = parts[-1]
            parts[-1] = Part(last.before, last.body, last.after + piece)
            continue
        before, _, after = piece.partition(body) if body else (piece, "", "")
        if parts and not parts[-1].body:
            blank = parts.pop()
            before = blank.before + blank.after + before
        parts.append(Part(before, body, after))
    return parts


def put_together(parts: Sequence[Part], translations: Sequence[str]) -> str:
    """The translations of the sentences between the white space of the text."""
    pairs = zip(parts, translations, strict=True)
    return "".join(part.before + translation + part.after for part, translation in pairs)
