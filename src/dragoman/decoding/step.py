"""What a search asks of a model, and what it takes from the answer.

Shapes: R rows (hypotheses being extended), V vocabulary, C candidates.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.errors import RunError

NEVER = float("-inf")


class Step(Protocol):
    """One decoding step, as :meth:`dragoman.model.transformer.Transformer.step` is."""

    def __call__(self, tokens: Tensor, state: Any, parents: Tensor | None = None) -> Tensor:
        """Logits [R,V] for the token after ``tokens`` [R].

        Row i goes on from row ``parents[i]`` of the step before, so that the number of rows may change. At the
        first step there is a row per source, and no parents.
        """


def log_probabilities(logits: Tensor, *, in_place: bool = False) -> Tensor:
    """Natural-log probabilities [R,V] of ``logits`` [R,V], a new tensor in float32 or, of float64 logits, float64.

    A logit may be -inf (a token that never comes). ``in_place``: in the memory of ``logits``, if their type fits and
    they are on the CPU. Raises :class:`RunError` where a logit is NaN or +inf, or where a row holds nothing but -inf.
    """
    result = unchecked_log_probabilities(logits, in_place=in_place)
    # Any of these faults makes the normaliser NaN, and with it the whole row.
    if bool(result[:, 0].isnan().any()):
        raise damaged()
    return result


def unchecked_log_probabilities(logits: Tensor, *, in_place: bool = False) -> Tensor:
    """The same, for who looks for NaN among them himself and raises :func:`damaged`."""
    exact = logits if logits.dtype == torch.float64 else logits.float()
    if in_place and exact.device.type == "cpu" and exact.is_contiguous():
        # Each number is read for the last time right before it is written, so that a row may be its own result.
        return torch.log_softmax(exact, dim=-1, out=exact)
    return torch.log_softmax(exact, dim=-1)


def damaged() -> RunError:
    """The error for logits that nothing can be decoded from."""
    return RunError(
        "the model's output holds NaN or infinite values, so nothing can be decoded; its weights are damaged, or "
        "they overflow in this precision: try fp32."
    )


def best_token(logprobs: Tensor) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The best value of each row [R,V] and its id, the lowest of equal ones; both [R]."""
    if logprobs.device.type == "cpu":
        # numpy finds it in a sixth of the time that torch.max takes.
        numbers = logprobs.numpy()
        tokens = numbers.argmax(1)
        return numbers[np.arange(len(numbers)), tokens].astype(np.float64), tokens
    values, places = logprobs.max(1)
    return values.cpu().numpy().astype(np.float64), places.cpu().numpy()


def best_tokens(logprobs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` best values of each row [R,V] and their ids, best first; of equal ones the lower id comes first.

    Both [R,C] on the CPU, where a search keeps its books, C being at most V; the values in float64.
    """
    if count >= logprobs.shape[1]:
        values, tokens = logprobs.cpu().sort(dim=1, descending=True, stable=True)
        return values.double(), tokens
    # topk promises nothing about equal values. One more than asked for shows whether any were left out.
    values, tokens = (part.cpu() for part in logprobs.topk(count + 1))
    equal = (values[:, 1:] == values[:, :-1]) & values[:, 1:].isfinite()
    if bool(equal.any()):
        split = equal[:, -1].nonzero().flatten()
        for row, full in zip(split.tolist(), logprobs[split.to(logprobs.device)].cpu(), strict=True):
            tied = (full >= values[row, -1]).nonzero().flatten()
            tokens[row] = tied[full[tied].argsort(descending=True, stable=True)[: count + 1]]
        tokens, order = tokens.sort(dim=1)
        values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
        tokens = tokens.gather(1, order)
    return values[:, :count].double(), tokens[:, :count]
