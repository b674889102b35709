"""``dragoman translate`` behind a pipe: who writes a line and waits is answered, and who writes much gets windows."""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from bundles import LINES, make_bundle
from conftest import RunCli
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.cli import arriving, common, lines
from dragoman.cli import translate as command
from dragoman.cli.arriving import Arriving, has_to_be_waited_for
from dragoman.errors import DataError, DragomanError

DRAGOMAN = Path(sys.executable).with_name("dragoman")
FAST = ("--max-length", "3", "--beam-size", "1", "-q")
# Longer than any test: what is waited for so long never ends.
NEVER = 1000.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipes") / "model"
    save_bundle(make_bundle(), folder)
    return folder


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[IO[bytes]]:
    """The end of standard input that is written to."""
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as stdin, open(writing, "wb", buffering=0) as end:
        monkeypatch.setattr(sys, "stdin", stdin)
        # Who waits for lines that never come sees the end instead.
        guard = threading.Timer(60.0, end.close)
        guard.start()
        yield end
        guard.cancel()


# -- lines -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [[b"a\nb\r\n\n", b"c", b"d\n", b"e"], [b"\n"], [b""], [b"x" * 200_000, b"\ny\n"]])
def test_lines_are_whole_however_they_arrive(blocks: list[bytes]) -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb", buffering=0) as end:
            for block in blocks:
                end.write(block)
                time.sleep(0.01)

    with open(reading, "rb") as stream:
        thread = threading.Thread(target=write)
        thread.start()
        assert list(Arriving(stream)) == [line.rstrip(b"\n") for line in io.BytesIO(b"".join(blocks))]
        thread.join()


def test_a_silence_ends_a_window(pipe: IO[bytes]) -> None:
    pipe.write("a\nÄ\n".encode() + b"\nhalf")
    windows = lines.windows("-", None, 4)
    assert next(windows) == (0, ["a", "Ä", ""], None)
    assert next(windows) is None
    pipe.write(b" and half\n")
    assert next(windows) == (3, ["half and half"], None)
    assert next(windows) is None
    pipe.write(b"b\nc\nd\ne\n")
    # A full window too: what is translated may be all that was asked.
    assert next(windows) == (4, ["b", "c", "d", "e"], None)
    assert next(windows) is None
    pipe.close()
    assert list(windows) == []


