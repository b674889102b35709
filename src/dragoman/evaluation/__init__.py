"""Scores of translations: strings in, numbers out, each with the signature that says how it was computed."""

from dragoman.evaluation.metrics import METRICS, Score, evaluate
from dragoman.evaluation.significance import Comparison, compare

__all__ = ["METRICS", "Comparison", "Score", "compare", "evaluate"]
