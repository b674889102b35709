"""The doctor on runs: curves made by hand, each with one fault, and a run that is healthy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dragoman.config import RunConfig
from dragoman.configfile import load_config
from dragoman.doctor import run
from dragoman.doctor.examine import Examination, examine_run
from dragoman.preflight.finding import Finding
from dragoman.training.run import train
from test_doctor_settings import pairs_of


def only(findings: Iterable[Finding], severity: str) -> str:
    found = list(findings)
    assert len(found) == 1, found
    assert found[0].severity == severity, found
    assert found[0].text.endswith(".")
    return found[0].text


def records(
    train: Iterable[float | None] = (),
    valid: Iterable[float] = (),
    every: int = 10,
    **fields: Callable[[int], Any],
) -> run.Records:
    """Records with the given losses; ``fields`` make other values of the training records from their number."""
    common = {"skipped": lambda at: 0, "gradient_norm": lambda at: 0.5, "tokens_per_second": lambda at: 1000.0}
    rows = [
        {"kind": "train", "step": every * (at + 1), "epoch": 0.1 * (at + 1), "elapsed": float(at), "nll": loss}
        | {name: make(at) for name, make in {**common, **fields}.items()}
        for at, loss in enumerate(train)
    ]
    valids = [
        {"kind": "valid", "step": every * (at + 1), "epoch": 0.1 * (at + 1), "elapsed": float(at), "loss": loss}
        for at, loss in enumerate(valid)
    ]
    return run.Records(rows, valids, [], 0)


FALLING = [8 * 0.8**at for at in range(20)]


def test_healthy_curves_give_no_finding() -> None:
    healthy = records(FALLING, FALLING)
    assert [
        *run.log_file(healthy),
        *run.divergence(healthy),
        *run.non_finite(healthy),
        *run.gradients(healthy, 1.0),
        *run.speed(healthy),
        *run.validation(healthy, "loss"),
    ] == []
    assert list(run.divergence(records([0.02, 0.015, 0.04, 0.05, 0.04]))) == []  # ripples near zero


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    good = {"kind": "train", "step": 1, "nll": 2.0}
    (tmp_path / "metrics.jsonl").write_text(f'{json.dumps(good)}\n{{"kind": "tr\n[]\n{{"kind": "other", "step": 1}}\n')
    found = run.read_records(tmp_path)
    assert found.train == [good]
    assert "3 lines of metrics.jsonl" in only(run.log_file(found), "warning")
    assert "no records yet" in only(run.log_file(run.read_records(tmp_path / "none")), "note")


def test_a_loss_that_rises_again() -> None:
    text = only(run.divergence(records([*FALLING, 3.0, 6.0, 7.0, 7.5])), "error")
    assert "its loss was 0.14 around step 200 and is 7.00 now" in text
    # One bad record is no divergence.
    assert list(run.divergence(records([*FALLING, 7.0]))) == []


def test_a_loss_that_is_no_number() -> None:
    text = only(run.divergence(records([*FALLING, None, None])), "error")
    assert "is no number from step 210 on" in text


@pytest.mark.parametrize(("skipped", "severity"), [(1, "note"), (50, "warning")])
def test_updates_that_were_skipped(skipped: int, severity: str) -> None:
    text = only(run.non_finite(records(FALLING, every=50, skipped=lambda at: skipped)), severity)
    assert f"{skipped} of 1,000 updates" in text


def test_gradients_that_are_clipped_to_the_end() -> None:
    assert "norm is 9.0" in only(run.gradients(records(FALLING, gradient_norm=lambda at: 9.0), 1.0), "note")
    assert list(run.gradients(records(FALLING, gradient_norm=lambda at: 9.0), 0.0)) == []
    assert list(run.gradients(records(FALLING, gradient_norm=lambda at: 90.0 if at < 9 else 1.0), 1.0)) == []


def test_a_run_that_became_slow() -> None:
    slow = records(FALLING, tokens_per_second=lambda at: 1000.0 if at < 10 else 300.0)
    assert "from 1,000 to 300 tokens/s" in only(run.speed(slow), "note")


def test_overfitting() -> None:
    text = list(run.validation(records(FALLING, [4.0, 3.0, 2.0, 2.1, 2.3, 2.5]), "loss"))
    assert [finding.severity for finding in text] == ["warning", "note"]
    assert "was best at step 30 (2.000) and has risen for 3 validations to 2.500" in text[0].text
    assert "best model is of step 30 and the last of step 60" in text[1].text


def test_overfitting_by_the_loss_though_the_score_still_rises() -> None:
    rows = records(FALLING, [4.0, 3.0, 2.0, 2.1, 2.3, 2.5])
    for at, record in enumerate(rows.valid):
        record["bleu"] = 10.0 + at
    assert "overfitting" in only(run.validation(rows, "bleu"), "warning")


def test_a_plateau() -> None:
    text = only(run.validation(records(FALLING, [4.0, 3.0, 2.0, 2.001, 2.0, 2.0, 1.999, 2.0]), "loss"), "note")
    assert "has hardly moved since step 70" in text


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned to turn its words around, more or less."""
    folder = tmp_path_factory.mktemp("run")
    for name, count, seed in (("train", 1500, 1), ("valid", 40, 2)):
        for side, column in (("src", 0), ("tgt", 1)):
            lines = [pair[column] for pair in pairs_of(count, seed)]
            (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    data = {"dir": str(folder), **{name: {"src": f"{name}.src", "tgt": f"{name}.tgt"} for name in ("train", "valid")}}
    config = RunConfig(
        name="turned",
        data=data,
        tokenizer={"kind": "bpe", "vocab_size": 320},
        model={
            "d_model": 48, "n_heads": 4, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 96, "dropout": 0.0,
            "tie_embeddings": "all", "positions": "rotary",
        },
        train={
            "max_steps": 320, "batch_tokens": 800, "warmup_steps": 40, "lr": 0.008, "schedule": "linear", "threads": 1,
            "valid_every": 80, "log_every": 10, "label_smoothing": 0.0,
        },
        decode={"beam_size": 2},
    )  # fmt: skip
    return train(config, folder / "run", quiet=True)


def findings(made: Examination) -> list[Finding]:
    return [finding for one in made.outcomes for finding in one.findings if finding.severity != "ok"]


def test_a_healthy_run_and_its_model_give_no_finding(healthy: Path) -> None:
    made = Examination(lambda text: None)
    examine_run(healthy, None, made)
    assert findings(made) == []
    measured = {one.title: one.findings for one in made.outcomes if one.findings}
    assert "a loss of" in measured["the loss of real pairs"][0].text
    assert "chrF" in measured["translations"][0].text


@pytest.fixture
def copied(healthy: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(healthy, tmp_path / "run"))


def cut(folder: Path, step: int) -> None:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["step"] <= step]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in kept))


