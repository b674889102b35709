"""The article "Transformer in PyTorch, annotated": post-norm, no attention biases, no dropout.

Its position table has two faults: it returns the angles themselves, and each column has an exponent of its own.
The default reading of its weights repairs both.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.interop.format import Format, Variant


def ramp_table(length: int, d_model: int) -> Tensor:
    """pos / 10000^(column/D), the angle itself: float64 [length, D]."""
    columns = torch.arange(d_model, dtype=torch.float64)
    return torch.arange(length, dtype=torch.float64)[:, None] / 10000.0 ** (columns / d_model)


def column_table(length: int, d_model: int) -> Tensor:
    """The sine of that angle in even columns, the cosine in odd ones: float64 [length, D]."""
    table = ramp_table(length, d_model)
    table[:, 0::2] = table[:, 0::2].sin()
    table[:, 1::2] = table[:, 1::2].cos()
    return table


FORMAT = Format(
    name="valid_len",
    preset="valid_len",
    signature=r"^encoder\.embeddingLayer\.weight$",
    modules={
        "src_embedding": "encoder.embeddingLayer",
        "encoder.layers.*.self_attention": "encoder.encoderLayers.*.subLayer1.layer",
        "encoder.layers.*.self_attention_residual.norm": "encoder.encoderLayers.*.subLayer1.norm",
        "encoder.layers.*.feed_forward": "encoder.encoderLayers.*.subLayer2.layer",
        "encoder.layers.*.feed_forward_residual.norm": "encoder.encoderLayers.*.subLayer2.norm",
        "tgt_embedding": "decoder.embeddingLayer",
        "decoder.layers.*.self_attention": "decoder.decoderLayers.*.subLayer1.layer",
        "decoder.layers.*.self_attention_residual.norm": "decoder.decoderLayers.*.subLayer1.norm",
        "decoder.layers.*.cross_attention": "decoder.decoderLayers.*.subLayer2.layer",
        "decoder.layers.*.cross_attention_residual.norm": "decoder.decoderLayers.*.subLayer2.norm",
        "decoder.layers.*.feed_forward": "decoder.decoderLayers.*.subLayer3.layer",
        "decoder.layers.*.feed_forward_residual.norm": "decoder.decoderLayers.*.subLayer3.norm",
        "output": "dense",
    },
    attention={"query": "W_Q", "key": "W_K", "value": "W_V", "output": "W_O"},
    feed_forward={"inner": "linear1", "output": "linear2"},
    revisions=(
        {
            "tie_embeddings": ("none",),
            "n_kv_heads": (None,),
            "norm": ("layer",),
            "norm_eps": (1e-5,),
            "norm_first": (False,),
            "final_norm": (False,),
            "positions": ("sinusoidal", "table"),
            "scale_embeddings": (True,),
            "attention_bias": ("",),
            "feed_forward": ("relu",),
            "feed_forward_bias": (True,),
            "output_bias": (True,),
        },
    ),
    variants={
        "repaired_paper": Variant(),
        "repaired_return": Variant(
            column_table, "its positions follow the article's formula, where each column has its own exponent"
        ),
        "as_written": Variant(
            ramp_table, "its positions are the article's as printed: the bare angles, without sine and cosine"
        ),
    },
)
