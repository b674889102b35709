"""Foreign weights in: a state dict becomes an ordinary :class:`Transformer`, or one error lists all that is wrong."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dragoman.bundle import MOST_POSITIONS, empty_model, fill
from dragoman.config import ModelConfig
from dragoman.errors import ConfigError, ConversionError, nearest
from dragoman.interop import infer
from dragoman.interop.checkpoint import flaw_of, is_finite, some_of, state_dict_of, weight_of
from dragoman.interop.format import Format, Slot, State, Variant, computes, refusal, same
from dragoman.interop.positions import PositionTables
from dragoman.model.transformer import Transformer
from dragoman.presets import PRESETS

# What ``tie_embeddings`` may make one matrix.
_EMBEDDING = re.compile(r"((src|tgt)_embedding|output)\.(weight|bias)$")
_IDS = ("src_pad_id", "tgt_pad_id", "bos_id", "eos_id")
_SIZES = ("d_model", "d_ff", "src_vocab_size", "tgt_vocab_size", "n_encoder_layers", "n_decoder_layers")
_NUMBERS = (*_SIZES, "max_length", *_IDS)


@dataclass
class Problems:
    """All that is wrong with an import, by kind."""

    missing: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    wrong_shape: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    not_finite: list[str] = field(default_factory=list)

    def raise_any(self, name: str, where: str) -> None:
        """Raise one :class:`ConversionError` with everything in it, if there is anything."""
        parts = []
        for title, items in (
            ("missing", self.missing),
            ("unused", self.unused),
            ("wrong shape", self.wrong_shape),
            ("unsupported", self.unsupported),
            ("with numbers that are not finite", some_of(self.not_finite)),
        ):
            if items:
                parts.append(f"{title}: {', '.join(dict.fromkeys(items))}")
        if parts:
            raise ConversionError(
                f"cannot read {where} as {name}: {'; '.join(parts)}; check the format and the facts given."
            )


def read(
    fmt: Format,
    checkpoint: Mapping[str, Any],
    dtype: torch.dtype,
    facts: dict[str, Any],
    where: str = "these weights",
) -> Transformer:
    """The model that the weights make, in evaluation mode. The caller's tensors are copied, never changed.

    ``where`` names the weights in errors.
    """
    problems = Problems()
    facts = dict(facts)
    tensors = _tensors(state_dict_of(checkpoint), dtype, problems)
    fmt, facts, wrong = fmt.resolved(facts, tensors)
    problems.unsupported.extend(wrong)
    _fold_aliases(fmt.aliases, tensors, problems)
    layers = {f"n_{stack}_layers": infer.count_layers(fmt, tensors, stack) for stack in ("encoder", "decoder")}
    slots = fmt.slots(layers["n_encoder_layers"], layers["n_decoder_layers"])
    if not any(slot.key in tensors for slot in slots.values()):
        if not tensors:
            problems.raise_any(fmt.name, where)
        raise no_keys(fmt.name, tensors, where)
    tables = PositionTables(fmt, tensors)
    problems.wrong_shape.extend(tables.wrong_shape)
    problems.unsupported.extend(tables.unsupported)
    variant = _variant(fmt, facts, problems)
    shapes = infer.our_shapes(slots, tensors)
    seen: dict[str, Any] = {**layers, **infer.sizes(shapes), **infer.settings(fmt, shapes), **tables.seen()}
    if variant.table is not None:
        seen["positions"] = "table"
    try:
        config = _config(fmt, seen, facts, problems)
    except ConfigError:  # the weights alone make none: a matrix without rows
        problems.raise_any(fmt.name, where)
        raise
    _check_settings(fmt, config, problems)
    model = empty_model(config, "meta")
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    table = variant.table(config.max_length, config.d_model) if variant.table is not None else None
    state = _position_state(fmt, config, tables, table, problems)
    _check_keys(slots, tensors, expected, set(tables.keys), problems)
    _check_tie(config, slots, tensors, problems)
    _check_uses(slots, set(tables.keys), problems)
    problems.raise_any(fmt.name, where)
    for name in expected:
        if name not in state:
            state[name] = _value(slots.get(name), tensors, expected[name])
    fill(model, {name: tensor.to("cpu", dtype, copy=True).contiguous() for name, tensor in state.items()})
    if variant.note:
        warnings.warn(f"these {fmt.name} weights are read with a fault kept: {variant.note}.", stacklevel=3)
    return model.eval()


def no_keys(name: str, keys: Collection[str], where: str) -> ConversionError:
    """The error for weights of which no key is one of the format's."""
    some = f" ({', '.join(some_of(keys))})" if keys else ""
    return ConversionError(
        f"none of the {len(keys)} keys of {where}{some} is one of {name}'s; give the format that the weights have."
    )


