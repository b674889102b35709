"""Rotary positions as one multiplication of complex numbers: a pair of features is a number, an angle a factor.

Shapes: N sentences, W rows of each, H heads, d head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.model.positions import Rotary


class Turn:
    """What :class:`Rotary` computes, in place; the factors last used are kept, since every layer asks for the same."""

    def __init__(self, rotary: Rotary) -> None:
        self._rotary = rotary
        self._like = torch.empty(0)
        self._last: tuple[int, int, Tensor] = (0, 0, torch.empty(0))

    def __call__(self, vectors: Tensor, start: int, heads: int) -> None:
        """Turn the first ``heads`` heads of contiguous [N,W,·,d] and every second after them.

        The W rows stand at ``start``, ``start`` + 1, ….
        """
        sentences, width, every, d_head = vectors.shape
        factors = self._factors(start, width, vectors)
        numbers = torch.view_as_complex(vectors.view(sentences, width, every, d_head // 2, 2))
        numbers[:, :, :heads].mul_(factors)
        numbers[:, :, heads::2].mul_(factors)

    def rows(self, start: int) -> Tensor:
        """The cosines, then the sines of the angles at ``start``, [1,d]."""
        return self._rotary.rows(start, 1, self._like)

    def _factors(self, start: int, length: int, like: Tensor) -> Tensor:
        """cos + i·sin of each pair's angle, [length,1,d/2]."""
        first, size, factors = self._last
        if (first, size) != (start, length):
            cos, sin = self._rotary.rows(start, length, like).chunk(2, -1)
            factors = torch.complex(cos.contiguous(), sin.contiguous())[:, None]
            self._last = start, length, factors
        return factors
