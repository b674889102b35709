"""The Annotated Transformer (Harvard NLP): pre-norm, n-1 deviation with eps outside, attention biases."""

from __future__ import annotations

from dragoman.interop.format import Format

FORMAT = Format(
    name="annotated",
    preset="annotated",
    signature=r"^src_embed\.0\.lut\.weight$",
    modules={
        "src_embedding": "src_embed.0.lut",
        "encoder.layers.*.self_attention": "encoder.layers.*.self_attn",
        "encoder.layers.*.self_attention_residual.norm": "encoder.layers.*.sublayer.0.norm",
        "encoder.layers.*.feed_forward": "encoder.layers.*.feed_forward",
        "encoder.layers.*.feed_forward_residual.norm": "encoder.layers.*.sublayer.1.norm",
        "encoder.norm": "encoder.norm",
        "tgt_embedding": "tgt_embed.0.lut",
        "decoder.layers.*.self_attention": "decoder.layers.*.self_attn",
        "decoder.layers.*.self_attention_residual.norm": "decoder.layers.*.sublayer.0.norm",
        "decoder.layers.*.cross_attention": "decoder.layers.*.src_attn",
        "decoder.layers.*.cross_attention_residual.norm": "decoder.layers.*.sublayer.1.norm",
        "decoder.layers.*.feed_forward": "decoder.layers.*.feed_forward",
        "decoder.layers.*.feed_forward_residual.norm": "decoder.layers.*.sublayer.2.norm",
        "decoder.norm": "decoder.norm",
        "output": "generator.proj",
    },
    attention={"query": "linears.0", "key": "linears.1", "value": "linears.2", "output": "linears.3"},
    feed_forward={"inner": "w_1", "output": "w_2"},
    norm={"weight": "a_2", "bias": "b_2"},
    positions=("src_embed.1.pe", "tgt_embed.1.pe"),
    position_axis=0,
    revisions=(
        {
            "tie_embeddings": ("none",),
            "n_kv_heads": (None,),
            "norm": ("std",),
            "norm_eps": (1e-6,),
            "norm_first": (True,),
            "final_norm": (True,),
            "positions": ("sinusoidal",),
            "scale_embeddings": (True,),
            "attention_bias": ("qkvo",),
            "feed_forward": ("relu",),
            "feed_forward_bias": (True,),
            "output_bias": (True,),
        },
    ),
)
