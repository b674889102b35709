"""The translating of windows of lines: in this process, or in several that share the windows."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli import common, lines
from dragoman.errors import RunError, UsageError

if TYPE_CHECKING:
    from dragoman.translating.terms import Terms
    from dragoman.translation import Translation
    from dragoman.visualize.alignment import Layer

Report = Callable[[int], None]
Written = Generator[list[str], None, None]


@dataclass(frozen=True)
class Work:
    """What to do with each window; it can be sent to another process. ``options`` are those of a translation."""

    models: list[Path]
    device: str
    precision: str
    options: dict[str, Any] = field(default_factory=dict)
    terms: Terms | None = None
    strict_terms: bool = False
    split_sentences: bool = False
    scores: bool = False
    alignments: bool = False
    alignment_layer: Layer = "best"
    jsonl: bool = False
    compiled: bool = False


class Worker:
    """Does some work. Raises :class:`DragomanError` for a model that cannot be loaded, or options that cannot be."""

    def __init__(self, work: Work) -> None:
        from dragoman.translator import BATCH_TOKENS, Translator

        self.work = work
        self.translator = Translator.load(work.models, work.device, work.precision, compile=work.compiled)
        several = self.translator.decode_config(**_of_search(work.options)).n_best > 1
        if several and work.alignments and not work.jsonl:
            raise UsageError("--alignments belong to the best translation; leave out --n-best, or add --jsonl.")
        if work.alignments:
            from dragoman.visualize.alignment import check_layer

            check_layer(work.alignment_layer, self.translator.model.config.n_decoder_layers)
        self.options: dict[str, Any] = {"batch_tokens": BATCH_TOKENS, **work.options}
        self.options |= {"terms": work.terms, "strict_terms": work.strict_terms}
        plain = lines.as_list if several else lines.as_scored if work.scores else lines.as_text
        self.show = lines.as_json if work.jsonl else plain

    def lines(self, first: int, window: list[str], prefixes: list[str] | None, report: Report | None) -> list[str]:
        """The lines to write for a window that begins at line ``first`` (from 0)."""
        shared = {**self.options, "line_numbers": range(first, first + len(window)), "report": report}
        if self.work.split_sentences:
            return [lines.one_line(text) for text in self.translator.translate_document(window, **shared)]
        found = self.translator.translate(window, prefix=prefixes, attention=self.work.alignments, **shared)
        places = enumerate(zip(window, found, strict=True), first)
        return [self.show(place, one, self._links(source, one)) for place, (source, one) in places]

    def _links(self, source: str, found: Translation) -> str | None:
        """Which source word each word of the translation comes from, where that was asked for."""
        if not self.work.alignments:
            return None
        from dragoman.visualize.alignment import align, pharaoh

        return pharaoh(align(source, found, self.translator.special, self.work.alignment_layer))


def _of_search(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "batch_tokens"}


_worker: Worker | None = None


def _prepare(threads: int, level: int) -> None:
    """Set up a worker process: its threads, its log, and no end of its own at Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    common.prepare_runtime(threads)
    common.set_up_streams()
    common.logger.setLevel(level)


def _load(work: Work) -> None:
    global _worker  # a worker process keeps its model between windows
    _worker = Worker(work)


def _lines(work: Work, window: lines.Window) -> list[str]:
    if _worker is None:
        # What there is to say of the model has been said by the process that loaded it first.
        level = common.logger.level
        common.logger.setLevel(logging.ERROR)
        try:
            _load(work)
        finally:
            common.logger.setLevel(level)
    assert _worker is not None
    return _worker.lines(*window, None)


def translated(work: Work, windows: Iterable[lines.Window], report: Callable[[int], Report]) -> Written:
    """The lines to write for each window, in this process. ``report`` makes what takes lines done, for a first line."""
    worker = Worker(work)
    for first, window, prefixes in windows:
        yield worker.lines(first, window, prefixes, report(first))


def shared_out(
    work: Work, windows: Iterable[lines.Window], report: Callable[[int], Report], workers: int, threads: int | None
) -> Written:
    """The same by ``workers`` processes, in order; at most two windows a process are held at a time.

    ``threads`` (None: the processors) are divided among them. Raises :class:`RunError` where a process dies.
    """
    own = max(1, (threads or os.cpu_count() or 1) // workers)
    context = multiprocessing.get_context("spawn")  # a fork of a process that has run torch may hang
    pool = ProcessPoolExecutor(workers, context, _prepare, (own, common.logger.level))
    waiting: deque[tuple[lines.Window, Future[list[str]]]] = deque()
    try:
        pool.submit(_load, work).result()  # a model that cannot be used is said before a line is read
        report(0)
        for window in windows:
            waiting.append((window, pool.submit(_lines, work, window)))
            if len(waiting) > 2 * workers:
                yield _next(waiting, report)
        while waiting:
            yield _next(waiting, report)
        pool.shutdown()
    except BrokenProcessPool:
        lost = f"; the lines from {waiting[0][0][0] + 1:,} on are not translated" if waiting else ""
        raise RunError(f"a worker process died (out of memory?){lost}; use fewer --workers.") from None
    finally:
        for process in multiprocessing.active_children():
            with contextlib.suppress(OSError):
                process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)


def _next(waiting: deque[tuple[lines.Window, Future[list[str]]]], report: Callable[[int], Report]) -> list[str]:
    """The lines of the window that has waited longest."""
    (first, window, _), future = waiting[0]
    done = future.result()
    waiting.popleft()
    report(first)(len(window))
    return done
