"""Files and folders are written whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.files import atomic_file, atomic_folder, write_json, write_text


class Boom(Exception):
    """An error that comes from inside the block."""


def write_and_fail(path: Path, text: str) -> None:
    with atomic_file(path) as stream:
        stream.write(text)
        raise Boom


def fill_and_fail(path: Path) -> None:
    with atomic_folder(path) as part:
        (part / "new").write_text("half")
        raise Boom


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_text_and_bytes_are_written(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "eins\nzwei\u2028drei\n")
    with atomic_file(tmp_path / "b.bin", "wb") as stream:
        stream.write(b"\x00\r\n")
    write_json(tmp_path / "c.json", {"ü": [1, 2.5, None]})
    assert (tmp_path / "a.txt").read_bytes() == "eins\nzwei\u2028drei\n".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\r\n"
    assert json.loads((tmp_path / "c.json").read_text(encoding="utf-8")) == {"ü": [1, 2.5, None]}
    assert names(tmp_path) == ["a.txt", "b.bin", "c.json"]


def test_missing_parents_are_made(tmp_path: Path) -> None:
    write_text(tmp_path / "x" / "y" / "a.txt", "a")
    assert (tmp_path / "x" / "y" / "a.txt").read_text() == "a"


def test_an_error_inside_the_block_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(Boom):
        write_and_fail(path, "new, but half")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_an_error_inside_the_block_leaves_no_new_file(tmp_path: Path) -> None:
    with pytest.raises(Boom):
        write_and_fail(tmp_path / "a.txt", "half")
    assert names(tmp_path) == []


def test_the_old_file_is_there_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_file(path) as stream:
        stream.write("new")
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_the_mode_is_that_of_a_plain_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_text(tmp_path / "ours", "")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    (tmp_path / "plain_folder").mkdir()
    with atomic_folder(tmp_path / "our_folder"):
        pass
    ours, plain = ((tmp_path / name).stat().st_mode for name in ("our_folder", "plain_folder"))
    assert stat.S_IMODE(ours) == stat.S_IMODE(plain)


def test_a_symbolic_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    hanging = tmp_path / "hanging"
    hanging.symlink_to(tmp_path / "there" / "later")
    write_text(hanging, "first")
    assert (tmp_path / "there" / "later").read_text() == "first"
    assert not list(tmp_path.rglob("*.part"))


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DragomanError, match=r"^cannot write .*file.a\.txt: .*; choose a place that is writable\.$"):
        write_text(tmp_path / "file" / "a.txt", "a")
    with pytest.raises(DragomanError, match=r"^cannot write .*file.a: "), atomic_folder(tmp_path / "file" / "a"):
        pass


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(DragomanError, match="cannot write"):
        write_text(tmp_path / "a", "text")
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("refused", ["mkstemp", "mkdtemp"])
def test_missing_permission_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    """The administrator may write anywhere, so the refusal of the system is played."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(f"dragoman.files.tempfile.{refused}", refuse)
    context = atomic_file if refused == "mkstemp" else atomic_folder
    with pytest.raises(DragomanError, match="Permission denied"), context(tmp_path / "a"):
        pass


def test_a_full_disk_is_our_error(tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match="No space left on device"), atomic_file(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []


def test_a_folder_takes_its_place(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "run" / "best") as part:
        (part / "a").write_text("new")
        assert not (tmp_path / "run" / "best").exists()
    assert (tmp_path / "run" / "best" / "a").read_text() == "new"
    assert names(tmp_path / "run") == ["best"]


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "old").write_text("old")
    with atomic_folder(tmp_path / "best") as part:
        (part / "new").write_text("new")
        assert names(tmp_path / "best") == ["old"]
    assert names(tmp_path / "best") == ["new"]
    assert names(tmp_path) == ["best"]


def test_an_error_inside_the_block_leaves_the_old_folder(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "old").write_text("old")
    with pytest.raises(Boom):
        fill_and_fail(tmp_path / "best")
    assert names(tmp_path / "best") == ["old"]
    assert names(tmp_path) == ["best"]


def test_a_failed_last_rename_brings_the_old_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "old").write_text("old")
    rename = os.rename

    def fail_once(source: Path, target: Path) -> None:
        if Path(source).suffix == ".part":
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr("dragoman.files.os.rename", fail_once)
    with pytest.raises(DragomanError, match="Input/output error"), atomic_folder(tmp_path / "best") as part:
        (part / "new").write_text("new")
    assert names(tmp_path / "best") == ["old"]
    assert names(tmp_path) == ["best"]


def test_a_folder_s_files_are_as_open_as_the_folder(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "model") as part:
        (part / "inner").mkdir()
        private = part / "inner" / "weights"
        private.touch(mode=0o600)
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "model/inner/weights").stat().st_mode == plain.stat().st_mode
    (tmp_path / "folder").mkdir()
    assert (tmp_path / "model/inner").stat().st_mode == (tmp_path / "folder").stat().st_mode
