"""The caches of step-wise decoding: buffers that grow, rows that move, and a source that is read once for its beam."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.errors import DataError
from dragoman.model.cache import DecoderState, SelfCache
from dragoman.model.transformer import Transformer
from model_variants import V, batch, close, make
from tolerances import BFLOAT16, FLOAT16


@settings(max_examples=30)
@given(
    moves=st.lists(
        st.one_of(st.integers(1, 40), st.lists(st.integers(0, 99), min_size=1, max_size=5)), min_size=1, max_size=8
    )
)
def test_the_buffers_hold_what_was_appended(moves: list[int | list[int]]) -> None:
    """Numbers append that many tokens, lists select rows; a plain concatenation says what is right."""
    cache, wanted = SelfCache(), torch.empty(3, 2, 0, 4)
    generator = torch.Generator().manual_seed(0)
    for move in moves:
        if isinstance(move, int):
            new = torch.randn(len(wanted), 2, move, 4, generator=generator)
            wanted = torch.cat([wanted, new], 2)
            keys, values = cache.append(new, -new)
            assert torch.equal(keys, wanted)
            assert torch.equal(values, -wanted)
        elif cache.length:
            parents = torch.tensor(move) % len(wanted)
            wanted = wanted[parents]
            cache.select(parents)
        assert cache.length == wanted.shape[2]


def test_buffers_double_and_are_otherwise_written_in_place() -> None:
    cache, new = SelfCache(), torch.zeros(1, 1, 1, 1)
    places = set()
    for _ in range(200):
        cache.append(new, new)
        places.add(cache.key.data_ptr())
    assert len(places) <= 4  # 32, 64, 128, 256
    assert cache.key.shape[2] == 256


@torch.no_grad()
def started(model: Transformer) -> tuple[DecoderState, Tensor, Tensor]:
    src, _, src_mask, _ = batch()
    return model.start(model.encode(src, src_mask), src_mask), src, src_mask


def test_source_keys_are_computed_once() -> None:
    model = make()
    calls = []
    for layer in model.decoder.layers:
        layer.cross_attention.key.register_forward_hook(lambda *_: calls.append("key"))
        layer.cross_attention.value.register_forward_hook(lambda *_: calls.append("value"))
    state, _, _ = started(model)
    assert sorted(calls) == ["key", "key", "value", "value"]
    for parents in (None, torch.tensor([0, 0, 1, 1]), torch.tensor([3, 1])):
        model.step(torch.zeros(3 if parents is None else len(parents), dtype=torch.int64), state, parents)
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("moves", "copies"),
    [
        ([[0, 0, 1, 1, 2, 2]], 3),  # a beam of two: each source once
        ([[0, 0, 1, 1, 2, 2], [1, 1, 3, 2, 4, 5]], 3),  # hypotheses change places inside their sentence
        ([[0, 0, 1, 1, 2, 2], [0, 1, 4, 5]], 2),  # a sentence leaves
        ([[2, 2, 0, 0]], 2),  # sentences change places
        ([[0, 0, 0, 1]], 4),  # runs of unequal length: a copy for each row
        ([[0, 1, 0, 1]], 4),  # not grouped
        ([[0, 1, 0, 1], [0, 2]], 2),
        ([[2]], 1),
        ([[]], 0),
    ],
)
def test_sources_are_kept_once_for_rows_that_stand_together(moves: list[list[int]], copies: int) -> None:
    model = make()
    state, src, src_mask = started(model)
    sources, history = torch.arange(3), torch.empty(3, 0, dtype=torch.int64)
    for number, move in enumerate(moves):
        parents = torch.tensor(move, dtype=torch.int64)
        sources, history = sources[parents], history[parents]
        history = torch.cat([history, torch.full((len(move), 1), 4 + number)], 1)
        logits = model.step(history[:, -1], state, parents)
        assert logits.shape == (len(move), V)
        if move:
            close(logits, model(src[sources], history, src_mask[sources])[:, -1])
    assert {len(part) for pair in state.memory for part in pair} == {copies}
    assert state.memory_mask is not None
    assert len(state.memory_mask.allowed) == copies
    assert state.rows == len(moves[-1])
    assert state.length == len(moves)


@pytest.mark.parametrize("source", [True, False])
def test_a_wrong_number_of_tokens_is_refused(source: bool) -> None:
    model = make()
    state = started(model)[0] if source else model.start(None)
    first = torch.tensor([4, 5, 6])
    if source:
        with pytest.raises(DataError, match="got 6 tokens for a state of 3 rows"):
            model.step(torch.zeros(6, dtype=torch.int64), state)
    model.step(first, state)
    with pytest.raises(
        DataError, match="got 1 tokens for a state of 3 rows; give one token a row, or say with parents"
    ):
        model.step(first[:1], state)
    with pytest.raises(DataError, match="got 3 tokens for a state of 2 rows"):
        model.step(first, state, torch.tensor([0, 1]))
    assert state.length == 1
    assert [layer.length for layer in state.layers] == [1, 1]


def test_states_do_not_share_anything() -> None:
    model = make("shared heads")
    one, src, src_mask = started(model)
    other, _, _ = started(model)
    tokens = torch.tensor([[4, 5], [6, 7], [8, 9]])
    model.step(tokens[:, 0], one)
    model.step(tokens[:, 1], other, torch.tensor([2, 1, 0]))
    close(model.step(tokens[:, 1], one), model(src, tokens, src_mask)[:, 1])
    assert (one.length, other.length) == (2, 1)


def test_the_caller_s_memory_is_not_changed_and_may_change() -> None:
    model = make()
    src, _, src_mask, _ = batch()
    memory = model.encode(src, src_mask).detach()
    kept, kept_mask = memory.clone(), src_mask.clone()
    state = model.start(memory, src_mask)
    tokens = torch.tensor([4, 5, 6])
    wanted = model.step(tokens, model.start(memory, src_mask))
    assert torch.equal(memory, kept)
    assert torch.equal(src_mask, kept_mask)
    memory.zero_()
    assert torch.equal(model.step(tokens, state), wanted)


def test_one_mask_for_all_sources_is_enough() -> None:
    """A mask [1,S] serves every sentence, as in the forward pass, after rows moved too."""
    model = make()
    src, tgt, _, _ = batch()
    mask = torch.tensor([[True, True, False, True, True, False]])
    state = model.start(model.encode(src, mask), mask)
    model.step(tgt[:, 0], state)
    logits = model.step(tgt[[2, 1], 1], state, torch.tensor([2, 1]))
    close(logits, model(src, tgt, mask)[[2, 1], 1])


def test_nothing_is_kept_for_gradients() -> None:
    model = make()
    src, _, src_mask, _ = batch()
    state = model.start(model.encode(src, src_mask), src_mask)
    assert not model.step(torch.tensor([4, 5, 6]), state).requires_grad
    assert not any(part.requires_grad for pair in state.memory for part in pair)


def test_without_a_source_the_first_tokens_decide_the_rows() -> None:
    model = make("rotary")
    state = model.start(None)
    assert state.rows is None
    history = torch.tensor([[4], [5], [6], [7], [8]])
    close(model.step(history[:, 0], state), model.project(model.decode(history, None))[:, -1])
    for move in ([4, 4, 0], [2, 1, 0, 0, 0, 1], [5]):
        parents = torch.tensor(move)
        history = torch.cat([history[parents], torch.full((len(move), 1), 9)], 1)
        close(model.step(history[:, -1], state, parents), model.project(model.decode(history, None))[:, -1])


def test_a_decoder_without_layers_steps_too() -> None:
    model = make(n_decoder_layers=0)
    src, tgt, src_mask, _ = batch()
    state = model.start(model.encode(src, src_mask), src_mask)
    model.step(tgt[:, 0], state)
    close(model.step(tgt[[1, 1], 1], state, torch.tensor([1, 1])), model(src, tgt, src_mask)[[1, 1], 1])


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, FLOAT16 * 2), (torch.bfloat16, BFLOAT16 * 4)])
def test_lower_precisions_step_as_they_run(dtype: torch.dtype, tolerance: float) -> None:
    model = make("rotary", dtype)
    src, tgt, src_mask, _ = batch()
    state = model.start(model.encode(src, src_mask), src_mask)
    stepped = torch.stack([model.step(tgt[:, place], state) for place in range(5)], 1)
    assert stepped.dtype == dtype
    close(stepped.double(), model(src, tgt, src_mask).double(), tolerance)


def test_a_source_without_any_real_token_steps_as_it_runs() -> None:
    model = make()
    src, tgt, src_mask, _ = batch()
    src_mask[1] = False
    state = model.start(model.encode(src, src_mask), src_mask)
    wanted = model(src, tgt, src_mask)
    for place in range(5):
        logits = model.step(tgt[:, place], state)
        assert logits.isfinite().all()
        close(logits, wanted[:, place])
