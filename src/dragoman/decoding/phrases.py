"""Phrases that have to stand in a translation, counted token by token.

A phrase counts as met where one of its forms stands in the tokens and the next token does not go on with its last
word. Its occurrences do not overlap each other; those of different phrases may: "a b c" holds "a b" and "b c".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Phrase:
    """Ids that have to appear, in one of several forms, ``count`` times.

    ``inner``: the tokens that, right behind it, would make its last word another word.
    """

    forms: tuple[tuple[int, ...], ...]
    count: int = 1
    inner: frozenset[int] = frozenset()

    @property
    def length(self) -> int:
        """The fewest tokens of one occurrence."""
        return min(map(len, self.forms))


@dataclass(frozen=True)
class _Seen:
    """Of one phrase: how often it was met, how much of each form the last tokens are, and what that would be if the
    next token takes the last occurrence back (None where none has just been met)."""

    count: int
    matched: tuple[int, ...]
    otherwise: tuple[int, ...] | None = None


class Tracker:
    """How far hypotheses of one source are with its phrases. A state is a number; the start is 0."""

    def __init__(self, phrases: Sequence[Phrase]) -> None:
        self.phrases = phrases
        self._borders = [[_borders(form) for form in phrase.forms] for phrase in phrases]
        self._known = {token for phrase in phrases for form in phrase.forms for token in form}
        self._known = self._known.union(*(phrase.inner for phrase in phrases))
        self.total = sum(phrase.count * phrase.length for phrase in phrases)
        self.remaining: list[int] = []  # of each state, the most tokens that the phrases still need
        self.wanted: list[tuple[int, ...]] = []  # of each state, the tokens that take a phrase further
        self._states: list[tuple[_Seen, ...]] = []
        self._numbers: dict[tuple[_Seen, ...], int] = {}
        self._after: dict[tuple[int, int], int] = {}
        self._number(tuple(_Seen(0, (0,) * len(phrase.forms)) for phrase in phrases))

    def after(self, state: int, token: int) -> int:
        """The state after one more token."""
        key = state, token if token in self._known else -1
        if key not in self._after:
            self._after[key] = self._number(
                tuple(self._seen(place, seen, key[1]) for place, seen in enumerate(self._states[state]))
            )
        return self._after[key]

    def unmet(self, state: int) -> tuple[int, ...]:
        """The places of the phrases that are lacking, each as often as it is."""
        lacking = [
            [place] * (phrase.count - seen.count)
            for place, (phrase, seen) in enumerate(zip(self.phrases, self._states[state], strict=True))
        ]
        return tuple(place for places in lacking for place in places)

    def _number(self, state: tuple[_Seen, ...]) -> int:
        if state not in self._numbers:
            self._numbers[state] = len(self._states)
            self._states.append(state)
            self.remaining.append(_remaining(self.phrases, state))
            wanted = {token for place, seen in enumerate(state) for token in self._next(place, seen)}
            self.wanted.append(tuple(sorted(wanted)))
        return self._numbers[state]

    def _next(self, place: int, seen: _Seen) -> set[int]:
        """The tokens that take a form of a phrase further, from the longest match or from one inside it."""
        phrase = self.phrases[place]
        found: set[int] = set()
        if seen.count < phrase.count:
            for form, borders, matched in zip(phrase.forms, self._borders[place], seen.matched, strict=True):
                found.add(form[0])
                while matched:
                    found.add(form[matched])
                    matched = borders[matched]
        return found

    def _seen(self, place: int, seen: _Seen, token: int) -> _Seen:
        phrase, borders = self.phrases[place], self._borders[place]
        count, matched = seen.count, seen.matched
        if seen.otherwise is not None and token in phrase.inner:
            count, matched = count - 1, seen.otherwise
        matched = tuple(map(_matched, phrase.forms, borders, matched, [token] * len(matched)))
        whole = [length == len(form) for form, length in zip(phrase.forms, matched, strict=True)]
        if count == phrase.count or not any(whole):
            # What is met often enough is looked at no more, unless its last occurrence is taken back.
            return _Seen(count, matched if count < phrase.count else (0,) * len(matched))
        otherwise = tuple(
            own[length] if done else length for own, length, done in zip(borders, matched, whole, strict=True)
        )
        return _Seen(count + 1, (0,) * len(matched), otherwise)


def _remaining(phrases: Sequence[Phrase], state: tuple[_Seen, ...]) -> int:
    """The tokens that the phrases still need at most. Of those that have begun one can go on; the others begin anew."""
    needed, begun = 0, 0
    for phrase, seen in zip(phrases, state, strict=True):
        if seen.count < phrase.count:
            needed += (phrase.count - seen.count) * phrase.length
            rest = min(len(form) - length for form, length in zip(phrase.forms, seen.matched, strict=True))
            begun = max(begun, phrase.length - rest)
    return needed - begun


def _borders(form: tuple[int, ...]) -> list[int]:
    """Of each start of a form, the length of the longest shorter start that ends it (Knuth, Morris and Pratt 1977)."""
    borders, length = [0, 0], 0
    for token in form[1:]:
        while length and form[length] != token:
            length = borders[length]
        length += form[length] == token
        borders.append(length)
    return borders


def _matched(form: tuple[int, ...], borders: list[int], length: int, token: int) -> int:
    """How much of a form the last tokens are after one more, ``length`` (not all) of it having been before."""
    while length and form[length] != token:
        length = borders[length]
    return length + (form[length] == token)
