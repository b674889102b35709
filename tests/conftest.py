"""Fixtures that all tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

# Fixtures of the tests in a browser.
from browsing import browser, chromium, visiting, web, web_models  # noqa: F401

REPOSITORY = Path(__file__).resolve().parents[1]

# Examples vary in time on a shared machine, so no example has a deadline; files that need fewer examples say so.
settings.register_profile("dragoman", deadline=None, max_examples=50)
settings.load_profile("dragoman")


@dataclass(frozen=True)
class Finished:
    """What a command left: its exit status and its two outputs."""

    rc: int
    stdout: str
    stderr: str


RunCli = Callable[..., Finished]


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of data and golden files beside the repository; skips where it is absent."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip("the shared data and golden files (../shared beside the repository) are not here")
    return folder


@pytest.fixture(scope="session")
def run_cli() -> RunCli:
    """Run the installed ``dragoman`` in a process of its own: ``run_cli("metrics", "--hyp", path, ...)``."""
    command = Path(sys.executable).with_name("dragoman")
    assert command.exists(), f"{command} is missing: install the project (make .venv) and run its own Python"

    def run(
        *args: str | Path,
        stdin: str | bytes = b"",
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 300.0,
    ) -> Finished:
        result = subprocess.run(
            [command, *map(str, args)],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=cwd,
            env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", **(env or {})},
            timeout=timeout,
            check=False,
        )
        return Finished(result.returncode, result.stdout.decode(), result.stderr.decode())

    return run


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Small tensors are fastest on one thread; torch is left alone by tests that do not import it."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@pytest.fixture
def write_lines(tmp_path: Path) -> Callable[[str, Sequence[str]], Path]:
    """Write a text file of the given lines below the test's own folder and return its path."""

    def write(name: str, lines: Sequence[str]) -> Path:
        path = tmp_path / name
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
        return path

    return write
