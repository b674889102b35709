"""Positions: how the model learns where a token stands. One class per kind.

Shapes: B batch, T length, D ``d_model``. ``start`` is the position of the first token, for step-wise decoding.
Tables are computed in float64 and rounded once to the type asked for; they are not part of the state dict.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from dragoman.errors import DataError


def sinusoid_table(length: int, d_model: int) -> Tensor:
    """PE(pos, 2k) = sin(pos / 10000^(2k/D)), PE(pos, 2k+1) = cos(the same): float64 [length, D].

    Vaswani et al. 2017, section 3.5. An odd D ends with a sine column.
    """
    angles = _angles(length, d_model)
    table = angles.new_empty(length, d_model)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles[:, : d_model // 2].cos()
    return table


def sinusoid_halves_table(length: int, d_model: int) -> Tensor:
    """The same numbers with all sines in the first half of the columns and all cosines in the second.

    The layout of tensor2tensor and of Hugging Face Marian.
    """
    angles = _angles(length, d_model)
    return torch.cat([angles.sin(), angles[:, : d_model // 2].cos()], dim=1)


def rotation_table(length: int, d_head: int) -> Tensor:
    """The cosines of all pairs' angles, then their sines: float64 [length, d_head]."""
    angles = _angles(length, d_head)
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def _angles(length: int, d_model: int) -> Tensor:
    """pos / 10000^(2k/D): float64 [length, ceil(D / 2)]."""
    columns = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    return torch.arange(length, dtype=torch.float64, device="cpu")[:, None] / 10000.0 ** (columns / d_model)


class _GrowingTable(nn.Module):
    """A table that is made for the longest sentence seen, doubled when a longer one comes.

    ``make`` gives the first rows, in float64 on the CPU.
    """

    def __init__(self, make: Callable[[int], Tensor]) -> None:
        super().__init__()
        self._make = make
        self._table = torch.empty(0, 0)

    def rows(self, start: int, length: int, like: Tensor) -> Tensor:
        """Rows ``start`` to ``start + length`` in the type and on the device of ``like``."""
        table, end = self._table, start + length
        if table.shape[0] < max(end, 1) or table.dtype != like.dtype or table.device != like.device:
            size = max(64, 1 << (end - 1).bit_length())
            # Made in inference mode, the table could not take part in a later backward pass.
            with torch.inference_mode(False):
                table = self._table = self._make(size).to(like.device, like.dtype)
        return table[start:end]


class Sinusoidal(_GrowingTable):
    """Adds the paper's sinusoids; any length, any width."""

    def __init__(self, d_model: int, halves: bool = False) -> None:
        super().__init__(partial(sinusoid_halves_table if halves else sinusoid_table, d_model=d_model))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """[B,T,D] in and out."""
        return x + self.rows(start, x.shape[1], x)


class _BoundedTable(nn.Module):
    """A table with an end."""

    weight: Tensor

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """[B,T,D] in and out. Raises :class:`DataError` past the table's end."""
        end = start + x.shape[1]
        if end > self.weight.shape[0]:
            raise DataError(
                f"a sentence of {end} tokens is longer than the {self.weight.shape[0]} positions of this model; "
                "split it, or use sinusoidal or rotary positions."
            )
        return x + self.weight[start:end]


class Learned(_BoundedTable):
    """Adds a trained vector per position, N(0, 1/D) at first, as fairseq's."""

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_length, d_model).normal_(std=d_model**-0.5))


class Table(_BoundedTable):
    """Adds a fixed table that came with somebody's weights; part of the state dict, not trained."""

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(max_length, d_model))


class NoPositions(nn.Module):
    """Adds nothing: positions are rotary, or there are none."""

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """[B,T,D] in and out."""
        return x


class Rotary(_GrowingTable):
    """Turns each pair of features of queries and keys by an angle that grows with the position.

    Su et al. 2021 (RoFormer), equation 34: the pair (2k, 2k+1) turns by pos / 10000^(2k/D) with D the head
    width. Used inside self-attention only.
    """

    def __init__(self, d_head: int) -> None:
        super().__init__(partial(rotation_table, d_head=d_head))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """[B,H,T,D] in and out, D the head width."""
        cos, sin = self.rows(start, x.shape[2], x).chunk(2, dim=-1)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def make_positions(kind: str, d_model: int, max_length: int) -> nn.Module:
    """What is added to the embeddings for ``ModelConfig.positions``."""
    if kind in ("sinusoidal", "sinusoidal_halves"):
        return Sinusoidal(d_model, halves=kind == "sinusoidal_halves")
    if kind == "learned":
        return Learned(max_length, d_model)
    if kind == "table":
        return Table(max_length, d_model)
    return NoPositions()
