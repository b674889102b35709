"""``dragoman train``: a translator from a configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli import common


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="The configuration; recipes/ has examples.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings in place of the file's.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run directory. Default: runs/NAME.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint, or start where there is none.")
    ] = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Train a translator as a configuration file says.

    Ctrl-C saves a checkpoint; the same command with --resume goes on from it.

    \b
    Example:
      dragoman train recipes/multi30k-en-de.yaml data.dir=multi30k train.max_minutes=10
    """
    from dragoman.configfile import load_config

    loaded = load_config(config, settings)
    common.prepare_runtime(loaded.train.threads)
    from dragoman.training.run import train as run

    print(run(loaded, out, resume, quiet=common.is_quiet()))
