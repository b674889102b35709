"""The edit distance of two sequences, fast in plain Python."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The fewest insertions, deletions and substitutions that turn ``a`` into ``b`` (Levenshtein 1966).

    One column of the table of distances is held as the bits of two integers, +1 and -1 steps down the column,
    and a column follows from the one before in a few operations on whole integers (Myers 1999; in the form of
    Hyyrö 2003, "A bit-vector algorithm for computing Levenshtein and Damerau edit distances").
    """
    if not a or not b:
        return max(len(a), len(b))
    where: dict[Hashable, int] = {}  # bit i of where[x]: a[i] is x
    for i, item in enumerate(a):
        where[item] = where.get(item, 0) | 1 << i
    every = (1 << len(a)) - 1
    last = 1 << (len(a) - 1)
    up, down = every, 0  # the column before b: 0, 1, 2, ...
    distance = len(a)
    for item in b:
        match = where.get(item, 0)
        diagonal = (((match & up) + up) ^ up) | match | down
        right_up = down | (every & ~(diagonal | up))
        right_down = up & diagonal
        if right_up & last:
            distance += 1
        elif right_down & last:
            distance -= 1
        right_up = (right_up << 1 | 1) & every  # the row above a: every step right costs one
        right_down = right_down << 1 & every
        up = right_down | (every & ~(diagonal | right_up))
        down = right_up & diagonal
    return distance
