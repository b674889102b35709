"""github.com/hyunwoongko/transformer: post-norm, embeddings not scaled, eps 1e-12; positions not in the weights."""

from __future__ import annotations

from dragoman.interop.format import Format

FORMAT = Format(
    name="hyunwoongko",
    preset="hyunwoongko",
    signature=r"^encoder\.emb\.tok_emb\.weight$",
    modules={
        "src_embedding": "encoder.emb.tok_emb",
        "encoder.layers.*.self_attention": "encoder.layers.*.attention",
        "encoder.layers.*.self_attention_residual.norm": "encoder.layers.*.norm1",
        "encoder.layers.*.feed_forward": "encoder.layers.*.ffn",
        "encoder.layers.*.feed_forward_residual.norm": "encoder.layers.*.norm2",
        "tgt_embedding": "decoder.emb.tok_emb",
        "decoder.layers.*.self_attention": "decoder.layers.*.self_attention",
        "decoder.layers.*.self_attention_residual.norm": "decoder.layers.*.norm1",
        "decoder.layers.*.cross_attention": "decoder.layers.*.enc_dec_attention",
        "decoder.layers.*.cross_attention_residual.norm": "decoder.layers.*.norm2",
        "decoder.layers.*.feed_forward": "decoder.layers.*.ffn",
        "decoder.layers.*.feed_forward_residual.norm": "decoder.layers.*.norm3",
        "output": "decoder.linear",
    },
    attention={"query": "w_q", "key": "w_k", "value": "w_v", "output": "w_concat"},
    feed_forward={"inner": "linear1", "output": "linear2"},
    norm={"weight": "gamma", "bias": "beta"},
    revisions=(
        {
            "tie_embeddings": ("none",),
            "n_kv_heads": (None,),
            "norm": ("layer",),
            "norm_eps": (1e-12,),
            "norm_first": (False,),
            "final_norm": (False,),
            "positions": ("sinusoidal",),
            "scale_embeddings": (False,),
            "attention_bias": ("qkvo",),
            "feed_forward": ("relu",),
            "feed_forward_bias": (True,),
            "output_bias": (True,),
        },
    ),
)
