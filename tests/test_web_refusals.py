"""The web page in a browser: what it says when the server refuses, and that nothing typed becomes markup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from browsing import WORDS, Visit, answer_of, stream_of
from bundles import LINES
from serving import Server, serving

pytestmark = pytest.mark.browser

Visiting = Callable[..., Visit]
NASTY = "<img src=x onerror=alert(1)><script>alert(2)</script>&lt;b&gt; \"'` javascript:alert(3)"


@pytest.fixture(scope="module")
def locked(web_models: Path) -> Iterator[Server]:
    with serving(web_models / "first", env={"DRAGOMAN_API_KEYS": "open-sesame"}) as running:
        yield running


def notice(visit: Visit) -> str:
    visit.page.wait_for_selector("#notice p")
    assert visit.page.get_attribute("#notice", "role") == "alert"
    return visit.page.inner_text("#notice p")


@pytest.mark.parametrize(
    ("status", "body", "headers", "said", "again"),
    [
        (
            429,
            {"error": "busy"},
            {"Retry-After": "7"},
            "The server is busy. Too many requests are waiting; it asks for 7 s",
            True,
        ),
        (
            504,
            {"error": "no answer within 60 s; send less."},
            {},
            "took too long. No answer within 60 s; send less.",
            True,
        ),
        (
            503,
            {"error": "the server is stopping; try again later."},
            {},
            "takes nothing more just now. The server is st",
            True,
        ),
        (
            500,
            {"error": "the server failed at this request."},
            {},
            "The server failed. The server failed at this",
            True,
        ),
        (
            413,
            {"error": "a sentence has 70 tokens; break it up."},
            {},
            "more than the server takes at once. A sentence",
            False,
        ),
        (400, {"error": "de is not supported as source."}, {}, "refused this. De is not supported as source.", False),
        (502, "<html>Bad Gateway</html>", {}, "cannot be reached. It gave no reason (status 502).", True),
        (0, None, {}, "cannot be reached. Check the connection, and that the server runs.", True),
    ],
)
def test_refusals_are_said_plainly(
    visiting: Visiting, web: Server, status: int, body: object, headers: dict[str, str], said: str, again: bool
) -> None:
    visit = visiting(web)
    visit.answer("/v1/translate", body, status, **headers)
    visit.open().page.fill("#text", LINES[0])
    assert said in notice(visit)
    assert visit.page.get_attribute("#result", "aria-busy") is None
    assert visit.page.locator("#notice button").count() == again
    visit.page.unroute("**/v1/translate")
    if again:
        visit.page.click("#notice button")
        visit.page.wait_for_selector(WORDS)
        assert visit.page.locator("#notice > *").count() == 0
    else:
        visit.translate(LINES[1])
        assert visit.page.locator("#notice > *").count() == 0


def test_a_refused_text_shows_no_other_translation(visiting: Visiting, web: Server) -> None:
    """The translation of an earlier text would be taken for that of the new one; that of the same text stays."""
    visit = visiting(web).open().translate(LINES[0])
    made = visit.text()
    visit.answer("/v1/translate", {"error": "busy"}, 429)
    visit.page.click("button.main")
    notice(visit)
    assert visit.text() == made
    assert visit.page.is_visible("#beside")
    visit.page.fill("#text", LINES[1])
    visit.until("document.getElementById('result').textContent === ''")
    assert visit.page.is_hidden("#beside")
    assert visit.page.is_hidden("#legend")
    assert visit.page.is_disabled("#copy")


def test_too_much_text_is_not_sent(visiting: Visiting, web: Server) -> None:
    visit = visiting(web).open()
    visit.page.fill("#text", "word " * 401)
    visit.page.press("#text", "Control+Enter")
    assert "The text has 2,005 characters and the server takes 2,000; shorten it." in notice(visit)
    assert "over" in str(visit.page.get_attribute("#count", "class"))
    assert not [url for url in visit.asked if url.endswith("/v1/translate")]
    # Counted as the server counts: a character beyond the basic plane is one.
    visit.page.fill("#text", "🙂" * 2000)
    assert visit.page.text_content("#count") == "2,000 of 2,000"


def test_a_long_sentence_is_refused_by_the_server(visiting: Visiting, web: Server) -> None:
    visit = visiting(web)
    visit.refusals = True
    visit.open().page.fill("#text", LINES[2].rstrip(".") * 8)
    assert "tokens and the model takes 64; break it up." in notice(visit)


@pytest.mark.parametrize("tail", ["", 'event: error\ndata: {"error": "no answer within 60 s.", "status": 504}\n\n'])
def test_a_stream_that_breaks(visiting: Visiting, web: Server, tail: str) -> None:
    visit = visiting(web)
    piece = 'event: piece\ndata: {"text": "Die alte"}\n\n'
    visit.answer("/v1/translate", piece + tail, **{"Content-Type": "text/event-stream"})
    visit.open().page.fill("#text", LINES[0])
    assert ("took too long" if tail else "cannot be reached") in notice(visit)
    assert visit.text() == "Die alte"
    assert visit.page.is_hidden("#beside")


def test_no_server_at_all(visiting: Visiting, web: Server) -> None:
    visit = visiting(web)
    visit.answer("/v1/models", None)
    visit.page.goto(visit.base)
    assert "cannot be reached" in notice(visit)
    visit.page.unroute("**/v1/models")
    visit.page.click("#notice button")
    visit.page.wait_for_selector("#source option", state="attached")
    visit.translate(LINES[0])


@pytest.mark.parametrize(
    ("path", "act", "back"),
    [
        ("alternatives", f"{WORDS} >> nth=1", "1"),
        ("attention", "#attention", "attention"),
        ("replay", "#replay", "replay"),
    ],
)
def test_looks_that_are_refused(visiting: Visiting, web: Server, path: str, act: str, back: str) -> None:
    visit = visiting(web)
    visit.answer(f"/v1/{path}", {"error": "busy"}, 429)
    visit.open().translate(LINES[0]).page.click(act)
    assert "The server is busy." in notice(visit)
    assert visit.page.is_hidden("#choices")
    assert visit.page.evaluate("document.activeElement.dataset.spot ?? document.activeElement.id") == back
    visit.page.unroute(f"**/v1/{path}")
    visit.page.click("#notice button")
    visit.page.wait_for_selector("#view[open], #choices [role=listbox]")


def test_attention_that_is_refused_while_pointing(visiting: Visiting, web: Server) -> None:
    visit = visiting(web)
    visit.answer("/v1/attention", {"error": "busy"}, 429)
    visit.open().translate(LINES[0]).page.locator(WORDS).first.hover()
    visit.until("document.getElementById('word').textContent.includes('The server is busy.')")
    visit.page.unroute("**/v1/attention")
    visit.page.locator(WORDS).nth(1).hover()
    visit.page.wait_for_selector("#mirror .seen")


def test_the_key(visiting: Visiting, locked: Server) -> None:
    visit = visiting(locked)
    visit.refusals = True
    page = visit.open().page
    assert page.is_visible("#secret")
    assert page.get_attribute("#secret", "type") == "password"
    page.fill("#text", LINES[0])
    assert "This server asks for an API key. Type it in the field “API key” above." in notice(visit)
    page.fill("#secret", "wrong")
    page.click("#unlock")
    visit.until("document.getElementById('notice').textContent.includes('not valid')")
    page.fill("#secret", "open-sesame")
    page.press("#secret", "Enter")
    page.wait_for_selector(WORDS)
    assert page.locator("#notice > *").count() == 0
    assert page.is_hidden("#key")
    assert page.evaluate("document.activeElement.id") == "text"
    page.locator(WORDS).first.click()
    page.wait_for_selector("#choices [role=listbox]")
    # It is kept in this tab alone: over a reload, in sessionStorage and nowhere else.
    assert page.evaluate("[JSON.stringify(sessionStorage), localStorage.length, document.cookie]") == [
        '{"dragoman.key":"open-sesame"}',
        0,
        "",
    ]
    assert not [url for url in visit.asked if "sesame" in url]
    page.reload()
    page.wait_for_selector("#source option", state="attached")
    visit.translate(LINES[1])
    other = page.context.new_page()
    other.goto(visit.base)
    assert other.evaluate("sessionStorage.length") == 0
    assert not any("sesame" in line for line in locked.log)


def test_a_proxy_that_asks_for_a_key(visiting: Visiting, web: Server) -> None:
    visit = visiting(web)
    visit.answer("/v1/translate", {"error": "who are you?"}, 401)
    page = visit.open().page
    assert page.is_hidden("#key")
    page.fill("#text", LINES[0])
    assert "asks for an API key. Who are you?" in notice(visit)
    assert page.is_visible("#secret")


def test_nothing_typed_becomes_markup(visiting: Visiting, web: Server) -> None:
    visit = visiting(web).open().translate(NASTY[:60])
    visit.page.locator(WORDS).first.click()
    visit.page.wait_for_selector("#choices [role=listbox]")
    visit.page.keyboard.press("Escape")
    for name in ("attention", "replay"):
        visit.page.click(f"#{name}")
        visit.page.wait_for_selector("#view[open]")
        assert NASTY[:28] in visit.page.inner_text("#inside")
        visit.page.keyboard.press("Escape")
    assert visit.page.locator("main img, main script").count() == 0


def test_nothing_that_the_server_says_becomes_markup(visiting: Visiting, web: Server) -> None:
    """Names of models, translations and errors are text."""
    visit = visiting(web)
    model = {"name": NASTY, "source": "en", "source_name": NASTY, "target": "de", "target_name": NASTY}
    decode = {"beam_size": 3}
    visit.answer("/v1/models", [{**model, "decode": decode}, {**model, "name": NASTY + "2", "decode": decode}])
    answer = answer_of(NASTY, model=NASTY, target=NASTY, source=NASTY)
    answer["detected"] = {"language": NASTY, "confidence": 100.0}
    visit.answer("/v1/translate", stream_of(answer, NASTY), **{"Content-Type": "text/event-stream"})
    visit.answer("/v1/alternatives", {"model": NASTY, "alternatives": [{**answer["translations"][0]["sentences"][0]}]})
    visit.answer("/v1/attention", {"error": NASTY}, 400)
    visit.open().page.fill("#text", "x")
    visit.page.wait_for_selector(WORDS)
    assert visit.text() == NASTY
    assert NASTY in str(visit.page.text_content("#about"))
    assert visit.page.locator("#model option").first.text_content() == NASTY
    visit.page.locator(WORDS).first.click()
    visit.page.wait_for_selector("#choices [role=listbox]")
    assert visit.page.inner_text("#choices strong") == NASTY.split()[0]
    visit.page.keyboard.press("Escape")
    visit.page.click("#attention")
    assert NASTY in notice(visit)
    assert visit.page.locator("main img, main script").count() == 0
