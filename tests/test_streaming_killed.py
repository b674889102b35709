"""A training on a streamed text that is really killed goes on to the bit.

By SIGKILL: at a moment that nobody chose, and in the middle of writing a checkpoint.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dragoman.config import RunConfig
from dragoman.training.checkpoint import checkpoints, read_values
from dragoman.training.run import train
from trainings import PYTHON_M, config_of, records, same, start, weights, write_config, write_reversed

STEPS = 120
FILES = 4
# A part of an epoch that has given some of the batches of its window.
MIDDLE = re.compile(r'"batch": [1-9]')

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
    names = {f"train-{number}": (50 + 13 * number, number + 1) for number in range(FILES)}
    write_reversed(folder, {**names, "valid": (12, 20), "test": (12, 21)})
    for name in names:
        lines = ((folder / f"{name}.{side}").read_text().splitlines() for side in ("src", "tgt"))
        rows = [{"src": src, "tgt": tgt} for src, tgt in zip(*lines, strict=True)]
        pq.write_table(pa.Table.from_pylist(rows), folder / "parquet" / f"{name}.parquet", row_group_size=7)
    return folder


def streamed(folder: Path, train_text: dict[str, Any], **settings: Any) -> RunConfig:
    """A run whose position lies in the middle of several windows of several parts most of the time.

    A window holds the ``shuffle_buffer``'s share of a part: some sixty pairs, which have to make several batches.
    """
    steps = {"max_steps": STEPS, "valid_every": 40, "save_every": 3, "sample_sentences": 0}
    config = config_of(folder, **{**steps, **settings})
    source = {**train_text, "streaming": True, "shuffle_buffer": 240}
    return config.changed(data=config.data.changed(train=source))


def begin(config: RunConfig, run: Path, *more: str, program: tuple[str, ...] = PYTHON_M) -> subprocess.Popen[str]:
    """Start a training in a process of its own."""
    path = write_config(config, run.with_suffix(".yaml"))
    return start("train", path, "--out", run, *more, program=program, HF_HUB_OFFLINE="1")


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
    # Otherwise nothing here would show that it goes on from the middle of a window.
    positions = [json.dumps(read_values(path)["progress"]["position"]) for path in checkpoints(whole)]
    assert any(map(MIDDLE.search, positions)), positions
    with begin(config, run, "--resume") as process:
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
    config = streamed(text, files, bpe_dropout=0.3, ema=0.9, batch_tokens=200)
    whole, run = train(config, tmp_path / "whole", quiet=True), tmp_path / "cut"
    draw = random.SystemRandom()
    step, pause = draw.randrange(3, STEPS * 3 // 4, 3), draw.uniform(0.0, 0.05)
    print("killed", pause, "seconds after step", step)
    kill_after(begin(config, run), run, step, pause)
    assert step <= reached(run) < STEPS
    check_the_rest(config, run, whole)


@pytest.mark.slow
def test_a_data_set_killed_while_a_checkpoint_is_written(text: Path, tmp_path: Path) -> None:
    hub = {"hub": str(text / "parquet"), "src_field": "src", "tgt_field": "tgt"}
    config = streamed(text, hub, accumulate=2, batch_tokens=100)
    whole, run = train(config, tmp_path / "whole", quiet=True), tmp_path / "cut"
    # Three files a checkpoint: weights, optimizer, random states.
    number = random.SystemRandom().randrange(4, STEPS)
    print("killed while file", number, "was written")
    with begin(config, run, program=("-c", WRITING, str(number))) as process:
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, stderr
    assert reached(run) == (number - 1) // 3 * 3
    (rest,) = (run / "checkpoints").glob(".*")
    assert any(path.read_bytes() == b"the beginning of a file" for path in rest.iterdir())
    check_the_rest(config, run, whole)
