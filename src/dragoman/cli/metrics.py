"""``dragoman metrics``: score text files."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from dragoman.cli.common import Quiet, Verbose, logger, read_text
from dragoman.errors import DataError, UsageError


def metrics(
    hyp: Annotated[str, typer.Option("--hyp", metavar="FILE|-", help="Translations, one a line; -: standard input.")],
    ref: Annotated[list[str], typer.Option("--ref", metavar="FILE", help="References; repeat it for several of each.")],
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="FILE", help="Other translations: is --hyp different from them?")
    ] = None,
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="NAMES", help="Some of bleu,chrf,ter,cer,wer.")
    ] = "bleu,chrf",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Score without case.")] = False,
    confidence: Annotated[
        bool | None,
        typer.Option("--confidence/--no-confidence", help="95 % intervals by bootstrap. Default: up to 20,000 lines."),
    ] = None,
    test: Annotated[
        str, typer.Option("--test", metavar="ar|bs", help="Against the baseline: randomisation or bootstrap.")
    ] = "ar",
    as_json: Annotated[bool, typer.Option("--json", help="Every field as JSON.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score translations in a text file against references.

    BLEU, chrF and TER are sacreBLEU's; CER and WER are edits over reference length; all in percent, with the
    signature to quote beside them. Files are UTF-8, plain or .gz, one sentence a line.

    \b
    Example:
      dragoman metrics --hyp out.de --ref test.de --baseline old.de --metrics bleu,chrf,ter
    """
    from dragoman.cli import scores as show
    from dragoman.evaluation import compare, evaluate
    from dragoman.evaluation.metrics import RESAMPLED_SENTENCES

    if [hyp, *ref, baseline].count("-") > 1:
        raise UsageError("standard input can be read only once; give - for one of the files.")
    names = show.metric_names(metrics)
    hypotheses = _sentences(hyp)
    references = [_sentences(path, hyp, hypotheses) for path in ref]
    others = None if baseline is None else _sentences(baseline, hyp, hypotheses)
    if confidence is None:
        confidence = len(hypotheses) <= RESAMPLED_SENTENCES
        if not confidence:
            logger.info("no intervals: there are more than %d lines.", RESAMPLED_SENTENCES)
    scores = evaluate(hypotheses, references, names, lowercase, confidence)
    comparisons = None if others is None else compare(hypotheses, others, references, names, lowercase, test)  # type: ignore[arg-type]  # compare refuses other names
    if as_json:
        fields = {"sentences": len(hypotheses), "scores": show.score_fields(scores)}
        if comparisons is not None:
            fields["comparisons"] = show.comparison_fields(comparisons)
        print(json.dumps(fields, indent=2, ensure_ascii=False))
        return
    print(show.score_table(scores))
    if comparisons is not None:
        print(f"\nagainst {baseline}:\n{show.comparison_table(comparisons)}")


def _sentences(path: str, other_path: str = "", others: list[str] | None = None) -> list[str]:
    """The lines of a file; raises :class:`DataError` where it is empty or not as long as ``others``."""
    lines = list(read_text(path))
    if not lines:
        raise DataError(f"{path} is empty; give a file with one sentence a line.")
    if others is not None and len(lines) != len(others):
        raise DataError(
            f"{other_path} has {len(others)} lines and {path} has {len(lines)}; give files that belong line to line."
        )
    return lines
