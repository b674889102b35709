"""The parts of the server by themselves: documents, markup, detection, names."""

from __future__ import annotations

import gzip
import re
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.errors import UsageError
from dragoman.server.catalogue import Catalogue, named
from dragoman.server.detect import detect
from dragoman.server.documents import parts_of, put_together, whole
from dragoman.server.languages import name_of
from dragoman.server.limits import Limits
from dragoman.server.markup import pieces_of, plain, written
from dragoman.server.metrics import Metrics
from dragoman.text.sentences import has_word

TEXTS = st.text(st.sampled_from("aB.!? \n\t…。😀\u2028\r\"'«»()"), max_size=60) | st.text(max_size=40)


# documents, markup


@given(TEXTS, st.booleans())
def test_the_parts_of_a_text_joined_are_the_text(text: str, lines: bool) -> None:
    parts = parts_of(text, lines=lines)
    assert "".join(part.before + part.body + part.after for part in parts) == text
    assert put_together(parts, [part.body for part in parts]) == text
    for part in parts:
        assert part.body == part.body.strip()
        assert part.body == "" or has_word(part.body)
        assert not has_word(part.before + part.after)
        assert part.read == " ".join(part.body.split())
    assert all(part.body for part in parts) or len(parts) == 1


@given(TEXTS)
def test_a_text_that_is_not_split_is_one_part(text: str) -> None:
    (part,) = whole(text)
    assert part.before + part.body + part.after == text
    assert part.read == part.body == text.strip()


def test_parts_are_put_together_as_documents_are() -> None:
    translator = Translator(make_bundle())
    for text in ("  A key. The wind!\n\n Who? ", "\n\n\nkey \n", "key\n\n", "a\r\nb", *LINES):
        parts = parts_of(text)
        found = [translator.translate(part.body).text for part in parts]
        assert put_together(parts, found) == translator.translate_document(text)


@given(st.text(st.sampled_from("<>/!-ab \"'=&;p"), max_size=40) | st.text(max_size=30))
def test_the_pieces_of_markup_joined_are_the_markup(markup: str) -> None:
    pieces = pieces_of(markup)
    assert "".join(piece.content for piece in pieces) == markup
    for piece in pieces:
        assert piece.is_text or piece.content.startswith("<")


