"""Commands whose standard streams were closed by whoever started them: one sentence, or the work done all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bundles import make_bundle
from dragoman.bundle import save_bundle


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("closed")
    save_bundle(make_bundle(), folder / "model")
    (folder / "text").write_text("a b\n")
    return folder


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    line = f"exec '{sys.executable}' -m dragoman {command}"
    return subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("translate model - <&-", "dragoman: standard input is closed; give a file, or open it.\n"),
        ("evaluate model --src - --ref text <&-", "dragoman: standard input is closed; give a file, or open it.\n"),
        ("translate model text >&-", "dragoman: standard output is closed; open it, or give a file with -o.\n"),
    ],
)
def test_one_sentence(model: Path, command: str, sentence: str) -> None:
    result = run(model, command)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", sentence)


@pytest.mark.parametrize(
    "command", ["translate model text -o /dev/full", "translate model text > /dev/full", "info model > /dev/full"]
)
def test_no_room_for_the_output(model: Path, command: str) -> None:
    sentence = "dragoman: cannot write the output: No space left on device; make room, or choose another place.\n"
    result = run(model, command)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", sentence)


def test_a_text_without_a_name(model: Path) -> None:
    result = run(model, "translate model ''")
    sentence = "dragoman: the name of the text is empty; give a file, or - for standard input.\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", sentence)


def test_nobody_to_talk_to_is_no_reason_to_end(model: Path) -> None:
    assert run(model, "translate model text -o out 2>&-").returncode == 0
    assert (model / "out").read_text().count("\n") == 1
