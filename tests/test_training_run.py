"""Whole runs: they learn, resume to the bit, stop when asked, and refuse what cannot work."""

from __future__ import annotations

import os
import pty
import random
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import Translator, load_config
from dragoman.bundle import load_bundle
from dragoman.config import TokenizerConfig
from dragoman.errors import BundleError, ConfigError, DataError, RunError
from dragoman.model.transformer import Transformer
from dragoman.text.batching import TrainingBatches, collate
from dragoman.training.report import Reporter
from dragoman.training.run import Run, train
from dragoman.training.validation import batch_loss
from tolerances import FLOAT32_GRADIENT
from trainings import config_of, environment, records, same, sentences, weights, write_config, write_reversed


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences and the same with the words reversed: train, valid and test."""
    folder = tmp_path_factory.mktemp("corpus")
    write_reversed(folder, {"train": (600, 1), "valid": (30, 2), "test": (30, 3)})
    return folder


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ema": {"ema": 0.9},
    "averaging": {"average_last": 3},
    "accumulation": {"accumulate": 3, "save_every": 1},
    "plateau": {"schedule": "plateau", "warmup_steps": 0, "plateau_patience": 0, "lr": 0.3},
    "linear": {"schedule": "linear", "warmup_ratio": 0.3, "optimizer": "adamw", "weight_decay": 0.1},
    "patience": {"patience": 1, "lr": 0.5, "max_steps": 40},
    "off the beat": {"save_every": 5, "valid_every": 7, "log_every": 2},
    "bpe dropout": {"bpe_dropout": 0.3, "max_epochs": 3, "max_steps": None, "batch_tokens": 2000, "save_every": 3},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_resumed_equals_uninterrupted(name: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(corpus, **VARIANTS[name])
    whole = train(config, tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        original = Run.save

        def save_and_die(self: Run) -> None:
            original(self)
            if self.trainer.progress.step >= 4:
                raise RuntimeError("killed on purpose")

        patch.setattr(Run, "save", save_and_die)
        with pytest.raises(RuntimeError, match="on purpose"):
            train(config, tmp_path / "cut", quiet=True)
    torch.manual_seed(99)
    random.seed(99)
    resumed = train(config, tmp_path / "cut", resume=True, quiet=True)
    assert same(weights(whole), weights(resumed))
    assert same(weights(whole, "best"), weights(resumed, "best"))
    assert records(whole) == records(resumed)


def test_the_same_seed_gives_the_same_run_and_another_another(corpus: Path, tmp_path: Path) -> None:
    first, second = (train(config_of(corpus), tmp_path / name, quiet=True) for name in "ab")
    assert same(weights(first), weights(second))
    other = train(config_of(corpus, seed=6), tmp_path / "c", quiet=True)
    assert not same(weights(first), weights(other))


def test_bpe_dropout_cuts_the_training_text_alone_and_anew_each_epoch(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, bpe_dropout=0.3)
    with Reporter(quiet=True) as reporter:
        run = Run(config, tmp_path, reporter)
    tokenizer, stream = run.prepared.tokenizers.src, run.trainer.batches
    epochs = [
        {
            index: [piece for piece in row if piece not in (tokenizer.pad_id, tokenizer.eos_id)]
            for batch in stream.epoch_batches(epoch)
            for index, row in zip(batch.indices, batch.src.tolist(), strict=True)
        }
        for epoch in (0, 1)
    ]
    texts = (corpus / "train.src").read_text().splitlines()
    assert [tokenizer.decode(epochs[0][index]) for index in range(len(texts))] == texts
    assert [tokenizer.decode(epochs[1][index]) for index in range(len(texts))] == texts
    plain = [tokenizer.encode(text) for text in texts]
    assert sum(epochs[0][index] != epochs[1][index] for index in range(len(texts))) > len(texts) / 2
    assert sum(map(len, epochs[0].values())) > 1.1 * sum(map(len, plain))
    assert [src.tolist() for src, _ in map(run.prepared.corpus.pair, range(len(texts)))] == plain
    with pytest.raises(ConfigError, match="of kind wordlevel"):
        train(config.changed(tokenizer=config.tokenizer.changed(kind="wordlevel")), tmp_path / "x", quiet=True)
    assert not (tmp_path / "x").exists()


def test_bpe_dropout_needs_a_model_with_merges_to_go_on_from(corpus: Path, tmp_path: Path) -> None:
    first = train(config_of(corpus, max_steps=1), tmp_path / "first", quiet=True)
    config = config_of(corpus, init_from=str(first / "last")).changed(tokenizer=TokenizerConfig(bpe_dropout=0.1))
    with pytest.raises(ConfigError, match="of kind wordlevel"):
        train(config, tmp_path / "second", quiet=True)
    assert not (tmp_path / "second").exists()


def test_accumulated_equals_one_big_batch(corpus: Path, tmp_path: Path) -> None:
    """One division by all target tokens: unequal batches weigh what their tokens weigh."""
    config = config_of(corpus)
    with Reporter(quiet=True) as reporter:
        run = Run(config, tmp_path, reporter)
    model: Transformer = run.model.eval()
    stream = TrainingBatches(run.prepared.corpus, model.config, 200, 1).epoch_batches(0)
    batches = [next(stream) for _ in range(3)]
    total = sum(batch.n_tgt_tokens for batch in batches)
    for batch in batches:
        (batch_loss(model, batch, 0.1)[0] / total).backward()
    accumulated = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    pairs = [run.prepared.corpus.pair(index) for batch in batches for index in batch.indices]
    big = collate(pairs, model.config, range(len(pairs)))
    assert big.n_tgt_tokens == total
    (batch_loss(model, big, 0.1)[0] / total).backward()
    for mine, other in zip(accumulated, [p.grad for p in model.parameters() if p.grad is not None], strict=True):
        torch.testing.assert_close(mine, other, rtol=0.0, atol=FLOAT32_GRADIENT)


def test_a_finished_run_has_its_files(corpus: Path, tmp_path: Path) -> None:
    run = train(config_of(corpus, keep=2), tmp_path / "run", quiet=True)
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == ["step-12", "step-8"]
    assert load_config(run / "config.yaml") == config_of(corpus, keep=2)
    kinds = [record["kind"] for record in records(run)]
    assert kinds.count("valid") == 3
    assert kinds[-1] == "test"
    valid = next(record for record in records(run) if record["kind"] == "valid")
    assert valid["signatures"]["bleu"].startswith("BLEU|nrefs:1|case:mixed")
    assert valid["perplexity"] == pytest.approx(torch.tensor(valid["loss"]).exp().item(), rel=1e-4)
    assert list((run / "tensorboard").iterdir())
    card = (run / "best" / "README.md").read_text()
    assert r"BLEU\|nrefs:1" in card
    assert "src → tgt" in card
    assert load_bundle(run / "last").model.config.dropout == 0.1


def test_a_finished_run_resumed_stays_as_it_is(corpus: Path, tmp_path: Path) -> None:
    run = train(config_of(corpus), tmp_path / "run", quiet=True)
    before, log = weights(run), records(run)
    train(config_of(corpus), run, resume=True, quiet=True)
    assert same(before, weights(run))
    assert records(run) == log


@pytest.mark.slow
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_it_learns_from_any_seed(task: str, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10_000)
    print("seed", seed)
    lines = sentences(3000, seed, longest=6)
    answers = [" ".join(line.split()[:: -1 if task == "reverse" else 1]) for line in lines]
    for name, part in (("train", slice(100, None)), ("valid", slice(50)), ("test", slice(50, 100))):
        (tmp_path / f"{name}.src").write_text("".join(f"{line}\n" for line in lines[part]))
        (tmp_path / f"{name}.tgt").write_text("".join(f"{line}\n" for line in answers[part]))
    config = config_of(
        tmp_path,
        max_steps=900,
        batch_tokens=500,
        valid_every=300,
        lr=0.004,
        schedule="linear",
        warmup_ratio=0.1,
        seed=seed,
    )
    model = config.model.changed(d_model=48, n_heads=4, d_ff=96, dropout=0.0)
    run = train(config.changed(model=model), tmp_path / "run", quiet=True)
    found = [one.text for one in Translator.load(run / "best", device="cpu").translate(lines[50:100])]
    assert sum(a == b for a, b in zip(found, answers[50:100], strict=True)) >= 45


def test_an_average_that_the_checkpoint_lacks_is_not_made_up(corpus: Path, tmp_path: Path) -> None:
    run = train(config_of(corpus, max_steps=4), tmp_path / "run", quiet=True)
    with pytest.raises(BundleError, match="averaged weights"):
        train(config_of(corpus, max_steps=8, ema=0.9), run, resume=True, quiet=True)
    assert (run / "config.yaml").is_file()


def test_going_on_from_a_model_keeps_its_tokenizer_and_weights(corpus: Path, tmp_path: Path) -> None:
    first = train(config_of(corpus), tmp_path / "first", quiet=True)
    config = config_of(corpus, init_from=str(first / "last"), max_steps=1, lr=1e-12, warmup_steps=0)
    second = train(config, tmp_path / "second", quiet=True)
    torch.testing.assert_close(weights(first), weights(second))
    assert (first / "last/tokenizer.json").read_text() == (second / "last/tokenizer.json").read_text()
    wider = config.changed(model=config.model.changed(d_ff=48))
    with pytest.raises(ConfigError, match=r"model\.d_ff"):
        train(wider, tmp_path / "third", quiet=True)


def test_held_out_validation_and_separate_vocabularies(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(corpus)
    data = config.data.changed(valid={"split": 20}, test=None)
    model = config.model.changed(tie_embeddings="none")
    changed = config.changed(data=data, model=model, tokenizer=config.tokenizer.changed(joint=False))
    run = train(changed, tmp_path / "run")
    assert (run / "best" / "src.tokenizer.json").is_file()
    assert "20 pairs left out for validation" in capsys.readouterr().err
    assert not any(record["kind"] == "test" for record in records(run))


def test_without_validation_the_last_weights_are_the_best(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus)
    run = train(config.changed(data=config.data.changed(valid=None)), tmp_path / "run", quiet=True)
    assert same(weights(run), weights(run, "best"))


def test_time_that_is_up_before_the_first_update_leaves_a_model(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, max_steps=None, max_minutes=1e-9)
    run = train(config, tmp_path / "run", quiet=True)
    assert [record["kind"] for record in records(run)] == ["valid", "test"]
    assert same(weights(run), weights(run, "best"))
    resumed = train(config_of(corpus, max_steps=2), run, resume=True, quiet=True)
    assert [record["step"] for record in records(resumed) if record["kind"] == "train"] == [2]


def test_another_run_s_directory_is_refused(corpus: Path, tmp_path: Path) -> None:
    train(config_of(corpus, max_steps=1), tmp_path / "run", quiet=True)
    with pytest.raises(RunError, match="--resume"):
        train(config_of(corpus), tmp_path / "run", quiet=True)
    other = config_of(corpus)
    with pytest.raises(RunError, match="another model section"):
        train(other.changed(model=other.model.changed(d_ff=48)), tmp_path / "run", resume=True, quiet=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="holds no run"):
        train(config_of(corpus), tmp_path / "full", quiet=True)


def test_nothing_left_to_train_on_is_an_error(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus)
    short = config.changed(data=config.data.changed(max_length=1))
    with pytest.raises(DataError, match="no training pair is left"):
        train(short, tmp_path / "run", quiet=True)


def test_a_gradient_that_is_never_finite_ends_the_run(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, max_steps=60, valid_every=100, lr=1e30, clip_norm=0.0, warmup_steps=0)
    with pytest.raises(RunError, match="not finite in 20 updates"):
        train(config, tmp_path / "run", quiet=True)


def test_divergence_is_called_by_its_name(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, max_steps=4, lr=1e30, clip_norm=0.0, warmup_steps=0)
    with pytest.raises(RunError, match=r"diverged.*lower train\.lr"):
        train(config, tmp_path / "run", quiet=True)


def test_a_refused_run_leaves_nothing_in_the_way(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, max_steps=1)
    missing = config.changed(data=config.data.changed(train={"src": "nope", "tgt": "train.tgt"}))
    with pytest.raises(DataError, match="nope"):
        train(missing, tmp_path / "run", quiet=True)
    train(config, tmp_path / "run", quiet=True)


def test_the_command(corpus: Path, tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    path = write_config(config_of(corpus), tmp_path / "config.yaml")
    done = run_cli("train", path, "train.max_steps=3", "--out", tmp_path / "run")
    assert done.rc == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'run'}\n"
    for word in ("SOURCE", "TARGET", "PREDICTED", "perplexity", "BLEU", "step 3"):
        assert word in done.stderr
    again = run_cli("train", path, "--out", tmp_path / "run")
    assert again.rc == 1
    assert len(again.stderr.strip().splitlines()) == 1
    bad = run_cli("train", path, "train.lrr=3", "--out", tmp_path / "other")
    assert bad.rc == 1
    assert 'did you mean "train.lr"' in bad.stderr
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "bpe_dropout"), [(signal.SIGINT, 0.0), (signal.SIGKILL, 0.0), (signal.SIGKILL, 0.2)]
)
def test_a_run_that_was_stopped_goes_on(
    number: signal.Signals, bpe_dropout: float, corpus: Path, tmp_path: Path
) -> None:
    """The process is really stopped in the middle; what comes after --resume is what would have come anyway."""
    config = config_of(corpus, bpe_dropout=bpe_dropout, max_steps=400, valid_every=50, save_every=10)
    path = write_config(config, tmp_path / "config.yaml")
    command = [str(Path(sys.executable).with_name("dragoman")), "train", str(path), "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True, capture_output=True)
    with subprocess.Popen([*command, str(tmp_path / "cut")], stderr=subprocess.PIPE, text=True) as process:
        while not list((tmp_path / "cut").glob("checkpoints/step-[2-9]0")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=120)
    if number == signal.SIGINT:
        assert process.returncode == 130
        hint = shlex.split(stderr.rpartition(", all saved; go on with: ")[2])
        assert hint == ["dragoman", *command[1:], str(tmp_path / "cut"), "--resume"]
        assert "Traceback" not in stderr
    assert not (tmp_path / "cut" / "checkpoints" / "step-400").exists()
    subprocess.run([*command, str(tmp_path / "cut"), "--resume"], check=True, capture_output=True)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "cut"))
    # A stop between two records cuts one in two; the last values agree.
    assert records(tmp_path / "whole")[-3:] == records(tmp_path / "cut")[-3:]


def test_a_terminal_that_is_closed_saves_the_run(corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, max_steps=100_000, valid_every=100_000, save_every=100_000)
    path, run = write_config(config, tmp_path / "config.yaml"), tmp_path / "run"
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-m", "dragoman", "train", str(path), "--out", str(run)]
        os.execve(command[0], command, environment())
    try:
        end = time.monotonic() + 120
        while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").read_text():
            assert time.monotonic() < end
            if select.select([terminal], [], [], 0.05)[0]:
                os.read(terminal, 65536)
    finally:
        os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert [folder.name for folder in (run / "checkpoints").iterdir()] != []
    assert (run / "last" / "model.safetensors").exists()


def test_a_model_without_case_is_scored_without_it(corpus: Path, tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.src").write_text((corpus / f"{name}.src").read_text())
        (tmp_path / f"{name}.tgt").write_text((corpus / f"{name}.tgt").read_text().upper())
    config = config_of(tmp_path, max_steps=4, valid_every=4)
    found = {}
    for lowercase in (False, True):
        run = tmp_path / str(lowercase)
        train(config.changed(tokenizer=config.tokenizer.changed(lowercase=lowercase)), run, quiet=True)
        found[lowercase] = [record for record in records(run) if record["kind"] in ("valid", "test")]
    for lowercase, case in ((False, "case:mixed"), (True, "case:lc")):
        assert {record["kind"] for record in found[lowercase]} == {"valid", "test"}
        assert all(case in record["signatures"]["bleu"] for record in found[lowercase])
