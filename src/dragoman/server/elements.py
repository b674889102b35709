"""The elements of HTML that a text stands in, as far as they say whether it is to be translated.

As a browser builds them, end tags that may be left out included: HTML Living Standard, 13.2.6.4 (the rules for parsing
tokens), and 3.2.6.4 for the attribute ``translate``. What ends an element here is its end tag, the end of an element
around it, or a start tag that cannot stand inside it, such as that of a paragraph in a paragraph; bold type and its
like go on behind the end of a paragraph until they are ended themselves. Of what the standard does with documents that
it calls wrong, moving what was read before to another place is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
# Elements that are nothing but their tag.
_VOID = _names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param source track wbr"
)
# Elements that go on, in the next paragraph or cell, where another one's end has closed them.
_FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
# Elements whose start ends a paragraph.
_ENDS_P = _HEADINGS | _names(
    "address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure footer form "
    "header hgroup hr li listing main menu nav ol p plaintext pre search section summary table ul xmp"
)
# Elements that an unknown or inline end tag does not reach through.
_SPECIAL = (_ENDS_P - {"dialog"}) | _names(
    "applet area base basefont bgsound body br button caption col colgroup embed frame frameset head html iframe img "
    "input keygen link marquee meta noembed noframes noscript object param script select source style tbody td "
    "template textarea tfoot th thead title tr track wbr"
)
# Elements that need no end tag of their own.
_IMPLIED = _names("dd dt li optgroup option p rb rp rt rtc")
# Elements inside which formatting begins anew.
_MARKERS = frozenset(("applet", "caption", "marquee", "object", "td", "template", "th"))
# Where the search for an open element ends.
_SCOPE = frozenset(("applet", "caption", "html", "marquee", "object", "table", "td", "template", "th"))
_BUTTON_SCOPE, _LIST_SCOPE = _SCOPE | {"button"}, _SCOPE | {"ol", "ul"}
_TABLE_SCOPE = frozenset(("html", "table", "template"))
_SECTIONS = frozenset(("tbody", "tfoot", "thead"))
# What the start of a part of a table stands in; all that is open inside that ends.
_TABLE_PARTS = {
    **dict.fromkeys(("caption", "col", "colgroup", *_SECTIONS), frozenset(("table",))),
    "tr": _SECTIONS | {"table"},
    **dict.fromkeys(("td", "th"), _SECTIONS | {"table", "tr"}),
}
# Text and elements that stand in these, and not in a cell, are moved before the table.
_NO_CONTENT = _SECTIONS | {"table", "tr"}
_OF_HEAD = _names("base basefont bgsound link meta noframes noscript script style template title")
# As deep as browsers nest, and as often as one formatting element is opened anew.
_DEEPEST, _SAME = 512, 3


@dataclass(frozen=True)
class Element:
    """An open element: what its attribute says, None for nothing, and what holds inside it."""

    name: str
    own: bool | None
    translated: bool


class Elements:
    """The open elements at a place of a document, given its tags one after the other."""

    def __init__(self) -> None:
        self._open: list[Element] = []
        self._left: list[Element] = []  # formatting that is opened anew with the next text
        self._saved: list[list[Element]] = []  # what was left outside each open marker
        self._in_form = False  # until its end tag, whatever ends it before

    def translated(self) -> bool:
        """Whether a text that comes now is to be translated."""
        if self._open and self._open[-1].name == "head":
            self._cut(-1)
        self._reopen()
        return self._inherited()

    def start(self, name: str, own: bool | None) -> None:
        """A start tag; ``own``: what its ``translate`` says."""
        top = self._open[-1].name if self._open else ""
        if top == "head" and name not in _OF_HEAD:
            self._cut(-1)
        if (name == "form" and self._in_form) or (name in ("html", "body") and self._find((name,)) is not None):
            return
        self._in_form = self._in_form or name == "form"
        if name in _TABLE_PARTS:
            self._back_to(name)
        elif name == "table" and top in _NO_CONTENT:
            self._close(("table",), _TABLE_SCOPE - {"table"})
        elif name == "select" and self._find((name,), _SCOPE) is not None:
            self._close((name,), _SCOPE)
            return
        self._end_before(name)
        if name in _VOID:
            return
        if name not in _SPECIAL:
            self._reopen()
        self._push(name, own)

    def end(self, name: str) -> None:
        """An end tag."""
        if name in _FORMATTING:
            self._end_formatting(name, _SCOPE)
        elif name in _HEADINGS:
            self._close(_HEADINGS, _SCOPE)
        elif name in _TABLE_PARTS or name == "table":
            self._close((name,), _TABLE_SCOPE - {name})
        elif name == "form":
            self._end_form()
        elif name in ("p", "li"):
            self._close((name,), _BUTTON_SCOPE if name == "p" else _LIST_SCOPE)
        elif name == "template":
            self._close((name,), ())
        elif name in _SPECIAL or name in _ENDS_P:
            if name not in ("html", "body"):
                self._close((name,), _SCOPE - {name})
        else:
            self._close((name,), _SPECIAL)

    def _end_before(self, name: str) -> None:
        """End what the start of an element ends."""
        if name in ("li", "dd", "dt"):
            self._close(("li",) if name == "li" else ("dd", "dt"), _SPECIAL - {"address", "div", "p"})
        if name in _ENDS_P:
            self._close(("p",), _BUTTON_SCOPE)
        if name in _HEADINGS and self._open and self._open[-1].name in _HEADINGS:
            self._cut(-1)
        elif name == "button":
            self._close((name,), _SCOPE)
        elif name in ("a", "nobr"):
            self._end_formatting(name, _MARKERS)
        elif name in ("option", "optgroup"):
            groups = name == "optgroup" and self._find(("select",), _SCOPE) is not None
            self._cut_top(("option", "optgroup") if groups else ("option",))
        elif name in ("rb", "rp", "rt", "rtc") and self._find(("ruby",), _SCOPE) is not None:
            self._cut_top(("rb", "rp", "rt") if name in ("rp", "rt") else ("rb", "rp", "rt", "rtc"))

    def _cut_top(self, names: Collection[str]) -> None:
        """End the innermost elements as long as they are of these names."""
        while self._open and self._open[-1].name in names:
            self._cut(-1)

    def _inherited(self) -> bool:
        """What holds for what comes now, if it says nothing of its own."""
        at = len(self._open)
        if self._open and self._open[-1].name in _NO_CONTENT:
            table = self._find(("table",))
            at = at if table is None else table
        return self._open[at - 1].translated if at else True

    def _push(self, name: str, own: bool | None) -> None:
        if len(self._open) >= _DEEPEST:
            self._cut(-1)
        if name in _TABLE_PARTS:
            around = self._open[-1].translated if self._open else True
        else:
            around = self._inherited()
        self._open.append(Element(name, own, around if own is None else own))
        if name in _MARKERS:
            self._saved.append(self._left)
            self._left = []

    def _reopen(self) -> None:
        left, self._left = self._left, []
        for one in left:
            self._push(one.name, one.own)

    def _find(self, names: Collection[str], ends: Collection[str] = ()) -> int | None:
        """The place of the innermost open element of these names, if none of ``ends`` is further in."""
        for at in range(len(self._open) - 1, -1, -1):
            if self._open[at].name in names:
                return at
            if self._open[at].name in ends:
                return None
        return None

    def _close(self, names: Collection[str], ends: Collection[str]) -> None:
        """End the innermost open element of these names, and what is open inside it."""
        at = self._find(names, ends)
        if at is not None:
            self._cut(at)

    def _cut(self, at: int) -> None:
        """End the open elements from a place on; formatting is left, but for that inside a marker."""
        for _ in range(len(self._open[at:])):
            one = self._open.pop()
            if one.name in _MARKERS:
                self._left = self._saved.pop()
            elif one.name in _FORMATTING:
                self._left.insert(0, one)
        counts: Counter[tuple[str, bool | None]] = Counter()
        kept = []
        for one in reversed(self._left):
            counts[one.name, one.own] += 1
            if counts[one.name, one.own] <= _SAME:
                kept.append(one)
        self._left = kept[::-1]

    def _end_formatting(self, name: str, ends: Collection[str]) -> None:
        """End the last formatting element of a name; blocks that stand inside it stay open."""
        for place in range(len(self._left) - 1, -1, -1):
            if self._left[place].name == name:
                del self._left[place]
                return
        at = self._find((name,), ends)
        if at is None:
            return
        last = max((place for place in range(at, len(self._open)) if self._open[place].name in _SPECIAL), default=None)
        self._cut(at + 1 if last is None else last + 1)
        self._remove(at, [one for one in self._open[at + 1 :] if one.name in _FORMATTING or one.name in _SPECIAL])

    def _end_form(self) -> None:
        if self._in_form:
            self._cut_top(_IMPLIED)
        at = self._find(("form",), _SCOPE) if self._in_form else None
        self._in_form = False
        if at is not None:
            del self._open[at]  # what is open inside it stays so, and stays inside it

    def _remove(self, at: int, inner: Iterable[Element]) -> None:
        """End one element; ``inner`` of what is open inside it stays so."""
        del self._open[at:]
        for one in inner:
            around = self._open[-1].translated if self._open else True
            self._open.append(Element(one.name, one.own, around if one.own is None else one.own))

    def _back_to(self, name: str) -> None:
        """End what is open inside that in which a part of a table stands; without a table, the parts before it end."""
        at = self._find((*_TABLE_PARTS[name], "template"))
        if at is None:
            parts = [place for place, one in enumerate(self._open) if one.name in _TABLE_PARTS]
            self._cut(parts[0] if parts else len(self._open))
            return
        self._cut(at + 1)
        # What is left out between a table and its rows and cells is there all the same.
        for missing, inside in (("tbody", ("tr", "td", "th")), ("tr", ("td", "th"))):
            if name in inside and self._open[-1].name in _TABLE_PARTS[missing]:
                self._push(missing, None)
