"""``dragoman plot``: what a Transformer is made of and how a training goes, as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli import common
from dragoman.errors import UsageError, nearest

# What is drawn -> the fewest and the most inputs (None: any number).
_INPUTS: dict[str, tuple[int, int | None]] = {
    "curves": (1, None),
    "schedule": (1, None),
    "positions": (0, 1),
    "smoothing": (0, 1),
    "masks": (0, 0),
}


def plot(
    what: Annotated[str, typer.Argument(metavar="curves|schedule|positions|masks|smoothing", help="What to draw.")],
    inputs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN|CONFIG|MODEL]...", help="Of what; see below.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="A .png or .svg. [WHAT.png]")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=2, max=10_000_000, help="schedule: updates that the training makes.")
    ] = None,
    length: Annotated[int, typer.Option(min=2, max=2000, help="positions: how many of them.")] = 64,
    lengths: Annotated[str, typer.Option(metavar="N,N,...", help="masks: tokens of each sentence of a batch.")] = "7,4",
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Draw a picture.

    \b
    curves RUN...              learning curves of runs over each other: losses, BLEU, chrF
    schedule CONFIG...         the learning rate at each step
    positions [MODEL|CONFIG]   the position table, and how alike any two positions are; without one: the paper's
    masks                      who may attend to whom in a batch of sentences
    smoothing [CONFIG]         what label smoothing asks for, and what confidence costs

    \b
    Example:
      dragoman plot curves runs/a runs/b -o curves.svg
      dragoman plot schedule recipes/multi30k-en-de.yaml
      dragoman plot masks --lengths 9,5
    """
    if what not in _INPUTS:
        raise UsageError(f'nothing called "{what}" can be drawn{nearest(what, list(_INPUTS))}; see plot --help.')
    paths = inputs or []
    fewest, most = _INPUTS[what]
    if len(paths) < fewest:
        raise UsageError(f"plot {what} needs {'runs' if what == 'curves' else 'configuration files'}; name some.")
    if most is not None and len(paths) > most:
        raise UsageError(f"plot {what} takes {'one file or folder' if most else 'no file'}; leave out {paths[most]}.")
    if steps is not None and what != "schedule":
        raise UsageError("--steps is for plot schedule; leave it out.")
    from dragoman.visualize.figure import check_format, require_matplotlib, save_figure

    destination = Path(f"{what}.png") if output is None else output
    check_format(destination)
    require_matplotlib()
    common.prepare_runtime()
    from dragoman.cli import drawings

    if what == "curves":
        figure = drawings.curves(paths)
    elif what == "schedule":
        figure = drawings.schedule(paths, steps)
    elif what == "positions":
        figure = drawings.positions(paths[0] if paths else None, length)
    elif what == "masks":
        figure = drawings.masks(lengths)
    else:
        figure = drawings.smoothing(paths[0] if paths else None)
    save_figure(figure, destination)
    common.logger.info("written to %s", destination)
