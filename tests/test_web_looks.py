"""The looks inside, in a browser: in the dark, at the width of a telephone, in the system's own colours; with pictures.

The pictures lie in ``build/screenshots/``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attention_samples import SPECIAL, SRC, TGT, sample
from browsing import DESK, WORDS, Visit
from serving import Server

pytestmark = pytest.mark.browser

Visiting = Callable[..., Visit]
DOCS = Path(__file__).resolve().parents[1] / "docs"
TEXT = "Our neighbour paints her fence green."
# With a word that no line of a telephone holds, and one of another script.
HARD = "Our Donaudampfschifffahrtsgesellschaftskapitän 北京 paints her fence."
# WCAG 2.1: text (1.4.3), and lines that mean something (1.4.11); and 2.2: the least side of what is pointed at (2.5.8).
TEXT_CONTRAST, LINE_CONTRAST, TARGET = 4.5, 3.0, 24


def opened(visit: Visit, name: str, text: str = TEXT) -> Visit:
    """A translated text with one of the looks open."""
    visit.open().translate(text).page.click(f"#{name}")
    visit.page.wait_for_selector("#view[open] .map" if name == "attention" else "#view[open] svg.tree")
    return visit


def phone(width: int, **options: Any) -> dict[str, Any]:
    """A touch screen of this width."""
    return {"viewport": {"width": width, "height": 740}, "has_touch": True, "is_mobile": True, **options}


# the replay


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESK["width"], 360])
def test_the_legend_of_the_replay(visiting: Visiting, web: Server, scheme: str, width: int) -> None:
    options = phone(width) if width < 500 else {"viewport": DESK}
    visit = opened(visiting(web, color_scheme=scheme, **options), "replay")
    page = visit.page
    page.click("#inside button:text-is('Last')")
    legend = page.locator("#inside .legend")
    legend.scroll_into_view_if_needed()
    visit.picture(f"replay-legend-{scheme}-{width}", "#inside .legend")
    assert legend.locator("li").all_inner_texts() == [
        "goes on; the more of the colour, the likelier",
        "pruned",
        "finished with </s>",
        "the way to the best or the chosen one",
    ]
    for n in range(4):
        box = legend.locator("i").nth(n).bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 10
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
    assert min(visit.contrast("#inside .legend li", "color")) >= TEXT_CONTRAST
    assert min(visit.contrast("#inside .legend i", "borderTopColor")) >= LINE_CONTRAST
    assert visit.styles("#inside .legend i", "opacity") == ["1"] * 4
    # Each sign is another one, and as the tree draws it.
    looks = [
        visit.styles("#inside .legend i", name) for name in ("borderTopStyle", "borderTopColor", "backgroundImage")
    ]
    assert len(set(zip(*looks, strict=True))) == 4
    assert "gradient" in looks[2][0]
    for n, drawn in ((1, ".pruned rect"), (2, ".finished:not(.chosen) rect"), (3, ".chosen rect")):
        strokes = visit.styles(f"#inside .tree {drawn}", "stroke")
        assert set(strokes) <= {looks[1][n]}, drawn
        assert strokes or n == 2
    assert min(visit.contrast("#inside .tree path:not(.chosen)", "stroke")) >= LINE_CONTRAST
    assert not visit.violations()
    assert visit.fits()


def test_a_closed_look_does_nothing_more(visiting: Visiting, web: Server) -> None:
    """It does not play on, nor draw at every change of the window, nor keep its weights for ever."""
    visit = visiting(web)
    visit.page.add_init_script(
        """window.listeners = 0;
        for (const [name, step] of [["addEventListener", 1], ["removeEventListener", -1]]) {
          const own = window[name];
          window[name] = function (kind, ...rest) {
            if (kind === "resize" && this === window) listeners += step;
            return own.call(this, kind, ...rest);
          };
        }"""
    )
    opened(visit, "attention")
    before = visit.page.evaluate("listeners")
    visit.page.keyboard.press("Escape")
    # The window may change before the closed look is gone: what counts is the change after that.
    visit.until(f"(dispatchEvent(new Event('resize')), listeners === {before - 1})")
    visit.page.click("#replay")
    visit.page.wait_for_selector("#view[open] svg.tree")
    visit.page.evaluate("window.tree = document.querySelector('#inside .tree').parentElement")
    visit.page.click("#inside button:text-is('First')")
    visit.page.click("#inside button:text-is('Play')")
    visit.page.keyboard.press("Escape")
    visit.page.wait_for_timeout(2200)
    assert visit.page.evaluate("tree.querySelectorAll('.head').length") == 1


# the attention view


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 320])
def test_the_attention_dialog_on_a_phone(visiting: Visiting, web: Server, scheme: str, width: int) -> None:
    visit = opened(visiting(web, color_scheme=scheme, **phone(width)), "attention", HARD)
    page = visit.page
    visit.picture(f"attention-{width}-{scheme}")
    assert visit.fits()
    assert page.evaluate("view.scrollWidth <= view.clientWidth")
    # The kinds stand in one row, each whole and large enough for a finger.
    kinds = [page.locator("#inside .segments label").nth(n) for n in range(3)]
    boxes = [one.bounding_box() for one in kinds]
    assert len({round(box["y"]) for box in boxes if box}) == 1
    for one, box in zip(kinds, boxes, strict=True):
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width
        assert min(box["width"], box["height"]) >= TARGET
        assert one.locator("span").evaluate("one => one.scrollWidth <= one.offsetWidth")
    for selector in ("#inside .check", "#view form button", "#inside .strip button", "#inside .heads label"):
        for n in range(page.locator(selector).count()):
            target = page.locator(selector).nth(n).bounding_box()
            assert target is not None
            assert min(target["width"], target["height"]) >= TARGET, selector
    assert page.is_hidden("#inside .keys")
    # What is wide scrolls in its own frame; the sentences are there as a whole.
    for n in range(2):
        line = page.locator("#inside .sentences dd").nth(n)
        assert line.evaluate("one => one.scrollWidth <= one.clientWidth")
    assert page.evaluate(
        "(one => one.scrollWidth > one.clientWidth)(document.querySelector('#inside .map').parentElement)"
    )
    # Touching goes to another kind, and to another word.
    page.tap("#inside .segments label:nth-of-type(2)")
    assert "ncoder" in page.inner_text("#inside h2")
    page.tap("#inside .strip button >> nth=1")
    assert page.get_attribute("#inside .strip button >> nth=1", "aria-pressed") == "true"
    assert not visit.violations()
    close = page.locator("#view form button")
    page.evaluate("view.scrollTo(0, view.scrollHeight)")
    box = close.bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 740 - TARGET, "Close stays in sight"
    close.tap()
    assert page.locator("#view[open]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_attention_page_on_a_phone(visiting: Visiting, web: Server, scheme: str) -> None:
    """The file that ``dragoman attention -o x.html`` writes."""
    from dragoman.visualize.maps import AttentionMaps
    from dragoman.visualize.page import attention_page

    source, translation = sample(SRC[:-1] * 3 + SRC[-1:], TGT[:-1] * 3 + TGT[-1:], layers=3, heads=8)
    visit = visiting(web, color_scheme=scheme, **phone(375))
    visit.page.set_content(attention_page(AttentionMaps.of(source, translation, SPECIAL)))
    visit.page.wait_for_selector(".map")
    visit.picture(f"attention-page-375-{scheme}")
    assert visit.fits()
    assert not visit.violations()
    assert min(visit.contrast(".map th, .sentences dt, .sentences dd, .status", "color")) >= TEXT_CONTRAST
    sizes = visit.styles(".map th, .strip button, .status, .edge", "fontSize")
    assert min(float(size.removesuffix("px")) for size in sizes) >= 12


LANGUAGES = [("ar", "القطة تنام على الكرسي", "rtl"), ("de", "Unsere Nachbarin streicht", "ltr")]


@pytest.mark.parametrize(("code", "text", "direction"), LANGUAGES)
def test_the_attention_view_in_every_direction(
    visiting: Visiting, web: Server, code: str, text: str, direction: str
) -> None:
    """Words follow one another as they are read, and each is told in its own language."""
    from dragoman.visualize.maps import AttentionMaps
    from dragoman.visualize.page import attention_data

    tokens = [f"▁{word}" for word in text.split()] + ["</s>"]
    source, translation = sample(SRC, tokens)
    visit = visiting(web).open().translate(TEXT)
    page = visit.page
    page.evaluate(
        "async ([data, languages]) => (await import('/static/js/views.js')).openView('attention', data, languages)",
        [attention_data(AttentionMaps.of(source, translation, SPECIAL)), {"source": "en", "target": code}],
    )
    page.wait_for_selector("#view[open] .map")
    asked, answers = page.locator("#inside .strip").first, page.locator("#inside .strip").last
    assert (asked.get_attribute("dir"), answers.get_attribute("dir")) == (direction, "ltr")
    boxes = [asked.locator("button").nth(n).bounding_box() for n in range(2)]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert (boxes[1]["x"] < boxes[0]["x"]) == (direction == "rtl")
    assert asked.locator(f"bdi[lang={code}]").count() == len(tokens)
    assert answers.locator("bdi[lang=en]").count() == len(SRC)
    assert page.locator("#inside .map thead bdi[lang=en]").count() == len(SRC)
    assert page.locator(f"#inside .map tbody bdi[lang={code}]").count() == len(tokens)
    assert page.locator("#inside .sentences dd").last.get_attribute("dir") == direction
    # The arrow that points on goes on.
    asked.locator("button").first.focus()
    on, back = ("ArrowLeft", "ArrowRight") if direction == "rtl" else ("ArrowRight", "ArrowLeft")
    for key, pressed in ((on, 1), (on, 2), (back, 1)):
        page.keyboard.press(key)
        assert asked.locator("button").nth(pressed).get_attribute("aria-pressed") == "true"
        assert asked.locator("button").nth(pressed).evaluate("one => one === document.activeElement")
    # In the encoder's map both sides are of the source.
    page.click("#inside .segments label:nth-of-type(2)")
    assert page.locator("#inside .strip bdi[lang=en]").count() == 2 * len(SRC)


def test_looks_are_told_in_their_language(visiting: Visiting, web: Server) -> None:
    visit = opened(visiting(web), "replay")
    assert visit.page.locator("#inside p bdi").first.get_attribute("lang") == "en"
    assert visit.page.locator("#inside p bdi").nth(1).get_attribute("lang") == "de"
    assert visit.page.locator("#inside .list button bdi[lang=de]").count() > 0


# the system's own colours


def test_choices_show_without_our_colours(visiting: Visiting, web: Server) -> None:
    visit = visiting(web, forced_colors="active").open().translate(TEXT)
    page = visit.page
    page.locator(WORDS).nth(1).click()
    page.wait_for_selector("#choices [role=listbox]")
    active = page.locator("#choices .active").evaluate("one => getComputedStyle(one).outlineStyle")
    other = page.locator("#choices [role=option]:not(.active)").first.evaluate(
        "one => getComputedStyle(one).outlineStyle"
    )
    assert (active, other) == ("solid", "none")
    page.keyboard.press("Escape")
    assert set(visit.styles(f"{WORDS}:not([data-sure='4'])", "textDecorationLine")) <= {"underline"}
    page.click("#attention")
    page.wait_for_selector("#view[open] .map")
    backs = visit.styles("#inside .segments span", "backgroundColor")
    assert len(backs) == 3
    assert backs[0] not in backs[1:]
    assert len(set(visit.styles("#inside .map td.shade", "backgroundColor"))) > 3
    visit.picture("attention-forced-colours")
    page.keyboard.press("Escape")


# figures of the documentation


def documented(visit: Visit, body: str) -> Visit:
    """A page of the documentation's site with this body, as far as its figures need one."""
    style = (DOCS / "_static" / "site.css").read_text(encoding="utf-8")
    theme = ":root { color-scheme: light dark } body { background: Canvas } img { max-width: 100%; height: auto }"
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="/static/icon.svg"><style>{theme} {style}</style></head>'
        f"<body><main><h1>A page</h1><article>{body}</article></main></body></html>"
    )
    visit.answer("/documented/", html, **{"Content-Type": "text/html; charset=utf-8"})
    visit.page.goto(f"{visit.base}documented/")
    return visit


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_figure_of_the_walk_on_a_phone(visiting: Visiting, web: Server, scheme: str) -> None:
    """It scrolls in its frame, so that its text can be read, and the page does not."""
    source = (DOCS / "walk" / "index.md").read_text(encoding="utf-8")
    parts = re.findall(r"^```\{raw\} html\n(.*?)^```$", source, re.DOTALL | re.MULTILINE)
    svg = (DOCS / "walk" / "figure.svg").read_text(encoding="utf-8")
    body = "".join(svg if part.startswith(":file: figure.svg") else part for part in parts)
    assert body.index("walk-frame") < body.index("<svg") < body.index("</div>")
    visit = documented(visiting(web, color_scheme=scheme, **phone(375)), body)
    page = visit.page
    visit.picture(f"walk-figure-375-{scheme}")
    assert visit.fits()
    frame = page.locator(".walk-frame")
    assert frame.evaluate("one => one.scrollWidth > one.clientWidth && one.clientWidth <= innerWidth")
    heights = page.eval_on_selector_all(
        ".walk-figure text", "all => all.map(one => one.getBoundingClientRect().height)"
    )
    assert len(heights) > 20
    assert min(heights) >= 11
    assert min(visit.contrast(".walk-figure text", "fill")) >= TEXT_CONTRAST
    assert min(visit.contrast(".walk-figure .way", "stroke")) >= LINE_CONTRAST
    for n in range(page.locator(".walk-figure a").count()):
        box = page.locator(".walk-figure a").nth(n).bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= TARGET
    # The keyboard comes to the frame and scrolls it, and to each box, which is then in sight.
    page.keyboard.press("Tab")
    assert frame.evaluate("one => one === document.activeElement")
    page.keyboard.press("ArrowRight")
    visit.until("document.querySelector('.walk-frame').scrollLeft > 0")
    assert not visit.violations()


@pytest.mark.parametrize("name", ["attention", "masks", "positions", "schedule", "smoothing"])
def test_the_other_figures_on_a_phone(visiting: Visiting, web: Server, name: str) -> None:
    """They are pictures in a line by themselves, and keep the size that their text can be read at."""
    svg = (DOCS / "walk" / f"{name}.svg").read_text(encoding="utf-8")
    sizes = [
        float(size) for size in re.findall(r"font-size: *([0-9.]+)px", svg) + re.findall(r"font: ([0-9.]+)px", svg)
    ]
    visit = visiting(web, **phone(375))
    visit.answer(f"/documented/{name}.svg", svg, **{"Content-Type": "image/svg+xml"})
    documented(visit, f'<p><img alt="A figure" src="{name}.svg"></p>')
    page = visit.page
    page.wait_for_function("() => document.querySelector('img').naturalWidth > 0")
    visit.picture(f"walk-{name}-375")
    assert visit.fits()
    # The sizes are in points.
    shrunk = page.evaluate(
        "(one => one.getBoundingClientRect().width / one.naturalWidth)(document.querySelector('img'))"
    )
    assert min(sizes) * 4 / 3 * shrunk >= 8
