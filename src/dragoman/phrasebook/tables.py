"""Reading the tables of words in ``data/``: text with a bar between columns, ``#`` comments and ``[sections]``."""

from __future__ import annotations

from importlib.resources import files


def read_table(name: str, columns: int) -> dict[str, list[list[str]]]:
    """The rows of ``data/NAME.txt`` by section, each a list of that many stripped cells."""
    text = (files(__package__) / "data" / f"{name}.txt").read_text(encoding="utf-8")
    sections: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            cells = [cell.strip() for cell in line.split("|")]
            rows.append(cells + [""] * (columns - len(cells)))
    return sections
