"""Saving a model directory never destroys what is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bundles import make_bundle
from dragoman import bundle as module
from dragoman.bundle import save_bundle
from dragoman.errors import DragomanError


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("step", ["write_json", "save_file", "write_text"])
def test_a_failure_at_any_step_leaves_the_old_model(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "model"
    save_bundle(make_bundle(), saved)
    before = contents(saved)

    def fail(*args: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, step, fail)
    for place in (saved, tmp_path / "new"):
        with pytest.raises(DragomanError, match="No space left on device"):
            save_bundle(make_bundle(seed=2), place)
    assert contents(saved) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    "files", [{"letter.txt": "x"}, {"config.json": '{"model_type": "bert"}'}, {"config.json": "{", "weights": "x"}]
)
def test_a_folder_of_another_project_is_kept(tmp_path: Path, files: dict[str, str]) -> None:
    """Others keep a config.json too."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    before = contents(folder)
    with pytest.raises(DragomanError, match="mine exists and is no model directory; choose another place"):
        save_bundle(make_bundle(), folder)
    assert contents(folder) == before


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DragomanError, match="file exists and is no model directory"):
        save_bundle(make_bundle(), tmp_path / "file")
    with pytest.raises(DragomanError, match="cannot write"):
        save_bundle(make_bundle(), tmp_path / "file" / "model")
    assert (tmp_path / "file").read_text() == "x"
