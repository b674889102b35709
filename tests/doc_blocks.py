"""The Python blocks of a Markdown file, and what they print.

A block's expected output is the ```text block right after it. ``python tests/doc_blocks.py FILE`` writes the outputs
of all blocks anew, and the table of an errata file. The blocks of a chapter (a heading of level 2) share their names;
with ``--page`` all of a file do. A block that begins with ```python no-run is none of them.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) +(.+?)[ \t]*$", re.MULTILINE)
_TEST_NAME = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_TABLE = re.compile(r"^\| fault \|.*?\n(?!\|)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A Python block: its code, the output that the file shows (None: none is shown), and where both stand."""

    file: Path
    line: int
    code: str
    output: str | None
    start: int
    end: int

    def run(self, names: dict[str, Any]) -> str:
        """Execute the block with and into ``names``; what it printed comes back."""
        printed = io.StringIO()
        # Blank lines in front give tracebacks the line numbers of the file.
        source = compile("\n" * (self.line - 1) + self.code, str(self.file), "exec")
        with contextlib.redirect_stdout(printed):
            exec(source, names)
        return printed.getvalue()


@dataclass(frozen=True)
class Section:
    """The text under one heading, up to the next heading of any level."""

    file: Path
    level: int
    title: str
    text: str
    blocks: tuple[Block, ...]

    @property
    def anchor(self) -> str:
        """The anchor that Markdown renderers give the heading."""
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")

    @property
    def tests(self) -> list[tuple[str, str]]:
        """The tests that the section names: file and function."""
        return _TEST_NAME.findall(self.text)

    def printed(self, label: str) -> str | None:
        """What stands behind ``label:`` in the outputs, None where nothing does."""
        for block in self.blocks:
            for line in (block.output or "").splitlines():
                if line.startswith(f"{label}: "):
                    return line.removeprefix(f"{label}: ")
        return None


def sections(path: Path) -> list[Section]:
    """The sections of a Markdown file in their order; what looks like a heading inside a block is none."""
    text = path.read_text(encoding="utf-8")
    fences = [(match.start(), match.end()) for match in _FENCE.finditer(text)]
    headings = [
        match for match in _HEADING.finditer(text) if not any(start <= match.start() < end for start, end in fences)
    ]
    found = list(_blocks(path, text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return [
        Section(
            path,
            len(heading[1]),
            heading[2],
            text[heading.end() : end],
            tuple(block for block in found if heading.end() <= block.start < end),
        )
        for heading, end in zip(headings, ends, strict=False)
    ]


def chapters(path: Path, level: int = 2) -> list[list[Section]]:
    """The sections grouped by headings of ``level``: each with all that stands below it."""
    groups: list[list[Section]] = []
    for section in sections(path):
        if section.level <= level:
            groups.append([])
        if section.level >= level and groups:
            groups[-1].append(section)
    return [group for group in groups if group]


def _blocks(path: Path, text: str) -> Iterator[Block]:
    fences = list(_FENCE.finditer(text))
    for fence, after in zip(fences, [*fences[1:], None], strict=False):
        if fence[1] != "python" or "no-run" in text[fence.start() : fence.start(2)]:
            continue
        shows = after is not None and after[1] == "text" and not text[fence.end() : after.start()].strip()
        output = after[2] if after is not None and shows else None
        end = after.end() if after is not None and shows else fence.end()
        yield Block(path, text.count("\n", 0, fence.start(2)) + 1, fence[2], output, fence.start(), end)


def test_functions(path: Path) -> set[str]:
    """The names of the test functions of a file."""
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}


test_functions.__test__ = False  # type: ignore[attr-defined]  # it looks like a test to pytest


def table(path: Path) -> str:
    """The overview of an errata file: each fault with the numbers that its section prints."""
    lines = ["| fault | wrong gives | right gives |", "| --- | --- | --- |"]
    for chapter in chapters(path):
        faults = [section for section in chapter if section.level == 3]
        lines += [f"| **{chapter[0].title}** | | |"] if faults else []
        for fault in faults:
            wrong, right = (str(fault.printed(label)) for label in ("wrong", "right"))
            lines.append(f"| [{fault.title}](#{fault.anchor}) | {wrong} | {right} |")
    return "\n".join(lines).replace("<", "&lt;") + "\n"


def table_of(path: Path) -> str | None:
    """The overview as the file has it."""
    match = _TABLE.search(path.read_text(encoding="utf-8"))
    return match and match[0]


def rewrite(path: Path, level: int = 2) -> None:
    """Put the present outputs below the blocks that show one, then the table; for authors.

    The blocks below a heading of ``level`` share their names.
    """
    edits: list[tuple[int, int, str]] = []
    for chapter in chapters(path, level):
        names: dict[str, Any] = {"__name__": "__doc__"}
        for block in (block for section in chapter for block in section.blocks):
            printed = block.run(names)
            shown = f"```python\n{block.code}```\n" + (f"\n```text\n{printed}```" if printed else "")
            edits.append((block.start, block.end, shown.rstrip("\n")))
    _edit(path, edits)
    text = path.read_text(encoding="utf-8")
    if match := _TABLE.search(text):
        _edit(path, [(match.start(), match.end(), table(path))])


def _edit(path: Path, edits: list[tuple[int, int, str]]) -> None:
    text = path.read_text(encoding="utf-8")
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    given = sys.argv[1:]
    for name in given:
        if name != "--page":
            rewrite(Path(name), level=1 if "--page" in given else 2)
