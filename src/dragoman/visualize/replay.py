"""A recorded beam search as a page to step through: the tree of hypotheses, their scores, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dragoman.visualize.page import page


class Recorded(Protocol):
    """What is used of :class:`dragoman.decoding.record.SearchRecord`."""

    @property
    def config(self) -> Any:
        """How was searched."""

    @property
    def limit(self) -> int:
        """The most tokens."""

    @property
    def candidates(self) -> Sequence[Any]:
        """All that was looked at."""

    @property
    def standings(self) -> Sequence[Any]:
        """How it stood after each step."""

    @property
    def results(self) -> Sequence[int]:
        """The places of the candidates that the translations end with."""


def replay_page(source: str, text: str, record: Recorded, piece: Callable[[int], str]) -> str:
    """The replay as an HTML document; ``text`` is the translation found, ``piece`` gives the name of a token id."""
    return page(f"Beam search: {source}", ["replay"], "showReplay", replay_data(source, text, record, piece))


def replay_data(
    source: str, text: str, record: Recorded, piece: Callable[[int], str], marked: int | None = None
) -> dict[str, Any]:
    """What ``assets/replay.js`` shows, as JSON values; ``results`` are places among the candidates, best first.

    ``text`` is the translation to look at; ``marked`` the place of the candidate it ends with, None for the best.
    """
    names: dict[int, str] = {}
    for one in record.candidates:
        if one.token not in names:
            names[one.token] = piece(one.token)
    return {
        "source": source,
        "text": text,
        "beam_size": record.config.beam_size,
        "length_norm": record.config.length_norm,
        "length_penalty": record.config.length_penalty,
        "limit": record.limit,
        "candidates": [
            {
                "n": one.n,
                "parent": one.parent,
                "token": names[one.token],
                "rank": one.rank,
                "logprob": round(one.logprob, 6),
                "total": round(one.total, 6),
                "score": round(one.score, 6),
                "fate": one.fate,
            }
            for one in record.candidates
        ],
        "standings": [
            {"n": one.n, "best_ended": _rounded(one.best_ended), "reachable": _rounded(one.reachable)}
            for one in record.standings
        ],
        "results": list(record.results),
        "marked": marked if marked is not None else next(iter(record.results), None),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
