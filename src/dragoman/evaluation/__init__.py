"""Scores of translations: strings in, numbers out, each with the signature that says how it was computed."""

from dragoman.evaluation.alignment import AlignmentScore, GoldLinks, alignment_error_rate
from dragoman.evaluation.metrics import METRICS, Score, evaluate
from dragoman.evaluation.significance import Comparison, compare

__all__ = [
    "METRICS",
    "AlignmentScore",
    "Comparison",
    "GoldLinks",
    "Score",
    "alignment_error_rate",
    "compare",
    "evaluate",
]
