"""``dragoman translate``: lines in, lines out."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli import common, lines, work
from dragoman.errors import ConfigError, UsageError

# Lines read, sorted by length and translated together; memory holds no more of the input.
WINDOW = 2000
# The same for each of several processes, so that they end at about the same time.
SHARED_WINDOW = 500


def translate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, such as runs/demo/best.")],
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="Text, a sentence a line, plain or .gz.")] = "-",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout; .gz: packed.")
    ] = None,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Exponent A of the length norm.")] = None,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Up to N translations of each line, as INDEX ||| TEXT ||| SCORE.")
    ] = None,
    stop_after: Annotated[
        int | None, typer.Option(min=0, help="End a search once N hypotheses have ended; 0: when none can still win.")
    ] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Source tokens of a batch, padding included.")] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw at random in place of searching.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of the drawing: below 1 is more careful.")] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Draw from the K likeliest tokens only.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens that reach P.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the drawing; line k draws from (seed, k).")] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Most target tokens.")] = None,
    min_length: Annotated[int | None, typer.Option(min=0, help="Target tokens before the end may come.")] = None,
    max_length_ratio: Annotated[float | None, typer.Option(help="Most target tokens per source token.")] = None,
    min_length_ratio: Annotated[float | None, typer.Option(help="Least target tokens per source token.")] = None,
    no_repeat_ngram: Annotated[int | None, typer.Option(min=0, help="No N tokens twice in a row of them.")] = None,
    suppress: Annotated[
        list[str] | None, typer.Option(metavar="TOKEN", help="Never produce it; repeat it for several.")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="FILE", help="Line k is what the translation of line k has to begin with.")
    ] = None,
    terms: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Lines of source term, tab, target phrase that has to appear.")
    ] = None,
    strict_terms: Annotated[
        bool, typer.Option("--strict-terms", help="A term that cannot be met is an error, not a warning.")
    ] = False,
    ensemble: Annotated[
        list[Path] | None, typer.Option(metavar="MODEL", help="Average with this model too; repeat it for several.")
    ] = None,
    split_sentences: Annotated[
        bool, typer.Option("--split-sentences", help="Lines hold several sentences: translate each by itself.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads. Default: all processors.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=1024, help="Processes that share the lines and the threads.")] = 1,
    precision: Annotated[str, typer.Option(metavar="fp32|int8|bf16", help="Type of the weights.")] = "fp32",
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda|mps", help="Where to compute.")] = "auto",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Compile the step of greedy search, line by line; once for a shape.")
    ] = False,
    scores: Annotated[bool, typer.Option("--scores", help="The score and a tab before each translation.")] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="A tab and word links SOURCE-TARGET behind each translation.")
    ] = False,
    alignment_layer: Annotated[
        str | None, typer.Option(metavar="best|mean|N", help="The decoder layer of the links, from 1. Default: best.")
    ] = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="A JSON object a line, with every field.")] = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Translate text line by line: one output line for each input line, in order, whatever the line holds.

    An empty line stays empty. Input of any size is read in constant memory and written as it is translated; from a
    pipe, what is there is translated as soon as no more lines are coming, so that a program can wait for its answer.
    With --n-best 2 or more the output is a list, as Moses writes it: INDEX counts the input lines from 0.
    A line is translated as it is, however many sentences it holds, unless --split-sentences is given; how many lines
    hold several is said at the end.

    \b
    Example:
      echo "The old man reads a book." | dragoman translate runs/demo/best
      dragoman translate runs/demo/best test.en -o test.de --beam-size 8
      dragoman translate runs/demo/best test.en --terms terms.tsv --workers 4
    """
    named: dict[str, Any] = {
        "beam_size": beam_size,
        "length_penalty": length_penalty,
        "n_best": n_best,
        "stop_after": stop_after,
        "sample": sample or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "max_length": max_length,
        "min_length": min_length,
        "max_length_ratio": max_length_ratio,
        "min_length_ratio": min_length_ratio,
        "no_repeat_ngram": no_repeat_ngram,
        "suppress": tuple(suppress) if suppress else None,
        "batch_tokens": batch_tokens,
    }
    options = {name: value for name, value in named.items() if value is not None}
    more_than_text = jsonl or scores or alignments or prefix is not None or (n_best or 1) > 1
    if split_sentences and more_than_text:
        raise UsageError(
            "--split-sentences gives text alone; leave out --jsonl, --scores, --alignments, --prefix and --n-best."
        )
    _check_together(options)
    if sample and terms is not None:
        raise UsageError("--terms need a search, and --sample draws at random; leave one of them out.")
    if strict_terms and terms is None:
        raise UsageError("--strict-terms is about --terms; add a file of them.")
    if alignment_layer is not None and not alignments:
        raise UsageError("--alignment-layer is about --alignments; add that.")
    total = lines.check_input(file, prefix)
    asked = work.Work(
        models=[model, *(ensemble or [])],
        device=device,
        precision=precision,
        options=options,
        terms=None if terms is None else _read_terms(terms),
        strict_terms=strict_terms,
        split_sentences=split_sentences,
        scores=scores,
        alignments=alignments,
        alignment_layer=_layer(alignment_layer),
        jsonl=jsonl,
        compiled=compiled,
    )
    alone = workers == 1 or lines.is_typed(file)
    size = 1 if lines.is_typed(file) else WINDOW if alone else SHARED_WINDOW
    if lines.is_typed(file):
        # Said first, since the libraries and the model take seconds to load.
        common.logger.info("type a sentence a line, and Enter translates it; Ctrl-D ends.")
    common.prepare_runtime(threads if alone else None)
    several = lines.Several()
    output = None if output == Path("-") else output
    with lines.destination(output) as stream, _progress(file, output, total) as report:
        windows = several.counted(lines.windows(file, prefix, size))
        done = work.translated(asked, windows, report)
        if not alone:
            done = work.shared_out(asked, windows, report, workers, threads, output)
        with contextlib.closing(done):
            for written in done:
                stream.writelines(line + "\n" for line in written)
                stream.flush()
    if several.count and not split_sentences:
        common.logger.info("%s", several.notice(can_split=not more_than_text))


