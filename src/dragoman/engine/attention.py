"""Multi-head attention over packed weights. The scale of the scores is part of the query weights.

Shapes: N sentences, W queries of each, M = N·W rows, D ``d_model``, H heads, K key-value heads, d head width, S keys.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.engine.pack import Block, Pack
from dragoman.engine.rotary import Turn
from dragoman.engine.rows import RealRows
from dragoman.model.attention import MultiHeadAttention


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_open: Tensor | None = None) -> Tensor:
    """[N,H,W,d] over keys and values, ``bias`` [N,1,1|W,S] added to the scores -> [M,D].

    Keys and values are [N·K,d,S] and [N·K,S,d], multiplied for all heads of all sentences at once, or [N,K,S,d] both
    and left to PyTorch's fused kernel, which is faster for one sentence. ``is_open`` [N,1,1] is 0 where there is
    nothing to attend to: the result is then 0.
    """
    sentences, heads, width, d_head = query.shape
    if key.dim() == 3:
        lanes, _, keys = key.shape
        scores = torch.bmm(query.reshape(lanes, sentences * heads * width // max(lanes, 1), d_head), key)
        if bias is not None:
            scores.view(sentences, heads, width, keys).add_(bias)
        context = torch.bmm(torch.softmax(scores, -1), value).view(query.shape)
    else:
        gqa = key.shape[1] != heads
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=1.0, enable_gqa=gqa)
    if is_open is not None:
        context = context * is_open[..., None]
    return (context if width == 1 else context.transpose(1, 2)).reshape(sentences * width, heads * d_head)


class PackedSelfAttention:
    """Queries, keys and values in one product: H queries, then K pairs of a key and a value."""

    def __init__(self, module: MultiHeadAttention, pack: Pack, turn: Turn | None) -> None:
        self.heads, self.kv_heads, self.turn = module.n_heads, module.n_kv_heads, turn
        self.d_head = module.query.out_features // module.n_heads
        query = Block.of(module.query).scaled(self.d_head**-0.5)
        key, value = (Block.of(layer).split(self.kv_heads) for layer in (module.key, module.value))
        pairs = [part for pair in zip(key, value, strict=True) for part in pair]
        self.project = pack([query, *pairs])
        self.output = pack([Block.of(module.output)])

    def __call__(self, x: Tensor, sentences: int, real: RealRows | None) -> tuple[Tensor, Tensor]:
        """[M,D] or only the ``real`` rows of it, those of a sentence standing at the positions 0, 1, …, with W of them
        -> queries [N,H,W,d], pairs [N,K,2,W,d]."""
        projected = self.project(x) if real is None else real.spread(self.project(x))
        width = projected.shape[0] // max(sentences, 1)
        query, pairs = self._parts(projected, sentences, width, 0)
        return query.transpose(1, 2), pairs.permute(0, 2, 3, 1, 4)

    def step(self, x: Tensor, sentences: int, position: int) -> tuple[Tensor, Tensor]:
        """[M,D], all rows standing at ``position`` -> queries [N,H,W,d], pairs [M,K,2,d]."""
        query, pairs = self._parts(self.project(x), x.shape[0], 1, position)
        return _of_sentences(query[:, 0], sentences), pairs[:, 0]

    def _parts(self, projected: Tensor, sentences: int, width: int, position: int) -> tuple[Tensor, Tensor]:
        """Queries [N,W,H,d] and pairs [N,W,K,2,d] that stand at the positions from ``position`` on."""
        vectors = projected.view(sentences, width, self.heads + 2 * self.kv_heads, self.d_head)
        if self.turn is not None:
            self.turn(vectors, position, self.heads)
        query, pairs = torch.split(vectors, [self.heads, 2 * self.kv_heads], 2)
        return query, pairs.view(sentences, width, self.kv_heads, 2, self.d_head)


class PackedSourceAttention:
    """Queries only: the source's keys and values are made once, for all layers together."""

    def __init__(self, module: MultiHeadAttention, pack: Pack) -> None:
        self.heads = module.n_heads
        self.d_head = module.query.out_features // module.n_heads
        self.project = pack([Block.of(module.query).scaled(self.d_head**-0.5)])
        self.output = pack([Block.of(module.output)])

    def queries(self, x: Tensor, sentences: int) -> Tensor:
        """[M,D] -> [N,H,W,d]."""
        return _of_sentences(self.project(x).view(x.shape[0], self.heads, self.d_head), sentences)


def _of_sentences(query: Tensor, sentences: int) -> Tensor:
    """[M,H,d] -> [N,H,W,d]."""
    rows, heads, d_head = query.shape
    if rows == sentences:
        return query[:, :, None]
    return query.view(sentences, rows // max(sentences, 1), heads, d_head).transpose(1, 2)
