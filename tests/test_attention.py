"""Attention: against a plain loop, fused against explicit, rows with nothing to attend to, the module's parts."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.errors import ConfigError
from dragoman.model import masks
from dragoman.model.attention import MultiHeadAttention, attention_weights, scaled_dot_product, shared_memory_attention
from dragoman.model.masks import AttentionMask
from dragoman.model.positions import Rotary
from model_variants import close
from tolerances import BFLOAT16, FLOAT16, FLOAT32

PRECISIONS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def random_tensors(*shapes: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


def by_hand(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """One softmax after another, in Python's own arithmetic; nothing allowed gives zeros."""
    sentences, heads, length, width = query.shape
    groups = heads // key.shape[1]
    allowed = allowed.expand(sentences, heads, length, key.shape[2])
    weights = torch.zeros(sentences, heads, length, key.shape[2], dtype=torch.float64)
    context = torch.zeros(sentences, heads, length, value.shape[3], dtype=torch.float64)
    for b in range(sentences):
        for h in range(heads):
            for t in range(length):
                keys = [s for s in range(key.shape[2]) if allowed[b, h, t, s]]
                scores = [float(query[b, h, t] @ key[b, h // groups, s]) / math.sqrt(width) for s in keys]
                total = sum(math.exp(score) for score in scores)
                for s, score in zip(keys, scores, strict=True):
                    weights[b, h, t, s] = math.exp(score) / total
                    context[b, h, t] += weights[b, h, t, s] * value[b, h // groups, s]
    return weights, context


SHAPES = st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 2), st.integers(1, 4), st.integers(1, 4))


@settings(max_examples=40)
@given(shape=SHAPES, width=st.integers(1, 5), seed=st.integers(0, 999), kind=st.sampled_from(["none", "keys", "rows"]))
def test_both_paths_are_the_formula(shape: tuple[int, int, int, int, int], width: int, seed: int, kind: str) -> None:
    sentences, kv_heads, groups, length, keys = shape
    query, key, value, coin = random_tensors(
        (sentences, kv_heads * groups, length, width),
        (sentences, kv_heads, keys, width),
        (sentences, kv_heads, keys, width),
        (sentences, 1, length if kind == "rows" else 1, keys),
        seed=seed,
    )
    truth = coin > 0 if kind != "none" else torch.ones_like(coin, dtype=torch.bool)
    is_open = truth.any(-1, keepdim=True)
    mask = None if kind == "none" else AttentionMask(truth | ~is_open, is_open)
    weights, context = by_hand(query, key, value, truth)
    record: list[Tensor] = []
    close(scaled_dot_product(query, key, value, mask), context)
    close(scaled_dot_product(query, key, value, mask, record=record), context)
    close(record[0], weights)
    close(attention_weights(query, key.repeat_interleave(groups, 1), mask), weights)
    sums = weights.sum(-1)
    close(sums, is_open[..., 0].expand_as(sums).double() if mask is not None else torch.ones_like(sums))


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (2, 5), (5, 2), (1, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_the_causal_rule_on_both_paths(queries: int, keys: int, masked: bool) -> None:
    """With a mask of keys too, and where queries and keys differ in number; one row is dead."""
    query, key, value = random_tensors((2, 2, queries, 3), (2, 2, keys, 3), (2, 2, keys, 3))
    real = torch.ones(2, keys, dtype=torch.bool)
    if masked:
        real[1, 0] = False
    mask = masks.for_keys(real) if masked else None
    rule = torch.tensor([[s <= t for s in range(keys)] for t in range(queries)])
    weights, context = by_hand(query, key, value, rule & real[:, None, None, :])
    close(scaled_dot_product(query, key, value, mask, causal=True), context)
    record: list[Tensor] = []
    close(scaled_dot_product(query, key, value, mask, causal=True, record=record), context)
    close(record[0], weights)


def both_paths(query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask | None, explicit: bool) -> Tensor:
    return scaled_dot_product(query, key, value, mask, record=[] if explicit else None)


def dead_row_mask() -> AttentionMask:
    made = masks.for_causal(torch.tensor([[True] * 4, [False] * 4, [False, False, True, True]]), 4)
    assert made is not None
    return made


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_a_dead_row_is_zero_forward_and_backward(dtype: torch.dtype, explicit: bool, p: float) -> None:
    mask = dead_row_mask()
    assert mask.open is not None
    dead = ~mask.open.expand(3, 2, 4, 1)[..., 0]
    assert dead.any()
    inputs = random_tensors((3, 2, 4, 5), (3, 2, 4, 5), (3, 2, 4, 5), dtype=dtype)
    for tensor in inputs:
        tensor.requires_grad_()
    query, key, value = inputs
    record: list[Tensor] | None = [] if explicit else None
    out = scaled_dot_product(query, key, value, mask, p=p, record=record)
    assert out.dtype == dtype
    assert (out[dead] == 0).all()
    assert out.isfinite().all()
    out.sum().backward()
    for tensor in inputs:
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        # Nothing flows through the second sentence, which is dead as a whole.
        assert (tensor.grad[1] == 0).all()
    assert query.grad is not None
    assert (query.grad[dead] == 0).all()
    if record is not None:
        assert (record[0][dead] == 0).all()


@pytest.mark.parametrize("masked", [False, True])
def test_the_gradients_of_both_paths_are_those_of_finite_differences(masked: bool) -> None:
    mask = dead_row_mask() if masked else None
    inputs = random_tensors((3, 2, 4, 3), (3, 1, 4, 3), (3, 1, 4, 3))
    for tensor in inputs:
        tensor.requires_grad_()
    for explicit in (False, True):
        run = partial(both_paths, mask=mask, explicit=explicit)
        assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, FLOAT32), (torch.float16, FLOAT16), (torch.bfloat16, BFLOAT16)]
)
def test_both_paths_agree_in_lower_precisions(dtype: torch.dtype, tolerance: float) -> None:
    exact = random_tensors((3, 2, 4, 8), (3, 2, 4, 8), (3, 2, 4, 8))
    wanted = scaled_dot_product(*exact, dead_row_mask())
    for explicit in (False, True):
        close(both_paths(*(x.to(dtype) for x in exact), dead_row_mask(), explicit).double(), wanted, tolerance)


