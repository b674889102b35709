"""Probes of a model's masks: change what must not be seen, and see whether anything moves.

Shapes: B batch, S source length, T target length, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from dragoman.model.transformer import Transformer
from dragoman.preflight.finding import Finding
from dragoman.text.batching import Batch, collate

# Two ways of computing the same in float32, relative to the largest logit: sums in another order err by 1e-6 a layer.
# What is seen through a mask moves logits by far more.
_TOLERANCE = 2e-3
# What the source changes at least, relative as above, where it is looked at at all.
_LEAST_EFFECT = 1e-6


def _logits(model: Transformer, batch: Batch) -> Tensor:
    found: Tensor = model(batch.src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    return found


def _difference(left: Tensor, right: Tensor) -> float:
    """The largest difference, relative to the largest value that can be compared; infinite where one is no number."""
    # A converted model may forbid a token by -inf.
    both = left.isfinite() & right.isfinite()
    if not torch.equal(left.isfinite(), right.isfinite()) or left.isnan().any() or not both.any():
        return float("inf")
    scale = left[both].abs().max().clamp(min=1e-30)
    return float((left[both] - right[both]).abs().max() / scale)


def _other(tokens: Tensor, size: int, avoid: int) -> Tensor:
    """Ids that differ from ``tokens`` everywhere and are never ``avoid``."""
    changed = (tokens + 1 + size // 3) % size
    changed = torch.where(changed == avoid, (changed + 1) % size, changed)
    return torch.where(changed == tokens, (changed + 1) % size, changed)


@torch.inference_mode()
def probe(model: Transformer, batch: Batch) -> Iterator[Finding]:
    """All probes of a model in evaluation mode on a batch of at least two pairs of different lengths."""
    reference = _logits(model, batch)
    yield from _future(model, batch, reference)
    yield from _padding(model, batch, reference)
    yield from _neighbours(model, batch, reference)
    yield from _shifted(batch)
    yield from _source(model, batch, reference)
    yield from _steps(model, batch, reference)


def _future(model: Transformer, batch: Batch, reference: Tensor) -> Iterator[Finding]:
    """Change the later half of the targets: the logits before must stay."""
    length = batch.tgt_in.shape[1]
    config = model.config
    assert config.tgt_vocab_size is not None
    for place in {1, length // 2, length - 1} - {0}:
        changed = batch.tgt_in.clone()
        changed[:, place:] = _other(changed[:, place:], config.tgt_vocab_size, config.tgt_pad_id)
        moved = model(batch.src, changed, batch.src_mask, batch.tgt_mask)
        if _difference(reference[:, :place], moved[:, :place]) > _TOLERANCE:
            yield Finding(
                "error",
                "the decoder sees target tokens that it is to predict: changing later ones moves earlier predictions; "
                "mend the causal mask, since the training loss will fall to nothing and translations will be useless.",
            )
            return


def _padding(model: Transformer, batch: Batch, reference: Tensor) -> Iterator[Finding]:
    """Put other tokens where the padding is: nothing real may move."""
    config = model.config
    assert config.src_vocab_size is not None
    assert config.tgt_vocab_size is not None
    real = slice(None) if batch.tgt_mask is None else batch.tgt_mask
    if batch.src_mask is not None:
        src = torch.where(batch.src_mask, batch.src, _other(batch.src, config.src_vocab_size, config.src_pad_id))
        moved = model(src, batch.tgt_in, batch.src_mask, batch.tgt_mask)
        if _difference(reference[real], moved[real]) > _TOLERANCE:
            yield Finding(
                "error",
                "the model sees padding of the source: changing it moves predictions; mend the source mask of encoder "
                "and cross-attention (True = real token).",
            )
    if batch.tgt_mask is not None:
        tgt = torch.where(batch.tgt_mask, batch.tgt_in, _other(batch.tgt_in, config.tgt_vocab_size, config.tgt_pad_id))
        moved = model(batch.src, tgt, batch.src_mask, batch.tgt_mask)
        if _difference(reference[real], moved[real]) > _TOLERANCE:
            yield Finding(
                "error",
                "the model sees padding of the target: changing it moves real predictions; mend the target mask (True "
                "= real token).",
            )


def _neighbours(model: Transformer, batch: Batch, reference: Tensor) -> Iterator[Finding]:
    """A pair alone, without padding, must give what it gives in the batch."""
    for row in range(min(2, len(batch.src))):
        n_src = batch.src.shape[1] if batch.src_mask is None else int(batch.src_mask[row].sum())
        n_tgt = batch.tgt_in.shape[1] if batch.tgt_mask is None else int(batch.tgt_mask[row].sum())
        alone = model(batch.src[row : row + 1, :n_src], batch.tgt_in[row : row + 1, :n_tgt])
        if _difference(alone[0], reference[row, :n_tgt]) > _TOLERANCE:
            yield Finding(
                "error",
                "a pair is predicted otherwise alone than in a batch: neighbours or padding leak into it; mend the "
                "masks, and whatever is computed over a whole batch.",
            )
            return


def _shifted(batch: Batch) -> Iterator[Finding]:
    """The decoder's input must be the target moved by one place, or it is shown its answer or a gap."""
    inner = slice(None) if batch.tgt_mask is None else batch.tgt_mask[:, 1:]
    if not torch.equal(batch.tgt_in[:, 1:][inner], batch.tgt_out[:, :-1][inner]):
        yield Finding(
            "error",
            "the decoder's input is not the target moved by one place, so it learns to copy or to skip; begin it with "
            "<s> and end the target with </s>.",
        )


