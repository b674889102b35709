"""``dragoman evaluate``: translate a test set and score the translations."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dragoman.cli import common
from dragoman.cli.lines import destination, one_line
from dragoman.cli.translate import WINDOW
from dragoman.errors import DataError, UsageError

if TYPE_CHECKING:
    from dragoman.translator import Translator


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, such as runs/demo/best.")],
    src: Annotated[str, typer.Option("--src", metavar="FILE", help="Source sentences, one a line, plain or .gz.")],
    ref: Annotated[list[str], typer.Option("--ref", metavar="FILE", help="References; repeat it for several of each.")],
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="NAMES", help="Some of bleu,chrf,ter,cer,wer.")
    ] = "bleu,chrf",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Score without case.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Keep the translations here; .gz: packed.")
    ] = None,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Exponent A of the length norm.")] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Most target tokens.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(min=1, help="Source tokens of a batch, padding included.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads. Default: all processors.")] = None,
    precision: Annotated[str, typer.Option(metavar="fp32|int8|bf16", help="Type of the weights.")] = "fp32",
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda|mps", help="Where to compute.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Every field as JSON.")] = False,
    quiet: common.Quiet = False,
    verbose: common.Verbose = False,
) -> None:
    """Translate a test set and score it, each score with its signature and its 95 % interval.

    The whole set is scored against the raw references: nothing is dropped or tokenised first.

    \b
    Example:
      dragoman evaluate runs/demo/best --src test.en --ref test.de --metrics bleu,chrf,ter
    """
    if output == Path("-"):
        raise UsageError("-o keeps the translations, and standard output has the scores; give a file.")
    common.prepare_runtime(threads)
    sources, references = _read(src, ref)
    from dragoman.cli import scores as show
    from dragoman.evaluation import evaluate as score
    from dragoman.evaluation.metrics import RESAMPLED_SENTENCES, make_metrics

    names = show.metric_names(metrics)
    make_metrics(names, lowercase)  # a wrong name is refused before the work, not after it
    named = {"beam_size": beam_size, "length_penalty": length_penalty, "max_length": max_length}
    options: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    with contextlib.nullcontext() if output is None else destination(output) as stream:
        from dragoman.translator import BATCH_TOKENS, Translator

        options |= {"batch_tokens": batch_tokens or BATCH_TOKENS, "n_best": 1}
        translator = Translator.load(model, device, precision)
        _warn(translator, sources, references[0], lowercase)
        outputs = _translations(translator, sources, options)
        if stream is not None:
            stream.writelines(text + "\n" for text in outputs)
    confidence = len(sources) <= RESAMPLED_SENTENCES
    if not confidence:
        common.logger.info("no intervals: there are more than %d lines.", RESAMPLED_SENTENCES)
    found = score(outputs, references, names, lowercase, confidence)
    if as_json:
        fields = {"sentences": len(sources), "scores": show.score_fields(found)}
        print(json.dumps(fields, indent=2, ensure_ascii=False))
    else:
        print(show.score_table(found))


def _read(src: str, ref: list[str]) -> tuple[list[str], list[list[str]]]:
    """The sources, and the references of each file. Raises :class:`DataError`, :class:`UsageError`."""
    if [src, *ref].count("-") > 1:
        raise UsageError("standard input can be read only once; give - for one of the files.")
    sources = list(common.read_text(src))
    if not sources:
        raise DataError(f"{src} is empty; give a file with one sentence a line.")
    references = [list(common.read_text(path)) for path in ref]
    for path, lines in zip(ref, references, strict=True):
        if len(lines) != len(sources):
            raise DataError(
                f"{src} has {len(sources):,} lines and {path} has {len(lines):,}; give files that belong line to line."
            )
    return sources, references


def _warn(translator: Translator, sources: list[str], references: list[str], lowercase: bool) -> None:
    """What makes scores low for which the model cannot be blamed, said before the work."""
    from dragoman.preflight.direction import is_swapped

    bundle = translator.bundle
    if not lowercase and not bundle.tokenizers.tgt.keeps_case:
        common.logger.warning("this model writes lower case alone; --lowercase scores it without case.")
    if is_swapped(list(zip(sources, references, strict=True)), bundle.src_lang, bundle.tgt_lang):
        common.logger.warning(
            "--src is in %s and --ref in %s, and this model translates from %s to %s; swap the two files.",
            *(bundle.tgt_lang, bundle.src_lang, bundle.src_lang, bundle.tgt_lang),
        )


def _translations(translator: Translator, sources: list[str], options: dict[str, Any]) -> list[str]:
    """The translation of each source on one line, searched for rather than drawn, whatever the model's default."""
    outputs: list[str] = []
    started = time.monotonic()
    with common.Progress("translating", len(sources)) as progress:

        def report(done: int) -> None:
            done += len(outputs)
            progress.update(done, f"{done / (time.monotonic() - started):.1f} sentences/s")

        for first in range(0, len(sources), WINDOW):
            window = sources[first : first + WINDOW]
            found = translator.translate(window, report=report, sample=False, **options)
            outputs += [one_line(one.text) for one in found]
    return outputs
