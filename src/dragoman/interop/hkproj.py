"""github.com/hkproj/pytorch-transformer, its article and its notebook: pre-norm, n-1 deviation with eps outside.

Three revisions: one gain per norm and attention biases (the article, May 2023), one gain without those biases
(August 2023), a gain per feature (since September 2023). The first two return log-probabilities; the weights
give our logits.
"""

from __future__ import annotations

from typing import Any

from dragoman.interop.format import Format

_EVERY: dict[str, tuple[Any, ...]] = {
    "tie_embeddings": ("none",),
    "n_kv_heads": (None,),
    "norm_eps": (1e-6,),
    "norm_first": (True,),
    "final_norm": (True,),
    "positions": ("sinusoidal",),
    "scale_embeddings": (True,),
    "feed_forward": ("relu",),
    "feed_forward_bias": (True,),
    "output_bias": (True,),
}

FORMAT = Format(
    name="hkproj",
    preset="hkproj",
    signature=r"^projection_layer\.proj\.weight$",
    modules={
        "src_embedding": "src_embed.embedding",
        "encoder.layers.*.self_attention": "encoder.layers.*.self_attention_block",
        "encoder.layers.*.self_attention_residual.norm": "encoder.layers.*.residual_connections.0.norm",
        "encoder.layers.*.feed_forward": "encoder.layers.*.feed_forward_block",
        "encoder.layers.*.feed_forward_residual.norm": "encoder.layers.*.residual_connections.1.norm",
        "encoder.norm": "encoder.norm",
        "tgt_embedding": "tgt_embed.embedding",
        "decoder.layers.*.self_attention": "decoder.layers.*.self_attention_block",
        "decoder.layers.*.self_attention_residual.norm": "decoder.layers.*.residual_connections.0.norm",
        "decoder.layers.*.cross_attention": "decoder.layers.*.cross_attention_block",
        "decoder.layers.*.cross_attention_residual.norm": "decoder.layers.*.residual_connections.1.norm",
        "decoder.layers.*.feed_forward": "decoder.layers.*.feed_forward_block",
        "decoder.layers.*.feed_forward_residual.norm": "decoder.layers.*.residual_connections.2.norm",
        "decoder.norm": "decoder.norm",
        "output": "projection_layer.proj",
    },
    attention={"query": "w_q", "key": "w_k", "value": "w_v", "output": "w_o"},
    feed_forward={"inner": "linear_1", "output": "linear_2"},
    norm={"weight": "alpha", "bias": "bias"},
    positions=("src_pos.pe", "tgt_pos.pe"),
    position_axis=0,
    revisions=(
        {**_EVERY, "norm": ("std",), "attention_bias": ("",)},
        {**_EVERY, "norm": ("std_scalar",), "attention_bias": ("",)},
        {**_EVERY, "norm": ("std_scalar",), "attention_bias": ("qkvo",)},
    ),
)
