"""The web page in a browser: translations that were cut, and looking inside one that was chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from browsing import WORDS, Visit, answer_of, stream_of
from bundles import LINES
from dragoman import Translator
from serving import Server, fine

pytestmark = pytest.mark.browser

Visiting = Callable[..., Visit]
SECOND = "Our neighbour paints her fence green."
EVENTS = {"Content-Type": "text/event-stream"}
CUT = "cut at the limit of length: the model had not come to an end."


@pytest.fixture(scope="module")
def translator(web_models: Path) -> Translator:
    return Translator.load(web_models / "first", device="cpu")


# cut translations


def made_up(visit: Visit, finished: list[bool], others: list[bool] | None = None) -> Visit:
    """A translation of as many sentences, each finished or not; ``others`` of the first one's n-best list."""
    answer = answer_of("one two")
    (first,) = answer["translations"][0]["sentences"]
    sentences = [{**first, "text": f"one {n}", "source": f"x{n}", "finished": one} for n, one in enumerate(finished)]
    for sentence in sentences:
        sentence["words"] = [{"text": word, "logprob": 0.0, "confidence": 1.0} for word in sentence["text"].split()]
    sentences[0]["alternatives"] = [
        {**sentences[0], "text": f"two {n}", "words": [], "finished": one} for n, one in enumerate(others or [])
    ]
    answer["translations"][0]["sentences"] = sentences
    visit.answer("/v1/translate", stream_of(answer), **EVENTS)
    visit.open().page.fill("#text", "".join(sentence["source"] for sentence in sentences))
    visit.page.wait_for_selector(WORDS)
    return visit


@pytest.mark.parametrize(
    ("finished", "said"),
    [
        ([True, True], ""),
        ([False], f"This translation was {CUT}"),
        ([True, False, True], f"The translation of sentence 2 was {CUT}"),
        ([False, True, False, False], f"The translations of sentences 1, 3 and 4 were {CUT}"),
        ([False] * 7, f"The translations of 7 sentences were {CUT}"),
    ],
)
def test_a_cut_translation_says_so(visiting: Visiting, web: Server, finished: list[bool], said: str) -> None:
    visit = made_up(visiting(web), finished)
    assert visit.page.inner_text("#cut") == said
    assert visit.page.is_visible("#cut") == bool(said)
    assert visit.page.get_attribute("#cut", "role") == "status"
    assert ("cut at its limit" in visit.page.inner_text("#found")) == (not finished[0])
    assert not visit.violations()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_said_of_what_is_shown(visiting: Visiting, web: Server, scheme: str) -> None:
    """Of the wording that is chosen, not of others; and of no text that came after it."""
    phone = {"width": 360, "height": 740}
    visit = made_up(visiting(web, color_scheme=scheme, viewport=phone), [True], [False, True])
    rows = visit.page.locator("#found .row .quiet")
    assert [("cut" in text) for text in rows.all_inner_texts()] == [False, True, False]
    said = []
    for row in (1, 2, 0, 1):
        visit.page.locator("#found .row").nth(row).click()
        said.append(visit.page.inner_text("#cut"))
    assert said == [f"This translation was {CUT}", "", "", f"This translation was {CUT}"]
    visit.picture(f"cut-{scheme}")
    assert visit.fits()
    assert not visit.violations()
    assert min(visit.contrast("#cut p", "color")) >= 4.5
    visit.page.fill("#text", "")
    assert visit.page.inner_text("#cut") == ""
    assert visit.page.is_hidden("#cut")


def test_what_the_server_cut(visiting: Visiting, web: Server) -> None:
    answer = fine(web.post("/v1/translate", text=SECOND, options={"max_length": 3}))
    visit = visiting(web)
    visit.answer("/v1/translate", stream_of(answer), **EVENTS)
    visit.open().page.fill("#text", SECOND)
    visit.page.wait_for_selector(WORDS)
    assert visit.page.inner_text("#cut") == f"This translation was {CUT}"


# looking inside a chosen translation


