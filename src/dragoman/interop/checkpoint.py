"""Finding the weights in what was saved: training checkpoints, and prefixes that wrappers put before every key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from dragoman.errors import ConversionError

_HOLDERS = ("model_state_dict", "state_dict", "model")
_PREFIXES = ("module.", "_orig_mod.")


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
    for holder in _HOLDERS:
        inner = checkpoint.get(holder)
        if isinstance(inner, Mapping) and not any(_is_weight(value) for value in checkpoint.values()):
            return state_dict_of(inner)
    state = {str(key): value for key, value in checkpoint.items()}
    while state and any(all(key.startswith(prefix) for key in state) for prefix in _PREFIXES):
        state = {key.partition(".")[2]: value for key, value in state.items()}
    return state


def _is_weight(value: Any) -> bool:
    """Whether a value of a checkpoint is a tensor with axes: a single number may be its step."""
    return isinstance(value, Tensor) and value.ndim > 0