@pytest.mark.parametrize("explicit", [False, True])
def test_large_float16_scores_stay_finite(explicit: bool) -> None:
    """Products of 64 features that leave float16's range fit once scaled by 1/8."""
    query, key = (60 * x for x in random_tensors((1, 1, 5, 64), (1, 1, 5, 64), dtype=torch.float16))
    query[0, 0, 0] = key[0, 0, 0] = 40.0
    assert float(query[0, 0, 0].double() @ key[0, 0, 0].double()) > torch.finfo(torch.float16).max
    assert both_paths(query, key, key, None, explicit).isfinite().all()


@pytest.mark.parametrize("explicit", [False, True])
def test_what_stands_under_a_hidden_key_counts_for_nothing(explicit: bool) -> None:
    query, key, value = random_tensors((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4))
    real = masks.from_lengths(torch.tensor([3, 5]))
    before = both_paths(query, key, value, masks.for_keys(real), explicit)
    key[0, :, 3:], value[0, :, 3:] = 1e3, -1e30
    assert torch.equal(both_paths(query, key, value, masks.for_keys(real), explicit), before)


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_no_keys_at_all_give_zeros(explicit: bool, masked: bool) -> None:
    query, key = random_tensors((2, 2, 3, 4), (2, 2, 0, 4))
    mask = masks.for_keys(torch.ones(2, 0, dtype=torch.bool)) if masked else None
    out = both_paths(query, key, key, mask, explicit)
    assert out.shape == (2, 2, 3, 4)
    assert (out == 0).all()


def test_dropout_drops_weights_keeps_their_expectation_and_is_not_recorded() -> None:
    """With values that are the unit vectors, the result is the dropped weights themselves."""
    (query, key), value = (
        random_tensors((400, 2, 10, 4), (400, 2, 10, 4)),
        torch.eye(10).double().expand(400, 2, 10, 10),
    )
    torch.manual_seed(0)
    record: list[Tensor] = []
    dropped = scaled_dot_product(query, key, value, p=0.25, record=record)
    weights = attention_weights(query, key)
    close(record[0], weights)
    kept = dropped != 0
    close(dropped[kept], weights[kept] / 0.75, FLOAT32)
    # Six standard deviations of the share of 80,000 coins.
    assert abs(kept.double().mean().item() - 0.75) < 6 * math.sqrt(0.25 * 0.75 / 80_000)


def composed(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor, value: Tensor, heads: int, kv_heads: int
) -> Tensor:
    """The module's formula head by head, from its matrices."""
    query, key, value = attention.query(x), attention.key(memory), attention.value(value)
    width = query.shape[-1] // heads
    parts = []
    for head in range(heads):
        own, shared = slice(head * width, (head + 1) * width), head // (heads // kv_heads)
        group = slice(shared * width, (shared + 1) * width)
        scores = query[..., own] @ key[..., group].transpose(1, 2) / math.sqrt(width)
        parts.append(scores.softmax(-1) @ value[..., group])
    out: Tensor = attention.output(torch.cat(parts, -1))
    return out


