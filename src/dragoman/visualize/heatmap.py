"""Attention maps as pictures.

Shapes: L layers, H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dragoman.errors import UsageError
from dragoman.visualize.figure import FAINT, INK, Fonts, new_figure
from dragoman.visualize.maps import KINDS, AttentionMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy import floating
    from numpy.typing import NDArray

# Numbers stand in the cells of maps up to this many rows and columns.
_NUMBERED = 20
# Inches of a cell with a number, of one without, and of a panel among many.
_CELL, _SMALL_CELL, _PANEL = 0.36, 0.2, 1.5


def attention_figure(
    one: AttentionMap, layer: int | None, head: int | str | None, *, elsewhere: bool = False
) -> Figure:
    """A map as a figure; layers and heads count from 0.

    ``layer``: None for a row of panels each; ``head``: ``"mean"`` over the heads, or None for a column of panels
    each. ``elsewhere``: for a file that is drawn with the fonts of its reader. Raises
    :class:`UsageError` for a layer or head that is not there.
    """
    layers = list(range(len(one.weights))) if layer is None else [checked_index("layer", layer, len(one.weights))]
    count = one.weights.shape[1]
    if isinstance(head, str):
        heads: list[int | None] = [None]
    else:
        heads = list(range(count)) if head is None else [checked_index("head", head, count)]
    if len(layers) * len(heads) == 1:
        return _single(one, layers[0], heads[0], elsewhere)
    return _panels(one, layers, heads)


def checked_index(what: str, index: int, count: int) -> int:
    """A layer or a head from 0. Raises :class:`UsageError` for one that is not there."""
    if not 0 <= index < count:
        raise UsageError(f"there is no {what} {index + 1}; choose one of 1 to {count}.")
    return index


def head_name(head: int | None) -> str:
    """What a head is called in titles."""
    return "mean of heads" if head is None else f"head {head + 1}"


def _single(one: AttentionMap, layer: int, head: int | None, elsewhere: bool) -> Figure:
    weights = one.panel(layer, head)
    queries, keys = weights.shape
    cell = _CELL if max(queries, keys) <= _NUMBERED else _SMALL_CELL
    figure = new_figure(max(4.5, cell * keys + 2.2), max(3.0, cell * queries + 1.9))
    axes = figure.add_subplot()
    fonts = Fonts([*one.queries, *one.keys], elsewhere=elsewhere)
    _draw(axes, weights, one.queries, one.keys, fonts, numbers=max(queries, keys) <= _NUMBERED)
    axes.set_title(f"{KINDS[one.kind]}, layer {layer + 1}, {head_name(head)}", loc="left", fontsize=10, color=INK)
    return figure


def _panels(one: AttentionMap, layers: list[int], heads: list[int | None]) -> Figure:
    """A panel for each layer and head, without the tokens, which would not be readable."""
    figure = new_figure(_PANEL * len(heads) + 0.8, _PANEL * len(layers) + 0.8)
    figure.suptitle(f"{KINDS[one.kind]}: rows are queries, columns are keys", fontsize=10, color=INK)
    grid = figure.subplots(len(layers), len(heads), squeeze=False)
    for row, layer in enumerate(layers):
        for column, head in enumerate(heads):
            axes = grid[row][column]
            axes.imshow(
                one.panel(layer, head), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest"
            )
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_color(FAINT)
            if row == 0:
                axes.set_title(head_name(head), fontsize=8, color=INK)
            if column == 0:
                axes.set_ylabel(f"layer {layer + 1}", fontsize=8, color=INK)
    return figure


def _draw(
    axes: Axes,
    values: NDArray[floating],
    rows: Sequence[str],
    columns: Sequence[str],
    fonts: Fonts,
    *,
    numbers: bool,
) -> None:
    """A matrix of values in [0, 1] with a label at each row and column; ``numbers``: percents in the cells."""
    axes.imshow(values, cmap="Blues", vmin=0.0, vmax=1.0, aspect="equal", interpolation="nearest")
    labels: dict[str, Any] = {
        "fontfamily": fonts.families,
        "fontsize": 9 if numbers else 7.5,
        "color": INK,
        "parse_math": False,
    }
    axes.set_xticks(range(len(columns)), [fonts.drawable(text) for text in columns], rotation=90, **labels)
    axes.set_yticks(range(len(rows)), [fonts.drawable(text) for text in rows], **labels)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks([index - 0.5 for index in range(1, len(columns))], minor=True)
    axes.set_yticks([index - 0.5 for index in range(1, len(rows))], minor=True)
    axes.grid(which="minor", color=FAINT, linewidth=0.4)
    axes.tick_params(which="minor", length=0)
    for spine in axes.spines.values():
        spine.set_color(FAINT)
    if not numbers:
        return
    for row, line in enumerate(values.tolist()):
        for column, value in enumerate(line):
            if value >= 0.005:
                colour = "white" if value > 0.55 else INK
                axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=7, color=colour)