@pytest.mark.parametrize(
    ("markup", "shown"),
    [
        ("<p class='x'>one <b>two</b></p>", ["one ", "two"]),
        ("a <!-- not <b>this</b> --> b", ["a ", " b"]),
        ("<script>if (a < b) { x }</script>c<STYLE>p > a</Style >d", ["c", "d"]),
        ("<code>x</code> y <br/><svg/>z", [" y ", "z"]),
        ("1 < 2 and 3 > 2", ["1 < 2 and 3 > 2"]),
        ('<a title="a > b">c</a>', ["c"]),
        ("<!DOCTYPE html><?x y?>z", ["z"]),
        ("<pre>never closed", []),
        # A slash ends no element of HTML, as one of drawings and formulas.
        ('<script src=a.js/>var a="the dog"</script>a', ["a"]),
        ("<script/>a</script>b<style/>c</style>d<textarea/>e</textarea>f<pre/>g</pre>h", ["b", "d", "f", "h"]),
        ("<svg><svg/><title>a</title></svg>b<math/>c<svg a='/'>d</svg>e", ["b", "c", "e"]),
        ("<svg a=b/>c</svg>d", ["d"]),
        # The end tag is that of the same name and depth.
        ("<pre>a<prefix>b</prefix> c</pre>d", ["d"]),
        ("<code>a<codex>b</codex> c</code\n>d", ["d"]),
        ("<script>a</scripts>b</script a='>'>c", ["c"]),
        ("<svg><svg></svg><title>a</title></svg>b", ["b"]),
        ("<SVG><svgs></svg>a<svgs></svg>b", ["a", "b"]),
        ("<pre>a<pre>b</pre>c</pre>d<code><code>e</code>f</code>g", ["d", "g"]),
        # What is no tag inside it.
        ("<svg><!-- </svg> --><title>a</title></svg>b", ["b"]),
        ("<svg><![CDATA[</svg>]]><title>a</title></svg>b", ["b"]),
        ("<pre a='</pre>'><b c='</pre>'><script></pre></script>d</pre>e", ["e"]),
        ("<script><!-- </script>a", ["a"]),
        ("<script>a", []),
        # A script that begins in a comment of a script ends there, and the comment has an end.
        ("<script><!-- <script>a</script>b</script>c", ["c"]),
        ("<script><!-- <SCRIPT/>a</script\n>b --></script>c", ["c"]),
        ("<script><!-- <script> --> a</script>b", ["b"]),
        ("<script><!--> <script>a</script>b<script><!---> <script>a</script>c", ["b", "c"]),
        ("<script><!-- <!--> <script>a</script>b", ["b"]),
        ("<script><!-- <scripts>a</script>b", ["b"]),
        ("<script><!-- <script>a</script>b", []),
        ("<script>'<script>'</script>b", ["b"]),
        # Elements that hold no tags.
        ("<iframe>a<p></iframe>b<xmp>c<i></xmp>d<noembed><i>e</noembed>f<noframes>g<i></noframes>h", [*"bdfh"]),
        ("a<plaintext>b</plaintext>c", ["a"]),
        # Comments, as browsers end them.
        ("a <!-- never <b>closed</b>", ["a "]),
        ("<!-->a<!--->b<!---->c<!--d--!>e<!-- ->f -- >g-->h", ["a", "b", "c", "e", "h"]),
        ("<a href='x", ["<a href='x"]),
        ('a<p translate="no">b<i>c</i> d</p>e', ["a", "e"]),
        ("<P Class=x TRANSLATE = NO>a</P>b", ["b"]),
        ("<b translate='no' title='>'>a</b>b<b>c</b>", ["b", "c"]),
        ('<br translate="no">a<i translate="yes">b</i>', ["a", "b"]),
        ("<i title='translate=no'>a</i><i data-translate=no>b</i><i translate=none>c</i>", ["a", "b", "c"]),
        ('<p translate="no">a<script></p></script>b</p>c<p translate="no">never closed', ["c"]),
    ],
)
def test_what_is_text_in_markup(markup: str, shown: list[str]) -> None:
    assert [piece.content for piece in pieces_of(markup) if piece.is_text] == shown


