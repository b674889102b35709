"""The batches of each update, dealt to the ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.text.batching import Batch, Plan, Position, TrainingBatches
from dragoman.training.ranks import Ranks


@dataclass
class Share:
    """This rank's batches of one update, maybe none; ``pairs`` are those of all ranks.

    ``after`` is the position that follows the update, ``epoch_ends`` whether an epoch ends with it.
    """

    batches: list[Batch]
    pairs: int
    after: Position
    epoch_ends: bool


def deal(batches: TrainingBatches, ranks: Ranks, accumulate: int, position: Position) -> Iterator[Share]:
    """The updates from ``position`` on for ever: ``accumulate`` batches for each rank, every batch to one rank.

    All ranks plan the same batches and make their own alone, so that a position means the same for any number of
    ranks. An update never reaches over the end of an epoch: the last one of an epoch may be smaller, and some ranks
    may have no batch in it.
    """
    group: list[Plan] = []
    epoch = position.epoch
    for plan, after in batches.planned(position):
        group.append(plan)
        epoch_ends = after.epoch != epoch
        if epoch_ends or len(group) == accumulate * ranks.size:
            pairs = sum(len(each.indices) for each in group)
            yield Share([batches.batch(each) for each in ranks.own(group)], pairs, after, epoch_ends)
            group, epoch = [], after.epoch
