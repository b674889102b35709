"""What the engine remembers between steps: keys and values in slots, and which hypothesis owns which slot.

A beam does not reorder its keys. A sentence has C slots, each holding one token's keys and values; all its hypotheses
attend to all of them, and a mask hides those of other hypotheses. Slots stand in no order, since positions enter before
the keys do, and one that no hypothesis owns any more takes the next token. Nor do sentences move up when others end:
the last of them take the places that became free, and the rows of a step are put in the order of the places.

Shapes: N sentences, W hypotheses of each, R = N·W rows, C slots, L layers, K key-value heads, d head width.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.engine.source import Source, copy_sentences, steady_length
from dragoman.errors import DataError

_FIRST_CAPACITY = 32

Ids = NDArray[np.int64]


class EngineState:
    """The cache of :meth:`Engine.step` for ``shape``: L, K and d.

    ``source`` are the source's keys and values, None without a source; ``rows`` those of the last step, at first the
    sources (None: the first tokens decide). Between :meth:`advance` and the end of a step ``keys`` and ``values`` hold
    what each layer attends to, [N·K,d,used] and [N·K,used,d], of a single sentence both [1,K,used,d]. They, ``bias``,
    ``source`` and what :meth:`store` takes are in the order of the places, see :meth:`to_places`. ``steady``: both are
    [N,K,used,d] always, and some more slots are shown and hidden by ``bias``, see :func:`steady_length`.
    """

    def __init__(self, shape: tuple[int, int, int], source: Source | None, *, steady: bool = False) -> None:
        self.length = 0
        self.shape = shape
        self.source = source
        self.steady = steady
        self.rows = None if source is None else source.sentences
        self.width = 1
        self.used = 0
        self.keys: tuple[Tensor, ...] = ()
        self.values: tuple[Tensor, ...] = ()
        self.bias: Tensor | None = None  # [N,1,W,used]: 0 for the slots that a hypothesis owns, -inf for others
        layers, kv_heads, d_head = shape
        self._slots = torch.empty(layers, self.rows or 0, kv_heads, 0, 2, d_head)  # of N places or more
        self._homes: Ids | None = None  # [N] the place of each sentence; None: 0, 1, …
        self._order: tuple[Ids, Tensor, Tensor] | None = None  # [N], [R], [R] what stands at each place, and back
        self._owned: NDArray[np.bool_] | None = None  # [N,W,C]; None: a hypothesis a sentence, which owns all used ones
        self._slot_rows: Ids | None = None  # [R,K] where this step's tokens go among N·K·C; None: to the last used
        self._targets: tuple[Tensor, ...] = ()  # of each layer, what they are written into
        self._place = torch.zeros(1, dtype=torch.int64)
        self._single: tuple[Tensor, ...] = ()

    @property
    def sentences(self) -> int:
        """N."""
        return (self.rows or 0) // self.width

    def select(self, parents: Tensor) -> None:
        """Row i becomes the former row ``parents[i]``; the number of rows may change."""
        given = parents.numpy()
        rows = len(given)
        if rows == self.rows and bool((given == np.arange(rows)).all()):
            return
        kept, width = _grouped(given if self.width == 1 else given // self.width)
        if self._owned is not None or width > 1:
            self._inherit(given, width)
        if len(kept) != self.sentences or bool((kept != np.arange(len(kept))).any()):
            self._keep(kept)
        self.rows, self.width = rows, width
        self._order = None if self._homes is None else _orders(self._homes, width)

    def to_places(self, rows: Tensor) -> Tensor:
        """Rows [R,·] of the search in the order of the sentences' places."""
        return rows if self._order is None else rows.index_select(0, self._order[1])

    def from_places(self, rows: Tensor) -> Tensor:
        """The same the other way."""
        return rows if self._order is None else rows.index_select(0, self._order[2])

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
        slots = self._slots.narrow(1, 0, self.sentences)
        if self._owned is None:
            self.used += 1
            self._targets = slots.select(3, self.used - 1).unbind(0)
        else:
            self._take_slots(self._owned)
            self._targets = slots.flatten(1, 3).unbind(0)
        if self.steady and self._owned is None:
            hidden = torch.arange(self._shown) >= self.used
            self.bias = torch.zeros(1, 1, 1, self._shown).masked_fill_(hidden, float("-inf"))
        keys, values = slots.narrow(3, 0, self._shown).unbind(4)
        if self.sentences != 1 and not self.steady:
            keys, values = keys.flatten(1, 2).transpose(2, 3), values.flatten(1, 2)
        self.keys, self.values = keys.unbind(0), values.unbind(0)

    @property
    def _shown(self) -> int:
        """The slots that are attended to, those included that are hidden from all."""
        return steady_length(self.used) if self.steady else self.used

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
        if self._slot_rows is None:
            self._targets[layer].copy_(keys_values)
        else:
            # In a third of the time that index_put_ takes.
            self._targets[layer].numpy()[self._slot_rows] = keys_values.numpy()

    def _inherit(self, parents: Ids, width: int) -> None:
        """Each row owns what its parent did."""
        capacity = self._slots.shape[3]
        if self._owned is None:
            self._owned = np.zeros((self.sentences, 1, capacity), np.bool_)
            self._owned[:, :, : self.used] = True
        self._owned = self._owned.reshape(-1, capacity)[parents].reshape(-1, width, capacity)

    def _keep(self, kept: Ids) -> None:
        """The sentences ``kept`` go on, in this order; a copy of one may be kept more than once.

        Those whose places are among the first N stay there, and the others take the places that are free.
        """
        homes = kept if self._homes is None else self._homes[kept]
        count = len(homes)
        late, free = np.flatnonzero(homes >= count), np.setdiff1d(np.arange(count), homes)
        self._single = ()
        if len(late) != len(free):  # one is there twice
            kept_places = torch.from_numpy(homes)
            self._slots = self._slots.index_select(1, kept_places)
            self.source = None if self.source is None else self.source.select(kept_places)
            self._homes = None
            return
        here, there = homes[late].tolist(), free.tolist()
        copy_sentences(self._slots.narrow(3, 0, self.used), here, there)
        if self.source is not None:
            self.source = self.source.moved(here, there, count)
        homes = homes.copy()
        homes[late] = free
        self._homes = None if bool((homes == np.arange(count)).all()) else homes

    def _reserve(self, capacity: int) -> None:
        """Room for ``capacity`` slots of each sentence."""
        layers, places, kv_heads, now, _, d_head = self._slots.shape
        if self.sentences <= places and capacity <= now:
            return
        size = max(_FIRST_CAPACITY, steady_length(capacity) if self.steady else capacity, 2 * now)
        # Zeros, since a hidden slot counts 0 times what it holds, and what memory happens to hold may be NaN.
        slots = torch.zeros(layers, self.sentences, kv_heads, size, 2, d_head)
        if self.used:
            slots[:, :, :, : self.used] = self._slots[:, : self.sentences, :, : self.used]
        self._slots = slots
        if self._owned is not None:
            self._owned = np.pad(self._owned, ((0, 0), (0, 0), (0, size - now)))

    def _take_slots(self, owned: NDArray[np.bool_]) -> None:
        """A free slot for each row's token, the lowest first."""
        (sentences, width, capacity), kv_heads = owned.shape, self.shape[1]
        free = ~owned[:, :, : self.used + width].any(1)
        slot = (free & (free.cumsum(1) <= width)).nonzero()[1].reshape(sentences, width)
        owned[np.arange(sentences)[:, None], np.arange(width), slot] = True
        if slot.size:
            self.used = max(self.used, int(slot.max()) + 1)
        shown = owned[:, :, : self._shown]
        if self._order is not None:
            slot, shown = slot[self._order[0]], shown[self._order[0]]
        lanes = np.arange(sentences * kv_heads).reshape(sentences, 1, kv_heads)
        self._slot_rows = (lanes * capacity + slot[:, :, None]).reshape(-1, kv_heads)
        self.bias = torch.from_numpy(np.where(shown, np.float32(0.0), np.float32(-np.inf)))[:, None]


def _grouped(groups: Ids) -> tuple[Ids, int]:
    """The sentences of rows of ``groups`` [R] and how many rows each has, where these stand together in equal runs.

    Otherwise each row becomes a sentence of its own.
    """
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1]))) if len(groups) else groups
    counts = np.diff(starts, append=len(groups))
    if len(counts) and bool((counts == counts[0]).all()):
        return groups[starts], int(counts[0])
    return groups, 1


def _orders(homes: Ids, width: int) -> tuple[Ids, Tensor, Tensor]:
    """Which sentence [N] and which row [R] stands at each place, and where each row [R] stands."""
    sentences = np.argsort(homes)
    within = np.arange(width)
    there, back = ((order[:, None] * width + within).reshape(-1) for order in (sentences, homes))
    return sentences, torch.from_numpy(there), torch.from_numpy(back)
