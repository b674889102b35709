"""Where a run stands, and what happened since its last record."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dragoman.text.batching import Position


@dataclass
class Progress:
    """Where a run stands; everything here is in the checkpoint, so that a resumed run goes on exactly.

    ``epoch_size`` are the pairs of the last whole epoch, None before its end; ``dropped`` those left out of a streamed
    one.
    """

    step: int = 0
    position: Position = field(default_factory=lambda: Position(0, 0, 0))
    epoch_pairs: int = 0
    epoch_size: int | None = None
    dropped: int = 0
    elapsed: float = 0.0
    best: float | None = None
    best_step: int = 0
    stale: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0


@dataclass
class Tally:
    """Sums since the last record of the training; ``loss`` and ``nll`` of this rank's batches, the others of all."""

    loss: float = 0.0
    nll: float = 0.0
    tgt_tokens: int = 0
    tokens: int = 0
    gradient_norm: float = 0.0
    updates: int = 0
    since: float = field(default_factory=time.perf_counter)
