"""One of several processes: does the jobs of a JSON file, and writes down what became of each.

A job is the arguments of ``train``, and ``acts``: what goes wrong on purpose, on which rank and before which update.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import zlib
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from dragoman.config import RunConfig
from dragoman.errors import DragomanError
from dragoman.training import processes, trainer
from dragoman.training.run import Run, train

RANK = int(os.environ["RANK"])
WRITES = "wax+"
original_update = trainer.Trainer.update
original_save = Run.save
original_elapsed = trainer.Trainer.elapsed
original_loss = trainer.batch_loss
written: list[str] = []
last_trainer: list[trainer.Trainer] = []


def note_writes(event: str, arguments: tuple[Any, ...]) -> None:
    """What this process opens for writing, renames, makes or deletes."""
    if event == "open":
        path, mode, _ = arguments
        if isinstance(path, str) and isinstance(mode, str) and set(mode) & set(WRITES):
            written.append(path)
    elif event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"):
        written.append(str(arguments[0]))


def patch(acts: dict[str, Any]) -> None:
    """Let happen what ``acts`` says; an act is {"rank": r, "step": n}."""

    def due(name: str, step: int) -> bool:
        act = acts.get(name)
        return act is not None and act["rank"] in (RANK, "all") and step >= act["step"]

    def update(self: trainer.Trainer, *arguments: Any) -> None:
        step = self.progress.step + 1
        last_trainer[:] = [self]
        if due("signal", step) and not self.stop_requested:
            os.kill(os.getpid(), signal.SIGTERM)
        if due("kill", step):
            os.kill(os.getpid(), signal.SIGKILL)
        if due("hang", step):
            time.sleep(3600.0)
        original_update(self, *arguments)

    def save(self: Run) -> None:
        original_save(self)
        if due("cut", self.trainer.progress.step):
            raise DragomanError("cut on purpose.")

    def loss(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        value, nll = original_loss(*arguments)
        model_in_training = torch.is_grad_enabled()
        bad = model_in_training and last_trainer and due("not finite", last_trainer[0].progress.step + 1)
        return (value * torch.inf if bad else value), nll

    trainer.Trainer.update = update
    trainer.batch_loss = loss
    Run.save = save
    fast = acts.get("fast clock", {}).get("rank") == RANK
    trainer.Trainer.elapsed = (lambda self: 120.0 * self.progress.step) if fast else original_elapsed
    processes.PEER_TIMEOUT = timedelta(seconds=acts.get("patience", 120.0))


def main(jobs: Path) -> None:
    sys.addaudithook(note_writes)
    for job in json.loads(jobs.read_text()):
        written.clear()
        last_trainer.clear()
        patch(job.get("acts", {}))
        settings = {**job["config"], **(job.get("other config on rank 1") or {} if RANK == 1 else {})}
        out, report = Path(job["out"]), Path(f"{job['out']}.{job.get('name', 'job')}.rank{RANK}.json")
        result: dict[str, Any] = {}
        try:
            train(RunConfig.model_validate(settings), out, resume=job.get("resume", False), quiet=True)
        except DragomanError as error:
            result = {"error": type(error).__name__, "message": str(error), "exit_code": error.exit_code}
        for one in last_trainer:
            state = one.model.state_dict()
            result["step"], result["skipped"] = one.progress.step, one.progress.skipped
            result["stale"], result["best"] = one.progress.stale, one.progress.best
            result["weights"] = [zlib.crc32(state[name].numpy().tobytes()) for name in sorted(state)]
        result["written"] = [path for path in written if str(out) in path]
        report.write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