def test_an_interrupted_run(copied: Path) -> None:
    config = load_config(copied / "config.yaml")
    assert list(run.ending(run.read_records(copied), config, copied)) == []
    cut(copied, 200)
    text = only(run.ending(run.read_records(copied), config, copied), "warning")
    assert "stopped at step 200, before its end" in text
    assert "--resume" in text
    shutil.rmtree(copied / "checkpoints")
    assert "begin anew" in only(run.ending(run.read_records(copied), config, copied), "warning")
    assert "cannot be resumed" in only(run.checkpoint(copied), "note")


def test_a_run_out_of_patience_is_at_its_end(copied: Path) -> None:
    config = load_config(copied / "config.yaml")
    patient = config.changed(train=config.train.changed(max_steps=10_000, patience=2))
    rows = records(FALLING, [4.0, 3.0, 3.1, 3.2])
    assert list(run.ending(rows, patient, copied)) == []
    assert "before its end" in only(run.ending(records(FALLING, [4.0, 3.0, 3.1]), patient, copied), "warning")


def test_a_run_that_ended_without_its_last_steps(copied: Path) -> None:
    config = load_config(copied / "config.yaml")
    tested = config.changed(data=config.data.changed(test=config.data.valid))
    assert "was not scored" in only(run.ending(run.read_records(copied), tested, copied), "note")
    shutil.rmtree(copied / "best")
    assert "there is no best/" in only(run.ending(run.read_records(copied), config, copied), "warning")


def test_a_damaged_checkpoint(copied: Path) -> None:
    assert list(run.checkpoint(copied)) == []
    weights = copied / "checkpoints" / "step-320" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    assert "damaged or cut short" in only(run.checkpoint(copied), "error")


def test_a_checkpoint_of_no_numbers(copied: Path) -> None:
    from dragoman.training.checkpoint import load_checkpoint, save_checkpoint

    state = load_checkpoint(copied / "checkpoints" / "step-320")
    state.model["output.bias"].fill_(float("nan"))
    save_checkpoint(copied, 320, state)
    assert "step-320 holds weights that are not finite (such as output.bias)" in only(run.checkpoint(copied), "error")


def test_a_broken_best_model_is_found_through_the_run(copied: Path) -> None:
    path = copied / "best" / "model.safetensors"
    tensors = load_file(path)
    tensors["encoder.norm.weight"] = torch.full_like(tensors["encoder.norm.weight"], float("inf"))
    save_file(tensors, path)
    made = Examination(lambda text: None)
    examine_run(copied, None, made)
    assert "encoder.norm.weight hold values that are not finite" in only(findings(made), "error")


def test_validation_text_that_is_gone_is_noted(copied: Path) -> None:
    settings = copied / "config.yaml"
    settings.write_text(settings.read_text().replace("valid.src", "gone.src"))
    made = Examination(lambda text: None)
    examine_run(copied, None, made)
    texts = [finding.text for finding in findings(made)]
    assert any("gone.src" in text for text in texts)
    assert any("give --src" in text for text in texts)
    assert all(finding.severity == "note" for finding in findings(made))