def _check_together(options: dict[str, Any]) -> None:
    """Raises :class:`UsageError` for options that a translation refuses whatever the model is, before one is loaded."""
    from dragoman.translating.options import check_together

    try:
        check_together(options)
    except ConfigError as error:
        raise UsageError(*error.args) from None


def _layer(text: str | None) -> Any:
    """What ``--alignment-layer`` says."""
    if text in (None, "best", "mean"):
        return text or "best"
    if not text.isdecimal():
        raise UsageError(f'--alignment-layer is "{text}"; give best, mean or the number of a decoder layer from 1.')
    return int(text)


def _read_terms(path: Path) -> Any:
    from dragoman.translating.terms import Terms

    return Terms.read(path)


@contextlib.contextmanager
def _progress(file: str, output: Path | None, total: int) -> Iterator[Callable[[int], Callable[[int], None]]]:
    """What makes, for a window that begins at some line, the function that takes its lines done."""
    progress = common.Progress("translating", total)
    # On one terminal a bar would write into the translations; they show how far it is themselves.
    hidden = lines.is_typed(file) or (output is None and sys.stdout is not None and sys.stdout.isatty())
    started: list[float] = []

    def of_window(first: int) -> Callable[[int], None]:
        # The clock starts with the first window, when the model has been loaded.
        started.append(time.monotonic())

        def report(done: int) -> None:
            done += first
            passed = max(time.monotonic() - started[0], 1e-9)
            progress.update(done, f"{done / passed:.1f} sentences/s")

        return (lambda done: None) if hidden else report

    with contextlib.nullcontext() if hidden else progress:
        yield of_window
