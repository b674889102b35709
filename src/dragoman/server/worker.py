"""The one thread that uses a model: batches of many requests, and one by one what needs the model for itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from dragoman.errors import DragomanError
from dragoman.server.metrics import Metrics
from dragoman.server.queue import Alone, Batch, Dead, Entry, Queue, Texts
from dragoman.server.refusals import GoneError, InternalError, LateError
from dragoman.translator import Translator

logger = logging.getLogger("dragoman")

# How much of the measured speed the last batch is.
_SHARE = 0.2


class Worker:
    """Owns a translator. Entries come through ``queue``; their futures get outcomes on the event loop of :meth:`start`.

    What goes wrong with a batch is found out request by request, so that nobody is told of another's mistake.
    """

    def __init__(self, name: str, translator: Translator, most: int, metrics: Metrics) -> None:
        self.queue = Queue(most)
        self._translator = translator
        self._meter = metrics.of_model(name, lambda: len(self.queue))
        self._thread = threading.Thread(target=self._run, name=f"model {name}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to work."""
        self._loop = loop
        self._thread.start()

    def stop(self, *, drop: bool = False) -> None:
        """Finish what is in the queue (``drop``: only what has begun), and end; returns when that is done."""
        self.queue.close(drop=drop)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (next_ := self.queue.take()) is not None:
            if isinstance(next_, Alone):
                self._do_alone(next_)
            elif isinstance(next_, Dead):
                self._tell([(one, LateError(one.seconds)) for one in next_.entries])
            else:
                self._tell(self._do_batch(next_))

    def _do_alone(self, entry: Alone) -> None:
        try:
            self._tell([(entry, entry.work(self._translator))])
        except GoneError as error:
            self._tell([(entry, error)])
        except Exception as error:
            self._tell([(entry, _told(error))])

    def _do_batch(self, batch: Batch) -> list[tuple[Entry, Any]]:
        """The requests that this batch completes, each with its sentences or its error."""
        requests = list(dict.fromkeys(entry for entry, _ in batch))
        started = time.monotonic()
        try:
            self._translate(batch, requests[0])
        except Exception as error:
            if len(requests) == 1:
                requests[0].abandoned = True
                return [(requests[0], _told(error))]
            parts = [[pair for pair in batch if pair[0] is request] for request in requests]
            return [outcome for part in parts for outcome in self._do_batch(part)]
        seconds = max(time.monotonic() - started, 1e-6)
        tokens = sum(sentence.tokens for _, sentence in batch)
        self.queue.rate += _SHARE * (tokens / seconds - self.queue.rate)
        made = sum(len(sentence.found.ids) for _, sentence in batch if sentence.found is not None)
        self._meter.batch(len(batch), len(requests), tokens, made, seconds)
        for entry, _ in batch:
            entry.done += 1
        return [(one, one.sentences) for one in requests if one.done == len(one.sentences)]

    def _translate(self, batch: Batch, first: Texts) -> None:
        sentences = [sentence for _, sentence in batch]
        options = dict(first.options)
        if any(one.prefix for one in sentences):
            options["prefix"] = [one.prefix for one in sentences]
        if any(one.constraints for one in sentences):
            options["constraints"] = [one.constraints for one in sentences]
        found = self._translator.translate(
            [one.text for one in sentences],
            line_numbers=[one.line for one in sentences],
            batch_tokens=first.budget,
            **options,
        )
        for sentence, translation in zip(sentences, found, strict=True):
            sentence.found = translation

    def _tell(self, outcomes: Sequence[tuple[Entry, Any]]) -> None:
        """Give outcomes to those who wait, in one call; the loop is gone only where the process is ending."""
        if outcomes and self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_deliver, outcomes)


def _deliver(outcomes: Sequence[tuple[Entry, Any]]) -> None:
    for entry, outcome in outcomes:
        if entry.future.done():
            continue
        if isinstance(outcome, Exception):
            entry.future.set_exception(outcome)
            entry.future.exception()  # whoever waited may be gone; then nobody else looks at it
        else:
            entry.future.set_result(outcome)


def _told(error: Exception) -> DragomanError:
    """What the client is told: our own sentence where the request is at fault, else nothing of the reason."""
    if isinstance(error, DragomanError) and error.http_status < 500:
        return error
    logger.error("a translation failed:", exc_info=error)
    return InternalError()
