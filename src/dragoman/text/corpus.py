"""A tokenised corpus on disk, memory-mapped: the memory of a training does not grow with its text.

A folder holds ``src.bin`` and ``tgt.bin`` (token ids one after the other, without special tokens),
``src.offsets.bin`` and ``tgt.offsets.bin`` (where each sentence begins, N + 1 int64) and ``corpus.json``.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.config import DataConfig
from dragoman.errors import BundleError
from dragoman.files import atomic_folder
from dragoman.text.cleaning import Cleaner, DropCounts
from dragoman.text.tokenizer import TokenizerPair

_FORMAT = 1
# Pairs tokenised at once: enough for the tokenizer's threads, little in memory.
_CHUNK = 4096

Ids = NDArray[Any]


class TokenCorpus:
    """N sentence pairs as token ids; ``pair(i)`` gives views of the mapped files, nothing is copied."""

    def __init__(self, src: _Side, tgt: _Side, counts: DropCounts) -> None:
        self._src = src
        self._tgt = tgt
        self.counts = counts

    def __len__(self) -> int:
        return len(self._src.offsets) - 1

    def pair(self, index: int) -> tuple[Ids, Ids]:
        """Source and target ids of one pair, without special tokens."""
        return self._src.row(index), self._tgt.row(index)

    def lengths(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target lengths of some pairs, in tokens, special tokens not counted."""
        return self._src.lengths(indices), self._tgt.lengths(indices)

    @property
    def src_lengths(self) -> NDArray[np.int64]:
        """Source lengths of all pairs: an array of N."""
        return np.diff(self._src.offsets)

    @property
    def tgt_lengths(self) -> NDArray[np.int64]:
        """Target lengths of all pairs: an array of N."""
        return np.diff(self._tgt.offsets)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> TokenCorpus:
        """Map a folder that :func:`write_corpus` wrote. Raises :class:`BundleError` where it is damaged."""
        folder = Path(folder)
        try:
            meta = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            if meta["format"] != _FORMAT:
                raise BundleError(f"{folder} has corpus format {meta['format']}, not {_FORMAT}; delete it to rebuild.")
            src, tgt = (_Side.open(folder, name, meta["pairs"], meta[name]) for name in ("src", "tgt"))
            return cls(src, tgt, DropCounts(**meta["counts"]))
        except (OSError, ValueError, LookupError, TypeError):
            raise BundleError(f"{folder} is not a complete tokenised corpus; delete it to rebuild.") from None


class _Side:
    """One side's ids and offsets."""

    def __init__(self, ids: Ids, offsets: NDArray[np.int64]) -> None:
        self.ids = ids
        self.offsets = offsets

    def row(self, index: int) -> Ids:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(self.offsets[indices + 1] - self.offsets[indices])

    @classmethod
    def open(cls, folder: Path, name: str, pairs: int, meta: dict[str, Any]) -> _Side:
        offsets = _map(folder / f"{name}.offsets.bin", "<i8", pairs + 1)
        if (offsets[0], offsets[-1]) != (0, meta["tokens"]):
            raise ValueError(name)
        return cls(_map(folder / f"{name}.bin", meta["dtype"], meta["tokens"]), offsets)


def _map(path: Path, dtype: str, count: int) -> Any:
    if path.stat().st_size != count * np.dtype(dtype).itemsize:
        raise ValueError(path)
    # numpy cannot map an empty file.
    return np.memmap(path, dtype, mode="r", shape=(count,)) if count else np.empty(0, dtype)


class _Writer:
    """Appends sentences to one side's two files."""

    def __init__(self, folder: Path, name: str, vocab_size: int, stack: contextlib.ExitStack) -> None:
        self.dtype = "<u2" if vocab_size <= 1 << 16 else "<u4"
        self.tokens = 0
        self._ids = stack.enter_context((folder / f"{name}.bin").open("wb"))
        self._offsets = stack.enter_context((folder / f"{name}.offsets.bin").open("wb"))
        self._offsets.write(np.zeros(1, "<i8").tobytes())

    def add(self, rows: list[list[int]]) -> None:
        ends = self.tokens + np.cumsum([len(row) for row in rows], dtype="<i8")
        self._ids.write(b"".join(np.asarray(row, self.dtype).tobytes() for row in rows))
        self._offsets.write(ends.astype("<i8").tobytes())
        self.tokens = int(ends[-1]) if rows else self.tokens


def write_corpus(
    pairs: Iterable[tuple[str, str]],
    tokenizers: TokenizerPair,
    data: DataConfig,
    folder: str | os.PathLike[str],
    clean: bool = True,
) -> TokenCorpus:
    """Tokenise ``pairs`` into ``folder``, atomically and in constant memory, and open the result.

    ``clean`` drops and counts pairs that are empty, too long or over the ratio; training text only.
    """
    cleaner = Cleaner(data.max_length, data.max_ratio)
    with atomic_folder(folder) as part, contextlib.ExitStack() as stack:
        src = _Writer(part, "src", tokenizers.src.vocab_size, stack)
        tgt = _Writer(part, "tgt", tokenizers.tgt.vocab_size, stack)
        for chunk in _chunks(pairs):
            rows = zip(
                chunk,
                tokenizers.src.encode_batch([left for left, _ in chunk]),
                tokenizers.tgt.encode_batch([right for _, right in chunk]),
                strict=True,
            )
            kept = [
                (left, right)
                for texts, left, right in rows
                if not clean or cleaner.keeps(_length(texts[0], left), _length(texts[1], right))
            ]
            if not clean:
                cleaner.counts.kept += len(kept)
            src.add([left for left, _ in kept])
            tgt.add([right for _, right in kept])
        meta = {
            "format": _FORMAT,
            "pairs": cleaner.counts.kept,
            "src": {"dtype": src.dtype, "tokens": src.tokens},
            "tgt": {"dtype": tgt.dtype, "tokens": tgt.tokens},
            "counts": asdict(cleaner.counts),
        }
        (part / "corpus.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
    return TokenCorpus.open(folder)


def _length(text: str, ids: list[int]) -> int:
    """Tokens of a sentence; white space alone is none, though byte-level tokenizers have tokens for it."""
    return len(ids) if text.strip() else 0


def _chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    rest = iter(pairs)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk
