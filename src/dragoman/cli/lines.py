"""Lines in and lines out: windows of the input, how a translation is written on a line, where the lines go."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dragoman.cli import common
from dragoman.errors import DataError, DragomanError, UsageError

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
    or written.
    """
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


def windows(file: str, prefix: str | None, size: int) -> Iterator[Window]:
    """The number of the first line, ``size`` lines, and their prefixes, again and again."""
    lines = common.read_text(file)
    starts = None if prefix is None else common.read_text(prefix)
    first = 0
    while window := list(islice(lines, size)):
        yield first, window, None if starts is None else list(islice(starts, size))
        first += len(window)


@contextlib.contextmanager
def destination(output: Path | None) -> Iterator[IO[Any]]:
    """Where the lines go, None being standard output; a file takes its place when it is complete, ``.gz`` is packed.

    Raises :class:`DragomanError` at once for a place that cannot be written.
    """
    if output is None and sys.stdout is None:
        raise DragomanError("standard output is closed; open it, or give a file with -o.")
    if output is None:
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
