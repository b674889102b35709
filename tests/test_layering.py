"""Imports only go down: each part of dragoman imports the parts below it and no others."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dragoman
from conftest import REPOSITORY

SOURCE = REPOSITORY / "src" / "dragoman"

# Part -> the parts right below it. What those may import, it may import too. ``files`` is open to all above errors.
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "presets": set(),
    "explain": {"errors"},
    "files": {"errors"},
    "fields": {"errors", "explain"},
    "config": {"fields", "presets"},
    "configfile": {"config", "files"},
    "model": {"config", "files"},
    "text": {"config", "files"},
    "decoding": {"config", "files"},
    "engine": {"model"},
    "evaluation": {"errors", "files"},
    "visualize": {"errors", "files"},
    "phrasebook": {"errors", "files"},
    "bundle": {"model", "text"},
    "interop": {"model", "text", "bundle"},
    "translation": {"model"},
    "translating": {"bundle", "decoding", "engine", "translation"},
    "translator": {"translating"},
    "preflight": {"bundle"},
    "training": {"model", "text", "decoding", "evaluation", "bundle", "preflight", "translator", "configfile"},
    "doctor": {"training"},
    "server": {"translator", "visualize"},
}
BELOW["cli"] = set(BELOW)
BELOW["__main__"] = {"cli"}


def allowed(part: str) -> set[str]:
    """Every part that ``part`` may import: those below it, and those below them."""
    found: set[str] = set()
    open_ = set(BELOW[part])
    while open_:
        lower = open_.pop()
        found.add(lower)
        open_ |= BELOW[lower] - found
    return found


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(tree: ast.AST) -> list[tuple[int, str]]:
    """``(line, part)`` of every import of ours, those inside functions and under TYPE_CHECKING included."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import; write the full name"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            names = [str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant)]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package != "dragoman" or rest == "__version__":
                continue
            assert rest, f"line {node.lineno}: the whole package is imported; import the module that is meant"
            first = rest.split(".")[0]
            found.append((node.lineno, dragoman._HOMES.get(first, f"dragoman.{first}").split(".")[1]))
    return found


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_stands_below_it(path: Path) -> None:
    part = part_of(path)
    assert part in BELOW, f"{part} has no row in the table of layers"
    may = allowed(part) | {part}
    for line, other in imported_parts(ast.parse(path.read_text(encoding="utf-8"))):
        assert other in may, f"{path.relative_to(REPOSITORY)}, line {line}: {part} must not import {other}"


@pytest.mark.parametrize("part", BELOW)
def test_no_part_stands_below_itself(part: str) -> None:
    assert part not in allowed(part)


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("import torch, os", []),
        ("from dragoman import __version__", []),
        ("from dragoman import ModelConfig", ["config"]),
        ("from dragoman import text, config as c", ["text", "config"]),
        ("def f():\n    from dragoman.model.masks import causal", ["model"]),
        ("if TYPE_CHECKING:\n    import dragoman.bundle", ["bundle"]),
        ("importlib.import_module('dragoman.cli.main')", ["cli"]),
    ],
)
def test_every_form_of_import_is_seen(code: str, parts: list[str]) -> None:
    assert [part for _, part in imported_parts(ast.parse(code))] == parts


@pytest.mark.parametrize("code", ["from . import masks", "import dragoman"])
def test_imports_that_hide_their_target_are_refused(code: str) -> None:
    with pytest.raises(AssertionError):
        imported_parts(ast.parse(code))
