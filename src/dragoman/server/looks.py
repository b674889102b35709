"""What the attention view and the beam replay show, made by the model's own thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.server import asked
from dragoman.translator import Translator

Work = Callable[[Translator], dict[str, Any]]


def attention_of(wanted: asked.Attention) -> Work:
    """What makes the data of the attention view."""
    from dragoman.visualize.maps import AttentionMaps
    from dragoman.visualize.page import attention_data

    def work(translator: Translator) -> dict[str, Any]:
        options = wanted.options.given()
        if wanted.tgt is None:
            found = translator.translate(wanted.text, attention=True, **{"n_best": 1, **options})
        else:
            found = translator.force(wanted.text, wanted.tgt, attention=True, **options)
        start = translator.bundle.tokenizers.tgt.tokens([translator.model.config.bos_id])[0]
        return attention_data(AttentionMaps.of(wanted.text, found, translator.special, start))

    return work


def replay_of(wanted: asked.Replay) -> Work:
    """What makes the data of the beam replay."""
    from dragoman.visualize.replay import replay_data

    def work(translator: Translator) -> dict[str, Any]:
        found, record = translator.record(wanted.text, prefix=wanted.prefix, **wanted.options.given())
        tokenizer = translator.bundle.tokenizers.tgt
        return replay_data(wanted.text, found.text, record, lambda index: tokenizer.tokens([index])[0])

    return work
