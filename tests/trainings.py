"""Small trainings: their text, their settings, what they leave, and how to start them in processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from dragoman.bundle import read_tensors
from dragoman.config import RunConfig

WORDS = [
    *("ana", "bolo", "casa", "dado", "elefante", "faca", "gato", "hora", "ilha", "jarro"),
    *("lobo", "mesa", "navio", "olho", "pato", "queijo", "rato", "sapo", "tatu", "uva"),
]


def sentences(count: int, seed: int, longest: int = 7) -> list[str]:
    draw = random.Random(seed)
    different = dict.fromkeys(" ".join(draw.choices(WORDS, k=draw.randint(2, longest))) for _ in range(count))
    return list(different)


def write_reversed(folder: Path, sizes: Mapping[str, tuple[int, int]]) -> None:
    """Sentences and the same with the words reversed, as NAME.src and NAME.tgt; of each name how many, and the seed."""
    for name, (count, seed) in sizes.items():
        src = sentences(count, seed)
        (folder / f"{name}.src").write_text("".join(f"{line}\n" for line in src))
        (folder / f"{name}.tgt").write_text("".join(" ".join(line.split()[::-1]) + "\n" for line in src))


def config_of(folder: Path, bpe_dropout: float = 0.0, **train_settings: Any) -> RunConfig:
    data = {
        "dir": str(folder),
        **{name: {"src": f"{name}.src", "tgt": f"{name}.tgt"} for name in ("train", "valid", "test")},
    }
    model = {
        "d_model": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 32, "tie_embeddings": "all",
    }  # fmt: skip
    settings = {
        "max_steps": 12,
        "batch_tokens": 300,
        "valid_every": 4,
        "log_every": 3,
        "warmup_steps": 4,
        "seed": 5,
        "threads": 1,
    }
    return RunConfig(
        name="tiny",
        data=data,
        tokenizer={"kind": "bpe", "vocab_size": 320, "bpe_dropout": bpe_dropout}
        if bpe_dropout
        else {"kind": "wordlevel", "min_frequency": 1},
        model=model,
        train={**settings, **train_settings},
    )


def weights(run: Path, name: str = "last") -> dict[str, Tensor]:
    return read_tensors(run / name / "model.safetensors")


def records(run: Path) -> list[dict[str, Any]]:
    """The metrics without what the clock says."""
    clock = {"elapsed", "tokens_per_second"}
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in clock} for line in lines]


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def write_config(config: RunConfig, path: Path) -> Path:
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    return path


# Processes

PYTHON_M = ("-m", "dragoman")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **more}


def start(*arguments: str | Path, program: tuple[str, ...] = PYTHON_M, **more: str) -> subprocess.Popen[str]:
    """``dragoman`` with these arguments in a group of its own; ``program`` is how Python runs it."""
    return subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)],
        env=environment(**more), start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def on_a_terminal(
    command: list[str], then: Callable[[], bytes | None] = lambda: None, seconds: float = 120.0
) -> tuple[int, bytes]:
    """Run a command on a terminal of its own: its exit code, and all that it says.

    ``then`` is asked again and again for what is typed there.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, environment())
    said = b""
    end = time.monotonic() + seconds
    # Linux says EIO once nobody has the terminal open any more.
    with contextlib.suppress(OSError):
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.05)[0]:
                said += os.read(terminal, 65536)
            if typed := then():
                os.write(terminal, typed)
    # Whatever still runs there hangs up.
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said


def own_lines(stderr: str) -> list[str]:
    """What our processes say as their last word, without the launcher's report."""
    return [line for line in stderr.splitlines() if line.startswith("dragoman: ")]


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def rank_of(pid: int) -> str:
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(part.decode().partition("=")[2] for part in variables if part.startswith(b"RANK="))


def wait_for(path: Path, process: subprocess.Popen[str], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, f"{path} does not appear"
        time.sleep(0.02)


def wait_until_gone(pids: list[int], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids):
        assert time.monotonic() < end, f"{pids} go on"
        time.sleep(0.05)
