"""``dragoman translate`` with terms, several models, several processes, and on a terminal."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bundles import LINES, make_bundle
from conftest import RunCli
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.cli import common, work
from dragoman.cli import translate as command
from dragoman.cli.lines import unfinished
from dragoman.errors import RunError, UsageError
from dragoman.translating.terms import Terms
from dragoman.visualize.alignment import Layer, align, pharaoh

WriteLines = Callable[[str, Sequence[str]], Path]
LIMIT = ("--max-length", "12", "--beam-size", "2", "-q")
DRAGOMAN = Path(sys.executable).with_name("dragoman")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    save_bundle(make_bundle(), folder)
    save_bundle(make_bundle(seed=6), folder.with_name("other"))
    return folder


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu")


@pytest.fixture
def text(write_lines: WriteLines) -> Path:
    return write_lines("text", LINES)


@pytest.fixture
def terms(write_lines: WriteLines) -> Path:
    return write_lines("terms.tsv", ["key\tSchlüssel", "", "harbour green\tZaun"])


def test_terms(run_cli: RunCli, model: Path, translator: Translator, text: Path, terms: Path) -> None:
    result = run_cli("translate", model, text, "--terms", terms, "--max-length", "30", "-q")
    found = translator.translate(LINES, terms=Terms.read(terms), max_length=30)
    assert (result.rc, result.stderr) == (0, "")
    assert result.stdout == "".join(one.text.replace("\n", " ") + "\n" for one in found)
    assert "Schlüssel" in result.stdout.split("\n")[1]
    assert "Zaun" in result.stdout.split("\n")[2]


def test_a_dash_is_standard_output(
    run_cli: RunCli, model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = run_cli("translate", model, text, *LIMIT).stdout
    assert run_cli("translate", model, text, *LIMIT, "-o", "-").stdout == expected != ""
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_lines_that_came_before_a_bad_one_are_written(
    run_cli: RunCli, model: Path, text: Path, tmp_path: Path, workers: tuple[str, ...]
) -> None:
    """Through a pipe; a file is looked at first, and then nothing is written."""
    expected = run_cli("translate", model, text, *LIMIT).stdout
    bad = text.read_bytes() + b"\xff\nkey\n"

    def piped(*more: str | Path) -> tuple[int, str, str]:
        command = [DRAGOMAN, "translate", model, *LIMIT, *workers, *more]
        done = subprocess.run(command, input=bad, capture_output=True, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    rc, out, said = piped()
    assert (rc, out) == (1, expected)
    assert f"line {len(LINES) + 1}: byte 0xff" in said
    assert piped("-o", tmp_path / "out")[:2] == (1, "")
    assert not (tmp_path / "out").exists()


def test_terms_that_cannot_be_met(run_cli: RunCli, model: Path, text: Path, terms: Path) -> None:
    result = run_cli("translate", model, text, "--terms", terms, "--max-length", "2", "--jsonl", "-q")
    assert result.rc == 0
    assert result.stderr.splitlines() == [
        'warning: line 2: the translation lacks "Schlüssel".',
        'warning: line 3: the translation lacks "Zaun".',
    ]
    rows = [json.loads(line) for line in result.stdout.split("\n")[:-1]]
    assert [row["unmet"] for row in rows] == [[], ["Schlüssel"], ["Zaun"], [], [], []]
    result = run_cli("translate", model, text, "--terms", terms, "--max-length", "2", "--strict-terms", "-q")
    assert (result.rc, result.stdout) == (1, "")
    assert 'the translation of line 2 cannot hold "Schlüssel"; change the terms.' in result.stderr


def test_a_file_of_terms_is_read_before_the_model(run_cli: RunCli, text: Path, write_lines: WriteLines) -> None:
    bad = write_lines("bad", ["key\tSchlüssel", "no tab"])
    result = run_cli("translate", "no-model", text, "--terms", bad)
    assert (result.rc, result.stdout) == (1, "")
    assert "bad, line 2: not a source term, a tab and a target phrase" in result.stderr
    result = run_cli("translate", "no-model", text, "--terms", bad, "--sample")
    assert result.rc == 2
    assert "--terms need a search" in result.stderr
    result = run_cli("translate", "no-model", text, "--strict-terms")
    assert (result.rc, result.stdout) == (2, "")
    assert "--strict-terms is about --terms" in result.stderr


def test_lengths_and_suppressed_tokens(run_cli: RunCli, model: Path, translator: Translator, text: Path) -> None:
    tokens = translator.translate(LINES[0]).tokens[:2]
    options = ["--min-length-ratio", "0.5", "--max-length-ratio", "1.5", "--no-repeat-ngram", "2"]
    result = run_cli(
        "translate", model, text, *options, "--suppress", tokens[0], "--suppress", tokens[1], "--jsonl", "-q"
    )
    found = translator.translate(
        LINES, min_length_ratio=0.5, max_length_ratio=1.5, no_repeat_ngram=2, suppress=tuple(tokens)
    )
    assert [json.loads(line)["ids"] for line in result.stdout.split("\n")[:-1]] == [one.ids for one in found]
    assert not any(set(tokens) & set(one.tokens) for one in found)
    result = run_cli("translate", model, text, "--suppress", "nonsense")
    assert result.rc == 1
    assert 'suppress: "nonsense" is no token of the target vocabulary' in result.stderr


def test_several_models(run_cli: RunCli, model: Path, text: Path, tmp_path: Path) -> None:
    other = model.with_name("other")
    result = run_cli("translate", model, text, "--ensemble", other, *LIMIT)
    found = Translator.load([model, other], device="cpu").translate(LINES, max_length=12, beam_size=2)
    assert result.stdout == "".join(one.text.replace("\n", " ") + "\n" for one in found)
    save_bundle(make_bundle(joint=False), tmp_path / "misfit")
    result = run_cli("translate", model, text, "--ensemble", tmp_path / "misfit")
    assert (result.rc, result.stdout) == (1, "")
    assert "model 2 of the ensemble has another source vocabulary" in result.stderr


def test_alignments(run_cli: RunCli, model: Path, write_lines: WriteLines) -> None:
    lines = ["The ferry leaves at nine.", "", "key"]
    path = write_lines("text", lines)
    result = run_cli("translate", model, path, "--alignments", "--scores", *LIMIT)
    assert (result.rc, result.stderr) == (0, "")
    options = {"max_length": 12, "beam_size": 2}
    plain = work.Worker(work.Work([model], "cpu", "fp32", options)).lines(0, lines, None, None)
    for source, line, own in zip(lines, result.stdout.split("\n"), plain, strict=False):
        score, text, links = line.split("\t")
        assert text == own
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert bool(pairs) == bool(source)
        assert all(0 <= one < len(source.split()) and 0 <= other < len(text.split()) for one, other in pairs)
        assert float(score) <= 0


def test_alignments_of_lists(model: Path, text: Path) -> None:
    asked = work.Work([model], "cpu", "fp32", {"max_length": 5, "n_best": 2}, alignments=True, jsonl=True)
    row = json.loads(work.Worker(asked).lines(0, LINES[:1], None, None)[0])
    assert "-" in row["alignment"]
    assert len(row["alternatives"]) == 1
    with pytest.raises(UsageError, match="--alignments belong to the best translation"):
        work.Worker(replace(asked, jsonl=False))
    with pytest.raises(UsageError, match="--split-sentences gives text alone"):
        command.translate(model, str(text), alignments=True, split_sentences=True)


def test_the_layer_of_alignments(text: Path, tmp_path: Path, run_cli: RunCli) -> None:
    model = tmp_path / "deeper"
    save_bundle(make_bundle(n_decoder_layers=2), model)
    asked = work.Work([model], "cpu", "fp32", {"max_length": 8}, alignments=True)
    layers: list[Layer] = ["best", "mean", 1, 2]
    lines = {layer: work.Worker(replace(asked, alignment_layer=layer)).lines(0, LINES, None, None) for layer in layers}
    translator = Translator.load(model, device="cpu")
    found = translator.translate(LINES, max_length=8, attention=True)
    for layer, written in lines.items():
        links = [pharaoh(align(line, one, translator.special, layer)) for line, one in zip(LINES, found, strict=True)]
        assert [line.split("\t")[1] for line in written] == links
    assert len({tuple(written) for written in lines.values()}) > 1
    result = run_cli("translate", model, text, "--alignments", "--alignment-layer", "1", "--max-length", "8", "-q")
    assert result.stdout == "".join(f"{line}\n" for line in lines[1])
    with pytest.raises(UsageError, match="no decoder layer 9; choose one of 1 to 2"):
        work.Worker(replace(asked, alignment_layer=9))
    with pytest.raises(UsageError, match="--alignment-layer is about --alignments; add that"):
        command.translate(model, str(text), alignment_layer="1")
    with pytest.raises(UsageError, match='--alignment-layer is "last"; give best, mean or the number'):
        command.translate(model, str(text), alignments=True, alignment_layer="last")


# -- several processes -------------------------------------------------------------------------------------------------


@pytest.fixture
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """More windows than processes, so that the order is put to the test."""
    monkeypatch.setattr(command, "WINDOW", 50)
    monkeypatch.setattr(command, "SHARED_WINDOW", 15)
    monkeypatch.setattr(common, "prepare_runtime", lambda threads: None)


@pytest.mark.usefixtures("_small_windows")
def test_workers_change_nothing(
    model: Path, write_lines: WriteLines, terms: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Draws, prefixes and warnings are those of the lines."""
    lines = [LINES[place % 6] for place in range(130)]
    path, out, shared = write_lines("text", lines), write_lines("out", []), write_lines("shared", [])
    prefixes = write_lines("prefixes", [line[:1] for line in lines])
    searched: dict[str, Any] = {"max_length": 3, "beam_size": 1, "terms": terms, "jsonl": True}
    drawn: dict[str, Any] = {"max_length": 3, "sample": True, "prefix": str(prefixes)}
    for options in (searched, drawn):
        command.translate(model, str(path), output=out, **options)
        capfd.readouterr()
        command.translate(model, str(path), output=shared, workers=2, threads=2, **options)
        said = capfd.readouterr().err.splitlines()
        if options is drawn:
            assert shared.read_bytes() == out.read_bytes()
            assert said == []
        else:
            rows, others = ([json.loads(line) for line in one.read_text("utf-8").splitlines()] for one in (shared, out))
            assert [row["ids"] for row in rows] == [row["ids"] for row in others]
            unmet = [number for number, row in enumerate(rows, start=1) if row["unmet"]]
            assert len(unmet) > 30
            assert sorted(int(line.split()[2].rstrip(":")) for line in said) == unmet


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--precision", "fp8"], 'there is no precision "fp8"'),
        (["--suppress", "nonsense"], 'suppress: "nonsense" is no token'),
    ],
)
def test_errors_of_a_worker_are_those_of_one_process(
    run_cli: RunCli, model: Path, text: Path, args: list[str], message: str
) -> None:
    result = run_cli("translate", model, text, *args, "--workers", "2")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_bad_input_half_way(run_cli: RunCli, model: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"key\n" * 2700 + b"\xff\n")
    out = tmp_path / "out"
    result = run_cli(
        "translate", model, "-", "-o", out, "--workers", "2", *LIMIT, stdin=(tmp_path / "bad").read_bytes()
    )
    assert (result.rc, result.stdout) == (1, "")
    assert "standard input, line 2701: byte 0xff" in result.stderr
    assert not out.exists()


