"""Small live Marian models of Hugging Face's, with every weight random, for tests of the format."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from dragoman.model.positions import sinusoid_halves_table

SMALL: dict[str, Any] = {
    "vocab_size": 23, "decoder_vocab_size": 23, "d_model": 12, "encoder_layers": 2, "decoder_layers": 1,
    "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20,
    "max_position_embeddings": 24, "pad_token_id": 22, "decoder_start_token_id": 22, "eos_token_id": 0,
    "forced_eos_token_id": None, "activation_function": "swish", "scale_embedding": True,
}  # fmt: skip
SEPARATE: dict[str, Any] = {"decoder_vocab_size": 29, "share_encoder_decoder_embeddings": False}
# What Hugging Face's configuration says differently in each.
CASES: dict[str, dict[str, Any]] = {
    "opus-mt": {},
    "relu": {"activation_function": "relu"},
    "gelu, not scaled": {"activation_function": "gelu", "scale_embedding": False},
    "odd layers and widths": {
        "encoder_layers": 3, "decoder_layers": 1, "d_model": 15, "encoder_ffn_dim": 7, "decoder_ffn_dim": 7,
    },
    "no encoder layers": {"encoder_layers": 0, "decoder_layers": 2},
    "one head": {"encoder_attention_heads": 1, "decoder_attention_heads": 1, "activation_function": "silu"},
    "separate vocabularies": SEPARATE,
    "separate, nothing tied": {**SEPARATE, "tie_word_embeddings": False, "activation_function": "relu"},
    "one vocabulary, separate embeddings": {"share_encoder_decoder_embeddings": False},
    "padding in front": {"pad_token_id": 1, "decoder_start_token_id": 2, "eos_token_id": 3},
}  # fmt: skip
ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}


def live(dtype: torch.dtype = torch.float64, seed: int = 3, **changes: Any) -> MarianMTModel:
    """A model in evaluation mode. In float64 its position tables have float64's precision too.

    Hugging Face rounds the tables to float32 whatever the type of the model, and ours are exact to the type.
    """
    torch.manual_seed(seed)
    config = MarianConfig(**{**SMALL, **changes})
    model = MarianMTModel(config).to(dtype).eval()
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), ("final_logits_bias", model.final_logits_bias)]:
            if "embed_positions" in name:
                if dtype == torch.float64:
                    tensor.copy_(sinusoid_halves_table(*tensor.shape))
            else:
                tensor.normal_(std=0.4)
    return model


def facts(config: MarianConfig) -> dict[str, Any]:
    """What the weights cannot tell, as our settings."""
    return {
        "n_heads": config.encoder_attention_heads,
        "feed_forward": ACTIVATIONS[config.activation_function],
        "scale_embeddings": config.scale_embedding,
    }


def batch(config: MarianConfig) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Padded ids [2,S], [2,T] of random tokens, with their masks."""
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(0, config.vocab_size, (2, 7), generator=generator)
    tgt = torch.randint(0, config.decoder_vocab_size, (2, 5), generator=generator)
    tgt[:, 0] = config.decoder_start_token_id
    src_mask, tgt_mask = torch.ones(2, 7, dtype=torch.bool), torch.ones(2, 5, dtype=torch.bool)
    src_mask[1, 4:] = False
    tgt_mask[1, 3:] = False
    return src, tgt, src_mask, tgt_mask


def their_logits(model: MarianMTModel, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
    """Logits [B,T,V] of Hugging Face's model."""
    logits: Tensor = model(
        input_ids=src, attention_mask=src_mask, decoder_input_ids=tgt, decoder_attention_mask=tgt_mask
    ).logits
    return logits
