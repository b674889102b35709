"""``dragoman translate``: lines in, lines out."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import common
from dragoman.errors import DataError, DragomanError, UsageError

if TYPE_CHECKING:
    from dragoman.translation import Translation

# Lines read, sorted by length and translated together; memory holds no more of the input.
WINDOW = 2000


def translate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, such as runs/demo/best.")],
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Text, a sentence a line, plain or .gz.")] = "-",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Exponent A of the length norm.")] = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Up to N translations of each line, as INDEX ||| TEXT ||| SCORE.")
    ] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Source tokens of a batch, padding included.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw at random in place of searching.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of the drawing: below 1 is more careful.")] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Draw from the K likeliest tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens that reach P.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the drawing; line k draws from (seed, k).")] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Most target tokens.")] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="FILE", help="Line k is what the translation of line k has to begin with.")
    ] = None,
    split_sentences: Annotated[
        bool, typer.Option("--split-sentences", help="Lines hold several sentences: translate each by itself.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads. Default: all processors.")] = None,
    precision: Annotated[str, typer.Option(metavar="fp32|bf16", help="Type of the weights.")] = "fp32",
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda|mps", help="Where to compute.")] = "auto",
    scores: Annotated[bool, typer.Option("--scores", help="The score and a tab before each translation.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A JSON object a line, with every field.")] = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Translate text line by line: one output line for each input line, in order, whatever the line holds.

    An empty line stays empty. Input of any size is read in constant memory and written as it is translated. With
    --n-best 2 or more the output is a list, as Moses writes it: INDEX counts the input lines from 0.

    \b
    Example:
      echo "The old man reads a book." | dragoman translate runs/demo/best
      dragoman translate runs/demo/best test.en -o test.de --beam-size 8
    """
    named: dict[str, Any] = {
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "n_best": n_best,
        "sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "max_length": max_length,
    }
    options = {name: value for name, value in named.items() if value is not None}
    if split_sentences and (jsonl or scores or prefix is not None or (n_best or 1) > 1):
        raise UsageError("--split-sentences gives text alone; leave out --jsonl, --scores, --prefix and --n-best.")
    for name in ("temperature", "top_k", "top_p", "seed"):
        if name in options and not sample:
            raise UsageError(f"--{name.replace('_', '-')} is for drawing; add --sample.")
    total = _check_input(file, prefix)
    common.prepare_runtime(threads)
    with destination(output) as stream, _progress(file, output, total) as report:
        from dragoman.translator import BATCH_TOKENS, Translator

        translator = Translator.load(model, device, precision)
        several = translator.decode_config(**options).n_best > 1
        show = _as_json if jsonl else _as_list if several else _as_scored if scores else _as_text
        options["batch_tokens"] = batch_tokens or BATCH_TOKENS
        for first, lines, prefixes in _windows(file, prefix):
            window = {**options, "line_numbers": range(first, first + len(lines)), "report": report(first)}
            if split_sentences:
                stream.writelines(one_line(text) + "\n" for text in translator.translate_document(lines, **window))
            else:
                found = translator.translate(lines, prefix=prefixes, **window)
                stream.writelines(show(number, one) + "\n" for number, one in enumerate(found, first))
            stream.flush()


def one_line(text: str) -> str:
    """A translation that cannot break the output's lines: a line feed becomes a space."""
    return text.replace("\r\n", " ").replace("\n", " ")


def _as_text(number: int, found: Translation) -> str:
    return one_line(found.text)


def _as_scored(number: int, found: Translation) -> str:
    return f"{found.score:.6f}\t{one_line(found.text)}"


def _as_list(number: int, found: Translation) -> str:
    every = (found, *found.alternatives)
    return "\n".join(f"{number} ||| {one_line(one.text)} ||| {one.score:.6f}" for one in every)


def _as_json(number: int, found: Translation) -> str:
    return json.dumps(found.fields(), ensure_ascii=False)


def _is_stream(path: Path) -> bool:
    """Whether there is something that can be read or written once only: a pipe, a terminal, /dev/null."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _check_input(file: str, prefix: str | None) -> int:
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


def _is_typed(file: str) -> bool:
    """Whether a person types the lines."""
    return file == "-" and sys.stdin.isatty()


def _windows(file: str, prefix: str | None) -> Iterator[tuple[int, list[str], list[str] | None]]:
    """The number of the first line, the lines, and their prefixes, a window at a time."""
    lines = common.read_text(file)
    starts = None if prefix is None else common.read_text(prefix)
    first = 0
    size = 1 if _is_typed(file) else WINDOW
    while window := list(islice(lines, size)):
        yield first, window, None if starts is None else list(islice(starts, size))
        first += len(window)


@contextlib.contextmanager
def _progress(file: str, output: Path | None, total: int) -> Iterator[Callable[[int], Callable[[int], None]]]:
    """What makes, for a window that begins at some line, the function that takes its lines done."""
    progress = common.Progress("translating", total)
    # On one terminal a bar would write into the translations; they show how far it is themselves.
    hidden = _is_typed(file) or (output is None and sys.stdout.isatty())
    started: list[float] = []

    def of_window(first: int) -> Callable[[int], None]:
        # The clock starts with the first window, when the model has been loaded.
        started.append(time.monotonic())

        def report(done: int) -> None:
            done += first
            progress.update(done, f"{done / (time.monotonic() - started[0]):.1f} sentences/s")

        return (lambda done: None) if hidden else report

    with contextlib.nullcontext() if hidden else progress:
        yield of_window


@contextlib.contextmanager
def destination(output: Path | None) -> Iterator[IO[Any]]:
    """Where the lines go, None being standard output; a file takes its place when it is complete.

    Raises :class:`DragomanError` at once for a place that cannot be written.
    """
    if output is None:
        yield sys.stdout
    elif output.is_dir():
        raise DragomanError(f"cannot write {output}: it is a folder; give a file in it.")
    elif _is_stream(output):
        with output.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
    else:
        from dragoman.files import atomic_file

        with atomic_file(output) as stream:
            yield stream