@pytest.mark.parametrize(
    ("markup", "shown"),
    [
        # End tags that may be left out.
        ("<p translate=no>a<p>b", ["b"]),
        ("<p translate=no>a<p>b</p>c</p>d", ["b", "c", "d"]),
        ("<p translate=no>a<pre>x</pre>b", ["b"]),
        ("<p translate=no>a<hr>b", ["b"]),
        ("<p translate=no>a<span>b<div>c</div>d", ["c", "d"]),
        ("<ul><li translate=no>a<li>b</ul>c", ["b", "c"]),
        ("<ul><li translate=no>a<ul><li>b</ul>c<li>d</ul>e", ["d", "e"]),
        ("<dl><dt translate=no>a<dd>b</dl>c", ["b", "c"]),
        ("<select><option translate=no>a<option>b</select>c", ["b", "c"]),
        ("<ruby>x<rt translate=no>a<rp>b<rt>c</ruby>d", ["x", "b", "c", "d"]),
        ("<table><tr><td translate=no>a<td>b<tr><td>c</table>d", ["b", "c", "d"]),
        ("<table translate=no><tr><td>a</table>b", ["b"]),
        ("<tr translate=no><td>a<td translate>b<tr><td>c", ["b", "c"]),
        ("<td translate=no>a<td>b</td>c", ["b", "c"]),
        ("<head translate=no><title>a</title>\n<p>b", ["b"]),
        # The end of what stands around it.
        ("<div><p translate=no>a</div>b", ["b"]),
        ("<div><span translate=no>a<i>b</div>c", ["c"]),
        ("<div translate=no>a<br>b", []),
        ("<html translate=no><body>a</body></html>b", []),
        # Formatting goes on behind the end of what stands around it, up to its own.
        ("<p><b translate=no>a</p><p>b</b>c", ["c"]),
        ("<b translate=no>a<p>b</b>c</p>d", ["c", "d"]),
        ("<b translate=no>a<b>b</b>c</b>d", ["d"]),
        ("<a translate=no>a<a>b</a>c", ["b", "c"]),
        ("<table><tr><td><b translate=no>a<td>b</table>c", ["b", "c"]),
        # What is no end of it.
        ("<span translate=no>a<div>b</span>c</div>d", []),
        ("<div translate=no>a</p>b</x>c</div>d", ["d"]),
        ("<div translate=no>a<table><tr><td>b</div>c</table>d</div>e", ["e"]),
        # An element inside may say otherwise.
        ("<div translate=no>a<span translate=yes>b</span>c<i translate=''>d</i></div>e", ["b", "d", "e"]),
        ("<p translate=&#110;o translate=yes>a", []),
        ("<p translate=' no '>a<p translate=never>b", ["a", "b"]),
    ],
)
def test_where_an_element_ends_that_is_not_translated(markup: str, shown: list[str]) -> None:
    """As browsers say it: ``test_web_markup.py`` asks one."""
    texts = [piece.content for piece in pieces_of(markup) if piece.is_text]
    assert [text for text in texts if text.strip()] == shown


def test_references_are_read_and_written() -> None:
    assert plain("a &amp; b &lt;c&gt; &auml;&#8364;") == "a & b <c> ä€"
    assert written('a & b <c> "d"') == 'a &amp; b &lt;c&gt; "d"'


@pytest.mark.parametrize(
    "piece",
    [
        "<a ",
        "<!--",
        "<a'",
        '<a "',
        "</",
        "<script>",
        "<",
        "<a b='",
        "<!-- -->",
        "<a b" + " " * 99,
        "<a translate=no>",
        "<a translate ",
        "<div>",
        "<p><b>",
        "<li><i>",
        "<td><b>",
        "<x><div><i></x>",
        "<form><i></form>",
        "<b>x<p></b>",
        "<svg>",
        "<svg><!--",
        "<svg><![CDATA[",
        "<pre><script>",
        "<pre></prefix>",
        "<script></scripts>",
        "<!-->",
    ],
)
def test_markup_is_read_in_linear_time(piece: str) -> None:
    begun = time.process_time()
    pieces_of(piece * (20_000 // len(piece)))
    assert time.process_time() - begun < 2.0


# languages


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The old man reads a book in the garden.", "en"),
        ("Der alte Mann liest im Garten ein Buch.", "de"),
        ("Le vieil homme lit un livre dans le jardin.", "fr"),
        ("El hombre lee un libro y no está en la casa.", "es"),
        ("Старый человек читает книгу.", "ru"),
        ("老人在花园里看书。", "zh"),
        ("おじいさんは本を読んでいます。", "ja"),
        ("노인은 책을 읽는다", "ko"),
    ],
)
def test_languages_are_found(text: str, language: str) -> None:
    found = detect(text, ["en", "de", "fr", "es", "ru", "zh", "ja", "ko"])
    assert found[0][0] == language
    assert found[0][1] > found[1][1]
    assert found[0][1] > 50
    # The confidence is the same, whatever else is asked about.
    assert detect(text, [language]) == [found[0]]
    others = [one for one in ("en", "de", "ko", "ja") if one != language]
    assert all(share < 15 for _, share in detect(text, others))


