"""The checks that run before each training: a sample of the text, the tokenizers, the settings; seconds at most."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from dragoman.config import HeldOutCorpus, HubCorpus, ModelConfig, RunConfig
from dragoman.errors import DataError
from dragoman.preflight import settings, sides, text, vocabulary
from dragoman.preflight.codes import codes
from dragoman.preflight.direction import direction
from dragoman.preflight.finding import Check, Finding, Outcome
from dragoman.preflight.survey import Pair, Survey, survey
from dragoman.text.corpus import TokenCorpus
from dragoman.text.tokenizer import TokenizerPair

# Training pairs that are read before a training: about a second's worth. Over a network it takes longer.
MOST_READ = 300_000
MOST_STREAMED = 5_000


@dataclass(frozen=True)
class Text:
    """What the cheap checks look at.

    ``corpus`` is the tokenised training text, or a sample of ``pairs`` pairs; None: nobody knows how many.
    """

    survey: Survey
    held: Mapping[str, Sequence[Pair]]
    tokenizers: TokenizerPair
    corpus: TokenCorpus
    pairs: int | None


def text_checks(config: RunConfig, seen: Survey, held: Mapping[str, Sequence[Pair]]) -> list[Check]:
    """What needs the text alone."""
    data = config.data
    # Pairs that are held out of the training text say nothing new of its direction.
    apart = {name: rows for name, rows in held.items() if name != "valid" or not isinstance(data.valid, HeldOutCorpus)}
    return [
        (
            "noise in the text: carriage returns, entities, wrong encodings, control characters",
            partial(text.noise, seen),
        ),
        ("repeated pairs", partial(sides.repeats, seen)),
        ("sources copied as targets", partial(sides.copies, seen)),
        ("validation and test text that stands in the training text", partial(sides.overlap, seen)),
        ("alignment of the sides, by their lengths", partial(sides.alignment, seen)),
        ("language codes", partial(codes, data.src_lang, data.tgt_lang)),
        ("scripts", partial(sides.languages, seen, data.src_lang, data.tgt_lang)),
        (
            "languages of the sides, and whether any are swapped",
            partial(direction, seen, apart, data.src_lang, data.tgt_lang),
        ),
    ]


def vocabulary_checks(tokenizers: TokenizerPair, texts: Mapping[str, Sequence[Pair]]) -> list[Check]:
    """How the tokenizers cope with each text; its name -> its pairs."""

    def fit(name: str, pairs: Sequence[Pair]) -> Iterator[Finding]:
        for side, tokenizer, column in (("sources", tokenizers.src, 0), ("targets", tokenizers.tgt, 1)):
            yield from vocabulary.fit(f"{name}'s {side}", tokenizer, [pair[column] for pair in pairs])

    return [
        (f"tokenizers on {name}: unknown words, bytes, the way back", partial(fit, name, texts[name])) for name in texts
    ]


def token_checks(config: RunConfig, model: ModelConfig, given: Text, device: str, folder: Path) -> list[Check]:
    """What needs the tokenised text and the settings."""
    corpus = given.corpus
    empty = {name: sum(not src.strip() for src, _ in rows) for name, rows in given.held.items()}
    pairs = given.pairs
    per_epoch = None if pairs is None else settings.updates_per_epoch(pairs, corpus, model, config.train)
    tokens = int(corpus.src_lengths.sum() + corpus.tgt_lengths.sum())
    # A streamed text is not stored.
    stored = 0 if config.data.train.streaming else pairs or 0
    size = 2 * tokens * stored // max(1, len(corpus))
    # A vocabulary that comes with a model is as it is.
    unused = partial(vocabulary.unused, corpus, given.tokenizers)
    return [
        ("sizes and ids of model and tokenizers", partial(vocabulary.ids, model, given.tokenizers)),
        *([] if config.train.init_from else [("tokens that the text never uses", unused)]),
        ("dropped pairs", partial(settings.dropped, corpus)),
        ("longest sentences, positions and batches", partial(settings.lengths, corpus, model, config.train)),
        (
            "validation text against the positions",
            partial(settings.valid_lengths, given.held.get("valid", []), given.tokenizers, model),
        ),
        ("rows without anything to see", partial(settings.empty_rows, corpus, model, empty)),
        ("length limits of decoding", partial(settings.decoding_limits, corpus, model, config.decode)),
        ("learning rate and warm-up", partial(settings.schedule, config, model.d_model, per_epoch)),
        ("validation", partial(settings.validation, config, per_epoch)),
        ("threads, precision, memory and disk", partial(settings.machine, config, model, device, folder, size)),
    ]


def outcome(check: Check) -> Outcome:
    """Make one check."""
    title, function = check
    return Outcome(title, tuple(function()))


def check_start(
    config: RunConfig,
    model: ModelConfig,
    tokenizers: TokenizerPair,
    corpus: TokenCorpus,
    read: Callable[[], Iterable[Pair]],
    held: Mapping[str, Sequence[Pair]],
    folder: Path,
    warn: Callable[[str], None],
    pairs: int | None,
) -> None:
    """All cheap checks before a training, with ``warn`` for each warning. ``read`` reads the training pairs.

    ``held`` are the validation and test pairs by name; ``pairs`` is the size of the training text, of which ``corpus``
    may be a sample, None where nobody knows it. Raises :class:`DataError` where training could not make sense.
    """
    most = MOST_STREAMED if isinstance(config.data.train, HubCorpus) else MOST_READ
    seen = survey(read(), held, most)
    given = Text(seen, held, tokenizers, corpus, pairs)
    device = config.train.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    checks = text_checks(config, seen, held)
    checks += vocabulary_checks(tokenizers, {"training text": list(seen.pairs()), **held})
    checks += token_checks(config, model, given, device, folder)
    errors = []
    for check in checks:
        for finding in outcome(check).findings:
            if finding.severity == "warning":
                warn(finding.text)
            elif finding.severity == "error":
                errors.append(finding.text.removesuffix("."))
    if errors:
        raise DataError("; ".join(errors) + ".")
