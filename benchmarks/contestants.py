"""Contestants of a benchmark: processes that take turns, asked by JSON lines, and what is made of their numbers."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Contestant:
    """A process of its own that runs ``script`` with some arguments, on so many threads.

    It answers each line of JSON on its standard input with one on its standard output, until the input ends.
    """

    def __init__(self, script: Path, arguments: Sequence[str], threads: int) -> None:
        count = str(threads)
        env = {**os.environ, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "TRANSFORMERS_VERBOSITY": "error"}
        self.command = [sys.executable, "-W", "ignore", str(script), *arguments]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, **job: Any) -> dict[str, Any]:
        """The answer to a job. Ends the benchmark where the process has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a contestant died: {' '.join(self.command)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def quartiles(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Median, lower and upper quartile."""
    ordered = sorted(numbers)
    quarter = len(ordered) // 4
    return statistics.median(ordered), ordered[quarter], ordered[-1 - quarter]


def spread(numbers: Sequence[float], width: int = 0) -> str:
    """Median, at least ``width`` wide, and the lower and upper quartile in brackets."""
    middle, low, high = quartiles(numbers)
    return f"{middle:{width}.2f} [{low:.2f} {high:.2f}]"
