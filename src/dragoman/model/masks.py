"""Masks: boolean, True = may attend / real token, None = every position is real.

Shapes: B batch, S source (key) length, T target (query) length.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.errors import DataError


class AttentionMask(NamedTuple):
    """What each query may attend to, made safe for a softmax.

    ``allowed`` [B|1,1,T|1,S] holds at least one True in every row; ``open`` [B|1,1,T|1,1] is False for the
    rows that may in truth attend to nothing: their result is set to zero, so that it is never NaN. ``open``
    is None where no row can be dead.
    """

    allowed: Tensor
    open: Tensor | None


def from_lengths(lengths: Tensor, max_length: int | None = None) -> Tensor:
    """Real positions [B,S] for sentences of ``lengths`` [B] tokens; S is ``max_length``, or the longest."""
    size = max_length if max_length is not None else int(lengths.max()) if len(lengths) else 0
    return torch.arange(size, device=lengths.device)[None, :] < lengths[:, None]


def causal(length: int, device: torch.device | None = None) -> Tensor:
    """[T,T]: query t may attend to keys 0..t (Vaswani et al. 2017, section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def _boolean(mask: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise DataError(
            f"a mask holds numbers of type {str(mask.dtype).removeprefix('torch.')}; "
            "give booleans, True for each real token."
        )
    return mask


def _guarded(allowed: Tensor) -> AttentionMask:
    is_open = allowed.any(-1, keepdim=True)
    return AttentionMask(allowed | ~is_open, is_open)


def for_keys(mask: Tensor | None) -> AttentionMask | None:
    """Every query may attend to the real keys: ``mask`` [B,S] becomes [B,1,1,S].

    Raises :class:`DataError` for a mask that is not boolean.
    """
    return None if mask is None else _guarded(_boolean(mask)[:, None, None, :])


def for_causal(mask: Tensor | None, length: int) -> AttentionMask | None:
    """Query t may attend to the real keys up to t: ``mask`` [B,T] becomes [B,1,T,T].

    None stays None: the attention then applies the causal rule alone, which has a faster path. Raises
    :class:`DataError` for a mask that is not boolean.
    """
    return None if mask is None else _guarded(_boolean(mask)[:, None, None, :] & causal(length, mask.device))


def and_causal(mask: AttentionMask | None, queries: int, keys: int, device: torch.device) -> AttentionMask:
    """``mask`` with the causal rule added; one that has a row for each query already is left as it is."""
    if mask is not None and mask.allowed.shape[-2] > 1:
        return mask
    rule = causal(max(queries, keys), device)[:queries, :keys]
    if mask is None:
        return AttentionMask(rule, None)
    return _guarded(rule & mask.allowed if mask.open is None else rule & mask.allowed & mask.open)
