"""``--resume`` of a run that has finished: one line, no work, and every file as it was."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import RunCli
from dragoman.config import RunConfig
from dragoman.errors import BundleError, RunError
from dragoman.training import run as running
from dragoman.training.checkpoint import load_checkpoint
from dragoman.training.finished import finished
from dragoman.training.run import Run, train
from dragoman.training.trainer import Trainer
from trainings import config_of, own_lines, records, same, start, weights, write_config, write_reversed


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_reversed(folder, {"train": (60, 1), "valid": (10, 2), "test": (10, 3)})
    return folder


@pytest.fixture(scope="module")
def ended(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six updates to its end."""
    return train(short(corpus), tmp_path_factory.mktemp("ended") / "run", quiet=True)


def short(corpus: Path, **settings: Any) -> RunConfig:
    return config_of(corpus, **{"max_steps": 6, "sample_sentences": 0, **settings})


def without(config: RunConfig, *names: str) -> RunConfig:
    return config.changed(data=config.data.changed(**dict.fromkeys(names)))


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    """The bytes and the time of each file."""
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither text nor model may be touched."""

    def refuse(*arguments: object) -> None:
        raise AssertionError("a run was put together")

    monkeypatch.setattr(Run, "__init__", refuse)


@pytest.mark.usefixtures("no_work")
def test_it_says_so_and_leaves_everything_as_it_is(
    ended: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(ended)
    assert len(before) > 10
    assert train(short(corpus), ended, resume=True) == ended
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"the run in {ended} has finished after 6 updates; train.max_steps is 6: raise it above that to go on."
    )
    assert contents(ended) == before
    train(short(corpus, max_steps=3), ended, resume=True, quiet=True)
    assert capsys.readouterr().err == ""
    assert contents(ended) == before


ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "epochs": (
        {"max_steps": None, "max_epochs": 2, "batch_tokens": 100},
        "and 2 epochs; train.max_epochs is 2: raise it above that to go on.",
    ),
    "minutes": (
        {"max_steps": None, "max_minutes": 1e-4},
        " minutes; train.max_minutes is 0.0001: raise it above that to go on.",
    ),
    "patience": (
        {"max_steps": 99, "patience": 1, "lr": 1e-9, "valid_every": 2},
        "and 1 validations without improvement; train.patience is 1: raise it above that to go on.",
    ),
    "two": (
        {"max_epochs": 1, "max_steps": 1, "batch_tokens": 9999},
        "after 1 updates and 1 epochs; train.max_steps is 1 and train.max_epochs is 1: raise them above that to go on.",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_each_reason_is_named(
    name: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, words = ENDS[name]
    config = short(corpus, **settings)
    run = train(config, tmp_path / "run", quiet=True)
    before = contents(run)
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(running, "Run", None)
        train(config, run, resume=True)
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert contents(run) == before


def test_a_later_end_goes_on(ended: Path, corpus: Path, tmp_path: Path) -> None:
    run = shutil.copytree(ended, tmp_path / "run")
    train(short(corpus, max_steps=8), run, resume=True, quiet=True)
    assert [record["step"] for record in records(run) if record["kind"] == "train"][-1] == 8
    assert records(run)[-1]["kind"] == "test"
    assert finished(short(corpus, max_steps=8), run) is not None
    assert finished(short(corpus, max_steps=9), run) is None


def test_another_model_section_is_refused_all_the_same(ended: Path, corpus: Path) -> None:
    config = short(corpus)
    with pytest.raises(RunError, match="another model section"):
        train(config.changed(model=config.model.changed(d_ff=48)), ended, resume=True, quiet=True)


def keep_lines(run: Path, keep: Callable[[str], str]) -> None:
    path = run / "metrics.jsonl"
    path.write_text("".join(keep(line) for line in path.read_text().splitlines(keepends=True)))


@pytest.mark.parametrize("rest", [0, 30])
def test_a_test_score_that_is_missing_is_made(rest: int, ended: Path, corpus: Path, tmp_path: Path) -> None:
    """A crash between the last update and the score, or in the middle of writing it."""
    run = shutil.copytree(ended, tmp_path / "run")
    keep_lines(run, lambda line: line[:rest] if json.loads(line)["kind"] == "test" else line)
    assert finished(short(corpus), run) is None
    before = contents(run / "checkpoints")
    train(short(corpus), run, resume=True, quiet=True)
    assert records(run) == records(ended)
    assert same(weights(run), weights(ended))
    assert same(weights(run, "best"), weights(ended, "best"))
    assert contents(run / "checkpoints") == before
    assert "BLEU" in (run / "best" / "README.md").read_text()


def test_the_score_is_the_last_that_is_written(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a crash in between would leave a card without scores for ever."""

    def crash(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(running, "write_text", crash)
        with pytest.raises(KeyboardInterrupt):
            train(short(corpus), tmp_path / "run", quiet=True)
    run = train(short(corpus), tmp_path / "run", resume=True, quiet=True)
    assert "BLEU" in (run / "best" / "README.md").read_text()


def test_without_a_test_set(ended: Path, corpus: Path, tmp_path: Path) -> None:
    config = without(short(corpus), "test")
    run = train(config, tmp_path / "run", quiet=True)
    assert finished(config, run) is not None
    shutil.rmtree(run / "best")
    assert finished(config, run) is None


def test_without_validation_the_last_weights_have_to_be_the_best(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = without(short(corpus), "test", "valid")
    run = train(config, tmp_path / "run", quiet=True)
    assert finished(config, run) is not None
    longer = without(short(corpus, max_steps=9), "test", "valid")

    def crash(self: Run) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Run, "finish", crash)
        with pytest.raises(KeyboardInterrupt):
            train(longer, run, resume=True, quiet=True)
    assert not same(weights(run), weights(run, "best"))
    assert finished(longer, run) is None
    train(longer, run, resume=True, quiet=True)
    assert same(weights(run), weights(run, "best"))


def test_time_that_is_up_right_after_a_checkpoint(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint was written before; what is kept has to know that the time is up."""
    config = short(corpus, max_steps=None, max_minutes=1.0, valid_every=2, save_every=2)
    seconds = {"now": 0.0}
    monkeypatch.setattr(Trainer, "elapsed", lambda self: seconds["now"])
    save = Run.save

    def then_time_is_up(self: Run) -> None:
        save(self)
        if self.trainer.progress.step == 4:
            seconds["now"] = 61.0

    monkeypatch.setattr(Run, "save", then_time_is_up)
    run = train(config, tmp_path / "run", quiet=True)
    assert [record["step"] for record in records(run) if record["kind"] == "valid"] == [2, 4]
    assert load_checkpoint(run / "checkpoints" / "step-4").trainer["progress"]["elapsed"] == 61.0
    assert finished(config, run) is not None


def test_a_damaged_checkpoint_is_not_taken_for_an_end(ended: Path, corpus: Path, tmp_path: Path) -> None:
    run = shutil.copytree(ended, tmp_path / "run")
    (run / "checkpoints" / "step-6" / "trainer.json").write_text('{"format_version": 1, "checksums": {"trainer": 7}}')
    with pytest.raises(BundleError, match=r"damaged; delete .*step-6 to go on from an older"):
        train(short(corpus), run, resume=True, quiet=True)


def test_the_command(ended: Path, corpus: Path, tmp_path: Path, run_cli: RunCli) -> None:
    path = write_config(short(corpus), tmp_path / "config.yaml")
    before = contents(ended)
    done = run_cli("train", path, "--out", ended, "--resume")
    assert (done.rc, done.stdout) == (0, f"{ended}\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"the run in {ended} has finished after 6 updates")
    assert contents(ended) == before


@pytest.mark.slow
def test_several_processes(ended: Path, corpus: Path, tmp_path: Path) -> None:
    path = write_config(short(corpus), tmp_path / "config.yaml")
    before = contents(ended)
    with start("train", path, "--out", ended, "--resume", "--processes", "2") as process:
        stdout, stderr = process.communicate(timeout=300)
    assert (process.returncode, stdout, own_lines(stderr)) == (0, f"{ended}\n", [])
    (line,) = [one for one in stderr.splitlines() if not one.startswith("[")]
    assert line.startswith(f"the run in {ended} has finished after 6 updates")
    assert contents(ended) == before


def test_what_was_used_is_said_beside_a_smaller_limit(ended: Path, corpus: Path) -> None:
    line = finished(short(corpus, max_steps=3), ended)
    assert line is not None
    assert line.endswith("after 6 updates; train.max_steps is 3: raise it above that to go on.")
    line = finished(short(corpus, max_steps=None, max_minutes=1e-5), ended)
    assert line is not None
    assert re.search(r"after 6 updates and \d+\.\d minutes; train\.max_minutes is 1e-05: raise it above", line)
