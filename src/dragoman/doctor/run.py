"""A run directory: how its curves went, whether it came to its end, and whether its checkpoints are whole."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.config import RunConfig
from dragoman.errors import DragomanError
from dragoman.preflight.finding import Finding, share_text
from dragoman.training.checkpoint import load_checkpoint, newest_checkpoint
from dragoman.training.horizon import Horizon

Record = dict[str, Any]

# A training loss so many times its best, which stays: no noise of batches.
_DIVERGED = 1.5
# Nats by which a rise counts at least: near zero every ripple is a large ratio.
_LEAST_RISE = 0.2
_RECENT = 3
# A validation loss above its best by this share, after so many validations, is overfitting.
_OVERFIT = 0.03
_STALE = 3
# A better loss by less than this share over half of the run is a plateau; it takes some validations to say so.
_FLAT = 0.005
_LEAST_VALIDATIONS = 6
_SKIPPED = 0.01
_CLIPPED = 5.0
_SLOWER = 0.5


@dataclass(frozen=True)
class Records:
    """What ``metrics.jsonl`` holds, by kind; ``damaged`` lines could not be read."""

    train: list[Record]
    valid: list[Record]
    test: list[Record]
    damaged: int


def read_records(run: Path) -> Records:
    """The records of a run directory; none where there is no file."""
    path = run / "metrics.jsonl"
    kinds: dict[str, list[Record]] = {"train": [], "valid": [], "test": []}
    damaged = 0
    if not path.is_file():
        return Records(**kinds, damaged=0)
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
            kinds[record["kind"]].append(record)
            _ = record["step"]
        except (ValueError, KeyError, TypeError):
            damaged += 1
    return Records(**kinds, damaged=damaged)


def _values(records: Sequence[Record], name: str) -> list[float]:
    """One number of each record; null, which stands for what is not finite, as infinity."""
    return [math.inf if record.get(name) is None else float(record[name]) for record in records]


def log_file(records: Records) -> Iterator[Finding]:
    """Whether there are records at all, and whole ones."""
    if records.damaged:
        yield Finding(
            "warning",
            f"{records.damaged} lines of metrics.jsonl cannot be read; a full disk or two runs in one directory do "
            "that, so check both.",
        )
    if not records.train and not records.valid:
        yield Finding("note", "metrics.jsonl has no records yet; look again after some updates.")


def divergence(records: Records) -> Iterator[Finding]:
    """A training loss that rose again for good, or is no number."""
    losses = _values(records.train, "nll")
    if not losses:
        return
    recent = statistics.median(losses[-_RECENT:])
    if recent == math.inf:
        step = next(record["step"] for record in records.train if record.get("nll") is None)
        yield Finding(
            "error",
            f"the training loss is no number from step {step} on; go back to an earlier checkpoint, lower train.lr or "
            "lengthen the warm-up.",
        )
        return
    best = min(statistics.median(losses[at : at + _RECENT]) for at in range(max(1, len(losses) - _RECENT + 1)))
    if recent > _DIVERGED * best and recent > best + _LEAST_RISE:
        at = min(range(len(losses)), key=lambda index: losses[index])
        yield Finding(
            "error",
            f"training diverged: its loss was {best:.2f} around step {records.train[at]['step']} and is {recent:.2f} "
            "now; lower train.lr, lengthen the warm-up, or keep train.clip_norm at 1, and start again.",
        )


def non_finite(records: Records) -> Iterator[Finding]:
    """Updates that were skipped, since their gradient was not finite."""
    if not records.train:
        return
    skipped, steps = int(records.train[-1].get("skipped") or 0), max(1, int(records.train[-1]["step"]))
    if skipped:
        often = skipped > _SKIPPED * steps
        yield Finding(
            "warning" if often else "note",
            f"{skipped:,} of {steps:,} updates ({share_text(skipped / steps)}) were skipped for gradients that are "
            "not finite; "
            f"{'use train.precision: bf16 or fp32, or lower train.lr' if often else 'some are usual with fp16'}.",
        )


def gradients(records: Records, clip_norm: float) -> Iterator[Finding]:
    """Gradients far above the norm that they are clipped to, to the end."""
    norms = [value for value in _values(records.train, "gradient_norm")[len(records.train) // 2 :] if value < math.inf]
    if clip_norm and len(norms) >= _RECENT and statistics.median(norms) > _CLIPPED * clip_norm:
        yield Finding(
            "note",
            f"the gradient's norm is {statistics.median(norms):.1f} in the middle and train.clip_norm {clip_norm:g}, "
            "so every update is clipped hard; lower train.lr or raise train.clip_norm.",
        )


def speed(records: Records) -> Iterator[Finding]:
    """A run that became much slower."""
    rates = [value for value in _values(records.train, "tokens_per_second") if value < math.inf]
    half = len(rates) // 2
    if half >= 5 and statistics.median(rates[half:]) < _SLOWER * statistics.median(rates[:half]):
        yield Finding(
            "note",
            f"training went from {statistics.median(rates[:half]):,.0f} to {statistics.median(rates[half:]):,.0f} "
            "tokens/s; look for other programs on the machine, full memory or heat.",
        )


def validation(records: Records, metric: str) -> Iterator[Finding]:
    """Overfitting, a plateau, and a last model that is not the best one. ``metric`` is ``train.best_metric``."""
    if not records.valid:
        return
    losses = _values(records.valid, "loss")
    steps = [int(record["step"]) for record in records.valid]
    best = min(range(len(losses)), key=lambda index: losses[index])
    since = len(losses) - 1 - best
    rise = losses[-1] / losses[best] - 1 if 0 < losses[best] < math.inf else 0.0
    if since >= _STALE and rise > _OVERFIT:
        yield Finding(
            "warning",
            f"the validation loss was best at step {steps[best]:,} ({losses[best]:.3f}) and has risen for {since} "
            f"validations to {losses[-1]:.3f}: overfitting; stop there (train.patience), raise dropout, add text or "
            "use a smaller model.",
        )
    elif len(losses) >= _LEAST_VALIDATIONS and min(losses[len(losses) // 2 :]) > (1 - _FLAT) * min(
        losses[: len(losses) // 2]
    ):
        yield Finding(
            "note",
            f"the validation loss has hardly moved since step {steps[best]:,} ({losses[best]:.3f}); lower the rate "
            "(train.schedule: linear or plateau), or stop.",
        )
    scores = losses if metric == "loss" else [-value for value in _values(records.valid, metric)]
    kept = min(range(len(scores)), key=lambda index: scores[index])
    if kept != len(scores) - 1 and rise > _OVERFIT / 3:
        yield Finding(
            "note",
            f"the best model is of step {steps[kept]:,} and the last of step {steps[-1]:,}; translate with best, not "
            "with last.",
        )


def ending(records: Records, config: RunConfig, run: Path) -> Iterator[Finding]:
    """Whether the run came to its end."""
    every = sorted((*records.train, *records.valid), key=lambda record: int(record["step"]))
    if not every:
        return
    last = every[-1]
    step, epoch = int(last["step"]), float(last.get("epoch") or 0.0)
    elapsed = max(float(record.get("elapsed") or 0.0) for record in every)
    done = Horizon.of(config.train).progress(step, epoch, elapsed) >= 1.0
    stale = 0
    best = math.inf
    for value in _values(records.valid, config.train.best_metric):
        value = value if config.train.best_metric == "loss" else -value
        stale, best = (0, value) if value < best else (stale + 1, best)
    patient = config.train.patience is not None and stale >= config.train.patience
    if not done and not patient:
        there = newest_checkpoint(run)
        advice = (
            f"if it does not run any more, go on from {there.name} with --resume"
            if there is not None
            else "there is no checkpoint yet, so --resume would begin anew"
        )
        yield Finding("warning", f"the run stopped at step {step:,}, before its end; {advice}.")
    elif not (run / "best").is_dir():
        yield Finding("warning", "the run is over, but there is no best/; call the same command with --resume.")
    elif config.data.test is not None and not records.test:
        yield Finding("note", "the run is over, but the test set was not scored; call the same command with --resume.")


def checkpoint(run: Path) -> Iterator[Finding]:
    """Whether the newest checkpoint is whole and holds numbers."""
    path = newest_checkpoint(run)
    if path is None:
        yield Finding(
            "note", "there is no complete checkpoint, so the run cannot be resumed; set train.save_every lower."
        )
        return
    try:
        state = load_checkpoint(path)
    except DragomanError as error:
        yield Finding("error", str(error))
        return
    broken = [name for name, tensor in state.model.items() if not tensor.isfinite().all()]
    if broken:
        yield Finding(
            "error",
            f"{path.name} holds weights that are not finite (such as {broken[0]}); delete it, and go on from an older "
            "one with a lower train.lr.",
        )
