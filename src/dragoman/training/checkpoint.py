"""Checkpoints: everything a run needs to go on to the bit, in safetensors and JSON, complete or absent.

``checkpoints/step-N/`` holds ``model.safetensors``, ``optimizer.safetensors``, ``random.safetensors`` (the
generators' states), ``ema.safetensors`` where an average runs, and ``trainer.json``.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from dragoman.bundle import load_unique_weights, read_tensors, unique_weights
from dragoman.errors import BundleError
from dragoman.files import atomic_folder, write_json

FORMAT_VERSION = 1
_NAME = re.compile(r"step-(\d+)")

Tensors = dict[str, Tensor]


@dataclass
class CheckpointState:
    """A checkpoint in memory. ``trainer`` holds JSON values: the progress, the schedule, the scaler."""

    model: Tensors
    optimizer: Tensors
    random: Tensors
    trainer: dict[str, Any]
    ema: Tensors = field(default_factory=dict)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimizer's state as tensors named ``number of the parameter.name of the value``."""
    return {
        f"{index}.{name}": torch.as_tensor(value).detach().cpu()
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Give an optimizer of the same parameters the state that :func:`optimizer_tensors` took."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def random_tensors() -> Tensors:
    """The states of PyTorch's generators, and of Python's."""
    version, internal, gauss = random.getstate()
    del version, gauss
    states = {"cpu": torch.get_rng_state(), "python": torch.tensor(internal, dtype=torch.int64)}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random(states: Tensors) -> None:
    """Set the generators to the states that :func:`random_tensors` took."""
    torch.set_rng_state(states["cpu"])
    random.setstate((3, tuple(states["python"].tolist()), None))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def model_tensors(model: torch.nn.Module) -> Tensors:
    """Copies of the model's weights, a tied matrix once."""
    return {name: tensor.cpu().contiguous() for name, tensor in unique_weights(model).items()}


def restore_model(model: torch.nn.Module, tensors: Tensors, where: str) -> None:
    """Fill a model with the weights that :func:`model_tensors` took."""
    load_unique_weights(model, tensors, where)


def checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints of a run directory, oldest first by number of steps."""
    found = []
    for path in (run / "checkpoints").glob("step-*"):
        match = _NAME.fullmatch(path.name)
        if match and (path / "trainer.json").is_file():
            found.append((int(match[1]), path))
    return [path for _, path in sorted(found)]


def newest_checkpoint(run: Path) -> Path | None:
    """The complete checkpoint of the most steps, None where there is none."""
    return next(reversed(checkpoints(run)), None)


def prune_checkpoints(run: Path, keep: int) -> None:
    """Delete all but the ``keep`` newest checkpoints, and what a crash left half-written."""
    for path in checkpoints(run)[:-keep]:
        shutil.rmtree(path)
    for path in (run / "checkpoints").glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def save_checkpoint(run: Path, step: int, state: CheckpointState) -> Path:
    """Write ``checkpoints/step-N``, complete or not at all, and return it."""
    path = run / "checkpoints" / f"step-{step}"
    with atomic_folder(path) as part:
        for name in ("model", "optimizer", "random", "ema"):
            tensors = getattr(state, name)
            if tensors or name == "model":
                save_file(tensors, part / f"{name}.safetensors")
        write_json(part / "trainer.json", {"format_version": FORMAT_VERSION, **state.trainer})
    return path


def load_checkpoint(path: Path) -> CheckpointState:
    """Read a checkpoint. Raises :class:`BundleError` for one that is damaged or of another format."""
    try:
        trainer = json.loads((path / "trainer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BundleError(
            f"{path / 'trainer.json'} cannot be read; delete {path} to go on from an older one."
        ) from None
    if not isinstance(trainer, dict) or trainer.get("format_version") != FORMAT_VERSION:
        raise BundleError(f"{path} is not of checkpoint format {FORMAT_VERSION}; use the dragoman that wrote it.")
    parts: dict[str, Tensors] = {}
    for name in ("model", "optimizer", "random", "ema"):
        file = path / f"{name}.safetensors"
        parts[name] = read_tensors(file) if file.exists() or name in ("model", "random") else {}
    return CheckpointState(trainer=trainer, **parts)
