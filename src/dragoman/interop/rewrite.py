"""Exact rewritings: another configuration and other tensors that compute the same function.

Each brings one ModelConfig field to a value that a foreign code knows. A scale moved into the embeddings is exact
up to rounding, the others up to the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.interop.format import State


@dataclass(frozen=True)
class Rewrite:
    """What is done (``text``), the field and value it leads to, and how the tensors change."""

    text: str
    field: str
    value: Any
    apply: Callable[[State, ModelConfig], State]

    def __call__(self, state: State, config: ModelConfig) -> tuple[State, ModelConfig]:
        """The rewritten tensors and configuration."""
        return self.apply(state, config), config.changed(**{self.field: self.value})


def towards(config: ModelConfig, name: str, value: Any) -> Rewrite | None:
    """The rewriting that brings a field to ``value``, or None where there is none."""
    make = _REWRITINGS.get(name)
    return None if make is None else make(config, value)


def _untie(config: ModelConfig, value: Any) -> Rewrite | None:
    if value != "none":
        return None
    return Rewrite("the tied matrix is written once for each use", "tie_embeddings", "none", lambda state, _: state)


def _ungroup(config: ModelConfig, value: Any) -> Rewrite | None:
    def repeat(state: State, config: ModelConfig) -> State:
        groups = config.n_heads // config.kv_heads

        def each_head(tensor: Tensor) -> Tensor:
            heads = tensor.reshape(config.kv_heads, -1, *tensor.shape[1:])
            return heads.repeat_interleave(groups, 0).flatten(0, 1)

        grouped = ("attention.key.weight", "attention.key.bias", "attention.value.weight", "attention.value.bias")
        return {name: each_head(tensor) if name.endswith(grouped) else tensor for name, tensor in state.items()}

    if value is not None:
        return None
    return Rewrite("shared key and value heads are repeated", "n_kv_heads", None, repeat)


def _widen_norms(config: ModelConfig, value: Any) -> Rewrite | None:
    def widen(state: State, config: ModelConfig) -> State:
        return {name: tensor.expand(config.d_model) if ".norm." in name else tensor for name, tensor in state.items()}

    if (config.norm, value) != ("std_scalar", "std"):
        return None
    return Rewrite("the one gain and bias of a norm become vectors", "norm", "std", widen)


def _zero_biases(title: str, name: str, *endings: str) -> Callable[[ModelConfig, Any], Rewrite | None]:
    """A rewriting that gives zero biases to the projections of these names (with a dot: these endings)."""

    def meant(projection: str) -> bool:
        return any(projection == ending or ("." in ending and projection.endswith(ending)) for ending in endings)

    def add(state: State, config: ModelConfig) -> State:
        added = dict(state)
        for key, tensor in state.items():
            projection, _, leaf = key.rpartition(".")
            if leaf == "weight" and meant(projection):
                added.setdefault(f"{projection}.bias", tensor.new_zeros(tensor.shape[0]))
        return added

    def make(config: ModelConfig, value: Any) -> Rewrite | None:
        if value not in (True, "qkvo"):
            return None
        return Rewrite(f"{title} get biases of zero", name, True, add)

    return make


def _reorder(config: ModelConfig, value: Any) -> Rewrite | None:
    """Interleaved sinusoids and half/half ones are the same columns in another order, so the model's may follow."""
    kinds = ("sinusoidal", "sinusoidal_halves")
    if config.positions not in kinds or value not in kinds:
        return None
    order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
    if value == "sinusoidal":
        order = torch.argsort(order)
    return Rewrite(
        "the features are permuted for the other order of sinusoids",
        "positions",
        value,
        lambda state, _: {name: _permuted(name, tensor, order) for name, tensor in state.items()},
    )


def _permuted(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """The tensor after its axes of width ``d_model`` on the residual stream have been put into ``order``."""
    out = ("attention.output.weight", "attention.output.bias", "feed_forward.output.weight", "feed_forward.output.bias")
    if name.endswith(out) or ".norm." in name:
        return tensor[order] if len(tensor) > 1 else tensor
    return tensor[:, order] if tensor.ndim == 2 else tensor


def _rescale(config: ModelConfig, value: Any) -> Rewrite | None:
    factor = math.sqrt(config.d_model) ** (-1 if value else 1)

    def rescale(state: State, _: ModelConfig) -> State:
        return {
            name: tensor * factor if name.endswith("_embedding.weight") else tensor for name, tensor in state.items()
        }

    return Rewrite("sqrt(d_model) moves into or out of the embeddings", "scale_embeddings", value, rescale)


_REWRITINGS: dict[str, Callable[[ModelConfig, Any], Rewrite | None]] = {
    "tie_embeddings": _untie,
    "n_kv_heads": _ungroup,
    "norm": _widen_norms,
    "positions": _reorder,
    "scale_embeddings": _rescale,
    "attention_bias": _zero_biases(
        "attention projections",
        "attention_bias",
        *(f"attention.{part}" for part in ("query", "key", "value", "output")),
    ),
    "feed_forward_bias": _zero_biases(
        "feed-forward projections",
        "feed_forward_bias",
        *(f"feed_forward.{part}" for part in ("inner", "value", "output")),
    ),
    "output_bias": _zero_biases("the output projection", "output_bias", "output"),
}
