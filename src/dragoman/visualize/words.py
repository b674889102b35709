"""From the tokens of a model to the words that white space parts, and from weights between the ones to the others.

Shapes: Q queries, K keys, before merging; ``...`` any dimensions before them, such as layers and heads.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import floating
    from numpy.typing import NDArray

# How a readable token shows a space, and a part of a character.
SPACE, PART = "▁", "�"


@dataclass(frozen=True)
class Words:
    """Groups of neighbouring tokens, every token in one.

    ``labels`` names each group, ``groups`` holds the places of its tokens, ``places`` the number of its word in the
    text, counted from 0, or None where it is no word (``</s>``).
    """

    labels: list[str]
    groups: list[list[int]]
    places: list[int | None]


def group_words(tokens: Sequence[str], text: str, special: Collection[str]) -> Words:
    """The words of ``text`` that its ``tokens`` make up; those named in ``special`` stay as they are.

    A token of nothing but spaces goes with the word after it.
    """
    parts = text.split()
    places = word_places(tokens, text, special)
    # A token without a word of its own joins the next one; special tokens keep apart by a key of their own.
    keys: list[object] = []
    following: object = None
    for index in reversed(range(len(tokens))):
        if tokens[index] in special or (places[index] is None and following is None):
            following = ("alone", index)
        elif places[index] is not None:
            following = places[index]
        keys.append(following)
        if tokens[index] in special:
            following = None
    keys.reverse()
    groups = [list(group) for _, group in groupby(range(len(tokens)), keys.__getitem__)]
    numbers = [key if isinstance(key := keys[group[0]], int) else None for group in groups]
    labels = [tokens[group[0]] if k is None else parts[k] for k, group in zip(numbers, groups, strict=True)]
    return Words(labels, groups, numbers)


def word_places(tokens: Sequence[str], text: str, special: Collection[str]) -> list[int | None]:
    """For each token the number of the word of ``text.split()`` that it belongs to; None for spaces and ``special``.

    The characters of the tokens are followed through the text, whatever case and Unicode form the tokenizer gave
    them. A token that does not show its text (an unknown word, a part of a character) counts for where it stands.
    """
    walk = _Walk(text)
    return [None if token in special else walk.place(token) for token in tokens]


def _fold(text: str) -> str:
    """Without spaces, and alike for all the forms that tokenizers give a text."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(character for character in plain if not character.isspace() and character != SPACE)


def _is_space(character: str) -> bool:
    return character == SPACE or character.isspace()


def _is_letter(character: str) -> bool:
    """Whether it is a letter, a digit, an underline, or a mark upon one of these."""
    return character == "_" or unicodedata.category(character)[0] in "LNM"


class _Walk:
    """A way through the words of a text, token by token; it never goes back."""

    def __init__(self, text: str) -> None:
        self.text = ""
        self.starts: list[int] = []  # of the words
        self.ends: list[int] = []  # of the runs of letters or signs, which an unknown token most likely stands for
        for word in text.split():
            self.starts.append(len(self.text))
            for _, chunk in groupby(word, _is_letter):
                self.text += _fold("".join(chunk))
                self.ends.append(len(self.text))
        self.position = 0
        self.last: int | None = None
        self.spaced = False  # whether a space came since the last token that was more than that

    def place(self, token: str) -> int | None:
        """The word of the next token."""
        piece = _fold(token)
        self.spaced = self.spaced or _is_space(token[:1])
        if not piece or not self.text:
            return None
        if not self.text.startswith(piece, self.position):
            self._catch_up(piece)
        self.spaced = _is_space(token[-1:])
        self.last = self._word(self.position)
        if self.text.startswith(piece, self.position):
            self.position += len(piece)
        elif PART not in piece:
            self.position = self.ends[min(bisect_right(self.ends, self.position), len(self.ends) - 1)]
        return self.last

    def _catch_up(self, piece: str) -> None:
        """Leave behind what tokens before did not show."""
        if self.spaced and self.last is not None:
            self.position = max(self.position, self._start(self.last + 1))
        near = self._start(self._word(self.position) + 2)
        found = self.text.find(piece, self.position, near)
        if found >= 0:
            self.position = found

    def _word(self, position: int) -> int:
        return bisect_right(self.starts, min(position, len(self.text) - 1)) - 1

    def _start(self, word: int) -> int:
        return self.starts[word] if word < len(self.starts) else len(self.text)


def merge(weights: NDArray[floating], queries: Words, keys: Words) -> NDArray[floating]:
    """Weights [...,Q,K] between tokens as weights between words: summed over a word's keys, the mean of its queries.

    So a row of words adds up to what the rows of its tokens do (Clark et al. 2019, section 4.1).
    """
    import numpy as np

    columns = np.add.reduceat(weights, [group[0] for group in keys.groups], axis=-1)
    rows = np.add.reduceat(columns, [group[0] for group in queries.groups], axis=-2)
    counts = np.array([len(group) for group in queries.groups], dtype=weights.dtype)
    merged: NDArray[floating] = rows / counts[:, None]
    return merged
