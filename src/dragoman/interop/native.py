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
from dragoman.interop.checkpoint import flaw_of, is_finite, some_of, state_dict_of, weight_of
from dragoman.interop.read import beyond, no_keys
from dragoman.model.transformer import Transformer

NAME = "dragoman"
SIGNATURE = r"^(en|de)coder\.layers\.0\.self_attention_residual\.norm\.weight$|^(src|tgt)_embedding\.weight$"
_OURS = re.compile(
    r"(src|tgt)_(embedding|positions)\.|(en|de)coder\.(layers\.\d+\.\w+_(attention|forward)|norm)|output\."
)


def read(
    checkpoint: Mapping[str, Any], dtype: torch.dtype, facts: dict[str, Any], where: str = "these weights"
) -> Transformer:
    """The model of these weights; sizes and layers are told from them, all else are fields of :class:`ModelConfig`.

    Raises :class:`ConversionError` that lists every key that is missing, unused or of another shape; ``where`` names
    the weights in it.
    """
    state = state_dict_of(checkpoint)
    if state and not any(_OURS.match(key) for key in state):
        raise no_keys(NAME, state, where)
    flaws = {key: flaw for key, value in state.items() if (flaw := flaw_of(value))}
    tensors = {key: weight_of(value) for key, value in state.items() if key not in flaws}
    problems = [f"no tensor of floating-point numbers: {key} ({flaw})" for key, flaw in flaws.items()]
    seen = {f"n_{stack}_layers": _layers(state, stack) for stack in ("encoder", "decoder")}
    seen.update(infer.sizes({key: tensor.shape for key, tensor in tensors.items()}))
    facts = dict(facts)
    for name in [name for name in seen if facts.get(name, seen[name]) != seen[name]]:
        problems.append(f"{name}={facts.pop(name)} was said, and the weights have {seen[name]}")
    problems += beyond(facts)
    if "n_heads" not in facts:
        problems.append("n_heads is not known from the weights: give it, for example n_heads=8")
    try:
        ids = [number for name, number in facts.items() if name.endswith("_id") and isinstance(number, int)]
        least = max([4, *(number + 1 for number in ids)])
        config = ModelConfig(**{"n_heads": 1, "src_vocab_size": least, "tgt_vocab_size": least, **seen, **facts})
        problems += _misfits(state, tensors, empty_model(config, "meta").state_dict())
    except ConfigError as error:
        problems.append(str(error).rstrip("."))
    odd = [key for key, tensor in tensors.items() if not is_finite(tensor, dtype)]
    if odd:
        problems.append(f"with numbers that are not finite: {', '.join(some_of(odd))}")
    if problems:
        raise ConversionError(
            f"cannot read {where} as {NAME}: {'; '.join(problems)}; check the format and the facts given."
        )
    model = empty_model(config).to(dtype)
    model.load_state_dict(tensors)
    return model.eval()


def write(model: Transformer) -> dict[str, Tensor]:
    """A copy of every tensor, on the CPU."""
    return {key: tensor.detach().to("cpu", copy=True).contiguous() for key, tensor in model.state_dict().items()}


def _layers(keys: Mapping[str, Any], stack: str) -> int:
    found = [re.match(rf"{stack}\.layers\.(\d{{1,9}})\.", key) for key in keys]
    # A number above the count of keys cannot be a layer's: it is left to be reported as unused.
    return 1 + max((number for match in found if match and (number := int(match[1])) < len(keys)), default=-1)


def _misfits(state: Mapping[str, Any], tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[str]:
    """What is wrong with the keys and shapes, by kind."""
    kinds = {
        "missing": [key for key in wanted if key not in state],
        "unused": [key for key in state if key not in wanted],
        "wrong shape": [
            f"{key} is {list(tensors[key].shape)} and should be {list(wanted[key].shape)}"
            for key in wanted
            if key in tensors and tensors[key].shape != wanted[key].shape
        ],
    }
    return [f"{kind}: {', '.join(items)}" for kind, items in kinds.items() if items]
