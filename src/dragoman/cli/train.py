"""``dragoman train``: a translator from a configuration file."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli import common, ending
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

    Ctrl-C saves a checkpoint; the same command with --resume goes on from it, and leaves a run that has finished as it
    is. A small model trains faster on two processors with --processes 2 than with two threads: each process has its own
    batches (docs/scaling.md).

    \b
    Example:
      dragoman train recipes/multi30k-en-de.yaml data.dir=multi30k train.max_minutes=10
    """
    if processes > 1:
        raise typer.Exit(_launch(config, settings, out, resume, processes))
    # A launcher of several processes says which one this is. The first speaks for all.
    rank = os.environ.get("RANK", "0")
    if "RANK" in os.environ:
        # It may wait for the others inside of a library, where no handler of ours would run.
        ending.left_to_others()
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


def _command(config: Path, settings: list[str] | None, out: Path | None, resume: bool, processes: int) -> list[str]:
    """What stands behind ``dragoman`` in the command for the same training."""
    return [
        *common.verbosity(),
        *("train", str(config), *(settings or [])),
        *(["--out", str(out)] if out else []),
        *(["--processes", str(processes)] if processes > 1 else []),
        *(["--resume"] if resume else []),
    ]


def _again(config: Path, settings: list[str] | None, out: Path | None, processes: int) -> str:
    """The command that goes on with a training."""
    return shlex.join(["dragoman", *_command(config, settings, out, True, processes)])


def _launch(config: Path, settings: list[str] | None, out: Path | None, resume: bool, processes: int) -> int:
    from dragoman.cli.launch import launch
    from dragoman.configfile import load_config

    # What is wrong with it is said here once, and not by each process.
    threads = load_config(config, settings).train.threads
    again = _again(config, settings, out, processes)
    return launch(_command(config, settings, out, resume, 1), processes, threads, again)


def _run(config: Path, settings: list[str] | None, out: Path | None, resume: bool) -> Path:
    from dragoman.cli.launch import launched_processes
    from dragoman.configfile import load_config

    loaded = load_config(config, settings)
    common.prepare_runtime(loaded.train.threads)
    from dragoman.training.run import train as run
    from dragoman.training.stopping import InterruptedRunError

    try:
        return run(loaded, out, resume, quiet=common.is_quiet())
    except InterruptedRunError as error:
        processes = launched_processes()
        again = _again(config, settings, out, processes) if processes else "the same command and --resume."
        raise InterruptedRunError(error.step, again, error.last) from None
