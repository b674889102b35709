"""What a translation attended to: weights with the tokens at their edges, and the same as JSON.

Shapes: L layers, H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dragoman.errors import DataError, UsageError
from dragoman.visualize.words import Words, group_words, merge

if TYPE_CHECKING:
    from numpy import floating
    from numpy.typing import NDArray

# Kind of attention -> its name for people, the most telling first.
KINDS = {"cross": "Source attention", "encoder": "Encoder", "decoder": "Decoder"}
MEAN = "mean"
# Tokens on either side that are drawn: each layer and head is a table of their product, and a browser has to hold it.
MOST_TOKENS = 256


class Weights(Protocol):
    """The weights of one pass: for each kind a tensor or array [H,Q,K] per layer."""

    encoder: Sequence[Any]
    decoder: Sequence[Any]
    cross: Sequence[Any]


class Translated(Protocol):
    """What is used of :class:`dragoman.translation.Translation`."""

    text: str
    tokens: list[str]
    src_tokens: list[str]
    attention: Any


@dataclass(frozen=True)
class AttentionMap:
    """One kind of attention, ``weights`` float32 [L,H,Q,K]; ``query_words`` and ``key_words`` merge tokens."""

    kind: str
    queries: list[str]
    keys: list[str]
    weights: NDArray[floating]
    query_words: Words
    key_words: Words

    def of_words(self) -> AttentionMap:
        """The same between words."""
        queries, keys = self.query_words, self.key_words
        weights = merge(self.weights, queries, keys)
        return AttentionMap(
            self.kind, queries.labels, keys.labels, weights, _each_alone(queries.labels), _each_alone(keys.labels)
        )

    def panel(self, layer: int, head: int | None) -> NDArray[floating]:
        """The weights [Q,K] of a layer and a head, both from 0; None is the mean over heads."""
        weights = self.weights[layer]
        chosen: NDArray[floating] = weights.mean(axis=0) if head is None else weights[head]
        return chosen


@dataclass(frozen=True)
class AttentionMaps:
    """All attention of a translation; ``maps`` lacks a kind of which the model has no layer."""

    source: str
    text: str
    maps: dict[str, AttentionMap]

    @classmethod
    def of(cls, source: str, translation: Translated, special: Collection[str], start: str = "<s>") -> AttentionMaps:
        """The maps of a translation that was made with ``attention=True``.

        ``special`` names the tokens that stand for no text, ``start`` the one that the decoder reads first: a
        decoder's query is named after the token that it predicts, a key after the one that it read, which is the
        token before. Raises :class:`DataError` where there is no attention.
        """
        if translation.attention is None or not translation.tokens:
            raise DataError(
                "there is no attention to show; ask for that of one sentence, neither blank nor so long that it is "
                "translated in parts."
            )
        read = [start, *translation.tokens[:-1]]
        src = group_words(translation.src_tokens, source, special)
        tgt = group_words(translation.tokens, translation.text, special)
        past = group_words(read, translation.text, {*special, start})
        edges = {
            "cross": (translation.tokens, translation.src_tokens, tgt, src),
            "encoder": (translation.src_tokens, translation.src_tokens, src, src),
            "decoder": (translation.tokens, read, tgt, past),
        }
        maps = {}
        for kind, (queries, keys, query_words, key_words) in edges.items():
            layers = getattr(translation.attention, kind)
            if len(layers):
                weights = _stacked(kind, layers, len(queries), len(keys))
                maps[kind] = AttentionMap(kind, list(queries), list(keys), weights, query_words, key_words)
        return cls(source, translation.text, maps)

    def of_words(self) -> AttentionMaps:
        """The same between words."""
        return AttentionMaps(self.source, self.text, {kind: one.of_words() for kind, one in self.maps.items()})

    def map(self, kind: str) -> AttentionMap:
        """The map of a kind; raises :class:`UsageError` where there is none."""
        if kind not in self.maps:
            raise UsageError(f'this model has no attention of the kind "{kind}"; there is {", ".join(self.maps)}.')
        return self.maps[kind]

    def fields(self) -> dict[str, Any]:
        """Everything for JSON; the weights as lists [layer][head][query][key], rounded to 7 decimals."""
        maps = {
            kind: {"queries": one.queries, "keys": one.keys, "weights": one.weights.astype("float64").round(7).tolist()}
            for kind, one in self.maps.items()
        }
        return {"source": self.source, "text": self.text, "attention": maps}


def check_tokens(name: str, count: int) -> None:
    """Raises :class:`DataError` for more tokens than are drawn."""
    if count > MOST_TOKENS:
        raise DataError(
            f"{name} has {count:,} tokens and attention is shown for up to {MOST_TOKENS}; break it up, or write .json."
        )


def _each_alone(labels: list[str]) -> Words:
    return Words(labels, [[index] for index in range(len(labels))], [None] * len(labels))


def _stacked(kind: str, layers: Sequence[Any], queries: int, keys: int) -> NDArray[floating]:
    """The layers as one float32 array [L,H,Q,K]; raises :class:`DataError` where the tokens do not fit it."""
    import numpy as np

    # numpy has no bfloat16; a tensor of one becomes float32 first.
    arrays = [np.asarray(layer.float() if hasattr(layer, "float") else layer, dtype=np.float32) for layer in layers]
    for array in arrays:
        if array.ndim != 3 or array.shape[1:] != (queries, keys):
            raise DataError(
                f"the {kind} attention is of shape {list(array.shape)} and the tokens ask for "
                f"[heads, {queries}, {keys}]; give the weights and the tokens of one translation."
            )
    return np.stack(arrays)
