"""What a translation attended to, and what the attention view and the beam replay show; the model's thread makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dragoman.config import ModelConfig
from dragoman.server import asked
from dragoman.server.queue import Sentence
from dragoman.translation import Translation
from dragoman.translator import Translator

if TYPE_CHECKING:
    from dragoman.model.transformer import Attention

Work = Callable[[Translator], dict[str, Any]]


@dataclass(frozen=True)
class Look:
    """What one sentence attended to: links of words as ``0-0 1-2``, and the weights; None what was not asked for."""

    alignment: str | None = None
    attention: Attention | None = None


def weights_of(shape: ModelConfig, sources: int, targets: int) -> int:
    """How many weights all layers and heads have for a sentence and its translation of so many tokens."""
    encoder = shape.n_encoder_layers * sources * sources
    return shape.n_heads * (encoder + shape.n_decoder_layers * targets * (targets + sources))


def looks_of(sentences: Sequence[Sentence], attention: bool, alignments: bool) -> Callable[[Translator], list[Look]]:
    """What looks at translated sentences; one after the other where all weights are wanted, else many together."""
    from dragoman.visualize.alignment import align, pharaoh

    pairs = [(sentence.text, sentence.found) for sentence in sentences if sentence.found is not None]
    assert len(pairs) == len(sentences)
    if not attention:
        linked = links_of(pairs)
        return lambda translator: [Look(pharaoh(links)) for links in linked(translator)]

    def look(translator: Translator, text: str, translation: Translation) -> Look:
        found = translator.force(text, translation, attention=True)
        links = pharaoh(align(text, found, translator.special)) if alignments else None
        return Look(links, found.attention)

    return lambda translator: [look(translator, *pair) for pair in pairs]


def links_of(pairs: Sequence[tuple[str, Translation]]) -> Callable[[Translator], list[list[tuple[int, int]]]]:
    """What links the words of sentences and their translations: forced passes for many of them together."""
    from dragoman.visualize.alignment import align

    def work(translator: Translator) -> list[list[tuple[int, int]]]:
        special = translator.special
        found: list[list[tuple[int, int]]] = [[] for _ in pairs]
        for at, attention in translator.source_attention(pairs):
            text, translation = pairs[at]
            found[at] = align(text, replace(translation, attention=attention), special)
        return found

    return work


def attention_of(wanted: asked.Attention, text: str, check: Callable[[str, int], None]) -> Work:
    """What makes the data of the attention view; the model reads ``text``.

    ``check`` is told the name and the tokens of the translation, and raises where they are too many.
    """
    from dragoman.visualize.maps import AttentionMaps
    from dragoman.visualize.page import attention_data

    def work(translator: Translator) -> dict[str, Any]:
        options = wanted.given(translator.bundle.decode)
        if wanted.tgt is None:
            found = translator.translate(text, attention=True, **{"n_best": 1, **options})
        else:
            found = translator.force(text, wanted.tgt, attention=True, **options)
        check("the translation", len(found.tokens))
        start = translator.bundle.tokenizers.tgt.tokens([translator.model.config.bos_id])[0]
        return attention_data(AttentionMaps.of(wanted.text, found, translator.special, start))

    return work


def replay_of(wanted: asked.Replay, text: str) -> Work:
    """What makes the data of the beam replay; the model reads ``text``.

    Where the search does not end with the translation that is to be marked, it stands in ``missing``.
    """
    from dragoman.visualize.replay import replay_data

    def work(translator: Translator) -> dict[str, Any]:
        found, record = translator.record(text, prefix=wanted.prefix, **wanted.given(translator.bundle.decode))
        results, tokenizer = translator.results, translator.bundle.tokenizers.tgt
        marked = None
        if wanted.tgt not in (None, found.text):
            # Of several ways to write it the best.
            marked = next((at for at in record.ended if results.text(record.tokens(at)) == wanted.tgt), None)
        shown = found.text if marked is None else results.text(record.tokens(marked))
        data = replay_data(wanted.text, shown, record, lambda index: tokenizer.tokens([index])[0], marked)
        return data if marked is not None or wanted.tgt in (None, found.text) else {**data, "missing": wanted.tgt}

    return work
