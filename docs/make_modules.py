"""Write ``docs/modules.md``: every file of the package with the first sentence of what it says of itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dragoman.files import write_text

SOURCE = Path(__file__).parents[1] / "src" / "dragoman"
HEAD = """# Every file

Written by `make docs` from the first sentence of each file in `src/dragoman/`; [architecture](architecture.md) says how
they belong together and which may import which.
"""


def first_sentence(doc: str) -> str:
    """The first sentence of a docstring, in Markdown."""
    paragraph = " ".join(doc.split("\n\n")[0].split())
    sentence = re.split(r"(?<=\.)\s+(?=[A-Z`])", paragraph)[0]
    # Of references to names the names stay.
    return re.sub(r":\w+:`[~!]?([^`]+)`", r"`\1`", sentence).replace("``", "`").replace("|", "\\|")


def modules(source: Path) -> Iterator[tuple[str, str]]:
    """The files below a folder, as paths from there, each with its first sentence; ``__init__.py`` files left out."""
    for path in sorted(source.rglob("*.py")):
        if path.name != "__init__.py":
            yield path.relative_to(source).as_posix(), _said(path)


def _said(path: Path) -> str:
    return first_sentence(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")


def page() -> str:
    """The page as Markdown: the files at the top, then each folder with what it says of itself."""
    rows: dict[str, list[str]] = {"": []}
    for name, sentence in modules(SOURCE):
        folder = name.rpartition("/")[0]
        rows.setdefault(folder, []).append(f"| `{name}` | {sentence} |")
    parts = [HEAD.rstrip()]
    for folder, lines in rows.items():
        if folder:
            parts += [f"## {folder}/", _said(SOURCE / folder / "__init__.py")]
        parts.append("\n".join(["| file | |", "| --- | --- |", *lines]))
    return "\n\n".join(part for part in parts if part) + "\n"


if __name__ == "__main__":
    write_text(Path(__file__).with_name("modules.md"), page())