def _tensors(state_dict: Mapping[str, Any], dtype: torch.dtype, problems: Problems) -> dict[str, Tensor]:
    """The entries that are tensors of numbers; the others, and those with numbers that are not finite, are listed."""
    tensors = {}
    for key, value in state_dict.items():
        if flaw := flaw_of(value):
            problems.unsupported.append(f"{key} holds {flaw}")
            continue
        tensors[key] = weight_of(value)
        if not is_finite(tensors[key], dtype):
            problems.not_finite.append(key)
    return tensors


def _fold_aliases(aliases: Mapping[str, tuple[str, ...]], tensors: dict[str, Tensor], problems: Problems) -> None:
    """Leave what has several keys under the first of them, where all that are there agree."""
    for key, others in aliases.items():
        for other in others:
            if other not in tensors:
                continue
            tensor = tensors.pop(other)
            if not same(tensors.setdefault(key, tensor), tensor):
                problems.unsupported.append(f"{key} and {other} differ, and its code has one matrix for both")


def _variant(fmt: Format, facts: dict[str, Any], problems: Problems) -> Variant:
    """The variant asked for, or the first."""
    known = list(fmt.variants)
    chosen = str(facts.pop("variant", known[0] if known else ""))
    if chosen in known:
        return fmt.variants[chosen]
    if chosen:
        problems.unsupported.append(f'no variant is called "{chosen}"{nearest(chosen, known)}')
    return Variant()


def _config(fmt: Format, seen: dict[str, Any], facts: dict[str, Any], problems: Problems) -> ModelConfig:
    """The configuration that preset, weights and facts give together; where they contradict, the weights alone."""
    for name in [name for name in facts if name not in ModelConfig.model_fields]:
        problems.unsupported.append(f'unknown fact "{name}"{nearest(name, [*ModelConfig.model_fields, *fmt.facts])}')
        del facts[name]
    problems.unsupported.extend(beyond(facts))
    for name in [name for name in _SIZES if name in facts]:
        if name in seen and facts[name] != seen[name]:
            problems.unsupported.append(f"{name}={facts[name]} was said, and the weights have {seen[name]}")
            del facts[name]
    kind = seen.get("positions")
    if kind not in (None, "table") and facts.get("positions", kind) not in (kind, "learned"):
        problems.unsupported.append(f"positions={facts['positions']} was said, and the weights hold {kind} ones")
    if "n_heads" not in facts:
        problems.unsupported.append("n_heads is not known from the weights: give it, for example n_heads=8")
    gated = "feed_forward" in seen and seen.pop("feed_forward") is None
    if gated and "feed_forward" not in facts:
        problems.unsupported.append("the feed-forward part is gated: say which gate with feed_forward=")
    if seen.get("attention_bias") in ("", "qkvo"):
        seen["attention_bias"] = seen["attention_bias"] == "qkvo"
    safe = {**PRESETS[fmt.preset], "n_heads": 1, **({"feed_forward": "swiglu"} if gated else {}), **seen}
    safe = {"d_model": 1, "d_ff": 1, **safe}
    ids = {name: facts.get(name, safe.get(name, 3)) for name in _IDS}
    least = 1 + max((value for value in ids.values() if isinstance(value, int)), default=3)
    safe = {"src_vocab_size": least, "tgt_vocab_size": least, **safe}
    try:
        return ModelConfig(**{**safe, **facts})
    except ConfigError as error:
        problems.unsupported.append(str(error).rstrip("."))
        return ModelConfig(**{**safe, **dict.fromkeys(ids, 0)})


