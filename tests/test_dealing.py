"""Dealing batches to ranks, without starting any: laws of the deal, of the random streams, of who has gradients."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.config import ModelConfig
from dragoman.errors import DataError, ToldError
from dragoman.model.transformer import Transformer
from dragoman.text import batching
from dragoman.text.batching import Position, collate
from dragoman.training.dealing import Share, deal
from dragoman.training.processes import Processes
from dragoman.training.ranks import Ranks
from dragoman.training.validation import batch_loss
from test_batching import LENGTHS, batches_of


class OneOf(Ranks):
    """A rank that has no others to talk to."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size


def epoch_of(lengths: list[tuple[int, int]], ranks: Ranks, accumulate: int, start: Position) -> list[Share]:
    """The updates of the rest of the epoch that ``start`` is in."""
    shares = []
    for share in deal(batches_of(lengths, 30), ranks, accumulate, start):
        shares.append(share)
        if share.epoch_ends:
            return shares
    raise AssertionError("an epoch without end")


@pytest.fixture(scope="module", autouse=True)
def window() -> Any:
    """Windows of a few pairs, so that an epoch has several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "_WINDOW", 7)
        yield


@given(LENGTHS, st.integers(1, 4), st.integers(1, 3))
@example([(1, 1)] * 8, 2, 1)
@settings(max_examples=30)
def test_ranks_share_an_epoch(lengths: list[tuple[int, int]], size: int, accumulate: int) -> None:
    """Every pair once; as many updates for each rank, with the same positions; what one rank makes of it alike."""
    dealt = [epoch_of(lengths, OneOf(rank, size), accumulate, Position()) for rank in range(size)]
    pairs = Counter(index for shares in dealt for share in shares for batch in share.batches for index in batch.indices)
    assert pairs == Counter(range(len(lengths)))
    alone = epoch_of(lengths, Ranks(), accumulate * size, Position())
    known = [(share.pairs, share.after, share.epoch_ends) for share in alone]
    for shares in dealt:
        assert [(share.pairs, share.after, share.epoch_ends) for share in shares] == known
    for at, whole in enumerate(alone):
        together = sorted(list(batch.indices) for shares in dealt for batch in shares[at].batches)
        assert together == sorted(list(batch.indices) for batch in whole.batches)
        assert len(dealt[0][at].batches) <= accumulate
        # Rank 0 always has a batch, and no rank two more than another.
        counts = [len(shares[at].batches) for shares in dealt]
        assert counts[0] == max(counts) > 0
        assert counts[0] - min(counts) <= 1


@given(LENGTHS, st.integers(1, 3), st.integers(1, 3), st.data())
@settings(max_examples=30)
def test_another_number_of_ranks_goes_on_where_the_last_stopped(
    lengths: list[tuple[int, int]], before: int, after: int, data: st.DataObject
) -> None:
    first = [epoch_of(lengths, OneOf(rank, before), 1, Position()) for rank in range(before)]
    cut = data.draw(st.integers(1, len(first[0])))
    seen = [index for shares in first for share in shares[:cut] for batch in share.batches for index in batch.indices]
    end = first[0][cut - 1].after
    if end.epoch == 0:
        rest = [epoch_of(lengths, OneOf(rank, after), 2, end) for rank in range(after)]
        seen += [index for shares in rest for share in shares for batch in share.batches for index in batch.indices]
    assert Counter(seen) == Counter(range(len(lengths)))


def test_the_deal_has_no_end() -> None:
    shares = list(islice(deal(batches_of([(1, 1)] * 3, 30), OneOf(1, 2), 1, Position()), 5))
    assert [share.after.epoch for share in shares] == [1, 2, 3, 4, 5]
    assert all(share.batches == [] for share in shares)
    assert all(share.pairs == 3 for share in shares)


def drawn(rank: int, size: int, seed: int, step: int, place: int) -> tuple[float, ...]:
    Processes.seed(cast(Any, SimpleNamespace(rank=rank, size=size)), seed, step, place)
    return tuple(torch.rand(3).tolist())


def test_a_batch_has_its_random_numbers_whichever_rank_it_is_dealt_to() -> None:
    # The fifth batch of an update (4, counted from 0): of four ranks, of three, of two, of five.
    same = {drawn(0, 4, 7, 3, 1), drawn(1, 3, 7, 3, 1), drawn(0, 2, 7, 3, 2), drawn(4, 5, 7, 3, 0)}
    assert len(same) == 1
    others = {
        drawn(rank, 2, seed, step, place) for rank in (0, 1) for seed in (7, 8) for step in (3, 4) for place in (0, 1)
    }
    assert len(others) == 16


def test_one_process_goes_on_with_its_own_numbers() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4).tolist()
    torch.manual_seed(3)
    first = torch.rand(2).tolist()
    Ranks().seed(7, 3, 1)
    assert first + torch.rand(2).tolist() == expected


SHAPES: list[dict[str, Any]] = [
    {},
    {"positions": "learned", "tie_embeddings": "all", "max_length": 40},
    {"positions": "rotary", "n_kv_heads": 1, "feed_forward": "swiglu", "norm": "rms"},
    {"norm_first": False, "final_norm": False, "attention_bias": False, "output_bias": False},
    {"norm": "std", "tie_embeddings": "decoder", "positions": "none"},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_parameter_has_a_gradient_after_every_batch(shape: dict[str, Any]) -> None:
    """DistributedDataParallel waits for all of them."""
    config = ModelConfig(
        src_vocab_size=9,
        tgt_vocab_size=9,
        d_model=8,
        n_heads=2,
        n_encoder_layers=2,
        n_decoder_layers=2,
        d_ff=8,
        **shape,
    )
    model = Transformer(config)
    batch_loss(model, collate([([5], [6]), ([7, 8], [4, 4, 4])], config, [0, 1]), 0.1)[0].backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_a_single_rank_has_everything_already() -> None:
    ranks = Ranks()
    error = DataError("no.")
    with ranks as same:
        assert same is ranks
    assert ranks.leads
    assert ranks.decide(lambda: {"a": 1}) == {"a": 1}
    assert ranks.gather("x") == ["x"]
    assert ranks.sum([1, 2.5]) == [1, 2.5]
    assert list(ranks.own([1, 2, 3])) == [1, 2, 3]
    assert ranks.error(error) is error


def test_another_rank_is_told() -> None:
    told = Processes.error(cast(Any, SimpleNamespace(leads=False)), DataError("no."))
    assert isinstance(told, ToldError)
    assert (str(told), told.exit_code) == ("no.", 1)
