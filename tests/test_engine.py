"""The engine against the model whose weights it has: every variant, any way that rows may move, both precisions."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.config import DecodeConfig
from dragoman.decoding.search import search
from dragoman.engine import Engine, fast
from dragoman.engine import engine as engine_module
from dragoman.engine.linear import Int8Linear, PackedLinear
from dragoman.errors import ConfigError, DataError
from dragoman.model import masks
from dragoman.model.transformer import Transformer
from model_variants import VARIANTS, V, batch, close, make
from tolerances import FLOAT32, INT8_RMS, REORDERED


@pytest.fixture(autouse=True)
def _no_model_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that int8 means eight bits in models of test size; small models have tests of their own."""
    monkeypatch.setattr(engine_module, "SMALL_MODEL", 0)


MASKS: dict[str, Tensor | None] = {
    "padded": masks.from_lengths(torch.tensor([6, 3, 1])),
    "full": None,
    "hardly padded": masks.from_lengths(torch.tensor([6, 6, 5])),
    "one source without a token": masks.from_lengths(torch.tensor([6, 0, 2])),
    "none with a token": torch.zeros(3, 6, dtype=torch.bool),
    "holes": torch.tensor([[0, 1, 1, 0, 1, 1], [1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 0]], dtype=torch.bool),
}


def moves(seed: int, rows: int, steps: int, sources_stand: bool = False) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Random tokens and parents: beams that widen, change places, lose and double sentences; in between none."""
    draw = random.Random(seed)
    parents: Tensor | None = None
    for _ in range(steps):
        yield torch.tensor([draw.randrange(V) for _ in range(rows)], dtype=torch.int64), parents
        kind = draw.choice(["none", "widen", "beam", "any", "fewer"])
        if kind == "none" or not rows:
            parents = None
            continue
        if kind == "widen" and rows < 9:
            chosen = [row for row in range(rows) for _ in range(2)]
        elif kind == "beam":
            chosen = sorted(draw.choices(range(rows), k=rows))
        elif kind == "fewer":
            chosen = draw.sample(range(rows), max(1, rows - 2))
        else:
            chosen = draw.choices(range(rows), k=draw.randint(1, 7))
        parents, rows = torch.tensor(chosen), len(chosen)


def both(
    model: Transformer, engine: Engine, mask: Tensor | None, seed: int, steps: int = 12
) -> list[tuple[Tensor, Tensor]]:
    """The model's and the engine's logits of the same steps."""
    src = batch()[0]
    with torch.no_grad():
        plain = model.start(model.encode(src, mask), mask)
        ours = engine.start(engine.encode(src, mask), mask)
        return [
            (model.step(tokens, plain, parents), engine.step(tokens, ours, parents))
            for tokens, parents in moves(seed, len(src), steps)
        ]


def engine_of(model: Transformer, precision: str = "fp32") -> Engine:
    engine = fast(model, precision)  # type: ignore[arg-type]
    assert isinstance(engine, Engine)
    return engine


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_steps_as_the_model_does(name: str, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:
        monkeypatch.undo()
    model = make(name, torch.float32)
    engine = engine_of(model)
    for seed, mask in enumerate(MASKS.values(), start=10 * small):
        for theirs, ours in both(model, engine, mask, seed):
            close(ours, theirs, FLOAT32)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("name", ["ours", "paper", "modern", "no encoder layers", "rotary, post-norm, tied"])
@torch.no_grad()
def test_memory_is_the_models_at_real_tokens(name: str, mask: Tensor | None) -> None:
    model, src = make(name, torch.float32), batch()[0]
    ours, theirs = engine_of(model).encode(src, mask), model.encode(src, mask)
    assert ours.shape == theirs.shape
    assert bool(ours.isfinite().all())
    real = torch.ones_like(src, dtype=torch.bool) if mask is None else mask
    close(ours[real], theirs[real], FLOAT32)


@pytest.mark.parametrize("name", ["ours", "paper", "rotary", "shared heads", "learned"])
@torch.no_grad()
def test_a_decoder_without_source(name: str) -> None:
    model = make(name, torch.float32)
    engine = engine_of(model)
    plain, ours = model.start(None), engine.start(None)
    for tokens, parents in moves(3, 2, 14):
        close(engine.step(tokens, ours, parents), model.step(tokens, plain, parents), FLOAT32)


@torch.no_grad()
def test_more_steps_than_the_first_buffers_hold() -> None:
    model = make("paper", torch.float32)
    engine = engine_of(model)
    src = batch()[0]
    draw = torch.Generator().manual_seed(0)
    for width in (1, 4):
        plain, ours = model.start(model.encode(src)), engine.start(engine.encode(src))
        parents = torch.arange(3).repeat_interleave(width)
        model.step(torch.tensor([2, 2, 2]), plain)
        engine.step(torch.tensor([2, 2, 2]), ours)
        for _ in range(80):
            tokens = torch.randint(0, V, (3 * width,), generator=draw)
            close(engine.step(tokens, ours, parents), model.step(tokens, plain, parents), FLOAT32)
            inside = torch.randint(0, width, (3, width), generator=draw)
            parents = (torch.arange(3)[:, None] * width + inside).flatten()
        assert ours.length == plain.length == 81


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@torch.no_grad()
def test_neighbours_change_nothing(precision: str) -> None:
    """A batch's logits are those of its sentences alone, padding and all."""
    model = make("ours", torch.float32, d_model=24, d_ff=48)
    engine = engine_of(model, precision)
    src, tgt, mask, _ = batch()
    state = engine.start(engine.encode(src, mask), mask)
    together = torch.stack([engine.step(tokens, state) for tokens in tgt.t()])
    for place, length in enumerate((6, 3, 1)):
        alone = src[place : place + 1, :length]
        state = engine.start(engine.encode(alone))
        for position, token in enumerate(tgt[place]):
            close(engine.step(token[None], state)[0], together[position, place], REORDERED)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_searches_find_the_same_for_a_batch_and_for_each_alone(precision: str, beam: int) -> None:
    model = make("paper", torch.float32, d_model=24, d_ff=48)
    with torch.no_grad():
        model.output.weight.mul_(3.0)
    engine = engine_of(model, precision)
    draw = random.Random(beam)
    sources = [[draw.randrange(4, V) for _ in range(draw.randint(1, 9))] for _ in range(12)]

    def found(rows: list[list[int]]) -> list[list[int]]:
        lengths = torch.tensor([len(row) for row in rows])
        src = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        mask = masks.from_lengths(lengths)
        state = engine.start(engine.encode(src, mask), mask)
        config = DecodeConfig(beam_size=beam)
        limits = [2 * len(row) + 3 for row in rows]
        return [
            best[0].tokens for best in search(engine.step, state, len(rows), config, bos_id=2, eos_id=3, limits=limits)
        ]

    together = found(sources)
    assert together == [found([row])[0] for row in sources]
    order = list(range(12))
    draw.shuffle(order)
    assert [together[place] for place in order] == found([sources[place] for place in order])


