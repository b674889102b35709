"""One encoder layer and one decoder layer. Where the norms stand is decided here, in :class:`Residual`, alone.

Shapes: B batch, S source length, T target length, D ``d_model``, R rows of a decoding step.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import MultiHeadAttention, Record, shared_memory_attention
from dragoman.model.cache import SelfCache
from dragoman.model.dropout import Dropout
from dragoman.model.feedforward import make_feed_forward
from dragoman.model.masks import AttentionMask
from dragoman.model.norms import make_norm
from dragoman.model.positions import Rotary


class Residual(nn.Module):
    """A sub-layer with its shortcut, dropout and norm.

    Post-norm: norm(x + dropout(f(x))) (Vaswani et al. 2017, section 3.1). Pre-norm: x + dropout(f(norm(x)))
    (Xiong et al. 2020).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = make_norm(config.norm, config.d_model, config.norm_eps)
        self.dropout = Dropout(config.dropout)
        self.norm_first = config.norm_first

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """[B,T,D] in and out."""
        if self.norm_first:
            added: Tensor = x + self.dropout(sublayer(self.norm(x)))
            return added
        normed: Tensor = self.norm(x + self.dropout(sublayer(x)))
        return normed


def _attention(config: ModelConfig, rotary: Rotary | None = None) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.n_heads,
        config.kv_heads,
        biases=config.biases,
        dropout=config.dropout_of("attention"),
        rotary=rotary,
    )


def _feed_forward(config: ModelConfig) -> nn.Module:
    return make_feed_forward(
        config.feed_forward, config.d_model, config.d_ff, config.feed_forward_bias, config.dropout_of("activation")
    )


def _rotary(config: ModelConfig) -> Rotary | None:
    return Rotary(config.d_head) if config.positions == "rotary" else None


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config, _rotary(config))
        self.feed_forward = _feed_forward(config)
        self.self_attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: Tensor, mask: AttentionMask | None = None, record: Record | None = None) -> Tensor:
        """[B,S,D] in and out; ``record`` receives the attention weights [B,H,S,S]."""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, mask=mask, record=record))
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out


class DecoderLayer(nn.Module):
    """Causal self-attention, attention over the source (unless there is none), then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config, _rotary(config))
        self.cross_attention = _attention(config)
        self.feed_forward = _feed_forward(config)
        self.self_attention_residual = Residual(config)
        self.cross_attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        y: Tensor,
        memory: Tensor | None,
        memory_mask: AttentionMask | None = None,
        mask: AttentionMask | None = None,
        self_record: Record | None = None,
        cross_record: Record | None = None,
    ) -> Tensor:
        """[B,T,D] and memory [B,S,D] (None: no source) -> [B,T,D]; the records receive the attention weights."""
        y = self.self_attention_residual(
            y, lambda x: self.self_attention(x, mask=mask, causal=True, record=self_record)
        )
        if memory is not None:
            y = self.cross_attention_residual(
                y, lambda x: self.cross_attention(x, memory, memory_mask, record=cross_record)
            )
        out: Tensor = self.feed_forward_residual(y, self.feed_forward)
        return out

    def step(
        self,
        y: Tensor,
        cache: SelfCache,
        memory: tuple[Tensor, Tensor] | None,
        memory_mask: AttentionMask | None,
    ) -> Tensor:
        """One new token a row: [R,1,D] in and out. ``memory`` holds the source's keys and values."""

        def self_attention(x: Tensor) -> Tensor:
            start = cache.length
            keys, values = cache.append(*self.self_attention.keys_values(x, start=start))
            return self.self_attention.attend(self.self_attention.queries(x, start), keys, values)

        y = self.self_attention_residual(y, self_attention)
        if memory is not None:
            y = self.cross_attention_residual(
                y, lambda x: shared_memory_attention(self.cross_attention, x, *memory, memory_mask)
            )
        out: Tensor = self.feed_forward_residual(y, self.feed_forward)
        return out
