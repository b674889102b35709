"""One decoding step of one hypothesis, written to be compiled: sums and products alone, which a compiler fuses.

A product with one row reads its weight once and does little else, so that no library is needed for it. Nothing is
packed: the weights are the model's own.
Shapes: D ``d_model``, L layers, H heads, K key-value heads, d head width, C slots, S source length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.feedforward import FeedForward, GatedFeedForward
from dragoman.model.layers import DecoderLayer, Residual
from dragoman.model.norms import LayerNorm
from dragoman.model.transformer import Transformer


class OneRow(nn.Module):
    """The decoder of ``model``, embeddings and output included, for a single row over a source without padding."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.scale = model.scale
        self.rotary = model.config.positions == "rotary"
        self.embedding, self.output = model.tgt_embedding, model.output
        self.layers, self.norm = model.decoder.layers, model.decoder.norm

    def forward(
        self,
        token: Tensor,
        place: Tensor,
        position: Tensor,
        slots: list[Tensor],
        keys: list[Tensor],
        values: list[Tensor],
    ) -> Tensor:
        """Logits [1,V] for the token after ``token`` [1], which stands at ``place`` [1], counted from 0.

        ``position`` [1,D] is added to the embedding; a rotary one [1,d] turns queries and keys. ``slots`` are each
        layer's keys and values [K,C,2,d]: those before ``place`` are read, and that of ``place`` is written. ``keys``
        and ``values`` [K,S,d] are the source's.
        """
        x = torch.embedding(self.embedding.weight, token)[0] * self.scale
        turn = position[0] if self.rotary else None
        x = x if self.rotary else x + position[0]
        empty = torch.arange(slots[0].shape[1]) > place
        bias = torch.zeros(empty.shape).masked_fill(empty, float("-inf"))
        for index, layer in enumerate(cast("list[DecoderLayer]", self.layers)):
            own = partial(_over_slots, layer.self_attention, slots[index], place, bias, turn)
            source = partial(_over_source, layer.cross_attention, keys[index], values[index])
            x = _added(layer.self_attention_residual, x, own)
            x = _added(layer.cross_attention_residual, x, source)
            x = _added(layer.feed_forward_residual, x, partial(_feed_forward, layer.feed_forward))
        return _product(self.output, _norm(self.norm, x))[None]


def _added(residual: Residual, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
    """What ``residual`` makes of ``x`` [D] and a part of the layer."""
    if residual.norm_first:
        return x + part(_norm(residual.norm, x))
    return _norm(residual.norm, x + part(x))


def _over_slots(
    module: MultiHeadAttention, slots: Tensor, place: Tensor, bias: Tensor, turn: Tensor | None, x: Tensor
) -> Tensor:
    """Self-attention of the newest token, [D] in and out; its key and value are put into ``slots``."""
    key = _turned(_product(module.key, x).view(module.n_kv_heads, -1), turn)
    value = _product(module.value, x).view(module.n_kv_heads, -1)
    slots.index_copy_(1, place, torch.stack([key, value], 1)[:, None])
    query = _turned(_product(module.query, x).view(module.n_heads, -1), turn)
    return _product(module.output, _attend(query, slots[:, :, 0], slots[:, :, 1], bias))


def _over_source(module: MultiHeadAttention, keys: Tensor, values: Tensor, x: Tensor) -> Tensor:
    """[D] in and out."""
    query = _product(module.query, x).view(module.n_heads, -1)
    return _product(module.output, _attend(query, keys, values, None))


def _feed_forward(module: nn.Module, x: Tensor) -> Tensor:
    """[D] in and out."""
    if isinstance(module, GatedFeedForward):
        return _product(module.output, module.gate(_product(module.inner, x)) * _product(module.value, x))
    assert isinstance(module, FeedForward)
    return _product(module.output, module.activation(_product(module.inner, x)))


def _product(layer: nn.Linear, x: Tensor) -> Tensor:
    """weight · x + bias: [I] -> [O]."""
    y = (layer.weight * x).sum(1)
    return y if layer.bias is None else y + layer.bias


def _norm(module: nn.Module, x: Tensor) -> Tensor:
    """What ``module`` computes, [D] in and out; a layer norm in two passes, which are faster compiled than its own."""
    if not isinstance(module, LayerNorm):
        return cast("Tensor", module(x))
    centred = x - x.mean()
    return centred * torch.rsqrt((centred * centred).mean() + module.eps) * module.weight + module.bias


def _turned(vectors: Tensor, turn: Tensor | None) -> Tensor:
    """[H,d] turned by angles whose cosines and then sines are ``turn`` [d], as :class:`Rotary` turns them."""
    if turn is None:
        return vectors
    cos, sin = turn.chunk(2)
    even, odd = vectors[:, 0::2], vectors[:, 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(1)


def _attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """[H,d] over keys and values [K,S,d], ``bias`` [S] added to the scores -> [D]."""
    heads, d_head = query.shape
    query = query.view(key.shape[0], -1, 1, d_head) * d_head**-0.5
    scores = (query * key[:, None]).sum(-1)  # [K,H/K,S]
    weights = torch.softmax(scores if bias is None else scores + bias, -1)
    return (weights[..., None] * value[:, None]).sum(2).view(heads * d_head)