@pytest.mark.parametrize("name", ["ours", "paper", "swiglu", "rms, post-norm", "std, one gain", "no biases"])
def test_int8_is_near_float32(name: str) -> None:
    model = make(name, torch.float32, d_model=48, d_ff=96)
    worst = []
    for theirs, ours in both(model, engine_of(model, "int8"), MASKS["padded"], 5):
        worst.append((ours - theirs).square().mean().sqrt() / theirs.square().mean().sqrt())
    assert 0.0 < max(worst) < INT8_RMS


def test_int8_leaves_the_small_weights_of_a_small_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    model = make("ours", torch.float32, tgt_vocab_size=6000)
    engine = engine_of(model, "int8")
    assert type(engine.decoder[0].self_attention.output) is PackedLinear
    assert isinstance(engine.output, Int8Linear)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
@torch.no_grad()
def test_int8_is_the_same_to_the_bit_whatever_stands_beside(
    name: str, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer neighbours bring padding, and a last digit that is another one may round to another step."""
    if small:
        monkeypatch.undo()
    # Widths of whole vectors: at the end of a tensor PyTorch computes what is left of an activation one by one.
    shape: dict[str, Any] = {"d_model": 64, "n_heads": 2, "n_kv_heads": None, "d_ff": 128, "max_length": 64}
    engine = engine_of(make(name, torch.float32, **shape), "int8")
    lengths = torch.tensor([3, 37, 12, 17])
    src, tokens = torch.randint(4, V, (4, 37)), torch.randint(4, V, (20, 4, 3))
    mask = masks.from_lengths(lengths)
    together = engine.start(engine.encode(src, mask), mask)
    alone = [engine.start(engine.encode(src[at : at + 1, :length])) for at, length in enumerate(lengths.tolist())]
    first = engine.step(tokens[0, :, 0], together)
    for at, state in enumerate(alone):
        assert torch.equal(engine.step(tokens[0, at, :1], state), first[at : at + 1])
    wide, own = torch.arange(4).repeat_interleave(3), torch.zeros(3, dtype=torch.int64)
    for step in range(1, 20):
        found = engine.step(tokens[step].flatten(), together, wide if step == 1 else None)
        for at, state in enumerate(alone):
            single = engine.step(tokens[step, at], state, own if step == 1 else None)
            assert torch.equal(single, found[3 * at : 3 * at + 3])


@torch.no_grad()
def test_a_wrong_number_of_tokens_is_refused() -> None:
    engine = engine_of(make("ours", torch.float32))
    src, _, mask, _ = batch()
    for state, rows in ((engine.start(engine.encode(src, mask), mask), 3), (engine.start(None), 3)):
        first = torch.tensor([4, 5, 6])
        if state.source is not None:
            with pytest.raises(DataError, match="got 6 tokens for a state of 3 rows"):
                engine.step(torch.zeros(6, dtype=torch.int64), state)
        engine.step(first, state)
        with pytest.raises(DataError, match="got 1 tokens for a state of 3 rows; give one token a row"):
            engine.step(first[:1], state)
        with pytest.raises(DataError, match="got 3 tokens for a state of 2 rows"):
            engine.step(first, state, torch.tensor([0, 1]))
        assert state.length == 1
        assert rows == 3


@pytest.mark.parametrize("name", ["learned", "table"])
@torch.no_grad()
def test_positions_that_end_are_refused_past_their_end(name: str) -> None:
    engine = engine_of(make(name, torch.float32, max_length=3))
    state = engine.start(None)
    for _ in range(3):
        engine.step(torch.tensor([4]), state)
    with pytest.raises(DataError, match="a sentence of 4 tokens is longer than the 3 positions"):
        engine.step(torch.tensor([4]), state)


def test_masks_have_to_be_boolean() -> None:
    engine = engine_of(make("ours", torch.float32))
    with pytest.raises(DataError, match="give booleans"):
        engine.encode(batch()[0], torch.ones(3, 6))


def test_a_search_may_change_the_logits_in_place() -> None:
    engine = engine_of(make("ours", torch.float32))
    logits = engine.step(torch.tensor([4]), engine.start(None))
    assert not logits.is_inference()
    assert not logits.requires_grad
    logits[0, 0] = float("-inf")


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_model_stays_as_it_is(precision: str) -> None:
    model = make("paper", torch.float32)
    before = copy.deepcopy(model.state_dict())
    for _, ours in both(model, engine_of(model, precision), MASKS["padded"], 1):
        assert bool(ours.isfinite().all())
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    # What the engine ran in inference mode can still be trained: the tables that grew are ordinary tensors.
    src, tgt, _, _ = batch()
    model(src, tgt).sum().backward()


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("name", ["ours", "paper", "modern", "no encoder layers"])
def test_a_consumed_model_leaves_the_same_engine_and_no_second_copy(name: str, precision: str) -> None:
    model = make(name, torch.float32)
    kept, spent = engine_of(model, precision), copy.deepcopy(model)
    consumed = fast(spent, precision, consume=True)  # type: ignore[arg-type]
    src, tgt, mask, _ = batch()
    memory = kept.encode(src, mask)
    assert torch.equal(consumed.encode(src, mask), memory)
    one, two = kept.start(memory, mask), consumed.start(memory, mask)
    assert torch.equal(consumed.step(tgt[:, 0], two), kept.step(tgt[:, 0], one))
    matrices = [part.weight for part in spent.modules() if isinstance(part, torch.nn.Linear)]
    assert sum(weight.numel() for weight in matrices) in (0, spent.tgt_embedding.weight.numel())
    assert all(parameter.numel() for parameter in model.parameters())


def test_a_model_in_training_mode_decodes_without_dropout() -> None:
    model = make("ours", torch.float32, dropout=0.5).train()
    engine = engine_of(model)
    one, two = (engine.encode(batch()[0]) for _ in range(2))
    assert torch.equal(one, two)
    close(one, model.eval().encode(batch()[0]).detach(), FLOAT32)


def test_threads_change_nothing() -> None:
    # Wide enough that the products are shared out.
    model = make("ours", torch.float32, d_model=192, d_ff=384, n_encoder_layers=1, n_decoder_layers=1)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append([ours for _, ours in both(model, engine_of(model), MASKS["padded"], 2, steps=3)])
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        close(one, two, REORDERED)


def test_the_model_itself_stands_in_where_the_engine_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = make("ours", torch.float64)
    assert fast(wide) is wide
    with pytest.raises(ConfigError, match="int8 needs a float32 model on an x86 processor; use precision fp32 here"):
        fast(wide, "int8")
    narrow = make("ours", torch.float32)
    monkeypatch.setattr(engine_module.platform, "machine", lambda: "arm64")
    assert fast(narrow) is narrow
    with pytest.raises(ConfigError, match="int8"):
        fast(narrow, "int8")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError, match='there is no precision "int4" for the engine; use fp32 or int8'):
        fast(make("ours", torch.float32), "int4")  # type: ignore[arg-type]
