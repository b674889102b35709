"""The slots: whatever rows do, each sees its own tokens and no others, and no slot is wasted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.engine.source import Source, SourceMask
from dragoman.engine.state import EngineState
from dragoman.model import masks
from model_variants import close
from tolerances import FLOAT32

SHAPE = (2, 3, 1)  # layers, key-value heads, head width


def seen(state: EngineState, layer: int, row: int) -> list[float]:
    """The sorted values of the slots that a row of the search may look at, the same for every head."""
    places = state.to_places(torch.arange(state.rows or 0))
    place, rank = divmod(places.tolist().index(row), state.width)
    assert state.from_places(places).tolist() == list(range(state.rows or 0))
    if state.sentences == 1:
        values = state.values[layer][0, :, :, 0]
        assert torch.equal(state.keys[layer], -state.values[layer])
    else:
        values = state.values[layer].view(state.sentences, SHAPE[1], -1)[place]
        assert torch.equal(state.keys[layer].transpose(1, 2), -state.values[layer])
    assert bool(values.isfinite().all())
    shown = values[:, torch.ones(state.used, dtype=torch.bool)]
    if state.bias is not None:
        shown = values[:, state.bias[place, 0, rank] == 0]
    heads = [sorted((head - index).tolist()) for index, head in enumerate(shown)]
    assert all(head == heads[0] for head in heads)
    return heads[0]


def feed(state: EngineState, numbers: list[float]) -> None:
    """One step that stores a number a row (plus the head's index; as a key negated), in every layer."""
    state.advance(len(numbers))
    rows = state.to_places(torch.tensor(numbers))
    for layer in range(SHAPE[0]):
        values = 1000.0 * layer + rows[:, None] + torch.arange(SHAPE[1])
        state.store(layer, torch.stack([-values, values], 2)[..., None])


def without(state: EngineState, sentence: int) -> list[int]:
    """The rows of all sentences but one; of a single sentence its own."""
    gone = sentence % state.sentences if state.sentences > 1 else -1
    return [row for row in range(state.rows or 0) if row // state.width != gone]


STEP = st.one_of(
    st.none(),
    st.integers(1, 3),  # each row that often
    st.tuples(st.integers(0, 99)),  # without one of the sentences
    st.lists(st.integers(0, 99), min_size=1, max_size=8),
    st.lists(st.integers(0, 99), min_size=1, max_size=8).map(sorted),
)


@settings(max_examples=80, deadline=None)
@given(rows=st.integers(1, 3), steps=st.lists(STEP, min_size=1, max_size=45))
def test_each_row_sees_its_own_tokens(rows: int, steps: list[int | tuple[int] | list[int] | None]) -> None:
    state = EngineState(SHAPE, None)
    histories: list[list[float]] = [[float(row)] for row in range(rows)]
    feed(state, [own[0] for own in histories])
    for number, step in enumerate(steps, start=1):
        if step is not None:
            chosen = (
                [row for row in range(len(histories)) for _ in range(step)]
                if isinstance(step, int)
                else without(state, step[0])
                if isinstance(step, tuple)
                else [row % len(histories) for row in step]
            )[:12]
            histories = [list(histories[row]) for row in chosen]
            state.select(torch.tensor(chosen))
        for row, own in enumerate(histories):
            own.append(10.0 * number + row)
        feed(state, [own[-1] for own in histories])
        assert state.rows == state.sentences * state.width == len(histories)
        assert state.length == number + 1
    for layer in range(SHAPE[0]):
        for row, own in enumerate(histories):
            assert seen(state, layer, row) == sorted(1000.0 * layer + one for one in own)


def test_slots_that_nobody_owns_are_used_again() -> None:
    """A beam of four whose first hypothesis always wins owns one slot a step, and four more that die at once."""
    state = EngineState(SHAPE, None)
    feed(state, [0.0, 1.0])
    parents = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    for step in range(100):
        state.select(parents)
        feed(state, [10.0 * step + row for row in range(8)])
        parents = torch.tensor([0, 0, 0, 0, 4, 4, 4, 4])
    assert state.used <= 101 + 2 * 4


def test_greedy_decoding_needs_no_mask_and_moves_nothing() -> None:
    state = EngineState(SHAPE, None)
    feed(state, [0.0, 1.0])
    places = set()
    for step in range(31):
        state.select(torch.tensor([0, 1]))
        feed(state, [float(step), float(step)])
        places.add(state.values[0].data_ptr())
        assert state.bias is None
    assert len(places) == 1
    assert state.used == state.length == 32


def test_sentences_that_end_leave_the_buffers() -> None:
    keys = torch.arange(3.0 * 4).view(3, 4, 1, 1, 1, 1).expand(3, 4, *SHAPE[:1], 2, SHAPE[1], 1)
    mask = masks.from_lengths(torch.tensor([4, 0, 2]))
    state = EngineState(SHAPE, Source.of(keys, SourceMask.of(mask)))
    feed(state, [1.0, 2.0, 3.0])
    state.select(torch.tensor([2, 2, 1, 1]))
    source = state.source
    assert source is not None
    assert source.sentences == state.sentences == 2
    assert state.width == 2
    assert torch.equal(source.values[1][0], keys[2, :, 1, 1, 0])
    assert torch.equal(source.keys[1][0], keys[2, :, 1, 0, 0].t())
    assert source.mask.bias is not None
    assert torch.equal(source.mask.bias[:, 0, 0] == 0, torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]], dtype=torch.bool))
    assert source.mask.is_open is not None
    assert source.mask.is_open.flatten().tolist() == [1.0, 0.0]
    feed(state, [4.0, 5.0, 6.0, 7.0])
    assert [seen(state, 0, row) for row in range(4)] == [[3.0, 4.0], [3.0, 5.0], [2.0, 6.0], [2.0, 7.0]]
    state.select(torch.tensor([3]))
    feed(state, [8.0])
    assert seen(state, 1, 0) == [1002.0, 1007.0, 1008.0]


