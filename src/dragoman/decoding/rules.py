"""What may not come next: rules that take log-probabilities away before a search or a draw looks at them.

Shapes: R rows (hypotheses), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.errors import DataError

_NEVER = float("-inf")


def log_probabilities(logits: Tensor) -> Tensor:
    """Natural log-probabilities [R,V] in float32 at least. Raises :class:`DataError` where a logit is not finite."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    result = torch.log_softmax(logits, dim=-1)
    if bool(torch.isnan(result[:, 0]).any()):  # one bad logit makes its whole row NaN
        raise DataError(
            "the model gives logits that are not numbers; its weights are damaged or overflow in this precision."
        )
    return result


def check_prefixes(prefixes: Sequence[Sequence[int]], limits: Sequence[int], eos_id: int) -> None:
    """Raises :class:`DataError` for a forced prefix that holds ``</s>`` or leaves no room under its limit."""
    for index, (prefix, limit) in enumerate(zip(prefixes, limits, strict=True)):
        if eos_id in prefix:
            raise DataError(f"the target prefix of sentence {index + 1} holds the end token; leave it out.")
        if len(prefix) >= limit:
            raise DataError(
                f"the target prefix of sentence {index + 1} has {len(prefix)} tokens, and at most {limit} may be "
                "produced in all; raise max_length."
            )


class Rules:
    """The rules of one search; ``apply`` is called once a step with the tokens of each row so far."""

    def __init__(
        self, config: DecodeConfig, eos_id: int, forbidden: Sequence[int], prefixes: Sequence[Sequence[int]]
    ) -> None:
        self.min_length = config.min_length
        self.ngram = config.no_repeat_ngram
        self.eos_id = eos_id
        self.forbidden = sorted(set(forbidden))
        self.prefixes = prefixes

    def apply(self, scores: Tensor, history: Tensor, sources: Sequence[int]) -> Tensor:
        """``scores`` [R,V] with what is ruled out at -inf, for rows with ``history`` [R,n] of their sources.

        A forced token is never ruled out: while a prefix lasts, it alone stays.
        """
        length = history.shape[1]
        scores = scores.clone()
        kept = {
            row: (token, scores[row, token].clone())
            for row, source in enumerate(sources)
            if length < len(self.prefixes[source])
            for token in (self.prefixes[source][length],)
        }
        if self.forbidden:
            scores[:, self.forbidden] = _NEVER
        if length < self.min_length:
            scores[:, self.eos_id] = _NEVER
        if self.ngram:
            self._no_repeats(scores, history)
        for row, (token, value) in kept.items():
            scores[row] = _NEVER
            scores[row, token] = value
        return scores

    def _no_repeats(self, scores: Tensor, history: Tensor) -> None:
        """Rule out the tokens that would complete an n-gram which a row already holds."""
        context = self.ngram - 1
        for row, tokens in enumerate(history.tolist()):
            last = tokens[len(tokens) - context :]
            for start in range(len(tokens) - context):
                if tokens[start : start + context] == last:
                    scores[row, tokens[start + context]] = _NEVER