def test_a_reader_that_goes_away_ends_the_workers(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("key\n" * 20_000)
    script = (
        f'"{DRAGOMAN}" translate {model} {text} --max-length 3 --beam-size 1 -q --workers 2 '
        "| head -1; echo ${PIPESTATUS[0]}"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, env=environment)
    first, status, rest = result.stdout.split("\n")
    assert (bool(first), status, rest, result.stderr) == (True, "141", "", "")


def test_a_worker_that_dies_is_said(model: Path) -> None:
    """As the system kills a process that takes too much memory."""
    asked = work.Work([model], "cpu", "fp32", {"max_length": 2, "beam_size": 1})
    windows = [(first, ["key"] * 50, None) for first in range(0, 5000, 50)]
    others = {process.pid for process in multiprocessing.active_children()}
    written = work.shared_out(asked, windows, lambda first: lambda done: None, 2, 2)
    assert len(next(written)) == 50
    workers = [process for process in multiprocessing.active_children() if process.pid not in others]
    os.kill(workers[0].pid or 0, signal.SIGKILL)
    counts = [50]
    with pytest.raises(RunError) as caught:
        counts.extend(len(found) for found in written)
    assert str(caught.value) == (
        "a worker process was killed (out of memory?), "
        f"so the output ends after line {sum(counts):,} of the input; call the command again, with fewer --workers."
    )
    # The pool's own thread waits for its processes too; is_alive() of one that another thread has waited for is True.
    until = time.monotonic() + 30
    while any(_is_there(process.pid or 0) for process in workers):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_a_dead_worker_means_for_the_output(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file takes its place when it is complete, so that nothing of it is there; a pipe has what went into it."""
    out, old, pipe = tmp_path / "out", tmp_path / "old", tmp_path / "pipe"
    old.write_text("old\n")
    os.mkfifo(pipe)
    monkeypatch.setattr(work, "ProcessPoolExecutor", _DeadPool)
    for output, wanted in (
        (out, f"so {out} is not written; call the command again, with fewer --workers."),
        (old, f"so {old} is as it was; call the command again, with fewer --workers."),
        (pipe, "so nothing is written; call the command again, with fewer --workers."),
    ):
        asked = work.Work([model.with_name("none")], "cpu", "fp32")
        with pytest.raises(RunError) as caught:
            next(work.shared_out(asked, [], lambda first: print, 2, 2, output))
        assert str(caught.value).endswith(wanted)
    for output in (pipe, None):
        assert unfinished(output, 1500) == "the output ends after line 1,500 of the input"


class _DeadPool:
    def __init__(self, *_: object) -> None: ...

    def submit(self, *_: object) -> None:
        raise BrokenProcessPool

    def shutdown(self, **_: object) -> None: ...


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ([-signal.SIGTERM, -signal.SIGKILL, None], "was killed (out of memory?)"),
        ([0, -signal.SIGTERM, -signal.SIGSEGV], "was ended by SIGSEGV"),
        ([-signal.SIGTERM, -signal.SIGTERM], "was ended by SIGTERM"),
        ([-signal.SIGTERM, 3], "ended with code 3"),
        ([-99], "ended with code -99"),
    ],
)
def test_how_a_worker_has_ended(codes: list[int | None], said: str) -> None:
    """The pool ends those that are left by SIGTERM, so that another end is the one that counts."""
    assert work._end_of([SimpleNamespace(exitcode=code) for code in codes]) == said  # type: ignore[misc]


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_few_windows_are_held_at_a_time(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read, and not yet written, does not grow with the input."""
    taken = written = 0

    def windows() -> object:
        nonlocal taken
        for first in range(40):
            taken += 1
            assert taken - written <= 2 * 1 + 2
            yield first, ["key"], None

    asked = work.Work([model], "cpu", "fp32", {"max_length": 2, "beam_size": 1})
    seen = []
    for lines in work.shared_out(asked, windows(), lambda first: lambda done: None, 1, 1):  # type: ignore[arg-type]
        written += 1
        seen.append(lines)
    assert (taken, written, len({tuple(lines) for lines in seen})) == (40, 40, 1)


def test_the_threads_are_divided(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []

    class Pool(ProcessPoolExecutor):
        def __init__(self, workers: int, context: object, prepare: object, arguments: tuple[int, int]) -> None:
            given.append((workers, arguments[0]))
            raise RunError("enough.")

    monkeypatch.setattr(work, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for workers, threads in ((2, None), (3, 7), (4, 2)):
        with pytest.raises(RunError):
            next(work.shared_out(work.Work([model], "cpu", "fp32"), [], lambda first: print, workers, threads))
    assert given == [(2, 4), (3, 2), (4, 1)]


# -- on a terminal -----------------------------------------------------------------------------------------------------


def test_a_terminal_shows_a_bar_and_its_speed(model: Path, text: Path, tmp_path: Path) -> None:
    leader, follower = os.openpty()
    arguments: list[str | Path] = [
        DRAGOMAN,
        "translate",
        model,
        text,
        "--max-length",
        "3",
        "-o",
        tmp_path / "out",
        "--batch-tokens",
        "1",
    ]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(arguments, stderr=follower, stdout=subprocess.PIPE, env=environment) as process:
        os.close(follower)
        seen = b""
        while True:
            try:
                block = os.read(leader, 65536)
            except OSError:  # how Linux reports that the other end is closed
                break
            if not block:
                break
            seen += block
        stdout, _ = process.communicate(timeout=60)
    os.close(leader)
    assert (process.returncode, stdout) == (0, b"")
    assert "translating" in seen.decode()
    assert "6/6" in seen.decode()
    assert "sentences/s" in seen.decode()


def test_progress_of_workers_counts_lines(
    model: Path, write_lines: WriteLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    class Progress(common.Progress):
        def update(self, done: int, note: str = "") -> None:
            assert note.endswith(" sentences/s")
            seen.append((done, self.total))

    monkeypatch.setattr(common, "Progress", Progress)
    monkeypatch.setattr(common, "prepare_runtime", lambda threads: None)
    monkeypatch.setattr(command, "SHARED_WINDOW", 5)
    path = write_lines("in", ["key"] * 12)
    command.translate(model, str(path), output=path.with_name("out"), max_length=2, beam_size=1, workers=2, threads=2)
    assert seen == [(5, 12), (10, 12), (12, 12)]
    assert path.with_name("out").read_text().count("\n") == 12
