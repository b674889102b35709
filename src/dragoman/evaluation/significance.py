"""Is one system better than another? Paired tests of sacreBLEU on the same source sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from dragoman.errors import UsageError
from dragoman.evaluation.metrics import (
    References,
    full_signature,
    make_metrics,
    reference_streams,
    refuse_resampling,
)

if TYPE_CHECKING:
    from sacrebleu.significance import Result

TESTS = {"ar": "paired approximate randomisation", "bs": "paired bootstrap"}


@dataclass(frozen=True)
class Comparison:
    """One metric of a system and of its baseline.

    ``p_value`` is the probability of a larger difference, in either direction, if chance alone told the two apart;
    1 where there is no difference.
    """

    name: str
    value: float
    baseline: float
    p_value: float
    signature: str

    @property
    def difference(self) -> float:
        """System minus baseline; of ``ter``, ``cer`` and ``wer`` a negative one is an improvement."""
        return self.value - self.baseline


def compare(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: References,
    metrics: Sequence[str] = ("bleu", "chrf"),
    lowercase: bool = False,
    test: Literal["ar", "bs"] = "ar",
) -> list[Comparison]:
    """Test each metric's difference between two translations of the same sentences.

    ``test`` is ``"ar"``, approximate randomisation with 10,000 trials (Riezler and Maxwell 2005), or ``"bs"``, the
    bootstrap with 1,000 resamples (Koehn 2004). Both are seeded, and the signature names trials and seed.
    Lists and errors are those of :func:`dragoman.evaluation.evaluate`.
    """
    if test not in TESTS:
        raise UsageError(f'no significance test is called "{test}"; there are {", ".join(TESTS)}.')
    streams = reference_streams(references, hypotheses)
    reference_streams(references, baseline, "baseline translations")
    refuse_resampling(len(hypotheses))
    from sacrebleu.significance import PairedTest

    comparisons = []
    for name, metric in make_metrics(metrics, lowercase).items():
        systems = [("baseline", baseline), ("system", hypotheses)]
        signatures, results = PairedTest(systems, {name: metric}, streams, test_type=test)()
        label = next(iter(signatures))
        of_baseline, of_system = cast("list[Result]", results[label])
        # sacreBLEU counts the strictly larger differences, so that two equal systems would get the smallest p there is.
        p_value = 1.0 if of_system.score == of_baseline.score else cast("float", of_system.p_value)
        signature = full_signature(label, signatures[label])
        comparisons.append(Comparison(name, float(of_system.score), float(of_baseline.score), p_value, signature))
    return comparisons