@given(TEXTS)
def test_detection_always_answers(text: str) -> None:
    found = detect(text, ["en", "de-AT", "xx"])
    assert sorted(code for code, _ in found) == ["de-AT", "en", "xx"]
    assert all(0 <= share <= 100 for _, share in found)
    assert sum(share for _, share in found) <= 100.1
    ((code, alone),) = detect(text, ["xx"])
    assert code == "xx"
    assert alone < 100


def test_nothing_known_is_shared_evenly() -> None:
    """Among all languages that are known, of which there are some fifty; codes of one language share its part."""
    ((first, share), (second, other)) = detect("", ["en", "de"])
    assert (first, second, share) == ("en", "de", other)
    assert 1 < share < 3
    assert detect("12 + 3", ["de", "en"]) == [("de", share), ("en", share)]
    assert [code for code, _ in detect("", ["en-GB", "de", "en-US"])] == ["de", "en-GB", "en-US"]
    assert dict(detect("12", ["en-GB", "en-US"]))["en-US"] == pytest.approx(share / 2, abs=0.1)


@pytest.mark.shared
def test_the_confidence_is_no_boast(shared_dir: Path) -> None:
    """Of texts of a few words and whole ones, in three languages, no fewer are right than was said."""
    rng, said = Random(5), []
    for code in ("en", "de", "fr"):
        with gzip.open(shared_dir / "data" / "multi30k" / f"val.{code}.gz", "rt", encoding="utf-8") as file:
            texts = file.read().splitlines()[:400]
        for text in texts:
            words = text.split()[: rng.choice((1, 2, 3, 5, 99))]
            # A server of two languages, of which the text is in one or in none.
            pair = ["en", "de"]
            (found, confidence), _ = detect(" ".join(words), pair)
            said.append((confidence, found == code))
    for low, high in ((0, 20), (20, 60), (60, 90), (90, 100)):
        held = [(confidence, right) for confidence, right in said if low <= confidence < high]
        assert len(held) > 20, (low, high, len(held))
        claimed = sum(confidence for confidence, _ in held) / len(held) / 100
        right = sum(right for _, right in held) / len(held)
        assert right > claimed - 0.06, (low, high, len(held), claimed, right)
    sure = [right for confidence, right in said if confidence >= 90]
    assert len(sure) > len(said) / 5


def test_names_of_languages() -> None:
    assert [name_of(code) for code in ("de", "pt-BR", "nb", "src")] == [
        "German",
        "Portuguese (BR)",
        "Norwegian Bokmål",
        "src",
    ]


# models


def test_names_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()
    assert named(["runs/best", "x=runs/best", "a=b", "runs/a=b"]) == [
        (None, Path("runs/best")),
        ("x", Path("runs/best")),
        (None, Path("a=b")),
        (None, Path("runs/a=b")),
    ]
    for name in ("", "a b", "-x", "x" * 101, "ä"):
        with pytest.raises(UsageError, match="cannot name a model"):
            named([f"{name}=runs"])


def test_two_models_of_one_name(tmp_path: Path) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    place = str(tmp_path / "model")
    with pytest.raises(UsageError, match='two models are called "en-de"; name them'):
        Catalogue.load([place, place], Limits(), Metrics(), device="cpu")
    found = Catalogue.load([place, f"other={place}"], Limits(), Metrics(), device="cpu")
    assert list(found.models) == ["en-de", "other"]
    assert found.models["other"].most_tokens == 64


def test_metrics_name_every_model() -> None:
    metrics = Metrics()
    meter = metrics.of_model("m", lambda: 3)
    meter.batch(4, 2, 0.1)
    meter.batch(2, 1, 0.1)
    meter.tokens(40, 20)
    meter.tokens(10, 5)
    text = metrics.text().decode()
    assert 'dragoman_batch_sentences_mean{model="m"} 3.0' in text
    assert 'dragoman_tokens_total{model="m",side="source"} 50.0' in text
    assert 'dragoman_queue_requests{model="m"} 3.0' in text
    assert re.search(r'dragoman_batch_requests_bucket\{le="1.0",model="m"\} 1\.0', text)
