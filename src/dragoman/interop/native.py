"""Our own weights as a state dict: the keys of :class:`Transformer`, each tied matrix under each of its names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dragoman.bundle import empty_model
from dragoman.config import ModelConfig
from dragoman.errors import ConfigError, ConversionError
from dragoman.interop import infer
from dragoman.interop.checkpoint import state_dict_of
from dragoman.model.transformer import Transformer

NAME = "dragoman"
SIGNATURE = r"^(en|de)coder\.layers\.0\.self_attention_residual\.norm\.weight$|^(src|tgt)_embedding\.weight$"


def read(checkpoint: Mapping[str, Any], dtype: torch.dtype, facts: dict[str, Any]) -> Transformer:
    """The model of these weights; sizes and layers are told from them, all else are fields of :class:`ModelConfig`.

    Raises :class:`ConversionError` that lists every key that is missing, unused or of another shape.
    """
    state = state_dict_of(checkpoint)
    shapes = {key: tensor.shape for key, tensor in state.items() if isinstance(tensor, Tensor)}
    seen = {f"n_{stack}_layers": _layers(shapes, stack) for stack in ("encoder", "decoder")}
    seen.update(infer.sizes(shapes))
    if "n_heads" not in facts:
        raise ConversionError("n_heads is not known from the weights: give it, for example n_heads=8.")
    try:
        model = empty_model(ModelConfig(**{**seen, **facts})).to(dtype)
    except ConfigError as error:
        raise ConversionError(f"cannot read these weights as {NAME}: {error}") from None
    problems = _misfits(state, model.state_dict())
    if problems:
        raise ConversionError(
            f"cannot read these weights as {NAME}: {'; '.join(problems)}; check the format and the facts given."
        )
    model.load_state_dict(state)
    return model.eval()


def write(model: Transformer) -> dict[str, Tensor]:
    """A copy of every tensor, on the CPU."""
    return {key: tensor.detach().to("cpu", copy=True).contiguous() for key, tensor in model.state_dict().items()}


def _layers(keys: Mapping[str, Any], stack: str) -> int:
    found = [re.match(rf"{stack}\.layers\.(\d+)\.", key) for key in keys]
    return 1 + max((int(match[1]) for match in found if match), default=-1)


def _misfits(state: Mapping[str, Any], wanted: Mapping[str, Tensor]) -> list[str]:
    """What is wrong with the keys and shapes, by kind."""
    shared = [key for key in wanted if key in state]
    kinds = {
        "missing": [key for key in wanted if key not in state],
        "unused": [key for key in state if key not in wanted],
        "no tensor of floating-point numbers": [key for key in shared if not _is_float(state[key])],
        "wrong shape": [
            f"{key} is {list(state[key].shape)} and should be {list(wanted[key].shape)}"
            for key in shared
            if _is_float(state[key]) and state[key].shape != wanted[key].shape
        ],
    }
    return [f"{kind}: {', '.join(items)}" for kind, items in kinds.items() if items]


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
