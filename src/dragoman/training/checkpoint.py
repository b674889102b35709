"""Checkpoints: everything a run needs to go on to the bit, in safetensors and JSON, complete or absent.

``checkpoints/step-N/`` holds ``model.safetensors``, ``optimizer.safetensors`` (by parameter name),
``random.safetensors`` (the generators' states), ``ema.safetensors`` where an average runs, and ``trainer.json``: the
run's own values, the format version and checksums of these values and of each other file.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from dragoman.bundle import load_unique_weights, read_tensors, unique_weights
from dragoman.errors import BundleError, RunError
from dragoman.files import atomic_folder, write_json

FORMAT_VERSION = 1
_NAME = re.compile(r"step-(\d+)")
# What dragoman.files calls a folder that is being replaced, between its two renames.
_SET_ASIDE = re.compile(r"\.(step-\d+)\.\w+\.old")
_PARTS = ("model", "optimizer", "random", "ema")

Tensors = dict[str, Tensor]


@dataclass
class CheckpointState:
    """A checkpoint in memory. ``trainer`` holds JSON values: the progress, the schedule, the scaler."""

    model: Tensors
    optimizer: Tensors
    random: Tensors
    trainer: dict[str, Any]
    ema: Tensors = field(default_factory=dict)


def _named(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """The parameters of an optimizer made with names, in its own order."""
    for group in optimizer.param_groups:
        yield from zip(group["param_names"], group["params"], strict=True)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimizer's state as tensors named ``name of the parameter.name of the value``.

    The optimizer must have been made with parameter names, as :func:`dragoman.training.optim.make_optimizer` does.
    """
    return {
        f"{name}.{key}": torch.as_tensor(value).detach().cpu().contiguous()
        for name, parameter in _named(optimizer)
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Give an optimizer of the same parameters the state that :func:`optimizer_tensors` took.

    Raises :class:`BundleError` for a state of other parameters.
    """
    places = {name: (index, parameter) for index, (name, parameter) in enumerate(_named(optimizer))}
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, value_name = key.rpartition(".")
        index, parameter = places.get(name, (-1, value))
        if index < 0 or (value.dim() and value.shape != parameter.shape):
            raise BundleError(
                f"the checkpoint's optimizer has {key}, which fits no parameter here; resume its own run."
            )
        state.setdefault(index, {})[value_name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def random_tensors() -> Tensors:
    """The states of PyTorch's generators, and of Python's."""
    _, internal, gauss = random.getstate()
    states = {"cpu": torch.get_rng_state(), "python": torch.tensor(internal, dtype=torch.int64)}
    if gauss is not None:
        states["python_gauss"] = torch.tensor(gauss, dtype=torch.float64)
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random(states: Tensors) -> None:
    """Set the generators to the states that :func:`random_tensors` took."""
    torch.set_rng_state(states["cpu"])
    gauss = states["python_gauss"].item() if "python_gauss" in states else None
    random.setstate((3, tuple(states["python"].tolist()), gauss))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def model_tensors(model: torch.nn.Module) -> Tensors:
    """The model's weights, a tied matrix once."""
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
    """The complete checkpoint of the most steps, None where there is none.

    A checkpoint that a crash caught between the two renames of its replacement is put back first.
    """
    for aside in (run / "checkpoints").glob(".step-*.old"):
        match = _SET_ASIDE.fullmatch(aside.name)
        if match and not (aside.parent / match[1]).exists():
            os.rename(aside, aside.parent / match[1])
    return next(reversed(checkpoints(run)), None)


def prune_checkpoints(run: Path, keep: int) -> None:
    """Delete all but the ``keep`` (at least 1) newest checkpoints, and what a crash left half-written."""
    for path in checkpoints(run)[:-keep]:
        # Renamed first, so that a crash in the middle of deleting leaves nothing that looks complete.
        rest = path.with_name(f".{path.name}.deleted")
        os.rename(path, rest)
        shutil.rmtree(rest)
    for path in (run / "checkpoints").glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def _values_checksum(trainer: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(trainer).encode())


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


def save_checkpoint(run: Path, step: int, state: CheckpointState) -> Path:
    """Write ``checkpoints/step-N``, complete or not at all, and return it.

    Raises :class:`DragomanError` where that cannot be written.
    """
    path = run / "checkpoints" / f"step-{step}"
    with atomic_folder(path) as part:
        checksums = {"trainer": _values_checksum(state.trainer)}
        for name in _PARTS:
            file = part / f"{name}.safetensors"
            if tensors := getattr(state, name):
                try:
                    save_file(tensors, file)
                except SafetensorError as error:
                    raise RunError(f"cannot write {path}: {error}; make room and go on with --resume.") from None
                checksums[file.name] = _checksum(file)
        values = {"format_version": FORMAT_VERSION, "checksums": checksums, **state.trainer}
        write_json(part / "trainer.json", values)
    return path


def read_values(path: Path) -> dict[str, Any]:
    """The run's own values of a checkpoint: its ``trainer`` (:class:`CheckpointState`).

    Raises :class:`BundleError` where they are damaged or of another format.
    """
    return _read_values(path)[0]


def _read_values(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """``trainer`` and the checksums of each part's file."""
    damaged = f"{path / 'trainer.json'} is missing or damaged; {_advice(path)}."
    try:
        trainer = json.loads((path / "trainer.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise BundleError(damaged) from None
    if not isinstance(trainer, dict) or trainer.pop("format_version", None) != FORMAT_VERSION:
        raise BundleError(f"{path} is not of checkpoint format {FORMAT_VERSION}; use the dragoman that wrote it.")
    checksums = trainer.pop("checksums", None)
    names = {f"{name}.safetensors" for name in _PARTS}
    there = {name for name in names if (path / name).exists()}
    whole = isinstance(checksums, dict) and there <= set(checksums) - {"trainer"} <= names
    if not whole or checksums.get("trainer") != _values_checksum(trainer):
        raise BundleError(damaged)
    return trainer, checksums


def _advice(path: Path) -> str:
    return f"delete {path} to go on from an older checkpoint"


def load_checkpoint(path: Path) -> CheckpointState:
    """Read a checkpoint. Raises :class:`BundleError` for one that is damaged or of another format."""
    trainer, checksums = _read_values(path)
    parts: dict[str, Tensors] = {name: {} for name in _PARTS}
    for name in _PARTS:
        file = path / f"{name}.safetensors"
        if file.name not in checksums:
            continue
        try:
            intact = _checksum(file) == checksums[file.name]
        except OSError as error:
            raise BundleError(f"cannot read {file}: {error.strerror}; {_advice(path)}.") from None
        if not intact:
            raise BundleError(f"{file} is damaged or cut short; {_advice(path)}.")
        parts[name] = read_tensors(file)
    return CheckpointState(trainer=trainer, **parts)
