"""HTML in which only the text is translated: tags, comments, scripts and the like stay byte for byte, and so does what
stands in an element with ``translate="no"`` (see ``elements.py`` for where that ends).

``inline.py`` puts the pieces of a sentence together in which words have tags of their own.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from dragoman.server.elements import Elements

# Elements whose text is no prose: of HTML those in which nothing but their own end tag is a tag, and others; drawings
# and formulas, whose elements a slash may end.
_RAW, _FOREIGN = ("script", "style", "textarea", "iframe", "noembed", "noframes", "xmp"), ("svg", "math")
_KEPT = (*_RAW, "plaintext", "code", "pre", *_FOREIGN)
_RAW_END = {name: re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE) for name in _RAW}
# What changes how a script goes on (HTML Living Standard, 13.2.5.15 to 13.2.5.31): in a comment, a script may hold one.
_SCRIPT = re.compile(r"<!--+>|<!--|-->|</?script(?=[\t\n\f\r />])", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][^\t\n\f\r />]*+")
# A comment that is empty, and the end of any other one (HTML Living Standard, 13.2.5.43 to 13.2.5.52).
_NO_COMMENT, _COMMENT_END = re.compile(r"<!---?>"), re.compile(r"--!?>")
# A slash at the end of a value without quotes belongs to it.
_VALUE_END = re.compile(r"""=[\t\n\f\r ]*+[^\t\n\f\r "'=<>`]*>\Z""")
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
    elements = Elements()
    while (at := markup.find("<", at)) >= 0:
        end = _end_of_tag(markup, at)
        if end < 0:
            at += 1
            continue
        name = _opened(markup, at)
        if name in _KEPT and not _ends_itself(name, markup[at:end]):
            end = _end_of_element(markup, end, name)
        pieces += [_text(markup[begin:at], elements), Piece(markup[at:end], False)]
        _pass_by(markup[at:end], elements)
        at = begin = end
    pieces.append(_text(markup[begin:], elements))
    return [piece for piece in pieces if piece.content]


def _opened(markup: str, at: int) -> str:
    """The element whose start tag begins at ``at``; empty for anything else."""
    found = _NAME.match(markup, at + 1)
    return "" if found is None else found.group().lower()


def _ends_itself(name: str, tag: str) -> bool:
    """Whether a start tag ends its element; in HTML browsers ignore the slash."""
    return name in _FOREIGN and tag.endswith("/>") and _VALUE_END.search(tag) is None


def _end_of_element(markup: str, at: int, name: str) -> int:
    """Where an element that is kept ends, whose start tag ends at ``at``; without an end tag it reaches to the end."""
    if name == "plaintext":
        return len(markup)
    if name in _RAW:
        close = _end_of_script(markup, at) if name == "script" else _RAW_END[name].search(markup, at)
        end = -1 if close is None else _closing(markup, close.start())
        return len(markup) if end < 0 else end
    depth, foreign = 1, name in _FOREIGN
    while depth and (at := markup.find("<", at)) >= 0:
        end = _end_of_tag(markup, at, foreign=foreign)
        if end < 0:
            at += 1
            continue
        inner = _opened(markup, at)
        if inner == name:
            depth += not _ends_itself(name, markup[at:end])
        elif inner in _RAW and not foreign:
            end = _end_of_element(markup, end, inner)
        elif markup.startswith("</", at) and _opened(markup, at + 1) == name:
            depth -= 1
        at = end
    return len(markup) if depth else at


def _end_of_script(markup: str, at: int) -> re.Match[str] | None:
    """The end tag of a script; one inside of a comment that began a script of its own ends that."""
    in_comment = in_inner = False
    for found in _SCRIPT.finditer(markup, at):
        what = found.group().lower()
        if what == "</script" and not in_inner:
            return found
        if what == "<!--":
            in_comment = True
        elif what.endswith("-->"):
            in_comment = in_inner = False
        else:
            in_inner = in_comment and what == "<script"
    return None


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


def _end_of_tag(markup: str, at: int, *, foreign: bool = False) -> int:
    """Where the tag or comment that begins at ``at`` ends, or -1 where none begins; ``foreign``: in a drawing."""
    if markup.startswith("<!--", at):
        found = _NO_COMMENT.match(markup, at) or _COMMENT_END.search(markup, at + 4)
        return len(markup) if found is None else found.end()
    if foreign and markup.startswith("<![CDATA[", at):
        end = markup.find("]]>", at)
        return len(markup) if end < 0 else end + 3
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
