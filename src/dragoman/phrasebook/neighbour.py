"""A baseline that only looks up: the German of the training sentence whose English is closest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import DataError
from dragoman.phrasebook.splits import Pair

_TOKEN = re.compile(r"[\w'-]+|[^\w\s]")


def _features(text: str) -> set[str]:
    """The different words and pairs of neighbouring words of a sentence, lower-cased."""
    tokens = _TOKEN.findall(text.lower())
    bounded = ["<s>", *tokens, "</s>"]
    return {*tokens, *(f"{a} {b}" for a, b in pairwise(bounded))}


def nearest_neighbour(train_pairs: Sequence[Pair], sources: Sequence[str]) -> list[str]:
    """For each source the German of the training pair with the highest F1 over words and word pairs.

    Among equals the first wins. Raises :class:`DataError` where there is nothing to look up in.
    """
    if not train_pairs:
        raise DataError("the nearest neighbour needs training pairs, and there are none; give at least one.")
    postings: dict[str, list[int]] = {}
    sizes = np.empty(len(train_pairs))
    for i, pair in enumerate(train_pairs):
        features = _features(pair.src)
        sizes[i] = len(features)
        for feature in features:
            postings.setdefault(feature, []).append(i)
    index: dict[str, NDArray[np.int64]] = {feature: np.array(rows) for feature, rows in postings.items()}
    answers = []
    for source in sources:
        features = _features(source)
        shared = np.zeros(len(train_pairs))
        for feature in features:
            if feature in index:
                shared[index[feature]] += 1
        f1 = 2 * shared / (sizes + len(features))
        answers.append(train_pairs[int(np.argmax(f1))].tgt)
    return answers
