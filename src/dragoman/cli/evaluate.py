"""``dragoman evaluate``: translate a test set and score the translations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli import common
from dragoman.errors import DataError


def evaluate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory, such as runs/demo/best.")],
    src: Annotated[str, typer.Option("--src", metavar="FILE", help="Source sentences, one a line, plain or .gz.")],
    ref: Annotated[list[str], typer.Option("--ref", metavar="FILE", help="References; repeat it for several of each.")],
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="NAMES", help="Some of bleu,chrf,ter,cer,wer.")
    ] = "bleu,chrf",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Score without case.")] = False,
    beam_size: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept; 1 is greedy.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Exponent A of the length norm.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Keep the translations here.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads. Default: all processors.")] = None,
    precision: Annotated[str, typer.Option(metavar="fp32|bf16", help="Type of the weights.")] = "fp32",
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
    common.prepare_runtime(threads)
    sources = list(common.read_text(src))
    references = [list(common.read_text(path)) for path in ref]
    for path, lines in zip(ref, references, strict=True):
        if len(lines) != len(sources):
            raise DataError(f"{src} has {len(sources)} lines and {path} has {len(lines)}; they need the same number.")
    if not sources:
        raise DataError(f"{src} is empty; give a test set.")
    from dragoman.cli import scores as show
    from dragoman.cli.translate import WINDOW
    from dragoman.evaluation import evaluate as score
    from dragoman.evaluation.metrics import RESAMPLED_SENTENCES, make_metrics
    from dragoman.translator import Translator

    names = show.metric_names(metrics)
    make_metrics(names, lowercase)  # a wrong name is refused before the work, not after it
    translator = Translator.load(model, device, precision)
    given: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    options = {name: value for name, value in given.items() if value is not None}
    outputs: list[str] = []
    with common.Progress("translating", len(sources)) as progress:
        for first in range(0, len(sources), WINDOW):
            outputs += [found.text for found in translator.translate(sources[first : first + WINDOW], **options)]
            progress.update(len(outputs))
    found = score(outputs, references, names, lowercase, confidence=len(sources) <= RESAMPLED_SENTENCES)
    if output is not None:
        from dragoman.files import write_text

        write_text(output, "".join(text.replace("\n", " ") + "\n" for text in outputs))
    print(json.dumps(show.score_fields(found), indent=2) if as_json else show.score_table(found))
