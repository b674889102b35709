"""What the documentation shows in Python runs, and prints what it says it prints."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import doc_blocks
from bundles import make_bundle
from conftest import REPOSITORY
from doc_blocks import Section, chapters, sections, test_functions
from doc_text import fences
from dragoman.bundle import save_bundle
from dragoman.phrasebook import generate

DOCS = REPOSITORY / "docs"
DOCUMENTS = [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md"))]
# The blocks of a how-to page share their names from its first heading on.
HOWTO = sorted((DOCS / "howto").glob("*.md"))
CHAPTERS = [
    chapter
    for level, paths in ((2, DOCUMENTS), (1, HOWTO))
    for path in paths
    for chapter in chapters(path, level)
    if any(part.blocks for part in chapter)
]
ERRATA = DOCS / "errata.md"
FAULTS = [section for section in sections(ERRATA) if section.level == 3]


@pytest.fixture(scope="module")
def folder_with_a_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages speak of.

    ``runs/demo/best`` is a model, as after ``dragoman demo``; ``mine.yaml`` the configuration of howto/train.md, with
    text for it.
    """
    folder = tmp_path_factory.mktemp("docs")
    (folder / "runs" / "demo").mkdir(parents=True)
    save_bundle(make_bundle(), folder / "runs" / "demo" / "best")
    configuration = next(fence for fence in fences(DOCS / "howto" / "train.md") if fence.language == "yaml")
    (folder / "mine.yaml").write_text(configuration.content, "utf-8")
    text = generate(n_train=400, n_valid=1, n_test=8, seed=1)
    for name, pairs in (("train", text.train), ("test", text.test)):
        (folder / f"{name}.en").write_text("".join(f"{pair.src}\n" for pair in pairs), "utf-8")
        (folder / f"{name}.de").write_text("".join(f"{pair.tgt}\n" for pair in pairs), "utf-8")
    return folder


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: f"{chapter[0].file.stem}-{chapter[0].anchor}")
def test_python_blocks_run_and_print_what_is_shown(
    chapter: list[Section], folder_with_a_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a chapter share their names and run in their order."""
    monkeypatch.chdir(folder_with_a_model)
    names: dict[str, Any] = {"__name__": "__doc__"}
    with warnings.catch_warnings():
        # PyTorch's fused encoder says so once in a process.
        warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors is in prototype stage")
        for section in chapter:
            for block in section.blocks:
                assert block.run(names) == (block.output or ""), f"{block.file}:{block.line}"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.anchor)
def test_each_fault_has_both_numbers_and_a_test_of_ours(fault: Section) -> None:
    assert fault.printed("wrong") is not None
    assert fault.printed("right") is not None
    assert fault.printed("wrong") != fault.printed("right")
    assert fault.tests, "name the test that would have caught it"
    for file, function in fault.tests:
        assert function in test_functions(REPOSITORY / file), f"{file} has no {function}"


def test_the_table_of_errata_is_that_of_the_sections() -> None:
    """``python tests/doc_blocks.py docs/errata.md`` writes it anew."""
    assert doc_blocks.table_of(ERRATA) == doc_blocks.table(ERRATA)
    assert len({fault.anchor for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("path", [*DOCUMENTS, *HOWTO], ids=lambda path: path.stem)
def test_every_test_that_a_document_names_exists(path: Path) -> None:
    for section in sections(path):
        for file, function in section.tests:
            assert function in test_functions(REPOSITORY / file), f"{path.name}: {file} has no {function}"


def test_blocks_and_outputs_are_found_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(
        "# A\n\n```python\n# not a heading\na = 1\n```\n\n## B `c=1`\n\n```\n## nor this\n```\n\n"
        "```python\nprint(a + 1)\n```\n\n```text\n2\n```\n\n```python\npass\n```\n\nwords\n\n```text\nno output\n```\n"
        "```python no-run\ndownload()\n```\n### D\n\n`tests/test_docs.py::test_nothing`\n"
    )
    first, second, third = sections(path)
    assert [first.anchor, second.anchor, third.anchor] == ["a", "b-c1", "d"]
    assert [(block.line, block.code, block.output) for block in first.blocks] == [(4, "# not a heading\na = 1\n", None)]
    assert [(block.code, block.output) for block in second.blocks] == [("print(a + 1)\n", "2\n"), ("pass\n", None)]
    assert second.blocks[0].run({"a": 1}) == "2\n"
    with pytest.raises(NameError):
        second.blocks[0].run({})
    assert third.tests == [("tests/test_docs.py", "test_nothing")]
    assert [[part.title for part in chapter] for chapter in chapters(path)] == [["B `c=1`", "D"]]


def test_outputs_and_table_are_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "errata.md"
    path.write_text(
        "# E\n\n| fault | wrong gives | right gives |\n| --- | --- | --- |\n\n## X\n\n```python\na = 1\n```\n\n"
        "### Off by one\n\n```python\nprint('wrong:', a)\nprint('right: <b>', a + 1)\n```\n\n```text\nold\n```\n\nend\n"
    )
    doc_blocks.rewrite(path)
    text = path.read_text()
    assert text.endswith("```text\nwrong: 1\nright: <b> 2\n```\n\nend\n")
    assert "| [Off by one](#off-by-one) | 1 | &lt;b> 2 |\n\n## X" in text
    assert re.search(r"a = 1\n```\n\n###", text)
    doc_blocks.rewrite(path)
    assert path.read_text() == text
