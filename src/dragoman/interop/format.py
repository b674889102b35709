"""What a foreign format is: a two-way table of keys, and the settings that its code can compute.

A table names modules; the leaves below an attention, a feed-forward part and a norm are said once. ``*`` stands
for the number of a layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from dragoman.config import ModelConfig

Settings = Mapping[str, tuple[Any, ...]]
State = dict[str, Tensor]
Axis = int | Literal["flat"] | None


@dataclass(frozen=True)
class Slot:
    """Where one of our tensors stands: a foreign key, or the slice ``part`` of ``of`` equal slices of its rows.

    ``row``: a vector of ours stands there as the only row of a matrix, [1,N].
    """

    key: str
    part: int = 0
    of: int = 1
    row: bool = False

    def whole(self, ours: torch.Size) -> torch.Size:
        """The shape under the key for a tensor of ours of this shape."""
        return torch.Size((1, *ours)) if self.row else torch.Size((ours[0] * self.of, *ours[1:]))

    def ours(self, whole: torch.Size) -> torch.Size:
        """The shape that a tensor of ours has where the key holds this shape of at least one axis."""
        return whole[1:] if self.row and len(whole) > 1 else torch.Size((whole[0] // self.of, *whole[1:]))

    def take(self, whole: Tensor) -> Tensor:
        """Our tensor out of what the key holds."""
        return whole[0] if self.row else whole.chunk(self.of)[self.part]


@dataclass(frozen=True)
class Variant:
    """A reading of the same weights with another position table; ``note`` says what is wrong with it."""

    table: Callable[[int, int], Tensor] | None = None
    note: str = ""


def module(name: str) -> dict[str, str]:
    """The leaves of a plain module."""
    return {"weight": f"{name}.weight", "bias": f"{name}.bias"}


Resolve = Callable[[dict[str, Any], "Mapping[str, Tensor] | None"], "tuple[Format, dict[str, Any], list[str]]"]


@dataclass(frozen=True)
class Format:
    """One foreign format.

    ``signature`` is a regular expression that a key of this format alone matches. ``preset`` gives the settings
    that its code has by default. Each of ``revisions`` maps a ModelConfig field to the values that the code can
    compute; a field that is absent may have any value. ``positions`` are the keys of the source's and the
    target's position tables, whose axis ``position_axis`` has the size 1 ("flat": they are [L,D]; None: any layout
    is read, and [L,1,D] is written). ``tensors`` are single tensors of ours with a place of their own. ``aliases``
    are further keys of what a key holds: one of them is enough, those that are there are equal, and all are written.
    ``partial``: tensors of ours without a place in the format are new on import, left out on export.
    ``least_layers``: its code runs with so many layers in each stack. ``facts`` are those that the format alone has;
    ``resolve`` turns them into a table.
    """

    name: str
    preset: str
    signature: str
    modules: Mapping[str, str]
    attention: Mapping[str, str | Slot]
    feed_forward: Mapping[str, str]
    revisions: tuple[Settings, ...]
    norm: Mapping[str, str] = field(default_factory=lambda: {"weight": "weight", "bias": "bias"})
    positions: tuple[str, str] | None = None
    position_axis: Axis = None
    tensors: Mapping[str, Slot] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    partial: bool = False
    least_layers: int = 0
    facts: tuple[str, ...] = ()
    resolve: Resolve | None = None

    def resolved(
        self, facts: dict[str, Any], weights: Mapping[str, Tensor] | None
    ) -> tuple[Format, dict[str, Any], list[str]]:
        """The format as its own facts shape it, the facts that are left, and what is wrong with them.

        ``weights`` are None on export, where ``tie_embeddings`` is always among the facts.
        """
        return (self, dict(facts), []) if self.resolve is None else self.resolve(facts, weights)

    def slots(self, n_encoder_layers: int, n_decoder_layers: int) -> dict[str, Slot]:
        """Our name of every tensor that the format has room for, and its slot."""
        layers = {"encoder": n_encoder_layers, "decoder": n_decoder_layers}
        slots = {}
        for ours, theirs in self.modules.items():
            numbers = range(layers[ours.split(".")[0]]) if "*" in ours else (0,)
            for number in numbers:
                for name, slot in self._leaves(ours, theirs):
                    slots[name.replace("*", str(number))] = replace(slot, key=slot.key.replace("*", str(number)))
        return {**slots, **self.tensors}

    def _leaves(self, ours: str, theirs: str) -> Iterator[tuple[str, Slot]]:
        kind = ours.rsplit(".", 1)[-1]
        if kind == "norm":
            for our_leaf, their_leaf in self.norm.items():
                yield f"{ours}.{our_leaf}", Slot(f"{theirs}.{their_leaf}")
            return
        inside: Mapping[str, str | Slot] = {"": ""}
        if kind.endswith("attention"):
            inside = self.attention
        elif kind == "feed_forward":
            inside = self.feed_forward
        for our_part, their_part in inside.items():
            slot = their_part if isinstance(their_part, Slot) else Slot(their_part)
            base = f"{theirs}.{slot.key}" if slot.key else theirs
            for leaf in ("weight", "bias"):
                key = f"{base}{leaf}" if base.endswith("_") else f"{base}.{leaf}"
                yield ".".join(part for part in (ours, our_part, leaf) if part), Slot(key, slot.part, slot.of)

    def allowed(self, name: str) -> set[Any]:
        """The values of a ModelConfig field that some revision can compute."""
        return {value for revision in self.revisions for value in revision.get(name, ())}


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are of one type and shape and equal."""
    return one.dtype == other.dtype and torch.equal(one, other)


def setting(config: ModelConfig, name: str) -> Any:
    """The value of a field with its defaults resolved, as ``Format.revisions`` gives it."""
    if name == "attention_bias":
        return config.biases
    if name == "n_kv_heads":
        return None if config.kv_heads == config.n_heads else config.kv_heads
    return getattr(config, name)


def computes(revision: Settings, config: ModelConfig, name: str) -> bool:
    """Whether the revision can compute the configuration's value of a field."""
    value = setting(config, name)
    if isinstance(value, float):
        return any(math.isclose(value, other, rel_tol=1e-6) for other in revision[name])
    return value in revision[name]


def refusal(revision: Settings, config: ModelConfig, name: str, others: Iterable[Settings] = ()) -> str:
    """Why the revision cannot compute the configuration's value of a field; ``others`` would be as good."""
    values = dict.fromkeys(value for each in (revision, *others) for value in each.get(name, ()))
    known = " or ".join(_show(value) for value in values)
    return f"{name} is {_show(setting(config, name))}, and its code knows {known} only"


def _show(value: Any) -> str:
    return '""' if value == "" else str(value)
