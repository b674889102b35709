"""Scaled dot-product attention and multi-head attention (Vaswani et al. 2017, sections 3.2.1 and 3.2.2).

Shapes: B batch, T query length, S key length, D width of a vector, H heads, K key-value heads (H, or fewer in
grouped-query attention), d width of a head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.errors import ConfigError
from dragoman.model import masks
from dragoman.model.dropout import dropout
from dragoman.model.masks import AttentionMask
from dragoman.model.positions import Rotary

Record = list[Tensor]


def attention_weights(query: Tensor, key: Tensor, mask: AttentionMask | None = None, causal: bool = False) -> Tensor:
    """softmax(query · key / sqrt(d)) over the allowed keys: [B,H,T,d], [B,H,S,d] -> [B,H,T,S].

    Each row sums to 1, or is all zero where nothing may be attended to. ``causal``: query t sees keys 0..t.
    """
    # Scaling the query first keeps float16 scores in range.
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(-1, -2)
    if causal:
        mask = masks.and_causal(mask, scores.shape[-2], scores.shape[-1], scores.device)
    if mask is None:
        return torch.softmax(scores, -1)
    weights = torch.softmax(scores.masked_fill(~mask.allowed, float("-inf")), -1)
    return weights if mask.open is None else weights * mask.open


def scaled_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: AttentionMask | None = None,
    causal: bool = False,
    p: float = 0.0,
    record: Record | None = None,
) -> Tensor:
    """Attention of [B,H,T,d] over [B,K,S,d]: the weighted sum of the values, [B,H,T,d].

    PyTorch's fused kernel computes it, unless the weights themselves are wanted (``record`` receives them,
    [B,H,T,S], before dropout) or dropped out on the CPU, where the fused kernel has no dropout. ``p`` is the
    dropout probability on the weights.
    """
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if record is not None or (p > 0.0 and query.device.type == "cpu"):
        weights = attention_weights(query, key, mask, causal)
        if record is not None:
            record.append(weights)
        return dropout(weights, p, training=True) @ value
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=causal)
    if causal:
        mask = masks.and_causal(mask, query.shape[-2], key.shape[-2], query.device)
    context = F.scaled_dot_product_attention(query, key, value, attn_mask=mask.allowed, dropout_p=p)
    return context if mask.open is None else context * mask.open


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each on its own projection of the inputs.

    ``biases`` says which projections have one, as some of the letters ``qkvo``. ``d_key`` and ``d_value`` are
    the widths of the key and value inputs (default ``d_model``), ``d_inner`` the width of all heads together
    (default ``d_model``). ``rotary`` turns queries and keys by their positions. Raises :class:`ConfigError` where
    the heads do not divide the inner width, or the key-value heads the heads.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        *,
        biases: str = "qkvo",
        dropout: float = 0.0,
        d_key: int | None = None,
        d_value: int | None = None,
        d_inner: int | None = None,
        rotary: Rotary | None = None,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads or n_heads
        self.p = dropout
        self.rotary = rotary
        d_inner = d_inner or d_model
        if d_inner % n_heads or n_heads % self.n_kv_heads:
            raise ConfigError(
                f"{n_heads} attention heads over {self.n_kv_heads} key-value heads do not divide a width of {d_inner}; "
                "the width must be a multiple of the heads, and they of the key-value heads."
            )
        d_kv = d_inner // n_heads * self.n_kv_heads
        self.query = nn.Linear(d_model, d_inner, bias="q" in biases)
        self.key = nn.Linear(d_key or d_model, d_kv, bias="k" in biases)
        self.value = nn.Linear(d_value or d_key or d_model, d_kv, bias="v" in biases)
        self.output = nn.Linear(d_inner, d_model, bias="o" in biases)

    def queries(self, x: Tensor, start: int = 0) -> Tensor:
        """[B,T,D] -> [B,H,T,d]; ``start`` is the position of the first."""
        query: Tensor = self.query(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        return query if self.rotary is None else self.rotary(query, start)

    def keys_values(self, x: Tensor, value: Tensor | None = None, start: int = 0) -> tuple[Tensor, Tensor]:
        """[B,S,D] -> keys and values [B,K,S,d]; ``value`` is the values' input where it is another."""
        keys: Tensor = self.key(x).unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2)
        values = self.value(x if value is None else value).unflatten(-1, (self.n_kv_heads, -1)).transpose(1, 2)
        return (keys if self.rotary is None else self.rotary(keys, start)), values

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: AttentionMask | None = None,
        causal: bool = False,
        record: Record | None = None,
    ) -> Tensor:
        """Projected queries [B,H,T,d] over keys and values [B,K,S,d] -> [B,T,D]."""
        p = self.p if self.training else 0.0
        context = scaled_dot_product(query, key, value, mask, causal, p, record)
        merged: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return merged

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: AttentionMask | None = None,
        causal: bool = False,
        record: Record | None = None,
        value: Tensor | None = None,
    ) -> Tensor:
        """[B,T,D] attends to ``memory`` [B,S,D] (None: to itself) -> [B,T,D].

        ``value`` gives the values' input where it differs from the keys'.
        """
        keys, values = self.keys_values(x if memory is None else memory, value)
        return self.attend(self.queries(x), keys, values, mask, causal, record)


def shared_memory_attention(
    attention: MultiHeadAttention, x: Tensor, key: Tensor, value: Tensor, mask: AttentionMask | None
) -> Tensor:
    """One query a row, where each run of G rows shares a source: [B·G,1,D] over [B,K,S,d] -> [B·G,1,D].

    The G rows become G queries of one sentence, so that the source's keys are read once for a whole beam.
    """
    sources, (rows, _, width) = key.shape[0], x.shape
    query = attention.queries(x.view(sources, rows // max(sources, 1), width))
    return attention.attend(query, key, value, mask).flatten(0, 1)[:, None]
