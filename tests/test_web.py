"""The web page in a browser: from a text to its translation."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from math import exp
from pathlib import Path

import pytest

from browsing import WORDS, Visit, answer_of, stream_of
from bundles import LINES
from dragoman import Translator
from serving import Server

pytestmark = pytest.mark.browser

Visiting = Callable[..., Visit]
DOCUMENT = "  Nobody found the key. Our neighbour paints.\n\n\tA cold wind blows!\n"


@pytest.fixture(scope="module")
def translator(web_models: Path) -> Translator:
    return Translator.load(web_models / "first", device="cpu")


def test_a_text_is_translated_as_it_is_typed(visiting: Visiting, web: Server, translator: Translator) -> None:
    visit = visiting(web).open()
    assert visit.page.text_content("#count") == "0 of 2,000"
    visit.page.type("#text", LINES[0])
    visit.page.wait_for_selector(WORDS)
    assert visit.text() == translator.translate(LINES[0]).text
    assert visit.page.text_content("#count") == f"{len(LINES[0])} of 2,000"
    assert visit.page.text_content("#news") == visit.text()
    assert visit.page.get_attribute("#news span", "lang") == "de"
    assert "en-de" in str(visit.page.text_content("#about"))
    visit.page.click("#clear")
    assert visit.text() == ""
    assert visit.focused() == "text"
    assert visit.page.is_disabled("#copy")


def test_it_shows_while_it_is_made(visiting: Visiting, web: Server, translator: Translator) -> None:
    visit = visiting(web)
    visit.page.add_init_script(
        """addEventListener("DOMContentLoaded", () => {
          window.stages = [];
          const result = document.getElementById("result");
          const watch = new MutationObserver(() => stages.push(result.textContent));
          watch.observe(result, { childList: true, subtree: true });
        });"""
    )
    visit.open().page.select_option("#beam", "1")
    visit.translate(LINES[2])
    expected = translator.translate(LINES[2], beam_size=1).text
    stages = list(dict.fromkeys(stage for stage in visit.page.evaluate("stages") if stage))
    assert len(stages) > 4
    assert stages[-1] == expected
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(stages))


def test_words_are_shaded_by_confidence(visiting: Visiting, web: Server, translator: Translator) -> None:
    visit = visiting(web).open().translate(LINES[2])
    found = translator.translate(LINES[2]).words
    expected = [
        "4" if one >= 0.9 else "3" if one >= 0.7 else "2" if one >= 0.4 else "1"
        for one in (exp(logprob) for _, logprob in found)
    ]
    words = visit.page.locator(WORDS)
    assert [words.nth(n).get_attribute("data-sure") for n in range(words.count())] == expected
    assert visit.words() == [text for text, _ in found]


def test_each_shade_has_a_line_and_a_name(visiting: Visiting, web: Server) -> None:
    """The level is told to those who do not see it, and shown by a line as well as a colour."""
    visit = visiting(web)
    answer = answer_of("a b c d e f g")
    levels = {0.95: 4, 0.9: 4, 0.89: 3, 0.7: 3, 0.69: 2, 0.4: 2, 0.39: 1}
    for word, confidence in zip(answer["translations"][0]["sentences"][0]["words"], levels, strict=True):
        word["confidence"] = confidence
    visit.answer("/v1/translate", stream_of(answer), **{"Content-Type": "text/event-stream"})
    visit.open().page.fill("#text", "x")
    visit.page.wait_for_selector(WORDS)
    names = {4: "sure", 3: "likely", 2: "unsure", 1: "a guess"}
    lines = {4: "none", 3: "underline dotted", 2: "underline dashed", 1: "underline double"}
    shades = set()
    for n, level in enumerate(levels.values()):
        word = visit.page.locator(WORDS).nth(n)
        assert visit.page.text_content(f"#{word.get_attribute('aria-describedby')}") == names[level]
        style = word.evaluate(
            "word => (({ textDecorationLine: line, textDecorationStyle: style, backgroundColor: back }) =>"
            " [line === 'none' ? line : `${line} ${style}`, back])(getComputedStyle(word))"
        )
        assert style[0] == lines[level]
        shades.add(style[1])
    assert len(shades) == 4


def test_documents_keep_their_white_space(visiting: Visiting, web: Server, translator: Translator) -> None:
    visit = visiting(web).open().translate(DOCUMENT)
    assert visit.text() == translator.translate_document(DOCUMENT)
    assert visit.page.locator("#result .sentence").count() == 3
    assert visit.page.text_content("#beside-title") == "Sentence 1 of 3"
    visit.page.click("#on")
    assert visit.page.text_content("#sentence") == "Our neighbour paints."
    assert visit.page.text_content("#mirror .current") == "Our neighbour paints."
    assert visit.page.locator("#result .sentence").nth(1).get_attribute("class") == "sentence current"
    visit.page.click("#on")
    assert visit.page.is_disabled("#on")
    assert visit.page.text_content("#mirror .current") == "A cold wind blows!"
    visit.page.click("#back")
    assert visit.page.text_content("#sentence") == "Our neighbour paints."


def test_the_mirror_lies_under_the_text(visiting: Visiting, web: Server) -> None:
    """Shades are under the words they mean: both have the same text, type, width and height."""
    text = DOCUMENT + f"{LINES[2]}\n" * 8
    visit = visiting(web, viewport={"width": 400, "height": 800}).open().translate(text)
    styles = [
        "fontSize",
        "lineHeight",
        "fontFamily",
        "paddingLeft",
        "paddingTop",
        "width",
        "whiteSpace",
        "letterSpacing",
    ]
    boxes = [
        visit.page.locator(name).evaluate(
            "(one, styles) => [styles.map(style => getComputedStyle(one)[style]), one.getBoundingClientRect()]",
            styles,
        )
        for name in ("#mirror", "#text")
    ]
    assert boxes[0] == boxes[1]
    assert visit.page.text_content("#mirror") == text + "\u200b"
    assert visit.page.evaluate("text.scrollHeight <= text.clientHeight")


def test_translations_that_the_search_found(visiting: Visiting, web: Server, translator: Translator) -> None:
    visit = visiting(web).open().translate(LINES[2])
    best = translator.translate(LINES[2], n_best=4)
    wordings = [best.text, *(one.text for one in best.alternatives)]
    rows = visit.page.locator("#found .row")
    assert rows.locator("bdi").all_inner_texts() == wordings
    assert rows.first.locator("bdi").get_attribute("lang") == "de"
    scores = [
        float(re.sub("[^0-9.-]", "", text.replace("−", "-"))) for text in rows.locator(".quiet").all_inner_texts()
    ]
    assert scores == pytest.approx([best.score, *(one.score for one in best.alternatives)], abs=6e-4)
    rows.nth(2).click()
    assert visit.text() == wordings[2]
    assert visit.page.text_content("#news") == wordings[2]
    visit.page.keyboard.press("ArrowUp")  # the focus stays on the chosen one
    assert visit.text() == wordings[1]
    visit.page.select_option("#beam", "2")
    visit.until("document.querySelectorAll('#found .row').length === 2")


def test_copy(visiting: Visiting, web: Server) -> None:
    visit = visiting(web, permissions=["clipboard-read", "clipboard-write"]).open().translate(DOCUMENT)
    visit.page.click("#copy")
    visit.until("document.getElementById('news').textContent === 'Copied.'")
    assert visit.page.evaluate("navigator.clipboard.readText()") == visit.text()


def test_copy_without_a_clipboard(visiting: Visiting, web: Server) -> None:
    """At a plain http address of another machine, pages have no clipboard."""
    visit = visiting(web)
    visit.page.add_init_script(
        """Object.defineProperty(navigator, "clipboard", { value: undefined });
        document.addEventListener("copy", () => { window.copied = document.activeElement.value; });"""
    )
    visit.open().translate(LINES[0]).page.click("#copy")
    visit.until("document.getElementById('news').textContent === 'Copied.'")
    assert visit.page.evaluate("copied") == visit.text()
    assert visit.focused() == "copy"


def test_languages_and_models(visiting: Visiting, web: Server, web_models: Path) -> None:
    visit = visiting(web).open()
    page = visit.page
    assert page.locator("#source option").all_inner_texts() == ["English", "German", "Detect language"]
    assert page.locator("#target option").all_inner_texts() == ["German"]
    assert page.locator("#model option").all_inner_texts() == ["en-de", "second"]
    visit.translate(LINES[0])
    page.select_option("#model", "second")
    visit.until("document.querySelector('#about').textContent.includes('second')")
    assert visit.text() == Translator.load(web_models / "second", device="cpu").translate(LINES[0]).text
    assert page.get_attribute("#text", "lang") == "en"
    page.select_option("#source", "auto")
    assert page.locator("#target option").all_inner_texts() == ["German", "English"]
    assert page.is_hidden("#models")
    assert page.is_disabled("#swap")
    page.select_option("#target", "en")
    visit.translate("Niemand hat den zweiten Schlüssel gefunden.")
    assert "detected German (" in str(page.text_content("#about"))
    assert page.get_attribute("#text", "lang") == "de"
    assert page.get_attribute("#result", "lang") == "en"


def test_swap(visiting: Visiting, web: Server, web_models: Path) -> None:
    visit = visiting(web).open().translate(LINES[0])
    there = visit.text()
    visit.page.click("#swap")
    assert visit.page.input_value("#text") == there
    assert (visit.page.input_value("#source"), visit.page.input_value("#target")) == ("de", "en")
    visit.until("document.querySelector('#about').textContent.includes('de-en')")
    back = Translator.load(web_models / "back", device="cpu").translate_document(there)
    assert visit.text() == back


def test_a_later_text_wins(visiting: Visiting, web: Server, translator: Translator) -> None:
    """The answer to an earlier text, however late, is not shown; its request is given up."""
    visit = visiting(web).open()
    held = []
    visit.page.route("**/v1/translate", lambda route: held.append(route) if not held else route.continue_())
    visit.page.fill("#text", LINES[0])
    visit.until("document.getElementById('result').ariaBusy === 'true'")
    with visit.page.expect_event("requestfailed", lambda request: LINES[0] in (request.post_data or "")):
        visit.page.fill("#text", LINES[2])
    visit.page.wait_for_selector(WORDS)
    assert visit.text() == translator.translate(LINES[2]).text


def test_below_a_path_of_a_proxy(visiting: Visiting, web: Server, translator: Translator) -> None:
    visit = visiting(web)
    visit.page.route(
        "**/*", lambda route: route.fulfill(response=route.fetch(url=route.request.url.replace("/a/b", "")))
    )
    visit.page.goto(f"{visit.base}a/b/")
    visit.page.wait_for_selector("#source option", state="attached")
    visit.translate(LINES[0])
    assert visit.text() == translator.translate(LINES[0]).text
    visit.page.click("#attention")
    visit.page.wait_for_selector("#view[open] .map")
    assert len(visit.asked) > 30
    assert all(url.startswith(f"{visit.base}a/b/") for url in visit.asked)


def test_long_texts_wait_for_the_button(visiting: Visiting, web: Server) -> None:
    visit = visiting(web).open()
    long = "\n".join(LINES[:5] * 8)
    assert 1000 < len(long) < 2000
    visit.page.fill("#text", long)
    visit.page.wait_for_timeout(1000)
    assert not [url for url in visit.asked if url.endswith("/v1/translate")]
    visit.page.press("#text", "Control+Enter")
    visit.page.wait_for_selector(WORDS)
    assert visit.page.text_content("#beside-title") == "Sentence 1 of 40"


def test_what_was_changed_is_marked_as_old(visiting: Visiting, web: Server) -> None:
    visit = visiting(web).open().translate(LINES[0])
    visit.page.type("#text", " More")
    assert visit.page.locator("#result.stale").count() == 1
    visit.page.wait_for_selector("#result:not(.stale)")
    # Blank text has nothing to translate.
    visit.page.fill("#text", "  \n ")
    assert visit.text() == ""
    assert visit.page.is_hidden("#beside")


@pytest.mark.parametrize(
    ("text", "code", "direction"),
    [("القطة تنام على الكرسي", "ar", "rtl"), ("猫在椅子上睡觉。", "zh", "ltr"), ("החתול ישן sleeps", "he", "rtl")],
)
def test_every_writing_direction(visiting: Visiting, web: Server, text: str, code: str, direction: str) -> None:
    visit = visiting(web)
    answer = answer_of(text, target=code)
    visit.answer("/v1/translate", stream_of(answer, text), **{"Content-Type": "text/event-stream"})
    visit.answer("/v1/attention", {"error": "none"}, 400)
    visit.open().page.fill("#text", "x")
    visit.page.wait_for_selector(WORDS)
    assert visit.page.get_attribute("#result", "lang") == code
    assert visit.page.evaluate("getComputedStyle(result).direction") == direction
    words = visit.words()
    assert words == text.split()
    if len(words) > 1:
        boxes = [visit.page.locator(WORDS).nth(n).bounding_box() for n in range(2)]
        assert boxes[0] is not None
        assert boxes[1] is not None
        assert boxes[1]["x"] < boxes[0]["x"]
        # The arrow that points on goes on.
        visit.page.focus(WORDS)
        visit.page.keyboard.press("ArrowLeft")
        assert visit.focused() == words[1]
        visit.page.keyboard.press("ArrowRight")
        assert visit.focused() == words[0]
