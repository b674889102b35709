"""Matplotlib figures without its global state: made by :func:`new_figure`, written by :func:`save_figure`."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError, UsageError
from dragoman.files import atomic_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

logger = logging.getLogger("dragoman")

FORMATS = (".png", ".svg")
# Told apart by people who see colours differently (Okabe and Ito 2008), the yellow left out for its faintness.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#444444")
INK, FAINT = "#1b1f24", "#d8dce1"
_DPI = 150
# What stands for a character that no installed font has.
_BOX = "\u25a1"
# Characters of a token beside a map, and of a name in a legend, at most.
LABEL, NAME = 24, 60


def require_matplotlib() -> None:
    """Raise :class:`DragomanError` where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise DragomanError(
            'pictures need matplotlib; install it with pip install "dragoman[plots]", or write .html or .json.'
        ) from None


def check_format(path: str | os.PathLike[str], formats: Iterable[str] = FORMATS) -> str:
    """The ending of a file to be written; raises :class:`UsageError` where it is none of ``formats``."""
    known, ending = list(formats), Path(path).suffix.lower()
    if ending not in known:
        raise UsageError(f"{path}: the ending says what is written; use one of {', '.join(known)}.")
    return ending


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches; its parts arrange themselves. Raises :class:`DragomanError`."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=_DPI, layout="constrained", facecolor="white")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG or SVG, atomically; the same figure gives the same bytes.

    An SVG keeps its text as text. Raises :class:`UsageError` for another ending.
    """
    ending = check_format(path)
    import matplotlib

    metadata = {"Software": None} if ending == ".png" else {"Date": None, "Creator": None}
    settings = matplotlib.rc_context({"svg.hashsalt": "dragoman", "svg.fonttype": "none"})
    with settings, warnings.catch_warnings(), atomic_file(path, "wb") as stream:
        # Text of an SVG is measured with the fonts here and drawn with those of its reader, which may have more.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure.savefig(stream, format=ending[1:], metadata=metadata)


def plain_axes(axes: Axes, title: str = "") -> None:
    """The look of all our axes: no frame above and at the right, quiet lines, the title at the left."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK, labelsize=8)
    if title:
        axes.set_title(title, loc="left", fontsize=10, color=INK)


class Fonts:
    """The fonts for some texts: matplotlib's own, and for what it lacks whichever installed ones have it.

    ``families`` is what matplotlib takes. :meth:`drawable` puts a box where no font has a character, which is
    logged; not so with ``elsewhere``, for a file that is drawn with the fonts of its reader (SVG).
    """

    def __init__(self, texts: Iterable[str], *, elsewhere: bool = False) -> None:
        wanted = {character for text in texts for character in text if character.isprintable()}
        self.families = ["DejaVu Sans"]
        self._missing = wanted - _characters_of(_default_font())
        if self._missing:
            self._look_further()
        if elsewhere:
            self._missing = set()
        if self._missing:
            some = " ".join(sorted(self._missing)[:10])
            logger.warning("no installed font has %s: a box stands in place of each such character.", some)

    def _look_further(self) -> None:
        from matplotlib import font_manager

        upright = [one for one in font_manager.fontManager.ttflist if one.style == "normal"]
        # Regular weights first, then by name, so that the choice does not depend on the order of the disk.
        for entry in sorted(
            upright, key=lambda one: (one.weight not in (400, "normal", "regular"), one.name, one.fname)
        ):
            if not self._missing:
                return
            found = self._missing & _characters_of(entry.fname)
            if found and entry.name not in self.families:
                self.families.append(entry.name)
                self._missing -= found

    def drawable(self, text: str, longest: int = LABEL) -> str:
        """The text, cut where it has more characters than ``longest``, with boxes for what cannot be drawn."""
        if len(text) > longest:
            text = text[: longest - 1] + "…"
        return "".join(
            _BOX if character in self._missing or not character.isprintable() else character for character in text
        )


def _default_font() -> str:
    from matplotlib import font_manager

    return font_manager.findfont("DejaVu Sans", fallback_to_default=True)


@cache
def _characters_of(path: str) -> frozenset[str]:
    """The characters that a font file draws; none for a font of coloured pictures or a broken file."""
    from matplotlib import font_manager

    if "Color" in Path(path).name or "LastResort" in Path(path).name:
        return frozenset()
    try:
        return frozenset(map(chr, font_manager.get_font(path).get_charmap()))
    except (RuntimeError, OSError):
        return frozenset()
