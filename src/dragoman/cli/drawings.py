"""The figures of ``dragoman plot``: numbers from the package's own code, handed to the package that draws.

Shapes: T positions, N targets, V vocabulary, P probabilities.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dragoman.bundle import load_bundle
from dragoman.config import ModelConfig, RunConfig, TrainConfig
from dragoman.configfile import load_config
from dragoman.errors import ConfigError, DataError, UsageError
from dragoman.model.masks import AttentionMask, for_causal, for_keys, from_lengths
from dragoman.model.positions import rotation_table, sinusoid_halves_table, sinusoid_table
from dragoman.training.loss import smoothed_cross_entropy, smoothed_kl
from dragoman.training.schedules import make_schedule
from dragoman.visualize.curves import Line, Run, curves_figure, schedule_figure
from dragoman.visualize.diagrams import masks_figure, positions_figure, smoothing_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Points of a line, at most; more cannot be told apart.
_POINTS = 4000
# Updates that are assumed where a configuration ends by the clock or by epochs: so many times the warm-up, or this.
_WARMUPS, _STEPS = 20, 1000
_VOCABULARY = ("<unk>", "<pad>", "<s>", "</s>", "der", "Hund", "die", "Katze")
_PAD, _TARGETS = 1, (4, 5, 3)
_DEFAULT_SMOOTHING: float = TrainConfig.model_fields["label_smoothing"].default


def curves(folders: list[Path]) -> Figure:
    """Learning curves of run directories. Raises :class:`DataError` for one without readable records."""
    return curves_figure([read_run(path, name) for path, name in zip(folders, run_names(folders), strict=True)])


def run_names(folders: list[Path]) -> list[str]:
    """The last parts of the folders' paths, as many as tell all of them apart."""
    parts = [folder.resolve().parts for folder in folders]
    deepest = max(map(len, parts))
    taken = next(
        (count for count in range(1, deepest) if len({part[-count:] for part in parts}) == len(set(parts))), deepest
    )
    return ["/".join(part[-taken:]) for part in parts]


def read_run(folder: Path, name: str) -> Run:
    """The records of ``metrics.jsonl``; a last line that is still being written is left out."""
    path = folder / "metrics.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8, so not the records of a run; give a run directory.") from None
    except OSError as error:
        # A model (best) or a checkpoint (checkpoints/step-N) of a run.
        of_run = next((above for above in path.parents[1:3] if (above / path.name).is_file()), None)
        meant = f", such as {of_run}" if of_run else ""
        raise DataError(f"cannot read {path}: {error.strerror}; give a run directory{meant}.") from None
    run = Run(name)
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            kind, step = record["kind"], float(record["step"])
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path}, line {number}: not a record of a run; mend or remove that line.") from None
        for key, value in record.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                run.curves.setdefault(f"{kind} {key}", []).append((step, float(value)))
    return run


def schedule(paths: list[Path], steps: int | None) -> Figure:
    """The learning rates of configurations. Raises :class:`ConfigError` for a file that is none."""
    return schedule_figure([schedule_line(path.stem, load_config(path), steps) for path in paths])


