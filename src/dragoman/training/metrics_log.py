"""The records of a run: a JSON line each in ``metrics.jsonl``, and the same numbers as TensorBoard curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dragoman.files import write_text


class MetricsLog:
    """Appends records; each has a ``kind`` (train, valid, test) and a ``step``."""

    def __init__(self, run: Path) -> None:
        self.path = run / "metrics.jsonl"
        self._folder = run / "tensorboard"
        self._board: Any = None

    def write(self, kind: str, record: dict[str, Any]) -> None:
        """Add one record; numbers in it become curves named ``kind/name``."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"kind": kind, **record}, ensure_ascii=False) + "\n")
        if self._board is None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(self._folder))
        for name, value in record.items():
            if isinstance(value, int | float) and name != "step":
                self._board.add_scalar(f"{kind}/{name}", value, record["step"])

    def truncate_after(self, step: int) -> None:
        """Cut the records past ``step``, and a last line that a crash left half-written."""
        if not self.path.exists():
            return
        kept = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if line.endswith("\n") and record["step"] <= step and record["kind"] != "test":
                kept.append(line)
        write_text(self.path, "".join(kept))

    def close(self) -> None:
        """Write out what TensorBoard still holds."""
        if self._board is not None:
            self._board.close()
            self._board = None
