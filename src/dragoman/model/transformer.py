"""The whole Transformer: embeddings, encoder, decoder, output projection (Vaswani et al. 2017, figure 1).

Shapes: B batch, S source length, T target length, D ``d_model``, H heads, V target vocabulary, R rows of a
decoding step. Masks are boolean, True = real token; None = every position is real (ids are never inspected).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, overload

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.errors import ConfigError
from dragoman.model.cache import DecoderState
from dragoman.model.dropout import Dropout
from dragoman.model.initial import initialise
from dragoman.model.positions import make_positions
from dragoman.model.stacks import Decoder, Encoder


@dataclass
class Attention:
    """Attention weights of one pass, a tensor [B,H,query,key] per layer."""

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)


class Transformer(nn.Module):
    """An encoder-decoder Transformer of the shape that ``config`` gives."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if config.src_vocab_size is None or config.tgt_vocab_size is None:
            raise ConfigError("a Transformer needs src_vocab_size and tgt_vocab_size; set both in its ModelConfig.")
        self.config = config
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.src_embedding = nn.Embedding(config.src_vocab_size, config.d_model)
        self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, config.d_model)
        self.src_positions = make_positions(config.positions, config.d_model, config.max_length)
        self.tgt_positions = make_positions(config.positions, config.d_model, config.max_length)
        self.embedding_dropout = Dropout(config.dropout_of("embedding"))
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=config.output_bias)
        initialise(self, config)
        if config.tie_embeddings == "all":
            self.src_embedding.weight = self.tgt_embedding.weight
        if config.tie_embeddings != "none":
            self.output.weight = self.tgt_embedding.weight

    @overload
    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        return_attention: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        *,
        return_attention: Literal[True],
    ) -> tuple[Tensor, Attention]: ...

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        return_attention: bool = False,
    ) -> Tensor | tuple[Tensor, Attention]:
        """Logits [B,T,V] for the token after each target position; ids ``src`` [B,S], ``tgt`` [B,T].

        Masks [B,S] and [B,T], True = real token: padding that no mask hides counts like any other token.

        With ``return_attention`` also every layer's attention weights, before dropout.
        """
        attention = Attention() if return_attention else None
        memory = self.encode(src, src_mask, attention)
        logits = self.project(self.decode(tgt, memory, src_mask, tgt_mask, attention))
        return logits if attention is None else (logits, attention)

    def log_probs(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """Natural log-probabilities [B,T,V] of the token after each target position, in float32 at least."""
        logits = self(src, tgt, src_mask, tgt_mask)
        return torch.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), -1)

    def embed_src(self, src: Tensor) -> Tensor:
        """Ids [B,S] -> vectors [B,S,D], positions added."""
        x: Tensor = self.embedding_dropout(self.src_positions(self.src_embedding(src) * self.scale))
        return x

    def embed_tgt(self, tgt: Tensor, start: int = 0) -> Tensor:
        """Ids [B,T] -> vectors [B,T,D], positions from ``start`` on added."""
        y: Tensor = self.embedding_dropout(self.tgt_positions(self.tgt_embedding(tgt) * self.scale, start))
        return y

    def encode(self, src: Tensor, src_mask: Tensor | None = None, attention: Attention | None = None) -> Tensor:
        """Ids [B,S] -> memory [B,S,D]; ``attention`` receives the weights."""
        memory: Tensor = self.encoder(self.embed_src(src), src_mask, attention and attention.encoder)
        return memory

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor | None,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        attention: Attention | None = None,
    ) -> Tensor:
        """Ids [B,T] and memory [B,S,D] (None: no source) -> hidden vectors [B,T,D], causal."""
        records = (None, None) if attention is None else (attention.decoder, attention.cross)
        hidden: Tensor = self.decoder(self.embed_tgt(tgt), memory, src_mask, tgt_mask, *records)
        return hidden

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden vectors [...,D] -> logits [...,V]."""
        logits: Tensor = self.output(hidden)
        return logits

    @torch.no_grad()
    def start(self, memory: Tensor | None, src_mask: Tensor | None = None) -> DecoderState:
        """An empty cache for step-wise decoding over ``memory`` [B,S,D]; None: no source."""
        return self.decoder.start(memory, src_mask)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState, parents: Tensor | None = None) -> Tensor:
        """Logits [R,V] for the token after ``tokens`` [R]; the state moves on by one position.

        Row i goes on from row ``parents[i]`` of the last step (None: from row i), so that the number of rows
        may change. At the first step the rows are the sources. Raises :class:`DataError` for another number of
        tokens than of rows, and past the end of learned or table positions.
        """
        if parents is not None:
            state.select(parents)
        hidden = self.decoder.step(self.embed_tgt(tokens[:, None], state.length), state)
        return self.project(hidden[:, 0])
