"""The web page in a browser: looking at words, choosing others, looking inside."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsing import WORDS, Visit, answer_of, stream_of
from bundles import LINES
from dragoman import Translator
from serving import Server

pytestmark = pytest.mark.browser

Visiting = Callable[..., Visit]
TEXT = "Nobody found the key. Our neighbour paints her fence green."
SECOND = "Our neighbour paints her fence green."
OPTION = "#choices [role=option]"


@pytest.fixture(scope="module")
def translator(web_models: Path) -> Translator:
    return Translator.load(web_models / "first", device="cpu")


def place(visit: Visit, sentence: int, word: int) -> int:
    """The number among all words of one of a sentence."""
    return (
        int(
            visit.page.evaluate(
                "sentence => [...document.querySelectorAll('#result .sure')].findIndex("
                "one => one.closest('.sentence') === document.querySelectorAll('#result .sentence')[sentence])",
                sentence,
            )
        )
        + word
    )


def opened(visit: Visit, number: int) -> list[str]:
    """Click a word; what the list of others says."""
    visit.page.locator(WORDS).nth(number).click()
    visit.page.wait_for_selector("#choices [role=listbox]")
    return [str(text) for text in visit.page.locator(f"{OPTION} strong").all_inner_texts()]


def test_another_word_is_chosen_and_the_rest_follows(visiting: Visiting, web: Server, translator: Translator) -> None:
    visit = visiting(web).open().translate(TEXT)
    first, second = translator.translate(["Nobody found the key.", SECOND])
    number = place(visit, 1, 1)
    head = before(second.text, [text for text, _ in second.words], 1)
    others = translator.alternatives(SECOND, head, n=7)
    shown = opened(visit, number)
    assert len(shown) == len(others) > 3
    assert visit.page.text_content("#beside-title") == "Sentence 2 of 2"
    assert visit.page.get_attribute(WORDS + f" >> nth={number}", "aria-expanded") == "true"
    rows = visit.page.locator(OPTION)
    for n, other in enumerate(others):
        assert (shown[n] + str(rows.nth(n).locator(".quiet").text_content())).rstrip("…") in other.text
        assert rows.nth(n).get_attribute("aria-selected") == str(other.text == second.text).lower()
    chosen = next(n for n, other in enumerate(others) if other.text not in (second.text, ""))
    rows.nth(chosen).click()
    assert visit.text() == f"{first.text} {others[chosen].text}"
    assert visit.page.is_hidden("#choices")
    assert visit.page.text_content("#news") == others[chosen].text
    # It stands among the translations of the sentence, and from there the first comes back.
    rows = visit.page.locator("#found .row")
    assert rows.locator("bdi").last.inner_text() == others[chosen].text
    assert "your choice" in rows.last.inner_text()
    assert rows.last.locator("input").is_checked()
    rows.first.click()
    assert visit.text() == f"{first.text} {second.text}"


def before(text: str, words: list[str], number: int) -> str:
    """What stands in a text before one of its words."""
    at = 0
    for word in words[:number]:
        at = text.index(word, at) + len(word)
    return text[: text.index(words[number], at)]


def test_choices_one_after_the_other(visiting: Visiting, web: Server, translator: Translator) -> None:
    """What was chosen stays while a later word is chosen."""
    visit = visiting(web).open().translate(SECOND)
    first = translator.translate(SECOND).text
    firsts = translator.alternatives(SECOND, "", n=7)
    opened(visit, 0)
    long = next(n for n, one in enumerate(firsts) if one.text != first and len(one.words) > 3)
    visit.page.locator(OPTION).nth(long).click()
    kept, text = visit.words(), visit.text()
    others = translator.alternatives(SECOND, before(text, kept, 2), n=7)
    opened(visit, 2)
    other = next(n for n, one in enumerate(others) if one.text not in (first, text))
    visit.page.locator(OPTION).nth(other).click()
    assert visit.words()[:2] == kept[:2]
    assert visit.text() == others[other].text
    assert visit.page.locator("#found .row").count() == 6


def test_with_the_keyboard_alone(visiting: Visiting, web: Server) -> None:
    visit = visiting(web).open()
    page, press = visit.page, visit.page.keyboard.press
    # To the text by the Tab key, through everything before it.
    reached = []
    while not reached or reached[-1] != "text":
        press("Tab")
        reached.append(visit.focused())
        assert len(reached) < 12, reached
    assert reached == ["Interface", "theme", "source", "swap", "target", "model", "beam", "text"]
    page.keyboard.type(TEXT)
    page.wait_for_selector(WORDS)
    words = visit.words()
    for expected in ("clear", "Translate", words[0]):
        press("Tab")
        assert visit.focused() == expected
    for key, expected in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", len(words) - 1), ("Home", 0)):
        press(key)
        assert page.evaluate("document.activeElement.dataset.spot") == str(expected)
    press("ArrowLeft")  # there is nothing before the first
    assert page.evaluate("document.activeElement.dataset.spot") == "0"
    press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.spot") == str(place(visit, 1, 0))
    assert page.text_content("#beside-title") == "Sentence 2 of 2"
    outline = page.evaluate("getComputedStyle(document.activeElement).outline")
    assert "solid" in outline
    assert "0px" not in outline
    # Escape leaves everything as it was, with the focus on the word.
    before = visit.text()
    press("Enter")
    page.wait_for_selector("#choices [role=listbox]")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "listbox"
    press("ArrowDown")
    press("Escape")
    assert page.is_hidden("#choices")
    assert page.evaluate("document.activeElement.dataset.spot") == str(place(visit, 1, 0))
    assert visit.text() == before
    # The list: arrows, ends, and Enter.
    press("Space")
    page.wait_for_selector("#choices [role=listbox]")
    count = page.locator(OPTION).count()
    steps = [("Home", 0), ("ArrowUp", 0), ("ArrowDown", 1), ("End", count - 1), ("ArrowDown", count - 1), ("Home", 0)]
    for key, expected in steps:
        press(key)
        assert page.get_attribute("#choices [role=listbox]", "aria-activedescendant") == f"choice-{expected}"
    press("ArrowDown")
    wanted = str(page.text_content(f"{OPTION} >> nth=1 >> strong"))
    press("Enter")
    number = place(visit, 1, 0)
    assert visit.words()[number] == wanted
    assert page.evaluate("document.activeElement.dataset.spot") == str(number)
    # On to the sentence, the translations found, and the views, where Escape comes back to the button.
    for expected in ("copy", "back"):
        press("Tab")
        assert visit.focused() == expected
    for _ in range(2):
        press("Tab")
    assert visit.focused() == "attention"
    press("Enter")
    page.wait_for_selector("#view[open] canvas")
    press("Escape")
    assert page.locator("#view[open]").count() == 0
    assert visit.focused() == "attention"


def test_tab_and_clicks_elsewhere_close_the_list(visiting: Visiting, web: Server) -> None:
    visit = visiting(web).open().translate(SECOND)
    opened(visit, 1)
    visit.page.keyboard.press("Tab")
    assert visit.page.is_hidden("#choices")
    opened(visit, 1)
    visit.page.click("h1")
    assert visit.page.is_hidden("#choices")
    assert visit.page.locator("[aria-expanded]").count() == 0
    # Marking text with the mouse opens nothing.
    visit.page.evaluate("getSelection().selectAllChildren(result)")
    visit.page.locator(WORDS).first.dispatch_event("click")
    assert visit.page.is_hidden("#choices")


def test_going_on_while_the_list_is_awaited(visiting: Visiting, web: Server) -> None:
    """A list that comes late does not take the focus from the word that it has gone on to."""
    visit = visiting(web).open().translate(SECOND)
    held: list[Any] = []
    visit.page.route("**/v1/alternatives", lambda route: held.append(route))
    visit.page.focus(WORDS)
    visit.page.keyboard.press("Enter")
    assert visit.page.inner_text("#choices") == "Looking for other words …"
    visit.page.keyboard.press("ArrowRight")
    assert visit.page.is_hidden("#choices")
    with visit.page.expect_response("**/v1/alternatives"):
        held.pop().continue_()
    visit.page.wait_for_timeout(200)
    assert visit.page.is_hidden("#choices")
    assert visit.page.evaluate("document.activeElement.dataset.spot") == "1"


def shares(translator: Translator, source: str, word: str) -> dict[str, float]:
    """The share of source attention of each word of the source, for a word of the translation that is there once."""
    found = translator.force(source, translator.translate(source).text, attention=True)
    assert found.attention is not None
    weights = np.mean([layer.numpy() for layer in found.attention.cross], axis=(0, 1))
    rows = weights[[n for n, token in enumerate(found.tokens) if token.strip("▁") == word]]
    assert len(rows) == 1
    spread: dict[str, float] = {}
    for token, weight in zip(found.src_tokens[:-1], rows[0], strict=False):
        if token.startswith("▁") or not token.isalpha():
            spread[token.strip("▁")] = 0.0
            last = token.strip("▁")
        elif not token.startswith("▁"):
            spread[last + token] = spread.pop(last)
            last += token
        spread[last] += float(weight)
    return spread


def test_a_word_shows_what_it_looked_at(visiting: Visiting, web: Server, translator: Translator) -> None:
    tokens = translator.translate(SECOND).tokens
    words = [text for text, _ in translator.translate(SECOND).words]
    word = next(one for one in words if f"▁{one}" in tokens and words.count(one) == 1 and tokens.count(f"▁{one}") == 1)
    expected = shares(translator, SECOND, word)
    visit = visiting(web).open().translate(SECOND)
    visit.page.locator(WORDS).nth(words.index(word)).hover()
    visit.page.wait_for_selector("#mirror .seen")
    seen = visit.page.evaluate(
        "[...document.querySelectorAll('#mirror .seen')].map(one => [one.textContent, +one.dataset.share])"
    )
    assert [text for text, _ in seen] == list(expected)
    assert [share for _, share in seen] == pytest.approx(list(expected.values()), abs=2e-3)
    top = max(expected, key=lambda one: expected[one])
    assert visit.page.text_content("#mirror .seen[data-line=thick]") == top
    said = str(visit.page.text_content("#word"))
    assert said.startswith(f"{word}: ")
    told = re.search(rf"Looked at {re.escape(top)} ([0-9.]+) %", said)
    assert told, said
    assert float(told[1]) == pytest.approx(100 * expected[top], abs=0.6)
    # Away from the words nothing is marked; the keyboard does the same as the mouse.
    visit.page.hover("h1")
    visit.until("!document.querySelector('#mirror .seen')")
    assert visit.page.text_content("#word") == ""
    visit.page.focus("#copy")
    visit.page.keyboard.press("Shift+Tab")
    visit.page.wait_for_selector("#mirror .seen")
    assert str(visit.page.text_content("#word")).startswith(f"{words[0]}: ")
    # Asked for once.
    assert len([url for url in visit.asked if url.endswith("/v1/attention")]) == 1


def test_marks_lie_in_the_right_sentence(visiting: Visiting, web: Server) -> None:
    text = f"  {LINES[0]}\n\n{SECOND} "
    visit = visiting(web).open().translate(text)
    for sentence, source in enumerate((LINES[0], SECOND)):
        visit.page.locator(WORDS).nth(place(visit, sentence, 2)).hover()
        marked = "[...document.querySelectorAll('#mirror .current:has(.seen)')].map(one => one.textContent).join()"
        visit.until(f"{marked} === '{source}'")
        assert "".join(visit.page.locator("#mirror .seen").all_inner_texts()) == source.replace(" ", "")
        # The mirror holds what the text holds, so the marks are where the words are.
        assert visit.page.text_content("#mirror") == f"{text}\u200b"


def test_the_attention_view(visiting: Visiting, web: Server, translator: Translator) -> None:
    visit = visiting(web).open().translate(TEXT)
    visit.page.click("#on")
    visit.page.click("#attention")
    visit.page.wait_for_selector("#view[open] .map")
    assert visit.page.text_content("#inside h1") == "Where the model looked"
    assert visit.page.locator("#inside .sentences dd").all_inner_texts() == [SECOND, translator.translate(SECOND).text]
    assert visit.page.locator("#inside canvas").count() == 3  # a layer of two heads, and their mean
    assert visit.page.is_visible("#view button:text('Close')")
    assert visit.page.is_hidden("#inside header button")
    visit.page.click("#view button:text('Close')")
    # The browser tells of the closing a moment after it.
    visit.until("document.querySelectorAll('#inside > *').length === 0")
    assert visit.focused() == "attention"


def test_the_attention_of_a_chosen_translation(visiting: Visiting, web: Server) -> None:
    visit = visiting(web).open().translate(SECOND)
    visit.page.locator("#found .row").nth(1).click()
    visit.page.click("#attention")
    visit.page.wait_for_selector("#view[open] .map")
    assert visit.page.locator("#inside .sentences dd").last.inner_text() == visit.text()


def test_the_beam_replay(visiting: Visiting, web: Server, translator: Translator) -> None:
    visit = visiting(web).open().translate(SECOND)
    visit.page.click("#replay")
    visit.page.wait_for_selector("#view[open] svg.tree")
    assert translator.translate(SECOND).text in visit.page.inner_text("#inside")
    assert "keeps 4 hypotheses" in visit.page.inner_text("#inside")
    visit.page.click("#inside button:text-is('Last')")
    assert "The search is over." in visit.page.inner_text("#inside") or "the search is over" in visit.page.inner_text(
        "#inside"
    )
    visit.page.keyboard.press("Escape")
    assert visit.focused() == "replay"
    # With another width, and from a word that was chosen.
    visit.page.select_option("#beam", "2")
    visit.until("document.querySelectorAll('#found .row').length === 2")
    opened(visit, 1)
    chosen = next(n for n in range(7) if visit.page.get_attribute(f"{OPTION} >> nth={n}", "aria-selected") == "false")
    visit.page.locator(OPTION).nth(chosen).click()
    visit.page.click("#replay")
    visit.page.wait_for_selector("#view[open] svg.tree")
    assert "keeps 2 hypotheses" in visit.page.inner_text("#inside")
    assert " ".join(visit.words()[:2]) in visit.page.inner_text("#inside")


def made_up(text: str, source: str, weights: list[list[float]], queries: list[str], keys: list[str]) -> dict[str, Any]:
    """What /v1/attention gives, with one layer of one head."""
    numbers = np.rint(np.array(weights) * 65535).astype("<u2").tobytes()
    words = {"labels": [], "groups": []}
    one = {
        "kind": "cross",
        "queries": queries,
        "keys": keys,
        "layers": 1,
        "heads": 1,
        "query_words": words,
        "key_words": words,
    }
    return {"source": source, "text": text, "maps": [{**one, "weights": base64.b64encode(numbers).decode()}]}


def test_scripts_without_spaces(visiting: Visiting, web: Server) -> None:
    """Words of the source are found by their characters, not by spaces."""
    visit = visiting(web)
    source = "我喜欢猫。"
    answer = answer_of("I like cats", source="zh", target="en")
    answer["translations"][0]["sentences"][0]["source"] = source
    visit.answer("/v1/translate", stream_of(answer), **{"Content-Type": "text/event-stream"})
    weights = [[0.9, 0.1, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0.2, 0.7, 0, 0.1], [0, 0, 0, 0, 1]]
    attention = made_up(
        "I like cats", source, weights, ["▁I", "▁like", "▁cats", "</s>"], ["▁我", "喜欢", "猫", "。", "</s>"]
    )
    visit.answer("/v1/attention", attention)
    visit.open().page.fill("#text", source)
    visit.page.wait_for_selector(WORDS)
    visit.page.locator(WORDS).nth(2).hover()
    visit.page.wait_for_selector("#mirror .seen")
    assert visit.page.text_content("#word") == "cats: 50 % sure. Looked at 猫 70 %, 喜欢 20 %."


def test_places_in_texts(visiting: Visiting, web: Server) -> None:
    visit = visiting(web).open()

    def call(function: str, *arguments: Any) -> Any:
        return visit.page.evaluate(
            "async ([name, given]) => (await import('/static/js/spans.js'))[name](...given)",
            [function, list(arguments)],
        )

    assert call("wordPlaces", "a ab, a", ["a", "ab", ",", "a"]) == [[0, 1], [2, 4], [4, 5], [6, 7]]
    assert call("wordPlaces", "a b", ["a", "x", "b"]) == [[0, 1], None, [2, 3]]
    tokens = ["▁the", "▁", "ÄRG", "er", "▁<unk>", "▁🙂", "�", "!", "</s>"]
    expected = [[0, 3], None, [4, 7], [7, 9], None, [13, 15], None, [15, 16], None]
    assert call("tokenPlaces", "The Ärger 北京 🙂!", tokens) == expected
    assert call("tokenPlaces", "ﬁne Ａ e\u0301", ["▁fi", "ne", "▁a", "▁é"]) == [[0, 1], [1, 3], [4, 5], [6, 8]]
    assert call("segments", "Don't go, 北京!", "en") == [[0, 5], [6, 8], [8, 9], [10, 12], [12, 13]]
    assert call("segments", "a b", "no such language") == [[0, 1], [2, 3]]