def schedule_line(name: str, config: RunConfig, steps: int | None) -> Line:
    """The rate at each update of a training that makes ``steps`` updates; None: as many as it says, or as assumed."""
    train = config.train
    total, assumed = _updates(train, steps)
    notes = [f"{total:,} steps assumed"] if assumed else []
    if train.schedule == "plateau":
        notes.append("while validation improves")
    made = make_schedule(train, config.model.d_model)
    stride = max(1, total // _POINTS)
    asked = sorted({*range(1, total + 1, stride), min(max(1, train.warmup_steps), total), total})
    points = [(float(step), made.rate(step, (step - 1) / total)) for step in asked]
    return Line(f"{name}: {train.schedule}", points, ", ".join(notes))


def _updates(train: TrainConfig, steps: int | None) -> tuple[int, bool]:
    """How many updates the training makes, and whether that was assumed."""
    if steps is not None or train.max_steps is not None:
        return steps or train.max_steps or 1, False
    warmup = 0 if train.warmup_ratio is not None else train.warmup_steps
    return max(_STEPS, _WARMUPS * warmup), True


def positions(path: Path | None, length: int) -> Figure:
    """The position tables of a model directory or configuration; without one the paper's.

    Raises :class:`DataError` where there are none, or none before a training.
    """
    if path is None:
        return positions_figure(_fixed_tables(ModelConfig(), length))
    if not path.exists():
        raise DataError(f"{path} does not exist; give a model directory or a configuration file.")
    if not path.is_dir():
        config = load_config(path).model
        if config.positions in ("learned", "table"):
            raise DataError(f"{path}: {config.positions} positions are made by training; give a model directory.")
        return positions_figure(_fixed_tables(config, length))
    model = load_bundle(path).model
    if model.config.positions not in ("learned", "table"):
        return positions_figure(_fixed_tables(model.config, length))
    tables = {}
    for side, part in (("source", model.src_positions), ("target", model.tgt_positions)):
        weight = part.get_parameter("weight") if model.config.positions == "learned" else part.get_buffer("weight")
        tables[f"{model.config.positions} positions of the {side}"] = weight.detach()[:length].double().numpy()
    return positions_figure(tables)


def _fixed_tables(config: ModelConfig, length: int) -> dict[str, Any]:
    makers: dict[str, tuple[str, Callable[[int, int], Tensor], int]] = {
        "sinusoidal": ("sinusoidal positions, sines and cosines in turn", sinusoid_table, config.d_model),
        "sinusoidal_halves": ("sinusoidal positions, sines first", sinusoid_halves_table, config.d_model),
        "rotary": ("rotary positions: cosines, then sines, of the turns of a head", rotation_table, config.d_head),
    }
    if config.positions not in makers:
        raise DataError(f"this model has {config.positions} positions, so there is no table to draw.")
    title, make, width = makers[config.positions]
    return {title: make(length, width).numpy()}


def masks(lengths: str) -> Figure:
    """The masks of a batch of sentences whose ``lengths`` are separated by commas. Raises :class:`UsageError`."""
    if not re.fullmatch(r"[0-9]{1,3}(,[0-9]{1,3}){0,7}", lengths) or min(map(int, lengths.split(","))) < 1:
        raise UsageError(
            f'--lengths is "{lengths}"; give at most 8 numbers from 1 to 999 with commas between, such as 7,4.'
        )
    sizes = [int(part) for part in lengths.split(",")]
    size = max(sizes)
    mask = from_lengths(torch.tensor(sizes))
    panels = {
        "encoder": for_keys(mask),
        "decoder": for_causal(mask, size),
        "source attention": for_keys(mask),
    }
    return masks_figure({title: list(_panels(one, size)) for title, one in panels.items()}, sizes)


def _panels(mask: AttentionMask | None, size: int) -> Iterator[Any]:
    """What each query may attend to, [Q,K] for each sentence; a closed row is empty."""
    assert mask is not None, "there is a mask wherever lengths are given"
    allowed = mask.allowed if mask.open is None else mask.allowed & mask.open
    for one in allowed[:, 0]:
        yield one.expand(size, size).numpy()


def smoothing(path: Path | None) -> Figure:
    """Smoothed targets and losses; the share is that of a configuration, or the default."""
    share = _DEFAULT_SMOOTHING if path is None else load_config(path).train.label_smoothing
    if share == 0.0:
        raise ConfigError(f"{path}: train.label_smoothing is 0, so nothing is smoothed; set it, or leave the file out.")
    targets = torch.tensor(_TARGETS)

    def of_kl(logits: Tensor) -> Tensor:
        return smoothed_kl(logits, targets, share, _PAD)

    wanted = {
        f"smoothed by {share:g}": _asked_for(lambda logits: smoothed_cross_entropy(logits, targets, share)[0]),
        "not smoothed": _asked_for(lambda logits: smoothed_cross_entropy(logits, targets, 0.0)[0]),
        "as the Annotated Transformer": _asked_for(of_kl),
    }
    losses = {f"smoothed by {share:g}": _losses(share), "not smoothed": _losses(0.0)}
    return smoothing_figure(wanted, _VOCABULARY, losses)


def _asked_for(loss: Callable[[Tensor], Tensor]) -> Any:
    """The distributions [N,V] that a loss asks for: its gradient by the logits is the softmax less just these."""
    logits = torch.zeros(len(_TARGETS), len(_VOCABULARY), dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(logits), logits)
    return (torch.softmax(logits, -1) - gradient).detach().numpy().clip(0.0, 1.0)


def _losses(share: float) -> tuple[Any, Any]:
    """Probabilities [P] of the right token, the rest spread evenly, and the loss at each."""
    probabilities = torch.linspace(0.02, 0.9995, 400, dtype=torch.float64)
    size = len(_VOCABULARY)
    rows = ((1.0 - probabilities) / (size - 1))[:, None].repeat(1, size)
    rows[:, 0] = probabilities
    target = torch.zeros(1, dtype=torch.int64)
    values = [float(smoothed_cross_entropy(row[None].log(), target, share)[0]) for row in rows]
    return probabilities.numpy(), np.array(values)
