"""HTML with tags inside its sentences: a sentence is translated whole, and its tags are put where its words went.

A group is text with inline elements (bold type, links) that are all opened and closed inside it; its sentences are
those of its text. Each word of a translation stands in the elements in which the word of the source stands that it is
linked to, so that what is written is always nested well. An element whose words went to different places is opened
there again, without its ``id``; one of which no word is left is written empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dragoman.server.documents import Part
from dragoman.server.markup import ATTRIBUTE, Piece, plain

Links = Sequence[tuple[int, int]]

# Elements that may stand inside a sentence, their text a part of it.
_INLINE = frozenset(
    ("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "del", "dfn", "em", "font", "i", "ins", "mark", "q", "s")
) | {"small", "span", "strike", "strong", "sub", "sup", "time", "u"}
# Elements of one group; with more of them it is no text with some words marked.
_MOST = 100
_SPACED = re.compile(rf"\s*+{ATTRIBUTE.pattern}")
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Element:
    """An inline element: its tags, the number of the element around it, and where in the text it begins."""

    start: str
    end: str
    around: int
    at: int

    @property
    def again(self) -> str:
        """Its start tag where it is opened once more: an ``id`` names one element."""
        name = _TAG.match(self.start)
        assert name is not None
        rest = _SPACED.sub(lambda one: "" if one[1].lower() == "id" else one[0], self.start[name.end() :])
        return self.start[: name.end()] + rest


@dataclass(frozen=True)
class Group:
    """A text, its elements, and for each character the number of the innermost one; number 0 is the text itself."""

    text: str
    elements: list[Element]
    owners: list[int]

    def path(self, owner: int) -> list[int]:
        """An element and those around it, the outermost first."""
        found = [owner]
        while found[-1]:
            found.append(self.elements[found[-1]].around)
        return found[::-1]

    def common(self, one: int, other: int) -> int:
        """The innermost element that both stand in."""
        return [a for a, b in zip(self.path(one), self.path(other), strict=False) if a == b][-1]

    def tagged(self, start: int, end: int) -> bool:
        """Whether a tag stands inside a stretch of the text, neither before nor behind it."""
        return len(set(self.owners[start:end])) > 1 or any(start < one.at < end for one in self.elements[1:])

    def tagged_parts(self, parts: Sequence[Part]) -> list[bool]:
        """For each sentence of the text whether a tag stands inside it."""
        at, found = 0, []
        for part in parts:
            start = at + len(part.before)
            found.append(self.tagged(start, start + len(part.body)))
            at = start + len(part.body) + len(part.after)
        return found

    @property
    def cuts_words(self) -> bool:
        """Whether a tag stands inside a word, as in H<sub>2</sub>O."""
        for match in WORD.finditer(self.text):
            if len({self.owners[at] for at in range(*match.span()) if self.text[at].isalnum()}) > 1:
                return True
        return False


def grouped(pieces: Sequence[Piece]) -> Iterator[Piece | Group]:
    """The pieces of a document, those of text with tags inside it as groups."""
    held: list[Piece] = []
    for piece in pieces:
        if piece.is_text or _inline(piece):
            held.append(piece)
        else:
            yield from _groups(held)
            yield piece
            held = []
    yield from _groups(held)


def _inline(piece: Piece) -> re.Match[str] | None:
    """The tag of an inline element; None for anything else."""
    tag = None if piece.is_text or not piece.content.endswith(">") else _TAG.match(piece.content)
    return tag if tag is not None and tag[2].lower() in _INLINE else None


def _groups(pieces: list[Piece]) -> list[Piece | Group]:
    """Pieces of text and inline tags as groups between the tags that have no partner among them."""
    alone = _without_partner(pieces)
    if not alone:
        return _group(pieces)
    found: list[Piece | Group] = []
    begin = 0
    for at in [*alone, len(pieces)]:
        found += [*_groups(pieces[begin:at]), *pieces[at : at + 1]]
        begin = at + 1
    return found


def _without_partner(pieces: Sequence[Piece]) -> list[int]:
    """The places of tags whose element does not begin and end here, or not inside the one around it."""
    open_tags: list[tuple[str, int]] = []
    alone = []
    for at, piece in enumerate(pieces):
        tag = _inline(piece)
        if tag is None:
            continue
        name = tag[2].lower()
        if not tag[1]:
            open_tags.append((name, at))
        elif open_tags and open_tags[-1][0] == name:
            open_tags.pop()
        else:
            alone.append(at)
    return sorted([*alone, *(at for _, at in open_tags)])


def _group(pieces: list[Piece]) -> list[Piece | Group]:
    """Pieces as a group, where a tag stands between their words and none inside a word."""
    text, owners, owner = "", list[int](), 0
    elements = [Element("", "", 0, 0)]
    for piece in pieces:
        tag = _inline(piece)
        if tag is None:
            content = plain(piece.content)
            text += content
            owners += [owner] * len(content)
        elif not tag[1]:
            elements.append(Element(piece.content, "", owner, len(text)))
            owner = len(elements) - 1
        else:
            elements[owner] = replace(elements[owner], end=piece.content)
            owner = elements[owner].around
    group = Group(text, elements, owners)
    words = [match.span() for match in WORD.finditer(text)]
    if not words or len(elements) > _MOST or not group.tagged(words[0][0], words[-1][1]):
        return list(pieces)
    if not any(letter.isalnum() and owner == 0 for letter, owner in zip(text, owners, strict=True)):
        return _one_by_one(pieces)
    return list(pieces) if group.cuts_words else [group]


def _one_by_one(pieces: list[Piece]) -> list[Piece | Group]:
    """Elements without words between them, such as a row of links: each is a text of its own."""
    found: list[Piece | Group] = []
    inside: list[Piece] = []
    depth = 0
    for piece in pieces:
        tag = _inline(piece)
        depth -= bool(tag and tag[1])
        if depth:
            inside.append(piece)
        else:
            found += [*_group(inside), piece]
            inside = []
        depth += bool(tag and not tag[1])
    return found
