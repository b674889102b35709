"""A beam search written down while it runs: every candidate that was looked at, and what became of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from dragoman.config import DecodeConfig
from dragoman.decoding.beam import BeamSearch
from dragoman.decoding.length import best_reachable, length_norm
from dragoman.decoding.search import run
from dragoman.decoding.step import Step

# going: extended in the next step; finished: ended with </s>, or unfinished: ended by the limit, both of which
# compete; pruned: not among the best that go on; late: </s>, but not among the first beam_size, so that it is no end;
# left: would have gone on, had the search not been decided.
Fate = Literal["going", "finished", "unfinished", "pruned", "late", "left"]


@dataclass(frozen=True)
class Candidate:
    """One continuation by a token: the ``n``-th of its hypothesis, after the candidate of the place ``parent``.

    ``parent`` is None at the first token. ``logprob`` is the token's natural-log probability, ``total`` that of all
    tokens so far, ``score`` the total over the length norm; ``rank`` counts from 0 among the step's candidates.
    """

    n: int
    parent: int | None
    token: int
    rank: int
    logprob: float
    total: float
    score: float
    fate: Fate


@dataclass(frozen=True)
class Standing:
    """After ``n`` tokens: the best score that has ended, and the best that an open hypothesis can still reach."""

    n: int
    best_ended: float | None
    reachable: float | None


@dataclass
class SearchRecord:
    """One sentence's search: its candidates in the order they were found, and its ``standings`` after each step.

    ``results`` are the places of the candidates that the returned translations end with, best first.
    """

    config: DecodeConfig
    limit: int
    candidates: list[Candidate] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    @property
    def ended(self) -> list[int]:
        """The places of the candidates that a hypothesis ended with, best first.

        Of equal scores the earlier stays in front, as in the search; what a step finished comes before what it cut off.
        """
        places = [place for place, one in enumerate(self.candidates) if one.fate in ("finished", "unfinished")]
        return sorted(places, key=lambda place: _order(self.candidates[place]))

    def tokens(self, place: int) -> list[int]:
        """The ids of a hypothesis, up to the candidate at ``place``."""
        ids: list[int] = []
        at: int | None = place
        while at is not None:
            ids.append(self.candidates[at].token)
            at = self.candidates[at].parent
        return ids[::-1]


def record_search(
    search: BeamSearch,
    step: Step,
    state: Any,
    config: DecodeConfig,
    *,
    limit: int,
    bos_id: int,
    eos_id: int,
    device: torch.device | str | None = None,
) -> SearchRecord:
    """Run a search over one source to its end and write it down; ``search.results`` are there afterwards."""
    record = SearchRecord(config, limit)
    rows: list[int | None] = [None]
    for _ in run(search, step, state, 1, bos_id, device):
        rows = _note_step(record, search, rows, eos_id)
    if record.standings and record.standings[-1].best_ended is None:
        # The rules left nothing to go on with: what the last step before had ends as it is.
        last = max((one.n for one in record.candidates if one.fate == "going"), default=0)
        record.candidates = [
            replace(one, fate="unfinished") if (one.n, one.fate) == (last, "going") else one
            for one in record.candidates
        ]
    record.results = record.ended[: config.n_best]
    return record


def _order(one: Candidate) -> tuple[float, int, bool]:
    return -one.score, one.n, one.fate == "unfinished"


def _note_step(record: SearchRecord, search: BeamSearch, rows: list[int | None], eos_id: int) -> list[int | None]:
    """Add the candidates of the step just made; returns the place of the candidate that each row now ends with."""
    config, n = record.config, len(record.standings) + 1
    going = set(zip(search.parents.tolist(), search.tokens.tolist(), strict=True)) if search.is_open else set()
    places: dict[tuple[int, int], int] = {}
    found = search.found
    columns = (found.sums[0].tolist(), found.rows[0].tolist(), found.tokens[0].tolist(), found.logprobs[0].tolist())
    kept = 0
    for rank, (total, row, token, logprob) in enumerate(zip(*columns, strict=True)):
        if not math.isfinite(total):
            continue
        is_end = token == eos_id
        survives = not is_end and kept < config.beam_size
        kept += survives
        fate = _fate(is_end, rank < config.beam_size, survives, (row, token) in going, n == record.limit)
        places[row, token] = len(record.candidates)
        score = total / length_norm(config, n)
        record.candidates.append(Candidate(n, rows[row], token, rank, logprob, total, score, fate))
    ended = [one.score for one in record.candidates if one.fate in ("finished", "unfinished")]
    open_totals = [one.total for one in record.candidates if one.n == n and one.fate in ("going", "left")]
    record.standings.append(
        Standing(
            n,
            max(ended, default=None),
            best_reachable(config, max(open_totals), n, record.limit) if open_totals else None,
        )
    )
    return [places.get(key) for key in zip(search.parents.tolist(), search.tokens.tolist(), strict=True)]


def _fate(is_end: bool, is_first: bool, survives: bool, goes_on: bool, at_limit: bool) -> Fate:
    if is_end:
        return "finished" if is_first else "late"
    if goes_on:
        return "going"
    if not survives:
        return "pruned"
    return "unfinished" if at_limit else "left"
