"""Which word of the source a word of the translation comes from, read off the source attention.

Words are those between white space, counted from 0. Shapes: L layers, Q words of the translation, K words of
the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Literal

from dragoman.errors import UsageError
from dragoman.visualize.maps import AttentionMaps, Translated

if TYPE_CHECKING:
    from numpy import floating
    from numpy.typing import NDArray

Links = list[tuple[int, int]]
# A decoder layer from 1, the mean of all, or for each sentence the one of these that agrees with itself best.
Layer = int | Literal["mean", "best"]


def align(source: str, translation: Translated, special: Collection[str], layer: Layer = "best") -> Links:
    """Links ``(source word, target word)`` of a translation made with ``attention=True``, in target order.

    Each word of the translation is linked to the word of the source with the largest weight, heads averaged.
    ``special`` names the tokens that stand for no text. A blank text has no links. Raises :class:`UsageError` for a
    layer that is not there.

    ``best`` needs no references: a good alignment looks much the same from either side, so the layer (or the mean of
    all) counts in which the most words are in turn the heaviest of the source word that they are linked to; among
    equals the one with the largest weights. On the hand-checked set of ``benchmarks/alignment.py`` that was better
    than any fixed choice for each of three models (docs/results.md).
    """
    if not translation.tokens:
        return []
    import numpy as np

    one, sources, targets = _word_maps(source, translation, special)
    if not sources or not targets:
        return []
    weights = _best(one) if layer == "best" else _chosen(one, layer)
    return [(sources[int(best)], target) for best, target in zip(np.argmax(weights, axis=1), targets, strict=True)]


def word_weights(
    source: str, translation: Translated, special: Collection[str], layer: int | Literal["mean"] = "mean"
) -> tuple[NDArray[floating], list[int], list[int]]:
    """Source attention between words alone [Q,K], heads averaged; the numbers of those of the source, of the target.

    What went to special tokens is missing in the rows.
    """
    one, sources, targets = _word_maps(source, translation, special)
    return _chosen(one, layer), sources, targets


def check_layer(layer: Layer, depth: int) -> None:
    """Raise :class:`UsageError` for a layer that a model with ``depth`` decoder layers has not."""
    if isinstance(layer, int) and not 1 <= layer <= depth:
        raise UsageError(f"there is no decoder layer {layer}; choose one of 1 to {depth}.")


def _word_maps(
    source: str, translation: Translated, special: Collection[str]
) -> tuple[NDArray[floating], list[int], list[int]]:
    """The maps of all layers between words alone [L,Q,K], and the numbers of those of the source, of the target."""
    one = AttentionMaps.of(source, translation, special).map("cross")
    merged = one.of_words().weights.mean(axis=1)
    rows = [index for index, place in enumerate(one.query_words.places) if place is not None]
    columns = [index for index, place in enumerate(one.key_words.places) if place is not None]
    sources = [place for place in one.key_words.places if place is not None]
    targets = [place for place in one.query_words.places if place is not None]
    return merged[:, rows][:, :, columns], sources, targets


def _chosen(maps: NDArray[floating], layer: int | Literal["mean"]) -> NDArray[floating]:
    """One layer of [L,Q,K], or their mean."""
    if layer == "mean":
        mean: NDArray[floating] = maps.mean(axis=0)
        return mean
    check_layer(layer, len(maps))
    one: NDArray[floating] = maps[layer - 1]
    return one


def _best(maps: NDArray[floating]) -> NDArray[floating]:
    """The one of the mean and the layers [L,Q,K] that agrees with itself best."""

    def quality(weights: NDArray[floating]) -> tuple[int, float]:
        there, back = weights.argmax(axis=1), weights.argmax(axis=0)
        mutual = sum(int(back[column]) == row for row, column in enumerate(there))
        return mutual, float(weights.max(axis=1).mean())

    return max([_chosen(maps, "mean"), *maps], key=quality)


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """The links as ``i-j i-j``, source word first, both from 0, sorted: the format of Pharaoh, Moses and fast_align."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
