"""Encoder and decoder layers over packed weights; the norms stand as in :class:`dragoman.model.layers.Residual`.

Shapes: B sentences of S tokens or N of W hypotheses, M all rows, D ``d_model``.
"""

from __future__ import annotations

from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.engine.attention import PackedSelfAttention, PackedSourceAttention, attend
from dragoman.engine.feedforward import pack_feed_forward
from dragoman.engine.norms import fast_norm
from dragoman.engine.pack import Pack
from dragoman.engine.rotary import Turn
from dragoman.engine.rows import RealRows
from dragoman.engine.source import SourceMask
from dragoman.engine.state import EngineState
from dragoman.model.layers import DecoderLayer, EncoderLayer


class PackedEncoderLayer:
    """Self-attention, then feed-forward."""

    def __init__(self, layer: EncoderLayer, config: ModelConfig, pack: Pack, turn: Turn | None) -> None:
        self.norm_first = config.norm_first
        self.attention = PackedSelfAttention(layer.self_attention, pack, turn)
        self.feed_forward = pack_feed_forward(layer.feed_forward, config.feed_forward, pack)
        self.norms = fast_norm(layer.self_attention_residual.norm), fast_norm(layer.feed_forward_residual.norm)

    def __call__(self, x: Tensor, sentences: int, mask: SourceMask, real: RealRows | None) -> Tensor:
        """[M,D] in and out, or only the ``real`` rows of it."""
        first, second = self.norms
        query, pairs = self.attention(first(x) if self.norm_first else x, sentences, real)
        key, value = pairs.unbind(2)
        context = attend(query, key, value, mask.bias, mask.is_open)
        x = self.attention.output.add_to(x, context if real is None else real.pick(context))
        if self.norm_first:
            return self.feed_forward.add_to(x, second(x))
        x = first(x)
        return second(self.feed_forward.add_to(x, x))


class PackedDecoderLayer:
    """Self-attention over the slots, attention over the source (unless there is none), then feed-forward."""

    def __init__(self, layer: DecoderLayer, index: int, config: ModelConfig, pack: Pack, turn: Turn | None) -> None:
        self.index = index
        self.norm_first = config.norm_first
        self.self_attention = PackedSelfAttention(layer.self_attention, pack, turn)
        self.source_attention = PackedSourceAttention(layer.cross_attention, pack)
        self.feed_forward = pack_feed_forward(layer.feed_forward, config.feed_forward, pack)
        residuals = layer.self_attention_residual, layer.cross_attention_residual, layer.feed_forward_residual
        self.norms = [fast_norm(residual.norm) for residual in residuals]

    def step(self, x: Tensor, state: EngineState) -> Tensor:
        """One new token a row, [M,D] in and out."""
        first, second, third = self.norms
        before, sentences = self.norm_first, state.sentences
        query, pairs = self.self_attention.step(first(x) if before else x, sentences, state.length - 1)
        state.store(self.index, pairs)
        context = attend(query, state.keys[self.index], state.values[self.index], state.bias)
        x = self.self_attention.output.add_to(x, context)
        x = x if before else first(x)
        source = state.source
        if source is not None:
            query = self.source_attention.queries(second(x) if before else x, sentences)
            keys, values = source.keys[self.index], source.values[self.index]
            context = attend(query, keys, values, source.mask.bias, source.mask.is_open)
            x = self.source_attention.output.add_to(x, context)
            x = x if before else second(x)
        if before:
            return self.feed_forward.add_to(x, third(x))
        return third(self.feed_forward.add_to(x, x))
