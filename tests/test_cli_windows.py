"""``dragoman translate`` on more text than a window holds, and what shows only inside the process."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.cli import common, lines
from dragoman.cli import translate as command
from dragoman.errors import DataError, DragomanError

WriteLines = Callable[[str, Sequence[str]], Path]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("windows") / "model"
    save_bundle(make_bundle(), folder)
    return folder


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WINDOW", 4)
    monkeypatch.setattr(common, "prepare_runtime", lambda threads: None)


@pytest.mark.parametrize("options", [{}, {"sample": True}, {"n_best": 2}, {"split_sentences": True}])
def test_windows_change_nothing(
    model: Path, write_lines: WriteLines, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    lines = [*LINES, "", "The key. A wind.", *LINES]
    path = write_lines("in", lines)
    prefix = None if "split_sentences" in options else str(write_lines("prefix", [line[:2] for line in lines]))
    outputs = []
    for window in (4, len(lines), 1):
        monkeypatch.setattr(command, "WINDOW", window)
        command.translate(model, str(path), output=path.with_name("out"), prefix=prefix, max_length=8, **options)
        # Batches of other sizes differ in a score's last digit.
        outputs.append(re.sub(r"(?m) \|\|\| \S+$", "", path.with_name("out").read_text()))
    assert outputs[0].count("\n") >= len(lines)
    assert outputs[1:] == outputs[:1] * 2


def test_each_window_is_written_before_the_next_is_read(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = io.BytesIO()
    written: list[int] = []

    def ten(path: str) -> Any:
        for _ in range(10):
            written.append(arrived.getvalue().count(b"\n"))
            yield "key"

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(arrived, encoding="utf-8"))
    monkeypatch.setattr(common, "read_text", ten)
    command.translate(model, max_length=2)
    assert written == [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]
    assert arrived.getvalue().count(b"\n") == 10


@pytest.mark.parametrize("split", [False, True])
def test_progress_counts_lines(
    model: Path, write_lines: WriteLines, monkeypatch: pytest.MonkeyPatch, split: bool
) -> None:
    seen: list[tuple[int, int]] = []

    class Progress(common.Progress):
        def update(self, done: int, note: str = "") -> None:
            assert note.endswith(" sentences/s")
            seen.append((done, self.total))

    monkeypatch.setattr(common, "Progress", Progress)
    path = write_lines("in", [*LINES, "", *LINES])
    command.translate(model, str(path), output=path.with_name("out"), max_length=2, split_sentences=split)
    assert seen == sorted(seen)
    assert seen[-1] == (13, 13)


def test_a_special_file_is_written_and_not_replaced(model: Path, write_lines: WriteLines) -> None:
    path = write_lines("in", ["key"])
    pipe = path.with_name("pipe")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        command.translate(model, str(path), output=pipe, max_length=2)
        assert os.read(reader, 1000).endswith(b"\n")
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_crash_half_way_leaves_the_old_output(
    model: Path, write_lines: WriteLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = write_lines("in", ["key"] * 6), write_lines("out", ["old"])
    original, calls = Translator.translate, 0

    def fail(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise DataError("no more.")
        return original(*args, **options)

    monkeypatch.setattr(Translator, "translate", fail)
    with pytest.raises(DataError):
        command.translate(model, str(path), output=out, max_length=2)
    assert out.read_text() == "old\n"
    assert sorted(path.name for path in out.parent.iterdir()) == ["in", "out"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "int4"}, 'no precision "int4"; use one of fp32, int8, bf16'),
        ({"n_best": 9}, "n_best 9 needs a beam_size of at least 9"),
        ({"top_p": 0.0, "sample": True}, '"top_p" is 0.0'),
        ({"model": Path("nothing")}, "nothing does not exist; give a model directory"),
    ],
)
def test_refusals_leave_the_old_output(
    model: Path, write_lines: WriteLines, options: dict[str, Any], message: str
) -> None:
    out = write_lines("out", ["old"])
    with pytest.raises(DragomanError, match=message):
        command.translate(**{"model": model, "file": str(out), "output": out, **options})
    assert out.read_text() == "old\n"


def test_a_place_that_cannot_be_written_is_refused_before_the_model_is_read(write_lines: WriteLines) -> None:
    path = write_lines("in", ["key"])
    with pytest.raises(DragomanError, match="cannot write"):
        command.translate(Path("nothing"), str(path), output=path / "out")


def test_a_line_feed_in_a_translation_is_a_space() -> None:
    bundle = make_bundle()
    feed = bundle.tokenizers.tgt.encode("a\nb")
    with torch.no_grad():
        bundle.model.output.bias[feed[len(feed) // 2]] += 9.0
    found = Translator(bundle).translate(LINES, n_best=2)
    assert any("\n" in one.text for one in found)
    for show, count in (
        (lines.as_text, 1),
        (lines.as_scored, 1),
        (lines.as_json, 1),
        (lines.as_list, 2),
    ):
        assert {len(show(number, one).split("\n")) for number, one in enumerate(found)} == {count}
