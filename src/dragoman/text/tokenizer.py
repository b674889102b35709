"""What every tokenizer can do, the two of a model together, and how the right kind is trained or read.

One kind or family a file: ``json_tokenizer.py`` (bpe, unigram, wordlevel), ``foreign_words.py`` (hkproj's word-level
JSON), ``sentencepiece.py``, ``rules.py``. Their libraries are imported when they are needed.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import operator
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from dragoman.config import TokenizerConfig
from dragoman.errors import BundleError, ConfigError, DataError

SPECIAL_TOKENS = ("<unk>", "<pad>", "<s>", "</s>")
# Where no language is known: spaCy's code for rules that fit many.
ANY_LANGUAGE = "xx"
# Half of a UTF-16 pair.
_HALF = re.compile("[\ud800-\udfff]")
_SENTENCEPIECE = (".spm", ".model")
_JOINT, _SIDES = "tokenizer.json", ("src.tokenizer.json", "tgt.tokenizer.json")
_SPM = ("source.spm", "target.spm")
_VOCABULARIES = ("vocab.json", "target_vocab.json")

Pairs = Callable[[], Iterator[tuple[str, str]]]


class Tokenizer(ABC):
    """One language's (or a joint) vocabulary. Text never gives the id of a special token, but for ``unk_id``."""

    kind: str
    vocab_size: int
    unk_id: int
    pad_id: int
    bos_id: int
    eos_id: int
    # How a file of a single tokenizer may be called.
    suffixes: ClassVar[tuple[str, ...]] = (".json",)

    @abstractmethod
    def normalize(self, text: str) -> str:
        """The text as the model sees it."""

    @property
    def keeps_case(self) -> bool:
        """False where all text is lower-cased first, so that a model never writes a capital letter."""
        return "A" in self.normalize("A")

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of a text."""

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of several texts."""
        return [self.encode(text) for text in texts]

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special tokens are left out."""

    def decode_whole(self, ids: Iterable[int]) -> str:
        """The text of ids, without bytes at its end that are only a part of a character."""
        return self.decode(ids)

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The texts of several rows of ids."""
        return [self.decode(ids) for ids in batch]

    @abstractmethod
    def tokens(self, ids: Iterable[int]) -> list[str]:
        """A readable piece per id, special tokens by name."""

    @abstractmethod
    def vocabulary(self) -> list[str]:
        """The token of each id as the file has it: all different."""

    @abstractmethod
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what :meth:`load` reads, atomically."""

    def _known(self, ids: Iterable[int]) -> list[int]:
        """The ids as a list. Raises :class:`DataError` for one that the vocabulary has not."""
        try:
            known = [operator.index(index) for index in ids]
        except TypeError as error:
            raise DataError(f"ids are whole numbers ({error}); give what encode gave.") from None
        if known and not (min(known) >= 0 and max(known) < self.vocab_size):
            odd = next(index for index in known if not 0 <= index < self.vocab_size)
            raise DataError(f"there is no id {odd} in a vocabulary of {self.vocab_size} tokens; give what encode gave.")
        return known

    def shares_vocabulary(self, other: Tokenizer) -> bool:
        """Whether an id means the same in both."""
        return self is other

    @classmethod
    def train(cls, config: TokenizerConfig, texts: Iterable[str], language: str = ANY_LANGUAGE) -> Tokenizer:
        """Learn a vocabulary from training text; only ``rules`` asks for its ``language`` (a code such as ``de``).

        Raises :class:`ConfigError` for settings that cannot work, :class:`DataError` where there is no text.
        """
        if config.bpe_dropout > 0 and config.kind != "bpe":
            raise no_dropout(config.kind)
        watched = _Watched(texts)
        if config.kind == "sentencepiece":
            from dragoman.text.sentencepiece import train_sentencepiece

            return train_sentencepiece(config, watched)
        if config.kind == "rules":
            from dragoman.text.rules import train_rules

            return train_rules(config, watched, language)
        from dragoman.text.json_tokenizer import train_json

        return train_json(config, watched)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """Read a tokenizer file of any kind. Raises :class:`BundleError`.

        ``.spm`` and ``.model`` are SentencePiece models; of JSON files the content tells the kind.
        """
        path = Path(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BundleError(f"cannot read {path}: {error.strerror}; a tokenizer file is needed there.") from None
        if path.suffix in _SENTENCEPIECE:
            from dragoman.text.sentencepiece import read_sentencepiece

            return read_sentencepiece(path, data)
        return _from_json(path, data)


@contextlib.contextmanager
def text_checked(texts: Iterable[str]) -> Iterator[None]:
    """Where the block fails because one of the texts it works on is none, :class:`DataError` says so."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError):
        for text in texts:
            refuse_no_text(text)
        raise


