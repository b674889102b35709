"""Lower-cased words by a language's rules: the tokenizer of hyunwoongko's recipe, on spaCy's blank pipelines.

No model is downloaded: the rules come with spaCy. Words seen often enough, most frequent first and those of one
count by code point, follow ``<unk> <pad> <s> </s>`` (0 to 3).
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.config import TokenizerConfig
from dragoman.errors import BundleError, ConfigError
from dragoman.files import write_json
from dragoman.text.tokenizer import ANY_LANGUAGE, SPECIAL_TOKENS, Tokenizer, spells_no_text, text_checked

logger = logging.getLogger(__name__)

# What the four special tokens are called: by us, by hyunwoongko, by the Annotated Transformer and others.
_NAMES = (("<unk>",), ("<pad>", "<blank>"), ("<s>", "<sos>", "<bos>"), ("</s>", "<eos>"))
# Texts cut at once: what spaCy remembers of their words is forgotten after each.
_CHUNK = 4096
# spaCy's memory zones are for one thread at a time.
_LOCK = threading.RLock()


class RulesTokenizer(Tokenizer):
    """``language``: a code such as ``de``; ``words``: the vocabulary, the special tokens among them.

    The special tokens may have the names that other code gives them (``<sos>``, ``<eos>``, ``<blank>``). White space
    of more than one space is a word too, as spaCy has it. ``lowercase``: text is lower-cased after it is cut, as it
    always is in training. Raises :class:`BundleError`, naming ``where``.
    """

    kind = "rules"

    def __init__(
        self, language: str, words: list[str], lowercase: bool = True, where: str = "the vocabulary of words"
    ) -> None:
        self.language = language
        self.lowercase = lowercase
        self.vocab_size = len(words)
        self._words = words
        ids = {word: index for index, word in enumerate(words)}
        if len(ids) < len(words):
            raise BundleError(f'{where} has "{Counter(words).most_common(1)[0][0]}" twice; copy the file again.')
        self.unk_id, self.pad_id, self.bos_id, self.eos_id = (_special_id(ids, names, where) for names in _NAMES)
        # A special token that a text spells is a word like any other, and unknown.
        special = {self.unk_id, self.pad_id, self.bos_id, self.eos_id}
        self._ids = {word: index for word, index in ids.items() if index not in special}

    @classmethod
    def from_words(cls, path: str | os.PathLike[str], language: str, lowercase: bool | None = None) -> RulesTokenizer:
        """A vocabulary that other code saved: a UTF-8 text file, one word a line, in the order of their ids.

        Whether text is lower-cased is said, or told from the words: yes if all of them are. Raises
        :class:`BundleError`, :class:`ConfigError`.
        """
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise BundleError(f"cannot read {path}: {error.strerror}; give a file of words.") from None
        except UnicodeDecodeError:
            raise BundleError(f"{path} is not UTF-8; save the words as UTF-8 text, one a line.") from None
        words = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
        if lowercase is None:
            lowercase = all(word == word.lower() for word in words)
        return cls(rules_language(language or ANY_LANGUAGE), words, lowercase, str(path))

    def normalize(self, text: str) -> str:
        """The lower-cased words with spaces between."""
        return " ".join(next(self._cut([text])))

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """The ids of several texts."""
        return [[self._ids.get(word, self.unk_id) for word in words] for words in self._cut(texts)]

    def _cut(self, texts: list[str]) -> Iterator[list[str]]:
        return _cut(self.language, texts, self.lowercase)

    def decode(self, ids: Iterable[int]) -> str:
        """The words with spaces between, before full stops too; an unknown word shows as ``<unk>``."""
        left_out = {self.pad_id, self.bos_id, self.eos_id}
        return " ".join(self._words[index] for index in self._known(ids) if index not in left_out)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The words, ``▁`` for a space."""
        return [self._words[index].replace(" ", "▁") for index in self._known(ids)]

    def vocabulary(self) -> list[str]:
        """The words."""
        return list(self._words)

    def shares_vocabulary(self, other: Tokenizer) -> bool:
        """Whether the words have the same ids; the languages' rules may differ."""
        return isinstance(other, RulesTokenizer) and self._words == other._words

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file of our own, atomically."""
        value = {
            "kind": self.kind,
            "language": self.language,
            "lowercase": self.lowercase,
            "vocabulary": self._words,
        }
        write_json(path, value)


def _special_id(ids: dict[str, int], names: tuple[str, ...], where: str) -> int:
    for name in names:
        if name in ids:
            return ids[name]
    raise BundleError(f"{where} lacks {' or '.join(names)}; add the special token where the model has it.")


@cache
def _rules(language: str) -> Any:
    """spaCy's blank pipeline. Raises :class:`ConfigError` where spaCy or what its rules need is not installed."""
    try:
        import spacy
    except ImportError:
        raise ConfigError("the tokenizer kind rules needs the package spacy; pip install 'dragoman[rules]'.") from None
    try:
        return spacy.blank(language)
    except ImportError as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f'spaCy\'s rules for "{language}" need a package that is not installed ({reason}); '
            "install it, or use tokenizer.kind sentencepiece."
        ) from None


