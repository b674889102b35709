"""Training in two processes: the curve of one, the same decisions on both, and runs that change their number."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.bundle import load_bundle, read_tensors
from dragoman.config import RunConfig
from dragoman.text.batching import TrainingBatches
from dragoman.text.corpus import TokenCorpus
from dragoman.training.checkpoint import load_checkpoint
from dragoman.training.run import Run, train
from tolerances import REORDERED, SAME_SUMS
from trainings import config_of, environment, records, same, weights, write_reversed

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("ddp_worker.py")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def start_ranks(command: list[str], size: int = 2) -> list[subprocess.Popen[str]]:
    """The processes that torchrun would start, without the seconds that it takes itself."""
    port = str(free_port())
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return [
        subprocess.Popen(
            [sys.executable, *command],
            env=environment(
                RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size),
                MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
            ),
            **pipes,
        )
        for rank in range(size)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences and the same with the words reversed; so many that the updates of an epoch do not come out even."""
    folder = tmp_path_factory.mktemp("corpus")
    write_reversed(folder, {"train": (650, 1), "valid": (21, 2), "test": (11, 3), "one": (1, 4)})
    return folder


def settings_of(corpus: Path, dropout: float = 0.0, **train_settings: Any) -> RunConfig:
    config = config_of(corpus, **{"log_every": 1, "sample_sentences": 0, **train_settings})
    return config.changed(model=config.model.changed(dropout=dropout))


def recut(corpus: Path, **train_settings: Any) -> RunConfig:
    """Words that BPE-dropout cuts anew in each epoch, of which there are two."""
    config = settings_of(corpus, max_steps=None, max_epochs=2, **train_settings)
    return config.changed(tokenizer={"kind": "bpe", "vocab_size": 300, "bpe_dropout": 0.3})


def cut_at(step: int, config: RunConfig, out: Path) -> None:
    """A run of one process that ends after the checkpoint of a step."""
    original = Run.save

    def save(self: Run) -> None:
        original(self)
        if self.trainer.progress.step >= step:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "save", save)
        with pytest.raises(KeyboardInterrupt):
            train(config, out, quiet=True)


@dataclass
class Pair:
    """What two ranks made of their jobs."""

    folder: Path

    def run(self, name: str) -> Path:
        return self.folder / name

    def said(self, name: str, job: str = "job") -> list[dict[str, Any]]:
        """What each rank has to say about a job."""
        return [json.loads((self.folder / f"{name}.{job}.rank{rank}.json").read_text()) for rank in range(2)]


CURVES: dict[str, tuple[int, dict[str, Any]]] = {
    "plain": (1, {}),
    "ema": (1, {"ema": 0.9, "optimizer": "adamw", "weight_decay": 0.1}),
    "averaging": (1, {"average_last": 3, "save_every": 2}),
    # A larger epsilon, so that Adam does not blow up what rounding leaves of the gradient of a bias without effect.
    "accumulating": (2, {"max_steps": 9, "eps": 1e-4}),
    "plateau": (1, {"schedule": "plateau", "warmup_steps": 0, "plateau_patience": 0, "lr": 0.1}),
    "patience": (1, {"patience": 1, "lr": 0.3, "max_steps": 40}),
    "linear": (1, {"schedule": "linear", "warmup_ratio": 0.3, "max_epochs": 2, "max_steps": None}),
    "bf16": (1, {"precision": "bf16", "max_steps": 4}),
    "fp16": (1, {"precision": "fp16", "max_steps": 4}),
}
DROPPING = {"dropout": 0.3, "ema": 0.9, "save_every": 1, "accumulate": 2, "max_steps": 9}


