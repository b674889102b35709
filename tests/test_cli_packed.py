"""gzip in and out of the commands that decode."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bundles import LINES, make_bundle
from conftest import RunCli
from dragoman.bundle import save_bundle
from dragoman.cli import lines
from dragoman.errors import DragomanError

WriteLines = Callable[[str, Sequence[str]], Path]
LIMIT = ("--max-length", "8", "--beam-size", "1", "-q")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    save_bundle(make_bundle(), folder)
    return folder


def pack(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def test_a_packed_output_holds_what_a_plain_one_does(
    run_cli: RunCli, model: Path, write_lines: WriteLines, tmp_path: Path
) -> None:
    """Several windows, so that the file is flushed on the way."""
    text = write_lines("text", LINES * 400)
    outputs = tmp_path / "new"
    for name in ("plain", "packed.gz", "again.GZ"):
        result = run_cli("translate", model, text, "-o", outputs / name, *LIMIT)
        assert (result.rc, result.stdout, result.stderr) == (0, "", "")
    packed = (outputs / "packed.gz").read_bytes()
    assert gzip.decompress(packed) == (outputs / "plain").read_bytes()
    assert (outputs / "plain").read_bytes().count(b"\n") == len(LINES) * 400
    # The same text gives the same bytes: neither name nor time is in them.
    assert packed == (outputs / "again.GZ").read_bytes()
    assert sorted(path.name for path in outputs.iterdir()) == ["again.GZ", "packed.gz", "plain"]


def test_packed_inputs_of_every_kind(run_cli: RunCli, model: Path, write_lines: WriteLines) -> None:
    text, prefixes = write_lines("text", LINES), write_lines("prefixes", ["Die"] * len(LINES))
    terms = write_lines("terms", ["key\tZaun"])
    plain, packed = (
        run_cli("translate", model, act(text), "--prefix", act(prefixes), "--terms", act(terms), *LIMIT)
        for act in (lambda path: path, pack)
    )
    assert plain.stdout.count("\n") == len(LINES)
    assert packed == plain


def test_evaluate_reads_and_keeps_packed_files(
    run_cli: RunCli, model: Path, write_lines: WriteLines, tmp_path: Path
) -> None:
    src, ref = pack(write_lines("src", LINES)), pack(write_lines("ref", LINES))
    results = [
        run_cli("evaluate", model, "--src", src, "--ref", ref, "-o", tmp_path / out, *LIMIT)
        for out in ("out", "out.gz")
    ]
    assert results[0] == results[1]
    assert results[0].rc == 0
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == (tmp_path / "out").read_bytes() != b""


@pytest.mark.parametrize("command", ["translate", "evaluate", "metrics"])
def test_gzip_on_standard_input_is_said(run_cli: RunCli, write_lines: WriteLines, command: str) -> None:
    text = write_lines("text", LINES)
    args = {
        "translate": ["no-model"],
        "evaluate": ["no-model", "--src", "-", "--ref", text],
        "metrics": ["--hyp", "-", "--ref", text],
    }[command]
    result = run_cli(command, *args, stdin=pack(text).read_bytes())
    # Translating begins with the model; the others read all of their input first.
    expected = (
        "no-model does not exist" if command == "translate" else "standard input holds gzip data; unpack it first (gzip"
    )
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.startswith(f"dragoman: {expected}")
    assert result.stderr.count("\n") == 1


def test_gzip_on_standard_input_is_not_translated(run_cli: RunCli, model: Path, tmp_path: Path) -> None:
    packed, out = gzip.compress(b"key\nwind\n"), tmp_path / "out"
    said = "standard input holds gzip data; unpack it first (gzip -dc), or give the .gz file by its name."
    for stdin in (packed, packed * 2):
        result = run_cli("translate", model, "-", "-o", out, *LIMIT, stdin=stdin)
        assert (result.rc, result.stdout, result.stderr) == (1, "", f"dragoman: {said}\n")
    (tmp_path / "twice.gz").write_bytes(gzip.compress(packed))
    result = run_cli("translate", model, tmp_path / "twice.gz", "-o", out, *LIMIT)
    assert "twice.gz holds gzip data; unpack it first" in result.stderr
    assert not out.exists()
    # Only the first bytes of all say what it is.
    result = run_cli("translate", model, "-", *LIMIT, stdin=b"key\n" + packed)
    assert "standard input, line 2: byte 0x8b at column 2 is not UTF-8" in result.stderr


def test_what_fails_half_way_leaves_the_old_packed_file(tmp_path: Path) -> None:
    out = tmp_path / "out.gz"
    out.write_bytes(b"old")

    def fail() -> None:
        with lines.destination(out) as stream:
            stream.write("new\n" * 10_000)
            stream.flush()
            raise DragomanError("no more.")

    with pytest.raises(DragomanError, match="no more"):
        fail()
    assert out.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_packed_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gz"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with lines.destination(pipe) as stream:
            stream.write("ä\n")
            stream.flush()
            begun = os.read(reader, 1000)
        assert gzip.decompress(begun + os.read(reader, 1000)) == "ä\n".encode()
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_text_that_is_written_is_read_again(tmp_path: Path) -> None:
    written = ["", "ä\u2028b\x85", "x" * 100_000, "🙂"]
    for name in ("a", "a.gz"):
        with lines.destination(tmp_path / name) as stream:
            stream.writelines(f"{line}\n" for line in written)
        assert list(lines.windows(str(tmp_path / name), None, 10)) == [(0, written, None)]
    assert (tmp_path / "a.gz").read_bytes()[:4] == b"\x1f\x8b\x08\x00"
    assert (tmp_path / "a.gz").read_bytes()[4:8] == bytes(4)
