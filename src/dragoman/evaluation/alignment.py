"""Word alignments against ones made by hand: the alignment error rate.

A link is ``(source word, target word)``, both counted from 0 among the words between white space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.errors import DataError

_LINK = re.compile(r"(\d+)([-?])(\d+)", re.ASCII)


@dataclass(frozen=True)
class GoldLinks:
    """The links of one sentence that annotators are sure of, and those they allow; the sure ones are allowed too."""

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    @classmethod
    def parse(cls, text: str) -> GoldLinks:
        """Read ``0-0 1?2``: a link of word 0 with word 0 that is sure, one of 1 with 2 that is possible.

        Raises :class:`DataError` for what is no link.
        """
        sure, possible = set(), set()
        for word in text.split():
            match = _LINK.fullmatch(word)
            if match is None:
                raise DataError(f'"{word}" is no link; write i-j for a sure one and i?j for a possible one.')
            link = int(match[1]), int(match[3])
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        return cls(frozenset(sure), frozenset(possible))


@dataclass(frozen=True)
class AlignmentScore:
    """In percent, over all sentences: ``error_rate`` 0 is perfect."""

    error_rate: float
    precision: float
    recall: float


def alignment_error_rate(found: Sequence[Sequence[tuple[int, int]]], gold: Sequence[GoldLinks]) -> AlignmentScore:
    """Score the links of each sentence against its gold ones, A the found links, S the sure and P the possible ones.

    Precision ``|A ∩ P| / |A|``, recall ``|A ∩ S| / |S|``, error rate ``1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)``, all
    counts summed over the sentences (Och and Ney 2003, section 6). Where nothing is found and nothing sure, nothing is
    wrong. Raises :class:`DataError` for lists of unequal length.
    """
    if len(found) != len(gold):
        raise DataError(f"{len(found)} alignments but {len(gold)} gold ones; give one for each sentence.")
    links = [set(one) for one in found]
    n_found = sum(len(one) for one in links)
    n_sure = sum(len(one.sure) for one in gold)
    in_sure = sum(len(one & own.sure) for one, own in zip(links, gold, strict=True))
    in_possible = sum(len(one & own.possible) for one, own in zip(links, gold, strict=True))
    agreement = (in_sure + in_possible) / (n_found + n_sure) if n_found + n_sure else 1.0
    precision = in_possible / n_found if n_found else 1.0
    recall = in_sure / n_sure if n_sure else 1.0
    return AlignmentScore(100.0 * (1.0 - agreement), 100.0 * precision, 100.0 * recall)
