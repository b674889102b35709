"""What the engine remembers between steps: keys and values in slots, and which hypothesis owns which slot.

A beam does not reorder its keys. A sentence has C slots, each holding one token's keys and values; all its hypotheses
attend to all of them, and a mask hides those of other hypotheses. Slots stand in no order, since positions enter before
the keys do, and one that no hypothesis owns any more takes the next token.

Shapes: N sentences, W hypotheses of each, R = N·W rows, C slots, L layers, K key-value heads, d head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.engine.source import Source
from dragoman.errors import DataError

_FIRST_CAPACITY = 32


class EngineState:
    """The cache of :meth:`Engine.step` for ``shape``: L, K and d.

    ``source`` are the source's keys and values, None without a source; ``rows`` those of the last step, at first the
    sources (None: the first tokens decide). Between :meth:`advance` and the end of a step ``keys`` and ``values`` hold
    what each layer attends to, [N·K,d,used] and [N·K,used,d], of a single sentence both [1,K,used,d].
    """

    def __init__(self, shape: tuple[int, int, int], source: Source | None) -> None:
        self.length = 0
        self.shape = shape
        self.source = source
        self.rows = None if source is None else source.sentences
        self.width = 1
        self.used = 0
        self.keys: tuple[Tensor, ...] = ()
        self.values: tuple[Tensor, ...] = ()
        self.bias: Tensor | None = None  # [N,1,W,used]: 0 for the slots that a hypothesis owns, -inf for others
        layers, kv_heads, d_head = shape
        self._slots = torch.empty(layers, self.rows or 0, kv_heads, 0, 2, d_head)
        self._owned: Tensor | None = None  # [N,W,C]; None: one hypothesis a sentence, which owns all that are used
        self._places: Tensor | None = None  # [R,K] where this step's tokens go among N·K·C; None: to the last used slot
        self._targets: tuple[Tensor, ...] = ()  # of each layer, what they are written into
        self._place = torch.zeros(1, dtype=torch.int64)
        self._single: tuple[Tensor, ...] = ()

    @property
    def sentences(self) -> int:
        """N."""
        return (self.rows or 0) // self.width

    def select(self, parents: Tensor) -> None:
        """Row i becomes the former row ``parents[i]``; the number of rows may change."""
        rows = len(parents)
        if rows == self.rows == 1:
            return
        here = torch.arange(self.rows or 0)
        if rows == self.rows and torch.equal(parents, here):
            return
        kept, width = _grouped(parents if self.width == 1 else parents // self.width)
        if self._owned is not None or width > 1:
            self._inherit(parents, width)
        if not torch.equal(kept, here[: self.sentences]):
            self._keep(kept)
        self.rows, self.width = rows, width

    def advance(self, rows: int) -> None:
        """One position on, a token a row. Raises :class:`DataError` where the state has other than ``rows`` rows."""
        if self.rows not in (None, rows):
            raise DataError(
                f"a decoding step got {rows} tokens for a state of {self.rows} rows; give one token a row, "
                "or say with parents which rows go on."
            )
        self.rows = rows
        self.length += 1
        self._reserve(self.used + self.width)
        if self._owned is None:
            self.used += 1
            self._targets = self._slots.select(3, self.used - 1).unbind(0)
        else:
            self._take_slots(self._owned)
            self._targets = self._slots.flatten(1, 3).unbind(0)
        keys, values = self._slots.narrow(3, 0, self.used).unbind(4)
        if self.sentences != 1:
            keys, values = keys.flatten(1, 2).transpose(2, 3), values.flatten(1, 2)
        self.keys, self.values = keys.unbind(0), values.unbind(0)

    def goes_on_alone(self, rows: int, parents: Tensor | None) -> bool:
        """Whether one hypothesis of one sentence gets one token more, over two or more source tokens that all count.

        (A compiler takes a length of one for a case of its own.)
        """
        if rows != 1 or self.rows != 1 or self._owned is not None or (parents is not None and len(parents) != 1):
            return False
        source = self.source
        return source is not None and source.length > 1 and source.mask.bias is None and source.mask.is_open is None

    def advance_alone(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        """What :meth:`advance` does where :meth:`goes_on_alone` holds, for who stores a layer's keys and values itself.

        The place [1] of the new token among the slots, counted from 0, and each layer's slots [K,C,2,d].
        """
        slots = self._slots
        self._reserve(self.used + 1)
        if self._slots is not slots or not self._single:
            self._single = self._slots[:, 0].unbind(0)
        self._place.fill_(self.used)
        self.length += 1
        self.used += 1
        return self._place, self._single

    def store(self, layer: int, keys_values: Tensor) -> None:
        """Put a layer's keys and values of this step, [R,K,2,d], where ``keys`` and ``values`` see them."""
        if self._places is None:
            self._targets[layer].copy_(keys_values)
        else:
            self._targets[layer].index_put_((self._places,), keys_values)

    def _inherit(self, parents: Tensor, width: int) -> None:
        """Each row owns what its parent did."""
        capacity = self._slots.shape[3]
        if self._owned is None:
            self._owned = torch.zeros(self.sentences, 1, capacity, dtype=torch.bool)
            self._owned[:, :, : self.used] = True
        inherited = self._owned.flatten(0, 1).index_select(0, parents)
        self._owned = inherited.view(len(parents) // width, width, capacity)

    def _keep(self, kept: Tensor) -> None:
        """The sentences ``kept`` go on, in this order; a copy of one may be kept more than once."""
        self._slots = self._slots.index_select(1, kept)
        self._single = ()
        if self.source is not None:
            self.source = self.source.select(kept)

    def _reserve(self, capacity: int) -> None:
        """Room for ``capacity`` slots of each sentence."""
        layers, sentences, kv_heads, now, _, d_head = self._slots.shape
        if sentences == self.sentences and capacity <= now:
            return
        size = max(_FIRST_CAPACITY, capacity, 2 * now)
        # Zeros, since a hidden slot counts 0 times what it holds, and what memory happens to hold may be NaN.
        slots = torch.zeros(layers, self.sentences, kv_heads, size, 2, d_head)
        if self.used:
            slots[:, :, :, : self.used] = self._slots[:, :, :, : self.used]
        self._slots = slots
        if self._owned is not None:
            owned = torch.zeros(self.sentences, self.width, size, dtype=torch.bool)
            owned[:, :, :now] = self._owned
            self._owned = owned

    def _take_slots(self, owned: Tensor) -> None:
        """A free slot for each row's token, the lowest first."""
        (sentences, width, capacity), kv_heads = owned.shape, self.shape[1]
        taken = owned[:, :, : self.used + width].any(1)
        # Of equal numbers the earlier comes first in a stable sort, and False is less than True.
        free = taken.sort(dim=1, stable=True).indices[:, :width]
        owned.scatter_(2, free[:, :, None], True)
        if free.numel():
            self.used = max(self.used, int(free.max()) + 1)
        lanes = torch.arange(sentences * kv_heads).view(sentences, 1, kv_heads)
        self._places = (lanes * capacity + free[:, :, None]).flatten(0, 1)
        hidden = ~owned[:, None, :, : self.used]
        self.bias = torch.zeros(hidden.shape).masked_fill_(hidden, float("-inf"))


def _grouped(groups: Tensor) -> tuple[Tensor, int]:
    """The sentences of rows of ``groups`` [R] and how many rows each has, where these stand together in equal runs.

    Otherwise each row becomes a sentence of its own.
    """
    kept, counts = torch.unique_consecutive(groups, return_counts=True)
    if len(counts) and bool((counts == counts[0]).all()):
        return kept, int(counts[0])
    return groups, 1
