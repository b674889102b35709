"""Character and word error rate, as metrics that sacreBLEU's bootstrap and paired tests take like its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.base import Score as SacreScore

from dragoman import __version__
from dragoman.evaluation.levenshtein import edit_distance


class ErrorRateSignature(Signature):
    """What an error rate was computed with; ``version`` is ours, since sacreBLEU has no error rates."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.update("case", "lc" if args["lowercase"] else "mixed")
        self.update("unit", args["unit"])
        self.update("edit", "levenshtein")
        self.update("version", f"dragoman-{__version__}")


class ErrorRate(Metric):
    """Summed edit distance over summed reference length, in percent: 0 is perfect, and more than 100 is possible.

    Units are Unicode code points, spaces included (``cer``), or words between white space (``wer``); nothing else is
    normalised. Of several references of a sentence the one with the fewest edits counts, the
    shortest of equals. Where all
    references are empty, the rate is 0 without edits and 100 with some, as sacreBLEU does for TER.
    """

    _SIGNATURE_TYPE = ErrorRateSignature

    def __init__(self, unit: Literal["character", "word"], lowercase: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # sacreBLEU leaves it without types
        self.unit = unit
        self.lowercase = lowercase

    def _preprocess_segment(self, sent: str) -> str:
        return sent.lower() if self.lowercase else sent

    def _units(self, sentence: str) -> Sequence[str]:
        return sentence.split() if self.unit == "word" else sentence

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": [self._units(reference) for reference in refs]}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        units = self._units(hypothesis)
        return list(min((edit_distance(units, ref), len(ref)) for ref in ref_kwargs["references"]))

    def _aggregate_and_compute(self, stats: list[list[Any]]) -> SacreScore:
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: Sequence[Any]) -> SacreScore:
        edits, length = float(stats[0]), float(stats[1])
        rate = edits / length if length else float(edits > 0)
        return SacreScore("CER" if self.unit == "character" else "WER", 100.0 * rate)
