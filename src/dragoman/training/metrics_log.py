"""The records of a run: a JSON line each in ``metrics.jsonl``, and the same numbers as TensorBoard curves."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from dragoman.errors import RunError
from dragoman.files import write_text


class MetricsLog:
    """Appends records; each has a ``kind`` (train, valid, test) and a ``step``."""

    def __init__(self, run: Path) -> None:
        self.path = run / "metrics.jsonl"
        self._folder = run / "tensorboard"
        self._board: Any = None
        self._first_step: int | None = None

    def write(self, kind: str, record: dict[str, Any]) -> None:
        """Add one record; the finite numbers in it become curves named ``kind/name``.

        A number that is not finite is written as null, since JSON has no other word for it.
        Raises :class:`RunError` where the files cannot be written.
        """
        finite = {name: _finite(value) for name, value in record.items()}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(json.dumps({"kind": kind, **finite}, ensure_ascii=False) + "\n")
            board = self._open_board()
            for name, value in finite.items():
                if isinstance(value, int | float) and name != "step":
                    board.add_scalar(f"{kind}/{name}", value, record["step"])
            if kind != "train":
                board.flush()
        except OSError as error:
            raise RunError(f"cannot write the records of {self.path.parent}: {error.strerror}; make room.") from None

    def _open_board(self) -> Any:
        if self._board is None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(self._folder), purge_step=self._first_step)
        return self._board

    def truncate_after(self, step: int) -> None:
        """Cut the records past ``step``, those of the test, and what a crash left half-written.

        TensorBoard's files are only ever added to; it is told to hide what was recorded past ``step``.
        """
        self.close()
        self._first_step = step + 1
        if self.path.exists():
            lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
            write_text(self.path, "".join(f"{line}\n" for line in lines if _stays(line, step)))

    def close(self) -> None:
        """Write out what TensorBoard still holds."""
        if self._board is not None:
            self._board.close()
            self._board = None


class NoLog(MetricsLog):
    """The records of a rank that writes nothing, since rank 0 does."""

    def write(self, kind: str, record: dict[str, Any]) -> None:
        """Nothing."""

    def truncate_after(self, step: int) -> None:
        """Nothing."""


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _stays(line: str, step: int) -> bool:
    try:
        record = json.loads(line)
        return bool(record["step"] <= step and record["kind"] != "test")
    except (ValueError, KeyError, TypeError):
        return False
