"""Validation: the loss per token, and the scores of real translations of the whole validation set.

Shapes: B batch, T target length, D ``d_model``, N real target positions of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from dragoman.bundle import Bundle
from dragoman.errors import RunError
from dragoman.evaluation import evaluate
from dragoman.model.transformer import Transformer
from dragoman.text.batching import Batch, collate, ordered_batches
from dragoman.text.tokenizer import TokenizerPair
from dragoman.training.loss import projected_loss
from dragoman.training.ranks import Ranks
from dragoman.translator import Translator

Pairs = list[tuple[str, str]]
# Greedy, so that validating often stays cheap.
_GREEDY: dict[str, Any] = {"beam_size": 1, "n_best": 1, "sample": False}


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Smoothed loss and negative log-likelihood in nats, both summed over the real target positions of a batch.

    The target mask is not needed inside the decoder: padding stands at the end, where causal attention hides
    it from every real position; padded positions are left out before the output projection.
    """
    memory = model.encode(batch.src, batch.src_mask)
    hidden = model.decode(batch.tgt_in, memory, batch.src_mask).flatten(0, 1)
    targets = batch.tgt_out.flatten()
    if batch.tgt_mask is not None:
        real = batch.tgt_mask.flatten().nonzero().squeeze(1)
        hidden, targets = hidden.index_select(0, real), targets.index_select(0, real)
    output = model.output
    return projected_loss(hidden, output.weight, output.bias, targets, smoothing)


@dataclass
class Validation:
    """The outcome of one validation."""

    loss: float
    perplexity: float
    scores: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    samples: list[tuple[str, str, str]] = field(default_factory=list)


def translated(translator: Translator, texts: list[str], ranks: Ranks, **options: Any) -> list[str]:
    """The translations of ``texts``, of which each rank makes its part and has all."""
    lines = ranks.own(range(len(texts)))
    own = translator.translate([texts[line] for line in lines], line_numbers=lines, **options)
    outputs = [""] * len(texts)
    for rank, part in enumerate(ranks.gather([translation.text for translation in own])):
        outputs[rank :: ranks.size] = part
    return outputs


class Validator:
    """Scores a model on ``pairs``: whole, none dropped, against the raw references. The ranks share the work.

    Where the tokenizer lower-cases, case is not scored, and the signatures say so (``case:lc``).
    """

    def __init__(
        self,
        pairs: Pairs,
        tokenizers: TokenizerPair,
        batch_tokens: int,
        samples: int = 3,
        ranks: Ranks | None = None,
    ) -> None:
        self.pairs = pairs
        self.ranks = Ranks() if ranks is None else ranks
        self.batch_tokens = batch_tokens
        self.samples = samples
        self.lowercase = not tokenizers.tgt.keeps_case
        self._ids = list(
            zip(
                tokenizers.src.encode_batch([src for src, _ in pairs]),
                tokenizers.tgt.encode_batch([tgt for _, tgt in pairs]),
                strict=True,
            )
        )

    def _batches(self, bundle: Bundle) -> Iterator[Batch]:
        groups = ordered_batches(
            [len(src) + 2 for src, _ in self._ids], self.batch_tokens, [len(tgt) + 1 for _, tgt in self._ids]
        )
        for group in self.ranks.own(groups):
            yield collate([self._ids[index] for index in group], bundle.model.config, group)

    @torch.inference_mode()
    def loss(self, bundle: Bundle, device: torch.device) -> float:
        """Negative log-likelihood per target token in nats, without label smoothing."""
        total, tokens = 0.0, 0
        for batch in self._batches(bundle):
            total += batch_loss(bundle.model, batch.to(device), 0.0)[1].item()
            tokens += batch.n_tgt_tokens
        parts = self.ranks.gather([total, tokens])
        return sum(part[0] for part in parts) / sum(part[1] for part in parts)

    def run(self, bundle: Bundle, device: torch.device) -> Validation:
        """Loss, perplexity, BLEU and chrF of greedy translations, and a few of them to look at.

        All ranks have the outcome of rank 0. Raises :class:`RunError` where the loss is not finite.
        """
        loss = self.loss(bundle, device)
        if not math.isfinite(loss):
            error = RunError(
                "training has diverged: the validation loss is no number any more; lower train.lr or lengthen "
                "train.warmup_steps, and start again."
            )
            raise self.ranks.error(error)
        outputs = translated(Translator(bundle, device), [src for src, _ in self.pairs], self.ranks, **_GREEDY)
        return Validation(**self.ranks.decide(lambda: asdict(self._outcome(loss, outputs))))

    def _outcome(self, loss: float, outputs: list[str]) -> Validation:
        scores = evaluate(outputs, [tgt for _, tgt in self.pairs], ("bleu", "chrf"), self.lowercase)
        return Validation(
            loss,
            math.exp(min(loss, 700.0)),
            {score.name: score.value for score in scores},
            {score.name: score.signature for score in scores},
            [(src, tgt, out) for (src, tgt), out in zip(self.pairs[: self.samples], outputs, strict=False)],
        )
