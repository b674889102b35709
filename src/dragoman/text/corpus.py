"""A tokenised corpus on disk, memory-mapped: the memory of a training does not grow with its text.

A folder holds ``src.bin`` and ``tgt.bin`` (token ids one after the other, without special tokens),
``src.offsets.bin`` and ``tgt.offsets.bin`` (where each sentence begins, N + 1 int64) and ``corpus.json``; where the
text is to be cut anew each epoch (BPE-dropout), also ``src.words.bin`` and ``tgt.words.bin`` (a byte a token: 1 where
it begins a word).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dragoman.config import DataConfig
from dragoman.errors import BundleError
from dragoman.files import atomic_folder
from dragoman.text.cleaning import Cleaner, DropCounts
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

if TYPE_CHECKING:
    from dragoman.text.json_tokenizer import ByteLevelTokenizer

_FORMAT = 1
# Pairs tokenised at once: enough for the tokenizer's threads, little in memory.
_CHUNK = 4096

T = TypeVar("T")
Ids = NDArray[Any]
Ints = NDArray[np.int64]
# The ids of a text, and for each token whether it begins a word (None: not known).
Cut = tuple[list[int], list[bool] | None]


class Window(Protocol):
    """Some pairs of a corpus, as an epoch has them."""

    def pair(self, place: int) -> tuple[Ids, Ids]:
        """Source and target ids of the pair at one place of the window, without special tokens."""
        ...

    def lengths(self) -> tuple[Ints, Ints]:
        """Source and target lengths of all pairs, in tokens, special tokens not counted."""
        ...


class TokenCorpus:
    """N sentence pairs as token ids; ``pair(i)`` gives views of the mapped files, nothing is copied."""

    def __init__(self, src: Side, tgt: Side, counts: DropCounts) -> None:
        self.src = src
        self.tgt = tgt
        self.counts = counts

    def __len__(self) -> int:
        return len(self.src.offsets) - 1

    def pair(self, index: int) -> tuple[Ids, Ids]:
        """Source and target ids of one pair, without special tokens."""
        return self.src.row(index), self.tgt.row(index)

    def lengths(self, indices: Ints) -> tuple[Ints, Ints]:
        """Source and target lengths of some pairs, in tokens, special tokens not counted."""
        return self.src.lengths(indices), self.tgt.lengths(indices)

    def window(self, indices: Ints, epoch: int) -> Window:
        """Some pairs as epoch ``epoch`` has them: the same in all."""
        return _View(self, indices)

    @property
    def src_lengths(self) -> NDArray[np.int64]:
        """Source lengths of all pairs: an array of N."""
        return np.diff(self.src.offsets)

    @property
    def tgt_lengths(self) -> NDArray[np.int64]:
        """Target lengths of all pairs: an array of N."""
        return np.diff(self.tgt.offsets)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> TokenCorpus:
        """Map a folder that :func:`write_corpus` wrote. Raises :class:`BundleError` where it is damaged."""
        folder = Path(folder)
        try:
            meta = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            if meta["format"] != _FORMAT:
                raise BundleError(f"{folder} has corpus format {meta['format']}, not {_FORMAT}; delete it to rebuild.")
            src, tgt = (Side.open(folder, name, meta["pairs"], meta[name]) for name in ("src", "tgt"))
            return cls(src, tgt, DropCounts(**meta["counts"]))
        except (OSError, ValueError, LookupError, TypeError):
            raise BundleError(f"{folder} is not a complete tokenised corpus; delete it to rebuild.") from None


class _View(NamedTuple):
    """Pairs of the corpus as they are on disk."""

    corpus: TokenCorpus
    indices: Ints

    def pair(self, place: int) -> tuple[Ids, Ids]:
        return self.corpus.pair(int(self.indices[place]))

    def lengths(self) -> tuple[Ints, Ints]:
        return self.corpus.lengths(self.indices)


class Side:
    """One side's ids and offsets, and which ids begin a word where that is known."""

    def __init__(self, ids: Ids, offsets: Ints, begins: NDArray[np.bool_] | None = None) -> None:
        self.ids = ids
        self.offsets = offsets
        self.begins = begins

    def row(self, index: int) -> Ids:
        """The ids of one sentence."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def lengths(self, indices: Ints) -> Ints:
        """Tokens of some sentences."""
        return np.asarray(self.offsets[indices + 1] - self.offsets[indices])

    @classmethod
    def open(cls, folder: Path, name: str, pairs: int, meta: dict[str, Any]) -> Side:
        """Map one side's files; raises OSError, ValueError or LookupError where they do not fit."""
        offsets = _map(folder / f"{name}.offsets.bin", "<i8", pairs + 1)
        if (offsets[0], offsets[-1]) != (0, meta["tokens"]):
            raise ValueError(name)
        begins = _map(folder / f"{name}.words.bin", "?", meta["tokens"]) if meta.get("words") else None
        return cls(_map(folder / f"{name}.bin", meta["dtype"], meta["tokens"]), offsets, begins)