def test_who_writes_much_gets_full_windows(pipe: IO[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a pipe holds, written while it is read: no window is cut where the writer is as fast as that."""
    monkeypatch.setattr(arriving, "_SECONDS_OF_SILENCE", NEVER)
    monkeypatch.setattr(arriving, "_SECONDS_TO_GATHER", NEVER)
    texts = [f"line {number} {'x' * 70}" for number in range(10_003)]

    def write() -> None:
        pipe.write("".join(f"{text}\n" for text in texts).encode()[:-1])
        pipe.close()

    thread = threading.Thread(target=write)
    thread.start()
    windows = list(lines.windows("-", None, 2000))
    thread.join()
    assert [len(window[1]) for window in windows if window] == [2000] * 5 + [3]
    assert [window[0] for window in windows if window] == list(range(0, 10_001, 2000))
    assert [text for window in windows if window for text in window[1]] == texts
    assert None not in windows


def test_lines_that_trickle_do_not_wait_for_ever(pipe: IO[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "_SECONDS_OF_SILENCE", NEVER)
    monkeypatch.setattr(arriving, "_SECONDS_TO_GATHER", 0.2)
    enough = threading.Event()

    def write() -> None:
        while not enough.is_set():
            pipe.write(b"key\n")
            time.sleep(0.01)

    thread = threading.Thread(target=write)
    thread.start()
    windows = lines.windows("-", None, 1_000_000)
    sizes = [len((next(windows) or (0, [], None))[1]) for _ in range(4)]
    enough.set()
    thread.join()
    assert max(sizes) > 1


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_with_a_name(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    # Open for both ends, so that neither waits for the other.
    with open(os.open(path, os.O_RDWR), "r+b", buffering=0) as end:
        end.write(gzip.compress(b"a\nb\n") if packed else b"a\nb\n")
        if packed:
            threading.Timer(0.3, end.close).start()
        windows = lines.windows(str(path), None, 9)
        assert next(windows) == (0, ["a", "b"], None)
        assert next(windows, "the end") == ("the end" if packed else None)


def test_what_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\n")
    one, other = socket.socketpair()
    with one, other, one.makefile("rb") as stream, (tmp_path / "file").open("rb") as file:
        assert has_to_be_waited_for(stream) is True
        other.sendall(b"a\n")
        arrived = Arriving(stream)
        assert next(arrived) == b"a"
        assert arrived.is_silent()
        assert has_to_be_waited_for(file) is False
    with open("/dev/null", "rb") as nothing:
        assert list(Arriving(nothing)) == []
    assert has_to_be_waited_for(io.BytesIO(b"a\n")) is False


def test_bytes_that_are_no_text_are_named(pipe: IO[bytes]) -> None:
    pipe.write(b"\xef\xbb\xbfa\n\xff\n")
    pipe.close()
    with pytest.raises(DataError, match="standard input, line 2: byte 0xff at column 1 is not UTF-8"):
        list(lines.windows("-", None, 1))


# -- the command -------------------------------------------------------------------------------------------------------


def answer(process: subprocess.Popen[bytes], text: str) -> list[str]:
    """As many lines as were asked, while the pipe stays open."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text.encode())
    process.stdin.flush()
    found = b""
    while found.count(b"\n") < text.count("\n"):
        assert select.select([process.stdout], [], [], 120)[0], f"no answer to {text!r}, only {found!r}"
        block = os.read(process.stdout.fileno(), 65536)
        assert block, process.communicate()
        found += block
    return found.decode().split("\n")[:-1]


@pytest.mark.parametrize("options", [(), ("--jsonl",), ("--workers", "2")], ids=" ".join)
def test_a_program_that_waits_is_answered(model: Path, options: tuple[str, ...]) -> None:
    translator = Translator.load(model, device="cpu")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [DRAGOMAN, "translate", model, *FAST, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment,
    ) as process:  # fmt: skip
        for asked in (LINES[:1], LINES[1:4], ["", "key"]):
            found = answer(process, "".join(f"{line}\n" for line in asked))
            texts = [json.loads(line)["text"] for line in found] if "--jsonl" in options else found
            assert texts == [translator.translate(line, max_length=3, beam_size=1).text for line in asked]
        stdout, stderr = process.communicate(b"no end", timeout=60)
    assert (process.returncode, stdout.count(b"\n"), stderr) == (0, 1, b"")


def test_a_pipe_and_a_file_give_the_same(run_cli: RunCli, model: Path, tmp_path: Path) -> None:
    text = "".join(f"{LINES[number % 6]} {number}\n" for number in range(2100))
    (tmp_path / "text").write_text(text)
    named = run_cli("translate", model, tmp_path / "text", *FAST)
    piped = run_cli("translate", model, "-o", tmp_path / "out", *FAST, stdin=text)
    assert (piped.rc, piped.stdout, piped.stderr) == (0, "", "")
    assert (tmp_path / "out").read_text() == named.stdout
    assert named.stdout.count("\n") == 2100


# -- lines of several sentences ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "options", "notice"),
    [
        (["A key. A wind.", "One line", "", "No. 5 is Mr. Smith's."], {},
         "1 line holds several sentences and was translated whole; --split-sentences translates sentence by sentence."),
        (["A key. A wind."] * 2000 + ["Why? No.", "key"], {},
         "2,001 lines hold several sentences and were translated whole; "
         "--split-sentences translates sentence by sentence."),
        (["A key. A wind."] * 2, {"scores": True},
         "2 lines hold several sentences and were translated whole; "
         "split them first to translate sentence by sentence."),
        (["A key. A wind."], {"split_sentences": True}, None),
        (["A key.", "A wind."], {}, None),
    ],
    ids=["one", "windows", "scores", "split", "none"],
)  # fmt: skip
def test_lines_of_several_sentences_are_counted(
    model: Path,
    write_lines: Callable[[str, Sequence[str]], Path],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[str],
    options: dict[str, Any],
    notice: str | None,
) -> None:
    monkeypatch.setattr(common, "prepare_runtime", lambda threads: None)
    path = write_lines("in", texts)
    with caplog.at_level(logging.INFO, "dragoman"):
        command.translate(model, str(path), output=path.with_name("out"), max_length=2, beam_size=1, **options)
    said = [record.getMessage() for record in caplog.records if not record.getMessage().startswith("translating: ")]
    assert said == ([] if notice is None else [notice])
    assert {record.levelname for record in caplog.records} <= {"INFO"}


def test_the_notice_comes_last_and_not_with_quiet(run_cli: RunCli, model: Path) -> None:
    text = "A key. A wind.\n" * 3
    found = run_cli("translate", model, *FAST[:-1], "--workers", "2", stdin=text)
    quiet = run_cli("translate", model, *FAST, stdin=text)
    assert found.stderr.startswith("3 lines hold several sentences and were translated whole; ")
    assert found.stderr.count("\n") == 1
    assert (quiet.stdout, quiet.stderr) == (found.stdout, "")


def test_python_says_nothing(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "dragoman"):
        Translator.load(model, device="cpu").translate(["A key. A wind."], max_length=2)
    assert caplog.records == []


def test_who_types_is_told_so_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leader, follower = os.openpty()
    with open(leader, "wb", buffering=0), open(follower, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with caplog.at_level(logging.INFO, "dragoman"), pytest.raises(DragomanError, match="does not exist"):
            command.translate(tmp_path / "no-model")
        assert caplog.messages == ["type a sentence a line, and Enter translates it; Ctrl-D ends."]
        (tmp_path / "text").write_text("a\n")
        with caplog.at_level(logging.INFO, "dragoman"), pytest.raises(DragomanError, match="does not exist"):
            command.translate(tmp_path / "no-model", str(tmp_path / "text"))
        assert len(caplog.messages) == 1
