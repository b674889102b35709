"""Which word of the source a word of the translation comes from, read off the source attention.

Words are those between white space, counted from 0. Shapes: Q words of the translation, K words of the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from dragoman.errors import UsageError
from dragoman.visualize.maps import AttentionMaps, Translated

if TYPE_CHECKING:
    from numpy import floating
    from numpy.typing import NDArray

Links = list[tuple[int, int]]


def align(source: str, translation: Translated, special: Collection[str], layer: int | None = None) -> Links:
    """Links ``(source word, target word)`` of a translation made with ``attention=True``, in target order.

    Each word of the translation is linked to the word of the source with the largest weight, heads averaged.
    ``special`` names the tokens that stand for no text. ``layer`` counts from 1; None takes the mean of all layers.
    A blank text has no links. Raises :class:`UsageError` for a layer that is not there.
    """
    if not translation.tokens:
        return []
    import numpy as np

    weights, sources, targets = word_weights(source, translation, special, layer)
    if not sources or not targets:
        return []
    return [(sources[int(best)], target) for best, target in zip(np.argmax(weights, axis=1), targets, strict=True)]


def word_weights(
    source: str, translation: Translated, special: Collection[str], layer: int | None = None
) -> tuple[NDArray[floating], list[int], list[int]]:
    """Source attention between words alone [Q,K], heads averaged; the numbers of those of the source, of the target.

    What went to special tokens is missing in the rows.
    """
    one = AttentionMaps.of(source, translation, special).map("cross")
    depth = len(one.weights)
    if layer is not None and not 1 <= layer <= depth:
        raise UsageError(f"there is no decoder layer {layer}; choose one of 1 to {depth}.")
    merged = one.of_words().weights.mean(axis=1)
    mean = merged.mean(axis=0) if layer is None else merged[layer - 1]
    rows = [index for index, place in enumerate(one.query_words.places) if place is not None]
    columns = [index for index, place in enumerate(one.key_words.places) if place is not None]
    sources = [place for place in one.key_words.places if place is not None]
    targets = [place for place in one.query_words.places if place is not None]
    return mean[rows][:, columns], sources, targets


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """The links as ``i-j i-j``, source word first, both from 0, sorted: the format of Pharaoh, Moses and fast_align."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
