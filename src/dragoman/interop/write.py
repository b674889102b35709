"""Our weights out: a foreign state dict, after exact rewritings where those are enough.

Otherwise one error with every reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.errors import ConversionError, nearest
from dragoman.interop.format import Format, Settings, Slot, State, computes, refusal
from dragoman.interop.positions import write_positions
from dragoman.interop.rewrite import Rewrite, towards
from dragoman.model.transformer import Transformer


@dataclass(frozen=True)
class ExportPlan:
    """What an export would do: the rewritings, in order, and the reasons why it cannot be done."""

    format: str
    rewrites: tuple[Rewrite, ...]
    refused: tuple[str, ...]

    @property
    def steps(self) -> list[str]:
        """The rewritings in words."""
        return [rewrite.text for rewrite in self.rewrites]


def plan(fmt: Format, config: ModelConfig) -> ExportPlan:
    """The way to the revision of the format that refuses least and rewrites least."""
    ways = [_way(revision, config) for revision in fmt.revisions]
    best = min(range(len(ways)), key=lambda index: (len(ways[index][1]), len(ways[index][0])))
    rewrites, fields = ways[best]
    as_good = [revision for revision, (_, refused) in zip(fmt.revisions, ways, strict=True) if {*refused} <= {*fields}]
    refused = [refusal(fmt.revisions[best], config, name, as_good) for name in fields]
    for name in ("n_encoder_layers", "n_decoder_layers"):
        if getattr(config, name) < fmt.least_layers:
            refused.append(f"{name} is {getattr(config, name)}, and its code runs with {fmt.least_layers} or more")
    return ExportPlan(fmt.name, tuple(rewrites), tuple(refused))


def _way(revision: Settings, config: ModelConfig) -> tuple[list[Rewrite], list[str]]:
    """The rewritings that lead to a revision, and the fields that none of them brings there."""
    rewrites, refused = [], []
    for name, values in revision.items():
        if computes(revision, config, name):
            continue
        ways = [way for value in values if (way := towards(config, name, value)) is not None]
        if ways:
            rewrites.append(ways[0])
        else:
            refused.append(name)
    return rewrites, refused


def write(fmt: Format, model: Transformer, facts: dict[str, Any]) -> State:
    """The state dict that the foreign code loads, in the model's type, on the CPU; every tensor is a copy."""
    fmt, facts, problems = fmt.resolved({**facts, "tie_embeddings": model.config.tie_embeddings}, None)
    facts.pop("tie_embeddings", None)
    facts.pop("variant", None)
    problems += _kind_problems(fmt, facts, model.config)
    problems += [f'unknown fact "{name}"{nearest(name, list(fmt.facts))}' for name in facts]
    way = plan(fmt, model.config)
    problems += way.refused
    state, config = {name: tensor.detach() for name, tensor in model.state_dict().items()}, model.config
    problems += _table_problems(fmt, config, state)
    if not problems:
        for rewrite in way.rewrites:
            state, config = rewrite(state, config)
        written, problems = _gathered(fmt.slots(config.n_encoder_layers, config.n_decoder_layers), state)
        written.update(write_positions(fmt, config, state, model.output.weight.dtype))
        written.update({other: written[key] for key, others in fmt.aliases.items() for other in others})
    if problems:
        raise ConversionError(
            f"cannot write this model as {fmt.name}: {'; '.join(problems)}; choose another format for it."
        )
    return {key: tensor.to("cpu", copy=True).contiguous() for key, tensor in written.items()}


def _kind_problems(fmt: Format, facts: dict[str, Any], config: ModelConfig) -> list[str]:
    """Takes a kind of positions out of the facts, which names no key; what is wrong with it."""
    said = facts.get("positions") if "positions" in fmt.facts else None
    if said is None:
        return []
    del facts["positions"]
    return [] if said == config.positions else [f"positions={said} was said, and the model's are {config.positions}"]


def _gathered(slots: dict[str, Slot], state: State) -> tuple[State, list[str]]:
    """Our tensors under foreign keys, slices put together; and the keys where two different ones meet."""
    parts: dict[str, list[Tensor]] = {}
    problems = []
    for name, slot in slots.items():
        if name not in state:
            continue
        stored = parts.setdefault(slot.key, [])
        if len(stored) == slot.part:
            stored.append(state[name][None] if slot.row else state[name])
        elif not torch.equal(stored[slot.part], state[name]):
            problems.append(f"{slot.key} would hold two matrices that differ, one of them {name}")
    return {key: tensors[0] if len(tensors) == 1 else torch.cat(tensors) for key, tensors in parts.items()}, problems


def _table_problems(fmt: Format, config: ModelConfig, state: State) -> list[str]:
    """A table goes out where the format has a key for it, or where its code makes the same one."""
    own = config.positions in ("learned", "table")
    if own and "positions" in fmt.facts and fmt.positions is None and "src_embedding" in fmt.modules:
        return [f"its positions are {config.positions} ones, and no key for their table was named (give positions=KEY)"]
    if config.positions == "table" and fmt.variants and "table" in fmt.allowed("positions"):
        tables = [
            variant.table(config.max_length, config.d_model) for variant in fmt.variants.values() if variant.table
        ]
        for side in ("src", "tgt"):
            ours = state[f"{side}_positions.weight"]
            if tables and not any(torch.equal(table.to(ours), ours) for table in tables):
                return ["its position table is none that the code makes"]
    shared = own and fmt.positions is not None and len(set(fmt.positions)) == 1
    if shared and not torch.equal(state["src_positions.weight"], state["tgt_positions.weight"]):
        return ["the one key for positions would hold two tables that differ"]
    return []
