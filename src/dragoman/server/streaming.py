"""A translation piece by piece while the model makes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from dragoman.server.catalogue import Served
from dragoman.server.documents import Part
from dragoman.server.queue import Sentence
from dragoman.server.refusals import LateError
from dragoman.server.service import Service
from dragoman.translator import Translator


async def streamed(
    service: Service,
    served: Served,
    parts: Sequence[Part],
    sentences: Sequence[Sentence],
    options: dict[str, Any],
    deadline: float,
) -> AsyncGenerator[str]:
    """The pieces of a text's translation, white space included, with ``options`` of :meth:`Translator.stream`.

    At its end each sentence has its translation. The model makes one sentence at a time and is free for others
    between them; only the first is refused by a full queue. Closed before its end, it stops the search after the step
    that has begun. Raises what the translator raises, and :class:`LateError`.
    """
    for number, (part, sentence) in enumerate(zip(parts, sentences, strict=True)):
        if part.before:
            yield part.before
        async for piece in _pieces(service, served, sentence, options, deadline, within=not number):
            yield piece
        if part.after:
            yield part.after


async def _pieces(
    service: Service, served: Served, sentence: Sentence, options: dict[str, Any], deadline: float, *, within: bool
) -> AsyncGenerator[str]:
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def work(translator: Translator) -> None:
        _emit(translator, sentence, options, lambda piece: loop.call_soon_threadsafe(pieces.put_nowait, piece))

    entry = service.put_alone(served, work, deadline, within=within, sentence=sentence)
    entry.future.add_done_callback(lambda _: pieces.put_nowait(None))
    late = loop.call_later(max(0.0, deadline - time.monotonic()), pieces.put_nowait, None)
    try:
        while (piece := await pieces.get()) is not None:
            yield piece
        if not entry.future.done():
            raise LateError(service.limits.timeout)
        entry.future.result()
    finally:
        late.cancel()
        entry.abandoned = True


def _emit(translator: Translator, sentence: Sentence, options: dict[str, Any], emit: Callable[[str], Any]) -> None:
    """Run in the model's thread, which ends the search when nobody waits, or it is too late."""
    if sentence.constraints:
        options = {**options, "constraints": sentence.constraints}
    stream = translator.stream(sentence.text, prefix=sentence.prefix or None, **options)
    for piece in stream:
        emit(piece)
    sentence.found = stream.translation
