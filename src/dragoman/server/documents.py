"""Texts as sentences with the white space around them, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.text.sentences import has_word, plainly_spaced, split_sentences


@dataclass(frozen=True)
class Part:
    """A sentence ``body``, and what stands before and behind it: white space, and lines without a word."""

    before: str
    body: str
    after: str

    @property
    def read(self) -> str:
        """The sentence as the model reads it."""
        return plainly_spaced(self.body)


class Verbatim(Part):
    """A text that the model reads as it stands."""

    @property
    def read(self) -> str:
        """The text without the white space around it."""
        return self.body


def parts_of(text: str, *, lines: bool = True) -> list[Part]:
    """The sentences of a text; joined, their three fields are the text.

    Blank lines, and those without a letter or a digit, stand behind the sentence before them; a text that has no
    others is one part with an empty body. ``lines`` False: a line break is white space like any other, as in HTML.
    """
    parts: list[Part] = []
    for piece in split_sentences(text) if lines else _sentences_over_lines(text):
        body = piece.strip() if has_word(piece) else ""
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


def _sentences_over_lines(text: str) -> list[str]:
    found, at = [], 0
    for piece in split_sentences(text.replace("\n", " ")):
        found.append(text[at : at + len(piece)])
        at += len(piece)
    return found


def whole(text: str) -> list[Part]:
    """A text as one part, whatever it holds."""
    body = text.strip()
    before, _, after = text.partition(body) if body else (text, "", "")
    return [Verbatim(before, body, after)]


def put_together(parts: Sequence[Part], translations: Sequence[str]) -> str:
    """The translations of the sentences between the white space of the text."""
    pairs = zip(parts, translations, strict=True)
    return "".join(part.before + translation + part.after for part, translation in pairs)
