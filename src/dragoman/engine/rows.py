"""Rows without padding: linear layers and norms see the real tokens of a batch alone, attention sees sentences.

Shapes: B sentences, S source length, M = B·S rows, P real ones, F features.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# The part of a batch that has to be padding before leaving it out pays for moving rows.
_WORTH = 1 / 16


@dataclass(frozen=True)
class RealRows:
    """Which of the M rows are real, and for each of the M the real row that stands for it.

    A padded row shows what the first real one holds; nothing attends to it.
    """

    places: Tensor  # [P]
    stand_ins: Tensor  # [M]

    @classmethod
    def of(cls, mask: Tensor | None) -> RealRows | None:
        """Of a mask [B,S], True = real token; None where too little is padding, or everything."""
        if mask is None:
            return None
        flat = mask.flatten()
        places = flat.nonzero().flatten()
        if len(places) >= (1 - _WORTH) * len(flat) or not len(places):
            return None
        return cls(places, (flat.cumsum(0) - 1).mul_(flat))

    def pick(self, rows: Tensor) -> Tensor:
        """[M,F] -> [P,F]."""
        return rows.index_select(0, self.places)

    def spread(self, rows: Tensor) -> Tensor:
        """[P,F] -> [M,F]."""
        return rows.index_select(0, self.stand_ins)
