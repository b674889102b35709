"""Position tables of foreign formats: recognised on import, written as their code makes them on export.

Shapes: L length of the table, D ``d_model``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.interop.format import Axis, Format, State
from dragoman.model.positions import sinusoid_halves_table, sinusoid_table


def published_sinusoids(length: int, d_model: int, dtype: torch.dtype) -> Tensor:
    """The table as hkproj, annotated and labml compute it: pos · exp(-2k · ln(10000) / D) in float32, [L,D].

    Bit for bit theirs; it differs from the exact table by rounding, which grows with the position. Wider types
    get the exact table.
    """
    if dtype == torch.float64:
        return sinusoid_table(length, d_model)
    frequencies = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    angles = torch.arange(length, dtype=torch.float32)[:, None] * frequencies
    table = torch.empty(length, d_model)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles[:, : d_model // 2].cos()
    return table.to(dtype)


def kind_of(table: Tensor, known: Collection[str] = ()) -> str:
    """The kind of positions that a table [L,D] holds; what is no sinusoid has been learned.

    Tables of one or two columns are sinusoids of either order: then it is the one that is ``known``.

    The tolerance allows for angles rounded to float32 (an error of L · 2^-23 and a little more) and for tables
    stored with less precision than that.
    """
    length, d_model = table.shape
    tolerance = max(1e-3, length * 2.0**-21, 4 * torch.finfo(table.dtype).eps)
    makers = (("sinusoidal", sinusoid_table), ("sinusoidal_halves", sinusoid_halves_table))
    for kind, make in sorted(makers, key=lambda pair: pair[0] not in known):
        if torch.allclose(table.double(), make(length, d_model), rtol=0.0, atol=tolerance):
            return kind
    return "learned"


def _rows(tensor: Tensor, axis: Axis) -> Tensor | None:
    """The table [L,D] in a buffer of the layout ``Format.position_axis``, None for another shape."""
    if tensor.numel() and tensor.ndim == 2 and axis in (None, "flat"):
        return tensor
    if tensor.ndim != 3 or tensor.numel() == 0 or axis == "flat":
        return None
    sizes = list(tensor.shape[:2])
    if axis is None:
        axis = sizes.index(1) if 1 in sizes else 0
    return tensor.squeeze(axis) if sizes[axis] == 1 else None


class PositionTables:
    """The tables that stand in a state dict of some format, as [L,D], by side (``src``, ``tgt``)."""

    def __init__(self, fmt: Format, tensors: Mapping[str, Tensor]) -> None:
        self.tables: State = {}
        self.keys: set[str] = set()
        self.wrong_shape: list[str] = []
        self.unsupported: list[str] = []
        for side, key in zip(("src", "tgt"), fmt.positions or (), strict=False):
            if key in tensors:
                self.keys.add(key)
                self._read(side, key, tensors[key], fmt.position_axis)
        kinds = {kind_of(table, fmt.allowed("positions")) for table in self.tables.values()}
        self.kind = kinds.pop() if len(kinds) == 1 else None
        if kinds:
            self.unsupported.append(f"{' and '.join(sorted(self.keys))} hold different kinds of positions")
        elif self.kind is not None and self.kind not in fmt.allowed("positions"):
            self.unsupported.append(
                f"{' and '.join(sorted(self.keys))} hold no {_known_sinusoids(fmt)}, which its code knows only"
            )

    def _read(self, side: str, key: str, tensor: Tensor, axis: Axis) -> None:
        table = _rows(tensor, axis)
        if table is None:
            layout = {0: "[1, L, D]", 1: "[L, 1, D]", "flat": "[L, D]", None: "[L, 1, D], [1, L, D] or [L, D]"}[axis]
            self.wrong_shape.append(f"{key} is {list(tensor.shape)} and should be {layout}")
        else:
            self.tables[side] = table

    def seen(self) -> dict[str, Any]:
        """The ModelConfig fields that the tables decide; the longest one says ``max_length``."""
        if self.kind is None:
            return {}
        return {"positions": self.kind, "max_length": max(table.shape[0] for table in self.tables.values())}


def _known_sinusoids(fmt: Format) -> str:
    return "sinusoids in halves" if "sinusoidal_halves" in fmt.allowed("positions") else "interleaved sinusoids"


def write_positions(fmt: Format, config: ModelConfig, state: State, dtype: torch.dtype) -> State:
    """The position tables of an exported state dict; ``state`` holds ours."""
    if fmt.positions is None or config.positions == "none":
        return {}
    written = {}
    for side, key in zip(("src", "tgt"), fmt.positions, strict=True):
        if config.positions == "sinusoidal":
            table = published_sinusoids(config.max_length, config.d_model, dtype)
        elif config.positions == "sinusoidal_halves":
            table = sinusoid_halves_table(config.max_length, config.d_model).to(dtype)
        else:
            table = state[f"{side}_positions.weight"]
        if isinstance(fmt.position_axis, int) or (fmt.position_axis is None and config.positions != "learned"):
            table = table.unsqueeze(1 if fmt.position_axis is None else fmt.position_axis)
        written[key] = table
    return written
