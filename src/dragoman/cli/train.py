"""``dragoman train``: a translator from a configuration file."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli import common
from dragoman.errors import DragomanError, ToldError

_SECONDS_TO_SPEAK = 2.0


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="The configuration; recipes/ has examples.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings in place of the file's.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run directory. Default: runs/NAME.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint, or start where there is none.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, max=256, help="Processes that train together on this machine; docs/scaling.md.")
    ] = 1,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Train a translator as a configuration file says.

    Ctrl-C saves a checkpoint; the same command with --resume goes on from it. A small model trains faster on two
    processors with --processes 2 than with two threads: each process has its own batches (docs/scaling.md).

    \b
    Example:
      dragoman train recipes/multi30k-en-de.yaml data.dir=multi30k train.max_minutes=10
    """
    if processes > 1:
        raise typer.Exit(_launch(config, settings, out, resume, processes))
    # A launcher of several processes says which one this is. The first speaks for all.
    rank = os.environ.get("RANK", "0")
    try:
        folder = _run(config, settings, out, resume)
    except DragomanError as error:
        if rank == "0":
            raise
        if isinstance(error, ToldError):
            # The launcher ends all processes once one has ended, and the first has to say why.
            time.sleep(_SECONDS_TO_SPEAK)
        else:
            print(f"dragoman: rank {rank}: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from error
    if rank == "0":
        print(folder)


def _launch(config: Path, settings: list[str] | None, out: Path | None, resume: bool, processes: int) -> int:
    from dragoman.cli.launch import launch
    from dragoman.configfile import load_config

    # What is wrong with it is said here once, and not by each process.
    threads = load_config(config, settings).train.threads
    arguments = ["train", str(config), *(settings or [])]
    arguments += ["--out", str(out)] if out else []
    arguments += ["--resume"] if resume else []
    return launch([*common.verbosity(), *arguments], processes, threads)


def _run(config: Path, settings: list[str] | None, out: Path | None, resume: bool) -> Path:
    from dragoman.configfile import load_config

    loaded = load_config(config, settings)
    common.prepare_runtime(loaded.train.threads)
    from dragoman.training.run import train as run

    return run(loaded, out, resume, quiet=common.is_quiet())
