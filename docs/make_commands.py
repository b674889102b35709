"""Write ``docs/commands.md``: the --help of every command, as the command itself prints it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dragoman.cli.main import COMMANDS
from dragoman.files import write_text


def help_of(*command: str) -> str:
    """What ``dragoman COMMAND --help`` prints, 100 columns wide."""
    program = Path(sys.executable).with_name("dragoman")
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        [program, *command, "--help"], capture_output=True, text=True, check=True, env=environment
    ).stdout


def page() -> str:
    """The page as Markdown."""
    parts = ["# Commands", "Written by `make docs` from `--help`.", f"```\n{help_of()}```"]
    for name in COMMANDS:
        parts += [f"## dragoman {name}", f"```\n{help_of(name)}```"]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    write_text(Path(__file__).with_name("commands.md"), page())
