"""Our tensors as CTranslate2's specification of a Transformer: the only file that knows its names.

This module imports ``ctranslate2``; :mod:`dragoman.interop.ctranslate2` does so only when it is needed. Shapes: D
``d_model``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ctranslate2.specs import common_spec, model_spec, transformer_spec
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.interop.format import State

# The activation of a feed-forward part, and whether it gates a second branch.
_ACTIVATIONS = {
    "relu": (common_spec.Activation.RELU, False),
    "gelu": (common_spec.Activation.GELU, False),
    "silu": (common_spec.Activation.SWISH, False),
    "glu": (common_spec.Activation.Sigmoid, True),
    "reglu": (common_spec.Activation.RELU, True),
    "geglu": (common_spec.Activation.GELU, True),
    "swiglu": (common_spec.Activation.SWISH, True),
}

# CTranslate2's scale for int16 is the inverse of the largest value, so that one must not be zero.
_NEXT_TO_ZERO = 1e-30


class _Variable(model_spec.PyTorchVariable):  # type: ignore[misc]  # the library has no types
    """A tensor of ours that stays as it is: quantisation gets a copy, a tensor at a time, and writing none."""

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values, free to be changed."""
        values = np.array(self.tensor.numpy())
        if values.ndim == 2 and not values.any():
            values[0, 0] = _NEXT_TO_ZERO
        return values

    def to_bytes(self) -> memoryview:
        """The values as they lie in memory."""
        return memoryview(self.tensor.reshape(-1).view(torch.uint8).numpy())


def make_spec(state: State, config: ModelConfig, *, pre_norm: tuple[bool, bool]) -> Any:
    """The specification, complete but for its vocabularies and its ``config``.

    ``state`` and ``config`` are those of a model that the plan's rewritings have been applied to; ``pre_norm`` says
    of the encoder's and of the decoder's layers where their norms stand.
    """
    activation, gated = _ACTIVATIONS[config.feed_forward]
    common: dict[str, Any] = {
        "no_final_norm": True,
        "activation": activation,
        "ffn_glu": gated,
        "rms_norm": config.norm == "rms",
        "num_heads_kv": None if config.kv_heads == config.n_heads else config.kv_heads,
        "rotary_dim": 0 if config.positions == "rotary" else None,
    }
    encoder = transformer_spec.TransformerEncoderSpec(
        config.n_encoder_layers, config.n_heads, pre_norm=pre_norm[0], **common
    )
    decoder = transformer_spec.TransformerDecoderSpec(
        config.n_decoder_layers, config.n_heads, pre_norm=pre_norm[1], **common
    )
    for name, stack in (("encoder", encoder), ("decoder", decoder)):
        for number, layer in enumerate(stack.layer):
            _fill_layer(layer, state, f"{name}.layers.{number}")
        stack.scale_embeddings = config.scale_embeddings
        if config.final_norm:
            # Its own constructor knows a final norm after pre-norm layers only; its code has one where there is one.
            final = common_spec.LayerNormSpec(rms_norm=config.norm == "rms")
            _fill_norm(final, state, f"{name}.norm")
            object.__setattr__(stack, "layer_norm", final)
    encoder.embeddings[0].weight = _variable(state["src_embedding.weight"])
    decoder.embeddings.weight = _variable(state["tgt_embedding.weight"])
    if config.positions != "rotary":
        encoder.position_encodings.encodings = _variable(state["src_positions.weight"])
        decoder.position_encodings.encodings = _variable(state["tgt_positions.weight"])
    _fill_linear(decoder.projection, state, "output")
    return transformer_spec.TransformerSpec(encoder, decoder)


def _fill_layer(layer: Any, state: State, name: str) -> None:
    own = f"{name}.self_attention"
    _fill_linear(layer.self_attention.linear[0], state, f"{own}.query", f"{own}.key", f"{own}.value")
    _fill_linear(layer.self_attention.linear[1], state, f"{own}.output")
    _fill_norm(layer.self_attention.layer_norm, state, f"{own}_residual.norm")
    if hasattr(layer, "attention"):
        source = f"{name}.cross_attention"
        _fill_linear(layer.attention.linear[0], state, f"{source}.query")
        _fill_linear(layer.attention.linear[1], state, f"{source}.key", f"{source}.value")
        _fill_linear(layer.attention.linear[2], state, f"{source}.output")
        _fill_norm(layer.attention.layer_norm, state, f"{source}_residual.norm")
    _fill_linear(layer.ffn.linear_0, state, f"{name}.feed_forward.inner")
    if hasattr(layer.ffn, "linear_0_noact"):
        _fill_linear(layer.ffn.linear_0_noact, state, f"{name}.feed_forward.value")
    _fill_linear(layer.ffn.linear_1, state, f"{name}.feed_forward.output")
    _fill_norm(layer.ffn.layer_norm, state, f"{name}.feed_forward_residual.norm")


def _fill_linear(linear: Any, state: State, *names: str) -> None:
    """One projection, or several on top of each other; of those, one without a bias gets a bias of zeros."""
    weights = [state[f"{name}.weight"] for name in names]
    linear.weight = _variable(weights[0] if len(weights) == 1 else torch.cat(weights))
    biases = [state.get(f"{name}.bias") for name in names]
    if any(bias is not None for bias in biases):
        zeros = [weight.new_zeros(len(weight)) for weight in weights]
        filled = [zero if bias is None else bias for zero, bias in zip(zeros, biases, strict=True)]
        linear.bias = _variable(torch.cat(filled))


def _fill_norm(norm: Any, state: State, name: str) -> None:
    norm.gamma = _variable(state[f"{name}.weight"])
    if f"{name}.bias" in state:
        norm.beta = _variable(state[f"{name}.bias"])


def _variable(tensor: Tensor) -> _Variable:
    return _Variable(tensor.to("cpu", torch.float32))
