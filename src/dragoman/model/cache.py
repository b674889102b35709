"""What step-wise decoding remembers: the keys and values of the tokens so far, and those of the source.

Shapes: R rows being decoded (hypotheses), B sources, K key-value heads, C capacity, S source length, d head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.errors import DataError
from dragoman.model.masks import AttentionMask

_FIRST_CAPACITY = 32


class SelfCache:
    """The keys and values of one layer's self-attention, in buffers [R,K,C,d] that double when full."""

    def __init__(self) -> None:
        self.length = 0
        self.key = self.value = torch.empty(0)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values [R,K,n,d] of n new tokens; all so far come back, [R,K,length,d]."""
        end = self.length + key.shape[2]
        if self.length == 0:
            self.key, self.value = (_room(part, _FIRST_CAPACITY, end) for part in (key, value))
        elif end > self.key.shape[2]:
            old = self.key, self.value
            self.key, self.value = (_room(part, 2 * part.shape[2], end) for part in old)
            for new, part in zip((self.key, self.value), old, strict=True):
                new[:, :, : self.length] = part[:, :, : self.length]
        self.key[:, :, self.length : end] = key
        self.value[:, :, self.length : end] = value
        self.length = end
        return self.key[:, :, :end], self.value[:, :, :end]

    def select(self, parents: Tensor) -> None:
        """Row i becomes the former row ``parents[i]``."""
        if self.length:
            self.key, self.value = self.key.index_select(0, parents), self.value.index_select(0, parents)


def _room(like: Tensor, capacity: int, needed: int) -> Tensor:
    rows, heads, _, width = like.shape
    return like.new_empty(rows, heads, max(capacity, needed), width)


class DecoderState:
    """Everything :meth:`Transformer.step` needs from the steps before.

    ``layers`` holds a :class:`SelfCache` per layer, ``memory`` each layer's source keys and values
    [B,K,S,d] (computed once) or nothing for a decoder without source, ``memory_mask`` the source mask, ``rows``
    the rows of the last step (at first the sources; None where the first tokens decide).
    Each run of R / B rows shares one source, so that a beam reads its source's keys once.
    """

    def __init__(self, n_layers: int, memory: list[tuple[Tensor, Tensor]], memory_mask: AttentionMask | None) -> None:
        self.length = 0
        self.layers = [SelfCache() for _ in range(n_layers)]
        self.memory = memory
        self.memory_mask = memory_mask
        self.rows = memory[0][0].shape[0] if memory else None
        self._source = torch.arange(memory[0][0].shape[0], device=memory[0][0].device) if memory else None

    def select(self, parents: Tensor) -> None:
        """Row i becomes the former row ``parents[i]``; the number of rows may change."""
        same = len(parents) == self.rows and torch.equal(parents, _range(len(parents), parents))
        self.rows = len(parents)
        if same:
            return
        for layer in self.layers:
            layer.select(parents)
        if self._source is not None:
            self._regroup(self._source[parents])

    def advance(self, rows: int) -> None:
        """One position on, a token a row. Raises :class:`DataError` where the state has other than ``rows`` rows."""
        if self.rows not in (None, rows):
            raise DataError(
                f"a decoding step got {rows} tokens for a state of {self.rows} rows; give one token a row, "
                "or say with parents which rows go on."
            )
        self.rows = rows
        self.length += 1

    def _regroup(self, source: Tensor) -> None:
        """Keep each source once where the rows of a source stand together in runs of equal length."""
        kept, counts = torch.unique_consecutive(source, return_counts=True)
        if bool((counts != counts[:1]).any()):
            kept, counts = source, torch.ones_like(source)
        if not (len(kept) == self.memory[0][0].shape[0] and torch.equal(kept, _range(len(kept), kept))):
            self.memory = [(key.index_select(0, kept), value.index_select(0, kept)) for key, value in self.memory]
            if self.memory_mask is not None:
                allowed, is_open = self.memory_mask
                self.memory_mask = AttentionMask(
                    allowed.index_select(0, kept), None if is_open is None else is_open.index_select(0, kept)
                )
        self._source = _range(len(kept), kept).repeat_interleave(counts)


def _range(length: int, like: Tensor) -> Tensor:
    return torch.arange(length, device=like.device)
