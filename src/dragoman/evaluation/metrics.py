"""BLEU, chrF, TER, CER and WER of a corpus, each beside the signature that says how it was computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from dragoman.errors import DataError, UsageError, nearest

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Signature
    from sacrebleu.significance import Result

METRICS = ("bleu", "chrf", "ter", "cer", "wer")
References = Sequence[str] | Sequence[Sequence[str]]

# Resamples of a bootstrap, as in sacreBLEU's own command; the seed is sacreBLEU's too and stands in the signature.
RESAMPLES = 1000
# A bootstrap holds RESAMPLES x sentences x about 20 numbers of four bytes at once: 1.6 GB here.
RESAMPLED_SENTENCES = 20_000


@dataclass(frozen=True)
class Score:
    """One metric of a corpus. ``value`` is a percentage; of ``ter``, ``cer`` and ``wer`` lower is better.

    ``low`` and ``high`` bound the 95 % interval of bootstrap resampling: the mean of the resamples plus and minus
    half the width of their middle 95 %.
    """

    name: str
    value: float
    signature: str
    low: float | None = None
    high: float | None = None


def evaluate(
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] = ("bleu", "chrf"),
    lowercase: bool = False,
    confidence: bool = False,
) -> list[Score]:
    """Score a corpus; one :class:`Score` for each of ``metrics`` (names from :data:`METRICS`), in their order.

    ``references`` holds one string a hypothesis, or several such lists, each with one string a hypothesis.
    ``lowercase`` scores without case, and the signature says so; the default is cased for all metrics, TER included.
    ``confidence`` adds 95 % intervals. BLEU, chrF and TER are sacreBLEU's with its defaults (BLEU: 13a tokenization).

    Raises :class:`DataError` for empty or unequal lists, or for more than :data:`RESAMPLED_SENTENCES` sentences with
    ``confidence``, and :class:`UsageError` for a metric of another name.
    """
    streams = reference_streams(references, hypotheses)
    if confidence:
        refuse_resampling(len(hypotheses))
    score = _score_with_interval if confidence else _score
    return [score(name, metric, hypotheses, streams) for name, metric in make_metrics(metrics, lowercase).items()]


def _score(name: str, metric: Metric, hypotheses: Sequence[str], streams: list[Sequence[str]]) -> Score:
    result = metric.corpus_score(hypotheses, streams)
    return Score(name, float(result.score), full_signature(result.name, metric.get_signature()))


def _score_with_interval(name: str, metric: Metric, hypotheses: Sequence[str], streams: list[Sequence[str]]) -> Score:
    """sacreBLEU's paired bootstrap of a single system: its score and interval.

    ``corpus_score`` has the same bootstrap, and fails in sacreBLEU 2.6 where the chrF of a resample is zero: it
    averages numbers of two types with :func:`statistics.mean`.
    """
    from sacrebleu.significance import PairedTest

    signatures, results = PairedTest([(name, hypotheses)], {name: metric}, streams, "bs", RESAMPLES)()
    label = next(iter(signatures))
    result = cast("Result", results[label][0])
    mean, half = cast("float", result.mean), cast("float", result.ci)
    low, high = max(0.0, float(mean - half)), float(mean + half)
    return Score(name, float(result.score), full_signature(label, signatures[label]), low, high)


def full_signature(label: str, signature: Signature) -> str:
    """The signature with the metric's name before it, as sacreBLEU prints it."""
    return f"{label}|{signature.format()}"


def make_metrics(names: Sequence[str], lowercase: bool) -> dict[str, Metric]:
    """A sacreBLEU metric for each name, in order, each name once."""
    if isinstance(names, str) or not names:
        raise UsageError(f"metrics should be a list of some of {', '.join(METRICS)}.")
    for name in names:
        if name not in METRICS:
            raise UsageError(
                f'no metric is called "{name}"{nearest(name, list(METRICS))}; there are {", ".join(METRICS)}.'
            )
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    from dragoman.evaluation.error_rates import ErrorRate

    makers: dict[str, Callable[[], Metric]] = {
        "bleu": lambda: BLEU(lowercase=lowercase),
        "chrf": lambda: CHRF(lowercase=lowercase),
        "ter": lambda: TER(case_sensitive=not lowercase),
        "cer": lambda: ErrorRate("character", lowercase),
        "wer": lambda: ErrorRate("word", lowercase),
    }
    return {name: makers[name]() for name in names}


def reference_streams(
    references: References, hypotheses: Sequence[str], what: str = "hypotheses"
) -> list[Sequence[str]]:
    """``references`` as a list of lists, each as long as ``hypotheses``; :class:`DataError` where they are not."""
    if isinstance(references, str) or isinstance(hypotheses, str):
        raise DataError("hypotheses and references should be lists of sentences, not one string.")
    if not hypotheses or not references:
        raise DataError(
            f"nothing to score: {len(hypotheses)} {what} and {len(references)} references; give some of both."
        )
    several = not isinstance(references[0], str)
    streams = list(references) if several else [cast("Sequence[str]", references)]
    for stream in streams:
        if isinstance(stream, str):
            raise DataError("references mix strings and lists; give one list of strings, or a list of such lists.")
        if len(stream) != len(hypotheses):
            raise DataError(f"{len(hypotheses)} {what} but {len(stream)} references; give one reference for each.")
    return streams


def refuse_resampling(sentences: int) -> None:
    """Raise :class:`DataError` for a corpus whose resampling would not fit into memory."""
    if sentences > RESAMPLED_SENTENCES:
        raise DataError(
            f"resampling takes at most {RESAMPLED_SENTENCES:,} sentences and there are {sentences:,}; score a part of "
            "them, or leave out confidence and baseline."
        )