def _source(model: Transformer, batch: Batch, reference: Tensor) -> Iterator[Finding]:
    """Another source must change the predictions, and so must another order of its words."""
    config = model.config
    assert config.src_vocab_size is not None
    other = _other(batch.src, config.src_vocab_size, config.src_pad_id)
    moved = model(other, batch.tgt_in, batch.src_mask, batch.tgt_mask)
    if _difference(reference, moved) < _LEAST_EFFECT:
        yield Finding(
            "error",
            "another source sentence changes no prediction: encoder or cross-attention is dead; check their weights, "
            "and that the source mask is not inverted.",
        )
        return
    row = batch.src[:1] if batch.src_mask is None else batch.src[:1, : int(batch.src_mask[0].sum())]
    words = row.shape[1] - config.src_eos
    turned = torch.cat([row[:, :words].flip(1), row[:, words:]], 1)
    tgt = batch.tgt_in[:1]
    if not torch.equal(row, turned) and _difference(model(row, tgt), model(turned, tgt)) < _TOLERANCE / 10:
        yield Finding(
            "warning",
            "the order of the source's words makes no difference; choose model.positions: sinusoidal or rotary.",
        )


def _steps(model: Transformer, batch: Batch, reference: Tensor) -> Iterator[Finding]:
    """Token by token with the cache, as translation computes, against all at once, as training does."""
    memory = model.encode(batch.src, batch.src_mask)
    state = model.start(memory, batch.src_mask)
    logits = torch.stack([model.step(column, state) for column in batch.tgt_in.unbind(1)], 1)
    real = slice(None) if batch.tgt_mask is None else batch.tgt_mask
    if _difference(logits[real], reference[real]) > _TOLERANCE:
        yield Finding(
            "error",
            "token by token the model predicts otherwise than all at once, so translation and training disagree; "
            "check the cache and the positions of single steps.",
        )


@torch.inference_mode()
def masked_rows(model: Transformer, batch: Batch) -> Iterator[Finding]:
    """A row of nothing but padding must neither give NaN nor change the other rows."""
    mask = torch.ones_like(batch.src, dtype=torch.bool) if batch.src_mask is None else batch.src_mask.clone()
    reference = model(batch.src, batch.tgt_in, mask, batch.tgt_mask)
    mask[-1] = False
    found = model(batch.src, batch.tgt_in, mask, batch.tgt_mask)
    if found.isnan().any():
        yield Finding(
            "error",
            "a source that is masked as a whole gives NaN, which one empty sentence spreads over all weights; guard "
            "the softmax of rows that may attend to nothing.",
        )
    elif len(batch.src) > 1 and _difference(reference[:-1], found[:-1]) > _TOLERANCE:
        yield Finding(
            "error", "masking one source as a whole changes the predictions of other rows; mend the source mask."
        )


def probe_batch(model: Transformer, pairs: list[tuple[list[int], list[int]]]) -> Batch:
    """A batch of a few pairs of different lengths for the probes, cut to 40 tokens; shorter ones are made up.

    Needs no text: where ``pairs`` are few, ids are drawn.
    """
    config = model.config
    assert config.src_vocab_size is not None
    assert config.tgt_vocab_size is not None
    most = max(1, min(40, config.max_length - 2)) if config.positions in ("learned", "table") else 40
    draw = torch.Generator().manual_seed(1)
    special = {config.src_pad_id, config.tgt_pad_id, config.bos_id, config.eos_id}
    rows = [(src[:most], tgt[:most]) for src, tgt in pairs if src and tgt]
    # Two that differ on both sides, so that both are padded.
    for n_src, n_tgt in ((min(7, most), min(4, most)), (min(3, most), min(6, most)), (min(2, most), min(2, most))):
        made = []
        for count, size in ((n_src, config.src_vocab_size), (n_tgt, config.tgt_vocab_size)):
            usable = [index for index in range(size) if index not in special] or [0]
            made.append([usable[at] for at in torch.randint(len(usable), (count,), generator=draw).tolist()])
        rows.append((made[0], made[1]))
    rows = rows[-6:]
    return collate(rows, config, range(len(rows))).to(next(model.parameters()).device)
