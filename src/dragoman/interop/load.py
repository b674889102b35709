"""Somebody's model on disk becomes a :class:`Bundle`: weights, tokenizers, languages, and a card that says whence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dragoman.bundle import Bundle
from dragoman.config import DecodeConfig
from dragoman.errors import ConfigError, ConversionError, DragomanError
from dragoman.interop import marian_folder, native, read
from dragoman.interop.card import card_of_weights
from dragoman.interop.format import Format
from dragoman.interop.marian_folder import language
from dragoman.interop.weights import SUFFIXES, read_weights
from dragoman.model.transformer import Transformer
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

# Facts that say what stands beside the weights; the others go to the model.
BESIDE = ("tokenizer", "src_tokenizer", "tgt_tokenizer", "src_lang", "tgt_lang")
_IDS = {
    "src_pad_id": ("src", "pad_id"),
    "tgt_pad_id": ("tgt", "pad_id"),
    "bos_id": ("tgt", "bos_id"),
    "eos_id": ("tgt", "eos_id"),
}

# CTranslate2 names a vocabulary by what it is for.
_CT2_SIDES = ("shared", "source", "target")

# Whether a recipe lower-cases the words that it cuts; of the others the list itself tells.
_LOWERCASE = {"hyunwoongko": True, "annotated": False}


@dataclass
class Foreign:
    """What was read: the format, the model, and what stood beside it. ``note`` is the fault that a variant keeps."""

    path: Path
    format: str
    model: Transformer
    tokenizers: TokenizerPair | None
    src_lang: str = "src"
    tgt_lang: str = "tgt"
    note: str = ""

    def bundle(self) -> Bundle:
        """A bundle with a card. Raises :class:`ConversionError` where there are no tokenizers to go with the model."""
        if self.tokenizers is None:
            raise ConversionError(
                f"{self.path} holds weights alone, and a model directory needs tokenizers; give their files with "
                "src_tokenizer= and tgt_tokenizer=, or with tokenizer= for a joint one."
            )
        langs = self.src_lang, self.tgt_lang
        whence = f"{self.format} weights, {self.path.name}"
        card = card_of_weights(self.model, langs, whence, [self.note] if self.note else [])
        return Bundle(self.model, self.tokenizers, DecodeConfig(), *langs, card)


def folder_format(path: Path) -> str | None:
    """``dragoman`` or ``marian`` for a folder that holds such a model, None for a file.

    Raises :class:`ConversionError` for a place that is neither a file nor a model's folder.
    """
    if path.is_file():
        return None
    if not path.is_dir():
        raise ConversionError(f"{path} does not exist; give a file of weights or a model's folder.")
    if marian_folder.is_model(path):
        return "marian"
    if (path / "model.bin").is_file() and any((path / f"{side}_vocabulary.json").is_file() for side in _CT2_SIDES):
        raise ConversionError(
            f"{path} is a CTranslate2 folder, which is written and not read: its weights are packed for its engine; "
            "give the model that it was made from."
        )
    if not (path / "config.json").exists() and (path / "source.spm").exists():
        raise ConversionError(f"{path} has Marian's tokenizers and no config.json; give the complete folder.")
    weights = sorted(file.name for file in path.iterdir() if file.suffix in SUFFIXES)
    if not (path / "config.json").exists() and not (path / "best").exists() and weights:
        raise ConversionError(f"{path} is a folder; give the file of weights in it, such as {path / weights[0]}.")
    return "dragoman"


def load_weights(path: Path, fmt: Format | None, dtype: torch.dtype, facts: dict[str, Any]) -> Foreign:
    """A file of weights of a format (None: our own) with what ``facts`` say about the things beside it."""
    beside = {name: facts.pop(name) for name in BESIDE if name in facts}
    langs = {name: language(name, beside[name]) for name in ("src_lang", "tgt_lang") if name in beside}
    state, variant = read_weights(path), str(facts.get("variant", ""))
    wrong = []
    try:
        tokenizers = _tokenizers(beside, _LOWERCASE.get(fmt.name if fmt is not None else ""))
    except DragomanError as error:
        tokenizers = None
        wrong.append(error)
    if tokenizers is not None:
        for name, (side, attribute) in _IDS.items():
            facts.setdefault(name, getattr(getattr(tokenizers, side), attribute))
    try:
        if fmt is None:
            model = native.read(state, dtype, facts, str(path))
        else:
            model = read.read(fmt, state, dtype, facts, str(path))
    except ConversionError as error:
        wrong.append(error)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise ConversionError("; and ".join(str(error).rstrip(".") for error in wrong) + ".")
    if tokenizers is not None:
        _check_sizes(model, tokenizers, beside)
    note = fmt.variants[variant].note if fmt is not None and variant in fmt.variants else ""
    return Foreign(path, native.NAME if fmt is None else fmt.name, model, tokenizers, note=note, **langs)


def refuse_facts(name: str, facts: Mapping[str, Any]) -> None:
    """Raise :class:`ConversionError` where facts were given that a self-describing folder has no use for."""
    if facts:
        raise ConversionError(f"a {name} folder says all about itself; leave out {', '.join(facts)}.")


def _tokenizers(beside: Mapping[str, Any], lowercase: bool | None) -> TokenizerPair | None:
    """The tokenizers that the facts name; ``lowercase``: of words in a list."""
    sides = [name for name in ("src_tokenizer", "tgt_tokenizer") if name in beside]
    if "tokenizer" in beside:
        if sides:
            raise ConversionError(f"tokenizer= is the one for both sides; leave out {' and '.join(sides)}.")
        both = _tokenizer(beside["tokenizer"], str(beside.get("src_lang", "")), lowercase)
        return TokenizerPair(both, both)
    if not sides:
        return None
    if len(sides) == 1:
        raise ConversionError(f"{sides[0]}= was given alone; give src_tokenizer= and tgt_tokenizer=, or tokenizer=.")
    src, tgt = (
        _tokenizer(beside[f"{side}_tokenizer"], str(beside.get(f"{side}_lang", "")), lowercase)
        for side in ("src", "tgt")
    )
    return TokenizerPair(src, tgt)


def _tokenizer(path: Any, language: str, lowercase: bool | None) -> Tokenizer:
    """A tokenizer's file, or a list of words (.txt: one a line, in the order of their ids)."""
    path = Path(str(path))
    try:
        if path.suffix == ".txt":
            from dragoman.text.rules import RulesTokenizer

            return RulesTokenizer.from_words(path, language, lowercase)
        return Tokenizer.load(path)
    except ConfigError:
        raise
    except DragomanError as error:
        raise ConversionError(str(error)) from None


def _check_sizes(model: Transformer, tokenizers: TokenizerPair, beside: Mapping[str, Any]) -> None:
    """Every id that a tokenizer makes must have its row."""
    config = model.config
    for side, rows in (("src", config.src_vocab_size), ("tgt", config.tgt_vocab_size)):
        size = getattr(tokenizers, side).vocab_size
        if size != rows:
            file = beside.get("tokenizer", beside.get(f"{side}_tokenizer"))
            raise ConversionError(
                f"{file} has {size} tokens, and the weights have {rows} rows for {side}; give the tokenizer that the "
                "model was trained with."
            )
