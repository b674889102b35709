"""Lines over the steps of a training: learning rates and learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dragoman.errors import DataError
from dragoman.visualize.figure import COLOURS, FAINT, NAME, Fonts, new_figure, plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """A named line: ``points`` are (step, value); ``note`` says what was assumed."""

    name: str
    points: Points
    note: str = ""


@dataclass
class Run:
    """The records of a run: for each quantity its (step, value) points."""

    name: str
    curves: dict[str, Points] = field(default_factory=dict)


# The panels of a picture of learning curves: quantity of a record -> title. A quantity that no run has is left out.
CURVES = {
    "train loss": "training loss (nats a token, smoothed as trained)",
    "valid loss": "validation loss (nats a token)",
    "valid bleu": "validation BLEU (greedy)",
    "valid chrf": "validation chrF (greedy)",
}


def schedule_figure(lines: Sequence[Line]) -> Figure:
    """Learning rates over steps, one line for each configuration."""
    figure = new_figure(7.5, 4.2)
    axes = figure.add_subplot()
    fonts = Fonts([line.name for line in lines])
    for index, line in enumerate(lines):
        label = f"{fonts.drawable(line.name, NAME)}{f' ({line.note})' if line.note else ''}"
        _plot(axes, line.points, index, label)
    plain_axes(axes, "learning rate")
    axes.set_xlabel("step (update)", fontsize=9)
    axes.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(left=0.0)
    _legend(axes, fonts)
    return figure


def curves_figure(runs: Sequence[Run]) -> Figure:
    """Learning curves of several runs over each other, a panel for each of :data:`CURVES` that any of them has.

    Raises :class:`DataError` where there is nothing to draw.
    """
    shown = [name for name in CURVES if any(run.curves.get(name) for run in runs)]
    if not shown:
        raise DataError("the runs hold no records to draw; train for at least one record (train.log_every) first.")
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    figure = new_figure(5.2 * columns, 3.4 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    fonts = Fonts([run.name for run in runs])
    for axes, name in zip(grid.flat, shown, strict=False):
        for index, run in enumerate(runs):
            if run.curves.get(name):
                _plot(axes, run.curves[name], index, fonts.drawable(run.name, NAME))
        plain_axes(axes, CURVES[name])
        axes.set_xlabel("step", fontsize=9)
        axes.grid(color=FAINT, linewidth=0.5)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    _legend(grid.flat[0], fonts)
    return figure


def _plot(axes: Axes, points: Points, index: int, label: str) -> None:
    """One line, its colour by its place; a single point is marked, since it has no line. Past the colours: dashes."""
    dashes = ("-", "--", ":", "-.")[index // len(COLOURS) % 4]
    marker = "o" if len(points) < 30 else None
    steps, values = zip(*points, strict=True)
    colour = COLOURS[index % len(COLOURS)]
    axes.plot(steps, values, dashes, color=colour, label=label, linewidth=1.5, marker=marker, markersize=3)


def _legend(axes: Axes, fonts: Fonts) -> None:
    legend = axes.legend(frameon=False, prop={"family": fonts.families, "size": 8})
    for text in legend.get_texts():
        text.set_parse_math(False)