def open_bytes(text: bytes) -> int:
    """How many bytes at the end of UTF-8 text are the beginning of a character that goes on, 0 to 3."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(text)
    rest = decoder.getstate()[0]
    # Half of a UTF-16 pair, which Python waits for the end of, is never a character.
    return 0 if b"\xed\xa0" <= rest < b"\xee" else len(rest)


def refuse_no_text(text: Any) -> None:
    """Raise :class:`DataError` for what is no text, or holds half of a UTF-16 pair, which no UTF-8 text can."""
    if not isinstance(text, str):
        raise DataError(f"a text is a str, and this is a {type(text).__name__}; give a str.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"a text holds U+{ord(text[error.start]):04X} at character {error.start}, half of a UTF-16 pair; leave it "
            "out, or read the text as UTF-8."
        ) from None


def spells_no_text(tokens: Iterable[str]) -> bool:
    """Whether one of the tokens holds half of a UTF-16 pair, which JSON can spell and no text can hold."""
    return _HALF.search("".join(tokens)) is not None


def no_dropout(kind: str) -> ConfigError:
    """The error for BPE-dropout with a tokenizer that has no merges to leave out."""
    return ConfigError(
        f"tokenizer.bpe_dropout works with tokenizer.kind bpe alone, and this tokenizer is of kind {kind}; "
        "set tokenizer.bpe_dropout: 0."
    )


class _Watched:
    """Passes texts on and refuses to end where none of them held a word."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts

    def __iter__(self) -> Iterator[str]:
        some = False
        for text in self._texts:
            refuse_no_text(text)
            some = some or bool(text.strip())
            yield text
        if not some:
            raise DataError("the training text holds no words to learn a vocabulary from; check data.train.")


def _from_json(path: Path, data: bytes) -> Tokenizer:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise BundleError(
            f"{path}: not a tokenizer file (not UTF-8); copy it again, or name it .model if it is SentencePiece's."
        ) from None
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise BundleError(f"{path}: not a tokenizer file ({reason}); copy it again.") from None
    if not isinstance(value, dict):
        raise BundleError(f"{path}: not a tokenizer file (no JSON object); copy it again.")
    if value.get("kind") == "rules":
        from dragoman.text.rules import read_rules

        return read_rules(path, value)
    from dragoman.text.foreign_words import is_foreign, read_foreign

    if is_foreign(value):
        return read_foreign(path, text)
    from dragoman.text.json_tokenizer import read_json

    return read_json(path, text)


class TokenizerPair:
    """The source's and the target's tokenizer; often one and the same where the vocabulary is joint."""

    def __init__(self, src: Tokenizer, tgt: Tokenizer) -> None:
        self.src = src
        self.tgt = tgt

    @property
    def joint(self) -> bool:
        """One vocabulary for both languages, though each may cut its text in its own way."""
        return self.src.shares_vocabulary(self.tgt)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the tokenizers' files; those of another pair in the same folder go.

        ``tokenizer.json`` where both are one, else ``src.tokenizer.json`` and ``tgt.tokenizer.json``; SentencePiece
        models as ``source.spm``, ``target.spm`` and ``vocab.json``, as Hugging Face names Marian's, with
        ``target_vocab.json`` where the vocabularies differ. Raises :class:`ConfigError` for a SentencePiece model
        with a tokenizer of another kind.
        """
        folder = Path(folder)
        kinds = {self.src.kind, self.tgt.kind}
        if "sentencepiece" in kinds:
            if len(kinds) > 1:
                raise ConfigError(f"tokenizers of the kinds {' and '.join(sorted(kinds))} cannot be kept together.")
            from dragoman.text.sentencepiece import save_spm_pair

            names = save_spm_pair(folder, self.src, self.tgt)
        elif self.src is self.tgt:
            self.src.save(folder / _JOINT)
            names = (_JOINT,)
        else:
            self.src.save(folder / _SIDES[0])
            self.tgt.save(folder / _SIDES[1])
            names = _SIDES
        for name in {_JOINT, *_SIDES, *_SPM, *_VOCABULARIES} - set(names):
            (folder / name).unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TokenizerPair:
        """Read what :meth:`save` wrote, or the tokenizer of a Hugging Face Marian folder. Raises BundleError."""
        folder = Path(folder)
        for names in (_SPM, (_JOINT, _JOINT), _SIDES):
            if (folder / names[0]).exists():
                src = Tokenizer.load(folder / names[0])
                same = names[0] == names[1]
                return cls(src, src if same else Tokenizer.load(folder / names[1]))
        raise BundleError(f"{folder} holds no {_JOINT} and no {_SIDES[0]} (nor {_SPM[0]}); copy the folder again.")


def train_tokenizers(
    config: TokenizerConfig,
    pairs: Pairs,
    folder: str | os.PathLike[str] = ".",
    languages: Sequence[str] = (ANY_LANGUAGE, ANY_LANGUAGE),
) -> TokenizerPair:
    """Tokenizers for the training text that ``pairs`` reads from the start each time it is called.

    ``config.path`` (relative to ``folder``) is loaded where it exists, and written after training where it does
    not: a file for a joint vocabulary, a folder for either kind. ``languages``: the codes of source and target.
    """
    path = Path(folder) / config.path if config.path else None
    if path is not None and path.is_dir():
        return TokenizerPair.load(path)
    if path is not None and path.exists():
        both = Tokenizer.load(path)
        return TokenizerPair(both, both)
    result = _trained(config, pairs, languages)
    if path is not None:
        if path.suffix in result.src.suffixes and result.src is result.tgt:
            result.src.save(path)
        else:
            result.save(path)
    return result


def _trained(config: TokenizerConfig, pairs: Pairs, languages: Sequence[str]) -> TokenizerPair:
    src, tgt = languages
    if not config.joint:
        return TokenizerPair(
            Tokenizer.train(config, (left for left, _ in pairs()), src),
            Tokenizer.train(config, (right for _, right in pairs()), tgt),
        )
    if config.kind == "rules" and src != tgt:
        from dragoman.text.rules import train_joint_rules

        return TokenizerPair(*train_joint_rules(config, pairs, (src, tgt)))
    both = Tokenizer.train(config, (text for pair in pairs() for text in pair), src)
    return TokenizerPair(both, both)
