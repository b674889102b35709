"""labml_nn.transformers: pre-norm, fixed or learned positions under one key, gated feed-forward parts.

Its code runs sequence first; the weights are the same either way. ``bias=False`` leaves the value and output
biases of an attention in place.
"""

from __future__ import annotations

from dragoman.interop.format import Format

FORMAT = Format(
    name="labml",
    preset="labml",
    signature=r"^src_embed\.linear\.weight$",
    modules={
        "src_embedding": "src_embed.linear",
        "encoder.layers.*.self_attention": "encoder.layers.*.self_attn",
        "encoder.layers.*.self_attention_residual.norm": "encoder.layers.*.norm_self_attn",
        "encoder.layers.*.feed_forward": "encoder.layers.*.feed_forward",
        "encoder.layers.*.feed_forward_residual.norm": "encoder.layers.*.norm_ff",
        "encoder.norm": "encoder.norm",
        "tgt_embedding": "tgt_embed.linear",
        "decoder.layers.*.self_attention": "decoder.layers.*.self_attn",
        "decoder.layers.*.self_attention_residual.norm": "decoder.layers.*.norm_self_attn",
        "decoder.layers.*.cross_attention": "decoder.layers.*.src_attn",
        "decoder.layers.*.cross_attention_residual.norm": "decoder.layers.*.norm_src_attn",
        "decoder.layers.*.feed_forward": "decoder.layers.*.feed_forward",
        "decoder.layers.*.feed_forward_residual.norm": "decoder.layers.*.norm_ff",
        "decoder.norm": "decoder.norm",
        "output": "generator.projection",
    },
    attention={"query": "query.linear", "key": "key.linear", "value": "value.linear", "output": "output"},
    feed_forward={"inner": "layer1", "value": "linear_v", "output": "layer2"},
    positions=("src_embed.positional_encodings", "tgt_embed.positional_encodings"),
    position_axis=1,
    revisions=(
        {
            "tie_embeddings": ("none",),
            "n_kv_heads": (None,),
            "norm": ("layer",),
            "norm_eps": (1e-5,),
            "norm_first": (True,),
            "final_norm": (True,),
            "positions": ("sinusoidal", "learned"),
            "scale_embeddings": (True,),
            "attention_bias": ("qkvo", "vo"),
            "feed_forward": ("relu", "gelu", "silu", "glu", "bilinear", "reglu", "geglu", "swiglu"),
            "feed_forward_bias": (True, False),
            "output_bias": (True,),
        },
    ),
)
