"""HTML in which only the text is translated: tags, comments, scripts and the like stay byte for byte, and so does what
stands in an element with ``translate="no"`` (see ``elements.py`` for where that ends).

``inline.py`` puts the pieces of a sentence together in which words have tags of their own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass

from dragoman.server.elements import Elements

# Elements whose text is no prose.
_KEPT = ("script", "style", "code", "pre", "textarea", "svg", "math")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_BEGIN = re.compile(r"</?[A-Za-z]|<[!?]")
# Possessive, so that a tag that does not end costs one pass and no more.
ATTRIBUTE = re.compile(r"""([^\s"'<>/=]++)(?:\s*+=\s*+("[^"]*"|'[^']*'|[^\s"'=<>`]++))?""")
_TAG = re.compile(r"""<(?:[^<>"']|"[^"]*"|'[^']*')*+>""")


@dataclass(frozen=True)
class Piece:
    """A run of HTML; ``is_text``: it is text to translate, as it stands in the source, references included."""

    content: str
    is_text: bool


def pieces_of(markup: str) -> list[Piece]:
    """The runs of a document; joined, they are the document. Linear in its length, whatever stands in it."""
    pieces: list[Piece] = []
    at = begin = 0
    lower = markup.lower()
    elements = Elements()
    missing: set[str] = set()  # what is not found once need not be searched again

    def find(what: str, start: int) -> int:
        found = -1 if what in missing else lower.find(what, start)
        if found < 0:
            missing.add(what)
        return found

    while (at := markup.find("<", at)) >= 0:
        end = _end_of_tag(markup, at, find)
        if end < 0:
            at += 1
            continue
        name = _NAME.match(markup, at + 1)
        if name is not None and name.group().lower() in _KEPT and markup[end - 2] != "/":
            closing = find(f"</{name.group().lower()}", end)
            close = -1 if closing < 0 else find(">", closing)
            end = len(markup) if close < 0 else close + 1
        pieces += [_text(markup[begin:at], elements), Piece(markup[at:end], False)]
        _pass_by(markup[at:end], elements)
        at = begin = end
    pieces.append(_text(markup[begin:], elements))
    return [piece for piece in pieces if piece.content]


def _text(content: str, elements: Elements) -> Piece:
    return Piece(content, not content.strip() or elements.translated())


def _pass_by(tag: str, elements: Elements) -> None:
    """Take a tag, a comment, or an element whose text is kept anyway."""
    closes = tag.startswith("</")
    found = _NAME.match(tag, 2 if closes else 1)
    if found is None:
        return
    name = found.group().lower()
    if closes:
        elements.end(name)
        return
    elements.start(name, _translate(tag, found.end()))
    if name in _KEPT:
        elements.end(name)


def _translate(tag: str, start: int) -> bool | None:
    """What the attribute ``translate`` of a tag says; None where there is none, or it says nothing that is known.

    Of several the first counts.
    """
    for name, value in ATTRIBUTE.findall(tag, start):
        if name.lower() == "translate":
            return {"no": False, "yes": True, "": True}.get(plain(value.strip("\"'")).lower())
    return None


def _end_of_tag(markup: str, at: int, find: Callable[[str, int], int]) -> int:
    """Where the tag or comment that begins at ``at`` ends, or -1 where none begins."""
    if markup.startswith("<!--", at):
        end = find("-->", at + 4)
        return -1 if end < 0 else end + 3
    if not _BEGIN.match(markup, at):
        return -1
    return _closing(markup, at)


def _closing(markup: str, at: int) -> int:
    """The end of a tag, in whose quoted values a ``>`` may stand."""
    match = _TAG.match(markup, at)
    if match is not None:
        return match.end()
    end = markup.find(">", at)
    return -1 if end < 0 else end + 1


def plain(content: str) -> str:
    """The text that a run of HTML stands for."""
    return html.unescape(content)


def written(text: str) -> str:
    """A text as a run of HTML."""
    return html.escape(text, quote=False)
