"""What the model attends to, of one pair all of it, or to the sources alone for many pairs in each pass.

Shapes: L layers, H heads, Q target tokens, K source tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dragoman.model.transformer import Attention, Transformer
from dragoman.text.batching import ordered_batches, pad
from dragoman.translating.searcher import Searcher

# Padded tokens of a pass, those of the longer side. All weights of a pass are in memory together: of six layers with
# eight heads and pairs of 256 tokens, 150 MB.
_TOKENS = 1024


def source_attention(
    model: Transformer, searcher: Searcher, pairs: Sequence[tuple[list[int], list[int]]]
) -> Iterator[tuple[int, list[Tensor]]]:
    """The place of each pair of source and target ids with its weights [H,Q,K] of every layer, on the CPU.

    Target ids are not empty. Pairs of like length come together; ``searcher.check`` is called before each pass.
    """
    intake = searcher.intake
    sizes = [(len(intake.with_special(src)), len(tgt)) for src, tgt in pairs]
    for batch in ordered_batches([max(size) for size in sizes], _TOKENS):
        if searcher.check is not None:
            searcher.check()
        with torch.no_grad():
            src, mask = searcher.padded([pairs[at][0] for at in batch])
            # What is padded stands behind, and no position attends to what comes after it.
            tgt, _ = pad([pairs[at][1][:-1] for at in batch], intake.shape.tgt_pad_id, first=[intake.shape.bos_id])
            _, attention = model(src, tgt.to(searcher.device), src_mask=mask, return_attention=True)
        layers = [layer.cpu() for layer in attention.cross]
        for row, at in enumerate(batch):
            sources, targets = sizes[at]
            yield at, [layer[row, :, :targets, :sources] for layer in layers]


@torch.no_grad()
def all_attention(model: Transformer, searcher: Searcher, source: list[int], ids: list[int]) -> Attention:
    """The weights of one forced pass, a tensor [H,query,key] per layer, on the CPU."""
    src, _ = searcher.padded([source])
    tgt = torch.tensor([[searcher.intake.shape.bos_id, *ids[:-1]]], device=searcher.device)
    _, attention = model(src, tgt, return_attention=True)
    kinds = (attention.encoder, attention.decoder, attention.cross)
    return Attention(*([layer[0].cpu() for layer in layers] for layers in kinds))
