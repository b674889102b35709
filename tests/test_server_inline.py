"""HTML with tags inside its sentences: what is translated whole, and where the tags go."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from bundles import LINES
from dragoman import Translator
from dragoman.server.catalogue import Found
from dragoman.server.documents import parts_of, put_together
from dragoman.server.inline import Group, Links, grouped
from dragoman.server.libre import Text
from dragoman.server.limits import Limits
from dragoman.server.looks import links_of
from dragoman.server.markup import pieces_of
from dragoman.server.queue import Sentence
from dragoman.server.refusals import GoneError
from dragoman.server.tagging import Writing
from dragoman.server.wordings import Wordings
from dragoman.translation import Translation
from dragoman.visualize.alignment import align
from served_models import all_models, server_of_all, translator_of_first  # noqa: F401  # fixtures
from serving import Server, fine

PAIR = {"source": "en", "target": "de", "format": "html"}


def groups(html: str) -> list[str]:
    """The texts of a document's groups."""
    return [one.text for one in grouped(pieces_of(html)) if isinstance(one, Group)]


# what is a group


@pytest.mark.parametrize(
    ("html", "texts"),
    [
        ("A <b>red</b> car.", ["A red car."]),
        ("<p>A <b>red</b> car.</p><p>A <i>car</i>.</p>", ["A red car.", "A car."]),
        ("A <a href='x>y'><b>red</b> car</a> &amp; more", ["A red car & more"]),
        ("One<br>A <b>red</b> car<img src=x> <i>and</i> more", ["A red car", " and more"]),
        ("<B>A</b> car", ["A car"]),
        ("A <i></i> car", ["A  car"]),
        # No tag between the words.
        ("<b>A red car.</b>", []),
        (" <i class=x></i> <b>A red car.</b> ", []),
        ("<b> </b> ", []),
        ("<p>A car.</p>", []),
        # Elements that have nothing to do with one another.
        ("<a>Home</a> <a>All news</a> | <a>About</a>", []),
        ("<a>Read <b>this</b> now</a> | <a>That <i>too</i></a>", ["Read this now", "That too"]),
        ("<span>A <b>red</b> car</span>", ["A red car"]),
        ("<b><i><a>A</a> <a>car</a></i></b>", []),
        # A tag inside a word.
        ("H<sub>2</sub>O is <b>wet</b>", []),
        ("un<b>true</b> it is", []),
        ("a well-<b>known</b> thing", []),
        # Tags without a partner end a group, and others begin behind them.
        ("A <b>red car.", []),
        ("<b>A <i>red</i> car", ["A red car"]),
        ("A <i>red</i> car</b> and <u>more</u> of it", ["A red car", " and more of it"]),
        ("A <b>red <i>car</b> is</i> here", []),
        # What is not to be translated, and what is no prose.
        ('A <b>red</b> car <span translate="no">is <i>not</i> one</span> and <b>more</b> of it', ["A red car "]),
        ("Press <code>x</code> to <b>go</b> on", [" to go on"]),
        ("A <b>red</b> <!-- no --> car", ["A red "]),
        ('<div translate="no">A <b>red</b> car</div>', []),
        # Too many.
        ("A " + "<b>red</b> " * 99 + "car", ["A " + "red " * 99 + "car"]),
        ("A " + "<b>red</b> " * 100 + "car", []),
    ],
)
def test_what_is_translated_together(html: str, texts: list[str]) -> None:
    found = groups(html)
    if 'translate="no"' in html and found:
        assert found[0] == texts[0]
        assert not [text for text in found if "not" in text]
    else:
        assert found == texts


def test_words_without_spaces_are_not_linked() -> None:
    def of(source: str, target: str) -> Text:
        served = cast("Any", SimpleNamespace(source=source, target=target))
        return Text.of("A <b>red</b> car.", served, Found(source, 100.0), markup=True)

    assert [part.body for part in of("en", "de").parts] == ["A red car."]
    for source, target in (("en", "zh"), ("ja", "en"), ("en", "zh-TW"), ("tha", "th")):
        assert [part.body for part in of(source, target).parts] == ["A", "red", "car."]
    assert [part.body for part in Text.of("A <b>red</b>.", cast("Any", None), Found("", 1), markup=False).parts] == [
        "A <b>red</b>."
    ]


