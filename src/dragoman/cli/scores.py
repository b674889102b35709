"""Scores as a table or as JSON, for the commands that compute some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dragoman.evaluation import Comparison, Score


def metric_names(text: str) -> list[str]:
    """The names in ``bleu,chrf``; which are known is for :func:`dragoman.evaluation.evaluate` to say."""
    return [name.strip().lower() for name in text.split(",") if name.strip()]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart; the first and the last are text, those between are numbers and stand to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = []
    for row in (header, *rows):
        numbers = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *numbers, row[-1]]))
    return "\n".join(lines)


def _label(signature: str) -> str:
    return signature.partition("|")[0]


def score_table(scores: Sequence[Score]) -> str:
    """A line a score: name, value, interval where there is one, signature."""
    rows = []
    for score in scores:
        interval = [] if score.low is None or score.high is None else [f"{score.low:.2f} - {score.high:.2f}"]
        rows.append([_label(score.signature), f"{score.value:.2f}", *interval, score.signature])
    header = ["metric", "score", *(["95 % interval"] if len(rows[0]) == 4 else []), "signature"]
    return _table(header, rows)


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """A line a metric: value, baseline, difference, p-value, signature of the test."""
    rows = [
        [
            _label(c.signature),
            f"{c.value:.2f}",
            f"{c.baseline:.2f}",
            f"{c.difference:+.2f}",
            f"{c.p_value:.4f}",
            c.signature,
        ]
        for c in comparisons
    ]
    return _table(["metric", "score", "baseline", "difference", "p", "signature"], rows)


def score_fields(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Every field of each score, for JSON."""
    return [asdict(score) for score in scores]


def comparison_fields(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Every field of each comparison, for JSON."""
    return [{**asdict(comparison), "difference": comparison.difference} for comparison in comparisons]