def last(visit: Visit) -> str:
    """The replay at its last step; what stands in it."""
    visit.page.wait_for_selector("#view[open] svg.tree")
    visit.page.click("#inside button:text-is('Last')")
    return visit.page.inner_text("#inside")


def test_the_replay_of_a_chosen_translation(visiting: Visiting, web: Server, translator: Translator) -> None:
    """Its way is the one that is marked, at every step, and so is its row."""
    found = translator.translate(SECOND, n_best=4)
    visit = visiting(web).open().translate(SECOND)
    for row, wording in ((2, found.alternatives[1]), (0, found)):
        visit.page.locator("#found .row").nth(row).click()
        assert visit.text() == wording.text
        visit.page.click("#replay")
        text = last(visit)
        lead = "Chosen" if row else "Found"
        assert visit.page.locator("#inside > p").first.inner_text().startswith("Source")
        assert visit.page.locator("#inside > p").nth(1).inner_text().replace("\xa0", " ") == f"{lead} {wording.text}"
        shaded = visit.page.locator("#inside .pair .card").nth(1).locator("tr.chosen")
        assert shaded.locator("td").nth(1).inner_text() == wording.text
        assert (f"The chosen translation (shaded) is number {row + 1} of these." in text) == bool(row)
        # The way that is drawn: a token for each step, until the hypothesis ended.
        steps = int(visit.page.get_attribute("#inside input[aria-label='Step of the search']", "max") or 0)
        assert steps >= len(wording.tokens)
        for step in range(steps, 0, -1):
            nodes = visit.page.locator("#inside .node.chosen text:not(.share)").all_text_contents()
            if row:
                names = [token if len(token) <= 9 else f"{token[:8]}…" for token in wording.tokens]
                assert nodes == names[:step]
            visit.page.click("#inside button:text-is('Back')")
        visit.page.keyboard.press("Escape")


def test_the_replay_behind_a_chosen_word(visiting: Visiting, web: Server) -> None:
    """It begins there, and what is shown is the best of it."""
    visit = visiting(web).open().translate(LINES[2])
    visit.page.locator(WORDS).nth(1).click()
    visit.page.wait_for_selector("#choices [role=listbox]")
    other = visit.page.locator("#choices [role=option][aria-selected=false]").first
    other.click()
    chosen = visit.text()
    visit.page.click("#replay")
    text = last(visit)
    assert chosen in text
    assert "none that this search ended with" not in text
    assert visit.page.locator("#inside .pair .card").nth(1).locator("tr.chosen").count() == 1


def test_a_translation_that_the_search_does_not_end_with(visiting: Visiting, web: Server) -> None:
    data = fine(web.post("/v1/replay", text=SECOND, tgt="Nie und <b>nimmer</b>."))
    assert data["missing"] == "Nie und <b>nimmer</b>."
    visit = visiting(web)
    visit.answer("/v1/replay", json.dumps(data))
    visit.open().translate(SECOND).page.click("#replay")
    text = last(visit)
    assert "The translation that was chosen, Nie und <b>nimmer</b>., is none that this search ended with" in text
    assert visit.page.locator("#inside > p").nth(1).inner_text().startswith("Found")


def test_the_server_marks_a_translation(web: Server, translator: Translator) -> None:
    """Any of an n-best list; not one that the search does not end with, such as that with no words."""
    found = translator.translate(SECOND, n_best=4)
    options = {"n_best": 4}
    plain = fine(web.post("/v1/replay", text=SECOND, options=options))
    assert (plain["marked"], plain["text"]) == (plain["results"][0], found.text)
    for one in (found, *found.alternatives):
        data = fine(web.post("/v1/replay", text=SECOND, tgt=one.text, options=options))
        assert (data["text"], data["results"]) == (one.text, plain["results"])
        assert data["candidates"][data["marked"]]["score"] == pytest.approx(one.score, abs=1e-4)
        assert "missing" not in data
    assert len({one.text for one in found.alternatives} | {found.text}) > 2
    assert fine(web.post("/v1/replay", text=SECOND, tgt=""))["missing"] == ""