# where tags go


def told(html: str, translations: Sequence[str], links: Sequence[Links | None]) -> str:
    """A document that is one group, with translations of its sentences."""
    (group,) = grouped(pieces_of(html))
    assert isinstance(group, Group)
    writing = Writing(group)
    for part, translation, own in zip(parts_of(group.text, lines=False), translations, links, strict=True):
        writing.add(part, translation, own)
    return writing.html()


@pytest.mark.parametrize(
    ("html", "translation", "links", "expected"),
    [
        ("A <b>red</b> car.", "Ein rotes Auto.", [(0, 0), (1, 1), (2, 2)], "Ein <b>rotes</b> Auto."),
        ("A <b>red</b> car.", "Auto rotes.", [(2, 0), (1, 1)], "Auto <b>rotes</b>."),
        ("A <b>red</b> <i>car</i>!", "Auto rot", [(2, 0), (1, 1)], "<i>Auto</i> <b>rot</b>"),
        ("A <b>red car</b>", "Ein rotes Auto", [(0, 0), (1, 1), (2, 2)], "Ein <b>rotes Auto</b>"),
        ("A <b>red <i>old</i> car</b>", "A B C D", [(0, 0), (2, 1), (1, 2), (3, 3)], "A <b><i>B</i> C D</b>"),
        # Marks of the sentence stay outside, or inside, as they were.
        ('"A <b>car</b>!"', '"Ein Auto!"', [(0, 0), (1, 1)], '"Ein <b>Auto</b>!"'),
        ("A <b>car!</b>", "Ein Auto!", [(0, 0), (1, 1)], "Ein <b>Auto!</b>"),
        ("A <b>car</b>, old.", "Ein Auto, alt.", [(0, 0), (1, 1), (2, 2)], "Ein <b>Auto</b>, alt."),
        ("A <b>car</b> old.", "Alt ein Auto.", [(2, 0), (0, 1), (1, 2)], "Alt ein <b>Auto</b>."),
        # In two places, the second time without its id; a word between the two goes with them.
        (
            'It <a id="x" href="y id=2">goes up</a> now here',
            "Es geht nun hier auf",
            [(0, 0), (1, 1), (3, 2), (4, 3), (2, 4)],
            'Es <a id="x" href="y id=2">geht</a> nun hier <a href="y id=2">auf</a>',
        ),
        ("It <b>goes up</b> now", "Es geht nun auf", [(0, 0), (1, 1), (3, 2), (2, 3)], "Es <b>geht nun auf</b>"),
        (
            "It <b>goes</b> <i>now</i> <b>up</b>",
            "Es geht nun auf",
            [(0, 0), (1, 1), (2, 2), (3, 3)],
            "Es <b>geht</b> <i>nun</i> <b>auf</b>",
        ),
        # Nothing of it is left, or nothing was in it.
        ("A <b>red</b> car", "Auto", [(2, 0)], "<b></b>Auto"),
        ("A car <b>of <i>his</i></b>", "Ein Auto", [(0, 0), (1, 1)], "Ein Auto<b><i></i></b>"),
        ("A<sup></sup> <i class=x></i>car", "Ein Auto", [(0, 0), (1, 1)], "Ein<sup></sup> <i class=x></i>Auto"),
        ("A <b>red</b> car", "", [], "<b></b>"),
        # Links are missing.
        ("A <b>red</b> car", "Ein rotes Auto", None, "Ein <b>rotes</b> Auto"),
        ("A <b>b</b> c", "1 2 3 4 5 6", None, "1 2 <b>3 4</b> 5 6"),
        # What is text stays text.
        ("A &lt;<b>car</b>&gt; &amp; more", "<Ein> & Auto", [(0, 0), (1, 2)], "&lt;Ein&gt; &amp; <b>Auto</b>"),
    ],
)
def test_tags_go_where_their_words_went(html: str, translation: str, links: Links | None, expected: str) -> None:
    assert told(html, [translation], [links]) == expected


