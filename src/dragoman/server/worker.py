"""The threads that use a model: batches of many requests, and one by one what needs a translator for itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from dragoman.errors import DragomanError
from dragoman.server.metrics import Metrics
from dragoman.server.queue import Alone, Batch, Dead, Entry, Queue, Taker, Texts
from dragoman.server.refusals import GoneError, InternalError, LateError
from dragoman.server.waiting import fail
from dragoman.translation import Translation
from dragoman.translator import Translator

logger = logging.getLogger("dragoman")

# How much of the measured speed the last batch is.
_SHARE = 0.2


class Batches(Protocol):
    """What translates batches: a translator, or a process that has one."""

    def translate(self, text: list[str], **options: Any) -> list[Translation]:
        """As :meth:`Translator.translate` does."""


class Helper(Batches, Protocol):
    """One that has to be ended."""

    def close(self) -> None:
        """End it; what it does is done."""


class Worker:
    """Owns a translator. Entries come through ``queue``; their futures get outcomes on the event loop of :meth:`start`.

    Without ``helpers`` one thread does everything. With them each translates batches, in a thread that waits for it,
    and one more thread does with the translator what needs it for itself.
    What goes wrong with a batch is found out request by request, so that nobody is told of another's mistake.
    """

    def __init__(
        self, name: str, translator: Translator, most: int, metrics: Metrics, helpers: Sequence[Helper] = ()
    ) -> None:
        self.queue = Queue(most)
        self._translator = translator
        self._meter = metrics.of_model(name, lambda: len(self.queue))
        self._helpers = list(helpers)
        parts: list[tuple[Taker, Batches]] = [(self.queue.taker(Texts), helper) for helper in helpers]
        parts.append((self.queue.taker(*((Alone,) if helpers else ())), translator))
        self._threads = [
            threading.Thread(target=self._run, args=part, name=f"model {name}", daemon=True) for part in parts
        ]
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to work."""
        self._loop = loop
        for thread in self._threads:
            thread.start()

    def stop(self, *, drop: bool = False) -> None:
        """Finish what is in the queue (``drop``: only what has begun), and end; returns when that is done."""
        self.queue.close(drop=drop)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for helper in self._helpers:
            helper.close()

    def _run(self, taker: Taker, batches: Batches) -> None:
        while (next_ := self.queue.take(taker)) is not None:
            if isinstance(next_, Alone):
                self._do_alone(next_)
            elif isinstance(next_, Dead):
                self._tell([(one, LateError(one.seconds)) for one in next_.entries])
            else:
                self._tell(self._do_batch(next_, batches))

    def _do_alone(self, entry: Alone) -> None:
        outcome: Any
        try:
            outcome = entry.work(self._translator)
        except GoneError as error:
            outcome = error
        except Exception as error:
            outcome = _told(error)
        # Counted before it is told: who has the answer finds it counted.
        if entry.sentence is not None and entry.sentence.found is not None:
            self._meter.tokens(entry.sentence.tokens, len(entry.sentence.found.ids))
        self._tell([(entry, outcome)])

    def _do_batch(self, batch: Batch, batches: Batches) -> list[tuple[Entry, Any]]:
        """The requests that this batch completes, each with its sentences or its error."""
        counts = Counter(entry for entry, _ in batch)
        requests = list(counts)
        started = time.monotonic()
        try:
            _translate(batch, requests[0], batches)
        except Exception as error:
            if len(requests) == 1:
                requests[0].abandoned = True
                return [(requests[0], _told(error))]
            parts = [[pair for pair in batch if pair[0] is request] for request in requests]
            return [outcome for part in parts for outcome in self._do_batch(part, batches)]
        seconds = max(time.monotonic() - started, 1e-6)
        tokens = sum(sentence.tokens for _, sentence in batch)
        self.queue.rate += _SHARE * (tokens / seconds - self.queue.rate)
        made = sum(len(sentence.found.ids) for _, sentence in batch if sentence.found is not None)
        self._meter.batch(len(batch), len(requests), seconds)
        self._meter.tokens(tokens, made)
        return [(one, one.sentences) for one, count in counts.items() if self.queue.finish(one, count)]

    def _tell(self, outcomes: Sequence[tuple[Entry, Any]]) -> None:
        """Give outcomes to those who wait, in one call; the loop is gone only where the process is ending."""
        if outcomes and self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_deliver, outcomes)


def _translate(batch: Batch, first: Texts, batches: Batches) -> None:
    sentences = [sentence for _, sentence in batch]
    options = dict(first.options)
    if any(one.prefix for one in sentences):
        options["prefix"] = [one.prefix for one in sentences]
    if any(one.constraints for one in sentences):
        options["constraints"] = [one.constraints for one in sentences]
    found = batches.translate(
        [one.text for one in sentences],
        line_numbers=[one.line for one in sentences],
        batch_tokens=first.budget,
        **options,
    )
    for sentence, translation in zip(sentences, found, strict=True):
        sentence.found = translation


def _deliver(outcomes: Sequence[tuple[Entry, Any]]) -> None:
    for entry, outcome in outcomes:
        if isinstance(outcome, Exception):
            fail(entry.future, outcome)
        elif not entry.future.done():
            entry.future.set_result(outcome)


def _told(error: Exception) -> DragomanError:
    """What the client is told: our own sentence where the request is at fault, else nothing of the reason."""
    if isinstance(error, DragomanError) and error.http_status < 500:
        return error
    logger.error("a translation failed:", exc_info=error)
    return InternalError()
