"""What the rows of a search hold: each token a link to the row of the step before that it goes on from.

Shapes: R rows of a step, n tokens so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Values = NDArray[np.float64]


class Trail:
    """The tokens of every row of every step, with their log-probabilities.

    A step adds three numbers a row, whatever has come before; the tokens of a row are read backwards.
    """

    def __init__(self, rows: int) -> None:
        """``rows`` without a token."""
        self.rows = rows
        self._links: list[tuple[Ids, Ids, Values]] = []

    @property
    def length(self) -> int:
        """Tokens so far, n."""
        return len(self._links)

    def append(self, parents: Ids, tokens: Ids, logprobs: Values) -> None:
        """The rows of a new step: row i goes on from row ``parents[i]`` with ``tokens[i]``; all [R]."""
        self._links.append((parents, tokens, logprobs))
        self.rows = len(tokens)

    def back(self, row: int, n: int) -> tuple[list[int], list[float]]:
        """The tokens and log-probabilities of ``row`` as it was after ``n`` tokens."""
        tokens, logprobs = [], []
        for parents, token, logprob in reversed(self._links[:n]):
            tokens.append(int(token[row]))
            logprobs.append(float(logprob[row]))
            row = int(parents[row])
        return tokens[::-1], logprobs[::-1]

    def history(self, rows: Any = None) -> Ids:
        """The tokens of the last step's rows, or of some of them, [R,n]."""
        at = np.arange(self.rows) if rows is None else np.asarray(rows, np.int64)
        found = np.empty((len(at), self.length), np.int64)
        for n in range(self.length - 1, -1, -1):
            parents, tokens, _ = self._links[n]
            found[:, n] = tokens[at]
            at = parents[at]
        return found