def test_elements_over_several_sentences() -> None:
    html = " <b>One two. <i>Three</i> four.</b>\n Five <u>six</u>. "
    assert groups(html) == [" One two. Three four.\n Five six. "]
    found = told(html, ["Eins zwei.", "Vier drei.", "Sechs fünf."], [None, [(1, 0), (0, 1)], [(1, 0), (0, 1)]])
    assert found == " <b>Eins zwei. Vier <i>drei</i>.</b>\n <u>Sechs</u> fünf. "


class Nesting(HTMLParser):
    """What a document holds; fails for tags that are not nested."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.starts: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        named = dict(attrs)
        self.starts[f"{tag} {named['title']}"] += 1
        if "id" in named:
            self.ids[str(named["id"])] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


WORDS = st.sampled_from(["One", "two,", "three.", "«four»", "-", "5", "&amp;", "six! ", "\n", "  "])


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Words in elements, each of which has a number."""
    count = 0

    def content(depth: int) -> str:
        nonlocal count
        found = ""
        for _ in range(draw(st.integers(0, 4))):
            if depth < 3 and draw(st.booleans()):
                count += 1
                name = draw(st.sampled_from("abiu"))
                number, inner = count, content(depth + 1)
                found += f'<{name} title="{number}" id="{number}">{inner}</{name}>'
            else:
                found += draw(WORDS)
            found += draw(st.sampled_from([" ", " ", ""]))
        return found

    return content(0)


@given(documents(), st.data())
def test_every_tag_is_there_and_nested(html: str, data: st.DataObject) -> None:
    """Whatever the translations and the links are, the text is theirs, and no element is lost."""
    whole, expected = "", ""
    for piece in grouped(pieces_of(html)):
        if not isinstance(piece, Group):
            whole += piece.content
            expected += "" if piece.content.startswith("<") else Nesting(piece.content).text
            continue
        parts = parts_of(piece.text, lines=False)
        translations = [
            " ".join(data.draw(st.lists(st.sampled_from(["a", "b<c", "d.", "(e"]), max_size=6))) if part.body else ""
            for part in parts
        ]
        writing = Writing(piece)
        for part, translation in zip(parts, translations, strict=True):
            sources, targets = len(part.body.split()), len(translation.split())
            links = None
            if sources and targets and data.draw(st.booleans()):
                pair = st.tuples(st.integers(0, sources - 1), st.integers(0, targets - 1))
                links = data.draw(st.lists(pair, unique_by=lambda one: one[1]))
            writing.add(part, translation, links)
        whole += writing.html()
        expected += put_together(parts, translations)
    before, after = Nesting(html), Nesting(whole)
    assert after.text == expected
    assert set(after.starts) == set(before.starts)
    assert after.ids == before.ids


# the server


def by_python(translator: Translator, html: str, n: int = 1) -> list[str]:
    """The translations of a document, best first, put together here."""
    beam = {"n_best": n, "beam_size": max(n, translator.bundle.decode.beam_size)} if n > 1 else {}
    found = []
    for place in range(n):
        whole = ""
        for piece in grouped(pieces_of(html)):
            assert isinstance(piece, Group) or not piece.is_text or not piece.content.strip()
            if not isinstance(piece, Group):
                whole += piece.content
                continue
            writing, parts = Writing(piece), parts_of(piece.text, lines=False)
            for part in parts:
                best = translator.translate(part.read, **beam)
                one = [best, *best.alternatives][place]
                links = align(part.read, translator.force(part.read, one, attention=True), translator.special)
                writing.add(part, one.text, links)
            whole += writing.html()
        found.append(whole)
    return found


def test_the_server_translates_sentences_whole(server: Server, translator: Translator) -> None:
    html = (
        '<p>Nobody <b>found\nthe <a href="x">key</a></b>. The <i>ferry</i> comes.</p>\n<p>A cold <u>wind</u> blows!</p>'
    )
    found = fine(server.post("/translate", q=html, **PAIR))
    assert found == {"translatedText": by_python(translator, html)[0]}
    tags = re.findall("<[^>]+>", html)
    assert set(re.findall("<[^>]+>", found["translatedText"])) == set(tags)
    found = fine(server.post("/translate", q=[html, "<b>key</b>"], alternatives=2, **PAIR))
    first, *others = by_python(translator, html, 3)
    assert found["translatedText"][0] == first
    assert found["alternatives"][0] == others


