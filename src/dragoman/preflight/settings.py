"""Settings against the tokenised text and the machine: lengths, schedule, memory, disk, threads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dragoman.bundle import empty_model
from dragoman.config import DecodeConfig, ModelConfig, RunConfig, TrainConfig
from dragoman.preflight.finding import Finding, share_text
from dragoman.preflight.survey import Pair
from dragoman.text.corpus import TokenCorpus
from dragoman.text.tokenizer import TokenizerPair

_DROPPED = 0.05
_CUT = 0.01
# Peaks of the learning rate that Adam does something with, and survives.
_LEAST_RATE, _MOST_RATE = 1e-5, 2e-2
# Share of a padded batch that is real tokens; measured 0.93 to 0.98 with our batches.
_FILLED = 0.95
# Bytes a parameter: weight, gradient and Adam's two moments in float32; a checkpoint holds three of them.
_BYTES_IN_MEMORY, _BYTES_IN_CHECKPOINT, _BYTES_IN_BUNDLE = 16, 12, 4


def dropped(corpus: TokenCorpus) -> Iterator[Finding]:
    """Training pairs that cleaning leaves out."""
    counts = corpus.counts
    if not counts.total:
        return
    for number, what, advice in (
        (counts.empty, "have an empty side", "check that the files are aligned"),
        (counts.too_long, "are longer than data.max_length", "raise it, or split the text into sentences"),
        (
            counts.over_ratio,
            "have sides of very different lengths",
            "check the alignment, or raise data.max_ratio if the languages are so",
        ),
    ):
        share = number / counts.total
        if share >= _DROPPED:
            yield Finding("warning", f"{share_text(share)} of the training pairs {what} and are dropped; {advice}.")


def _with_special(corpus: TokenCorpus, model: ModelConfig) -> tuple[np.ndarray, np.ndarray]:
    """Source and target lengths as the model sees them."""
    return corpus.src_lengths + model.src_bos + model.src_eos, corpus.tgt_lengths + 1


def lengths(corpus: TokenCorpus, model: ModelConfig, train: TrainConfig) -> Iterator[Finding]:
    """The longest sentences against positions that end, and against the size of a batch."""
    if not len(corpus):
        return
    src, tgt = _with_special(corpus, model)
    longest = int(max(src.max(), tgt.max()))
    if model.positions in ("learned", "table") and longest > model.max_length:
        number = int(((src > model.max_length) | (tgt > model.max_length)).sum())
        yield Finding(
            "error",
            f"{number:,} training pairs are longer than the {model.max_length} {model.positions} positions (the "
            f"longest has {longest} tokens, special ones included), which ends the training; raise model.max_length "
            f"or set data.max_length: {model.max_length - 2}.",
        )
    if longest > train.batch_tokens:
        number = int((np.maximum(src, tgt) > train.batch_tokens).sum())
        yield Finding(
            "warning",
            f"{number:,} training pairs are longer than train.batch_tokens ({train.batch_tokens}) and make batches of "
            f"their own, up to {longest} tokens; raise it, or lower data.max_length.",
        )


def valid_lengths(pairs: Sequence[Pair], tokenizers: TokenizerPair, model: ModelConfig) -> Iterator[Finding]:
    """Validation pairs, of which none is dropped, against positions that end."""
    if model.positions not in ("learned", "table"):
        return
    src = tokenizers.src.encode_batch([left for left, _ in pairs])
    tgt = tokenizers.tgt.encode_batch([right for _, right in pairs])
    extra = model.src_bos + model.src_eos
    longest = [max(len(left) + extra, len(right) + 1) for left, right in zip(src, tgt, strict=True)]
    if number := sum(length > model.max_length for length in longest):
        yield Finding(
            "error",
            f"{number:,} pairs of data.valid are longer than the {model.max_length} {model.positions} positions (the "
            f"longest has {max(longest)} tokens), which ends the training at its first validation; raise "
            "model.max_length, or take those pairs out.",
        )


def empty_rows(corpus: TokenCorpus, model: ModelConfig, empty_sources: dict[str, int]) -> Iterator[Finding]:
    """Rows in which the model would see nothing at all; ``empty_sources`` counts those of validation and test text."""
    if model.src_bos or model.src_eos:
        return
    own = int((corpus.src_lengths == 0).sum())
    for name, number in {"train": own, **empty_sources}.items():
        if number:
            yield Finding(
                "warning",
                f"{number:,} sources of data.{name} are empty, and without model.src_eos their rows are masked as a "
                "whole; set model.src_eos: true, or drop those pairs.",
            )


def decoding_limits(corpus: TokenCorpus, model: ModelConfig, decode: DecodeConfig) -> Iterator[Finding]:
    """Targets of the training text that a translation of their source could not reach, or would have to pass."""
    if not len(corpus):
        return
    src, tgt = _with_special(corpus, model)
    step = max(1, len(corpus) // 100_000)
    rows = list(zip(src[::step].tolist(), tgt[::step].tolist(), strict=True))
    limits = [decode.limit(length) for length, _ in rows]
    cut = sum(target > limit for (_, target), limit in zip(rows, limits, strict=True)) / len(rows)
    if cut >= _CUT:
        typical = float(np.quantile(tgt / np.maximum(src, 1), 0.99))
        yield Finding(
            "warning",
            f"{share_text(cut)} of the training targets are longer than decode allows for their source, so "
            f"translations will be cut; set decode.max_length_ratio to {typical * 1.3:.1f} or "
            f"more{', and leave decode.max_length out' if decode.max_length else ''}.",
        )
    padded = sum(
        target - 1 < decode.least(source, limit) for (source, target), limit in zip(rows, limits, strict=True)
    ) / len(rows)
    if padded >= _CUT:
        yield Finding(
            "warning",
            f"{share_text(padded)} of the training targets are shorter than decode.min_length or min_length_ratio "
            "asks for; lower them.",
        )


def updates_per_epoch(pairs: int, corpus: TokenCorpus, model: ModelConfig, train: TrainConfig) -> float:
    """About how many updates an epoch of ``pairs`` pairs takes, judged by the lengths in ``corpus``."""
    if not len(corpus):
        return 0.0
    src, tgt = _with_special(corpus, model)
    tokens = float(np.maximum(src, tgt).mean()) * pairs / _FILLED
    return max(1.0, tokens / train.batch_tokens) / train.accumulate


def peak_rate(train: TrainConfig, d_model: int) -> float:
    """The highest learning rate of the schedule."""
    if train.schedule != "noam":
        return train.lr
    return float(train.lr * d_model**-0.5 * max(1, train.warmup_steps) ** -0.5)


def schedule(config: RunConfig, d_model: int, per_epoch: float | None) -> Iterator[Finding]:
    """The learning rate's peak, and whether the warm-up ends before a run of so many steps or epochs does.

    ``per_epoch`` are the updates of an epoch, None where nobody knows.
    """
    train = config.train
    peak, noam = peak_rate(train, d_model), train.schedule == "noam"
    named = f"train.lr {train.lr:g}" + (f" (noam's factor: a peak of {peak:.1e})" if noam else "")
    if not _LEAST_RATE <= peak <= _MOST_RATE:
        small = peak < _LEAST_RATE
        yield Finding(
            "warning",
            f"{named} is {'too small to learn anything' if small else 'so large that training will diverge'}; "
            + ("noam's factor is usually 1 to 2." if noam else "1e-4 to 5e-3 is usual for Adam."),
        )
    epochs = train.max_epochs if per_epoch is not None else None
    ends = {"max_steps": train.max_steps, "max_epochs": epochs and round(epochs * (per_epoch or 0.0))}
    yield from _warmup(train, {name: steps for name, steps in ends.items() if steps})


def _warmup(train: TrainConfig, ends: dict[str, int]) -> Iterator[Finding]:
    """``ends``: what ends the run, and after how many updates."""
    if not ends or (train.warmup_ratio is not None and train.schedule != "noam"):
        return
    name = min(ends, key=lambda one: ends[one])
    if train.warmup_steps >= ends[name]:
        yield Finding(
            "warning",
            f"the warm-up of {train.warmup_steps:,} updates is longer than the run of about {ends[name]:,} "
            f"(train.{name}), so the rate never reaches its peak; lower train.warmup_steps to "
            f"{max(1, ends[name] // 15):,}, or set train.warmup_ratio: 0.06.",
        )


def time_budget(config: RunConfig, per_epoch: float, seconds_per_update: float) -> Iterator[Finding]:
    """What ``train.max_minutes`` allows for at the pace that was measured."""
    train = config.train
    if train.max_minutes is None:
        return
    updates = 60.0 * train.max_minutes / seconds_per_update
    yield from _warmup(train, {"max_minutes": max(1, round(updates))})
    if updates < per_epoch:
        yield Finding(
            "note",
            f"in {train.max_minutes:g} minutes about {updates:,.0f} updates can be made here, and the whole text "
            f"takes {per_epoch:,.0f}; use a smaller model, less text, or more minutes.",
        )
    else:
        yield Finding(
            "ok", f"about {updates:,.0f} updates, or {updates / per_epoch:.1f} epochs, in {train.max_minutes:g} minutes"
        )


def validation(config: RunConfig, per_epoch: float | None) -> Iterator[Finding]:
    """Whether there is a validation that can choose the best weights and end the training, and when checkpoints come.

    ``per_epoch`` are the updates of an epoch, None where nobody knows.
    """
    train = config.train
    rare = (config.data.valid is not None, train.save_every is None)
    if per_epoch is None and train.valid_every is None and any(rare):
        what = " and ".join(name for name, comes in zip(("validation", "checkpoints"), rare, strict=True) if comes)
        yield Finding(
            "warning",
            f"nobody knows how long an epoch of the streamed text is, and {what} would come at its end; "
            f"set train.{'valid_every' if rare[0] else 'save_every'}.",
        )
    if config.data.valid is None:
        needs = " and train.patience never ends it" if train.patience else ""
        yield Finding(
            "warning" if train.patience else "note",
            f"there is no data.valid, so the last weights are taken for the best{needs}; give some, or "
            "data.valid: {split: 1000}.",
        )
        return
    if per_epoch is None:
        return
    every = train.valid_every or per_epoch
    most = train.max_steps or (train.max_epochs and train.max_epochs * per_epoch)
    if most and every > most:
        yield Finding(
            "note",
            f"validation comes every {every:,.0f} updates and the run has about {most:,.0f}, so it comes once, at the "
            "end; lower train.valid_every.",
        )


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_memory() -> int | None:
    """Bytes of memory that are free for use, the limit of a container included; None where the system does not say."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    except (OSError, ValueError, IndexError):
        pass
    return min(found) if found else None


