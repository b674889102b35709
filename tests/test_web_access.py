"""The web page in a browser: for everybody, in light and dark, at the width of a telephone; with pictures of it.

The pictures lie in ``build/screenshots/``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from browsing import DESK, PHONE, SCREENSHOTS, WORDS, Visit
from bundles import LINES
from serving import Server

pytestmark = pytest.mark.browser

Visiting = Callable[..., Visit]
TEXT = "Nobody found the key. Our neighbour paints her fence green.\n\nA cold wind blows over the empty fields."
LOOKS = [("light", DESK), ("dark", DESK), ("light", PHONE), ("dark", PHONE)]


@pytest.mark.parametrize(("scheme", "viewport"), LOOKS, ids=lambda one: one if isinstance(one, str) else one["width"])
def test_every_state_is_accessible(visiting: Visiting, web: Server, scheme: str, viewport: dict[str, int]) -> None:
    visit = visiting(web, viewport=viewport, color_scheme=scheme).open()
    page, name = visit.page, f"{scheme}-{viewport['width']}"
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def check(state: str) -> None:
        page.screenshot(path=SCREENSHOTS / f"{name}-{state}.png", full_page=state not in ("attention", "replay"))
        assert not visit.violations(), state
        assert visit.fits(), state

    check("empty")
    visit.translate(TEXT)
    check("translated")
    page.locator(WORDS).nth(3).focus()
    page.wait_for_selector("#mirror .seen")
    check("word")
    page.keyboard.press("Enter")
    page.wait_for_selector("#choices [role=listbox]")
    check("choices")
    box = page.locator("#choices").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= viewport["width"]
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.click("#attention")
    page.wait_for_selector("#view[open] .map")
    check("attention")
    page.keyboard.press("Escape")
    page.click("#replay")
    page.wait_for_selector("#view[open] svg.tree")
    page.click("#inside button:text-is('Last')")
    check("replay")
    page.keyboard.press("Escape")
    visit.answer("/v1/translate", {"error": "busy"}, 429)
    page.fill("#text", LINES[0])
    page.wait_for_selector("#notice p")
    check("refused")
    visit.answer("/v1/translate", {"error": "an API key is needed"}, 403)
    page.click("#notice button")
    page.wait_for_selector("#secret", state="visible")
    check("key")


def background(visit: Visit) -> Any:
    return visit.page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(visiting: Visiting, web: Server, scheme: str) -> None:
    other = {"light": "dark", "dark": "light"}[scheme]
    visit = visiting(web, color_scheme=scheme).open()
    own = background(visit)
    assert visit.page.text_content("#theme") == other.capitalize()
    visit.page.emulate_media(color_scheme=other)  # type: ignore[arg-type]
    assert (changed := background(visit)) != own
    visit.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    visit.page.click("#theme")
    assert background(visit) == changed
    assert visit.page.text_content("#theme") == scheme.capitalize()
    # The choice is kept, and holds whatever the system says.
    visit.page.reload()
    visit.page.wait_for_selector("#source option", state="attached")
    assert background(visit) == changed
    visit.page.click("#theme")
    assert background(visit) == own
    assert not visit.violations()


def test_a_browser_that_keeps_nothing(visiting: Visiting, web: Server) -> None:
    visit = visiting(web)
    visit.page.add_init_script(
        """for (const name of ["localStorage", "sessionStorage"]) {
          Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });
        }"""
    )
    own = background(visit.open())
    visit.page.click("#theme")
    assert background(visit) != own
    visit.translate(LINES[0])


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_nothing_moves_for_those_who_do_not_want_it(visiting: Visiting, web: Server, motion: str) -> None:
    visit = visiting(web, reduced_motion=motion).open().translate(LINES[2])
    visit.page.locator(WORDS).first.click()
    visit.page.wait_for_selector("#choices [role=listbox]")
    visit.page.locator("#choices [role=option]").nth(1).click()
    names = visit.page.evaluate(
        "[...document.querySelectorAll('.fresh')].map(one => getComputedStyle(one).animationName)"
    )
    assert names
    assert set(names) == {"none" if motion == "reduce" else "fresh"}


def test_names_and_roles(visiting: Visiting, web: Server) -> None:
    """What a screen reader finds: by its role and its name."""
    visit = visiting(web).open().translate(TEXT)
    page = visit.page
    for role, name in (
        ("heading", "dragoman"),
        ("textbox", "Text"),
        ("combobox", "From"),
        ("combobox", "To"),
        ("combobox", "Model"),
        ("button", "Swap the languages"),
        ("button", "Dark colours"),
        ("group", "Words of the translation"),
        ("region", "Translation"),
        ("region", "Sentence 1 of 3"),
        ("group", "Translations that the search found"),
        ("list", "How sure the model is of a word"),
    ):
        assert page.get_by_role(role, name=name, exact=True).count() == 1, (role, name)  # type: ignore[arg-type]
    assert page.locator("#news").get_attribute("role") == "status"
    assert page.get_attribute("#mirror", "aria-hidden") == "true"
    words = visit.words()
    assert page.get_by_role("button", name=words[0], exact=True).first.evaluate("one => one.dataset.spot") == "0"
    # Between all the words there is one stop of the Tab key.
    assert page.locator("#result [tabindex='0']").count() == 1
    page.locator(WORDS).nth(2).click()
    page.wait_for_selector("#choices [role=listbox]")
    assert page.get_by_role("listbox", name=f"Other words in place of {words[2]}").count() == 1
    assert page.locator("#choices").get_by_role("option", selected=True).count() <= 1
    page.keyboard.press("Escape")
    page.click("#attention")
    page.wait_for_selector("#view[open] .map")
    assert page.get_by_role("dialog", name="Where the model looked").count() == 1
    assert visit.focused() == "Close"
