"""What starting costs: seconds (median of several runs) and peak memory of a few commands, a process each.

    python benchmarks/footprint.py [MODEL FILE]

With a model directory and a text file, translating that file is measured too.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path


def run(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak resident MB of one run."""
    begun = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        import os

        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {process.returncode}")
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def main() -> None:
    program = str(Path(sys.executable).with_name("dragoman"))
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import dragoman": [sys.executable, "-c", "import dragoman"],
        "import dragoman; dragoman.Translator": [sys.executable, "-c", "import dragoman; dragoman.Translator"],
        "dragoman --help": [program, "--help"],
        "dragoman translate --help": [program, "translate", "--help"],
    }
    if len(sys.argv) == 3:
        commands["dragoman translate MODEL FILE"] = [program, "translate", sys.argv[1], sys.argv[2]]
    for name, command in commands.items():
        runs = [run(command) for _ in range(1 if "FILE" in name else 7)]
        seconds = [wall for wall, _ in runs]
        print(f"{name:<40}{statistics.median(seconds):8.3f} s  ({min(seconds):.3f} to {max(seconds):.3f})"
              f"{max(memory for _, memory in runs):8.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
