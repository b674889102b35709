"""Training in processes that torchrun starts: what a user sees, and what becomes of it when one is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config import RunConfig
from dragoman.errors import RunError
from dragoman.training import ranks
from dragoman.training.run import train
from test_ddp import WORKER, corpus, settings_of, start_ranks
from tolerances import SAME_SUMS
from trainings import children, environment, own_lines, rank_of, records, same, wait_for, weights, write_config

__all__ = ["corpus"]


@pytest.fixture
def config_file(tmp_path: Path) -> Callable[[RunConfig], str]:
    def write(config: RunConfig) -> str:
        return str(write_config(config, tmp_path / "config.yaml"))

    return write


def torchrun(*arguments: str) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.Popen(
        [*launcher, "-m", "dragoman", "train", *arguments],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_a_killed_rank_ends_the_others_and_the_run_goes_on(
    corpus: Path, tmp_path: Path, config_file: Callable[[RunConfig], str]
) -> None:
    """SIGKILL to rank 1 in the middle; then --resume on two ranks, to the weights of a run that was left alone."""
    config = settings_of(corpus, max_steps=300, save_every=10, valid_every=100)
    run = tmp_path / "run"
    path = config_file(config)
    with torchrun(path, "--out", str(run)) as process:
        wait_for(run / "checkpoints" / "step-20", process)
        victim = next(pid for pid in children(process.pid) if rank_of(pid) == "1")
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        _, stderr = process.communicate(timeout=120)
    assert time.monotonic() - killed < 60.0
    assert process.returncode == 1
    (line,) = own_lines(stderr)
    assert line.startswith("dragoman: another process of this training ended or hangs, so that this one on ")
    assert line.endswith(" ends too; go on with --resume.")
    assert "SIGKILL" in stderr  # the launcher's report: which rank it was
    assert not (run / "checkpoints" / "step-300").exists()

    with torchrun(path, "--out", str(run), "--resume", "-q") as process:
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert stdout == f"{run}\n"
    assert own_lines(stderr) == []
    whole = train(config.changed(train=config.train.changed(accumulate=2)), tmp_path / "whole", quiet=True)
    for mine, theirs in zip(weights(whole).values(), weights(run).values(), strict=True):
        torch.testing.assert_close(theirs, mine, rtol=0.0, atol=SAME_SUMS)


@pytest.mark.slow
def test_a_rank_that_hangs_is_given_up(corpus: Path, tmp_path: Path) -> None:
    config = settings_of(corpus, max_steps=20, save_every=2)
    job = {
        "out": str(tmp_path / "run"),
        "config": config.model_dump(mode="json"),
        "acts": {"hang": {"rank": 1, "step": 5}, "patience": 3.0},
    }
    (tmp_path / "jobs.json").write_text(json.dumps([job]))
    begin = time.monotonic()
    first, second = start_ranks([str(WORKER), str(tmp_path / "jobs.json")])
    try:
        _, stderr = first.communicate(timeout=120)
    finally:
        second.kill()
        second.communicate()
    assert time.monotonic() - begin < 110.0
    assert first.returncode == 0, stderr
    said = json.loads((tmp_path / "run.job.rank0.json").read_text())
    assert said["error"] == "RunError"
    assert "another process of this training ended or hangs" in said["message"]
    assert (tmp_path / "run" / "checkpoints" / "step-4").is_dir()
    resumed = train(config.changed(train=config.train.changed(accumulate=2)), tmp_path / "run", resume=True, quiet=True)
    assert [record["step"] for record in records(resumed) if record["kind"] == "train"] == list(range(1, 21))


@pytest.mark.slow
def test_the_command_speaks_once(corpus: Path, tmp_path: Path, config_file: Callable[[RunConfig], str]) -> None:
    config = settings_of(corpus, max_steps=6)
    path = config_file(config)
    run = tmp_path / "run"
    with torchrun(path, "--out", str(run)) as process:
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert stdout == f"{run}\n"
    for once in ("reading the training text", ", 2 processes", "step 4  validation loss", "test BLEU"):
        assert stderr.count(once) == 1, once
    assert "Warning" not in stderr
    one = train(config.changed(train=config.train.changed(accumulate=2)), tmp_path / "one", quiet=True)
    assert same(weights(run), weights(one))

    with torchrun(path, "--out", str(run)) as process:
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 1
    assert stdout == ""
    assert own_lines(stderr) == [
        f"dragoman: {run} already holds a run; add --resume to go on with it, or choose another --out."
    ]


# Without other processes


def test_one_process_joins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert type(ranks.join("cpu")) is ranks.Ranks


@pytest.mark.parametrize(
    ("device", "gpus", "words"),
    [("mps", 0, "cannot share Apple's GPU"), ("cuda", 0, "which has 0 GPUs"), ("auto", 1, "which has 1 GPUs")],
)
def test_processes_without_a_device_each_are_refused(
    device: str, gpus: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    with pytest.raises(RunError, match=words):
        ranks.join(device)


def test_another_rank_says_which_it_is(run_cli: Callable[..., Any]) -> None:
    """A file that is missing on one machine alone, say."""
    done = run_cli("train", "nowhere.yaml", env={"WORLD_SIZE": "2", "RANK": "1"})
    assert done.rc == 1
    assert done.stderr.startswith("dragoman: rank 1: ")
    assert len(done.stderr.splitlines()) == 1


def test_processes_that_no_launcher_introduced(
    corpus: Path, config_file: Callable[[RunConfig], str], tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """Without an address there is nobody to wait for."""
    path = config_file(settings_of(corpus, max_steps=1))
    unknown = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "CUDA_VISIBLE_DEVICES": ""}
    done = run_cli("train", path, "--out", tmp_path / "run", env=unknown)
    assert done.rc == 1
    assert "cannot find each other" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()
