"""A made-up translation with attention, for tests of what shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SPECIAL = frozenset({"<s>", "</s>", "<pad>"})


@dataclass
class Weights:
    encoder: list[Any] = field(default_factory=list)
    decoder: list[Any] = field(default_factory=list)
    cross: list[Any] = field(default_factory=list)


@dataclass
class Sample:
    """As much of a translation as pictures need."""

    text: str
    tokens: list[str]
    src_tokens: list[str]
    attention: Weights | None


def weights(queries: int, keys: int, layers: int = 2, heads: int = 3, *, causal: bool = False, seed: int = 0) -> Any:
    """Rows that add up to one, [heads, queries, keys] in each layer."""
    logits = np.random.default_rng(seed).normal(size=(layers, heads, queries, keys)) * 2.0
    if causal:
        logits = np.where(np.tril(np.ones((queries, keys), dtype=bool)), logits, -np.inf)
    shares = np.exp(logits)
    return list((shares / shares.sum(-1, keepdims=True)).astype(np.float32))


def sample(src_tokens: list[str], tokens: list[str], **shape: int) -> tuple[str, Sample]:
    """The source's text and a translation of these tokens, the last of which is ``</s>``."""
    n_src, n_tgt = len(src_tokens), len(tokens)
    attention = Weights(
        weights(n_src, n_src, seed=1, **shape),
        weights(n_tgt, n_tgt, causal=True, seed=2, **shape),
        weights(n_tgt, n_src, seed=3, **shape),
    )
    source, text = ("".join(part[:-1]).replace("▁", " ").strip() for part in (src_tokens, tokens))
    return source, Sample(text, tokens, src_tokens, attention)


SRC = ["▁The", "▁fer", "ry", "▁lea", "ves", ".", "</s>"]
TGT = ["▁Die", "▁Fäh", "re", "▁geht", ".", "</s>"]
# Tokens that would do harm as markup, as JSON in a script, as mathematics, or to fonts.
NASTY = [
    "▁<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "▁<!--",
    "▁]]>",
    "▁&amp;&lt;",
    "▁\"'`",
    "▁$x^2$",
    "▁$",
    "▁\\u003c\\",
    "▁北京",
    "▁🙂",
    "▁שלום",
    "\u2028\u2029",
    "\x00\x1b",
    "�",
    "▁" + "w" * 300,
    "</s>",
]
