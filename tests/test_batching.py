"""Batches: within the budget, each pair once an epoch, the same stream again from any position."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import DataConfig, ModelConfig, TokenizerConfig
from dragoman.errors import DataError
from dragoman.text import batching
from dragoman.text.batching import Batch, Position, TrainingBatches, collate, ordered_batches, pad
from dragoman.text.corpus import TokenCorpus, write_corpus
from dragoman.text.readers import read_lines
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

CONFIG = ModelConfig(src_pad_id=7, tgt_pad_id=8)
LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


class Lengths:
    """A corpus of which only the lengths matter: every token of pair i is i + 10."""

    def __init__(self, lengths: Sequence[tuple[int, int]]) -> None:
        self.sizes = np.asarray(lengths, np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.sizes)

    def pair(self, index: int) -> Any:
        return tuple(np.full(size, index + 10, np.uint16) for size in self.sizes[index])

    def window(self, indices: Any, epoch: int) -> Any:
        return _Window(self, indices)


class _Window(NamedTuple):
    corpus: Lengths
    indices: Any

    def pair(self, place: int) -> Any:
        return self.corpus.pair(self.indices[place])

    def lengths(self) -> Any:
        return self.corpus.sizes[self.indices, 0], self.corpus.sizes[self.indices, 1]


def batches_of(lengths: Sequence[tuple[int, int]], budget: int, seed: int = 1, **more: Any) -> TrainingBatches:
    return TrainingBatches(Lengths(lengths), more.pop("config", CONFIG), budget, seed, **more)  # type: ignore[arg-type]


def indices_of(batches: Any) -> list[list[int]]:
    return [list(batch.indices) for batch in batches]


@pytest.fixture(params=[1 << 16, 7])
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both one window for all and many small ones."""
    monkeypatch.setattr(batching, "_WINDOW", request.param)
    size: int = request.param
    return size


# One batch


@pytest.mark.parametrize("src_bos", [False, True])
@pytest.mark.parametrize("src_eos", [False, True])
def test_collate(src_bos: bool, src_eos: bool) -> None:
    config = CONFIG.changed(src_bos=src_bos, src_eos=src_eos)
    batch = collate([([10, 11], [20]), ([12], [21, 22, 23])], config, [4, 9])
    first, last = [2] * src_bos, [3] * src_eos
    assert batch.src.tolist() == [[*first, 10, 11, *last], [*first, 12, *last, 7]]
    assert batch.tgt_in.tolist() == [[2, 20, 8, 8], [2, 21, 22, 23]]
    assert batch.tgt_out.tolist() == [[20, 3, 8, 8], [21, 22, 23, 3]]
    assert batch.src_mask is not None
    assert batch.tgt_mask is not None
    assert batch.src_mask.tolist() == [[True] * batch.src.shape[1], [*[True] * (batch.src.shape[1] - 1), False]]
    assert batch.tgt_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert (batch.n_src_tokens, batch.n_tgt_tokens) == (3 + 2 * (src_bos + src_eos), 6)
    assert batch.indices == [4, 9]
    assert {ids.dtype for ids in (batch.src, batch.tgt_in, batch.tgt_out)} == {torch.int64}


def test_no_mask_without_padding() -> None:
    batch = collate([([10], [20, 21]), ([11], [22, 23])], CONFIG, [0, 1])
    assert batch.src_mask is batch.tgt_mask is None
    assert (batch.n_src_tokens, batch.n_tgt_tokens) == (4, 6)


def test_an_empty_side() -> None:
    """Validation text is not cleaned."""
    batch = collate([([], []), ([10], [20])], CONFIG, [0, 1])
    assert batch.src.tolist() == [[3, 7], [10, 3]]
    assert batch.tgt_in.tolist() == [[2, 8], [2, 20]]


