"""The training loop: batches in, updates, validations and checkpoints out.

Shapes: B batch, S source length, T target length.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from dragoman.config import RunConfig, TrainConfig
from dragoman.errors import RunError
from dragoman.model.transformer import Transformer
from dragoman.text.batching import Batch, Position
from dragoman.training.averaging import Ema
from dragoman.training.checkpoint import (
    CheckpointState,
    model_tensors,
    optimizer_tensors,
    random_tensors,
    restore_model,
    restore_optimizer,
    restore_random,
)
from dragoman.training.dealing import Batches, Share, deal
from dragoman.training.horizon import Horizon
from dragoman.training.metrics_log import MetricsLog
from dragoman.training.optim import clip_gradients, make_optimizer
from dragoman.training.progress import Progress, Tally
from dragoman.training.ranks import Ranks
from dragoman.training.report import Reporter
from dragoman.training.resumed import batch_settings
from dragoman.training.schedules import make_schedule
from dragoman.training.validation import Validation, batch_loss

# So many updates in a row without a finite gradient mean that the run is lost, not unlucky.
_NON_FINITE_LIMIT = 20
# The share of an epoch that is behind at most, where its end is only known when it comes.
_ALMOST = 1.0 - 1e-9


class Trainer:
    """Runs updates until the horizon, patience or a request to stop ends the training.

    ``validate`` measures the current weights, ``save`` writes a checkpoint; both are the run's
    (:mod:`dragoman.training.run`), so that the loop knows nothing of folders. Of several ranks each runs the same loop
    on its share of the batches, with the same decisions. ``stop_requested`` may be set on one of them, at any time;
    ``stopped`` says that all have heard.
    """

    def __init__(
        self,
        config: RunConfig,
        model: Transformer,
        batches: Batches,
        n_pairs: int | None,
        device: torch.device,
        log: MetricsLog,
        reporter: Reporter,
        ranks: Ranks,
    ) -> None:
        self.config: TrainConfig = config.train
        self.model = model
        self.batches = batches
        self.n_pairs = n_pairs
        self.device = device
        self.log = log
        self.reporter = reporter
        self.ranks = ranks
        self.horizon = Horizon.of(config.train)
        self.optimizer = make_optimizer(model, config.train)
        self.schedule = make_schedule(config.train, config.model.d_model)
        self.ema = Ema(model, config.train.ema) if config.train.ema else None
        self.scaler = torch.amp.GradScaler(device.type) if config.train.precision == "fp16" else None
        self.progress = Progress()
        self.stop_requested = self.stopped = False
        self._tally = Tally()
        self._clock = time.perf_counter()
        self._agreed_share = 0.0
        # Only the training pass is compiled: the module itself stays as it is for saving and decoding.
        loss = torch.compile(batch_loss) if config.train.compile else batch_loss
        self._gradients = ranks.gradients(model, loss, device)

    @property
    def epochs(self) -> float:
        """Passes over the training text so far; whole ones alone while nobody knows its size."""
        size = self.progress.epoch_size or self.n_pairs
        part = min(self.progress.epoch_pairs / size, _ALMOST) if size else 0.0
        return self.progress.position.epoch + part

    @property
    def share(self) -> float:
        """The share of the horizon that is behind, in [0, 1]."""
        return self.horizon.progress(self.progress.step, self.epochs, self.elapsed())

    def elapsed(self) -> float:
        """Seconds of training and validation, those before a resume included."""
        return self.progress.elapsed + time.perf_counter() - self._clock

    def rest_clock(self) -> None:
        """Move the seconds since the last call into ``progress.elapsed``."""
        self.progress.elapsed = self.elapsed()
        self._clock = time.perf_counter()

    def state(self) -> CheckpointState:
        """Everything that a resumed run needs to go on to the bit."""
        self.rest_clock()
        trainer = {
            "progress": {**asdict(self.progress), "position": list(self.progress.position)},
            "batches": batch_settings(self.config),
            "schedule": self.schedule.state_dict(),
            "scaler": None if self.scaler is None else self.scaler.state_dict(),
            "ema_updates": None if self.ema is None else self.ema.updates,
        }
        return CheckpointState(
            model_tensors(self.model),
            optimizer_tensors(self.optimizer),
            random_tensors(),
            trainer,
            {} if self.ema is None else {name: tensor.cpu() for name, tensor in self.ema.weights().items()},
        )

    def restore(self, state: CheckpointState, where: str) -> None:
        """Go on from :meth:`state`; ``where`` names the checkpoint in errors."""
        restore_model(self.model, state.model, where)
        restore_optimizer(self.optimizer, state.optimizer)
        restore_random(state.random)
        progress = state.trainer["progress"]
        self.progress = Progress(**{**progress, "position": Position(*progress["position"])})
        self.schedule.load_state_dict(state.trainer["schedule"])
        if self.scaler is not None and state.trainer["scaler"]:
            self.scaler.load_state_dict(state.trainer["scaler"])
        if self.ema is not None:
            self.ema.restore(state.ema, state.trainer["ema_updates"])

    def start_epoch_over(self) -> bool:
        """Go back to the first batch of the epoch; whether any had been behind."""
        epoch, *place = self.progress.position
        self.progress.position, self.progress.epoch_pairs = Position(epoch), 0
        return any(place)

    def run(self, validate: Callable[[], Validation | None], save: Callable[[], None]) -> None:
        """Train to the end, or until ``stop_requested``; ends with a validation and a checkpoint either way."""
        self._clock = time.perf_counter()
        self.model.train()
        # A run that ends before its first update leaves a model too.
        validated = saved = begun = self.progress.step or -1
        for share in deal(self.batches, self.ranks, self.config.accumulate, self.progress.position):
            tgt_tokens, tokens = self._agree(share)
            if self.stopped or self._ended():
                break
            self.update(share, tgt_tokens, tokens)
            self._move(share)
            step = self.progress.step
            if self._due(self.config.valid_every, step, share.epoch_ends):
                self._validate(validate)
                validated = step
            if self._due(self.config.save_every, step, validated == step):
                self._record()
                save()
                saved = step
        if validated != self.progress.step and not self.stopped:
            self._validate(validate)
            saved = -1
        if saved != self.progress.step or (self._out_of_time() and begun != self.progress.step):
            self._record()
            save()
        # One who asked during the last validation is heard as well.
        self.stopped = self.ranks.sum([self.stop_requested])[0] > 0

    @staticmethod
    def _due(every: int | None, step: int, otherwise: bool) -> bool:
        return step % every == 0 if every else otherwise

    def _agree(self, share: Share) -> tuple[int, int]:
        """What all ranks know before an update: its target tokens and all its tokens, the time, requests to stop.

        The time is that of rank 0.
        """
        tgt_tokens = sum(batch.n_tgt_tokens for batch in share.batches)
        tokens = tgt_tokens + sum(batch.n_src_tokens for batch in share.batches)
        seconds = self.elapsed() if self.ranks.leads else 0.0
        sums = self.ranks.sum([tgt_tokens, tokens, self.stop_requested, seconds])
        self.stopped = sums[2] > 0
        self._agreed_share = self.horizon.progress(self.progress.step, self.epochs, sums[3])
        return int(sums[0]), int(sums[1])

    def _ended(self) -> bool:
        out_of_patience = self.config.patience is not None and self.progress.stale >= self.config.patience
        return out_of_patience or self._agreed_share >= 1.0

    def _out_of_time(self) -> bool:
        """Whether the clock alone ended the run, which a checkpoint that was saved before does not know."""
        return self.horizon.progress(self.progress.step, self.epochs, 0.0) < 1.0 <= self._agreed_share

    def _move(self, share: Share) -> None:
        self.progress.position = share.after
        self.progress.epoch_pairs += share.pairs
        self.progress.dropped = max(self.progress.dropped, share.dropped)
        if share.epoch_ends:
            self.progress.epoch_size, self.progress.epoch_pairs = self.progress.epoch_pairs, 0
        self.reporter.tick(self.share)
        if self._tally.updates >= self.config.log_every:
            self._record()

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.config.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16 if self.config.precision == "bf16" else torch.float16)

    def update(self, share: Share, tgt_tokens: int, tokens: int) -> None:
        """One optimizer update: the gradient is divided once, by the target tokens of all batches of all ranks.

        ``tokens`` counts those of both sides.
        """
        loss_sum = nll_sum = 0.0
        # A rank without a batch takes part in the sum of the gradients with zeros.
        own: Sequence[Batch | None] = share.batches or [None]
        for place, batch in enumerate(own):
            self.ranks.seed(self.config.seed, self.progress.step, place)
            with self._gradients.pending() if place + 1 < len(own) else contextlib.nullcontext():
                with self._autocast():
                    loss, nll = self._gradients(batch, self.config.label_smoothing)
                mean = loss / tgt_tokens
                (mean if self.scaler is None else self.scaler.scale(mean)).backward()  # type: ignore[no-untyped-call]  # PyTorch
            loss_sum += loss.item()
            nll_sum += nll.item()
        norm = self._apply(self.schedule.rate(self.progress.step + 1, self._agreed_share))
        tally = self._tally
        tally.loss += loss_sum
        tally.nll += nll_sum
        tally.gradient_norm += norm
        tally.tgt_tokens += tgt_tokens
        tally.tokens += tokens
        tally.updates += 1

    def _apply(self, rate: float) -> float:
        """Clip and step the optimizer, or skip the update where the gradient is not finite; the norm comes back."""
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        norm = clip_gradients(list(self.model.parameters()), self.config.clip_norm)
        finite = norm < float("inf")
        if self.scaler is not None:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        elif finite:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.step += 1
        self.progress.skipped_in_a_row = 0 if finite else self.progress.skipped_in_a_row + 1
        if not finite:
            self._skip()
        elif self.ema is not None:
            self.ema.update()
        return norm if finite else 0.0

    def _skip(self) -> None:
        self.progress.skipped += 1
        if self.progress.skipped_in_a_row >= _NON_FINITE_LIMIT:
            error = RunError(
                f"the gradient was not finite in {_NON_FINITE_LIMIT} updates in a row up to step {self.progress.step}; "
                "lower train.lr, lengthen train.warmup_steps or use train.precision=fp32, and start again."
            )
            raise self.ranks.error(error)
        self.reporter.warn(f"step {self.progress.step}: the gradient was not finite, update skipped")

    def _record(self) -> None:
        """Write and show what happened since the last record, if anything did."""
        tally, now = self._tally, time.perf_counter()
        if not tally.updates:
            return
        loss, nll = self.ranks.sum([tally.loss, tally.nll])
        record = {
            "step": self.progress.step,
            "epoch": round(self.epochs, 4),
            "loss": loss / tally.tgt_tokens,
            "nll": nll / tally.tgt_tokens,
            "lr": self.optimizer.param_groups[0]["lr"],
            "gradient_norm": tally.gradient_norm / tally.updates,
            "skipped": self.progress.skipped,
            "tokens_per_second": tally.tokens / (now - tally.since),
            "elapsed": self.elapsed(),
        }
        self.log.write("train", record)
        left = self.horizon.seconds_left(self.progress.step, self.epochs, self.elapsed())
        self.reporter.train(record, self.share, left)
        self._tally = Tally()

    def _validate(self, validate: Callable[[], Validation | None]) -> None:
        self._record()
        self.model.eval()
        outcome = validate()
        self.model.train()
        self.rest_clock()
        self._tally = Tally()
        if outcome is not None:
            self.schedule.observe(outcome.loss)
