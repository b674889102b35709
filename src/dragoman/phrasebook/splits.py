"""Training, validation and test sentences that share no sentence and no held-out subject–verb–object triple."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

from dragoman.errors import DataError
from dragoman.phrasebook.clause import Triple
from dragoman.phrasebook.draw import Draw
from dragoman.phrasebook.frames import Sentence
from dragoman.phrasebook.patterns import draw_sentence

HELD_OUT = 0.06
"""The share of triples, and of sentences without one, that never occur in training."""

_PATIENCE = 50_000
"""Draws in a row that bring no new sentence before we give up."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An English sentence and its German.

    ``triple`` holds the subject, verb and object lemmas that decide the pair's side, or None where the sentence has
    none; ``triples`` holds those of all its clauses.
    """

    src: str
    tgt: str
    triple: Triple | None
    triples: tuple[Triple, ...] = ()


@dataclass(frozen=True, slots=True)
class PhrasebookSplits:
    """The three parts of a phrasebook."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def held_out(parts: tuple[str, ...], seed: int) -> bool:
    """Whether a triple, or a sentence given as one string, is kept from training; the same on every machine."""
    digest = hashlib.sha256("|".join((str(seed), *parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") < HELD_OUT * 2**64


def _pair(sentence: Sentence, seed: int) -> tuple[Pair, bool]:
    """The pair and whether it is held out: when any of its triples is, or without triples the sentence itself."""
    out = [triple for triple in sentence.triples if held_out(triple, seed)]
    first = out or list(sentence.triples)
    pair = Pair(sentence.en, sentence.de, first[0] if first else None, sentence.triples)
    return pair, bool(out) if sentence.triples else held_out((sentence.en,), seed)


def generate(n_train: int, n_valid: int, n_test: int, seed: int) -> PhrasebookSplits:
    """So many different pairs for each part, the same for the same seed everywhere.

    A triple of subject, verb and object belongs to one side by its hash: a sentence with a held-out triple goes to
    validation or test, every other one to training. A larger training set starts with the smaller one.
    Raises :class:`DataError` where a number is negative or the grammar has not that many sentences.
    """
    wanted = {"train": n_train, "valid": n_valid, "test": n_test}
    for name, n in wanted.items():
        if n < 0:
            raise DataError(f"the phrasebook cannot have {n} {name} pairs; ask for 0 or more.")
    draw = Draw(random.Random(seed))
    train: list[Pair] = []
    kept: list[Pair] = []
    seen: set[str] = set()
    idle = 0
    while len(train) < n_train or len(kept) < n_valid + n_test:
        sentence = draw_sentence(draw)
        idle += 1
        if sentence.en not in seen:
            pair, out = _pair(sentence, seed)
            side, n = (kept, n_valid + n_test) if out else (train, n_train)
            if len(side) < n:
                seen.add(sentence.en)
                side.append(pair)
                idle = 0
        if idle > _PATIENCE:
            raise DataError(
                f"the phrasebook ran out of new sentences at {len(train)} training and {len(kept)} held-out pairs;"
                " ask for fewer."
            )
    return PhrasebookSplits(train, kept[:n_valid], kept[n_valid:])
