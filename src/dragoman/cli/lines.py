"""Lines in and lines out: windows of the input, how a translation is written on a line, where the lines go."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dragoman.cli import common
from dragoman.cli.arriving import Arriving, has_to_be_waited_for
from dragoman.errors import DataError, DragomanError, UsageError
from dragoman.text.sentences import split_sentences

if TYPE_CHECKING:
    from dragoman.translation import Translation

Window = tuple[int, list[str], list[str] | None]


def one_line(text: str) -> str:
    """A translation that cannot break the output's lines: a line feed becomes a space."""
    return text.replace("\r\n", " ").replace("\n", " ")


def as_text(number: int, found: Translation, links: str | None = None) -> str:
    """The text, and behind a tab the word alignment where that was asked for."""
    return one_line(found.text) + ("" if links is None else f"\t{links}")


def as_scored(number: int, found: Translation, links: str | None = None) -> str:
    """The score and a tab before the text."""
    return f"{found.score:.6f}\t{as_text(number, found, links)}"


def as_list(number: int, found: Translation, links: str | None = None) -> str:
    """A line for each translation, as Moses writes them."""
    every = (found, *found.alternatives)
    return "\n".join(f"{number} ||| {one_line(one.text)} ||| {one.score:.6f}" for one in every)


def as_json(number: int, found: Translation, links: str | None = None) -> str:
    """Every field as a JSON object."""
    fields = found.fields() if links is None else {**found.fields(), "alignment": links}
    return json.dumps(fields, ensure_ascii=False)


def _is_stream(path: Path) -> bool:
    """Whether there is something that can be read or written once only: a pipe, a terminal, /dev/null."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_input(file: str, prefix: str | None) -> int:
    """The lines of the input, 0 where they cannot be counted first.

    Raises :class:`DataError` for what cannot be read, and for prefixes of another number, before anything is loaded
    or written; :class:`UsageError` for no name at all.
    """
    if not file:
        raise UsageError("the name of the text is empty; give a file, or - for standard input.")
    lines = _count(file)
    if prefix is None:
        return lines or 0
    prefixes = _count(prefix)
    if lines is None or prefixes is None:
        raise UsageError("--prefix needs the text and the prefixes in files, so that the lines can be counted first.")
    if prefixes != lines:
        raise DataError(
            f"{file} has {lines:,} lines and {prefix} has {prefixes:,}; give files that belong line to line."
        )
    return lines


def _count(file: str) -> int | None:
    return None if file == "-" or _is_stream(Path(file)) else sum(1 for _ in common.read_text(file))


def is_typed(file: str) -> bool:
    """Whether a person types the lines."""
    return file == "-" and sys.stdin is not None and sys.stdin.isatty()


def windows(file: str, prefix: str | None, size: int) -> Iterator[Window | None]:
    """The number of the first line, ``size`` lines, and their prefixes, again and again.

    Of what somebody writes while it is read (a pipe), a window holds fewer lines where no more are coming, and None
    behind it says so: whoever writes may be waiting for the translations. The lines before one that cannot be read
    still come, with None behind them, before the error does.
    """
    starts = None if prefix is None else common.read_text(prefix)
    first = 0
    with _opened(file) as (lines, pipe):
        fault: DragomanError | None = None
        while fault is None:
            window, fault = _gathered(islice(lines if pipe is None else pipe.together(lines), size))
            if window:
                yield first, window, None if starts is None else list(islice(starts, size))
                first += len(window)
            elif fault is None:
                return
            if fault is not None or (pipe is not None and pipe.is_silent()):
                yield None
        raise fault


def _gathered(lines: Iterable[str]) -> tuple[list[str], DragomanError | None]:
    """The lines, or those before the first that cannot be read and what is wrong with it."""
    window: list[str] = []
    try:
        window.extend(lines)
    except DragomanError as error:
        return window, error
    return window, None


class Several:
    """Counts the lines that hold several sentences, which a translation of whole lines does not show."""

    def __init__(self) -> None:
        self.count = 0

    def counted(self, windows: Iterable[Window | None]) -> Iterator[Window | None]:
        """The same windows, their lines counted as they pass."""
        for window in windows:
            if window is not None:
                self.count += sum(len(split_sentences(line)) > 1 for line in window[1])
            yield window

    def notice(self, can_split: bool) -> str:
        """What there is to say at the end; ``can_split``: whether the other options would allow --split-sentences."""
        hold, were = ("line holds", "was") if self.count == 1 else ("lines hold", "were")
        advice = "--split-sentences translates" if can_split else "split them first to translate"
        return f"{self.count:,} {hold} several sentences and {were} translated whole; {advice} sentence by sentence."


@contextlib.contextmanager
def _opened(file: str) -> Iterator[tuple[Iterator[str], Arriving | None]]:
    """The lines of a file, and what they arrive by: None but for a pipe of plain text. A person types line by line."""
    from dragoman.text.readers import decode_lines, open_binary

    if file == "-" and sys.stdin is not None and not is_typed(file) and has_to_be_waited_for(sys.stdin.buffer):
        pipe = Arriving(sys.stdin.buffer)
        yield decode_lines(pipe, common.STANDARD_INPUT), pipe
    elif file != "-" and _is_stream(Path(file)):
        with open_binary(file) as stream:
            named = Arriving(stream, stream.read1()) if has_to_be_waited_for(stream) else None
            yield decode_lines(stream if named is None else named, file), named
    else:
        yield common.read_text(file), None


@contextlib.contextmanager
def destination(output: Path | None) -> Iterator[IO[Any]]:
    """Where the lines go, None or ``-`` being standard output; a file takes its place when complete, ``.gz`` is packed.

    Raises :class:`DragomanError` at once for a place that cannot be written.
    """
    if _is_stdout(output) and sys.stdout is None:
        raise DragomanError("standard output is closed; open it, or give a file with -o.")
    if output is None or _is_stdout(output):
        yield sys.stdout
    elif output.is_dir():
        raise DragomanError(f"cannot write {output}: it is a folder; give a file in it.")
    else:
        from dragoman.files import atomic_file

        with (
            output.open("wb") if _is_stream(output) else atomic_file(output, "wb") as raw,
            _packed(raw) if output.suffix.lower() == ".gz" else _plain(raw) as stream,
        ):
            yield stream


def unfinished(output: Path | None, written: int) -> str:
    """What has become of the output of a run that ends after so many of its lines."""
    if output is not None and not _is_stdout(output) and not _is_stream(output):
        return f"{output} {'is as it was' if output.exists() else 'is not written'}"
    return f"the output ends after line {written:,} of the input" if written else "nothing is written"


def _is_stdout(output: Path | None) -> bool:
    return output is None or str(output) == "-"


@contextlib.contextmanager
def _plain(raw: IO[bytes]) -> Iterator[IO[str]]:
    """Text that goes into ``raw`` as it is."""
    stream = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
    yield stream
    stream.detach()


@contextlib.contextmanager
def _packed(raw: IO[bytes]) -> Iterator[IO[str]]:
    """Text that goes into ``raw`` as gzip; without name and time in it, the same text makes the same bytes."""
    with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed, _plain(packed) as stream:  # type: ignore[arg-type]  # a binary file
        yield stream
