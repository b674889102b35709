"""The translation of a text with inline elements (``inline.py``), written with its tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.server.documents import Part
from dragoman.server.inline import WORD, Group, Links
from dragoman.server.markup import written

# Marks, what stands between them, and marks.
_MARKED = re.compile(r"([\W_]*)(.*?)([\W_]*)", re.DOTALL)


@dataclass(frozen=True)
class _Fragment:
    """A stretch of a translated text: its element, and the place in the source that it comes from."""

    text: str
    owner: int
    source: int


@dataclass(frozen=True)
class _Source:
    """A word of the source: its place, its element, and those of marks before and behind it, None without marks."""

    at: int
    inner: int
    first: int | None
    last: int | None


class Writing:
    """A translated group, to which its sentences are added one after the other."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._fragments: list[_Fragment] = []
        self._at = 0  # in the text of the group
        self._seen = {0}  # elements of which something is left

    def add(self, part: Part, translation: str, links: Links | None) -> None:
        """The next sentence, with the links of its words; without them words are where they were, in proportion."""
        start = self._at + len(part.before)
        end = start + len(part.body)
        behind = end + len(part.after)
        if self.group.tagged(start, end):
            own = self._words(start, end, translation, links or ())
        else:
            own = [_Fragment(translation, self.group.owners[start], start)] if part.body else []
        fragments = [*self._verbatim(self._at, start), *own, *self._verbatim(end, behind)]
        self._seen.update(number for one in fragments for number in self.group.path(one.owner))
        # What begins at the very end of the text belongs to the last sentence.
        self._add_missing(fragments, self._at, behind + (behind == len(self.group.text)))
        self._fragments += fragments
        self._at = behind

    def html(self) -> str:
        """It all, with its tags."""
        whole, path, opened = "", [0], set[int]()
        elements = self.group.elements
        for fragment in [*self._fragments, _Fragment("", 0, 0)]:
            wanted = self.group.path(fragment.owner)
            kept = len(self.group.path(self.group.common(path[-1], fragment.owner)))
            whole += "".join(elements[number].end for number in reversed(path[kept:]))
            for number in wanted[kept:]:
                whole += elements[number].again if number in opened else elements[number].start
                opened.add(number)
            path = wanted
            whole += written(fragment.text)
        return whole

    def _verbatim(self, start: int, end: int) -> list[_Fragment]:
        """White space, and lines without a word."""
        return [_Fragment(self.group.text[at], self.group.owners[at], at) for at in range(start, end)]

    def _words(self, start: int, end: int, translation: str, links: Links) -> list[_Fragment]:
        """The words of a translation, each in the elements of the one that it is linked to."""
        matches = WORD.finditer(self.group.text, start, end)
        sources = [self._source(*match.span()) for match in matches]
        targets = WORD.findall(translation)
        known = {target: source for source, target in links}
        own = [sources[known.get(n, n * len(sources) // len(targets))] for n in range(len(targets))]
        inner = self._smooth([one.inner for one in own])
        found: list[_Fragment] = []
        for n, (word, one) in enumerate(zip(targets, own, strict=True)):
            # The marks at the ends of a sentence are those at the ends of the source.
            first = sources[0].first if n == 0 else one.first
            last = sources[-1].last if n == len(targets) - 1 else one.last
            owners = [inner[n] if owner is None else owner for owner in (first, inner[n], last)]
            match = _MARKED.fullmatch(word)
            assert match is not None  # it fits everything
            texts = zip(match.groups(), owners, strict=True)
            fragments = [_Fragment(text, owner, one.at) for text, owner in texts if text]
            if found:
                found.append(_Fragment(" ", self.group.common(found[-1].owner, fragments[0].owner), one.at - 1))
            found += fragments
        return found

    def _source(self, start: int, end: int) -> _Source:
        letters = [at for at in range(start, end) if self.group.text[at].isalnum()] or [start]
        owners = self.group.owners
        first = owners[start] if letters[0] > start else None
        return _Source(start, owners[letters[0]], first, owners[end - 1] if letters[-1] < end - 1 else None)

    def _smooth(self, inner: Sequence[int]) -> list[int]:
        """The elements of words; one alone between two of an element inside that in which it stands goes with them."""
        found = list(inner)
        for n in range(1, len(found) - 1):
            if found[n - 1] == inner[n + 1] != found[n] and found[n] in self.group.path(inner[n + 1]):
                found[n] = inner[n + 1]
        return found

    def _add_missing(self, fragments: list[_Fragment], start: int, end: int) -> None:
        """Add the elements that begin in a stretch of the text and of which nothing is left, behind what was before."""
        # From the innermost on: with it those around it are there.
        for number in reversed(range(len(self.group.elements))):
            at = self.group.elements[number].at
            if number in self._seen or not start <= at < end:
                continue
            latest = max((one.source for one in fragments if one.source < at), default=None)
            places = [place for place, one in enumerate(fragments) if one.source == latest]
            fragments.insert(places[-1] + 1 if places else 0, _Fragment("", number, at))
            self._seen.update(self.group.path(number))
