"""SentencePiece: a model that cuts text into pieces, and a vocabulary that gives the pieces their ids.

Marian keeps the two apart: a source and a target model may share one ``vocab.json``. Source of the rules:
``MarianTokenizer`` of Hugging Face transformers, whose ids :meth:`SentencePieceTokenizer.encode` gives.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from dragoman.config import TokenizerConfig
from dragoman.errors import BundleError, ConfigError, DataError
from dragoman.files import atomic_file, write_json
from dragoman.text.tokenizer import SPECIAL_TOKENS, Tokenizer, open_bytes, spells_no_text, text_checked

_UNK, _PAD, _BOS, _EOS = SPECIAL_TOKENS
# A leading token that names the target language of a multilingual model: ">>deu<<".
_LANGUAGE = re.compile(r">>.*?<<", re.DOTALL)
# A piece that is a byte.
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# The trainer needs about 22 bytes for each character that it keeps, in lines drawn evenly from longer text. Half a
# million lines of at most 256 characters, which longer ones are cut into, bound it.
_LINES = 500_000
_LINE = 256
# Fixed, because sums over other numbers of threads differ in their last digits.
_THREADS = 4


def _library() -> ModuleType:
    try:
        import sentencepiece
    except ImportError:
        raise ConfigError(
            "the tokenizer kind sentencepiece needs the package sentencepiece; pip install 'dragoman[marian]'."
        ) from None
    module: ModuleType = sentencepiece
    return module


class SentencePieceTokenizer(Tokenizer):
    """``model``: the bytes of a SentencePiece model; ``pieces``: the id of each piece, 0 to N − 1.

    A piece that is not in the vocabulary is ``<unk>``. ``<unk>``, ``<pad>`` and ``</s>`` must be in it; where there
    is no ``<s>``, as in Marian's, decoding starts from ``<pad>`` and ``bos_id`` is ``pad_id``. A ``>>deu<<`` at the
    start of a text is one piece if the vocabulary has it (transformers makes any other such start one ``<unk>``,
    which would lose quoted words, so it is text here). Raises :class:`BundleError`, naming ``where``.
    """

    kind = "sentencepiece"
    suffixes: ClassVar[tuple[str, ...]] = (".spm", ".model")

    def __init__(self, model: bytes, pieces: dict[str, int], where: str = "the SentencePiece model") -> None:
        self.model = model
        self.pieces = pieces
        self._processor = _processor(model, where)
        flaw = _flaw(pieces)
        if flaw:
            raise BundleError(f"{where}: {flaw}; use the files that were made together.")
        self._names = sorted(pieces, key=pieces.__getitem__)
        self.vocab_size = len(pieces)
        self.has_bos = _BOS in pieces
        self.unk_id, self.pad_id, self.eos_id = pieces[_UNK], pieces[_PAD], pieces[_EOS]
        self.bos_id = pieces.get(_BOS, self.pad_id)
        self._special = {self.unk_id, self.pad_id, self.bos_id, self.eos_id}

    def normalize(self, text: str) -> str:
        """The text by the model's own rule (NFKC for most), which decoding gives back where no piece is unknown."""
        with text_checked([text]):
            code, text = self._split(text)
            return " ".join([*code, *filter(None, [_plain(self._processor.normalize(text))])])

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of several texts."""
        with text_checked(texts):
            split = [self._split(text) for text in texts]
            rows = self._processor.encode([text for _, text in split], out_type=str)
        return [
            [self.pieces[piece] for piece in code] + [self._id(piece) for piece in row]
            for (code, _), row in zip(split, rows, strict=True)
        ]

    def _split(self, text: str) -> tuple[list[str], str]:
        """The language token that a text begins with, if any, and the rest."""
        found = _LANGUAGE.match(text)
        if found and found[0] in self.pieces:
            return [found[0]], text[found.end() :]
        return [], text

    def _id(self, piece: str) -> int:
        index = self.pieces.get(piece, self.unk_id)
        return self.unk_id if index in self._special else index

    def decode(self, ids: Iterable[int]) -> str:
        """The text; special tokens, ``<unk>`` among them, are left out."""
        kept = [self._names[index] for index in self._known(ids) if index not in self._special]
        return _plain(self._processor.decode_pieces(kept))

    def decode_whole(self, ids: Iterable[int]) -> str:
        """The text without the bytes of a part of a character at its end, which :meth:`decode` shows as ``�`` each."""
        kept = [index for index in self._known(ids) if index not in self._special]
        tail = b""
        for index in reversed(kept[-3:]):
            byte = _BYTE.fullmatch(self._names[index])
            if byte is None:
                break
            tail = bytes.fromhex(byte[1]) + tail
        return self.decode(kept[: len(kept) - open_bytes(tail)])

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The pieces: ``▁`` for a space, ``<0xC3>`` for a byte."""
        return [self._names[index] for index in self._known(ids)]

    def vocabulary(self) -> list[str]:
        """The pieces."""
        return list(self._names)

    def shares_vocabulary(self, other: Tokenizer) -> bool:
        """Whether the pieces have the same ids; the models may differ."""
        return isinstance(other, SentencePieceTokenizer) and self.pieces == other.pieces

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to ``path`` and the vocabulary beside it: see :func:`read_sentencepiece`."""
        self.save_model(path)
        write_json(_vocabulary_files(Path(path))[0], self.pieces)

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the model alone."""
        with atomic_file(path, "wb") as stream:
            stream.write(self.model)

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "pieces": self.pieces}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # the library's object is made anew


