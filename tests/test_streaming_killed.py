"""A training on a streamed text that is really killed goes on to the bit.

By SIGKILL: at a moment that nobody chose, and in the middle of writing a checkpoint.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from dragoman.config import RunConfig
from dragoman.training.checkpoint import checkpoints
from dragoman.training.run import train
from test_training_run import config_of, records, same, sentences, weights

STEPS = 120
FILES = 4

# Runs dragoman, and kills it when the first argument's number of files of checkpoints has been begun.
WRITING = """
import os, runpy, signal, sys
from dragoman.training import checkpoint

left = int(sys.argv.pop(1))
save = checkpoint.save_file

def save_file(tensors, path):
    global left
    left -= 1
    if not left:
        path.write_bytes(b"the beginning of a file")
        os.kill(os.getpid(), signal.SIGKILL)
    save(tensors, path)

checkpoint.save_file = save_file
runpy.run_module("dragoman", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of sentences and the same reversed, line by line and as Parquet in small row groups."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "parquet").mkdir()
    names = [(f"train-{number}", 50 + 13 * number, number + 1) for number in range(FILES)]
    for name, count, seed in (*names, ("valid", 12, 20), ("test", 12, 21)):
        src = sentences(count, seed)
        tgt = [" ".join(line.split()[::-1]) for line in src]
        for side, lines in (("src", src), ("tgt", tgt)):
            (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
        if name.startswith("train"):
            rows = [{"src": one, "tgt": other} for one, other in zip(src, tgt, strict=True)]
            pq.write_table(pa.Table.from_pylist(rows), folder / "parquet" / f"{name}.parquet", row_group_size=7)
    return folder


def streamed(folder: Path, train_text: dict[str, Any], **settings: Any) -> RunConfig:
    """A run whose position lies in the middle of several windows of several parts most of the time."""
    steps = {"max_steps": STEPS, "valid_every": 40, "save_every": 3, "sample_sentences": 0}
    config = config_of(folder, **{**steps, **settings})
    source = {**train_text, "streaming": True, "shuffle_buffer": 60}
    return config.changed(data=config.data.changed(train=source))


def dragoman(program: list[str], config: RunConfig, run: Path, *more: str) -> subprocess.Popen[str]:
    """Start a training in a process of its own; ``program`` is how."""
    path = run.with_suffix(".yaml")
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    command = [sys.executable, *program, "train", str(path), "--out", str(run), *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def reached(run: Path) -> int:
    """The steps of the newest complete checkpoint."""
    return max((int(path.name.removeprefix("step-")) for path in checkpoints(run)), default=0)


def kill_after(process: subprocess.Popen[str], run: Path, step: int, pause: float) -> None:
    """SIGKILL so many seconds after the checkpoint of a step."""
    with process:
        end = time.monotonic() + 120.0
        while reached(run) < step:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            time.sleep(0.002)
        time.sleep(pause)
        process.kill()
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def check_the_rest(config: RunConfig, run: Path, whole: Path) -> None:
    """``--resume`` brings what would have come anyway."""
    with dragoman(["-m", "dragoman"], config, run, "--resume") as process:
        _, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    assert "going on from step" in stderr
    assert same(weights(whole), weights(run))
    assert same(weights(whole, "best"), weights(run, "best"))
    # A kill between two records of the training cuts one in two.
    ends = [[record for record in records(folder) if record["kind"] != "train"] for folder in (whole, run)]
    assert ends[0] == ends[1]
    assert not list((run / "checkpoints").glob(".*"))


@pytest.mark.slow
def test_files_killed_at_any_moment(text: Path, tmp_path: Path) -> None:
    files = {side: [f"train-{number}.{side}" for number in range(FILES)] for side in ("src", "tgt")}
    config = streamed(text, files, bpe_dropout=0.3, ema=0.9, batch_tokens=600)
    whole, run = train(config, tmp_path / "whole", quiet=True), tmp_path / "cut"
    draw = random.SystemRandom()
    step, pause = draw.randrange(3, STEPS * 3 // 4, 3), draw.uniform(0.0, 0.05)
    print("killed", pause, "seconds after step", step)
    kill_after(dragoman(["-m", "dragoman"], config, run), run, step, pause)
    assert step <= reached(run) < STEPS
    check_the_rest(config, run, whole)


@pytest.mark.slow
def test_a_data_set_killed_while_a_checkpoint_is_written(text: Path, tmp_path: Path) -> None:
    hub = {"hub": str(text / "parquet"), "src_field": "src", "tgt_field": "tgt"}
    config = streamed(text, hub, accumulate=2, batch_tokens=150)
    whole, run = train(config, tmp_path / "whole", quiet=True), tmp_path / "cut"
    # Three files a checkpoint: weights, optimizer, random states.
    number = random.SystemRandom().randrange(4, STEPS)
    print("killed while file", number, "was written")
    with dragoman(["-c", WRITING, str(number)], config, run) as process:
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, stderr
    assert reached(run) == (number - 1) // 3 * 3
    (rest,) = (run / "checkpoints").glob(".*")
    assert any(path.read_bytes() == b"the beginning of a file" for path in rest.iterdir())
    check_the_rest(config, run, whole)
