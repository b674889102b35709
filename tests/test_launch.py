"""``dragoman train --processes``: what torchrun would train, one word about what is wrong, and how it ends."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.cli import launch as launching
from dragoman.cli.main import app
from dragoman.config import RunConfig
from dragoman.errors import UsageError
from dragoman.training.run import train
from test_ddp import corpus, settings_of
from test_ddp_failures import config_file
from trainings import (
    children,
    on_a_terminal,
    own_lines,
    rank_of,
    records,
    same,
    start,
    wait_for,
    wait_until_gone,
    weights,
)

__all__ = ["config_file", "corpus"]

Writer = Callable[[RunConfig], str]


@pytest.mark.slow
def test_two_processes_train_what_one_does_with_twice_the_batches(
    corpus: Path, tmp_path: Path, config_file: Writer
) -> None:
    config = settings_of(corpus, max_steps=12)
    run = tmp_path / "run"
    with start("train", config_file(config), "--out", str(run), "--processes", "2") as process:
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert stdout == f"{run}\n"
    assert "2 processes" in stderr
    assert own_lines(stderr) == []
    whole = train(config.changed(train=config.train.changed(accumulate=2)), tmp_path / "whole", quiet=True)
    assert same(weights(whole), weights(run))
    assert [record["step"] for record in records(run)] == [record["step"] for record in records(whole)]


@pytest.mark.slow
def test_quiet_processes_say_nothing_and_settings_reach_them(corpus: Path, tmp_path: Path, config_file: Writer) -> None:
    path = config_file(settings_of(corpus, max_steps=12))
    run = tmp_path / "run"
    with start("-q", "train", path, "train.max_steps=3", "--out", str(run), "--processes", "2") as process:
        stdout, stderr = process.communicate(timeout=300)
    assert (process.returncode, stdout) == (0, f"{run}\n")
    warnings = stderr.splitlines()
    assert all(line.startswith("warning: ") for line in warnings), stderr
    assert len(set(warnings)) == len(warnings)
    assert records(run)[-1]["step"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_and_the_run_goes_on(
    corpus: Path, tmp_path: Path, config_file: Writer, number: signal.Signals
) -> None:
    config = settings_of(corpus, max_steps=60, save_every=5)
    run, path = tmp_path / "a run", config_file(config)
    arguments = ["train", path, "train.max_steps=100000", "--out", str(run), "--processes", "2"]
    with start(*arguments) as process:
        wait_for(run / "checkpoints" / "step-10", process)
        ranks = children(process.pid)
        assert sorted(rank_of(pid) for pid in ranks) == ["0", "1"]
        process.send_signal(number)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    (line,) = own_lines(stderr)
    assert line.startswith("dragoman: stopped at step ")
    again = shlex.split(line.partition(", all saved; go on with: ")[2])
    assert again == ["dragoman", *arguments, "--resume"]
    wait_until_gone(ranks)
    (newest,) = sorted((run / "checkpoints").iterdir(), key=lambda folder: int(folder.name.split("-")[1]))[-1:]
    step = int(newest.name.split("-")[1])
    again[again.index("train.max_steps=100000")] = f"train.max_steps={step + 3}"
    with start(*again[1:]) as go:
        assert go.communicate(timeout=300)[0] == f"{run}\n"
    assert records(run)[-1]["step"] == step + 3


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_is_one_ctrl_c(corpus: Path, tmp_path: Path, config_file: Writer) -> None:
    """The terminal tells all processes; a second signal from the launcher would end them before they have saved."""
    path, run = config_file(settings_of(corpus, save_every=5)), tmp_path / "run"
    pressed: list[bytes] = []

    def ctrl_c() -> bytes | None:
        if pressed or not (run / "checkpoints" / "step-10").exists():
            return None
        pressed.append(b"\x03")
        return pressed[0]

    arguments = ["train", path, "train.max_steps=100000", "--out", str(run), "--processes", "2"]
    code, said = on_a_terminal([sys.executable, "-m", "dragoman", *arguments], ctrl_c)
    assert pressed, said
    assert code == 130, said
    assert said.count(b"dragoman: stopped at step ") == 1, said
    assert b"interrupted" not in said


def test_whose_ctrl_c_it_is() -> None:
    """The two signals of a terminal and of a launcher often become one on their way, so that the answer counts."""
    command = [sys.executable, "-c", "from dragoman.cli.launch import _from_terminal as f; print(f())"]
    _, said = on_a_terminal(command)
    assert said.split() == [b"True"]
    assert subprocess.run(command, capture_output=True, start_new_session=True, check=True).stdout.split() == [b"False"]


@pytest.mark.slow
def test_a_killed_rank_is_named_and_ends_the_others(corpus: Path, tmp_path: Path, config_file: Writer) -> None:
    path = config_file(settings_of(corpus, max_steps=100_000, save_every=5))
    run = tmp_path / "run"
    with start("train", path, "--out", str(run), "--processes", "2") as process:
        wait_for(run / "checkpoints" / "step-5", process)
        ranks = children(process.pid)
        os.kill(next(pid for pid in ranks if rank_of(pid) == "1"), signal.SIGKILL)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGKILL
    lines = sorted(own_lines(stderr))
    assert lines[0].startswith("dragoman: another process of this training ended or hangs")
    assert lines[1:] == [
        f"dragoman: rank 1 was ended by SIGKILL; go on with: dragoman train {path} --out {run} --processes 2 --resume"
    ]
    assert "Traceback" not in stderr
    wait_until_gone(ranks)


@pytest.mark.slow
def test_processes_do_not_outlive_the_command(corpus: Path, tmp_path: Path, config_file: Writer) -> None:
    path = config_file(settings_of(corpus, max_steps=100_000, save_every=5))
    run = tmp_path / "run"
    with start("train", path, "--out", str(run), "--processes", "2") as process:
        wait_for(run / "checkpoints" / "step-5", process)
        ranks = children(process.pid)
        process.kill()
        process.communicate(timeout=120)
    wait_until_gone(ranks)


def test_a_wrong_setting_is_said_once(corpus: Path, tmp_path: Path, config_file: Writer) -> None:
    path = config_file(settings_of(corpus))
    with start("train", path, "train.max_stepps=3", "--processes", "3") as process:
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (1, "")
    (line,) = stderr.splitlines()
    assert "max_stepps" in line
    assert "rank" not in line


@pytest.mark.slow
def test_what_the_first_process_finds_is_said_once(corpus: Path, tmp_path: Path, config_file: Writer) -> None:
    path = config_file(settings_of(corpus))
    with start("train", path, "data.train.src=none.txt", "--out", str(tmp_path / "run"), "--processes", "2") as process:
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    (line,) = own_lines(stderr)
    assert "none.txt" in line
    assert "Traceback" not in stderr


def test_inside_of_another_launcher(corpus: Path, config_file: Writer) -> None:
    with start("train", config_file(settings_of(corpus)), "--processes", "2", WORLD_SIZE="2", RANK="0") as process:
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == UsageError.exit_code
    (line,) = stderr.splitlines()
    assert "leave it out where torchrun has started them" in line


@pytest.mark.parametrize("count", ["0", "257", "-1", "two"])
def test_a_number_of_processes_that_cannot_be(count: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["train", str(tmp_path / "none.yaml"), "--processes", count])
    assert result.exit_code == 2
    assert "--processes" in result.output


@pytest.mark.parametrize(
    ("processors", "processes", "threads", "share"),
    [(8, 2, None, "4"), (2, 2, None, "1"), (2, 4, None, "1"), (None, 2, None, "1"), (8, 2, 3, "3")],
)
def test_processors_are_shared_out(
    monkeypatch: pytest.MonkeyPatch, processors: int | None, processes: int, threads: int | None, share: str
) -> None:
    started: list[dict[str, str]] = []

    class Process:
        def __init__(self, command: list[str], env: dict[str, str], preexec_fn: Callable[[], None]) -> None:
            assert command[1:] == ["-m", "dragoman", "train", "x.yaml"]
            started.append(env)

        def poll(self) -> int:
            return 0

    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(launching.subprocess, "Popen", Process)
    assert launching.launch(["train", "x.yaml"], processes, threads, "again") == 0
    assert [env["RANK"] for env in started] == [str(rank) for rank in range(processes)]
    assert {env["OMP_NUM_THREADS"] for env in started} == {share}
    assert {env["WORLD_SIZE"] for env in started} == {str(processes)}
    for env in started:
        monkeypatch.setattr(os, "environ", env)
        assert launching.launched_processes() == processes
    assert len({env["MASTER_PORT"] for env in started}) == 1


@pytest.mark.parametrize(("variables", "processes"), [({}, 1), ({"WORLD_SIZE": "2"}, None)])
def test_processes_of_no_launcher_and_of_another(
    variables: dict[str, str], processes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", variables)
    assert launching.launched_processes() == processes


def test_one_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_SECONDS_TO_END", 0.3)
    failing = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    began = time.monotonic()
    assert launching._wait([sleeping, failing], "again") == 3
    assert time.monotonic() - began < 30
    assert sleeping.returncode == -signal.SIGKILL
