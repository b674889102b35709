"""The best continuations of each sentence's hypotheses, found without sorting the vocabulary.

Shapes: N open sentences, W hypotheses of each, R = N·W rows of a step, V vocabulary, C candidates of a sentence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Up to this many numbers one top-k over all is faster than two over parts of them; measured on a CPU.
_SMALL = 1 << 16
# Tokens of a group: about the root of a large vocabulary, and a multiple of the vector width.
_GROUP = 64


class Candidates(NamedTuple):
    """Continuations by one token, each sentence's best first; a sum of -inf is none."""

    sums: NDArray[np.float64]  # [N,C] log-probabilities of the hypotheses with the token
    rows: NDArray[np.int64]  # [N,C] the rows of this step that they go on from
    tokens: NDArray[np.int64]  # [N,C]
    logprobs: NDArray[np.float64]  # [N,C] of the token alone


def best_candidates(logprobs: Tensor, sums: NDArray[np.float64], count: int) -> Candidates:
    """Each sentence's best ``count`` (or all there are), given its hypotheses' ``sums`` [N,W] and ``logprobs`` [R,V].

    Of equal ones the earlier hypothesis comes first, then the lower id. The sums are float64.
    """
    if logprobs.device.type == "mps":  # which has no float64
        logprobs = logprobs.cpu()
    n, width = sums.shape
    vocabulary = logprobs.shape[1]
    count = min(count, width * vocabulary)
    before = torch.from_numpy(sums).to(logprobs.device).view(n * width, 1)
    # top-k promises nothing about equal values. One more than asked for shows whether any were left out.
    asked = min(count + 1, width * vocabulary)
    if logprobs.numel() <= _SMALL or asked > width * (vocabulary // _GROUP):
        values, places = (logprobs.double() + before).view(n, width * vocabulary).topk(asked)
    else:
        values, places = _best_of_groups(logprobs, before.view(n, width), asked)
    flat, order = places.cpu().numpy(), values.cpu().numpy()
    if bool(((order[:, 1:] == order[:, :-1]) & np.isfinite(order[:, 1:])).any()):
        flat, order = _settled(logprobs, sums, flat, order, count)
    flat, order = flat[:, :count], order[:, :count]
    rows = flat // vocabulary + width * np.arange(n)[:, None]
    tokens = flat % vocabulary
    at = torch.from_numpy(rows * vocabulary + tokens).to(logprobs.device)
    return Candidates(order, rows, tokens, logprobs.reshape(-1)[at].double().cpu().numpy())


def _best_of_groups(logprobs: Tensor, sums: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best values of each sentence and their places among its W·V, both [N,count].

    So many tokens of a row that follow each other are a group, the last one perhaps smaller. The best ``count`` lie in
    the ``count`` groups of the best maxima, or are equal to what lies there.
    """
    n, width = sums.shape
    rows, vocabulary = logprobs.shape
    whole = vocabulary // _GROUP * _GROUP
    maxima = logprobs[:, :whole].view(rows, -1, _GROUP).amax(2)
    if whole < vocabulary:
        maxima = torch.cat([maxima, logprobs[:, whole:].amax(1, keepdim=True)], 1)
    groups = maxima.shape[1]
    best = _largest((maxima.double() + sums.view(rows, 1)).view(n, width * groups), count)
    hypothesis, group = best // groups, best % groups
    tokens = group[:, :, None] * _GROUP + torch.arange(_GROUP, device=logprobs.device)
    inside = tokens < vocabulary
    # What lies behind the last token is never finite, but may be taken where too little is; its place has to exist.
    places = (hypothesis[:, :, None] * vocabulary + tokens) * inside
    offset = width * vocabulary * torch.arange(n, device=logprobs.device)[:, None, None]
    values = logprobs.view(-1)[places + offset].double() + sums.gather(1, hypothesis)[:, :, None]
    values = values.masked_fill_(~inside, float("-inf")).view(n, -1)
    chosen = _largest(values, count)
    values, order = values.gather(1, chosen).sort(1, descending=True)
    return values, places.view(n, -1).gather(1, chosen.gather(1, order))


def _largest(values: Tensor, count: int) -> Tensor:
    """The places of the ``count`` largest in each row of ``values`` [N,·], in any order."""
    if values.device.type == "cpu":
        # numpy finds them in a third of the time that torch.topk takes.
        numbers = values.numpy()
        return torch.from_numpy(np.argpartition(numbers, numbers.shape[1] - count, axis=1)[:, -count:])
    return values.topk(count, sorted=False).indices


def _settled(
    logprobs: Tensor, sums: NDArray[np.float64], flat: NDArray[np.int64], values: NDArray[np.float64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The same candidates in the order of (value, place), the lowest places of those equal to the last one taken."""
    flat, values = flat.copy(), values.copy()
    width = sums.shape[1]
    cut = values[:, count - 1] == values[:, -1] if values.shape[1] > count else np.zeros(len(values), bool)
    for place in cut.nonzero()[0].tolist():
        own = logprobs[place * width : (place + 1) * width].double().cpu().numpy() + sums[place][:, None]
        own = own.reshape(-1)
        tied = (own >= values[place, -1]).nonzero()[0]
        flat[place] = tied[np.argsort(-own[tied], kind="stable")[: flat.shape[1]]]
        values[place] = own[flat[place]]
    order = np.lexsort((flat, -values))
    return np.take_along_axis(flat, order, 1), np.take_along_axis(values, order, 1)