@given(st.lists(st.lists(st.integers(0, 99), max_size=9), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_padding_adds_and_loses_nothing(rows: list[list[int]], first: bool, last: bool) -> None:
    wanted = [[1] * first + row + [2] * last for row in rows]
    ids, mask = pad(rows, 77, [1] * first, [2] * last)
    for row, own, real in zip(wanted, ids.tolist(), (ids == ids).tolist() if mask is None else mask, strict=True):
        assert own == row + [77] * (ids.shape[1] - len(row))
        assert list(map(bool, real)) == [place < len(row) for place in range(ids.shape[1])]
    assert ids.shape == (len(rows), max(map(len, wanted)))
    assert (mask is None) == (len(set(map(len, wanted))) == 1)


def test_the_cpu_needs_no_copy() -> None:
    batch = collate([([10], [20])], CONFIG, [0])
    assert batch.to(torch.device("cpu")) is batch
    moved = batch.to(torch.device("meta"))
    assert moved.src.device.type == "meta"
    assert moved.src_mask is None
    assert moved.indices == batch.indices


# An epoch


def check_budget(batch: Batch, budget: int) -> None:
    assert len(batch.indices) == 1 or max(batch.src.numel(), batch.tgt_in.numel()) <= budget


@pytest.mark.usefixtures("window")
@given(LENGTHS, st.integers(1, 200), st.integers(0, 3), st.integers(0, 3), st.booleans())
@settings(max_examples=30)
def test_one_epoch_is_every_pair_once(
    lengths: list[tuple[int, int]], budget: int, seed: int, epoch: int, src_bos: bool
) -> None:
    batches = list(batches_of(lengths, budget, seed, config=CONFIG.changed(src_bos=src_bos)).epoch_batches(epoch))
    assert sorted(index for batch in batches for index in batch.indices) == list(range(len(lengths)))
    for batch in batches:
        check_budget(batch, budget)
        for row, index in enumerate(batch.indices):
            assert int((batch.src[row] == index + 10).sum()) == lengths[index][0]
            assert int((batch.tgt_out[row] == index + 10).sum()) == lengths[index][1]
    assert sum(batch.n_tgt_tokens for batch in batches) == sum(tgt + 1 for _, tgt in lengths)
    assert sum(batch.n_src_tokens for batch in batches) == sum(src + 1 + src_bos for src, _ in lengths)


def test_a_sentence_over_the_budget_stands_alone() -> None:
    batches = indices_of(batches_of([(3, 3), (50, 3), (3, 3), (3, 50)], 10).epoch_batches(0))
    assert [1] in batches
    assert [3] in batches
    assert sorted(map(len, batches)) == [1, 1, 2]


@pytest.mark.usefixtures("window")
@given(LENGTHS, st.integers(1, 100), st.integers(0, 3))
@settings(max_examples=15)
def test_resuming_anywhere_gives_the_rest_of_the_stream(lengths: list[tuple[int, int]], budget: int, seed: int) -> None:
    stream = batches_of(lengths, budget, seed)
    steps = 2 * sum(1 for _ in stream.epoch_batches(0)) + 2
    whole = list(islice(stream.iterate(), steps))
    for done, (_, position) in enumerate(whole[:-1], 1):
        again = islice(batches_of(lengths, budget, seed).iterate(Position(*position)), min(4, steps - done))
        for (batch, after), (expected, after_expected) in zip(again, whole[done:], strict=False):
            assert (list(batch.indices), after) == (list(expected.indices), after_expected)
            assert torch.equal(batch.src, expected.src)
            assert torch.equal(batch.tgt_out, expected.tgt_out)


def test_windows_are_of_equal_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """A last window of a few pairs would be cut into short batches."""
    monkeypatch.setattr(batching, "_WINDOW", 100)
    lengths = [(1, 1)] * 201
    positions = [after for _, after in islice(batches_of(lengths, 20).iterate(), 21)]
    assert [position.window for position in positions] == [0] * 6 + [1] * 7 + [2] * 7 + [0]
    assert positions[-1] == Position(1, 0, 0)


def test_epochs_and_seeds_differ() -> None:
    lengths = [(1 + number % 9, 1 + number % 7) for number in range(200)]
    streams = [
        indices_of(batches_of(lengths, 60, seed).epoch_batches(epoch)) for seed, epoch in [(1, 0), (1, 1), (2, 0)]
    ]
    assert len({str(stream) for stream in streams}) == 3
    assert streams[0] == indices_of(batches_of(lengths, 60, 1).epoch_batches(0))


def test_short_and_long_batches_are_mixed() -> None:
    lengths = [(1 + number % 40, 1 + number % 40) for number in range(2000)]
    widths = [batch.src.shape[1] for batch in batches_of(lengths, 100).epoch_batches(0)]
    assert widths != sorted(widths)
    assert np.mean(widths[: len(widths) // 2]) == pytest.approx(np.mean(widths), rel=0.2)


def test_a_window_is_planned_while_the_one_before_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_WINDOW", 10)
    batches = batches_of([(1, 1)] * 40, 20)
    planned: list[tuple[int, bool]] = []
    original = Lengths.window

    def watched(self: Lengths, indices: Any, epoch: int) -> Any:
        planned.append((epoch, threading.current_thread() is threading.main_thread()))
        return original(self, indices, epoch)

    monkeypatch.setattr(Lengths, "window", watched)
    stream = batches.iterate()
    next(stream)
    deadline = time.monotonic() + 30
    while len(planned) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert planned == [(0, False)] * 2
    for _ in range(3):
        next(stream)
    stream.close()
    assert len(planned) == 5
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dragoman-batches")]


def test_an_error_in_planning_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Lengths, indices: Any, epoch: int) -> Any:
        raise DataError("unreadable")

    monkeypatch.setattr(Lengths, "window", broken)
    with pytest.raises(DataError, match="unreadable"):
        next(batches_of([(1, 1)], 20).iterate())


def test_no_pairs() -> None:
    with pytest.raises(DataError, match="holds no pairs"):
        batches_of([], 10)


# Batches in the order of length, for validation and translation


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=60), st.integers(1, 100), st.booleans())
def test_ordered_batches(lengths: list[tuple[int, int]], budget: int, two_sided: bool) -> None:
    src, tgt = [one for one, _ in lengths], [two for _, two in lengths]
    groups = ordered_batches(src, budget, tgt if two_sided else None)
    assert Counter(index for group in groups for index in group) == Counter(range(len(lengths)))
    sides = [src, tgt] if two_sided else [src]
    for group in groups:
        assert len(group) == 1 or max(len(group) * max(side[index] for index in group) for side in sides) <= budget
    longest = [max(sides[-1][index] for index in group) for group in groups]
    assert longest == sorted(longest, reverse=True)


# Multi30k


@pytest.fixture(scope="module")
def multi30k(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenCorpus:
    folder = shared_dir / "data/multi30k"
    pairs = list(zip(*(read_lines(folder / f"train.{language}.gz") for language in ("en", "de")), strict=True))
    both = Tokenizer.train(TokenizerConfig(vocab_size=6000), (text for pair in pairs for text in pair))
    data = DataConfig(train={"src": "x", "tgt": "y"})
    return write_corpus(pairs, TokenizerPair(both, both), data, tmp_path_factory.mktemp("multi30k") / "x")


@pytest.mark.shared
@pytest.mark.parametrize("budget", [2560, 4096])
def test_padding_on_multi30k(multi30k: TokenCorpus, budget: int) -> None:
    """At most 10 % of either side, and batches that are full."""
    places, real, seen, fill = np.zeros(2), np.zeros(2), 0, []
    for batch in TrainingBatches(multi30k, ModelConfig(), budget, seed=1).epoch_batches(0):
        check_budget(batch, budget)
        places += batch.src.numel(), batch.tgt_in.numel()
        real += batch.n_src_tokens, batch.n_tgt_tokens
        seen += len(batch.indices)
        fill.append(max(batch.src.numel(), batch.tgt_in.numel()) / budget)
    assert seen == len(multi30k)
    assert (1 - real / places <= 0.10).all(), 1 - real / places
    assert np.mean(fill) > 0.9