def _plain(text: str) -> str:
    return text.replace("▁", " ").strip(" ")


def _processor(model: bytes, where: str) -> Any:
    library = _library()
    processor = library.SentencePieceProcessor()
    try:
        if not model:
            raise RuntimeError
        processor.LoadFromSerializedProto(model)
    except RuntimeError:
        raise BundleError(f"{where} is no SentencePiece model; copy the file again.") from None
    return processor


def _flaw(pieces: Any) -> str | None:
    """What is wrong with a vocabulary."""
    if not isinstance(pieces, dict) or not all(type(index) is int for index in pieces.values()):
        return "its vocabulary is no JSON object of pieces and ids"
    missing = [token for token in (_UNK, _PAD, _EOS) if token not in pieces]
    if missing:
        return f"its vocabulary lacks {', '.join(missing)}"
    if spells_no_text(pieces):
        return "its vocabulary holds a piece that is no text (half of a UTF-16 pair)"
    if sorted(pieces.values()) != list(range(len(pieces))):
        return "the ids of its vocabulary have gaps"
    return None


def _vocabulary_files(path: Path) -> list[Path]:
    """Where the vocabulary of a model may lie: of Hugging Face's two under their names, of others beside it."""
    names = {"source.spm": ["vocab.json"], "target.spm": ["target_vocab.json", "vocab.json"]}
    return [path.with_name(name) for name in names.get(path.name, [f"{path.stem}.vocab.json"])]


def read_sentencepiece(path: Path, model: bytes) -> SentencePieceTokenizer:
    """A tokenizer of a model and its vocabulary; raises :class:`BundleError`.

    ``source.spm`` and ``target.spm`` have ``vocab.json`` (or ``target_vocab.json``) beside them, any other ``x.spm``
    or ``x.model`` may have ``x.vocab.json``. A model alone numbers its pieces itself; a ``<pad>`` that it lacks,
    as SentencePiece's models mostly do, becomes the last id.
    """
    for place in _vocabulary_files(path):
        if place.exists():
            return SentencePieceTokenizer(model, _read_vocabulary(place), f"{path} with {place.name}")
    if path.name in ("source.spm", "target.spm"):
        raise BundleError(f"{path} has no vocab.json beside it; copy the folder again.")
    processor = _processor(model, str(path))
    pieces = {processor.id_to_piece(index): index for index in range(processor.get_piece_size())}
    pieces.setdefault(_PAD, len(pieces))
    return SentencePieceTokenizer(model, pieces, str(path))


def _read_vocabulary(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}; copy the folder again.") from None
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not valid JSON ({str(error).splitlines()[0]}); copy the folder again.") from None


