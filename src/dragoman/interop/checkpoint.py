"""Finding the weights in what was saved: training checkpoints, and prefixes that wrappers put before every key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import ConversionError

_HOLDERS = ("model_state_dict", "state_dict", "model")
_PREFIXES = ("module.", "_orig_mod.")
# Weights lie one mapping deep, or two where one training code wraps another.
_DEPTH = 8
# Keys that an error names of many.
_SHOWN = 8


def state_dict_of(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """The state dict in a checkpoint (``{epoch, model_state_dict, …}``, ``{"model": …}``), or the mapping itself.

    ``module.`` (data parallel) and ``_orig_mod.`` (compiled) are taken off where every key has them. Raises
    :class:`ConversionError` for what is no mapping of names.
    """
    if not isinstance(checkpoint, Mapping):
        raise ConversionError(
            f"weights are a mapping of names to tensors, and this is a {type(checkpoint).__name__}; "
            "save model.state_dict() and give that."
        )
    for _ in range(_DEPTH):
        inner = _held(checkpoint)
        if inner is None:
            break
        checkpoint = inner
    else:
        raise ConversionError(
            f"the weights lie more than {_DEPTH} mappings deep; save model.state_dict() and give that file."
        )
    state = {str(key): value for key, value in checkpoint.items()}
    if len(state) < len(checkpoint):
        raise ConversionError("two keys of these weights have one name; save model.state_dict() and give that file.")
    while state and any(all(key.startswith(prefix) for key in state) for prefix in _PREFIXES):
        state = {key.partition(".")[2]: value for key, value in state.items()}
    return state


def _held(checkpoint: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The mapping that a checkpoint holds its weights in, the first that is not empty; None for weights themselves."""
    if any(_is_weight(value) for value in checkpoint.values()):
        return None
    found = [inner for holder in _HOLDERS if isinstance(inner := checkpoint.get(holder), Mapping)]
    return next(filter(None, found), found[0] if found else None)


def _is_weight(value: Any) -> bool:
    """Whether a value of a checkpoint is a tensor with axes: a single number may be its step."""
    return isinstance(value, Tensor) and (value.is_nested or value.ndim > 0)


def flaw_of(value: Any) -> str | None:
    """What a value is instead of a tensor of floating-point numbers, or None."""
    if not isinstance(value, Tensor):
        return f"{type(value).__name__}, not floating-point numbers"
    if value.is_nested:
        return "a nested tensor, not one of a single shape"
    if value.is_quantized or not value.is_floating_point():
        return f"{value.dtype}, not floating-point numbers"
    if value.layout != torch.strided:
        return f"a sparse tensor ({value.layout}), not floating-point numbers one by one"
    if value.is_meta:
        return "a shape without numbers (device meta)"
    try:
        weight_of(value)
    except (RuntimeError, NotImplementedError):  # either, depending on the type
        return f"{value.dtype}, which PyTorch cannot convert"
    return None


def weight_of(value: Tensor) -> Tensor:
    """The tensor in a type that PyTorch compares: eight-bit floats become float32."""
    value = value.detach()
    return value.float() if value.dtype.itemsize == 1 else value


def is_finite(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Whether all numbers are, and stay so as ``dtype``."""
    if not tensor.numel():
        return True
    limit = torch.finfo(dtype).max
    least, most = (float(value) for value in tensor.aminmax())
    return least >= -limit and most <= limit  # NaN is neither


def some_of(keys: Iterable[str]) -> list[str]:
    """The first keys, and how many more there are."""
    keys = list(keys)
    return keys[:_SHOWN] + [f"and {len(keys) - _SHOWN} more"] * (len(keys) > _SHOWN)
