"""The encoder and the decoder: layers on top of each other, on vectors.

Shapes: B batch, S source length, T target length, D ``d_model``, R rows of a decoding step.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model import masks
from dragoman.model.attention import Record
from dragoman.model.cache import DecoderState
from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.norms import make_norm


def _final_norm(config: ModelConfig) -> nn.Module:
    return make_norm(config.norm, config.d_model, config.norm_eps) if config.final_norm else nn.Identity()


class Encoder(nn.Module):
    """``n_encoder_layers`` layers and, where ``final_norm`` says so, a norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.norm = _final_norm(config)

    def forward(self, x: Tensor, src_mask: Tensor | None = None, record: Record | None = None) -> Tensor:
        """[B,S,D] and ``src_mask`` [B,S] -> [B,S,D]; ``record`` receives each layer's weights [B,H,S,S]."""
        mask = masks.for_keys(src_mask)
        for layer in cast("list[EncoderLayer]", self.layers):
            x = layer(x, mask, record)
        out: Tensor = self.norm(x)
        return out


class Decoder(nn.Module):
    """``n_decoder_layers`` layers and, where ``final_norm`` says so, a norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        self.norm = _final_norm(config)

    def forward(
        self,
        y: Tensor,
        memory: Tensor | None,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        self_record: Record | None = None,
        cross_record: Record | None = None,
    ) -> Tensor:
        """[B,T,D] over ``memory`` [B,S,D] -> [B,T,D], each position seeing itself and earlier ones only.

        ``memory`` None leaves the source attention out: a decoder-only stack.
        """
        memory_mask, mask = masks.for_keys(src_mask), masks.for_causal(tgt_mask, y.shape[1])
        for layer in cast("list[DecoderLayer]", self.layers):
            y = layer(y, memory, memory_mask, mask, self_record, cross_record)
        out: Tensor = self.norm(y)
        return out

    def start(self, memory: Tensor | None, src_mask: Tensor | None = None) -> DecoderState:
        """An empty cache, with each layer's source keys and values computed from ``memory`` [B,S,D]."""
        pairs = []
        if memory is not None:
            src_mask = src_mask if src_mask is None else src_mask.expand(memory.shape[0], -1)
            for layer in cast("list[DecoderLayer]", self.layers):
                key, value = layer.cross_attention.keys_values(memory)
                pairs.append((key.contiguous(), value.contiguous()))
        return DecoderState(len(self.layers), pairs, masks.for_keys(src_mask))

    def step(self, y: Tensor, state: DecoderState) -> Tensor:
        """One new vector a row, [R,1,D] -> [R,1,D]; the state moves on by one position.

        Raises :class:`DataError` where the state has another number of rows.
        """
        state.advance(y.shape[0])
        for index, layer in enumerate(cast("list[DecoderLayer]", self.layers)):
            memory = state.memory[index] if state.memory else None
            y = layer.step(y, state.layers[index], memory, state.memory_mask)
        out: Tensor = self.norm(y)
        return out
