"""From the configuration's text to what the loop needs: tokenizers, a memory-mapped corpus, validation pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.bundle import read_config
from dragoman.config import HeldOutCorpus, ModelConfig, RunConfig
from dragoman.errors import ConfigError, DataError
from dragoman.preflight.start import check_start
from dragoman.text.bpe_dropout import with_merges
from dragoman.text.corpus import TokenCorpus, write_corpus
from dragoman.text.heldout import Remaining, hold_out
from dragoman.text.readers import read_pairs
from dragoman.text.recut import RecutCorpus
from dragoman.text.tokenizer import TokenizerPair, train_tokenizers
from dragoman.training.report import Reporter

Pairs = list[tuple[str, str]]


@dataclass
class Prepared:
    """The text of a run, ready for the loop. ``valid`` and ``test`` are raw pairs, None where there are none."""

    tokenizers: TokenizerPair
    corpus: TokenCorpus
    valid: Pairs | None
    test: Pairs | None


def prepare(config: RunConfig, folder: Path, base: TokenizerPair | None, reporter: Reporter) -> Prepared:
    """Read, tokenise and store the text of a run under ``folder``; what an earlier call completed is reused.

    ``base`` holds the tokenizers of the model that training goes on from, which are then kept.
    Raises :class:`DataError` where the text cannot be read or nothing is left of it.
    """
    data = config.data
    train, valid = _split(config)
    tokens, vocabulary = folder / "train", folder / "tokenizer"
    if is_there := tokens.is_dir() and vocabulary.is_dir():
        tokenizers = TokenizerPair.load(vocabulary)
    else:
        reporter.news("reading the training text")
        tokenizers = base or train_tokenizers(config.tokenizer, train, Path(data.dir), (data.src_lang, data.tgt_lang))
        drops = config.tokenizer.bpe_dropout > 0
        if drops:
            for tokenizer in (tokenizers.src, tokenizers.tgt):
                with_merges(tokenizer)
        vocabulary.mkdir(parents=True, exist_ok=True)
        tokenizers.save(vocabulary)
        write_corpus(train(), tokenizers, data, tokens, clean=True, words=drops)
        if isinstance(train, Remaining):
            reporter.news(
                f"{train.left_out:,} pairs left out for validation: held out, or sharing a side with one that is"
            )
    corpus = open_corpus(config, folder, tokenizers)
    if len(corpus) == 0:
        raise DataError(
            f"no training pair is left of {corpus.counts.total} read; check data.train and data.max_length."
        )
    reporter.news(corpus.counts.table())
    test = list(read_pairs(data.test, data.dir)) if data.test is not None else None
    for name, pairs in (("valid", valid), ("test", test)):
        if pairs is not None and not pairs:
            raise DataError(f"data.{name} holds no pairs; give files with text, or leave data.{name} out.")
    if not is_there:
        held = {name: pairs for name, pairs in (("valid", valid), ("test", test)) if pairs is not None}
        check_start(config, _shape(config, tokenizers), tokenizers, corpus, train, held, folder, reporter.news)
    return Prepared(tokenizers, corpus, valid, test)


def open_corpus(config: RunConfig, folder: Path, tokenizers: TokenizerPair) -> TokenCorpus:
    """The training text that :func:`prepare` stored under ``folder``, cut anew each epoch where BPE-dropout is on."""
    plain, rate = TokenCorpus.open(folder / "train"), config.tokenizer.bpe_dropout
    return RecutCorpus(plain, tokenizers, rate, config.train.seed, config.data.max_length) if rate else plain


def _split(config: RunConfig) -> tuple[Callable[[], Iterator[tuple[str, str]]], Pairs | None]:
    """A way to read the training pairs from the start, and the validation pairs."""
    data = config.data

    def train() -> Iterator[tuple[str, str]]:
        return read_pairs(data.train, data.dir)

    if data.valid is None:
        return train, None
    if isinstance(data.valid, HeldOutCorpus):
        return hold_out(train, data.valid.split, config.train.seed)
    return train, list(read_pairs(data.valid, data.dir))


def _shape(config: RunConfig, tokenizers: TokenizerPair) -> ModelConfig:
    """The shape of the model that will be trained."""
    if config.train.init_from:
        return read_config(Path(config.data.dir) / config.train.init_from)[1]
    return model_config(config, tokenizers)


def model_config(config: RunConfig, tokenizers: TokenizerPair) -> ModelConfig:
    """The configuration's model with the sizes and ids of the tokenizers.

    A model has one ``<s>`` and one ``</s>`` for both sides. Raises :class:`ConfigError` where the source begins or
    ends with one whose id is another token there.
    """
    for used, name in ((config.model.src_bos, "bos_id"), (config.model.src_eos, "eos_id")):
        src, tgt = getattr(tokenizers.src, name), getattr(tokenizers.tgt, name)
        if used and src != tgt:
            raise ConfigError(
                f"the source's tokenizer has {name} {src} and the target's {tgt}, but a model has one for both; "
                f"use tokenizers that agree, or set model.src_{name.removesuffix('_id')}: false."
            )
    return config.model.changed(
        src_vocab_size=tokenizers.src.vocab_size,
        tgt_vocab_size=tokenizers.tgt.vocab_size,
        src_pad_id=tokenizers.src.pad_id,
        tgt_pad_id=tokenizers.tgt.pad_id,
        bos_id=tokenizers.tgt.bos_id,
        eos_id=tokenizers.tgt.eos_id,
    )
