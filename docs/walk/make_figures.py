"""Write the pictures of the walk: the figure that links to the pages, and those of ``dragoman plot``.

``python docs/walk/make_figures.py [FOLDER]``; the folder is that of this file by default. The picture of a trained
model's attention is not made here: its command stands below it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from transformer_figure import transformer_figure

from dragoman.cli.plot import plot
from dragoman.files import write_json, write_text

STEPS = 20_000
# The paper's schedule, and others with its peak, warm-up and length.
_PEAK: dict[str, Any] = {"lr": 0.0007, "warmup_steps": 4000, "max_steps": STEPS}
SCHEDULES: dict[str, dict[str, Any]] = {
    "factor 1": {"schedule": "noam", "lr": 1.0, "warmup_steps": 4000, "max_steps": STEPS},
    "peak 0.0007": {"schedule": "inverse_sqrt", **_PEAK},
    "the same": {"schedule": "cosine", **_PEAK},
    "also": {"schedule": "linear", **_PEAK},
}


def _config(path: Path, model: dict[str, Any], train: dict[str, Any]) -> Path:
    # JSON is YAML too.
    write_json(path, {"data": {"train": {"src": "a", "tgt": "b"}}, "model": model, "train": train})
    return path


def make_figures(folder: Path) -> None:
    """Write all of them into ``folder``."""
    write_text(folder / "figure.svg", transformer_figure())
    with tempfile.TemporaryDirectory() as scratch:
        inputs = Path(scratch)
        small = _config(inputs / "small.yaml", {"d_model": 64, "n_heads": 4}, {"max_steps": 1})
        rates = [_config(inputs / f"{name}.yaml", {"d_model": 512}, train) for name, train in SCHEDULES.items()]
        plot("positions", [small], output=folder / "positions.svg", length=48)
        plot("masks", output=folder / "masks.svg", lengths="4,2")
        plot("schedule", rates, output=folder / "schedule.svg")
        plot("smoothing", output=folder / "smoothing.svg")
    for name in ("positions", "masks", "schedule", "smoothing"):
        path = folder / f"{name}.svg"
        write_text(path, with_classes(path.read_text(encoding="utf-8")))


def with_classes(svg: str) -> str:
    """The same picture in fewer bytes: each style that repeats becomes a class."""
    styles = sorted(set(re.findall(r' style="([^"]*)"', svg)))
    rules = "".join(f".s{index}{{{style}}}" for index, style in enumerate(styles))
    for index, style in enumerate(styles):
        svg = svg.replace(f' style="{style}"', f' class="s{index}"')
    return svg.replace("</style>", f"{rules}</style>", 1)


if __name__ == "__main__":
    make_figures(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
