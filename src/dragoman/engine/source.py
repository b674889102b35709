"""The source's keys and values of all decoder layers, made once and read by every step.

Shapes: B sentences, S source length, D ``d_model``, L layers, K key-value heads, d head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.model import masks

# Floats of the widest vectors. Where the keys are a multiple of it, hidden ones included, PyTorch's fused kernel adds
# the others up in the same order, however many are hidden.
_LANES = 16


def steady_length(length: int) -> int:
    """``length`` keys, rounded up to where the kernels' sums do not depend on how many of them are hidden."""
    return -(-length // _LANES) * _LANES


def steady_mask(mask: Tensor | None, sentences: int, length: int) -> Tensor | None:
    """A mask [B,S] (None: all real) with what :func:`steady_length` adds hidden."""
    more = steady_length(length) - length
    if not more:
        return mask
    whole = torch.ones(sentences, length, dtype=torch.bool) if mask is None else mask.expand(sentences, -1)
    return torch.nn.functional.pad(whole, (0, more))


@dataclass(frozen=True)
class SourceMask:
    """Which source tokens may be attended to, as numbers.

    ``bias`` [B,1,1,S] is 0 for real tokens and -inf for others, None where all are real. ``is_open`` [B,1,1] is 0 for
    sentences without any real token, which are attended to as if they had and count for nothing; None where there are
    none such.
    """

    bias: Tensor | None = None
    is_open: Tensor | None = None

    @classmethod
    def of(cls, mask: Tensor | None) -> SourceMask:
        """From a mask [B,S], True = real token. Raises :class:`DataError` for one that is not boolean."""
        safe = masks.for_keys(mask)
        if safe is None or safe.open is None or bool(safe.allowed.all() and safe.open.all()):
            return cls()
        bias = torch.zeros(safe.allowed.shape).masked_fill_(~safe.allowed, float("-inf"))
        return cls(bias, None if bool(safe.open.all()) else safe.open[:, 0].float())

    def select(self, kept: Tensor) -> SourceMask:
        """The sentences ``kept``, in this order."""
        bias, is_open = (None if part is None else part.index_select(0, kept) for part in (self.bias, self.is_open))
        return SourceMask(bias, is_open)

    def moved(self, here: Sequence[int], there: Sequence[int], count: int) -> SourceMask:
        """See :meth:`Source.moved`."""
        for part in (self.bias, self.is_open):
            if part is not None:
                copy_sentences(part[None], here, there)
        bias, is_open = (None if part is None else part[:count] for part in (self.bias, self.is_open))
        return SourceMask(bias, is_open)


class Source:
    """Keys and values of each layer: [B·K,d,S] and [B·K,S,d], or both [B,K,S,d] (of a single sentence, or ``steady``).

    :func:`dragoman.engine.attention.attend` takes both forms; each is the faster one for its case.
    """

    def __init__(self, keys: Tensor, values: Tensor, mask: SourceMask, *, batched: bool) -> None:
        self._keys, self._values, self._batched = keys, values, batched  # [L,B,K,d,S] (not batched: S,d), [L,B,K,S,d]
        self.mask = mask
        self.keys = (keys.flatten(1, 2) if batched else keys).unbind(0)
        self.values = (values.flatten(1, 2) if batched else values).unbind(0)
        self._single: tuple[tuple[Tensor, ...], tuple[Tensor, ...]] | None = None

    @classmethod
    def of(cls, projected: Tensor, mask: SourceMask, *, steady: bool = False) -> Source:
        """From the keys and values [B,S,L,2,K,d] of all layers."""
        keys, values = projected.unbind(3)
        batched = len(projected) != 1 and not steady
        ordered = keys.permute(2, 0, 3, 4, 1) if batched else keys.permute(2, 0, 3, 1, 4)
        return cls(ordered.contiguous(), values.permute(2, 0, 3, 1, 4).contiguous(), mask, batched=batched)

    @property
    def sentences(self) -> int:
        """B."""
        return self._values.shape[1]

    @property
    def single(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Each layer's keys and values [K,S,d] of the only sentence."""
        if self._single is None:
            keys = self._keys[:, 0].transpose(2, 3).contiguous() if self._batched else self._keys[:, 0]
            self._single = keys.unbind(0), self._values[:, 0].unbind(0)
        return self._single

    @property
    def length(self) -> int:
        """S."""
        return self._values.shape[3]

    def select(self, kept: Tensor) -> Source:
        """The sentences ``kept``, in this order; one may be kept more than once."""
        keys, values = self._keys.index_select(1, kept), self._values.index_select(1, kept)
        return Source(keys, values, self.mask.select(kept), batched=self._batched)

    def moved(self, here: Sequence[int], there: Sequence[int], count: int) -> Source:
        """The first ``count`` sentences, those ``here`` copied over those ``there`` before; this one is used up."""
        for part in (self._keys, self._values):
            copy_sentences(part, here, there)
        mask = self.mask.moved(here, there, count)
        return Source(self._keys[:, :count], self._values[:, :count], mask, batched=self._batched)


def copy_sentences(parts: Tensor, here: Sequence[int], there: Sequence[int]) -> None:
    """Copy the sentences ``here`` of ``parts`` [L,B,…] over those ``there``."""
    for old, new in zip(here, there, strict=True):
        parts[:, new].copy_(parts[:, old])
