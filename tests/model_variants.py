"""Small models of every variant, and a padded batch for them. V is the size of both vocabularies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.model import masks
from dragoman.model.transformer import Transformer
from tolerances import FLOAT64

V = 13
BASE: dict[str, Any] = {
    "src_vocab_size": V,
    "tgt_vocab_size": V,
    "d_model": 12,
    "n_heads": 3,
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
    "d_ff": 20,
    "max_length": 16,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "ours": {},
    "paper": {"norm_first": False, "final_norm": False, "tie_embeddings": "all", "output_bias": False},
    "post-norm with final norm": {"norm_first": False},
    "pre-norm without final norm": {"final_norm": False},
    "odd width": {"d_model": 15},
    "one head": {"n_heads": 1},
    "rms": {"norm": "rms"},
    "rms, post-norm": {"norm": "rms", "norm_first": False, "n_kv_heads": 1, "feed_forward": "glu"},
    "std": {"norm": "std", "norm_eps": 1e-6},
    "std, post-norm": {"norm": "std", "norm_first": False, "final_norm": False, "positions": "learned"},
    "std, one gain": {"norm": "std_scalar", "norm_first": False},
    "std, one gain, pre-norm": {"norm": "std_scalar", "norm_eps": 1e-6, "attention_bias": False},
    "halves": {"positions": "sinusoidal_halves", "scale_embeddings": False},
    "halves, odd": {"positions": "sinusoidal_halves", "d_model": 9},
    "learned": {"positions": "learned", "tie_embeddings": "decoder"},
    "rotary": {"positions": "rotary", "d_model": 12, "n_heads": 3},
    "rotary, post-norm, tied": {"positions": "rotary", "norm_first": False, "tie_embeddings": "all", "norm": "rms"},
    "no positions": {"positions": "none"},
    "table": {"positions": "table"},
    "shared heads": {"n_heads": 6, "n_kv_heads": 2, "positions": "rotary"},
    "one key head": {"n_kv_heads": 1},
    "no biases": {"attention_bias": False, "feed_forward_bias": False, "output_bias": False},
    "some biases": {"attention_bias": "qo"},
    "key and value biases": {"attention_bias": "kv", "norm_first": False},
    **{kind: {"feed_forward": kind} for kind in ("gelu", "silu", "glu", "bilinear", "reglu", "geglu", "swiglu")},
    "modern": {
        "norm": "rms", "positions": "rotary", "feed_forward": "swiglu", "n_heads": 6, "n_kv_heads": 3,
        "attention_bias": False, "feed_forward_bias": False, "output_bias": False, "tie_embeddings": "decoder",
    },
    "kaiming": {"init": "kaiming", "embedding_init": "like_init"},
    "torch": {"init": "torch", "embedding_init": "like_init"},
    "no encoder layers": {"n_encoder_layers": 0},
    "more decoder than encoder": {"n_encoder_layers": 1, "n_decoder_layers": 3, "d_model": 6, "n_heads": 1},
}  # fmt: skip


def make(name: str = "ours", dtype: torch.dtype = torch.float64, **changes: Any) -> Transformer:
    """The variant, in evaluation mode, always with the same weights."""
    torch.manual_seed(0)
    model = Transformer(ModelConfig(**{**BASE, **VARIANTS[name], **changes})).to(dtype).eval()
    if model.config.positions == "table":
        for positions in (model.src_positions, model.tgt_positions):
            positions.get_buffer("weight").normal_()
    return model


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Three sentences of unequal length with their masks; what stands in the padded places is arbitrary."""
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(0, V, (3, 6), generator=generator)
    tgt = torch.randint(0, V, (3, 5), generator=generator)
    return src, tgt, masks.from_lengths(torch.tensor([6, 3, 1])), masks.from_lengths(torch.tensor([5, 2, 4]))


def close(ours: Tensor, theirs: Tensor, tolerance: float = FLOAT64) -> None:
    """Equal but for rounding, absolutely."""
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=tolerance)
