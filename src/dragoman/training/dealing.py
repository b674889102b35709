"""The batches of each update, dealt to the ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dragoman.config import ModelConfig, TrainConfig
from dragoman.errors import DataError, RunError
from dragoman.text.batching import Batch, Plan, Position, TrainingBatches
from dragoman.text.corpus import TokenCorpus
from dragoman.text.stream_batches import Part, PartState, StreamBatches, StreamCorpus, pool_for, summed
from dragoman.training.ranks import Ranks

Batches = TrainingBatches | StreamBatches


def batches_of(
    corpus: TokenCorpus | StreamCorpus, config: ModelConfig, settings: TrainConfig, say: Callable[[str], None]
) -> Batches:
    """The training text in batches; ``say`` is told what is known of a streamed one when its first epoch ends."""
    if isinstance(corpus, StreamCorpus):
        return StreamBatches(corpus, config, settings.batch_tokens, settings.seed, say)
    return TrainingBatches(corpus, config, settings.batch_tokens, settings.seed)


@dataclass
class Share:
    """This rank's batches of one update, maybe none; ``pairs`` are those of all ranks.

    ``after`` is the position that follows the update, ``epoch_ends`` whether an epoch ends with it. ``dropped`` counts
    the pairs of a streamed text that were left out in this epoch, so far as it has been read.
    """

    batches: list[Batch]
    pairs: int
    after: Position
    epoch_ends: bool
    dropped: int = 0


def deal(batches: Batches, ranks: Ranks, accumulate: int, position: Position) -> Iterator[Share]:
    """The updates from ``position`` on for ever: ``accumulate`` batches for each rank, every batch to one rank.

    An update never reaches over the end of an epoch: the last one of an epoch may be smaller, and some ranks may have
    no batch in it.
    """
    if isinstance(batches, StreamBatches):
        return _deal_stream(batches, ranks, accumulate, position)
    return _deal(batches, ranks, accumulate, position)


def _deal(batches: TrainingBatches, ranks: Ranks, accumulate: int, position: Position) -> Iterator[Share]:
    """All ranks plan the same batches and make their own alone: a position means the same for any number of ranks."""
    group: list[Plan] = []
    epoch = position.epoch
    for plan, after in batches.planned(position):
        group.append(plan)
        epoch_ends = after.epoch != epoch
        if epoch_ends or len(group) == accumulate * ranks.size:
            pairs = sum(len(each.indices) for each in group)
            yield Share([batches.batch(each) for each in ranks.own(group)], pairs, after, epoch_ends)
            group, epoch = [], after.epoch


def _deal_stream(batches: StreamBatches, ranks: Ranks, accumulate: int, position: Position) -> Iterator[Share]:
    """Each rank reads parts of its own, and all hear of each other how many pairs there were and whether some are left.

    Of a rank's parts the one that has given the fewest batches comes next. So ``ranks`` together take the same
    batches in one update as one rank with as many times the ``accumulate``, until the first part is at its end.
    """
    while True:
        states = [PartState(**part) for part in position.parts]
        if not states:
            number = batches.parts(ranks.size)
            states = [PartState(part, number) for part in range(number)]
        _check(ranks, len(states))
        own = ranks.own(sorted(states, key=lambda state: state.part))
        with pool_for(len(own)) as pool, contextlib.ExitStack() as stack:
            parts = [
                stack.enter_context(contextlib.closing(batches.part(position.epoch, state, pool))) for state in own
            ]
            yield from _epoch(batches, parts, ranks, accumulate, position.epoch)
        position = Position(position.epoch + 1)


def _epoch(batches: StreamBatches, parts: Sequence[Part], ranks: Ranks, accumulate: int, epoch: int) -> Iterator[Share]:
    """The updates of an epoch, from where its parts are."""
    epoch_ends = False
    while not epoch_ends:
        plans: list[Plan] = []
        while len(plans) < accumulate and (waiting := [part for part in parts if part.is_open]):
            plans.append(min(waiting, key=lambda part: part.given).take())
        counts = summed([part.counts() for part in parts])
        sums = ranks.sum(
            [
                sum(len(plan.indices) for plan in plans),
                sum(part.is_open for part in parts),
                counts.kept,
                counts.empty,
                counts.too_long,
                counts.over_ratio,
            ]
        )
        pairs, still_open, *known = map(int, sums)
        counts = type(counts)(*known)
        if not pairs:
            error = DataError(
                f"no training pair is left of {counts.total:,} read; check data.train and data.max_length."
            )
            raise ranks.error(error)
        epoch_ends = not still_open
        if epoch_ends and epoch == 0:
            batches.say(f"the first epoch is over:\n{counts.table()}")
        after = Position(epoch + 1) if epoch_ends else Position(epoch, parts=[part.state() for part in parts])
        yield Share([batches.batch(plan) for plan in plans], pairs, after, epoch_ends, counts.dropped)


def _check(ranks: Ranks, parts: int) -> None:
    """Refuse a number of ranks that cannot share out the parts evenly."""
    if parts % ranks.size:
        error = RunError(
            f"the streamed text is read in {parts} part{'s' * (parts > 1)}, which {ranks.size} processes cannot share "
            f"evenly; start a number of processes that divides it, or a new run with data.train.parts: {ranks.size}."
        )
        raise ranks.error(error)


def whole(position: Position, ranks: Ranks) -> Position:
    """The position with the parts of all ranks, for a checkpoint; every rank has to ask."""
    if not position.parts:
        return position
    parts = {part["part"]: part for each in ranks.gather(list(position.parts)) for part in each}
    return position._replace(parts=[parts[number] for number in sorted(parts)])
