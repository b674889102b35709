"""``dragoman translate``: lines in, lines out."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import common
from dragoman.errors import DataError, UsageError

if TYPE_CHECKING:
    from dragoman.translation import Translation

# Lines read, sorted by length and translated together; memory holds no more of the input.
WINDOW = 2000


def translate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, such as runs/demo/best.")],
    file: Annotated[str, typer.Argument(metavar="[FILE|-]", help="Text, a sentence a line, plain or .gz.")] = "-",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Exponent A of the length norm.")] = None,
    n_best: Annotated[int | None, typer.Option(min=1, help="Translations a line: N output lines for each.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Source tokens of a batch, padding included.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw at random in place of searching.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of the drawing: below 1 is more careful.")] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Draw from the K likeliest tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens that reach P.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the drawing; line k draws from (seed, k).")] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Most target tokens.")] = None,
    prefix: Annotated[str | None, typer.Option(metavar="FILE", help="Target text that line k must begin with.")] = None,
    split_sentences: Annotated[
        bool, typer.Option("--split-sentences", help="Lines hold several sentences: translate each by itself.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads. Default: all processors.")] = None,
    precision: Annotated[str, typer.Option(metavar="fp32|bf16", help="Type of the weights.")] = "fp32",
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda|mps", help="Where to compute.")] = "auto",
    scores: Annotated[bool, typer.Option("--scores", help="The score and a tab before each translation.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A JSON object a line, with every field.")] = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Translate text line by line: one output line for each input line, in order, whatever the line holds.

    An empty line stays empty. Input of any size is read in constant memory and written as it is translated.

    \b
    Example:
      echo "The old man reads a book." | dragoman translate runs/demo/best
      dragoman translate runs/demo/best test.en -o test.de --beam-size 8
    """
    if split_sentences and (jsonl or scores or prefix or (n_best or 1) > 1):
        raise UsageError("--split-sentences gives text alone; leave out --jsonl, --scores, --prefix and --n-best.")
    if jsonl and scores:
        raise UsageError("--jsonl already holds the scores; leave out --scores.")
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
        "batch_tokens": batch_tokens,
    }
    options = {name: value for name, value in named.items() if value is not None}
    drawing = [name for name in ("temperature", "top_k", "top_p", "seed") if name in options]
    if drawing and not sample:
        raise UsageError(f"--{drawing[0].replace('_', '-')} is for drawing; add --sample.")
    common.prepare_runtime(threads)
    _check_input(file, prefix)
    from dragoman.translator import Translator

    translator = Translator.load(model, device, precision)
    printer = _Printer(jsonl, scores)
    with _destination(output) as stream:
        started, count = time.monotonic(), 0
        with common.Progress("translating", _line_count(file)) as progress:
            for first, lines, prefixes in _windows(file, prefix):
                if split_sentences:
                    texts = [translator.translate_document(line, first_line=first, **options) for line in lines]
                    stream.write("".join(_one_line(text) + "\n" for text in texts))
                else:
                    found = translator.translate(lines, prefix=prefixes, first_line=first, **options)
                    stream.write("".join(map(printer, found)))
                stream.flush()
                count += len(lines)
                progress.update(count, f"{count / (time.monotonic() - started):.1f} sentences/s")


class _Printer:
    """One translation as output lines."""

    def __init__(self, jsonl: bool, scores: bool) -> None:
        self.jsonl = jsonl
        self.scores = scores

    def __call__(self, found: Translation) -> str:
        if self.jsonl:
            return json.dumps(found.fields(), ensure_ascii=False) + "\n"
        lines = []
        for one in (found, *found.alternatives):
            score = f"{one.score:.6f}\t" if self.scores else ""
            lines.append(f"{score}{_one_line(one.text)}\n")
        return "".join(lines)


def _one_line(text: str) -> str:
    """A translation that cannot break the output's lines."""
    return text.replace("\r\n", " ").replace("\n", " ")


def _check_input(file: str, prefix: str | None) -> None:
    """Refuse what cannot be read, and prefixes of another number, before anything is loaded or written."""
    if file == "-":
        if prefix is not None:
            raise UsageError("--prefix needs the text in a file, so that the lines can be counted first.")
        return
    lines = sum(1 for _ in common.read_text(file))
    if prefix is not None:
        prefixes = sum(1 for _ in common.read_text(prefix))
        if prefixes != lines:
            raise DataError(f"{file} has {lines} lines and {prefix} has {prefixes}; they need the same number.")


def _line_count(file: str) -> int:
    return 0 if file == "-" else sum(1 for _ in common.read_text(file))


def _windows(file: str, prefix: str | None) -> Iterator[tuple[int, list[str], list[str] | None]]:
    """The number of the first line, the lines, and their prefixes, a window at a time."""
    lines = common.read_text(file)
    starts = None if prefix is None else common.read_text(prefix)
    first = 0
    # A person at a terminal or a pipe sees each line at once; a file is read in windows.
    size = 1 if file == "-" and sys.stdin.isatty() else WINDOW
    while window := list(islice(lines, size)):
        yield first, window, None if starts is None else list(islice(starts, size))
        first += len(window)


@contextlib.contextmanager
def _destination(output: Path | None) -> Iterator[IO[Any]]:
    if output is None:
        yield sys.stdout
        return
    from dragoman.files import atomic_file

    with atomic_file(output) as stream:
        yield stream
