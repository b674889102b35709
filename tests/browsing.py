"""The web page in a real browser: what its tests share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from serving import Server, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SCREENSHOTS = Path(__file__).resolve().parents[1] / "build" / "screenshots"
DESK, PHONE = {"width": 1200, "height": 900}, {"width": 360, "height": 740}
WORDS = "#result .sure"
CONTRAST = """(all, property) => {
  const numbers = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const linear = (part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) => 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  const below = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour[3] !== 0) return colour;
    }
    return [255, 255, 255];
  };
  return all.map((one) => {
    const [low, high] = [numbers(getComputedStyle(one)[property]), below(one)].map(luminance).sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  });
}"""


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's program; skips where there is none."""
    found = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed (on Debian: apt-get install chromium)")
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def web_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three small models that learned a few sentences: two from English to German, one of them badly, and one back."""
    from dragoman.bundle import save_bundle
    from learned import learned_bundle

    folder = tmp_path_factory.mktemp("web")
    save_bundle(learned_bundle(), folder / "first")
    save_bundle(learned_bundle(seed=4, steps=20), folder / "second")
    save_bundle(learned_bundle("de", "en"), folder / "back")
    return folder


@pytest.fixture(scope="session")
def web(web_models: Path) -> Iterator[Server]:
    """A server of the three models that takes 2,000 characters."""
    models = (web_models / "first", f"second={web_models / 'second'}", web_models / "back")
    with serving(*models, "--max-characters", "2000") as running:
        yield running
        assert not any("Traceback" in line for line in running.log), running.log


@dataclass
class Visit:
    """A page of the server with all that it asked for, and all that went wrong in it."""

    page: Page
    base: str
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    refusals: bool = False  # whether the test makes requests fail, which the browser reports

    def open(self) -> Visit:
        self.page.goto(self.base)
        self.page.wait_for_selector("#source option", state="attached")
        return self

    def translate(self, text: str) -> Visit:
        """Type a text, and wait for its translation."""
        self.page.fill("#text", text)
        self.page.wait_for_function(
            "text => !document.getElementById('result').hasAttribute('aria-busy')"
            " && document.querySelector('#about').textContent.includes('model')"
            " && document.getElementById('text').value === text"
            " && !document.querySelector('#result.stale')",
            arg=text,
        )
        return self

    def until(self, condition: str) -> None:
        """Wait for a condition in JavaScript; as text alone it would be against the page's policy."""
        self.page.wait_for_function(f"() => {condition}")

    def words(self) -> list[str]:
        return self.page.locator(WORDS).all_inner_texts()

    def text(self) -> str:
        return str(self.page.text_content("#result"))

    def focused(self) -> str:
        """The element with the focus: its id, or its text."""
        return str(self.page.evaluate("document.activeElement.id || document.activeElement.textContent"))

    def answer(self, path: str, body: Any, status: int = 200, **headers: str) -> None:
        """Answer requests to an address in place of the server: ``body`` as JSON, text as it is, None as no answer."""
        self.refusals = self.refusals or status >= 400 or body is None

        def handle(route: Route) -> None:
            if body is None:
                route.abort("connectionrefused")
                return
            text = body if isinstance(body, str) else json.dumps(body)
            route.fulfill(status=status, body=text, headers={"Content-Type": "application/json", **headers})

        self.page.route(f"**{path}", handle)

    def violations(self) -> list[str]:
        """What axe has against the page as it stands, every rule of it."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response
        assert found["passes"]
        return [f"{one['id']}: {node['html'][:200]}" for one in found["violations"] for node in one["nodes"]]

    def fits(self) -> bool:
        """Nothing is wider than the window."""
        root = "document.documentElement"
        return bool(self.page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"))

    def picture(self, name: str, selector: str = "") -> None:
        """Leave a picture of what is seen, or of an element, among the output of the tests."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / f"{name}.png"
        if selector:
            self.page.locator(selector).screenshot(path=path)
        else:
            self.page.screenshot(path=path)

    def styles(self, selector: str, property: str) -> list[str]:  # noqa: A002  # CSS's word
        """A property of each element, as the browser reckons it."""
        reckoned = "(all, name) => all.map((one) => getComputedStyle(one)[name])"
        return [str(one) for one in self.page.eval_on_selector_all(selector, reckoned, property)]

    def contrast(self, selector: str, property: str) -> list[float]:  # noqa: A002  # CSS's word
        """For each element the contrast of a colour of it to what it lies on, as WCAG 2 reckons it."""
        return [float(one) for one in self.page.eval_on_selector_all(selector, CONTRAST, property)]

    def check(self) -> None:
        """Nothing left the origin, and nothing went wrong."""
        assert all(url.startswith(self.base) for url in self.asked), self.asked
        wrong = [one for one in self.wrong if not (self.refusals and "Failed to load resource" in one)]
        assert not wrong, wrong


@pytest.fixture
def visiting(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """``visiting(server, viewport=…, color_scheme=…)``: a new visitor's page; at the end all pages are checked."""
    visits: list[Visit] = []

    def visit(server: Server, **options: Any) -> Visit:
        context = browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **options})
        context.set_default_timeout(15_000)
        page = context.new_page()
        found = Visit(page, f"http://127.0.0.1:{server.port}/")
        page.on("request", lambda request: found.asked.append(request.url))
        page.on("pageerror", lambda error: found.wrong.append(str(error)))
        page.on("console", lambda said: found.wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: (found.wrong.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        visits.append(found)
        return found

    yield visit
    for one in visits:
        one.check()
        one.page.context.close()


def answer_of(text: str, *, model: str = "en-de", target: str = "de", source: str = "en") -> dict[str, Any]:
    """What /v1/translate gives for one sentence, made up: every word of ``text`` with the same confidence."""
    words = [{"text": word, "logprob": -0.7, "confidence": 0.5} for word in text.split()]
    sentence = {"text": text, "score": -0.1, "words": words, "source": "x", "before": "", "after": ""}
    return {
        "model": model,
        "source": source,
        "target": target,
        "translations": [{"text": text, "sentences": [{**sentence, "alternatives": [], "src_tokens": []}]}],
    }


def stream_of(answer: dict[str, Any], *pieces: str) -> str:
    """Server-sent events with the pieces, and the whole answer at the end."""
    events = [("piece", {"text": piece}) for piece in pieces] + [("done", answer)]
    return "".join(f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n" for name, data in events)