def test_many_sentences(server: Server) -> None:
    """What is not to be translated stays."""
    kept = '<span translate="no">The <b>old</b> man</span>'
    html = f"<p>A <b>key</b> and <u>{kept}</u> and <b>more</b> of it.</p>" + "<p>A <i>key</i>.</p>" * 40
    found = fine(server.post("/translate", q=html, **PAIR))["translatedText"]
    assert kept in found
    assert found.count("<i>") == found.count("</i>") >= 40
    Nesting(re.sub("<([bipu]|span)", r'<\1 title="x"', found))


def served(texts: int, n: int, tokens: int = 3, ids: int = 2) -> list[Sentence]:
    """Sentences with tags inside, and ``n`` translations of each."""

    def of(text: int) -> Translation:
        best, *others = [Translation(f"{text} {place}", ids=[7] * ids) for place in range(n)]
        return replace(best, alternatives=others)

    return [Sentence(f"text {text}", tokens, tagged=True, found=of(text)) for text in range(texts)]


def test_attention_has_its_bound() -> None:
    """Of a longer sentence no attention is asked for; its words have no links."""
    limits = replace(Limits(), attention_tokens=4)
    for tokens, ids, count in ((4, 4, 1), (5, 4, 0), (4, 5, 0)):
        wordings = Wordings(served(1, 1, tokens, ids), limits)
        assert len(wordings.pairs) == count
        (((wording,),)) = wordings.with_links([[(1, 0)]] * count)
        assert (wording.translation.text, wording.links) == ("0 0", [(1, 0)] if count else None)


def test_the_best_are_linked_first() -> None:
    sentences = [*served(2, 3), replace(served(1, 3)[0], tagged=False)]
    wordings = Wordings(sentences, replace(Limits(), linked=5))
    assert [(text, one.text) for text, one in wordings.pairs] == [
        ("text 0", "0 0"),
        ("text 1", "1 0"),
        ("text 0", "0 1"),
        ("text 1", "1 1"),
        ("text 0", "0 2"),
    ]
    found = wordings.with_links([[(place, place)] for place in range(5)])
    assert [[one.translation.text for one in own] for own in found] == [
        [f"{text} {n}" for n in range(3)] for text in (0, 1, 0)
    ]
    assert [[one.links for one in own] for own in found] == [
        [[(0, 0)], [(2, 2)], [(4, 4)]],
        [[(1, 1)], [(3, 3)], None],
        [None] * 3,
    ]
    assert Wordings([], Limits()).with_links([]) == []


def test_many_words_are_linked_in_few_passes(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by themselves, whatever stands in a batch with them; ended where ``check`` says so."""
    texts = ["The key.", "", *LINES, "A cold wind blows over the old key, and nobody found it."] * 3
    found = translator.translate(texts, n_best=2, beam_size=2)
    pairs = [(text, one) for text, best in zip(texts, found, strict=True) for one in (best, *best.alternatives)]
    alone = [
        align(text, translator.force(text, one, attention=True), translator.special) if one.ids else []
        for text, one in pairs
    ]
    passes: list[tuple[int, ...]] = []
    encode = translator.model.encode

    def counted(src: Tensor, *rest: Any) -> Tensor:
        passes.append(tuple(src.shape))
        return encode(src, *rest)

    monkeypatch.setattr(translator.model, "encode", counted)
    checked: list[None] = []
    assert links_of(pairs)(translator.interruptible(lambda: checked.append(None))) == alone
    assert any(alone)
    assert len(checked) == len(passes) < len(pairs) / 4
    assert sum(rows for rows, _ in passes) == sum(bool(one.ids) for _, one in pairs)
    assert links_of([])(translator) == []
    with pytest.raises(GoneError):
        links_of(pairs)(translator.interruptible(_gone))


def _gone() -> None:
    raise GoneError
