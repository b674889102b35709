"""``--resume`` with other settings: each is named, no text is skipped, and what cannot change is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import RunConfig
from dragoman.configfile import dump_config
from dragoman.errors import RunError
from dragoman.training.checkpoint import load_checkpoint, newest_checkpoint, save_checkpoint
from dragoman.training.dealing import Share
from dragoman.training.resumed import changes, fixed_settings
from dragoman.training.run import train
from dragoman.training.stopping import InterruptedRunError
from dragoman.training.trainer import Trainer
from trainings import config_of, write_reversed


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_reversed(folder, {"train": (120, 1), "valid": (10, 2), "test": (10, 3)})
    return folder


def settings_of(corpus: Path, **settings: Any) -> RunConfig:
    config = config_of(
        corpus, **{"max_steps": 50, "batch_tokens": 60, "valid_every": 50, "sample_sentences": 0, **settings}
    )
    return config.changed(data=config.data.changed(valid=None, test=None))


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    whole = Trainer.update

    def update(self: Trainer, *arguments: Any) -> None:
        whole(self, *arguments)
        self.stop_requested = self.progress.step == step

    monkeypatch.setattr(Trainer, "update", update)


@pytest.fixture(scope="module")
def stopped(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after three updates, in the middle of its first epoch."""
    run = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 3)
        with pytest.raises(InterruptedRunError) as stopping:
            train(settings_of(corpus), run, quiet=True)
    assert str(stopping.value).startswith(
        f"stopped at step 3 (the model so far is in {run / 'last'}), all saved; go on"
    )
    assert (run / "last" / "model.safetensors").is_file()
    return run


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "run"))


@pytest.fixture
def dealt(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The places of the pairs that are seen until an epoch ends."""
    seen: list[int] = []
    whole = Trainer.update

    def update(self: Trainer, share: Share, *arguments: Any) -> None:
        seen.extend(int(index) for batch in share.batches for index in batch.indices)
        whole(self, share, *arguments)
        self.stop_requested = share.epoch_ends

    monkeypatch.setattr(Trainer, "update", update)
    return seen


def resume(config: RunConfig, run: Path) -> None:
    with pytest.raises(InterruptedRunError):
        train(config, run, resume=True)


@pytest.mark.parametrize(("name", "value", "old"), [("batch_tokens", 200, 60), ("seed", 6, 5)])
def test_other_batches_start_the_epoch_over(
    corpus: Path, run: Path, dealt: list[int], capsys: pytest.CaptureFixture[str], name: str, value: int, old: int
) -> None:
    resume(settings_of(corpus, **{name: value}), run)
    assert sorted(dealt) == list(range(len(dealt)))
    assert len(dealt) > 100
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "changed settings" in line)
    assert line == (
        f"warning: changed settings: train.{name}: {old} -> {value}; epoch 1 starts over, since its batches are "
        "others now"
    )


def test_a_budget_is_named_and_the_epoch_goes_on(
    corpus: Path, run: Path, dealt: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings_of(corpus, max_steps=60, max_minutes=9.0)
    resume(config.changed(decode=config.decode.changed(beam_size=2)), run)
    said = capsys.readouterr().err
    line = "changed settings: train.max_steps: 50 -> 60, train.max_minutes: null -> 9.0, decode.beam_size: 5 -> 2"
    assert line in said.splitlines()
    assert len(set(dealt)) == len(dealt) < 115


def test_the_same_settings_need_no_line(
    corpus: Path, run: Path, dealt: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    resume(settings_of(corpus), run)
    assert "changed settings" not in capsys.readouterr().err
    assert 0 < len(dealt) < 115


def test_a_resume_that_was_killed_early_hides_nothing(
    corpus: Path, run: Path, dealt: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The new settings stand in the folder, and the checkpoint is still of the old ones."""
    other = settings_of(corpus, batch_tokens=200)
    dump_config(other, run / "config.yaml")
    resume(other, run)
    assert "train.batch_tokens: 60 -> 200; epoch 1 starts over" in capsys.readouterr().err
    assert sorted(dealt) == list(range(len(dealt)))


def test_a_checkpoint_without_its_batches_is_of_the_run_s_settings(corpus: Path, run: Path, dealt: list[int]) -> None:
    newest = newest_checkpoint(run)
    assert newest is not None
    state = load_checkpoint(newest)
    del state.trainer["batches"]
    shutil.rmtree(newest)
    save_checkpoint(run, 3, state)
    resume(settings_of(corpus, batch_tokens=200), run)
    assert sorted(dealt) == list(range(len(dealt)))


def test_what_a_run_keeps_is_refused(corpus: Path, run: Path) -> None:
    before = (run / "config.yaml").read_bytes()
    with pytest.raises(RunError, match=r"was started with another train\.best_metric; resume with the same"):
        train(settings_of(corpus, best_metric="bleu"), run, resume=True, quiet=True)
    assert (run / "config.yaml").read_bytes() == before


def test_pairs_that_are_held_out_keep_their_seed(corpus: Path) -> None:
    config = settings_of(corpus)
    assert "seed" not in fixed_settings(config)
    data = {**config.data.model_dump(), "valid": {"split": 10}}
    assert "seed" in fixed_settings(RunConfig(**{**config.model_dump(), "data": data}))


def test_changes_in_words() -> None:
    assert changes({"a": 1, "b": None, "c": "x"}, {"a": 1, "b": 2.5, "c": "y"}) == "b: null -> 2.5, c: x -> y"
    assert changes({}, {"a": 1}) == ""
