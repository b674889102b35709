"""A training run: its directory, its parts put together, its end."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from dragoman.bundle import Bundle, load_bundle, read_tensors, save_bundle
from dragoman.config import RunConfig
from dragoman.configfile import dump_config, load_config
from dragoman.errors import DragomanError, RunError
from dragoman.evaluation import Score, evaluate
from dragoman.files import write_text
from dragoman.model.transformer import Transformer
from dragoman.text.batching import TrainingBatches
from dragoman.training.averaging import mean_weights, swapped
from dragoman.training.card import Trained, model_card
from dragoman.training.checkpoint import (
    checkpoints,
    load_checkpoint,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from dragoman.training.metrics_log import MetricsLog
from dragoman.training.prepare import Prepared, continued, model_config, prepare
from dragoman.training.report import Reporter, valid_line
from dragoman.training.trainer import Trainer
from dragoman.training.validation import Validation, Validator
from dragoman.translator import Translator, resolve_device


class InterruptedRunError(RunError):
    """Training was asked to stop: everything is saved."""

    exit_code = 130


def train(
    config: RunConfig, out: str | os.PathLike[str] | None = None, resume: bool = False, quiet: bool = False
) -> Path:
    """Train as ``config`` says and return the run directory (``out``, or ``runs/NAME``).

    ``resume`` goes on from the newest complete checkpoint, or from the start where there is none yet; without
    it an existing run directory is refused. Ctrl-C saves a checkpoint and raises :class:`InterruptedRunError`.
    Raises :class:`RunError` for a directory that cannot be used, :class:`DataError` for bad text.
    """
    folder = Path(out) if out is not None else Path("runs") / config.name
    is_new = not (folder / "config.yaml").exists()
    _claim(folder, config, resume)
    with Reporter(quiet) as reporter:
        try:
            run = Run(config, folder, reporter)
        except DragomanError:
            # Refused before it began: nothing is left in the way of the mended command.
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        if resume:
            run.restore()
        with _stop_signals(run.trainer):
            run.train()
        if run.trainer.stop_requested:
            raise InterruptedRunError(
                f"stopped at step {run.trainer.progress.step}, all saved; go on with --resume --out {folder}."
            )
        run.finish()
    return folder


def _claim(folder: Path, config: RunConfig, resume: bool) -> None:
    """Refuse a directory with another run in it; write the resolved configuration."""
    settings = folder / "config.yaml"
    if settings.exists():
        if not resume:
            raise RunError(f"{folder} already holds a run; add --resume to go on with it, or choose another --out.")
        old = load_config(settings)
        changed = [part for part in ("data", "tokenizer", "model") if getattr(old, part) != getattr(config, part)]
        if changed:
            raise RunError(
                f"{folder} was started with another {' and '.join(changed)} section; "
                "resume with the same, or choose another --out."
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists and holds no run of ours; choose another --out.")
    dump_config(config, settings)


@contextlib.contextmanager
def _stop_signals(trainer: Trainer) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks the loop to stop after the update it is in; the second is as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in old.items():
            signal.signal(number, handler)

    def ask(number: int, frame: FrameType | None) -> None:
        trainer.stop_requested = True
        restore()

    for number in (signal.SIGINT, signal.SIGTERM):
        old[number] = signal.signal(number, ask)
    try:
        yield
    finally:
        restore()


class Run:
    """The parts of one run and the folder they write to."""

    def __init__(self, config: RunConfig, folder: Path, reporter: Reporter) -> None:
        self.config = config
        self.folder = folder
        self.reporter = reporter
        settings = config.train
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        self.device = resolve_device(settings.device)
        torch.manual_seed(settings.seed)
        random.seed(settings.seed)
        base = load_bundle(Path(config.data.dir) / settings.init_from) if settings.init_from else None
        self.prepared: Prepared = prepare(config, folder / "data", base.tokenizers if base else None, reporter)
        tokenizers = self.prepared.tokenizers
        if base is None:
            self.model = Transformer(model_config(config, tokenizers))
        else:
            self.model = continued(base.model, config.model)
        self.model.to(self.device)
        self.log = MetricsLog(folder)
        batches = TrainingBatches(self.prepared.corpus, self.model.config, settings.batch_tokens, settings.seed)
        self.trainer = Trainer(config, self.model, batches, len(self.prepared.corpus), self.device, self.log, reporter)
        self.validator = None
        if self.prepared.valid is not None:
            self.validator = Validator(
                self.prepared.valid, tokenizers, settings.batch_tokens, settings.sample_sentences
            )

    def train(self) -> None:
        """The loop, from where the run stands."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.reporter.news(
            f"training {parameters:,} parameters on {len(self.prepared.corpus):,} pairs, {self.device}, "
            f"{torch.get_num_threads()} threads"
        )
        self.trainer.run(self.validate, self.save)

    def restore(self) -> None:
        """Go on from the newest complete checkpoint; without one, stay at the start."""
        path = newest_checkpoint(self.folder)
        if path is None:
            self.log.truncate_after(0)
            return
        self.trainer.restore(load_checkpoint(path), str(path))
        self.log.truncate_after(self.trainer.progress.step)
        self.reporter.news(f"going on from step {self.trainer.progress.step}")

    def save(self) -> None:
        """A checkpoint, and the model directory ``last``."""
        step = self.trainer.progress.step
        save_checkpoint(self.folder, step, self.trainer.state())
        prune_checkpoints(self.folder, max(self.config.train.keep, self.config.train.average_last))
        with self._validation_weights():
            self._save_bundle("last")

    @contextlib.contextmanager
    def _validation_weights(self) -> Iterator[None]:
        """The weights that validation and the bundles use: the averaged ones where averaging is on."""
        count = self.config.train.average_last
        if self.trainer.ema is not None:
            weights = self.trainer.ema.weights()
        elif count > 1:
            step = self.trainer.progress.step
            earlier = [path for path in checkpoints(self.folder) if path.name != f"step-{step}"][1 - count :]
            own = {name: parameter.detach() for name, parameter in self.model.named_parameters()}
            weights = mean_weights([*(read_tensors(path / "model.safetensors") for path in earlier), own])
        else:
            yield
            return
        with swapped(self.model, weights):
            yield

    def validate(self) -> Validation | None:
        """Measure the weights, keep the best as ``best``, tell the person who waits."""
        if self.validator is None:
            return None
        progress = self.trainer.progress
        with self._validation_weights():
            outcome = self.validator.run(self._bundle(), self.device)
            value = (
                outcome.loss
                if self.config.train.best_metric == "loss"
                else -outcome.scores[self.config.train.best_metric]
            )
            if progress.best is None or value < progress.best:
                progress.best, progress.best_step, progress.stale = value, progress.step, 0
                self._save_bundle("best", outcome.loss)
            else:
                progress.stale += 1
        record = {
            "step": progress.step,
            "epoch": round(self.trainer.epochs, 4),
            "loss": outcome.loss,
            "perplexity": outcome.perplexity,
            **outcome.scores,
            "signatures": outcome.signatures,
            "best": progress.best_step == progress.step,
            "elapsed": self.trainer.elapsed(),
        }
        self.log.write("valid", record)
        self.reporter.news(valid_line(record))
        for src, tgt, predicted in outcome.samples:
            self.reporter.news(f"    SOURCE    {src}\n    TARGET    {tgt}\n    PREDICTED {predicted}")
        return outcome

    def finish(self) -> None:
        """Score the best weights on the test set, and write the scores into the cards and the log."""
        best = self.folder / "best"
        if self.validator is None:
            self._save_bundle("best")
        scores: list[Score] = []
        if self.prepared.test is not None:
            translator = Translator(load_bundle(best, self.device), self.device)
            self.reporter.news(f"translating the {len(self.prepared.test):,} sentences of the test set")
            outputs = [found.text for found in translator.translate([src for src, _ in self.prepared.test])]
            scores = evaluate(outputs, [tgt for _, tgt in self.prepared.test], ("bleu", "chrf"), confidence=True)
            record = {"step": self.trainer.progress.best_step, **{score.name: score.value for score in scores}}
            self.log.write("test", {**record, "signatures": {score.name: score.signature for score in scores}})
            write_text(best / "README.md", self._card(self._last_valid_loss, scores))
            for score in scores:
                self.reporter.news(f"test {score.signature.partition('|')[0]} {score.value:.2f}  {score.signature}")
        self.log.close()
        self.reporter.news(f"the model is in {best}")

    @property
    def _last_valid_loss(self) -> float | None:
        best = self.trainer.progress.best
        return best if self.config.train.best_metric == "loss" else None

    def _bundle(self, card: str = "") -> Bundle:
        data = self.config.data
        return Bundle(self.model, self.prepared.tokenizers, self.config.decode, data.src_lang, data.tgt_lang, card)

    def _save_bundle(self, name: str, loss: float | None = None) -> None:
        save_bundle(self._bundle(self._card(loss, [])), self.folder / name)

    def _card(self, loss: float | None, scores: list[Score]) -> str:
        trainer, corpus = self.trainer, self.prepared.corpus
        facts = Trained(
            pairs=len(corpus),
            dropped=corpus.counts.dropped,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            step=trainer.progress.step,
            epochs=trainer.epochs,
            seconds=trainer.elapsed(),
            valid_loss=loss,
        )
        return model_card(self.config.model_copy(update={"model": self.model.config}), facts, scores)
