"""The slots: whatever rows do, each sees its own tokens and no others, and no slot is wasted."""

from __future__ import annotations

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
    """The sorted values of the slots that a row may look at, the same for every head."""
    place = row // state.width
    if state.sentences == 1:
        values = state.values[layer][0, :, :, 0]
        assert torch.equal(state.keys[layer], -state.values[layer])
    else:
        values = state.values[layer].view(state.sentences, SHAPE[1], -1)[place]
        assert torch.equal(state.keys[layer].transpose(1, 2), -state.values[layer])
    assert bool(values.isfinite().all())
    shown = values[:, torch.ones(state.used, dtype=torch.bool)]
    if state.bias is not None:
        shown = values[:, state.bias[place, 0, row % state.width] == 0]
    heads = [sorted((head - index).tolist()) for index, head in enumerate(shown)]
    assert all(head == heads[0] for head in heads)
    return heads[0]


def feed(state: EngineState, numbers: list[float]) -> None:
    """One step that stores a number a row (plus the head's index; as a key negated), in every layer."""
    state.advance(len(numbers))
    for layer in range(SHAPE[0]):
        values = 1000.0 * layer + torch.tensor(numbers)[:, None] + torch.arange(SHAPE[1])
        state.store(layer, torch.stack([-values, values], 2)[..., None])


STEP = st.one_of(
    st.none(),
    st.integers(1, 3),  # each row that often
    st.lists(st.integers(0, 99), min_size=1, max_size=8),
    st.lists(st.integers(0, 99), min_size=1, max_size=8).map(sorted),
)


@settings(max_examples=80, deadline=None)
@given(rows=st.integers(1, 3), steps=st.lists(STEP, min_size=1, max_size=45))
def test_each_row_sees_its_own_tokens(rows: int, steps: list[int | list[int] | None]) -> None:
    state = EngineState(SHAPE, None)
    histories: list[list[float]] = [[float(row)] for row in range(rows)]
    feed(state, [own[0] for own in histories])
    for number, step in enumerate(steps, start=1):
        if step is not None:
            chosen = (
                [row for row in range(len(histories)) for _ in range(step)]
                if isinstance(step, int)
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


def test_a_mask_that_hides_nothing_is_none() -> None:
    assert SourceMask.of(None) == SourceMask.of(masks.from_lengths(torch.tensor([3, 3]))) == SourceMask()
    hiding = SourceMask.of(masks.from_lengths(torch.tensor([3, 1])))
    assert hiding.is_open is None
    assert hiding.bias is not None
    close(hiding.bias.exp()[:, 0, 0], torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]), FLOAT32)