@pytest.mark.parametrize("width", [1, 2])
def test_the_last_sentences_take_the_places_of_those_that_end(width: int) -> None:
    keys = torch.arange(5.0 * 3).view(5, 3, 1, 1, 1, 1).expand(5, 3, *SHAPE[:1], 2, SHAPE[1], 1)
    mask = masks.from_lengths(torch.tensor([3, 0, 2, 3, 1]))
    state = EngineState(SHAPE, Source.of(keys, SourceMask.of(mask)))
    feed(state, [0.0, 1.0, 2.0, 3.0, 4.0])
    state.select(torch.arange(5).repeat_interleave(width))
    feed(state, [10.0 * sentence + rank for sentence in range(5) for rank in range(width)])
    before = state.values[0].data_ptr()
    kept = [0, 2, 4]
    state.select(torch.tensor([width * sentence + rank for sentence in kept for rank in range(width)]))
    places = torch.tensor([0, 4, 2])
    rows = torch.arange(3 * width).view(3, width)
    assert state.to_places(rows.flatten()).tolist() == rows[[0, 2, 1]].flatten().tolist()
    source = state.source
    assert source is not None
    assert source.sentences == 3
    for layer in range(SHAPE[0]):
        assert torch.equal(source.values[layer].view(3, SHAPE[1], 3)[:, 0], keys[places, :, layer, 1, 0, 0])
        assert torch.equal(source.keys[layer].view(3, SHAPE[1], 3)[:, 2], keys[places, :, layer, 0, 2, 0])
    assert source.mask.bias is not None
    assert (source.mask.bias[:, 0, 0] == 0).sum(1).tolist() == [3, 1, 2]
    feed(state, [100.0 + row for row in range(3 * width)])
    assert state.values[0].data_ptr() == before
    for row in range(3 * width):
        sentence = kept[row // width]
        assert seen(state, 1, row) == [1000.0 + one for one in (sentence, 10 * sentence + row % width, 100 + row)]


def test_a_mask_that_hides_nothing_is_none() -> None:
    assert SourceMask.of(None) == SourceMask.of(masks.from_lengths(torch.tensor([3, 3]))) == SourceMask()
    hiding = SourceMask.of(masks.from_lengths(torch.tensor([3, 1])))
    assert hiding.is_open is None
    assert hiding.bias is not None
    close(hiding.bias.exp()[:, 0, 0], torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), FLOAT32)
