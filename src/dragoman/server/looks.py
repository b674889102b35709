"""What the attention view and the beam replay show, made by the model's own thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.server import asked
from dragoman.translator import Translator

Work = Callable[[Translator], dict[str, Any]]


def attention_of(wanted: asked.Attention, text: str, check: Callable[[str, int], None]) -> Work:
    """What makes the data of the attention view; the model reads ``text``.

    ``check`` is told the name and the tokens of the translation, and raises where they are too many.
    """
    from dragoman.visualize.maps import AttentionMaps
    from dragoman.visualize.page import attention_data

    def work(translator: Translator) -> dict[str, Any]:
        options = wanted.given()
        if wanted.tgt is None:
            found = translator.translate(text, attention=True, **{"n_best": 1, **options})
        else:
            found = translator.force(text, wanted.tgt, attention=True, **options)
        check("the translation", len(found.tokens))
        start = translator.bundle.tokenizers.tgt.tokens([translator.model.config.bos_id])[0]
        return attention_data(AttentionMaps.of(wanted.text, found, translator.special, start))

    return work


def replay_of(wanted: asked.Replay, text: str) -> Work:
    """What makes the data of the beam replay; the model reads ``text``."""
    from dragoman.visualize.replay import replay_data

    def work(translator: Translator) -> dict[str, Any]:
        found, record = translator.record(text, prefix=wanted.prefix, **wanted.given())
        tokenizer = translator.bundle.tokenizers.tgt
        return replay_data(wanted.text, found.text, record, lambda index: tokenizer.tokens([index])[0])

    return work
