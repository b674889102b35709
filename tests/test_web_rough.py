"""The web page in a browser under what is hard: refusals at the keyboard, what stands between it and the server, texts
without spaces or from the right, characters that are being composed, a server of one model alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browsing import WORDS, Visit, answer_of, stream_of
from bundles import LINES
from serving import Server, serving

pytestmark = pytest.mark.browser

Visiting = Callable[..., Visit]
EVENTS = {"Content-Type": "text/event-stream"}
# No line of a telephone holds it.
WIDE = "x" * 400
PORTAL = "<!doctype html><title>Sign in</title><p>Sign in to this network."


@pytest.fixture(scope="module")
def alone(web_models: Path) -> Iterator[Server]:
    """A server of one model, which translates one way."""
    with serving(web_models / "first") as running:
        yield running
        assert not any("Traceback" in line for line in running.log), running.log


def notice(visit: Visit) -> str:
    visit.page.wait_for_selector("#notice p")
    return visit.page.inner_text("#notice p")


def asked(visit: Visit, path: str) -> int:
    return len([url for url in visit.asked if url.endswith(path)])


def active(visit: Visit) -> str:
    return str(visit.page.evaluate("document.activeElement.dataset.spot ?? document.activeElement.id"))


# between the page and the server


def test_a_proxy_asks_for_a_key_before_anything_else(visiting: Visiting, web: Server) -> None:
    """The page has a field for it at once, sends it with every request, and begins when it is right."""
    visit = visiting(web)
    visit.refusals = True

    def guard(route: Any) -> None:
        if route.request.headers.get("x-api-key") == "sesame":
            route.continue_()
        else:
            route.fulfill(status=401, json={"error": "who are you?"})

    for path in ("v1", "frontend"):
        visit.page.route(f"**/{path}/**", guard)
    page = visit.page
    page.goto(visit.base)
    assert notice(visit) == "This server asks for an API key. Who are you?"
    assert page.is_visible("#secret")
    page.fill("#secret", "wrong")
    page.press("#secret", "Enter")
    page.wait_for_timeout(300)
    assert "asks for an API key" in notice(visit)
    page.fill("#text", LINES[0])
    page.fill("#secret", "sesame")
    page.press("#secret", "Enter")
    page.wait_for_selector(WORDS)
    assert page.locator("#notice > *").count() == 0
    assert page.is_hidden("#key")
    # One desk alone: a text is asked for once.
    before = asked(visit, "/v1/translate")
    visit.translate(LINES[1])
    assert asked(visit, "/v1/translate") == before + 1


@pytest.mark.parametrize("path", ["/v1/models", "/frontend/settings"])
@pytest.mark.parametrize(("body", "status"), [(PORTAL, 200), (PORTAL, 404), ("", 200)])
def test_something_else_answers_at_the_beginning(
    visiting: Visiting, web: Server, path: str, body: str, status: int
) -> None:
    visit = visiting(web)
    visit.answer(path, body, status)
    visit.page.goto(visit.base)
    said = notice(visit)
    assert ("cannot be reached" if status == 200 else "refused this") in said
    assert "undefined" not in said
    visit.page.unroute(f"**{path}")
    visit.page.focus("#notice button")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_selector("#source option", state="attached")
    assert active(visit) == "text"
    assert visit.page.locator("#notice > *").count() == 0
    visit.translate(LINES[0])


@pytest.mark.parametrize("body", [PORTAL, "", "event: done\n\n", "event: piece\ndata: {\n\n", ": nothing\n\n"])
def test_something_else_answers_a_translation(visiting: Visiting, web: Server, body: str) -> None:
    visit = visiting(web)
    visit.answer("/v1/translate", body)
    visit.open().page.fill("#text", LINES[0])
    assert "The server cannot be reached." in notice(visit)
    visit.page.unroute("**/v1/translate")
    visit.page.click("#notice button")
    visit.page.wait_for_selector(WORDS)


@pytest.mark.parametrize(("path", "act"), [("alternatives", f"{WORDS} >> nth=1"), ("replay", "#replay")])
def test_something_else_answers_a_look(visiting: Visiting, web: Server, path: str, act: str) -> None:
    visit = visiting(web)
    visit.answer(f"/v1/{path}", PORTAL)
    visit.open().translate(LINES[0]).page.click(act)
    assert "The server cannot be reached." in notice(visit)
    assert visit.page.locator("#view[open]").count() == 0


def test_a_fault_of_the_page_is_not_hidden(visiting: Visiting, web: Server) -> None:
    visit = visiting(web)
    visit.answer("/v1/replay", {"nothing": "of a search"})
    visit.open().translate(LINES[0]).page.click("#replay")
    visit.page.wait_for_timeout(500)
    assert len(visit.wrong) == 1
    assert visit.page.locator("#notice > *, #view[open]").count() == 0
    visit.wrong.clear()


# refusals at the keyboard


@pytest.mark.parametrize(
    ("path", "act", "back"),
    [
        ("alternatives", f"{WORDS} >> nth=1", "1"),
        ("attention", "#attention", "attention"),
        ("replay", "#replay", "replay"),
    ],
)
def test_trying_again_keeps_the_place(visiting: Visiting, web: Server, path: str, act: str, back: str) -> None:
    """The button that is gone leaves the focus where the question came from, and so does what it opens."""
    visit = visiting(web)
    visit.answer(f"/v1/{path}", {"error": "busy"}, 429)
    page = visit.open().translate(LINES[0]).page
    page.focus(act)
    page.keyboard.press("Enter")
    notice(visit)
    page.focus("#notice button")
    page.keyboard.press("Enter")
    visit.until("document.querySelector('#notice p')")
    # Refused again: it still knows the place.
    page.wait_for_timeout(200)
    page.focus("#notice button")
    page.unroute(f"**/v1/{path}")
    page.keyboard.press("Enter")
    page.wait_for_selector("#view[open], #choices [role=listbox]")
    page.keyboard.press("Escape")
    assert active(visit) == back


def test_trying_a_translation_again_goes_back_to_the_text(visiting: Visiting, web: Server) -> None:
    visit = visiting(web)
    visit.answer("/v1/translate", {"error": "busy"}, 429)
    page = visit.open().page
    page.type("#text", LINES[0])
    notice(visit)
    page.unroute("**/v1/translate")
    page.focus("#notice button")
    page.keyboard.press("Enter")
    assert active(visit) == "text"
    page.wait_for_selector(WORDS)
    assert active(visit) == "text"


def test_the_last_sentence_leaves_no_dead_end(visiting: Visiting, web: Server) -> None:
    """A button that is switched off at the end hands the focus to the other one."""
    visit = visiting(web).open().translate("Nobody found the key. Our neighbour paints.")
    page = visit.page
    page.focus("#on")
    page.keyboard.press("Enter")
    assert (page.text_content("#beside-title"), active(visit)) == ("Sentence 2 of 2", "back")
    page.keyboard.press("Enter")
    assert (page.text_content("#beside-title"), active(visit)) == ("Sentence 1 of 2", "on")


@pytest.mark.parametrize(("status", "times"), [(413, 1), (400, 1), (429, 3), (504, 3)])
def test_what_is_refused_for_good_is_asked_once(visiting: Visiting, web: Server, status: int, times: int) -> None:
    visit = visiting(web)
    visit.answer("/v1/attention", {"error": "not this."}, status)
    visit.open().translate(LINES[2])
    for n in range(3):
        visit.page.locator(WORDS).nth(n).hover()
        visit.until("document.getElementById('word').textContent.includes('is not known')")
        visit.page.hover("h1")
        visit.until("document.getElementById('word').textContent === ''")
    assert asked(visit, "/v1/attention") == times


# texts


@pytest.mark.parametrize("width", [360, 320])
def test_words_that_no_line_holds(visiting: Visiting, web: Server, width: int) -> None:
    """Nothing goes beyond the window, wherever a text without spaces stands."""
    visit = visiting(web, viewport={"width": width, "height": 740})
    answer = answer_of(f"{WIDE} {WIDE}", model="m" * 100)
    sentence = answer["translations"][0]["sentences"][0]
    sentence["source"] = WIDE
    sentence["alternatives"] = [{**sentence, "text": f"{WIDE} y"}]
    visit.answer("/v1/translate", stream_of(answer), **EVENTS)
    visit.answer("/v1/alternatives", {"model": "m", "alternatives": [sentence, {**sentence, "text": f"{WIDE}y"}]})
    visit.answer("/v1/attention", {"error": WIDE}, 400)
    page = visit.open().page
    page.fill("#text", WIDE)
    page.wait_for_selector(WORDS)
    page.focus(WORDS)
    visit.until("document.getElementById('word').textContent.includes('is not known')")
    visit.picture(f"wide-words-{width}")
    assert visit.fits()
    assert page.evaluate("text.scrollHeight <= text.clientHeight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices [role=listbox]")
    assert visit.fits()
    assert page.evaluate("choices.scrollWidth <= choices.clientWidth")
    page.keyboard.press("Escape")
    page.click("#attention")
    assert WIDE.upper()[:1] + WIDE[1:] in notice(visit)
    assert visit.fits()
    assert not visit.violations()


def test_a_long_translation_is_not_read_out(visiting: Visiting, web: Server) -> None:
    text = " ".join([LINES[0]] * 30)
    visit = visiting(web).open()
    visit.page.fill("#text", text)
    visit.page.click("button.main")
    visit.page.wait_for_selector(WORDS)
    assert len(visit.text()) > 500
    assert visit.page.text_content("#news") == f"Translated: 30 sentences, {len(visit.text()):,} characters."
    visit.translate(LINES[0])
    assert visit.page.text_content("#news") == visit.text()


def test_writing_directions_beside_each_other(visiting: Visiting, web: Server) -> None:
    """Each sentence goes its own way, on the screen as with the arrow keys."""
    arabic = "القطة تنام على الكرسي"
    answer = answer_of("A cat sleeps")
    first = answer["translations"][0]["sentences"][0]
    second = {**answer_of(arabic)["translations"][0]["sentences"][0], "source": arabic}
    second["alternatives"] = [{**second, "text": "الكرسي"}]
    answer["translations"][0]["sentences"] = [{**first, "source": "x", "after": "\n"}, second]
    visit = visiting(web)
    visit.answer("/v1/translate", stream_of(answer), **EVENTS)
    visit.answer("/v1/attention", {"error": "none"}, 400)
    visit.answer("/v1/alternatives", {"model": "m", "alternatives": [second]})
    page = visit.open().page
    page.fill("#text", f"x\n{arabic}")
    page.wait_for_selector(WORDS)
    page.focus(WORDS)
    for key, spot in (("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowDown", 3), ("ArrowLeft", 4), ("ArrowRight", 3)):
        page.keyboard.press(key)
        assert active(visit) == str(spot), key
    boxes = [page.locator(WORDS).nth(n).bounding_box() for n in (0, 1, 3, 4)]
    places = [box["x"] for box in boxes if box is not None]
    assert places[0] < places[1]
    assert places[2] > places[3]
    # The sentence by itself, its translations and the list of others.
    for selector in ("#sentence", "#found bdi", "#choices bdi"):
        if selector == "#choices bdi":
            page.keyboard.press("Enter")
            page.wait_for_selector("#choices [role=listbox]")
        assert set(visit.styles(selector, "direction")) == {"rtl"}, selector
    page.keyboard.press("Escape")
    page.fill("#text", arabic)
    assert visit.styles("#text", "direction") == visit.styles("#mirror", "direction") == ["rtl"]


def test_letters_on_the_way_to_a_character_are_no_text(visiting: Visiting, web: Server) -> None:
    """Chinese and the like are typed in letters first; what is sent is what comes of them."""
    visit = visiting(web).open()
    page = visit.page
    composing = """([text, kind]) => {
      const field = document.getElementById("text");
      field.value = text;
      field.dispatchEvent(kind === "end" ? new CompositionEvent("compositionend", { bubbles: true })
        : new InputEvent("input", { bubbles: true, isComposing: true }));
    }"""
    for letters in ("m", "ma", "mao"):
        page.evaluate(composing, [letters, "input"])
    page.wait_for_timeout(1000)
    assert asked(visit, "/v1/translate") == 0
    assert page.text_content("#mirror") == "mao\u200b"
    page.evaluate(composing, ["key", "end"])
    page.wait_for_selector(WORDS)
    assert asked(visit, "/v1/translate") == 1


# one model, one way


def test_one_model_of_one_direction(visiting: Visiting, alone: Server) -> None:
    visit = visiting(alone).open()
    page = visit.page
    assert page.locator("#source option").all_inner_texts() == ["English"]
    assert page.locator("#target option").all_inner_texts() == ["German"]
    assert page.is_hidden("#models")
    assert page.is_disabled("#swap")
    assert page.get_attribute("#swap", "title") == "No model here translates the other way"
    assert not visit.violations()
    # The keyboard passes by what cannot be used.
    page.focus("#theme")
    stops = []
    for _ in range(4):
        page.keyboard.press("Tab")
        stops.append(active(visit))
    assert stops == ["source", "target", "beam", "text"]
    page.keyboard.type(LINES[0])
    page.wait_for_selector(WORDS)
    assert page.get_attribute("#result", "lang") == "de"
    page.keyboard.press("Tab")
    assert active(visit) == "clear"


def test_a_way_back_has_no_excuse(visiting: Visiting, web: Server) -> None:
    visit = visiting(web).open()
    assert visit.page.is_enabled("#swap")
    assert not visit.page.get_attribute("#swap", "title")
    visit.page.select_option("#source", "auto")
    assert visit.page.is_disabled("#swap")
    assert not visit.page.get_attribute("#swap", "title")


def test_the_text_says_how_long_it_may_be(visiting: Visiting, web: Server) -> None:
    page = visiting(web).open().page
    ids = str(page.get_attribute("#text", "aria-describedby")).split()
    assert " ".join(str(page.text_content(f"#{one}")) for one in ids) == "0 of 2,000 characters"
