"""``torch.nn.Transformer``: post-norm unless told otherwise, packed projections, a final norm in either case.

It has no embeddings, positions or projection. Facts name the keys of those in a model built around it:
``src_embedding``, ``tgt_embedding``, ``generator`` (a module's name, or its ``.weight`` key) and ``positions`` (a
key, or one for each side; or a kind of ``ModelConfig.positions`` where the weights have no such key). ``encoder``
and ``decoder`` name the stacks; on import they are found. Without those facts the stacks alone are read or written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from dragoman.interop.format import Format, Settings, Slot, Variant

_KINDS = ("sinusoidal", "sinusoidal_halves", "learned", "none")
_AROUND = ("src_embedding", "tgt_embedding", "generator")

_BIASED: Settings = {
    "n_kv_heads": (None,),
    "norm": ("layer",),
    "final_norm": (True, False),
    "positions": ("sinusoidal", "sinusoidal_halves", "learned", "none", "table"),
    "attention_bias": ("qkvo",),
    "feed_forward": ("relu", "gelu", "silu"),
    "feed_forward_bias": (True,),
}
# nn.Transformer(bias=False) has norms without bias too. They are read as zeros; writing goes to the biased form.
_UNBIASED: Settings = {**_BIASED, "attention_bias": ("",), "feed_forward_bias": (False,)}


def _stacks(encoder: str, decoder: str) -> dict[str, str]:
    return {
        "encoder.layers.*.self_attention": f"{encoder}layers.*.self_attn",
        "encoder.layers.*.self_attention_residual.norm": f"{encoder}layers.*.norm1",
        "encoder.layers.*.feed_forward": f"{encoder}layers.*",
        "encoder.layers.*.feed_forward_residual.norm": f"{encoder}layers.*.norm2",
        "encoder.norm": f"{encoder}norm",
        "decoder.layers.*.self_attention": f"{decoder}layers.*.self_attn",
        "decoder.layers.*.self_attention_residual.norm": f"{decoder}layers.*.norm1",
        "decoder.layers.*.cross_attention": f"{decoder}layers.*.multihead_attn",
        "decoder.layers.*.cross_attention_residual.norm": f"{decoder}layers.*.norm2",
        "decoder.layers.*.feed_forward": f"{decoder}layers.*",
        "decoder.layers.*.feed_forward_residual.norm": f"{decoder}layers.*.norm3",
        "decoder.norm": f"{decoder}norm",
    }


def resolve(facts: dict[str, Any], keys: Collection[str] | None) -> tuple[Format, dict[str, Any], list[str]]:
    """The table for these facts, the facts that are left, and what is wrong; ``keys`` is None on export."""
    facts = dict(facts)
    problems = _not_names(facts)
    if keys is not None and facts.get("variant") in ("pre_norm", "post_norm"):
        first = facts["variant"] == "pre_norm"
        if facts.setdefault("norm_first", first) is not first:
            problems.append(f"variant={facts['variant']} and norm_first={facts['norm_first']} contradict each other")
    encoder, decoder = _stack_names(facts, keys, problems)
    modules = _stacks(encoder, decoder)
    named = [name for name in _AROUND if name in facts]
    if named and len(named) < len(_AROUND):
        problems.append(f"{', '.join(_AROUND)} belong together, and only {', '.join(named)} was named")
    for name in named:
        modules["output" if name == "generator" else name] = str(facts.pop(name)).removesuffix(".weight")
    if len(named) == len(_AROUND):
        facts.setdefault("tie_embeddings", _tie(modules))
    fmt = replace(FORMAT, modules=modules, positions=_position_keys(facts, keys, problems))
    if keys is not None:
        fmt = replace(fmt, revisions=(_BIASED, _UNBIASED))
        if not any(re.search(r"\.norm1\.bias$", key) for key in keys):
            fmt = replace(fmt, norm={"weight": "weight"})
    return fmt, facts, problems


def _not_names(facts: dict[str, Any]) -> list[str]:
    """Takes out of the facts those that should name keys and do not; what is wrong with them."""
    problems = []
    for name in (*_AROUND, "encoder", "decoder"):
        # The stacks may stand at the root of the names.
        if name in facts and not (isinstance(facts[name], str) and (facts[name] or name not in _AROUND)):
            problems.append(f"{name} should name a module, and {facts.pop(name)!r} is no name")
    return problems


def stack_facts(keys: Collection[str]) -> dict[str, str]:
    """The facts that name the stacks of these weights, as far as their keys tell."""
    encoder, decoder = _stack_names({}, keys, [])
    return {"encoder": encoder.removesuffix("."), "decoder": decoder.removesuffix(".")}


def _stack_names(facts: dict[str, Any], keys: Collection[str] | None, problems: list[str]) -> tuple[str, str]:
    """The prefixes of the encoder's and the decoder's keys."""
    found: dict[str, list[str]] = {"encoder": [], "decoder": []}
    for key in sorted(keys or ()):
        match = re.match(r"(.*\.|)layers\.0\.self_attn\.in_proj_weight$", key)
        if match:
            source = f"{match[1]}layers.0.multihead_attn.in_proj_weight" in (keys or ())
            found["decoder" if source else "encoder"].append(match[1])
    names = []
    for stack, prefixes in found.items():
        if len(prefixes) > 1 and stack not in facts:
            problems.append(f"{' and '.join(prefixes)} may each be the {stack}; name one with {stack}=")
        names.append(prefix_of(facts.pop(stack)) if stack in facts else prefixes[0] if prefixes else f"{stack}.")
    return names[0], names[1]


def prefix_of(stack: str) -> str:
    """What the keys of a stack of this name begin with."""
    return f"{stack.removesuffix('.')}." if stack else ""


def _tie(modules: Mapping[str, str]) -> str:
    if modules["output"] != modules["tgt_embedding"]:
        return "none"
    return "all" if modules["src_embedding"] == modules["tgt_embedding"] else "decoder"


def _position_keys(facts: dict[str, Any], keys: Collection[str] | None, problems: list[str]) -> tuple[str, str] | None:
    """The keys that ``positions`` names; a kind of positions is left among the facts."""
    given = facts.get("positions")
    if given is None or (isinstance(given, str) and given in _KINDS):
        return None
    del facts["positions"]
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list | tuple) or len(parts) not in (1, 2) or not all(_is_name(part) for part in parts):
        problems.append("positions names one key, or the source's and the target's with a comma between")
        return None
    named = [part if keys is None or part in keys else f"{part}.weight" for part in parts]
    problems.extend(
        f"positions names {part}, and no key is called so"
        for part, key in zip(parts, named, strict=True)
        if keys is not None and key not in keys
    )
    return named[0], named[-1]


def _is_name(part: Any) -> bool:
    return isinstance(part, str) and part != ""


FORMAT = Format(
    name="torch",
    preset="torch",
    signature=r"(^|\.)layers\.0\.self_attn\.in_proj_weight$",
    modules=_stacks("encoder.", "decoder."),
    attention={
        "query": Slot("in_proj_", 0, 3),
        "key": Slot("in_proj_", 1, 3),
        "value": Slot("in_proj_", 2, 3),
        "output": "out_proj",
    },
    feed_forward={"inner": "linear1", "output": "linear2"},
    revisions=(_BIASED,),
    variants={"post_norm": Variant(), "pre_norm": Variant()},
    partial=True,
    # Both stacks of PyTorch's look into their first layer.
    least_layers=1,
    facts=(*_AROUND, "positions", "encoder", "decoder", "variant"),
    resolve=resolve,
)
