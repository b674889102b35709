"""What the weights tell about a model: sizes, biases, kinds of norm.

The majority speaks, so that one odd tensor is found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import torch

from dragoman.interop.format import Format, Slot

Shapes = Mapping[str, torch.Size]

_BIAS_LETTERS = {"q": "query", "k": "key", "v": "value", "o": "output"}
_GATED = ("glu", "bilinear", "reglu", "geglu", "swiglu")


def count_layers(fmt: Format, keys: Collection[str], stack: str) -> int:
    """Layers of the ``encoder`` or ``decoder`` stack: the highest number that a key has, plus one."""
    prefixes = {theirs.partition("*")[0] for ours, theirs in fmt.modules.items() if ours.startswith(f"{stack}.layers.")}
    numbers = [-1]
    for key in keys:
        for prefix in prefixes:
            digits = key[len(prefix) :].partition(".")[0] if key.startswith(prefix) else ""
            # A number above the count of keys cannot be a layer's: it is left to be reported as unused.
            if digits.isdecimal() and int(digits) < len(keys):
                numbers.append(int(digits))
    return max(numbers) + 1


def our_shapes(slots: Mapping[str, Slot], tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    """The shape that each tensor of ours would get."""
    shapes = {}
    for name, slot in slots.items():
        tensor = tensors.get(slot.key)
        if tensor is not None and tensor.ndim:
            shapes[name] = slot.ours(tensor.shape)
    return shapes


def sizes(shapes: Shapes) -> dict[str, int]:
    """``d_model``, ``d_ff`` and the vocabularies, as far as the shapes show them."""

    def common(axis: int, names: str) -> int | None:
        counts = Counter(shape[axis] for name, shape in shapes.items() if re.search(names, name) and len(shape) > axis)
        return counts.most_common(1)[0][0] if counts else None

    found = {
        "d_model": common(1, r"_embedding\.weight$|\.(query|key|value|inner)\.weight$"),
        "d_ff": common(0, r"\.inner\.weight$"),
        "src_vocab_size": common(0, r"^src_embedding\.weight$"),
        "tgt_vocab_size": common(0, r"^tgt_embedding\.weight$|^output\."),
    }
    return {name: size for name, size in found.items() if size is not None}


def settings(fmt: Format, shapes: Shapes) -> dict[str, Any]:
    """The ModelConfig fields that keys and shapes decide between the values that the format allows.

    A gated feed-forward part gives ``feed_forward: None``: which gate it has, the weights cannot tell.
    """

    def most(ending: str, beside: str) -> bool:
        """Whether tensors with this ending stand beside at least half of the others."""
        pairs = [name.removesuffix(beside) + ending for name in shapes if name.endswith(beside)]
        return sum(name in shapes for name in pairs) * 2 > len(pairs)

    found: dict[str, Any] = {}
    gains = Counter(shape.numel() for name, shape in shapes.items() if name.endswith("norm.weight"))
    if "std_scalar" in fmt.allowed("norm") and gains:
        found["norm"] = "std_scalar" if gains.most_common(1)[0][0] == 1 else "std"
    letters = "".join(
        letter for letter, part in _BIAS_LETTERS.items() if most(f"attention.{part}.bias", f"attention.{part}.weight")
    )
    observed = {
        "attention_bias": letters,
        "feed_forward_bias": most("feed_forward.inner.bias", "feed_forward.inner.weight"),
        "final_norm": bool({"encoder.norm.weight", "decoder.norm.weight"} & set(shapes)),
        "output_bias": "output.bias" in shapes or "output.weight" not in shapes,
    }
    for name, value in observed.items():
        allowed = fmt.allowed(name)
        if not allowed or (len(allowed) > 1 and value in allowed):
            found[name] = value
    if fmt.allowed("feed_forward") & set(_GATED) and most("feed_forward.value.weight", "feed_forward.inner.weight"):
        found["feed_forward"] = None
    return found
