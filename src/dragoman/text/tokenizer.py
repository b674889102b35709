"""Tokenizers on the ``tokenizers`` library: text to ids and back, without loss for the subword kinds.

BPE and unigram work on the 256 bytes of UTF-8, so that no text is unknown and decoding gives the normalised
text back whatever it holds. The special tokens ``<unk> <pad> <s> </s>`` have the ids 0 to 3 and are never read
from text: a typed ``</s>`` is five characters. (Its letter and its signs fall into different pre-tokens, so no
merge can ever spell a special token.)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dragoman.config import TokenizerConfig
from dragoman.errors import BundleError, ConfigError, DataError
from dragoman.files import write_text

SPECIAL_TOKENS = ("<unk>", "<pad>", "<s>", "</s>")
UNK_ID, PAD_ID, BOS_ID, EOS_ID = range(4)
# The trainer of unigram runs past its size where it may add nothing to the bytes.
_SMALLEST = {
    "bpe": 256 + len(SPECIAL_TOKENS),
    "unigram": 256 + len(SPECIAL_TOKENS) + 1,
    "wordlevel": 1 + len(SPECIAL_TOKENS),
}
# What a tokenizer that loses nothing gives back: signs of its own, several scripts, white space of several kinds.
_PROBE = "  </s>▁Ġ\t\n\x00 aé猫😀 "


class Tokenizer:
    """One language's (or a joint) vocabulary. Ids returned and taken hold no special tokens but ``<unk>``."""

    unk_id, pad_id, bos_id, eos_id = UNK_ID, PAD_ID, BOS_ID, EOS_ID

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        self.vocab_size: int = inner.get_vocab_size(with_added_tokens=False)

    @property
    def kind(self) -> str:
        """The algorithm: bpe, unigram or wordlevel."""
        return type(self._inner.model).__name__.lower()

    def normalize(self, text: str) -> str:
        """The text as the model sees it, and as decoding gives it back: NFC, lower-cased if so trained."""
        inner = self._inner.normalizer
        normal: str = text if inner is None else inner.normalize_str(text)
        return normal.removeprefix(" ") if self._byte_level else normal

    @property
    def _byte_level(self) -> bool:
        return not isinstance(self._inner.model, models.WordLevel)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        ids: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of several texts."""
        return [item.ids for item in self._inner.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special tokens are left out, but an unknown word shows as ``<unk>``."""
        first = UNK_ID if not self._byte_level else EOS_ID + 1
        kept = [index for index in ids if index == first or index > EOS_ID]
        text: str = self._inner.decode(kept, skip_special_tokens=False)
        return text

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The texts of several rows of ids."""
        return [self.decode(ids) for ids in batch]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """A readable piece per id: ``▁`` for a space, ``�`` for a part of a character, special tokens by name."""
        return [self._piece(index) for index in ids]

    def _piece(self, index: int) -> str:
        token: str | None = self._inner.id_to_token(index)
        if token is None or index <= EOS_ID or not self._byte_level:
            return token or SPECIAL_TOKENS[UNK_ID]
        text: str = decoders.ByteLevel().decode([token])
        return text.replace(" ", "▁")

    @classmethod
    def train(cls, config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
        """Learn a vocabulary from training text.

        Raises :class:`ConfigError` for settings that cannot work, :class:`DataError` where there is no text.
        """
        if config.kind not in _MAKERS:
            raise ConfigError(f"tokenizer.kind {config.kind} is not available yet; use {', '.join(_MAKERS)}.")
        if config.bpe_dropout > 0:
            raise ConfigError("tokenizer.bpe_dropout is not available yet; leave it at 0.")
        if config.vocab_size < _SMALLEST[config.kind]:
            raise ConfigError(
                f"tokenizer.vocab_size {config.vocab_size} is too small: {config.kind} holds "
                f"{'a word' if config.kind == 'wordlevel' else 'all 256 bytes'} and the special tokens, "
                f"so give at least {_SMALLEST[config.kind]}."
            )
        some = False

        def watched() -> Iterator[str]:
            nonlocal some
            for text in texts:
                some = some or bool(text.strip())
                yield text

        inner, trainer = _MAKERS[config.kind](config)
        inner.train_from_iterator(watched(), trainer)
        if not some:
            raise DataError("the training text holds no words to learn a vocabulary from; check data.train.")
        return cls(_without_added_tokens(inner))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``tokenizers`` JSON file, atomically."""
        write_text(path, self._inner.to_str(pretty=True) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """Read a ``tokenizers`` JSON file with our special tokens. Raises :class:`BundleError`."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise BundleError(f"{path}: not a tokenizer file (not UTF-8); copy it again.") from None
        except OSError as error:
            raise BundleError(f"cannot read {path}: {error.strerror}; a tokenizer file is needed there.") from None
        try:
            inner = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises plain Exception
            reason = str(error).splitlines()[0] if str(error) else "unreadable"
            raise BundleError(f"{path}: not a tokenizer file ({reason}); copy it again.") from None
        found = [inner.token_to_id(token) for token in SPECIAL_TOKENS]
        if found != list(range(len(SPECIAL_TOKENS))):
            raise BundleError(
                f"{path}: the special tokens {' '.join(SPECIAL_TOKENS)} have the ids {found}, not 0 to 3; "
                "use a tokenizer that dragoman trained."
            )
        tokenizer = cls(inner)
        flaw = tokenizer._flaw()
        if flaw:
            raise BundleError(f"{path}: {flaw}; use a tokenizer that dragoman trained.")
        return tokenizer

    def _flaw(self) -> str | None:
        """What would lose text or break a model, in a file that is otherwise a tokenizer."""
        vocabulary: dict[str, int] = self._inner.get_vocab(with_added_tokens=False)
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            return "the ids of its vocabulary have gaps"
        if self._inner.get_added_tokens_decoder():
            return "it has added tokens, which text could spell"
        if self.kind not in _MAKERS:
            return f"its kind {self.kind} is not one of {', '.join(_MAKERS)}"
        if self._byte_level and not vocabulary.keys() >= set(pre_tokenizers.ByteLevel.alphabet()):
            return "its vocabulary lacks some of the 256 bytes"
        if self._byte_level and self.decode(self.encode(_PROBE)) != self.normalize(_PROBE):
            return "it does not give back the text that it encodes"
        return None


def _normalizer(config: TokenizerConfig, first: str = "") -> Any:
    steps: list[Any] = [normalizers.NFC()]
    if config.lowercase:
        # Lower-casing can leave a decomposed character (İ), so the text is composed once more.
        steps += [normalizers.Lowercase(), normalizers.NFC()]
    if first:
        steps.append(normalizers.Prepend(first))
    return normalizers.Sequence(steps)


def _byte_tokenizer(model: Any, config: TokenizerConfig) -> tokenizers.Tokenizer:
    """A space goes before every text, so that a word is the same token at the start and inside."""
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = _normalizer(config, first=" ")
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return inner


def _bpe(config: TokenizerConfig) -> tuple[tokenizers.Tokenizer, Any]:
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return _byte_tokenizer(models.BPE(), config), trainer


def _unigram(config: TokenizerConfig) -> tuple[tokenizers.Tokenizer, Any]:
    trainer = trainers.UnigramTrainer(
        vocab_size=config.vocab_size,
        unk_token=SPECIAL_TOKENS[UNK_ID],
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return _byte_tokenizer(models.Unigram(), config), trainer


def _wordlevel(config: TokenizerConfig) -> tuple[tokenizers.Tokenizer, Any]:
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[UNK_ID]))
    inner.normalizer = _normalizer(config)
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    return inner, trainer


_MAKERS: dict[str, Callable[[TokenizerConfig], tuple[tokenizers.Tokenizer, Any]]] = {
    "bpe": _bpe,
    "unigram": _unigram,
    "wordlevel": _wordlevel,
}


def _without_added_tokens(inner: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same tokenizer with the special tokens in the vocabulary only, so that text never matches them."""
    state = json.loads(inner.to_str())
    state["added_tokens"] = []
    if state["model"]["type"] == "Unigram":
        state["model"]["vocab"] = _settled(state["model"]["vocab"])
    return tokenizers.Tokenizer.from_str(json.dumps(state))


def _settled(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The pieces of a unigram vocabulary, so that the same text always gives the same file.

    The trainer gives each byte that it met nowhere the lowest score and another 0.0001 for every such byte before
    it, in the random order of a hash table, which also moves the last digits of sums. Here all of them have the
    lowest score, scores are rounded to 0.0001, and the order is settled.
    """
    special, learned = pieces[: len(SPECIAL_TOKENS)], pieces[len(SPECIAL_TOKENS) :]
    lowest = min(score for _, score in learned)
    within = lowest + 0.0001 * len(learned)
    level = [(piece, round(lowest if len(piece) == 1 and score <= within else score, 4)) for piece, score in learned]
    return [*special, *sorted(level, key=lambda one: (-one[1], one[0]))]


class TokenizerPair:
    """The source's and the target's tokenizer; one and the same where the vocabulary is joint."""

    def __init__(self, src: Tokenizer, tgt: Tokenizer) -> None:
        self.src = src
        self.tgt = tgt

    @property
    def joint(self) -> bool:
        """One vocabulary for both languages."""
        return self.src is self.tgt

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``tokenizer.json``, or ``src.tokenizer.json`` and ``tgt.tokenizer.json``."""
        folder = Path(folder)
        if self.joint:
            self.src.save(folder / "tokenizer.json")
        else:
            self.src.save(folder / "src.tokenizer.json")
            self.tgt.save(folder / "tgt.tokenizer.json")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TokenizerPair:
        """Read what :meth:`save` wrote. Raises :class:`BundleError`."""
        folder = Path(folder)
        if (folder / "tokenizer.json").exists():
            both = Tokenizer.load(folder / "tokenizer.json")
            return cls(both, both)
        if not (folder / "src.tokenizer.json").exists():
            raise BundleError(f"{folder} holds no tokenizer.json and no src.tokenizer.json; copy the folder again.")
        return cls(Tokenizer.load(folder / "src.tokenizer.json"), Tokenizer.load(folder / "tgt.tokenizer.json"))


def train_tokenizers(
    config: TokenizerConfig, pairs: Callable[[], Iterator[tuple[str, str]]], folder: str | os.PathLike[str] = "."
) -> TokenizerPair:
    """Tokenizers for the training text that ``pairs`` reads from the start each time it is called.

    ``config.path`` (relative to ``folder``) is loaded where it exists, and written after training where it does
    not: a file for a joint vocabulary, a folder for either kind.
    """
    path = Path(folder) / config.path if config.path else None
    if path is not None and path.is_dir():
        return TokenizerPair.load(path)
    if path is not None and path.exists():
        both = Tokenizer.load(path)
        return TokenizerPair(both, both)
    if config.joint:
        both = Tokenizer.train(config, (text for pair in pairs() for text in pair))
        result = TokenizerPair(both, both)
    else:
        result = TokenizerPair(
            Tokenizer.train(config, (src for src, _ in pairs())), Tokenizer.train(config, (tgt for _, tgt in pairs()))
        )
    if path is not None:
        if path.suffix == ".json" and result.joint:
            result.src.save(path)
        else:
            result.save(path)
    return result
