"""Start-up stays light: nothing heavy is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.cli.main import COMMANDS

HEAVY = {"accelerate", "datasets", "numpy", "pyarrow", "pydantic", "sacrebleu", "tensorboard", "tokenizers", "torch"}


def imported_by(*args: str | Path) -> set[str]:
    """The top-level packages that a Python process imports, by its own ``-X importtime`` report."""
    result = subprocess.run([sys.executable, "-X", "importtime", *args], capture_output=True, text=True, check=True)
    names = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines() if line.startswith("import time:")}
    assert "dragoman" in names
    return {name.partition(".")[0] for name in names}


def test_the_report_shows_what_is_imported() -> None:
    assert "pydantic" in imported_by("-c", "import dragoman.config")


@pytest.mark.parametrize(
    "code",
    ["import dragoman", "import dragoman; dir(dragoman)", "import dragoman.cli.main", "import dragoman.cli.common"],
)
def test_importing_is_light(code: str) -> None:
    assert not HEAVY & imported_by("-c", code)


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_command_starts_light(argument: str) -> None:
    command = Path(sys.executable).with_name("dragoman")
    assert not (HEAVY | {"rich"}) & imported_by(command, argument)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_needs_no_torch(name: str) -> None:
    command = Path(sys.executable).with_name("dragoman")
    assert not {"torch", "datasets", "pyarrow", "sacrebleu"} & imported_by(command, name, "--help")


def test_settings_of_the_process_are_left_alone() -> None:
    code = "import os; before = dict(os.environ); import dragoman, dragoman.cli.main; assert dict(os.environ) == before"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_of_the_package() -> None:
    from dragoman.config import ModelConfig

    assert dragoman.ModelConfig is ModelConfig
    assert "ModelConfig" in dir(dragoman)
    with pytest.raises(AttributeError, match="has no attribute 'Modelconfig'"):
        _ = dragoman.Modelconfig
