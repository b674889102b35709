"""The entry point: finds the command, imports its module alone, and turns errors into exit codes.

0: done; 1: refused input; 2: wrong usage; 129: ended by SIGHUP; 130: interrupted; 141: the reader of standard output
went away; 143: ended by SIGTERM.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dragoman import __version__
from dragoman.cli import common, ending
from dragoman.errors import DragomanError, UsageError, nearest

# Command -> its module, which holds a function of the same name, and one line for the list of commands.
# A line stands here, and not in the module, so that the list needs no imports.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("dragoman.cli.demo", "Train a translator on the bundled phrasebook and use it."),
    "train": ("dragoman.cli.train", "Train a translator as a configuration file says."),
    "translate": ("dragoman.cli.translate", "Translate text line by line."),
    "evaluate": ("dragoman.cli.evaluate", "Translate a test set and score the translations."),
    "metrics": ("dragoman.cli.metrics", "Score translations in a text file against references."),
    "convert": ("dragoman.cli.convert", "Convert a model from or to another implementation's format."),
    "attention": ("dragoman.cli.attention", "Show where a model looked while it translated a sentence."),
    "plot": ("dragoman.cli.plot", "Draw learning curves, schedules, position tables, masks, smoothed targets."),
    "doctor": ("dragoman.cli.doctor", "Look for what is wrong with a configuration, a run or a model."),
    "serve": ("dragoman.cli.serve", "Serve models over HTTP, with a web page."),
    "info": ("dragoman.cli.info", "Show what a model or a configuration holds."),
}

# What only writing meets; the names differ between systems.
_NO_ROOM = {getattr(errno, name) for name in ("ENOSPC", "EFBIG", "EDQUOT") if hasattr(errno, name)}


class Commands(TyperGroup):
    """The group of :data:`COMMANDS`. The context is click's, which typer bundles under no public name: ``Any`` here."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the table's order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; raises :class:`UsageError` for a name that the table lacks."""
        if cmd_name not in COMMANDS:
            raise UsageError(
                f'no command is called "{cmd_name}"{nearest(cmd_name, list(COMMANDS))}; see dragoman --help.'
            )
        function = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        single = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=common.CONTEXT)
        single.command(cmd_name)(function)
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what goes wrong with the process around it ends here."""
        with ending.at_signals():
            return self._invoke(ctx)

    def _invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            # Of several processes of one training the first speaks for all.
            if os.environ.get("RANK", "0") == "0":
                print("dragoman: interrupted.", file=sys.stderr)
            raise typer.Exit(130) from None
        except ending.Ended as ended:
            with contextlib.suppress(OSError):  # of a terminal that is gone
                print(f"dragoman: ended by {ended.signal.name}.", file=sys.stderr)
            raise
        except DragomanError as error:
            if ctx.invoked_subcommand in COMMANDS:
                error.args = (error.named(_options(self.get_command(ctx, ctx.invoked_subcommand))),)
            raise
        except BrokenPipeError:
            _abandon_stdout()
            raise typer.Exit(141) from None
        except OSError as error:
            _abandon_stdout()
            raise DragomanError(_of_system(error)) from error


def _options(command: Any) -> dict[str, str]:
    """What the caller of a command calls the settings that it takes as options; nobody gave their class by name."""
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    return {"": "", **{option.name: max(option.opts, key=len) for option in options}}


def _of_system(error: OSError) -> str:
    """What to say of an error of the system's that no part of the command has taken up."""
    what = error.strerror or str(error)
    if error.filename is None and error.errno in _NO_ROOM:
        return f"cannot write the output: {what}; make room, or choose another place."
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{what}; mend that and call the command again."


def _abandon_stdout() -> None:
    """Point standard output nowhere, so that the interpreter's last flush cannot fail again."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dragoman {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=common.CONTEXT,
)


@app.callback()
def _group(
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Transformers for translation: train them, use them, look inside.

    Each command says more with --help and shows an example.
    """


def main() -> None:
    """Run ``dragoman`` with the arguments of the process."""
    common.set_up_streams()
    try:
        app(prog_name="dragoman")
    except DragomanError as error:
        common.logger.debug("where it came from:", exc_info=True)
        print(f"dragoman: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