def machine(config: RunConfig, model: ModelConfig, device: str, folder: Path, corpus_bytes: int) -> Iterator[Finding]:
    """Threads, precision, memory and disk; ``corpus_bytes`` is the size of the tokenised text."""
    train, there = config.train, processors()
    if train.threads is not None and train.threads > there:
        yield Finding(
            "warning",
            f"train.threads is {train.threads} and this process has {there} processor{'s' * (there > 1)}, so threads "
            f"wait for each other; set train.threads: {there} or leave it out.",
        )
    if device == "cpu" and train.precision == "fp16":
        yield Finding("warning", "train.precision fp16 is slow and inexact on a CPU; use fp32, or bf16 on a new one.")
    parameters = sum(parameter.numel() for parameter in empty_model(model, "meta").parameters())
    # Per token of a batch: what a layer keeps for the backward pass, about 12 vectors and 2 inner ones.
    layers = model.n_encoder_layers + model.n_decoder_layers
    kept = 4 * train.batch_tokens * layers * (12 * model.d_model + 2 * model.d_ff)
    needed = parameters * (_BYTES_IN_MEMORY + 4 * bool(train.ema)) + kept
    free = available_memory()
    if device == "cpu" and free is not None and needed > free:
        yield Finding(
            "warning",
            f"training {parameters:,} parameters needs about {_size(needed)} of memory and {_size(free)} are free; "
            "lower train.batch_tokens or the model's size.",
        )
    if free is not None and corpus_bytes > free:
        yield Finding(
            "note",
            f"the tokenised text is {_size(corpus_bytes)} and {_size(free)} of memory are free, so it is read from "
            "disk over and over; put the run directory on a fast disk.",
        )
    checkpoints = max(train.keep, train.average_last) + 1
    wanted = parameters * (checkpoints * (_BYTES_IN_CHECKPOINT + 4 * bool(train.ema)) + 3 * _BYTES_IN_BUNDLE)
    place = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.is_dir())
    room = shutil.disk_usage(place).free
    if wanted + corpus_bytes > room:
        yield Finding(
            "warning",
            f"a run writes about {_size(wanted + corpus_bytes)} and {_size(room)} are free below {place}; make room, "
            "or lower train.keep.",
        )


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
