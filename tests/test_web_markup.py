"""Which text of HTML is translated, as a browser has it: its tree of the same document says it of every text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from browsing import Visit
from dragoman.server.markup import pieces_of
from serving import Server

pytestmark = pytest.mark.browser

Visiting = Callable[..., Visit]
DOCUMENTS = 400
# The standards mode of a whole document; a fragment is meant for a page that has it.
BEGIN = "<!doctype html><body>"
BLOCKS = [
    "p",
    "div",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "section",
    "h1",
    "h2",
    "blockquote",
    "form",
    "button",
    "address",
]
INLINE = ["span", "em", "b", "i", "u", "strong", "small", "cite"]
# For each element what stands in it, in a document that is right.
CONTENT = {
    "body": ["p", "div", "ul", "dl", "table", "h2", "span", "b", "#"],
    "div": ["p", "div", "ul", "dl", "table", "h2", "span", "b", "a", "#"],
    "p": ["span", "b", "i", "br", "#"],
    "h2": ["span", "i", "#"],
    "span": ["b", "i", "#", "br"],
    "b": ["span", "i", "#"],
    "i": ["span", "#"],
    "a": ["span", "#"],
    "ul": ["li"],
    "li": ["p", "ul", "span", "b", "#", "table"],
    "dl": ["dt", "dd"],
    "dt": ["span", "#"],
    "dd": ["p", "span", "#", "ul"],
    "table": ["tbody", "tr"],
    "tbody": ["tr"],
    "tr": ["td", "th"],
    "td": ["p", "span", "b", "#", "ul", "table"],
    "th": ["span", "#"],
}
MAY_STAY_OPEN = {"p", "li", "dt", "dd", "tbody", "tr", "td", "th"}


class Writer:
    """Writes documents by chance; each of its texts is a number of its own, such as ``t12``."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.texts = 0

    def text(self) -> str:
        self.texts += 1
        return f" t{self.texts} "

    def start(self, name: str, says: list[str]) -> str:
        said = self.chance.choice([*[""] * 4, *(f" translate={one}" for one in says)])
        return f"<{name}{said}>"

    def right(self, name: str = "body", depth: int = 0) -> str:
        """What stands in an element, without some of the end tags that may be left out."""
        whole = ""
        for _ in range(self.chance.randint(1, 4)):
            inner = self.chance.choice(CONTENT[name])
            if depth > 4 and "#" in CONTENT[name]:
                inner = "#"
            if inner in ("#", "br"):
                whole += self.text() if inner == "#" else "<br>"
                continue
            if depth > 7:
                continue
            whole += self.start(inner, ["no", "yes", "''"]) + self.right(inner, depth + 1)
            if inner not in MAY_STAY_OPEN or self.chance.random() < 0.4:
                whole += f"</{inner}>"
        return whole

    def stream(self, names: list[str], says: list[str]) -> str:
        """Start tags, end tags and texts in any order."""
        whole = ""
        for _ in range(self.chance.randint(3, 25)):
            kind = self.chance.random()
            name = self.chance.choice(names)
            whole += self.start(name, says) if kind < 0.4 else f"</{name}>" if kind < 0.65 else self.text()
        return whole

    def cells(self) -> str:
        """Rows and cells in any order, with text in cells alone."""
        tags = re.sub(" t[0-9]+ ", "", self.stream(["tr", "td", "th", "tbody"], ["no", "yes"]))
        return "<table>" + re.sub("<t[dh][ >][^<]*", lambda cell: cell[0] + self.text(), tags)


KINDS: dict[str, Callable[[Writer], str]] = {
    "right": lambda writer: writer.right(),
    "blocks": lambda writer: writer.stream([*BLOCKS, "span", "x-y"], ["no", "yes"]),
    "inline": lambda writer: writer.stream(INLINE, ["no", "yes"]),
    # What is moved by the standard's rules for wrong documents stays with its formatting.
    "formatting": lambda writer: writer.stream(["p", "div", "b", "i", "a", "li", "ul"], ["no"]),
    "cells": Writer.cells,
    "lists": lambda writer: writer.stream(["select", "option", "optgroup"], ["no"]),
    "ruby": lambda writer: "<ruby>" + writer.stream(["rb", "rt", "rp", "rtc"], ["no", "yes"]),
}


def browsed(visit: Visit, documents: list[str]) -> list[dict[str, bool]]:
    """For each document whether a browser would have each of its texts translated."""
    found: list[dict[str, bool]] = visit.page.evaluate(
        """([begin, documents]) => documents.map((text) => {
          const whole = new DOMParser().parseFromString(begin + text, "text/html");
          const texts = whole.createTreeWalker(whole, NodeFilter.SHOW_TEXT);
          const found = {};
          while (texts.nextNode()) {
            const { data, parentElement } = texts.currentNode;
            for (const name of data.match(/t[0-9]+/g) ?? []) found[name] = parentElement.translate;
          }
          return found;
        })""",
        [BEGIN, documents],
    )
    return found


def ours(document: str) -> dict[str, bool]:
    return {
        name: piece.is_text
        for piece in pieces_of(document)
        if not piece.content.startswith("<")
        for name in re.findall(r"t[0-9]+", piece.content)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_translated_as_a_browser_has_it(visiting: Visiting, web: Server, kind: str) -> None:
    writer = Writer(len(kind))
    documents = [KINDS[kind](writer) for _ in range(DOCUMENTS)]
    visit = visiting(web)
    told = browsed(visit, documents)
    both = [(own, other) for own, other in zip(map(ours, documents), told, strict=True) if own or other]
    values = [value for _, other in both for value in other.values()]
    assert min(values.count(True), values.count(False)) > 200
    wrong = [
        (own, other, text)
        for text, own, other in zip(documents, map(ours, documents), told, strict=True)
        if own != other
    ]
    assert not wrong, f"{len(wrong)} of {DOCUMENTS}, the shortest: {min(wrong, key=lambda one: len(one[2]))}"


def test_the_cases_by_hand_are_as_a_browser_has_them(visiting: Visiting, web: Server) -> None:
    """Those of ``test_server_parts.py``, and what is not in them by chance."""
    documents = [
        "<p translate=no>t1<table><tr><td>t2</table>t3",
        "<div translate=no>t1</body></html>t2",
        "<h1 translate=no>t1<h2>t2</h1>t3",
        "<button translate=no>t1<button>t2",
        "<form translate=no><div>t1</form>t2</div>t3",
        "<table translate=no>t1<tr><td>t2</table>t3",
        "<table><tr translate=no><td>t1<tr><td>t2<tbody><tr><td translate=no>t3<th>t4</table>t5",
        "<ul><li translate=no><div>t1<li>t2</ul>t3",
        "<div translate=no><p translate=yes>t1<p>t2</div>t3",
        "<p><b translate=no><b><b><b>t1</p>t2",
        "<object><b translate=no>t1</object>t2",
        "<p translate='No'>t1<p translate='n&#111;'>t2<p translate=no translate=yes>t3<p translate='no '>t4",
        "<dialog translate=no><div>t1</dialog>t2",
        "<template><p translate=no>t1</template>t2",
        "<br translate=no>t1<hr translate=no>t2<img translate=no>t3<wbr translate=no>t4",
    ]
    told = browsed(visiting(web), documents)
    for document, expected in zip(documents, told, strict=True):
        own = ours(document)
        # What stands in a template is no part of the document.
        assert {name: own[name] for name in expected} == expected, document
    assert sum(map(len, told)) > 30
