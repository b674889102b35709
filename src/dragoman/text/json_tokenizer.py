"""Tokenizers on the ``tokenizers`` library: text to ids and back, without loss for the subword kinds.

BPE and unigram work on the 256 bytes of UTF-8, so that no text is unknown and decoding gives the normalised
text back whatever it holds. The special tokens ``<unk> <pad> <s> </s>`` have the ids 0 to 3 and are never read
from text: a typed ``</s>`` is five characters. (Its letter and its signs fall into different pre-tokens, so no
merge can ever spell a special token.)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dragoman.config import TokenizerConfig
from dragoman.errors import BundleError, ConfigError
from dragoman.files import write_text
from dragoman.text.tokenizer import SPECIAL_TOKENS, Tokenizer, open_bytes, text_checked

# The trainer of unigram runs past its size where it may add nothing to the bytes.
_SMALLEST = {
    "bpe": 256 + len(SPECIAL_TOKENS),
    "unigram": 256 + len(SPECIAL_TOKENS) + 1,
    "wordlevel": 1 + len(SPECIAL_TOKENS),
}
# Settings of BPE in the library under which a word is not cut by its merges alone.
_OTHER_RULES = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
# What a tokenizer that loses nothing gives back: signs of its own, several scripts, white space of several kinds.
_PROBE = "  </s>▁Ġ\t\n\x00 aé猫😀 "
# The byte that a character of a byte-level token stands for: itself, or the next one that is no character to be seen
# (``bytes_to_unicode`` of GPT-2).
_SHOWN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_BYTES = {chr(byte): byte for byte in _SHOWN}
_BYTES |= {chr(256 + place): byte for place, byte in enumerate(sorted({*range(256)} - {*_SHOWN}))}


class JsonTokenizer(Tokenizer):
    """A tokenizer of the library whose vocabulary holds the special tokens, and whose added tokens are none."""

    def __init__(self, inner: tokenizers.Tokenizer, special: tuple[str, ...] = SPECIAL_TOKENS) -> None:
        # The library's types allow for ids without a token; reading and training have seen to it that there are none.
        self._inner = cast(Any, inner)
        self.kind = _kind(inner)
        self.vocab_size = inner.get_vocab_size(with_added_tokens=False)
        self.unk_id, self.pad_id, self.bos_id, self.eos_id = (self._inner.token_to_id(token) for token in special)

    def normalize(self, text: str) -> str:
        """NFC, lower-cased if so trained."""
        inner = self._inner.normalizer
        with text_checked([text]):
            normal: str = text if inner is None else inner.normalize_str(text)
        return normal

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        with text_checked([text]):
            ids: list[int] = self._inner.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of several texts, on as many threads as the library takes."""
        with text_checked(texts):
            return [item.ids for item in self._inner.encode_batch_fast(texts, add_special_tokens=False)]

    def vocabulary(self) -> list[str]:
        """The tokens as they stand in the file."""
        return [self._inner.id_to_token(index) for index in range(self.vocab_size)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``tokenizers`` JSON file, atomically."""
        write_text(path, self._inner.to_str(pretty=True) + "\n")

    def flaw(self) -> str | None:
        """What would lose text or break a model, in a file that is otherwise a tokenizer."""
        vocabulary: dict[str, int] = self._inner.get_vocab(with_added_tokens=False)
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            return "the ids of its vocabulary have gaps"
        if self._inner.get_added_tokens_decoder():
            return "it has added tokens, which text could spell"
        if self._inner.truncation is not None or self._inner.padding is not None:
            return "it cuts or pads its text, which is not for a tokenizer to do"
        return None


class WordLevelTokenizer(JsonTokenizer):
    """A word an id; other words are unknown."""

    def decode(self, ids: Iterable[int]) -> str:
        """The words with spaces between; special tokens are left out, but an unknown word shows by its name."""
        left_out = {self.pad_id, self.bos_id, self.eos_id}
        text: str = self._inner.decode(
            [index for index in self._known(ids) if index not in left_out], skip_special_tokens=False
        )
        return text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words."""
        unknown = self._inner.id_to_token(self.unk_id)
        return [self._inner.id_to_token(index) or unknown for index in self._known(ids)]


class ByteLevelTokenizer(JsonTokenizer):
    """BPE or unigram over bytes: nothing is unknown."""

    def normalize(self, text: str) -> str:
        """The text as decoding gives it back: NFC, lower-cased if so trained."""
        return super().normalize(text).removeprefix(" ")

    def decode(self, ids: Iterable[int]) -> str:
        """The text; special tokens are left out."""
        text: str = self._inner.decode(
            [index for index in self._known(ids) if index > self.eos_id], skip_special_tokens=False
        )
        return text

    def decode_whole(self, ids: Iterable[int]) -> str:
        """The text without a part of a character at its end, which :meth:`decode` shows as ``�``."""
        known = [index for index in self._known(ids) if index > self.eos_id]
        text, last = self.decode(known), [self._inner.id_to_token(index) for index in known[-3:]]
        tail = bytes(_BYTES[char] for token in last for char in token[-3:])
        return text[:-1] if text.endswith("�") and open_bytes(tail) else text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """``▁`` for a space, ``�`` for a part of a character, special tokens by name."""
        return [self._piece(index) for index in self._known(ids)]

    def encode_words(self, texts: list[str]) -> list[tuple[list[int], list[bool]]]:
        """For each text its ids, and for each id whether it begins a word: what no token reaches over."""
        return [
            (item.ids, [word != before for before, word in pairwise([None, *item.word_ids])])
            for item in self._inner.encode_batch(texts, add_special_tokens=False)
        ]

    def spelling(self) -> list[list[int]]:
        """For each id the ids of its bytes; none for a special token."""
        vocabulary: dict[str, int] = self._inner.get_vocab(with_added_tokens=False)
        return [
            [] if index <= self.eos_id else [vocabulary[byte] for byte in token]
            for index, token in enumerate(self.vocabulary())
        ]

    def merges(self) -> list[tuple[int, int, int]]:
        """The merges of BPE, best first: the ids of the two parts and of the whole."""
        vocabulary: dict[str, int] = self._inner.get_vocab(with_added_tokens=False)
        pairs = json.loads(self._inner.to_str())["model"].get("merges", [])
        return [(vocabulary[left], vocabulary[right], vocabulary[left + right]) for left, right in pairs]

    def _piece(self, index: int) -> str:
        token: str | None = self._inner.id_to_token(index)
        if token is None or index <= self.eos_id:
            return token or SPECIAL_TOKENS[self.unk_id]
        text: str = decoders.ByteLevel().decode([token])
        return text.replace(" ", "▁")

    def flaw(self) -> str | None:
        """Bytes that are missing, or a text that does not come back."""
        if found := super().flaw():
            return found
        if not self._inner.get_vocab(with_added_tokens=False).keys() >= set(pre_tokenizers.ByteLevel.alphabet()):
            return "its vocabulary lacks some of the 256 bytes"
        if self.decode(self.encode(_PROBE)) != self.normalize(_PROBE):
            return "it does not give back the text that it encodes"
        model = json.loads(self._inner.to_str())["model"]
        if others := [name for name in _OTHER_RULES if model.get(name)]:
            return f"its merges are applied in another way ({', '.join(others)})"
        return None


def _kind(inner: tokenizers.Tokenizer) -> str:
    return type(inner.model).__name__.lower()


def parse_json(path: Path, text: str) -> tokenizers.Tokenizer:
    """The library's tokenizer of a file's text. Raises :class:`BundleError`."""
    try:
        return tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises plain Exception
        reason = str(error).splitlines()[0] if str(error) else "unreadable"
        raise BundleError(f"{path}: not a tokenizer file ({reason}); copy it again.") from None


def read_json(path: Path, text: str) -> Tokenizer:
    """A tokenizer that dragoman trained. Raises :class:`BundleError`."""
    inner = parse_json(path, text)
    found = [inner.token_to_id(token) for token in SPECIAL_TOKENS]
    if found != list(range(len(SPECIAL_TOKENS))):
        raise BundleError(
            f"{path}: the special tokens {' '.join(SPECIAL_TOKENS)} have the ids {found}, not 0 to 3; "
            "use a tokenizer that dragoman trained."
        )
    kind = _kind(inner)
    if kind not in _MAKERS:
        flaw: str | None = f"its kind {kind} is not one of {', '.join(_MAKERS)}"
    else:
        tokenizer = _of(inner)
        flaw = tokenizer.flaw()
    if flaw:
        raise BundleError(f"{path}: {flaw}; use a tokenizer that dragoman trained.")
    return tokenizer


def _of(inner: tokenizers.Tokenizer) -> JsonTokenizer:
    return WordLevelTokenizer(inner) if _kind(inner) == "wordlevel" else ByteLevelTokenizer(inner)


def train_json(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """Learn a vocabulary of kind bpe, unigram or wordlevel. Raises :class:`ConfigError` where it is too small."""
    if config.vocab_size < _SMALLEST[config.kind]:
        raise ConfigError(
            f"tokenizer.vocab_size {config.vocab_size} is too small: {config.kind} holds "
            f"{'a word' if config.kind == 'wordlevel' else 'all 256 bytes'} and the special tokens, "
            f"so give at least {_SMALLEST[config.kind]}."
        )
    inner, trainer = _MAKERS[config.kind](config)
    inner.train_from_iterator(iter(texts), trainer)
    return _of(_without_added_tokens(inner))


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
        unk_token=SPECIAL_TOKENS[0],
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return _byte_tokenizer(models.Unigram(), config), trainer


def _wordlevel(config: TokenizerConfig) -> tuple[tokenizers.Tokenizer, Any]:
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[0]))
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
