"""From the configuration's text to what the loop needs: tokenizers, a memory-mapped corpus, validation pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
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
from dragoman.text.stream_batches import StreamCorpus
from dragoman.text.tokenizer import TokenizerPair, train_tokenizers
from dragoman.training.report import Reporter

Pairs = list[tuple[str, str]]
# Pairs of a streamed text that are tokenised beforehand, so that the checks can look at them: seconds.
MOST_SAMPLED = 20_000


@dataclass
class Prepared:
    """The text of a run, ready for the loop. ``valid`` and ``test`` are raw pairs, None where there are none."""

    tokenizers: TokenizerPair
    corpus: TokenCorpus | StreamCorpus
    valid: Pairs | None
    test: Pairs | None


def prepare(config: RunConfig, folder: Path, base: TokenizerPair | None, reporter: Reporter) -> Prepared:
    """Read, tokenise and store the text of a run under ``folder``; what an earlier call completed is reused.

    Of a streamed text only the beginning is read, for the tokenizers and the checks, and a sample of it is stored.
    ``base`` holds the tokenizers of the model that training goes on from, which are then kept.
    Raises :class:`DataError` where the text cannot be read or nothing is left of it.
    """
    data, streaming = config.data, config.data.train.streaming
    train, valid = _split(config)
    tokens, vocabulary = stored_text(config, folder), folder / "tokenizer"
    if is_there := tokens.is_dir() and vocabulary.is_dir():
        tokenizers = TokenizerPair.load(vocabulary)
    else:
        reporter.news("reading the beginning of the training text" if streaming else "reading the training text")
        tokenizers = base or train_tokenizers(config.tokenizer, train, Path(data.dir), (data.src_lang, data.tgt_lang))
        drops = config.tokenizer.bpe_dropout > 0
        if drops:
            for tokenizer in (tokenizers.src, tokenizers.tgt):
                with_merges(tokenizer)
        vocabulary.mkdir(parents=True, exist_ok=True)
        tokenizers.save(vocabulary)
        most = MOST_SAMPLED if streaming else None
        write_corpus(islice(train(), most), tokenizers, data, tokens, clean=True, words=drops and not streaming)
        if isinstance(train, Remaining) and not streaming:
            reporter.news(
                f"{train.left_out:,} pairs left out for validation: held out, or sharing a side with one that is"
            )
    seen = TokenCorpus.open(tokens)
    if len(seen) == 0:
        raise DataError(f"no training pair is left of {seen.counts.total} read; check data.train and data.max_length.")
    reporter.news((f"of the first {seen.counts.total:,} pairs:\n" if streaming else "") + seen.counts.table())
    test = list(read_pairs(data.test, data.dir)) if data.test is not None else None
    for name, pairs in (("valid", valid), ("test", test)):
        if pairs is not None and not pairs:
            raise DataError(f"data.{name} holds no pairs; give files with text, or leave data.{name} out.")
    corpus = open_corpus(config, folder, tokenizers, valid)
    size = corpus.size if isinstance(corpus, StreamCorpus) else len(corpus)
    _check_horizon(config, size)
    if not is_there:
        held = {name: pairs for name, pairs in (("valid", valid), ("test", test)) if pairs is not None}
        shape = _shape(config, tokenizers)
        check_start(config, shape, tokenizers, seen, train, held, folder, reporter.warn, size)
    return Prepared(tokenizers, corpus, valid, test)


def stored_text(config: RunConfig, folder: Path) -> Path:
    """Where :func:`prepare` stores the training text, or a sample of a streamed one."""
    return folder / ("sample" if config.data.train.streaming else "train")


def open_corpus(
    config: RunConfig, folder: Path, tokenizers: TokenizerPair, valid: Pairs | None
) -> TokenCorpus | StreamCorpus:
    """The training text that :func:`prepare` stored under ``folder``, or the stream of it without ``valid``.

    Where BPE-dropout is on it is cut anew each epoch.
    """
    data, rate, seed = config.data, config.tokenizer.bpe_dropout, config.train.seed
    if data.train.streaming:
        held = valid if isinstance(data.valid, HeldOutCorpus) and valid is not None else []
        return StreamCorpus(data, tokenizers, rate, seed, Remaining.without(_reader(config), held).keeps)
    plain = TokenCorpus.open(stored_text(config, folder))
    return RecutCorpus(plain, tokenizers, rate, seed, data.max_length) if rate else plain


def _reader(config: RunConfig) -> Callable[[], Iterator[tuple[str, str]]]:
    """A way to read the training pairs from the start; of a streamed text the first ``tokenizer_pairs``."""
    data = config.data
    most = data.train.tokenizer_pairs if data.train.streaming else None
    return lambda: islice(read_pairs(data.train, data.dir), most)


def _split(config: RunConfig) -> tuple[Callable[[], Iterator[tuple[str, str]]], Pairs | None]:
    """A way to read the training pairs from the start, and the validation pairs."""
    data, train = config.data, _reader(config)
    if data.valid is None:
        return train, None
    if isinstance(data.valid, HeldOutCorpus):
        return hold_out(train, data.valid.split, config.train.seed)
    return train, list(read_pairs(data.valid, data.dir))


def _check_horizon(config: RunConfig, size: int | None) -> None:
    """Refuse a learning rate that falls over epochs of a length that nobody knows."""
    train = config.train
    if size is not None or train.max_steps or train.max_minutes:
        return
    if train.schedule in ("linear", "cosine") or train.warmup_ratio is not None:
        raise ConfigError(
            f"train.schedule {train.schedule} spreads over train.max_epochs, and nobody knows how many pairs an epoch "
            "of the streamed text has; set data.train.pairs to about that, or train.max_steps."
        )


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
