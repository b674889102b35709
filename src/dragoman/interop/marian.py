"""Hugging Face Marian (OPUS-MT): post-norm, sinusoids in halves, a bias per token of the output.

One matrix may stand under several keys: ``model.shared.weight`` and its copies in encoder, decoder and projection
where all embeddings are tied, the decoder's and the projection's where those two are. A file holds some of the keys
or all of them; all are written. The position tables are the model's own, and are rebuilt. OPUS-MT's padding id, from
which decoding starts, is the last of the vocabulary, so that this is the default of those ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from dragoman.interop.format import Format, Settings, Slot, same

SHARED = "model.shared"
ENCODER = "model.encoder.embed_tokens"
DECODER = "model.decoder.embed_tokens"
OUTPUT = "lm_head"
BIAS = "final_logits_bias"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")

_LAYERS = {
    "encoder.layers.*.self_attention": "model.encoder.layers.*.self_attn",
    "encoder.layers.*.self_attention_residual.norm": "model.encoder.layers.*.self_attn_layer_norm",
    "encoder.layers.*.feed_forward": "model.encoder.layers.*",
    "encoder.layers.*.feed_forward_residual.norm": "model.encoder.layers.*.final_layer_norm",
    "decoder.layers.*.self_attention": "model.decoder.layers.*.self_attn",
    "decoder.layers.*.self_attention_residual.norm": "model.decoder.layers.*.self_attn_layer_norm",
    "decoder.layers.*.cross_attention": "model.decoder.layers.*.encoder_attn",
    "decoder.layers.*.cross_attention_residual.norm": "model.decoder.layers.*.encoder_attn_layer_norm",
    "decoder.layers.*.feed_forward": "model.decoder.layers.*",
    "decoder.layers.*.feed_forward_residual.norm": "model.decoder.layers.*.final_layer_norm",
}
# Where the source's and the target's embeddings and the projection stand, by ``tie_embeddings``.
_EMBEDDINGS = {
    "all": (SHARED, SHARED, SHARED),
    "decoder": (ENCODER, DECODER, DECODER),
    "none": (ENCODER, DECODER, OUTPUT),
}
_ALIASES: dict[str, dict[str, tuple[str, ...]]] = {
    "all": {SHARED: (ENCODER, DECODER, OUTPUT)},
    "decoder": {DECODER: (OUTPUT,)},
    "none": {},
}

_SETTINGS: Settings = {
    "tie_embeddings": ("all", "decoder", "none"),
    "n_kv_heads": (None,),
    "norm": ("layer",),
    "norm_eps": (1e-5,),
    "norm_first": (False,),
    "final_norm": (False,),
    "positions": ("sinusoidal_halves",),
    "scale_embeddings": (True, False),
    "attention_bias": ("qkvo",),
    "feed_forward": ("silu", "relu", "gelu"),
    "feed_forward_bias": (True,),
    "output_bias": (True,),
}


def resolve(facts: dict[str, Any], weights: Mapping[str, Tensor] | None) -> tuple[Format, dict[str, Any], list[str]]:
    """The table for the tie that ``tie_embeddings`` or the weights give, and the facts with defaults of OPUS-MT."""
    facts = dict(facts)
    if weights is not None:
        facts = {"tie_embeddings": _tie(weights), **_ids(weights), **facts}
    if not isinstance(facts["tie_embeddings"], str) or facts["tie_embeddings"] not in _EMBEDDINGS:
        return FORMAT, facts, []  # the configuration will say what is wrong with it
    fmt = _table(facts["tie_embeddings"], weights)
    if weights is not None and BIAS not in weights:
        # Hugging Face takes a missing bias as zeros, so that weights without it are complete.
        fmt = replace(fmt, revisions=({**_SETTINGS, "output_bias": (True, False)},))
    return fmt, facts, []


def _table(tie: str, weights: Mapping[str, Tensor] | None) -> Format:
    """The table of keys for embeddings that are tied in this way."""
    src, tgt, output = _EMBEDDINGS[tie]
    aliases = {f"{key}.weight": tuple(f"{other}.weight" for other in others) for key, others in _ALIASES[tie].items()}
    if tie == "none" and f"{SHARED}.weight" in (weights or ()):
        # The embeddings are one matrix and the projection another: ours are three, two of them equal.
        src, tgt, aliases = SHARED, SHARED, {f"{SHARED}.weight": (f"{ENCODER}.weight", f"{DECODER}.weight")}
    modules = {"src_embedding": src, **_LAYERS, "tgt_embedding": tgt, "output": output}
    return replace(FORMAT, modules=modules, aliases=aliases)


def _tie(weights: Mapping[str, Tensor]) -> str:
    """What is tied where nobody says it: what is equal, or has one key for all its uses."""
    shared, encoder, decoder, output = (weights.get(f"{name}.weight") for name in (SHARED, ENCODER, DECODER, OUTPUT))
    encoder, decoder = shared if encoder is None else encoder, shared if decoder is None else decoder
    if output is not None and decoder is not None and not same(decoder, output):
        return "none"
    return (
        "all"
        if shared is not None or (encoder is not None and decoder is not None and same(encoder, decoder))
        else "decoder"
    )


def _ids(weights: Mapping[str, Tensor]) -> dict[str, int]:
    """The padding id, from which decoding starts: the last that both vocabularies have."""
    found = [weights[key] for name in (SHARED, ENCODER, DECODER, OUTPUT) if (key := f"{name}.weight") in weights]
    last = min((tensor.shape[0] for tensor in found if tensor.ndim), default=0) - 1
    return dict.fromkeys(("src_pad_id", "tgt_pad_id", "bos_id"), last) if last >= 0 else {}


FORMAT = Format(
    name="marian",
    preset="marian",
    signature=r"^model\.decoder\.layers\.0\.encoder_attn\.q_proj\.weight$",
    modules={"src_embedding": ENCODER, **_LAYERS, "tgt_embedding": DECODER, "output": OUTPUT},
    attention={"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"},
    feed_forward={"inner": "fc1", "output": "fc2"},
    revisions=(_SETTINGS,),
    positions=POSITIONS,
    position_axis="flat",
    tensors={"output.bias": Slot(BIAS, row=True)},
    resolve=resolve,
)
