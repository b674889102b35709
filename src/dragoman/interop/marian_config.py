"""``config.json`` of a Hugging Face Marian folder and our settings, both ways.

Source: ``MarianConfig`` and ``MarianMTModel`` of transformers 5. What that class reads and we cannot compute is
refused; what it ignores is ignored here too (``normalize_before``, ``normalize_embedding``, ``add_final_layer_norm``,
``add_bias_logits``, ``static_position_embeddings``, ``extra_pos_embeddings``), as is ``layerdrop``, a matter of
training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.config import ModelConfig

MODEL_TYPE = "marian"
# Their exact GELU has two names.
_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu", "gelu_python": "gelu"}
# What an absent key means: the defaults of MarianConfig. Their type is the type that a value has to have.
_DEFAULTS: dict[str, Any] = {
    "vocab_size": 58101, "d_model": 1024, "max_position_embeddings": 1024, "encoder_layers": 12, "decoder_layers": 12,
    "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "encoder_attention_heads": 16, "decoder_attention_heads": 16,
    "dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0, "activation_function": "gelu",
    "scale_embedding": False, "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True,
    "is_encoder_decoder": True, "pad_token_id": 58100, "decoder_start_token_id": 58100, "eos_token_id": 0,
}  # fmt: skip
# Names that PreTrainedConfig lets a configuration use in place of Marian's.
_OTHER_NAMES = {"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
                "num_hidden_layers": "encoder_layers"}  # fmt: skip
# Our fields whose value is theirs as it is.
_SAME = {
    "src_vocab_size": "vocab_size", "d_model": "d_model", "max_length": "max_position_embeddings",
    "n_heads": "encoder_attention_heads", "n_encoder_layers": "encoder_layers", "n_decoder_layers": "decoder_layers",
    "d_ff": "encoder_ffn_dim", "dropout": "dropout", "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout", "scale_embeddings": "scale_embedding", "src_pad_id": "pad_token_id",
    "tgt_pad_id": "pad_token_id", "bos_id": "decoder_start_token_id", "eos_id": "eos_token_id",
}  # fmt: skip


def model_facts(config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields of :class:`ModelConfig` that ``config.json`` gives, and every reason why they do not say all."""
    given = {_OTHER_NAMES.get(key, key): value for key, value in config.items()}
    reasons = []
    values: dict[str, Any] = {}
    for key, default in _DEFAULTS.items():
        value = given.get(key, default)
        if key == "eos_token_id" and isinstance(value, list) and len(value) == 1:
            value = value[0]
        if type(value) is int and type(default) is float:
            value = float(value)
        if type(value) is not type(default) or (type(value) is int and value < 0):
            reasons.append(f"{key} is {_show(value)}, and it should be {_KINDS[type(default)]}")
            value = default
        values[key] = value
    sizes = values["vocab_size"], given.get("decoder_vocab_size") or values["vocab_size"]
    if type(sizes[1]) is not int:
        reasons.append(f"decoder_vocab_size is {_show(sizes[1])}, and it should be {_KINDS[int]}")
    reasons += _differences(values)
    activation = values["activation_function"]
    if activation not in _ACTIVATIONS:
        reasons.append(f"activation_function is {activation}, and we have {', '.join(_ACTIVATIONS)} only")
    if not values["is_encoder_decoder"]:
        reasons.append("is_encoder_decoder is false, and we translate with both")
    if config.get("quantization_config"):
        reasons.append("quantization_config says that the weights are quantised; give those of full precision")
    facts = {ours: values[theirs] for ours, theirs in _SAME.items()}
    facts |= {
        "tgt_vocab_size": sizes[1],
        "feed_forward": _ACTIVATIONS.get(activation, "silu"),
        "tie_embeddings": _tie(values["share_encoder_decoder_embeddings"], values["tie_word_embeddings"]),
    }
    return facts, reasons


_KINDS: dict[type, str] = {int: "a number of 0 or more", float: "a number", bool: "true or false", str: "a name"}


def _show(value: Any) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _differences(values: Mapping[str, Any]) -> list[str]:
    """Where encoder and decoder have different shapes, which ours cannot."""
    reasons = []
    for name in ("ffn_dim", "attention_heads"):
        encoder, decoder = values[f"encoder_{name}"], values[f"decoder_{name}"]
        if encoder != decoder:
            reasons.append(f"encoder_{name} is {encoder} and decoder_{name} {decoder}, and ours are one")
    return reasons


def _tie(shared: bool, tied: bool) -> str:
    if not tied:
        return "none"
    return "all" if shared else "decoder"


def marian_config(config: ModelConfig, dtype: str) -> dict[str, Any]:
    """``config.json`` for a model whose settings the format can compute; ``dtype`` is that of its weights."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": MODEL_TYPE,
        "dtype": dtype,
        "torch_dtype": dtype,  # the name that transformers 4 knows
        **{theirs: getattr(config, ours) for ours, theirs in _SAME.items()},
        "attention_dropout": config.dropout_of("attention"),
        "activation_dropout": config.dropout_of("activation"),
        "decoder_vocab_size": config.tgt_vocab_size,
        "decoder_ffn_dim": config.d_ff,
        "decoder_attention_heads": config.n_heads,
        "activation_function": config.feed_forward,
        "share_encoder_decoder_embeddings": config.tie_embeddings == "all",
        "tie_word_embeddings": config.tie_embeddings != "none",
        "is_encoder_decoder": True,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "static_position_embeddings": True,
        "use_cache": True,
    }


def id_reasons(config: ModelConfig) -> list[str]:
    """What a Marian folder cannot say about special ids."""
    reasons = []
    if config.src_pad_id != config.tgt_pad_id:
        reasons.append(
            f"src_pad_id is {config.src_pad_id} and tgt_pad_id {config.tgt_pad_id}, and its configuration has one"
        )
    if config.src_bos:
        reasons.append("src_bos is true, and its tokenizer begins no source with <s>")
    if not config.src_eos:
        reasons.append("src_eos is false, and its tokenizer ends every source with </s>")
    return reasons