def save_spm_pair(folder: Path, src: Tokenizer, tgt: Tokenizer) -> tuple[str, ...]:
    """Write two SentencePiece tokenizers as Hugging Face's Marian folders keep them; the names of the files."""
    assert isinstance(src, SentencePieceTokenizer)
    assert isinstance(tgt, SentencePieceTokenizer)
    src.save(folder / "source.spm")
    if src.shares_vocabulary(tgt):
        tgt.save_model(folder / "target.spm")
        return ("source.spm", "target.spm", "vocab.json")
    tgt.save(folder / "target.spm")
    return ("source.spm", "target.spm", "vocab.json", "target_vocab.json")


def train_sentencepiece(config: TokenizerConfig, texts: Iterable[str]) -> SentencePieceTokenizer:
    """Learn a unigram model with SentencePiece's own trainer: ``<unk> <pad> <s> </s>``, 256 bytes, then the pieces.

    - Characters that the training text lacks are written as bytes, so that no text is unknown, as with the other
      subword kinds; all characters of the training text are pieces (``character_coverage`` 1).
    - ``vocab_size`` is a most, as with the other kinds: a small text gives fewer pieces and no error.
    - Text is normalised by the library's rule ``nmt_nfkc``, as for most of Marian's models, or ``nmt_nfkc_cf``, which
      lower-cases too; the rule is a part of the model, so that it goes with it wherever it is used.
    - Of text that is longer, half a million lines are sampled evenly (the trainer's seed is fixed), so that memory is
      bounded: 1.3 GB for lines of 110 characters.

    Raises :class:`ConfigError` for a vocabulary that is too small, :class:`DataError` for text without words.
    """
    library = _library()
    library.set_min_log_level(3)
    model = io.BytesIO()
    watched = _Lines(texts)
    try:
        library.SentencePieceTrainer.train(
            sentence_iterator=iter(watched),
            model_writer=model,
            model_type="unigram",
            # Below this the trainer stops before it knows how many pieces it needs.
            vocab_size=max(config.vocab_size, len(SPECIAL_TOKENS) + 1),
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=1.0,
            normalization_rule_name="nmt_nfkc_cf" if config.lowercase else "nmt_nfkc",
            input_sentence_size=_LINES,
            shuffle_input_sentence=True,
            num_threads=_THREADS,
            minloglevel=3,
            **{f"{name}_id": index for index, name in enumerate(("unk", "pad", "bos", "eos"))},
            **dict(zip(("unk_piece", "pad_piece", "bos_piece", "eos_piece"), SPECIAL_TOKENS, strict=True)),
        )
    except RuntimeError as error:
        raise watched.failure or _explained(config, str(error)) from None
    processor = _processor(model.getvalue(), "the trained model")
    pieces = {processor.id_to_piece(index): index for index in range(processor.get_piece_size())}
    return SentencePieceTokenizer(model.getvalue(), pieces)


class _Lines:
    """Texts in lines that the trainer takes; keeps what reading them raised, which the library would hide."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self.failure: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for text in self._texts:
                yield from _lines(text)
        except Exception as error:
            self.failure = error
            raise


def _lines(text: str) -> Iterator[str]:
    """A text without the characters at which the trainer drops a whole sentence, cut at spaces where it is long."""
    text = text.replace("\0", " ").replace("\u2585", " ")
    start = 0
    while len(text) - start > _LINE:
        cut = text.rfind(" ", start + 1, start + _LINE)
        cut = cut if cut > 0 else start + _LINE
        yield text[start:cut]
        start = cut
    yield text[start:]


def _explained(config: TokenizerConfig, message: str) -> ConfigError | DataError:
    """Our error for one of the trainer's."""
    if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ConfigError(
            f"tokenizer.vocab_size {config.vocab_size} is too small: sentencepiece holds all 256 bytes, the special "
            f"tokens and every character of the training text, so give at least {found[1]}."
        )
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return DataError("the training text holds no words to learn a vocabulary from; check data.train.")
    return DataError(f"sentencepiece cannot learn a vocabulary ({message.splitlines()[0]}); check data.train.")
