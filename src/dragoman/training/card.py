"""The model card that goes with every trained model: what it was trained on, how, and what it scores."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import torch

from dragoman import __version__
from dragoman.config import RunConfig
from dragoman.evaluation import Score

_USE = """```python
from dragoman import Translator

Translator.load("THIS_FOLDER").translate("…").text
```"""


@dataclass
class Trained:
    """The facts of a training that the card tells."""

    pairs: int
    dropped: int
    parameters: int
    step: int
    epochs: float
    seconds: float
    valid_loss: float | None


def _table(rows: list[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)])


def _scores(title: str, scores: list[Score]) -> list[str]:
    if not scores:
        return []
    lines = [f"| {title} | score | 95 % interval | signature |", "| --- | ---: | --- | --- |"]
    for score in scores:
        interval = "" if score.low is None or score.high is None else f"{score.low:.2f} to {score.high:.2f}"
        # A bare bar would end the cell, in code too.
        signature = score.signature.replace("|", r"\|")
        lines.append(f"| {score.name} | {score.value:.2f} | {interval} | `{signature}` |")
    return ["\n".join(lines)]


def model_card(config: RunConfig, trained: Trained, scores: list[Score]) -> str:
    """Markdown for a model directory's README.md; ``scores`` are those on the test set."""
    data, model, train = config.data, config.model, config.train
    decode = config.decode
    facts = [
        ("languages", f"{data.src_lang} → {data.tgt_lang}"),
        *([("went on from", Path(train.init_from).name)] if train.init_from else []),
        ("training pairs", f"{trained.pairs:,} ({trained.dropped:,} dropped)"),
        ("parameters", f"{trained.parameters:,}"),
        ("shape", f"{model.n_encoder_layers}+{model.n_decoder_layers} layers, d_model {model.d_model}, "
                  f"{model.n_heads} heads, d_ff {model.d_ff}"),
        ("tokenizer", f"{config.tokenizer.kind}, {'joint' if config.tokenizer.joint else 'separate'}"),
        ("training", f"{trained.step:,} steps, {trained.epochs:.1f} epochs, {trained.seconds / 60:.1f} minutes, "
                     f"seed {train.seed}"),
        ("optimizer", f"{train.optimizer}, {train.schedule} schedule, peak rate {train.lr:g}"),
        ("machine", f"{platform.machine()}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}"),
        ("made with", f"dragoman {__version__}"),
    ]  # fmt: skip
    if trained.valid_loss is not None:
        facts.append(("validation loss", f"{trained.valid_loss:.4f} nats a token"))
    search = f"beam {decode.beam_size}, {decode.length_norm} length norm, penalty {decode.length_penalty:g}"
    parts = [f"# {config.name}: {data.src_lang} → {data.tgt_lang}", _table(facts)]
    parts += _scores(f"test set, {search}", scores)
    parts += ["Translate with `dragoman translate THIS_FOLDER FILE`, or in Python:", _USE]
    return "\n\n".join(parts) + "\n"