def rules_language(code: str) -> str:
    """The spaCy language whose rules fit a code such as ``de`` or ``pt-BR``.

    Where spaCy has none these are its rules for any language (``xx``), and a warning says so.
    """
    primary = re.split(r"[-_]", code.lower())[0]
    _rules(ANY_LANGUAGE)
    if re.fullmatch(r"[a-z]{2,3}", primary) and importlib.util.find_spec(f"spacy.lang.{primary}"):
        return primary
    logger.warning('spaCy has no rules for the language "%s": words are cut by those for any language.', code)
    return ANY_LANGUAGE


def _cut(language: str, texts: Iterable[str], lowercase: bool = True) -> Iterator[list[str]]:
    """The words of each text."""
    pipeline = _rules(language)
    texts = iter(texts)
    while chunk := list(islice(texts, _CHUNK)):
        with _LOCK, pipeline.memory_zone(), text_checked(chunk):
            rows = [[token.text for token in pipeline.tokenizer(text)] for text in chunk]
        for row in rows:
            yield [word.lower() for word in row] if lowercase else row


def _vocabulary(config: TokenizerConfig, counts: Counter[str]) -> list[str]:
    """The special tokens and the words that are frequent enough, at most ``vocab_size`` together."""
    for token in SPECIAL_TOKENS:
        counts.pop(token, None)
    kept = [word for word, count in counts.items() if count >= config.min_frequency]
    kept.sort(key=lambda word: (-counts[word], word))
    return [*SPECIAL_TOKENS, *kept][: config.vocab_size]


def _check(config: TokenizerConfig) -> None:
    smallest = len(SPECIAL_TOKENS) + 1
    if config.vocab_size < smallest:
        raise ConfigError(
            f"tokenizer.vocab_size {config.vocab_size} is too small: rules holds a word and the special tokens, "
            f"so give at least {smallest}."
        )


def train_rules(config: TokenizerConfig, texts: Iterable[str], language: str) -> RulesTokenizer:
    """The words of one language (or of several cut by one's rules)."""
    _check(config)
    language = rules_language(language)
    counts: Counter[str] = Counter()
    for words in _cut(language, texts, config.lowercase):
        counts.update(words)
    return RulesTokenizer(language, _vocabulary(config, counts), config.lowercase)


def train_joint_rules(
    config: TokenizerConfig, pairs: Callable[[], Iterator[tuple[str, str]]], languages: tuple[str, str]
) -> tuple[RulesTokenizer, RulesTokenizer]:
    """One vocabulary of the words of two languages, each cut by its own rules."""
    _check(config)
    counts: Counter[str] = Counter()
    codes = [rules_language(language) for language in languages]
    for side, code in enumerate(codes):
        for words in _cut(code, (pair[side] for pair in pairs()), config.lowercase):
            counts.update(words)
    words = _vocabulary(config, counts)
    src, tgt = (RulesTokenizer(code, words, config.lowercase) for code in codes)
    return src, tgt


def read_rules(path: Path, value: dict[str, Any]) -> RulesTokenizer:
    """The tokenizer of a file that :meth:`RulesTokenizer.save` wrote. Raises :class:`BundleError`."""
    language, lowercase, words = value.get("language"), value.get("lowercase"), value.get("vocabulary")
    if not isinstance(language, str) or not re.fullmatch(r"[a-z]{2,3}", language):
        raise BundleError(f'{path}: "language" should be a language code; copy the file again.')
    if not isinstance(lowercase, bool):
        raise BundleError(f'{path}: "lowercase" should be true or false; copy the file again.')
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BundleError(f'{path}: "vocabulary" should be a list of words; copy the file again.')
    if spells_no_text(words):
        raise BundleError(
            f"{path}: the vocabulary holds a word that is no text (half of a UTF-16 pair); copy it again."
        )
    _rules(ANY_LANGUAGE)
    if importlib.util.find_spec(f"spacy.lang.{language}") is None:
        raise BundleError(f'{path}: this spaCy has no rules for "{language}"; install a newer spaCy.')
    return RulesTokenizer(language, words, lowercase, str(path))
