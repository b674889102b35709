"""A training run: its directory, its parts put together, its end."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from dragoman.bundle import Bundle, load_bundle, read_tensors, save_bundle
from dragoman.config import RunConfig
from dragoman.configfile import dump_config, load_config
from dragoman.errors import DragomanError, RunError
from dragoman.evaluation import Score, evaluate
from dragoman.files import write_text
from dragoman.model.transformer import Transformer
from dragoman.text.stream_batches import StreamCorpus
from dragoman.training.averaging import mean_weights, swapped
from dragoman.training.card import Trained, model_card
from dragoman.training.checkpoint import (
    checkpoints,
    load_checkpoint,
    newest_checkpoint,
    prune_checkpoints,
    save_checkpoint,
)
from dragoman.training.continued import continued, continued_config
from dragoman.training.dealing import batches_of, whole
from dragoman.training.finished import finished
from dragoman.training.metrics_log import MetricsLog, NoLog
from dragoman.training.prepare import Prepared, model_config
from dragoman.training.prepare_once import prepare_once
from dragoman.training.products import use_products
from dragoman.training.ranks import Ranks, join
from dragoman.training.report import Reporter, valid_line
from dragoman.training.resumed import batch_settings, changes, fixed_settings, flat_settings
from dragoman.training.stopping import InterruptedRunError, stop_signals
from dragoman.training.trainer import Trainer
from dragoman.training.validation import Validation, Validator, translated
from dragoman.translating.device import resolve_device
from dragoman.translator import Translator


def train(
    config: RunConfig, out: str | os.PathLike[str] | None = None, resume: bool = False, quiet: bool = False
) -> Path:
    """Train as ``config`` says and return the run directory (``out``, or ``runs/NAME``).

    ``resume`` goes on from the newest complete checkpoint, or from the start where there is none yet, and leaves a
    run that has finished as it is; without it an existing run directory is refused. ``quiet`` leaves warnings alone
    on standard error. Ctrl-C saves a checkpoint and raises :class:`InterruptedRunError`.
    Raises :class:`RunError` for a directory that cannot be used, :class:`DataError` for bad text. In each of several
    processes that a launcher started, this trains one model together with the others (docs/scaling.md).
    """
    folder = Path(out) if out is not None else Path("runs") / config.name
    is_new = not (folder / "config.yaml").exists()
    with join(config.train.device) as ranks, Reporter(quiet or not ranks.leads, mute=not ranks.leads) as reporter:
        config = continued_config(config)
        _compare(ranks, config, folder, resume)
        # Read before the resolved configuration is written in its place.
        before = ranks.decide(lambda: _settings_before(folder) if resume else "{}")
        if over := ranks.decide(lambda: _claim(folder, config, resume)):
            reporter.news(over)
            return folder
        try:
            run = Run(config, folder, reporter, ranks)
        except DragomanError:
            # Refused before it began: nothing is left in the way of the mended command.
            if is_new and ranks.leads:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        if resume:
            run.restore(json.loads(before))
        with stop_signals(run.trainer):
            run.train()
        if run.trainer.stopped:
            again = shlex.join(["dragoman", "train", str(folder / "config.yaml"), "--out", str(folder), "--resume"])
            last = None if (folder / "best").exists() else folder / "last"
            raise ranks.error(InterruptedRunError(run.trainer.progress.step, again, last))
        run.finish()
    return folder


def _compare(ranks: Ranks, config: RunConfig, folder: Path, resume: bool) -> None:
    """Refuse ranks that were told to do different things: they would wait for each other in vain."""
    asked = ranks.gather([config.model_dump_json(), str(folder), resume])
    other = next((rank for rank, each in enumerate(asked) if each != asked[0]), None)
    if other is not None:
        error = RunError(
            f"rank {other} was started with another configuration, --out or --resume than rank 0; "
            "start all processes with the same command."
        )
        raise ranks.error(error)


def _settings_before(folder: Path) -> str:
    """The settings of the run that is there, as JSON; none where there is no run."""
    settings = folder / "config.yaml"
    return json.dumps(flat_settings(load_config(settings)) if settings.exists() else {})


def _claim(folder: Path, config: RunConfig, resume: bool) -> str:
    """Refuse a directory with another run in it; write the resolved configuration.

    Of a run that has finished nothing is written, and a line that says so comes back.
    """
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
        fixed = [name for name in fixed_settings(old) if getattr(old.train, name) != getattr(config.train, name)]
        if fixed:
            raise RunError(
                f"{folder} was started with another {' and '.join(f'train.{name}' for name in fixed)}; "
                "resume with the same, or choose another --out."
            )
        if over := finished(config, folder):
            return over
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} exists and holds no run of ours; choose another --out.")
    dump_config(config, settings)
    return ""


class Run:
    """The parts of one run and the folder they write to."""

    def __init__(self, config: RunConfig, folder: Path, reporter: Reporter, ranks: Ranks | None = None) -> None:
        self.config = config
        self.folder = folder
        self.reporter = reporter
        self.ranks = ranks = Ranks() if ranks is None else ranks
        settings = config.train
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        self.device = ranks.device(resolve_device(settings.device))
        torch.manual_seed(settings.seed)
        random.seed(settings.seed)
        base = load_bundle(Path(config.data.dir) / settings.init_from) if settings.init_from else None
        own = base.tokenizers if base else None
        self.prepared: Prepared = prepare_once(config, folder / "data", own, reporter, ranks)
        tokenizers = self.prepared.tokenizers
        if base is None:
            self.model = Transformer(model_config(config, tokenizers))
        else:
            self.model = continued(base.model, config.model)
        self.model.to(self.device)
        if self.device.type == "cpu":
            use_products(self.model)
        self.log = MetricsLog(folder) if ranks.leads else NoLog(folder)
        corpus = self.prepared.corpus
        batches = batches_of(corpus, self.model.config, settings, reporter.news)
        n_pairs = corpus.size if isinstance(corpus, StreamCorpus) else len(corpus)
        self.trainer = Trainer(config, self.model, batches, n_pairs, self.device, self.log, reporter, ranks)
        self.validator = None
        if self.prepared.valid is not None:
            self.validator = Validator(
                self.prepared.valid, tokenizers, settings.batch_tokens, settings.sample_sentences, ranks
            )

    def train(self) -> None:
        """The loop, from where the run stands."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        pairs = self.trainer.n_pairs
        self.reporter.news(
            f"training {parameters:,} parameters on {f'{pairs:,}' if pairs else 'a stream of'} pairs, {self.device}, "
            f"{torch.get_num_threads()} threads" + (f", {self.ranks.size} processes" if self.ranks.size > 1 else "")
        )
        self.trainer.run(self.validate, self.save)

    def restore(self, before: dict[str, Any]) -> None:
        """Go on from the newest complete checkpoint; without one, stay at the start.

        ``before`` are the settings that the run had (:func:`flat_settings`). Where the batches of the epoch are others
        now, it starts over: its rest cannot be told from what was seen.
        """
        found = self.ranks.decide(lambda: str(newest_checkpoint(self.folder) or ""))
        if not found:
            self.log.truncate_after(0)
            self._tell_changes(before)
            return
        state = load_checkpoint(Path(found))
        self.trainer.restore(state, found)
        self.log.truncate_after(self.trainer.progress.step)
        # A resume that was killed early left new settings beside a checkpoint of the old ones.
        made = {f"train.{name}": value for name, value in state.trainer.get("batches", {}).items()}
        self._tell_changes({**before, **made})
        self.reporter.news(f"going on from step {self.trainer.progress.step}")

    def _tell_changes(self, before: dict[str, Any]) -> None:
        """One line with every setting that is another now, and what that means for the epoch."""
        told = changes(before, flat_settings(self.config))
        own = {f"train.{name}": value for name, value in batch_settings(self.config.train).items()}
        if any(before.get(name, value) != value for name, value in own.items()) and self.trainer.start_epoch_over():
            epoch = self.trainer.progress.position.epoch + 1
            self.reporter.warn(f"changed settings: {told}; epoch {epoch} starts over, since its batches are others now")
        elif told:
            self.reporter.news(f"changed settings: {told}")

    def save(self) -> None:
        """A checkpoint, and the model directory ``last``."""
        progress = self.trainer.progress
        progress.position = whole(progress.position, self.ranks)
        self.ranks.lead(self._save)

    def _save(self) -> None:
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
                self.ranks.lead(lambda: self._save_bundle("best", outcome.loss))
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
            self.ranks.lead(lambda: self._save_bundle("best"))
        if self.prepared.test is not None:
            translator = Translator(load_bundle(best, self.device), self.device)
            self.reporter.news(f"translating the {len(self.prepared.test):,} sentences of the test set")
            outputs = translated(translator, [src for src, _ in self.prepared.test], self.ranks)
            references = [tgt for _, tgt in self.prepared.test]
            self.ranks.lead(lambda: self._tell_scores(best, outputs, references))
        self.log.close()
        self.reporter.news(f"the model is in {best}")

    def _tell_scores(self, best: Path, outputs: list[str], references: list[str]) -> None:
        lowercase = not self.prepared.tokenizers.tgt.keeps_case
        scores = evaluate(outputs, references, ("bleu", "chrf"), lowercase, confidence=True)
        record = {"step": self.trainer.progress.best_step, **{score.name: score.value for score in scores}}
        write_text(best / "README.md", self._card(self._last_valid_loss, scores))
        # The last that a run writes: it says that the run is complete.
        self.log.write("test", {**record, "signatures": {score.name: score.signature for score in scores}})
        for score in scores:
            self.reporter.news(f"test {score.signature.partition('|')[0]} {score.value:.2f}  {score.signature}")

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
        trainer, corpus, progress = self.trainer, self.prepared.corpus, self.trainer.progress
        if isinstance(corpus, StreamCorpus):
            pairs, dropped = progress.epoch_size or progress.epoch_pairs, progress.dropped
        else:
            pairs, dropped = len(corpus), corpus.counts.dropped
        facts = Trained(
            pairs=pairs,
            dropped=dropped,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            step=trainer.progress.step,
            epochs=trainer.epochs,
            seconds=trainer.elapsed(),
            valid_loss=loss,
        )
        return model_card(self.config.model_copy(update={"model": self.model.config}), facts, scores)
