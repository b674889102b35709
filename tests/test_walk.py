"""The walk through the Transformer (docs/walk): what it shows runs, what it quotes and links is there."""

from __future__ import annotations

import ast
import base64
import importlib
import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from docutils.utils.math import latex2mathml
from PIL import Image

from bundles import make_bundle
from conftest import REPOSITORY
from doc_blocks import Section, chapters, sections
from dragoman.bundle import save_bundle
from tolerances import DRAWN_PIXEL, DRAWN_POINT

WALK = REPOSITORY / "docs" / "walk"
INDEX = WALK / "index.md"
PAGES = sorted(path for path in WALK.glob("*.md") if path != INDEX)
MODEL = REPOSITORY / "src" / "dragoman" / "model"

_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r"^```\{literalinclude\} (\S+)\n((?::.*\n)*)```$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_EQUATION = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.MULTILINE | re.DOTALL)
_ANSWER = re.compile(r"<details><summary>Answer</summary>\n\n(.*?)\n</details>", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def order() -> list[str]:
    """The pages in the order of the course."""
    toctree = _TOCTREE.search(text_of(INDEX))
    assert toctree, "index.md has a toctree"
    return [line for line in toctree[1].split() if not line.startswith(":") and not line.isdigit()]


def named(path: Path) -> Any:
    return path.stem


@pytest.fixture(scope="module")
def folder_with_a_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which ``runs/demo/best`` is a model, as after ``dragoman demo``."""
    folder = tmp_path_factory.mktemp("walk")
    (folder / "runs" / "demo").mkdir(parents=True)
    save_bundle(make_bundle(), folder / "runs" / "demo" / "best")
    return folder


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/walk/make_figures.py as a module."""
    monkeypatch.syspath_prepend(WALK)
    return importlib.import_module("make_figures")


@pytest.mark.parametrize("path", [INDEX, *PAGES], ids=named)
def test_blocks_run_and_print_what_is_shown(
    path: Path, folder_with_a_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``python tests/doc_blocks.py --page FILE`` writes what they print."""
    monkeypatch.chdir(folder_with_a_model)
    names: dict[str, Any] = {"__name__": "__doc__"}
    (page,) = chapters(path, level=1)
    blocks = [block for section in page for block in section.blocks]
    assert blocks
    for block in blocks:
        assert block.run(names) == (block.output or ""), f"{path.name}:{block.line}"


def test_the_course_has_every_page_once_and_each_leads_to_the_next() -> None:
    assert sorted(order()) == [path.stem for path in PAGES]
    rows = re.findall(r"^\| \[[^\]]+\]\((\w[\w-]*)\.md\) \|", text_of(INDEX), re.MULTILINE)
    assert rows == order()
    for page, following in zip(order(), [*order()[1:], "index"], strict=True):
        last = text_of(WALK / f"{page}.md").rstrip().splitlines()[-1]
        assert re.fullmatch(rf"(Next: |Back to )\[[^\]]+\]\({following}\.md\)\.?", last), page


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_a_page_has_the_parts_of_all_pages(path: Path) -> None:
    parts = {section.title: section for section in sections(path)}
    title, *others = parts
    assert others == ["What the paper says", "Our code", "Try it", "What goes wrong", "Exercises"]
    assert parts[title].level == 1
    said = parts["What the paper says"].text
    assert re.search(r"[Ss]ection \d|last pages", said), "names the place in the paper"
    assert _INCLUDE.search(parts["Our code"].text)
    assert any(block.output for block in parts["Try it"].blocks)
    assert "](../errata.md#" in parts["What goes wrong"].text or "](training.md)" in parts["What goes wrong"].text
    _check_exercises(parts["Exercises"])


def _check_exercises(part: Section) -> None:
    """Each question has an answer, and each answer a block that prints."""
    questions = re.findall(r"^\d\. ", part.text, re.MULTILINE)
    answers = _ANSWER.findall(part.text)
    assert len(questions) == len(answers) == 2
    for answer in answers:
        assert re.search(r"^```python\n.*?^```\n\n```text\n.+?^```$", answer, re.MULTILINE | re.DOTALL), answer


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_equations_can_be_drawn(path: Path) -> None:
    """As docs/mathml.py does it; pages without one say in words what the paper has no formula for."""
    equations = _EQUATION.findall(text_of(path))
    assert text_of(path).count("$$") == 2 * len(equations)
    assert equations or path.stem in ("text", "stacks", "looking")
    for equation in equations:
        assert latex2mathml.tex2mathml(equation, as_block=True).startswith("<math")


def included() -> list[tuple[Path, Path, dict[str, str]]]:
    """What each page quotes: the page, the file, the options."""
    found = []
    for page in PAGES:
        for file, options in _INCLUDE.findall(text_of(page)):
            found.append((page, (WALK / file).resolve(), dict(re.findall(r":(\w+): (.*)", options))))
    return found


def objects(path: Path) -> set[str]:
    """The functions and classes of a file, and their methods as Sphinx names them."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = set()
    for node in ast.parse(text_of(path)).body:
        if isinstance(node, kinds):
            found.add(node.name)
            found |= {f"{node.name}.{inner.name}" for inner in ast.iter_child_nodes(node) if isinstance(inner, kinds)}
    return found


@pytest.mark.parametrize(
    ("page", "file", "options"), included(), ids=lambda value: value.get("pyobject") if isinstance(value, dict) else ""
)
def test_quoted_code_exists(page: Path, file: Path, options: dict[str, str]) -> None:
    assert file.is_file(), f"{page.name} quotes {file}"
    assert options["pyobject"] in objects(file), f"{page.name}: {file.name} has no {options['pyobject']}"
    assert REPOSITORY / options["caption"] == file
    assert options["language"] == "python"
    assert ("." in options["pyobject"]) == ("dedent" in options), "a method is shown without its class's indent"


def test_every_file_of_the_model_is_quoted() -> None:
    quoted = {file for _, file, _ in included()}
    files = {path for path in MODEL.glob("*.py") if path.name != "__init__.py"}
    assert files <= quoted, f"no page quotes {sorted(path.name for path in files - quoted)}"


@pytest.mark.parametrize("path", [INDEX, *PAGES], ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    for picture, words, target in _LINK.findall(text_of(path)):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        found = (WALK / file).resolve() if file else path
        assert found.is_file(), f"{path.name}: {target}"
        if anchor:
            assert anchor in {section.anchor for section in sections(found)}, f"{path.name}: {target}"
        assert words.strip(), f"{path.name}: {target} says nothing to those who do not see it"
        if picture:
            assert len(words) > 40, f"{path.name}: describe {target}"


def test_the_figure_is_drawn_as_it_is_written(drawing: ModuleType) -> None:
    """``python docs/walk/make_figures.py`` writes it."""
    assert text_of(WALK / "figure.svg") == drawing.transformer_figure()


def test_the_figure_links_every_page_and_nothing_else() -> None:
    links = [link.get("href") for link in ET.parse(WALK / "figure.svg").iter("{http://www.w3.org/2000/svg}a")]
    assert {str(link) for link in links} == {f"{page}.html" for page in order()}


def test_the_figure_can_be_read_without_seeing_it_and_in_the_dark() -> None:
    root = ET.parse(WALK / "figure.svg").getroot()
    svg = "{http://www.w3.org/2000/svg}"
    by_id = {element.get("id"): element for element in root.iter() if element.get("id")}
    assert root.get("role") == "group"
    for name in str(root.get("aria-labelledby")).split():
        assert "".join(by_id[name].itertext()).strip()
    for link in root.iter(f"{svg}a"):
        assert "".join(link.itertext()).strip()
    # Colours of the page: none of the texts and lines has one of its own.
    drawn = [element for element in root.iter() if element.tag in (f"{svg}text", f"{svg}path")]
    assert drawn
    assert not [element for element in drawn if {"fill", "stroke", "style"} & set(element.attrib)]
    style = "".join(root.itertext())
    assert set(re.findall(r"(?:fill|stroke): ([^;]+);", style)) == {"currentColor", "none"}


def test_narrow_screens_scroll_the_figure() -> None:
    """At the width of a telephone its text would be half as large as that around it."""
    page = (WALK / "index.md").read_text(encoding="utf-8")
    frame, figure, end = (
        page.index('<div class="walk-frame" tabindex="0"'),
        page.index(":file: figure.svg"),
        page.index("</div>"),
    )
    assert frame < figure < end
    style = (WALK.parent / "_static" / "site.css").read_text(encoding="utf-8")
    assert ".walk-frame { overflow-x: auto; }" in style
    assert ".walk-frame .walk-figure { min-width: 44rem; }" in style


def test_the_boxes_of_the_figure_do_not_cover_each_other(drawing: ModuleType) -> None:
    figure = importlib.import_module("transformer_figure")
    boxes = figure.BOXES
    for index, one in enumerate(boxes):
        assert 0 <= one.x <= one.x + one.width <= figure.WIDTH
        assert 0 <= one.y <= one.y + one.height <= figure.HEIGHT
        for other in boxes[index + 1 :]:
            apart = (
                one.x + one.width <= other.x
                or other.x + other.width <= one.x
                or one.y + one.height <= other.y
                or other.y + other.height <= one.y
            )
            assert apart, (one.text, other.text)


def test_pictures_are_what_the_command_writes(drawing: ModuleType, tmp_path: Path) -> None:
    drawing.make_figures(tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert {*written, "attention.svg"} == {path.name for path in WALK.glob("*.svg")}
    for name in written:
        same_picture(tmp_path / name, WALK / name)


def same_picture(left: Path, right: Path) -> None:
    """The same elements in the same places, up to what fonts and rounding move; pictures inside up to a shade."""
    pairs = list(zip(ET.parse(left).iter(), ET.parse(right).iter(), strict=True))
    assert len(pairs) > 10
    for one, other in pairs:
        assert (one.tag, one.text) == (other.tag, other.text)
        assert one.attrib.keys() == other.attrib.keys()
        for key, value in one.attrib.items():
            if key.endswith("href") and value.startswith("data:"):
                off = np.abs(pixels(value).astype(int) - pixels(other.attrib[key]).astype(int))
                assert off.max() <= DRAWN_PIXEL
            else:
                same_numbers(value, other.attrib[key])


def same_numbers(left: str, right: str) -> None:
    assert _NUMBER.sub("", left) == _NUMBER.sub("", right)
    for one, other in zip(_NUMBER.findall(left), _NUMBER.findall(right), strict=True):
        assert float(one) == pytest.approx(float(other), abs=DRAWN_POINT), (left, right)


def pixels(uri: str) -> Any:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))).convert("RGB"))


@pytest.mark.parametrize("path", sorted(WALK.glob("*.svg")), ids=named)
def test_pictures_are_small_and_shown(path: Path) -> None:
    assert path.stat().st_size < 60_000
    shown = [page for page in [INDEX, *PAGES] if f"]({path.name})" in text_of(page)]
    assert len(shown) == 1


def test_a_changed_picture_is_found_out(tmp_path: Path) -> None:
    original = WALK / "schedule.svg"
    moved = re.sub(r"L (\d+)\.\d+ ", lambda match: f"L {int(match[1]) + 3}.0 ", text_of(original), count=1)
    renamed = text_of(original).replace("noam", "naom")
    for changed in (moved, renamed):
        assert changed != text_of(original)
        (tmp_path / "x.svg").write_text(changed, encoding="utf-8")
        with pytest.raises(AssertionError):
            same_picture(tmp_path / "x.svg", original)
    same_picture(original, original)
