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
from itertools import chain
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli import common, ending, lines
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


def _prepare(threads: int, level: int, parent: int) -> None:
    """Set up a worker process: its threads, its log, and no end of its own, but by its parent or with it."""
    # What a terminal sends, it sends to the parent too, which ends its workers by SIGTERM.
    for name in ("SIGINT", "SIGHUP"):
        if name in signal.Signals.__members__:
            signal.signal(signal.Signals[name], signal.SIG_IGN)
    ending.end_with_parent(signal.SIGTERM, parent)
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


def translated(work: Work, windows: Iterable[lines.Window | None], report: Callable[[int], Report]) -> Written:
    """The lines to write for each window, in this process. ``report`` makes what takes lines done, for a first line."""
    worker = Worker(work)
    for window in windows:
        if window is not None:
            yield worker.lines(*window, report(window[0]))


def shared_out(
    work: Work,
    windows: Iterable[lines.Window | None],
    report: Callable[[int], Report],
    workers: int,
    threads: int | None,
    output: Path | None = None,
) -> Written:
    """The same by ``workers`` processes, in order; at most two windows a process are held at a time.

    Where None comes in place of a window nothing is held: whoever writes the input may be waiting. ``threads`` (None:
    the processors) are divided among them. Raises :class:`RunError` where a process dies, which says what that means
    for the ``output`` (None: standard output).
    """
    own = max(1, (threads or os.cpu_count() or 1) // workers)
    context = multiprocessing.get_context("spawn")  # a fork of a process that has run torch may hang
    with ending.kept_from_children():
        resource_tracker.ensure_running()  # a process of multiprocessing's own, else started with the first worker
    pool = ProcessPoolExecutor(workers, context, _prepare, (own, common.logger.level, os.getpid()))
    others, processes = set(multiprocessing.active_children()), set[BaseProcess]()
    waiting: deque[tuple[lines.Window, Future[list[str]]]] = deque()
    written = 0
    try:
        pool.submit(_load, work).result()  # a model that cannot be used is said before a line is read
        report(0)
        for window in chain(windows, [None]):
            if window is not None:
                waiting.append((window, pool.submit(_lines, work, window)))
                processes.update(multiprocessing.active_children())
            while len(waiting) > (0 if window is None else 2 * workers):
                found = _next(waiting, report)
                written += len(waiting.popleft()[0][1])
                yield found
        pool.shutdown()
    except BrokenProcessPool:
        pool.shutdown()  # ends the others, and then it is known how each has ended
        what = f"a worker process {_end_of(processes - others)}, so {lines.unfinished(output, written)}"
        raise RunError(f"{what}; call the command again, with fewer --workers.") from None
    finally:
        for process in multiprocessing.active_children():
            with contextlib.suppress(OSError):
                process.terminate()
        # Python 3.11 may write to a closed pipe at its end, where the pool's thread ends at the same time.
        pool.shutdown(cancel_futures=True)


def _next(waiting: deque[tuple[lines.Window, Future[list[str]]]], report: Callable[[int], Report]) -> list[str]:
    """The lines of the window that has waited longest."""
    (first, window, _), future = waiting[0]
    done = future.result()
    report(first)(len(window))
    return done


def _end_of(processes: Iterable[BaseProcess]) -> str:
    """How the first of some processes has ended; the pool ends the others by SIGTERM."""
    codes = [process.exitcode for process in processes if process.exitcode]
    code = next((code for code in codes if code != -signal.SIGTERM), -signal.SIGTERM)
    if code == -signal.SIGKILL:
        return "was killed (out of memory?)"
    named = next((other.name for other in signal.Signals if other == -code), "")
    return f"was ended by {named}" if named else f"ended with code {code}"