def beyond(facts: dict[str, Any]) -> list[str]:
    """Takes sizes and ids out of the facts for which no machine has room; what is wrong with them."""
    found = [
        name for name in _NUMBERS if isinstance(facts.get(name), int | float) and not facts[name] <= MOST_POSITIONS
    ]
    return [f"{name}={facts.pop(name)} is beyond any model: give {MOST_POSITIONS} at most" for name in found]


def _check_settings(fmt: Format, config: ModelConfig, problems: Problems) -> None:
    """The revision that fits best must fit; a tie is checked on the weights themselves."""
    fields = [
        [name for name in revision if name != "tie_embeddings" and not computes(revision, config, name)]
        for revision in fmt.revisions
    ]
    best = min(range(len(fields)), key=lambda index: len(fields[index]))
    as_good = [revision for revision, names in zip(fmt.revisions, fields, strict=True) if {*names} <= {*fields[best]}]
    problems.unsupported.extend(refusal(fmt.revisions[best], config, name, as_good) for name in fields[best])


def _position_state(
    fmt: Format, config: ModelConfig, tables: PositionTables, table: Tensor | None, problems: Problems
) -> State:
    """Our learned or fixed tables: the variant's ``table``, or those that came with the weights."""
    for side, found in tables.tables.items():
        rows = config.max_length if config.positions == "learned" else found.shape[0]
        if list(found.shape) != [rows, config.d_model]:
            key = (fmt.positions or ("", ""))[side == "tgt"]
            problems.wrong_shape.append(f"{key} holds {list(found.shape)} and should hold {[rows, config.d_model]}")
    if config.positions == "table" and table is not None:
        return {f"{side}_positions.weight": table for side in ("src", "tgt")}
    if config.positions != "learned":
        return {}
    if fmt.positions is None:
        problems.unsupported.append("positions are learned, and no key for them was named")
    problems.missing.extend(key for key in fmt.positions or () if key not in tables.keys)
    return {f"{side}_positions.weight": found for side, found in tables.tables.items()}


def _check_keys(
    slots: Mapping[str, Slot],
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, torch.Size],
    used: set[str],
    problems: Problems,
) -> None:
    """Every key is used, every tensor of ours is set, every shape fits; ``used`` are the keys of positions."""
    for name, shape in expected.items():
        slot = slots.get(name)
        if slot is None:
            continue
        used.add(slot.key)
        whole = slot.whole(shape)
        if slot.key not in tensors:
            problems.missing.append(slot.key)
        elif tensors[slot.key].shape != whole:
            found = list(tensors[slot.key].shape)
            problems.wrong_shape.append(f"{slot.key} is {found} and should be {list(whole)}")
    problems.unused.extend(key for key in tensors if key not in used)


def _check_tie(
    config: ModelConfig, slots: Mapping[str, Slot], tensors: Mapping[str, Tensor], problems: Problems
) -> None:
    """Matrices that shall be one must be equal."""
    tied = {"none": (), "decoder": ("tgt_embedding",), "all": ("tgt_embedding", "src_embedding")}[config.tie_embeddings]
    for name in tied:
        keys = [slots[part].key for part in (f"{name}.weight", "output.weight") if part in slots]
        if len(keys) == 2 and all(key in tensors for key in keys) and not torch.equal(*(tensors[key] for key in keys)):
            problems.unsupported.append(f"tie_embeddings is {config.tie_embeddings}, and {' and '.join(keys)} differ")


def _check_uses(slots: Mapping[str, Slot], positions: set[str], problems: Problems) -> None:
    """No key stands for two things, but for matrices that are tied; facts could name one twice."""
    uses = Counter((slot.key, slot.part) for name, slot in slots.items() if not _EMBEDDING.match(name))
    for keys in ({slot.key for name, slot in slots.items() if _EMBEDDING.match(name)}, positions):
        uses.update((key, 0) for key in keys)
    twice = [key for (key, _), count in uses.items() if count > 1]
    problems.unsupported.extend(f"{key} was named for two things" for key in twice)


def _value(slot: Slot | None, tensors: Mapping[str, Tensor], shape: torch.Size) -> Tensor:
    """The tensor in a slot; a new one where the format has none: zeros for a bias, N(0, 1/D) for a matrix."""
    if slot is not None:
        return slot.take(tensors[slot.key])
    return torch.zeros(shape) if len(shape) == 1 else torch.empty(shape).normal_(std=1.0 / math.sqrt(shape[1]))
