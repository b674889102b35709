"""What a Transformer is made of, as pictures: position tables, masks, smoothed targets.

Shapes: T positions, D features, Q queries, K keys, N targets, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.visualize.figure import COLOURS, FAINT, INK, new_figure, plain_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy import bool_, floating
    from numpy.typing import NDArray

# Cells up to this many a side get a line between them.
_LINED = 24


def positions_figure(tables: Mapping[str, NDArray[floating]]) -> Figure:
    """Tables [T,D] by title, each beside the likeness of its positions: the cosine between any two rows."""
    import numpy as np

    figure = new_figure(11.0, 4.2 * len(tables))
    grid = figure.subplots(len(tables), 2, squeeze=False, width_ratios=(1.5, 1.0))
    for (left, right), (title, table) in zip(grid, tables.items(), strict=True):
        largest = float(np.abs(table).max()) or 1.0
        image = left.imshow(table, cmap="RdBu", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest")
        figure.colorbar(image, ax=left, pad=0.01)
        plain_axes(left, title)
        left.set_xlabel("feature", fontsize=9)
        left.set_ylabel("position", fontsize=9)
        lengths = np.linalg.norm(table, axis=1, keepdims=True)
        unit = table / np.where(lengths == 0.0, 1.0, lengths)
        likeness = right.imshow(unit @ unit.T, cmap="RdBu", vmin=-1.0, vmax=1.0, interpolation="nearest")
        figure.colorbar(likeness, ax=right, pad=0.01)
        plain_axes(right, "likeness of two positions (cosine)")
        right.set_xlabel("position", fontsize=9)
        right.set_ylabel("position", fontsize=9)
    return figure


def masks_figure(masks: Mapping[str, Sequence[NDArray[bool_]]], lengths: Sequence[int]) -> Figure:
    """Masks [Q,K] by title, one for each sentence of a batch of ``lengths`` tokens: a row of panels a sentence."""
    size = max(lengths)
    figure = new_figure(
        min(4.0, 0.24 * size + 1.4) * len(masks) + 0.4, min(4.0, 0.24 * size + 1.3) * len(lengths) + 0.6
    )
    figure.suptitle(
        "Masks: rows are queries, columns are keys; a filled cell may be attended to; rows of padding go unread.",
        fontsize=10,
        color=INK,
    )
    grid = figure.subplots(len(lengths), len(masks), squeeze=False)
    for column, (title, panels) in enumerate(masks.items()):
        for row, panel in enumerate(panels):
            axes = grid[row][column]
            axes.imshow(panel, cmap="Blues", vmin=0.0, vmax=1.3, interpolation="nearest")
            _lines(axes, *panel.shape)
            labels = [str(index + 1) if index < lengths[row] else "pad" for index in range(size)]
            shown = [index for index in range(size) if size <= _LINED or index % 10 == 9]
            axes.set_xticks(shown, [labels[index] for index in shown], fontsize=7, rotation=90)
            axes.set_yticks(shown, [labels[index] for index in shown], fontsize=7)
            plain_axes(axes, title if row == 0 else "")
            axes.tick_params(length=0, labelsize=7)
            if column == 0:
                axes.set_ylabel(f"sentence {row + 1}", fontsize=9)
    return figure


def _lines(axes: Axes, rows: int, columns: int) -> None:
    """Lines between the cells of a small matrix."""
    if max(rows, columns) > _LINED:
        return
    axes.set_xticks([index - 0.5 for index in range(columns + 1)], minor=True)
    axes.set_yticks([index - 0.5 for index in range(rows + 1)], minor=True)
    axes.grid(which="minor", color=FAINT, linewidth=0.6)
    axes.tick_params(which="minor", length=0)


def smoothing_figure(
    targets: Mapping[str, NDArray[floating]],
    tokens: Sequence[str],
    losses: Mapping[str, tuple[NDArray[floating], NDArray[floating]]],
) -> Figure:
    """What a training asks for, and what it costs.

    ``targets``: the distributions [N,V] asked for, by title; ``tokens`` names the vocabulary. ``losses``: by label, the
    probabilities that a model gives the right token, and the loss at each, in nats.
    """
    figure = new_figure(4.0 * len(targets) + 4.4, 3.6)
    *panels, last = figure.subplots(1, len(targets) + 1, width_ratios=[1.0] * len(targets) + [1.25])
    for axes, (title, wanted) in zip(panels, targets.items(), strict=True):
        axes.imshow(wanted, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
        _lines(axes, *wanted.shape)
        for row, line in enumerate(wanted.tolist()):
            for column, value in enumerate(line):
                colour = "white" if value > 0.55 else INK
                axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=6.5, color=colour)
        plain_axes(axes, title)
        axes.set_xticks(range(len(tokens)), tokens, fontsize=8, rotation=90)
        axes.set_yticks([])
        axes.set_ylabel("target", fontsize=9)
    for colour, (label, (probabilities, loss)) in zip(COLOURS, losses.items(), strict=False):
        last.plot(probabilities, loss, color=colour, label=label)
        lowest = int(loss.argmin())
        last.plot(probabilities[lowest], loss[lowest], "o", color=colour, markersize=5)
    plain_axes(last, "loss by confidence (dot: the least)")
    last.set_xlabel("probability of the right token", fontsize=9)
    last.set_ylabel("loss in nats", fontsize=9)
    last.legend(fontsize=8, frameon=False)
    return figure