@pytest.fixture(scope="module")
def ranks(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two processes that do all of the jobs below, one after the other."""
    folder = tmp_path_factory.mktemp("ranks")
    jobs: list[dict[str, Any]] = []

    def job(out: str, config: RunConfig, **more: Any) -> None:
        jobs.append({"out": str(folder / out), "config": config.model_dump(mode="json"), **more})

    for name, (accumulate, settings) in CURVES.items():
        job(name, settings_of(corpus, accumulate=accumulate, **settings))
    job("recut", recut(corpus))
    dropping = settings_of(corpus, **DROPPING)
    job("whole", dropping)
    job("cut", dropping, name="first", acts={"cut": {"rank": "all", "step": 5}})
    job("cut", dropping, name="second", resume=True)
    job("from two", settings_of(corpus, save_every=1), acts={"cut": {"rank": "all", "step": 5}})
    cut_at(5, settings_of(corpus, save_every=1, accumulate=2), folder / "from one")
    job("from one", settings_of(corpus, save_every=1), resume=True)
    job("signal", settings_of(corpus), acts={"signal": {"rank": 1, "step": 3}})
    job("late", settings_of(corpus, max_steps=5, max_minutes=5.0), acts={"fast clock": {"rank": 1}})
    job("early", settings_of(corpus, max_steps=5, max_minutes=5.0), acts={"fast clock": {"rank": 0}})
    for rank, name, steps in ((0, "lost", 60), (1, "skipping", 10)):
        config = settings_of(corpus, max_steps=steps, valid_every=90)
        job(name, config, acts={"not finite": {"rank": rank, "step": 3}})
    one = settings_of(corpus, max_steps=2)
    job("one", one.changed(data=one.data.changed(valid={"src": "one.src", "tgt": "one.tgt"})))
    job("no text", one.changed(data=one.data.changed(train={"src": "nope", "tgt": "train.tgt"})))
    other = settings_of(corpus, max_steps=3).model_dump(mode="json")["train"]
    job("differing", one, **{"other config on rank 1": {"train": other}})
    (folder / "jobs.json").write_text(json.dumps(jobs))
    processes = start_ranks([str(WORKER), str(folder / "jobs.json")])
    try:
        ended = [process.communicate(timeout=500) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], ended[0][1] + ended[1][1]
    yield Pair(folder)
    shutil.rmtree(folder)


def losses(run: Path, kind: str) -> list[tuple[float, float]]:
    return [(record["step"], record["loss"]) for record in records(run) if record["kind"] == kind]


@pytest.mark.parametrize("name", CURVES)
def test_two_ranks_are_one_that_accumulates_twice_as_much(name: str, corpus: Path, tmp_path: Path, ranks: Pair) -> None:
    accumulate, settings = CURVES[name]
    one = train(settings_of(corpus, accumulate=2 * accumulate, **settings), tmp_path / "run", quiet=True)
    two = ranks.run(name)
    # Two addends have one order alone; the sums of four differ in float32.
    tolerance = SAME_SUMS if accumulate == 1 else REORDERED
    for bundle in ("last", "best"):
        mine, theirs = weights(one, bundle), weights(two, bundle)
        assert mine.keys() == theirs.keys()
        for tensor in mine:
            torch.testing.assert_close(theirs[tensor], mine[tensor], rtol=0.0, atol=tolerance)
    for kind in ("train", "valid"):
        assert len(losses(one, kind)) == len(losses(two, kind)) > 0
        for mine, theirs in zip(losses(one, kind), losses(two, kind), strict=True):
            assert theirs == pytest.approx(mine, rel=0.0, abs=tolerance)
    assert [record["epoch"] for record in records(one)[:-1]] == [record["epoch"] for record in records(two)[:-1]]
    said = ranks.said(name)
    assert said[0] == {**said[1], "written": said[0]["written"]}


def test_the_last_update_of_an_epoch_is_uneven_here(corpus: Path, ranks: Pair) -> None:
    """Otherwise the tests of this file would not show what becomes of a rank without a batch."""
    run = ranks.run("accumulating")
    tokens = TokenCorpus.open(run / "data" / "train")
    stream = TrainingBatches(tokens, load_bundle(run / "last").model.config, 300, 5)
    assert len(list(stream.epoch_batches(0))) % 4 == 1
    assert len(list(stream.epoch_batches(0))) % 2 == 1


def test_bpe_dropout_cuts_the_same_on_two_ranks(corpus: Path, tmp_path: Path, ranks: Pair) -> None:
    one, two = train(recut(corpus, accumulate=2), tmp_path / "run", quiet=True), ranks.run("recut")
    for tensor, mine in weights(one).items():
        torch.testing.assert_close(weights(two)[tensor], mine, rtol=0.0, atol=SAME_SUMS)
    curves = [torch.tensor(losses(run, "train"), dtype=torch.float64) for run in (one, two)]
    torch.testing.assert_close(curves[1], curves[0], rtol=0.0, atol=SAME_SUMS)


def test_only_rank_0_writes(ranks: Pair) -> None:
    for name in [*CURVES, "whole", "one"]:
        first, second = ranks.said(name)
        assert any("checkpoints" in path for path in first["written"])
        assert any("metrics.jsonl" in path for path in first["written"])
        assert second["written"] == []


def test_resumed_equals_uninterrupted_on_two_ranks(ranks: Pair) -> None:
    whole, cut = ranks.run("whole"), ranks.run("cut")
    assert [said["message"] for said in ranks.said("cut", "first")] == ["cut on purpose."] * 2
    assert same(weights(whole), weights(cut))
    assert same(weights(whole, "best"), weights(cut, "best"))
    assert records(whole) == records(cut)
    for part in ("optimizer", "ema", "random"):
        mine, theirs = (getattr(load_checkpoint(run / "checkpoints" / "step-9"), part) for run in (whole, cut))
        assert same(mine, theirs)


def test_dropout_is_drawn_anew_for_each_batch_and_rank(corpus: Path, tmp_path: Path, ranks: Pair) -> None:
    """With the same masks everywhere the curve would be that of another training."""
    without = train(settings_of(corpus, **{**DROPPING, "dropout": 0.0, "accumulate": 4}), tmp_path / "run", quiet=True)
    assert losses(without, "train") != losses(ranks.run("whole"), "train")


def test_a_checkpoint_of_two_ranks_goes_on_in_one(corpus: Path, tmp_path: Path, ranks: Pair) -> None:
    run = shutil.copytree(ranks.run("from two"), tmp_path / "cut")
    config = settings_of(corpus, save_every=1, accumulate=2)
    train(config, run, resume=True, quiet=True)
    check_same_run(train(config, tmp_path / "whole", quiet=True), run)


def test_a_checkpoint_of_one_rank_goes_on_in_two(corpus: Path, tmp_path: Path, ranks: Pair) -> None:
    check_same_run(
        train(settings_of(corpus, save_every=1, accumulate=2), tmp_path / "whole", quiet=True), ranks.run("from one")
    )


def check_same_run(whole: Path, resumed: Path) -> None:
    """No pair came twice or was lost: the weights are those of a run that was never cut."""
    mine, theirs = weights(whole), weights(resumed)
    for tensor in mine:
        torch.testing.assert_close(theirs[tensor], mine[tensor], rtol=0.0, atol=SAME_SUMS)
    assert [(r["kind"], r["step"], r.get("epoch")) for r in records(whole)] == [
        (r["kind"], r["step"], r.get("epoch")) for r in records(resumed)
    ]


def test_a_signal_to_one_rank_stops_both(corpus: Path, ranks: Pair) -> None:
    first, second = ranks.said("signal")
    assert (first["error"], second["error"]) == ("InterruptedRunError", "ToldError")
    run = ranks.run("signal")
    assert first["message"] == (
        f"stopped at step 3 (the model so far is in {run}/last), all saved; "
        f"go on with: dragoman train {run}/config.yaml --out {run} --resume"
    )
    assert [said["exit_code"] for said in (first, second)] == [130, 130]
    assert [said["step"] for said in (first, second)] == [3, 3]
    assert (ranks.run("signal") / "checkpoints" / "step-3").is_dir()


def test_the_clock_of_rank_0_counts(ranks: Pair) -> None:
    assert [said["step"] for said in ranks.said("late")] == [5, 5]
    assert [said["step"] for said in ranks.said("early")] == [3, 3]


def test_a_gradient_of_one_rank_that_is_not_finite_is_skipped_by_both(ranks: Pair) -> None:
    first, second = ranks.said("skipping")
    # Updates 3 to 10 without the seventh, where rank 1 has no batch.
    assert [said["skipped"] for said in (first, second)] == [7, 7]
    assert first["weights"] == second["weights"]


def test_many_gradients_that_are_not_finite_end_both(ranks: Pair) -> None:
    first, second = ranks.said("lost")
    assert (first["error"], second["error"]) == ("RunError", "ToldError")
    assert "not finite in 20 updates in a row up to step 22" in first["message"]
    assert [said["skipped"] for said in (first, second)] == [20, 20]
    assert first["weights"] == second["weights"]


def test_a_rank_without_a_validation_sentence(ranks: Pair) -> None:
    assert all("error" not in said for said in ranks.said("one"))
    assert losses(ranks.run("one"), "valid")


def test_what_rank_0_finds_wrong_ends_both(ranks: Pair) -> None:
    first, second = ranks.said("no text")
    assert (first["error"], second["error"]) == ("DataError", "ToldError")
    assert first["message"] == second["message"]
    assert "nope" in first["message"]
    assert not ranks.run("no text").exists()


def test_ranks_with_different_settings_do_not_begin(ranks: Pair) -> None:
    for said in ranks.said("differing"):
        assert said["message"].startswith("rank 1 was started with another configuration")
    assert not ranks.run("differing").exists()


def test_a_run_of_one_process_imports_no_accelerate(corpus: Path, tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(settings_of(corpus, max_steps=1).model_dump(mode="json")))
    code = (
        "import sys; from dragoman import load_config; from dragoman.training.run import train;"
        f"train(load_config({str(path)!r}), {str(tmp_path / 'run')!r}, quiet=True);"
        "assert 'accelerate' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment())
    assert read_tensors(tmp_path / "run" / "last" / "model.safetensors")