class MadeWindow(NamedTuple):
    """A window whose pairs are in memory."""

    src: Side
    tgt: Side

    def pair(self, place: int) -> tuple[Ids, Ids]:
        """Source and target ids of the pair at one place."""
        return self.src.row(place), self.tgt.row(place)

    def lengths(self) -> tuple[Ints, Ints]:
        """Source and target lengths of all pairs."""
        return np.diff(self.src.offsets), np.diff(self.tgt.offsets)


def _map(path: Path, dtype: str, count: int) -> Any:
    if path.stat().st_size != count * np.dtype(dtype).itemsize:
        raise ValueError(path)
    # numpy cannot map an empty file.
    return np.memmap(path, dtype, mode="r", shape=(count,)) if count else np.empty(0, dtype)


def cut_texts(tokenizer: Tokenizer, texts: list[str], words: bool) -> list[Cut]:
    """Tokenise texts; ``words``: with where words begin, which :class:`ByteLevelTokenizer` alone can tell."""
    if not words:
        return [(ids, None) for ids in tokenizer.encode_batch(texts)]
    return list(cast("ByteLevelTokenizer", tokenizer).encode_words(texts))


class _Writer:
    """Appends sentences to one side's files."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer, words: bool, stack: contextlib.ExitStack) -> None:
        self.dtype = "<u2" if tokenizer.vocab_size <= 1 << 16 else "<u4"
        self.tokens = 0
        self._tokenizer = tokenizer
        self._ids = stack.enter_context((folder / f"{name}.bin").open("wb"))
        self._offsets = stack.enter_context((folder / f"{name}.offsets.bin").open("wb"))
        self._offsets.write(np.zeros(1, "<i8").tobytes())
        self._begins = stack.enter_context((folder / f"{name}.words.bin").open("wb")) if words else None

    @property
    def meta(self) -> dict[str, Any]:
        """What ``corpus.json`` says about the side."""
        return {"dtype": self.dtype, "tokens": self.tokens, "words": self._begins is not None}

    def cut(self, texts: list[str]) -> list[Cut]:
        """Tokenise texts."""
        return cut_texts(self._tokenizer, texts, words=self._begins is not None)

    def add(self, rows: list[Cut]) -> None:
        """Append what :meth:`cut` gave."""
        ends = self.tokens + np.cumsum([len(ids) for ids, _ in rows], dtype="<i8")
        self._ids.write(b"".join(np.asarray(ids, self.dtype).tobytes() for ids, _ in rows))
        self._offsets.write(ends.astype("<i8").tobytes())
        if self._begins is not None:
            self._begins.write(b"".join(bytes(begins) for _, begins in rows if begins))
        self.tokens = int(ends[-1]) if rows else self.tokens


def write_corpus(
    pairs: Iterable[tuple[str, str]],
    tokenizers: TokenizerPair,
    data: DataConfig,
    folder: str | os.PathLike[str],
    clean: bool = True,
    words: bool = False,
) -> TokenCorpus:
    """Tokenise ``pairs`` into ``folder``, atomically and in constant memory, and open the result.

    ``clean`` drops and counts pairs that are empty, too long or over the ratio; training text only. ``words`` keeps
    where words begin, which :class:`ByteLevelTokenizer` alone can tell.
    """
    cleaner = Cleaner(data.max_length, data.max_ratio)
    with atomic_folder(folder) as part, contextlib.ExitStack() as stack:
        src = _Writer(part, "src", tokenizers.src, words, stack)
        tgt = _Writer(part, "tgt", tokenizers.tgt, words, stack)
        for chunk in chunks(pairs):
            cuts = list(zip(src.cut([left for left, _ in chunk]), tgt.cut([right for _, right in chunk]), strict=True))
            kept = [cut for texts, cut in zip(chunk, cuts, strict=True) if not clean or keeps(cleaner, texts, cut)]
            if not clean:
                cleaner.counts.kept += len(kept)
            src.add([left for left, _ in kept])
            tgt.add([right for _, right in kept])
        meta = {
            "format": _FORMAT,
            "pairs": cleaner.counts.kept,
            "src": src.meta,
            "tgt": tgt.meta,
            "counts": asdict(cleaner.counts),
        }
        (part / "corpus.json").write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
    return TokenCorpus.open(folder)


def keeps(cleaner: Cleaner, texts: tuple[str, str], cut: tuple[Cut, Cut]) -> bool:
    """Whether a pair stays in training; the cleaner counts it either way."""
    src, tgt = (_length(text, ids) for text, (ids, _) in zip(texts, cut, strict=True))
    return cleaner.keeps(src, tgt)


def _length(text: str, ids: list[int]) -> int:
    """Tokens of a sentence; white space alone is none, though byte-level tokenizers have tokens for it."""
    return len(ids) if text.strip() else 0


def chunks(pairs: Iterable[T]) -> Iterator[list[T]]:
    """Lists of as many items as are tokenised at once."""
    rest = iter(pairs)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk
