"""``dragoman translate`` through the real entry point."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from bundles import LINES, make_bundle
from conftest import RunCli
from dragoman import Translator
from dragoman.bundle import save_bundle

WriteLines = Callable[[str, Sequence[str]], Path]
# Whatever a line holds, it gives one line.
ODD = ["", "   ", "a\u2028b\x85c", "d\x0ce\rf", "nul\0inside", "key", "\u3000", "</s> <pad> ▁", "x" * 10_000]
LIMIT = ("--max-length", "8", "--beam-size", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    save_bundle(make_bundle(), folder)
    return folder


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu")


@pytest.fixture
def text(write_lines: WriteLines) -> Path:
    return write_lines("text", LINES)


def one_sentence(stderr: str, folder: Path) -> str:
    """The message of a refusal, without the test's own folder."""
    assert stderr.startswith("dragoman: ")
    assert stderr.count("\n") == 1
    assert "Traceback" not in stderr
    return stderr.removeprefix("dragoman: ").removesuffix("\n").replace(f"{folder}/", "")


def test_a_line_for_a_line(run_cli: RunCli, model: Path, translator: Translator, write_lines: WriteLines) -> None:
    """The order is the input's, though batches are made by length, and odd lines shift nothing."""
    lines = [*LINES, *ODD, *LINES[::-1]]
    path = write_lines("text", lines)
    result = run_cli("translate", model, path, *LIMIT, "--batch-tokens", "100", "-q")
    found = translator.translate(lines, max_length=8, beam_size=2)
    assert result.rc == 0
    longest = max(range(len(lines)), key=lambda place: len(lines[place]))
    (warning,) = result.stderr.splitlines()
    assert warning.startswith(f"warning: line {longest + 1} has ")
    assert result.stdout == "".join(one.text.replace("\n", " ") + "\n" for one in found)
    assert [result.stdout.split("\n")[len(LINES) + place] for place in (0, 1, 6)] == [""] * 3
    crlf = "\ufeff" + "\r\n".join(lines[: len(LINES) + 2])
    piped = run_cli("translate", model, "-", *LIMIT, "-q", stdin=crlf)
    assert piped.stdout.split("\n")[:-1] == result.stdout.split("\n")[: len(LINES) + 2]


def test_a_file_takes_its_place_when_complete(run_cli: RunCli, model: Path, text: Path, tmp_path: Path) -> None:
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    out = tmp_path / "new" / "out"
    result = run_cli("translate", model, packed, "-o", out, *LIMIT)
    assert (result.rc, result.stdout) == (0, "")
    assert out.read_text("utf-8").count("\n") == len(LINES)
    assert list(out.parent.iterdir()) == [out]


def test_what_fails_half_way_leaves_the_old_file(run_cli: RunCli, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("old")
    bad = b"fine\n" * 2100 + b"\xff\n"
    result = run_cli("translate", model, "-", "-o", out, "--max-length", "1", "--beam-size", "1", stdin=bad)
    assert (result.rc, result.stdout) == (1, "")
    assert "standard input, line 2101: byte 0xff at column 1 is not UTF-8" in result.stderr.splitlines()[-1]
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_n_best(run_cli: RunCli, model: Path, translator: Translator, write_lines: WriteLines) -> None:
    lines = ["key", "", "The ferry leaves."]
    path = write_lines("text", lines)
    result = run_cli("translate", model, path, "--n-best", "3", "--beam-size", "3", "--max-length", "8", "-q")
    expected = [
        f"{number} ||| {one.text} ||| {one.score:.6f}".replace("\n", " ")
        for number, found in enumerate(translator.translate(lines, n_best=3, beam_size=3, max_length=8))
        for one in (found, *found.alternatives)
    ]
    assert result.stdout.split("\n")[:-1] == expected
    assert len(expected) == 3 + 1 + 3


def test_jsonl(run_cli: RunCli, model: Path, translator: Translator, write_lines: WriteLines) -> None:
    path = write_lines("text", LINES[:3] + ODD[:4])
    result = run_cli("translate", model, path, "--jsonl", "--n-best", "2", *LIMIT, "-q")
    rows = [json.loads(line) for line in result.stdout.split("\n")[:-1]]
    assert len(rows) == 7
    common = ["text", "score", "logprob", "finished", "unmet", "words", "tokens", "token_logprobs", "ids"]
    for row, source in zip(rows, LINES[:3] + ODD[:4], strict=True):
        assert list(row) == [*common, "src_tokens", "alternatives"]
        assert [list(other) for other in row["alternatives"]] == [common] * (1 if source.strip() else 0)
        assert row["logprob"] == pytest.approx(sum(row["token_logprobs"]))
        assert len(row["tokens"]) == len(row["ids"]) == len(row["token_logprobs"]) <= 8
        assert "".join("".join(word for word, _ in row["words"]).split()) == "".join(row["text"].split())
    found = translator.translate(LINES[0], n_best=2, beam_size=2, max_length=8)
    assert rows[0]["text"] == found.text
    assert rows[0]["score"] == pytest.approx(found.score, abs=1e-4)


def test_scores_and_prefixes(run_cli: RunCli, model: Path, text: Path, write_lines: WriteLines) -> None:
    prefixes = write_lines("prefixes", ["Die alte", "", "Niemand", "", "Ein", ""])
    result = run_cli("translate", model, text, "--prefix", prefixes, "--scores", "--max-length", "30", "-q")
    assert (result.rc, result.stderr) == (0, "")
    rows = [line.split("\t") for line in result.stdout.split("\n")[:-1]]
    assert len(rows) == len(LINES)
    assert all(float(row[0]) <= 0 for row in rows)
    for row, prefix in zip(rows, ["Die alte", "", "Niemand", "", "Ein", ""], strict=True):
        assert row[1].startswith(prefix)


def test_split_sentences(run_cli: RunCli, model: Path, translator: Translator, write_lines: WriteLines) -> None:
    lines = ["The key. A wind.  ", "", "One line"]
    result = run_cli("translate", model, write_lines("text", lines), "--split-sentences", *LIMIT, "-q")
    texts = translator.translate_document(lines, max_length=8, beam_size=2)
    assert result.stdout == "".join(text.replace("\n", " ") + "\n" for text in texts)
    assert result.stdout.count("\n") == 3


def test_sampling_draws_by_line(run_cli: RunCli, model: Path, translator: Translator, write_lines: WriteLines) -> None:
    """A line draws by its number in the whole input, however many are read at once."""
    path = write_lines("text", [""] * 2100 + LINES)
    options = ["--sample", "--seed", "3", "--top-k", "20", "--max-length", "8", "--batch-tokens", "40", "-q"]
    result = run_cli("translate", model, path, *options)
    numbers = range(2100, 2100 + len(LINES))
    found = translator.translate(LINES, sample=True, seed=3, top_k=20, max_length=8, line_numbers=numbers)
    assert result.stdout == "\n" * 2100 + "".join(one.text.replace("\n", " ") + "\n" for one in found)


def test_a_line_feed_in_a_translation(run_cli: RunCli, write_lines: WriteLines, tmp_path: Path) -> None:
    """A model that says little else still gives a line for a line."""
    bundle = make_bundle()
    feed = bundle.tokenizers.tgt.encode("\n")[-1]
    with torch.no_grad():
        bundle.model.output.bias[feed] = 100.0
    save_bundle(bundle, tmp_path / "model")
    path = write_lines("text", ["key", "harbour"])
    result = run_cli("translate", tmp_path / "model", path, *LIMIT, "-q")
    assert result.stdout == " " * 8 + "\n" + " " * 8 + "\n"


def test_nothing_in_nothing_out(run_cli: RunCli, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    result = run_cli("translate", model, tmp_path / "empty", "-o", tmp_path / "out")
    assert (result.rc, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / "out").read_bytes() == b""


def test_a_reader_that_goes_away(model: Path, tmp_path: Path) -> None:
    """As in ``| head -1``: no traceback, and the work ends."""
    text = tmp_path / "text"
    text.write_text("key\n" * 8000)
    script = (
        f'"{Path(sys.executable).with_name("dragoman")}" translate {model} {text} --max-length 3 --beam-size 1 -q '
        "| head -1; echo ${PIPESTATUS[0]}"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, env=environment)
    first, status, rest = result.stdout.split("\n")
    assert (bool(first), status, rest, result.stderr) == (True, "141", "", "")


# Refusals


def test_refusals_before_a_model_is_loaded(run_cli: RunCli, tmp_path: Path, text: Path) -> None:
    nowhere = tmp_path / "no-model"
    cases: list[tuple[list[str | Path], int, str]] = [
        ([tmp_path / "nope"], 1, "cannot read nope: No such file or directory"),
        ([tmp_path], 1, "is a folder; give a file."),
        ([text, "-o", tmp_path], 1, "it is a folder; give a file in it."),
        ([text, "--seed", "3"], 2, "--seed is for drawing; add --sample."),
        ([text, "--split-sentences", "--jsonl"], 2, "--split-sentences gives text alone"),
        (["-", "--prefix", text], 2, "--prefix needs the text and the prefixes in files"),
        ([text], 1, "no-model does not exist; give a model directory"),
    ]
    for args, code, message in cases:
        result = run_cli("translate", nowhere, *args)
        assert (result.rc, result.stdout) == (code, ""), args
        assert message in one_sentence(result.stderr, tmp_path)


def test_unequal_prefixes_and_bad_bytes(run_cli: RunCli, text: Path, write_lines: WriteLines, tmp_path: Path) -> None:
    out = tmp_path / "out"
    short = write_lines("short", ["a"])
    result = run_cli("translate", tmp_path / "no-model", text, "--prefix", short, "-o", out)
    assert (result.rc, one_sentence(result.stderr, tmp_path)) == (
        1,
        "text has 6 lines and short has 1; give files that belong line to line.",
    )
    (tmp_path / "bad").write_bytes(b"fine\n\xe4\n")
    result = run_cli("translate", tmp_path / "no-model", tmp_path / "bad", "-o", out)
    assert result.rc == 1
    assert "bad, line 2: byte 0xe4 at column 1 is not UTF-8" in one_sentence(result.stderr, tmp_path)
    assert not out.exists()


def test_a_place_that_cannot_be_written(run_cli: RunCli, model: Path, text: Path, tmp_path: Path) -> None:
    result = run_cli("translate", model, text, "-o", text / "out", *LIMIT)
    assert (result.rc, result.stdout) == (1, "")
    assert "cannot write text/out: " in one_sentence(result.stderr, tmp_path)
    result = run_cli("translate", model, text, "-o", "/dev/full", *LIMIT)
    assert result.rc == 1
    assert "No space left on device" in one_sentence(result.stderr, tmp_path)


def test_a_model_that_is_damaged(run_cli: RunCli, text: Path, tmp_path: Path) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    out = tmp_path / "out"
    result = run_cli("translate", tmp_path / "model", text, "-o", out)
    assert (result.rc, result.stdout) == (1, "")
    assert "model/model.safetensors is damaged or cut short" in one_sentence(result.stderr, tmp_path)
    assert not out.exists()


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--precision", "fp8"], 1, 'there is no precision "fp8"; use one of fp32, int8, bf16.'),
        (["--device", "abacus"], 1, 'there is no device "abacus" here; use auto, '),
        (["--n-best", "9"], 1, "--n-best 9 needs a --beam-size of at least 9, and it is 3."),
    ],
)
def test_settings_that_cannot_work(
    run_cli: RunCli, model: Path, text: Path, args: list[str], code: int, message: str, tmp_path: Path
) -> None:
    result = run_cli("translate", model, text, *args)
    assert (result.rc, result.stdout) == (code, "")
    assert message in one_sentence(result.stderr, tmp_path)


@pytest.mark.parametrize("args", [["--beam-size", "0"], ["--beam-sise", "3"], ["--n-best", "x"], []])
def test_wrong_usage(run_cli: RunCli, args: list[str]) -> None:
    result = run_cli("translate", *(["m", *args] if args else []))
    assert (result.rc, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["demo", "train", "translate", "evaluate", "metrics", "info"])
def test_the_help_shows_an_example(run_cli: RunCli, command: str) -> None:
    result = run_cli(command, "--help")
    assert (result.rc, result.stderr) == (0, "")
    assert f"dragoman {command}" in result.stdout.partition("Example:\n")[2]
