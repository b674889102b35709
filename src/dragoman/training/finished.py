"""Whether a run has anything left to do, told by its files: neither its text nor its weights are read."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from dragoman.config import RunConfig, TrainConfig
from dragoman.training.checkpoint import newest_checkpoint, read_values


def finished(config: RunConfig, folder: Path) -> str | None:
    """A line that says why a run as ``config`` asks for it is over; None where something is left to do.

    The score of the test set is a part of the run. Raises :class:`BundleError` for a damaged checkpoint.
    """
    newest = newest_checkpoint(folder)
    if newest is None:
        return None
    progress = read_values(newest)["progress"]
    reasons = _reasons(config.train, progress)
    if not reasons or not _is_complete(config, folder, newest):
        return None
    used = [f"{progress['step']:,} updates", *(used for _, used in reasons.values() if used)]
    limits = [f"{name} is {limit:g}" for name, (limit, _) in reasons.items()]
    return (
        f"the run in {folder} has finished after {' and '.join(used)}; {' and '.join(limits)}: "
        f"raise {'it' if len(limits) == 1 else 'them'} above that to go on."
    )


def _reasons(train: TrainConfig, progress: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """The settings by which a run that stands there ends -> their values, and what was used of them, updates aside."""
    behind = {
        "max_steps": progress["step"],
        "max_epochs": progress["position"][0],
        "max_minutes": progress["elapsed"] / 60.0,
        "patience": progress["stale"],
    }
    limits = {name: getattr(train, name) for name in behind}
    used = {
        "max_steps": "",
        "max_epochs": f"{behind['max_epochs']:,} epochs",
        "max_minutes": f"{behind['max_minutes']:.1f} minutes",
        "patience": f"{behind['patience']:,} validations without improvement",
    }
    return {
        f"train.{name}": (limit, used[name])
        for name, limit in limits.items()
        if limit is not None and behind[name] >= limit
    }


def _is_complete(config: RunConfig, folder: Path, newest: Path) -> bool:
    """Whether what comes after the last update is there: the test set's score, or else the best weights."""
    best = folder / "best" / "model.safetensors"
    if not best.is_file():
        return False
    if config.data.test is not None:
        return _was_tested(folder / "metrics.jsonl")
    # Without validation the last weights become the best ones at the end.
    return config.data.valid is not None or best.stat().st_mtime_ns >= (newest / "trainer.json").stat().st_mtime_ns


def _was_tested(log: Path) -> bool:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    # Its last record of all; a crash leaves the last line half-written.
    with contextlib.suppress(ValueError, IndexError, KeyError, TypeError):
        return bool(json.loads(lines[-1])["kind"] == "test")
    return False
