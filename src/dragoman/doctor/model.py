"""A model's weights, and what its translations look like.

Shapes: D ``d_model``, V vocabulary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dragoman.bundle import Bundle, unique_weights
from dragoman.evaluation import evaluate
from dragoman.model.transformer import Transformer
from dragoman.preflight.finding import Finding, share_text
from dragoman.preflight.survey import Pair, key
from dragoman.text.batching import collate
from dragoman.training.validation import batch_loss
from dragoman.translation import Translation

# A row of an embedding so many times longer than the median is no word's.
_LONG = 15.0
# Rows whose mean has this share of their own length all point the same way.
_COLLAPSED = 0.95
# Probability of tokens that are never a target, on real positions.
_PADDING = 0.01
_NAMED = 5
_BAD = 0.3


def weights(model: Transformer) -> Iterator[Finding]:
    """Weights that are no numbers, and matrices or gains that are zero."""
    tensors = unique_weights(model)
    broken = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
    if broken:
        yield Finding(
            "error",
            f"{_some(broken)} hold values that are not finite; take an earlier checkpoint, with a lower train.lr.",
        )
    # A bias may be zero, and a converted model's decoder may have a matrix of one row.
    dead = [
        name
        for name, tensor in tensors.items()
        if (tensor.dim() > 1 or name.endswith("norm.weight")) and tensor.numel() and not tensor.any()
    ]
    if dead:
        yield Finding(
            "error",
            f"{_some(dead)} are zero throughout, so nothing passes them; copy the model again, or train it anew.",
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def embeddings(model: Transformer) -> Iterator[Finding]:
    """Rows that are far too long, that are all alike, or zero; what is tied and what only says so."""
    for name in ("src_embedding", "tgt_embedding"):
        table: Tensor = getattr(model, name).weight.detach()
        if not table.isfinite().all() or len(table) < 8:
            continue
        pad = model.config.src_pad_id if name == "src_embedding" else model.config.tgt_pad_id
        keep = torch.ones(len(table), dtype=torch.bool, device=table.device)
        keep[pad] = False
        norms = table[keep].norm(dim=1)
        median = norms.median()
        long = int((norms > _LONG * median).sum())
        if long and median > 0:
            yield Finding(
                "warning",
                f"{long} rows of {name} are more than {_LONG:.0f} times as long as the median; these tokens drown the "
                "others, so lower train.lr or clip gradients.",
            )
        zero = float((norms == 0).float().mean())
        if 0.1 < zero < 1:
            yield Finding(
                "warning",
                f"{share_text(zero)} of the rows of {name} are zero; check that the vocabulary is the model's.",
            )
        rows = torch.nn.functional.normalize(table[keep][norms > 0].float(), dim=1)
        if len(rows) and float(rows.mean(0).norm()) > _COLLAPSED:
            yield Finding(
                "warning",
                f"the rows of {name} all point the same way, so tokens can hardly be told apart; the training "
                "collapsed, so lower train.lr and start again.",
            )
    yield from _ties(model)


def _ties(model: Transformer) -> Iterator[Finding]:
    tie = model.config.tie_embeddings
    tied = {
        "output": model.output.weight is model.tgt_embedding.weight,
        "src_embedding": model.src_embedding.weight is model.tgt_embedding.weight,
    }
    wanted = {"output": tie != "none", "src_embedding": tie == "all"}
    for name, should in wanted.items():
        own, other = getattr(model, name).weight, model.tgt_embedding.weight
        if should and not tied[name]:
            yield Finding(
                "error",
                f"{name} has a matrix of its own, though tie_embeddings is {tie}; load the model again with dragoman, "
                "or set tie_embeddings to what it is.",
            )
        elif not should and own.shape == other.shape and torch.equal(own, other):
            yield Finding(
                "note",
                f"{name} equals the target's embedding, though tie_embeddings is {tie}; tie them to save "
                f"{own.numel():,} parameters.",
            )


def positions(model: Transformer, lengths: Sequence[int], what: str) -> Iterator[Finding]:
    """Sentences of ``lengths`` tokens (special ones included) against the end of the positions."""
    config = model.config
    number = sum(length > config.max_length for length in lengths)
    if number and config.positions in ("learned", "table"):
        yield Finding(
            "warning",
            f"{number:,} of {what} are longer than the model's {config.max_length} positions (up to {max(lengths)} "
            "tokens) and will be split or cut; split them into sentences, or train with sinusoidal or rotary "
            "positions.",
        )
    elif number:
        yield Finding(
            "note",
            f"{number:,} of {what} are longer than the model's max_length of {config.max_length} tokens (up to "
            f"{max(lengths)}) and will be translated in parts.",
        )


@torch.inference_mode()
def likelihood(bundle: Bundle, pairs: Sequence[Pair]) -> Iterator[Finding]:
    """The loss of real pairs against guessing, and how much probability goes to tokens that no text has."""
    model, tokenizers = bundle.model, bundle.tokenizers
    rows = list(
        zip(
            tokenizers.src.encode_batch([src for src, _ in pairs]),
            tokenizers.tgt.encode_batch([tgt for _, tgt in pairs]),
            strict=True,
        )
    )
    most = model.config.max_length - 2
    rows = [(src, tgt) for src, tgt in rows if src and tgt and max(len(src), len(tgt)) <= most]
    if not rows:
        return
    batch = collate(rows, model.config, range(len(rows))).to(next(model.parameters()).device)
    nll = batch_loss(model, batch, 0.0)[1].item() / batch.n_tgt_tokens
    size = model.config.tgt_vocab_size or 1
    if not nll < math.log(size):
        yield Finding(
            "error",
            f"the model is no better than guessing on {len(rows)} pairs (a loss of {nll:.2f}; guessing has "
            f"{math.log(size):.2f}); check that text, direction and tokenizers are those that it was trained with.",
        )
        return
    logprobs = model.log_probs(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    real = logprobs if batch.tgt_mask is None else logprobs[batch.tgt_mask]
    never = {"<pad>": model.config.tgt_pad_id, "<s>": model.config.bos_id}
    for name, index in never.items():
        chance = float(real[..., index].exp().mean())
        if index != model.config.eos_id and chance > _PADDING:
            yield Finding(
                "warning",
                f"{name} gets {share_text(chance)} of the probability, though it is never a target; the loss was "
                "taken over padding, so train again without it.",
            )
    yield Finding("ok", f"a loss of {nll:.2f} on {len(rows)} pairs")


def translations(
    sources: Sequence[str], found: Sequence[Translation], references: Sequence[str] | None
) -> Iterator[Finding]:
    """Translations that are empty, copied, repeat themselves, are all the same or never end."""
    texts = [one.text for one in found]
    total = len(texts)
    if not total:
        return
    kinds = {
        "are empty": (
            sum(not text.strip() for text in texts),
            "raise decode.length_penalty or set decode.min_length, or train longer",
        ),
        "are their source": (
            sum(key(text) == key(src) and len(src.split()) > 1 for src, text in zip(sources, texts, strict=True)),
            "drop copied pairs from the training text, and check the direction",
        ),
        "say the same again and again": (
            sum(_repeats(text) for text in texts),
            "train longer, or set decode.no_repeat_ngram: 3 meanwhile",
        ),
        "do not end": (
            sum(not one.finished for one in found),
            "train longer, or raise decode.max_length_ratio if they are cut",
        ),
    }
    for what, (number, advice) in kinds.items():
        if number > _BAD * total:
            yield Finding("warning", f"{number} of {total} translations {what}; {advice}.")
    common, times = Counter(texts).most_common(1)[0]
    if times > max(1, total // 2) and len(set(sources)) > total // 2 and common.strip():
        yield Finding(
            "warning",
            f"{times} of {total} translations are the same ({common[:40]!r}), whatever the source; the model ignores "
            "it, so train longer or check the encoder.",
        )
    if references is not None:
        yield from _against(texts, references)


def _against(texts: Sequence[str], references: Sequence[str]) -> Iterator[Finding]:
    ratio = sum(map(len, texts)) / max(1, sum(map(len, references)))
    if not 0.6 <= ratio <= 1.6:
        yield Finding(
            "warning",
            f"the translations are {ratio:.1f} times as long as their references; "
            + ("raise decode.length_penalty." if ratio < 1 else "lower decode.length_penalty, or train longer."),
        )
    (score,) = evaluate(list(texts), list(references), ("chrf",))
    if score.value < 15.0:
        yield Finding(
            "warning",
            f"chrF is {score.value:.1f}, about what unrelated text gets; check that sources and references belong "
            "line to line and that the direction is the model's.",
        )
    else:
        yield Finding("ok", f"chrF {score.value:.1f} on {len(texts)} sentences")


def _repeats(text: str) -> bool:
    """Whether a text is a loop: few different three-word runs, or of characters where there are few spaces."""
    units: Sequence[str] = text.split() if text.count(" ") > len(text) / 12 else text
    runs = [tuple(units[at : at + 3]) for at in range(len(units) - 2)]
    return len(runs) >= 6 and len(set(runs)) <= len(runs) / 2