@pytest.mark.parametrize(
    ("heads", "kv_heads", "widths"),
    [
        (1, 1, {}),
        (4, 4, {}),
        (4, 2, {}),
        (4, 1, {"d_inner": 20}),
        (3, 3, {"d_inner": 9, "d_key": 5}),
        (2, 2, {"d_key": 5, "d_value": 7}),
        (6, 2, {"d_inner": 18, "d_key": 5, "d_value": 7}),
    ],
)
def test_the_module_head_by_head(heads: int, kv_heads: int, widths: dict[str, int]) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(12, heads, kv_heads, **widths).double()
    d_key = widths.get("d_key", 12)
    x, memory, value = random_tensors((2, 3, 12), (2, 4, d_key), (2, 4, widths.get("d_value", d_key)))
    given_value = value if "d_value" in widths else None
    wanted = composed(attention, x, memory, memory if given_value is None else value, heads, kv_heads)
    close(attention(x, memory, value=given_value), wanted)
    inner = widths.get("d_inner", 12)
    assert attention.query.weight.shape == (inner, 12)
    assert attention.key.weight.shape == (inner // heads * kv_heads, d_key)
    assert attention.output.weight.shape == (12, inner)


def test_without_a_memory_it_attends_to_itself() -> None:
    attention = MultiHeadAttention(8, 2).double()
    (x,) = random_tensors((2, 5, 8))
    assert torch.equal(attention(x), attention(x, x))
    causal, alone = attention(x, causal=True), attention(x[:, :3], causal=True)
    close(causal[:, :3], alone)
    assert not torch.allclose(causal, attention(x))


def test_a_causal_layer_with_a_mask_of_keys_stays_causal() -> None:
    attention = MultiHeadAttention(8, 2).double()
    (x,) = random_tensors((2, 5, 8))
    real = torch.tensor([[True] * 5, [False, True, True, True, False]])
    wanted = attention(x, mask=masks.for_causal(real, 5))
    close(attention(x, mask=masks.for_keys(real), causal=True), wanted)
    close(attention(x, mask=masks.for_keys(real), causal=True, record=[]), wanted)


@pytest.mark.parametrize("biases", ["", "q", "kv", "o", "qkvo"])
def test_biases_by_letter(biases: str) -> None:
    attention = MultiHeadAttention(8, 2, biases=biases)
    parts = {"q": attention.query, "k": attention.key, "v": attention.value, "o": attention.output}
    assert {letter for letter, part in parts.items() if part.bias is not None} == set(biases)


@pytest.mark.parametrize("sizes", [{"n_heads": 3}, {"n_heads": 4, "n_kv_heads": 3}, {"n_heads": 4, "d_inner": 10}])
def test_heads_that_do_not_fit_are_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be a multiple of the heads"):
        MultiHeadAttention(8, **sizes)


def test_rotary_scores_depend_on_distance_alone() -> None:
    """Shifting all positions changes nothing; without a start they would count from zero."""
    attention = MultiHeadAttention(8, 2, rotary=Rotary(4)).double()
    (x,) = random_tensors((1, 5, 8))
    wanted = attention_weights(attention.queries(x), attention.keys_values(x)[0])
    shifted = attention_weights(attention.queries(x, 70), attention.keys_values(x, start=70)[0])
    close(shifted, wanted)
    apart = attention_weights(attention.queries(x, 70), attention.keys_values(x)[0])
    assert (apart - wanted).abs().max() > 0.01


def test_rotary_leaves_values_alone() -> None:
    torch.manual_seed(0)
    turned, plain = (MultiHeadAttention(8, 2, rotary=rotary).double() for rotary in (Rotary(4), None))
    plain.load_state_dict(turned.state_dict())
    (x,) = random_tensors((1, 5, 8))
    assert torch.equal(turned.keys_values(x)[1], plain.keys_values(x)[1])
    assert not torch.equal(turned.keys_values(x)[0], plain.keys_values(x)[0])


@pytest.mark.parametrize("beam", [1, 3])
def test_rows_that_share_a_source_are_those_with_copies_of_it(beam: int) -> None:
    attention = MultiHeadAttention(8, 4, 2).double()
    x, memory = random_tensors((2 * beam, 1, 8), (2, 5, 8))
    real = torch.tensor([[True] * 5, [False, True, False, False, True]])
    mask, copies = masks.for_keys(real), masks.for_keys(real.repeat_interleave(beam, 0))
    shared = shared_memory_attention(attention, x, *attention.keys_values(memory), mask)
    close(shared, attention(x, memory.repeat_interleave(beam, 0), copies))


def test_attention_dropout_acts_in_training_alone() -> None:
    attention = MultiHeadAttention(8, 2, dropout=0.5).double()
    (x,) = random_tensors((2, 5, 8))
    torch.manual_seed(0)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))
