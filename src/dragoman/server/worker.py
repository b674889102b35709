"""The threads that use a model: batches of many requests, and one by one what needs a translator for itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dragoman.errors import DragomanError
from dragoman.server.metrics import Metrics
from dragoman.server.queue import Alone, Batch, Dead, Entry, Queue, Taker, Texts
from dragoman.server.refusals import GoneError, InternalError, LateError, StoppingError
from dragoman.server.waiting import fail
from dragoman.translation import Translation
from dragoman.translator import Translator

logger = logging.getLogger("dragoman")

# How much of the measured speed the last batch is.
_SHARE = 0.2
# Seconds that a search goes on before others are let in between two of its steps.
_TURN_SECONDS = 1.0


class Batches(Protocol):
    """What translates batches: a translator, or a process that has one."""

    def translate(self, text: list[str], *, check: Callable[[], object], **options: Any) -> list[Translation]:
        """As :meth:`Translator.translate` does; ``check`` is called again and again, and what it raises ends it."""


class _Here:
    """Batches translated in the thread that asks."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator

    def translate(self, text: list[str], *, check: Callable[[], object], **options: Any) -> list[Translation]:
        """As the translator does, with ``check`` before each step of the search."""
        return self._translator.interruptible(check).translate(text, **options)


class Helper(Batches, Protocol):
    """One that has to be ended."""

    def close(self) -> None:
        """End it; what it does is done."""


class _Watch:
    """What a search for ``entries`` calls before each step: it raises where there is no use in going on.

    Where the search takes long it calls ``let_in``, which may take as long; ``seconds`` are those of all such calls.
    """

    def __init__(self, entries: Sequence[Entry], stopping: threading.Event, let_in: Callable[[], object]) -> None:
        self.seconds = 0.0
        self._entries = entries
        self._stopping = stopping
        self._let_in = let_in
        self._due = time.monotonic() + _TURN_SECONDS

    def __call__(self) -> None:
        """Raises :class:`GoneError` where nobody waits for any of the entries, and :class:`StoppingError`."""
        if self._stopping.is_set():
            raise StoppingError
        if all(one.dead() for one in self._entries):
            raise GoneError
        if (begun := time.monotonic()) >= self._due:
            self._let_in()
            took = time.monotonic() - begun
            self.seconds += took
            # As long as others had their turn, the search has its own.
            self._due = begun + took + max(took, _TURN_SECONDS)


class Worker:
    """Owns a translator. Entries come through ``queue``; their futures get outcomes on the event loop of :meth:`start`.

    Without ``helpers`` one thread does everything. With them each translates batches, in a thread that waits for it,
    and one more thread does with the translator what needs it for itself.
    What goes wrong with a batch is found out request by request, so that nobody is told of another's mistake.
    A search ends before its next step when nobody waits for any of its sentences any more, and at :meth:`give_up`. One
    that takes long lets light ones in: between its steps, or where a helper does it beside it.
    """

    def __init__(
        self, name: str, translator: Translator, most: int, metrics: Metrics, helpers: Sequence[Helper] = ()
    ) -> None:
        self.queue = Queue(most)
        self._translator = translator
        self._meter = metrics.of_model(name, lambda: len(self.queue))
        self._helpers = list(helpers)
        self._giving_up = threading.Event()
        self._own = threading.RLock()  # held by the thread that uses the translator
        parts: list[tuple[Taker, Batches]] = [(self.queue.taker(Texts), helper) for helper in helpers]
        parts.append((self.queue.taker(*((Alone,) if helpers else ())), _Here(translator)))
        self._threads = [
            threading.Thread(target=self._run, args=part, name=f"model {name}", daemon=True) for part in parts
        ]
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to work."""
        self._loop = loop
        for thread in self._threads:
            thread.start()

    def give_up(self) -> None:
        """Take nothing more, and end every search before its next step: who waits gets :class:`StoppingError`."""
        self._giving_up.set()
        self._tell([(one, StoppingError()) for one in self.queue.close(drop=True)])

    def stop(self) -> None:
        """Finish what is in the queue, unless it was given up, and end; returns when that is done."""
        self.queue.close()
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
            with self._own:
                outcome = entry.work(self._translator.interruptible(self._watch([entry])))
        except (GoneError, StoppingError) as error:
            outcome = _ended(entry, error)
        except Exception as error:
            outcome = _told(error)
        # Counted before it is told: who has the answer finds it counted.
        if entry.sentence is not None and entry.sentence.found is not None:
            self._meter.tokens(entry.sentence.tokens, len(entry.sentence.found.ids))
        self._tell([(entry, outcome)])

    def _watch(self, entries: Sequence[Entry], lets_in: bool = True) -> _Watch:
        """What a search for some entries calls; ``lets_in``: where it takes long, others have a turn."""

        def turn() -> None:
            # Where a helper searches, the translator of this process is free, unless it does something alone.
            if not lets_in or not self._own.acquire(blocking=False):
                return
            try:
                if (batch := self.queue.take_light(entries)) is not None:
                    self._tell(self._do_batch(batch, _Here(self._translator), lets_in=False))
            finally:
                self._own.release()

        return _Watch(entries, self._giving_up, turn)

    def _do_batch(self, batch: Batch, batches: Batches, *, lets_in: bool = True) -> list[tuple[Entry, Any]]:
        """The requests that this batch completes, each with its sentences or its error."""
        counts = Counter(entry for entry, _ in batch)
        requests = list(counts)
        watch = self._watch(requests, lets_in)
        started = time.monotonic()
        try:
            _translate(batch, requests[0], batches, watch)
        except (GoneError, StoppingError) as error:
            for request in requests:
                request.abandoned = True
            return [(request, _ended(request, error)) for request in requests]
        except Exception as error:
            if len(requests) == 1:
                requests[0].abandoned = True
                return [(requests[0], _told(error))]
            parts = [[pair for pair in batch if pair[0] is request] for request in requests]
            return [outcome for part in parts for outcome in self._do_batch(part, batches, lets_in=lets_in)]
        seconds = max(time.monotonic() - started - watch.seconds, 1e-6)
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


def _translate(batch: Batch, first: Texts, batches: Batches, check: Callable[[], object]) -> None:
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
        check=check,
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


def _ended(entry: Entry, error: GoneError | StoppingError) -> DragomanError:
    """What one is told whose search was ended; where its client hung up nobody hears it."""
    return StoppingError() if isinstance(error, StoppingError) else LateError(entry.seconds)


def _told(error: Exception) -> DragomanError:
    """What the client is told: our own sentence where the request is at fault, else nothing of the reason."""
    if isinstance(error, DragomanError) and error.http_status < 500:
        return error
    logger.error("a translation failed:", exc_info=error)
    return InternalError()
