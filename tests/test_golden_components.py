"""The parts alone against the other implementations' numbers: positions, norms, attention, feed-forward, masks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dragoman.interop.positions import published_sinusoids
from dragoman.interop.valid_len import column_table, ramp_table
from dragoman.model import masks
from dragoman.model.attention import MultiHeadAttention, attention_weights, scaled_dot_product
from dragoman.model.feedforward import FeedForward, GatedFeedForward
from dragoman.model.norms import make_norm
from dragoman.model.positions import sinusoid_table
from goldens import tensors
from tolerances import FLOAT32, FLOAT64

POSITIONS, NORMS, CORE, FEED = (tensors(name) for name in ("positions", "norms", "attention_core", "feed_forward"))
VALID_LEN, MASKS = tensors("valid_len_attention"), tensors("masks")


def close(ours: Tensor, theirs: Tensor, tolerance: float = FLOAT64) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize(
    ("table", "name"),
    [(ramp_table, "ramp"), (column_table, "column"), (sinusoid_table, "paper_pow"), (sinusoid_table, "paper_exp")],
)
def test_position_tables(table: object, name: str) -> None:
    assert callable(table)
    close(table(12, 10), POSITIONS[f"f64/{name}/table"])
    close(table(12, 10).float(), POSITIONS[f"f32/{name}/table"], FLOAT32)
    if f"f64/{name}/odd" in POSITIONS:
        close(table(6, 7), POSITIONS[f"f64/{name}/odd"])
    for row in (255, 349, 4999):
        if f"f64/{name}/row{row}" in POSITIONS:
            close(table(row + 1, 16)[row], POSITIONS[f"f64/{name}/row{row}"])


def test_the_published_order_of_operations_is_met_bit_for_bit() -> None:
    assert torch.equal(published_sinusoids(12, 10, torch.float32), POSITIONS["f32/paper_exp/table"])
    for row in (255, 349, 4999):
        ours, theirs = published_sinusoids(row + 1, 16, torch.float32)[row], POSITIONS[f"f32/paper_exp/row{row}"]
        close(ours, theirs, FLOAT32)


@pytest.mark.parametrize(
    ("name", "kind", "eps"),
    [
        ("torch", "layer", 1e-5),
        ("hyunwoongko", "layer", 1e-12),
        ("annotated", "std", 1e-6),
        ("hkproj_article", "std_scalar", 1e-6),
    ],
)
def test_norms(name: str, kind: str, eps: float) -> None:
    for precision, dtype in (("f64", torch.float64), ("f32", torch.float32)):
        norm = make_norm(kind, 8, eps).to(dtype)
        scalar = "scalar_" if kind == "std_scalar" else ""
        norm.load_state_dict({"weight": NORMS[f"input/{scalar}gain"], "bias": NORMS[f"input/{scalar}bias"]})
        x = NORMS["input/x"].to(dtype, copy=True).requires_grad_()
        output = norm(x)
        wanted = NORMS[f"{precision}/{name}/output"]
        if precision == "f64":
            close(output, wanted)
            (output * NORMS["input/probe"]).sum().backward()
            assert x.grad is not None
            rows = [0, 2, 3, 4]
            close(x.grad[rows], NORMS[f"f64/{name}/grad_x"][rows])
        else:
            close(output[[0, 4]], wanted[[0, 4]], FLOAT32)
            # A mean of 1000 leaves 1e-3 of a spread near one in float32.
            close(output[2], wanted[2], 1e-3)


def core_heads(name: str) -> Tensor:
    return CORE[f"input/{name}"].double().unflatten(-1, (3, 4)).transpose(1, 2)


@pytest.mark.parametrize("fill", ["-1e6", "-1e4", "-1e9", "-inf"])
@pytest.mark.parametrize("mask", ["allowed_keys", "allowed_dead_row"])
def test_attention_core(fill: str, mask: str) -> None:
    """Where something may be attended to, every fill value gives our weights; a dead row is ours: all zero."""
    query, key, value = (core_heads(name) for name in ("query", "key", "value"))
    allowed = CORE[f"input/{mask}"]
    guarded = masks.AttentionMask(allowed | ~allowed.any(-1, keepdim=True), allowed.any(-1, keepdim=True))
    weights = attention_weights(query, key, guarded)
    context = scaled_dot_product(query, key, value, guarded).transpose(1, 2).flatten(2)
    live = allowed.any(-1).expand(2, 3, 3)
    close(weights[live], CORE[f"f64/fill_{fill}/{mask}/probabilities"][live])
    close(context[live[:, 0]], CORE[f"f64/fill_{fill}/{mask}/context"][live[:, 0]])
    assert float(weights[~live].abs().sum()) == float(context[~live[:, 0]].abs().sum()) == 0.0
    single = scaled_dot_product(query.float(), key.float(), value.float(), guarded).transpose(1, 2).flatten(2)
    close(single[live[:, 0]], CORE[f"f32/fill_{fill}/{mask}/context"][live[:, 0]], FLOAT32)


def test_attention_without_a_mask() -> None:
    query, key, value = (core_heads(name) for name in ("query", "key", "value"))
    close(attention_weights(query, key), CORE["f64/no_mask/none/probabilities"])
    close(scaled_dot_product(query, key, value).transpose(1, 2).flatten(2), CORE["f64/no_mask/none/context"])


def test_a_hidden_key_never_wins() -> None:
    query, key = (CORE[f"input/large_{name}"].double()[None] for name in ("query", "key"))
    mask = masks.for_keys(torch.tensor([[True, False]]))
    weights = attention_weights(query, key, mask)
    assert weights.flatten().tolist() == [1.0, 0.0]
    close(weights, CORE["f64/fill_-inf/large_score/probabilities"])
    assert not torch.equal(weights, CORE["f64/fill_-1e4/large_score/probabilities"])


def article_attention() -> MultiHeadAttention:
    attention = MultiHeadAttention(12, 3, biases="").double()
    names = {"query": "W_Q", "key": "W_K", "value": "W_V", "output": "W_O"}
    attention.load_state_dict({f"{ours}.weight": VALID_LEN[f"param/{name}.weight"] for ours, name in names.items()})
    return attention


def test_the_newest_query_sees_every_cached_key() -> None:
    attention, weights = article_attention(), list[Tensor]()
    query, keys = VALID_LEN["input/query"].double(), VALID_LEN["input/keys"].double()
    close(attention(query, keys, record=weights), VALID_LEN["f64/repaired/step_output"])
    close(weights[0], VALID_LEN["f64/repaired/step_probabilities"])
    # As published, the query sees the first key alone.
    first = torch.arange(5)[None].expand(2, 5) == 0
    close(attention(query, keys, masks.for_keys(first)), VALID_LEN["f64/as_written/step_output"])


def test_a_square_without_lengths_is_causal_in_the_article() -> None:
    x = VALID_LEN["input/square"].double()
    close(article_attention()(x, causal=True), VALID_LEN["f64/as_written/square_output"])
    real = masks.from_lengths(torch.tensor([3, 5]), 5)
    close(article_attention()(x, mask=masks.for_keys(real))[0], VALID_LEN["f64/as_written/length_output"][0])


def test_feed_forward() -> None:
    for kind in ("relu", "glu", "bilinear", "reglu", "geglu", "swiglu", "gated_relu_with_biases"):
        biased = kind in ("relu", "gated_relu_with_biases")
        part: FeedForward | GatedFeedForward
        if kind == "relu":
            part = FeedForward(8, 12)
        else:
            part = GatedFeedForward(8, 12, "reglu" if biased else kind, bias=biased)
        names = {"inner.weight": "w1", "inner.bias": "b1", "output.weight": "w2", "output.bias": "b2"}
        names |= {"value.weight": "w_gate", "value.bias": "b_gate"}
        part.load_state_dict({name: FEED[f"input/{names[name]}"] for name in part.state_dict()})
        close(part(FEED["input/x"]), FEED[f"f32/{kind}/output"], FLOAT32)
        close(part.double()(FEED["input/x"].double()), FEED[f"f64/{kind}/output"])


@pytest.mark.parametrize("kind", ["hkproj", "annotated", "hyunwoongko", "labml"])
def test_source_masks(kind: str) -> None:
    mask = masks.for_keys(MASKS["input/ids"] != 1)
    assert mask is not None
    theirs = MASKS[f"{kind}/source"].bool()
    ours = mask.allowed[:, 0, 0]
    assert torch.equal(ours, theirs[0].T if kind == "labml" else theirs.reshape(3, 5))


@pytest.mark.parametrize("kind", ["hkproj", "annotated", "labml"])
def test_target_masks(kind: str) -> None:
    mask = masks.for_causal(MASKS["input/ids"] != 1, 5)
    assert mask is not None
    theirs = MASKS[f"{kind}/target"].bool()
    theirs = theirs.permute(2, 0, 1) if kind == "labml" else theirs.reshape(3, 5, 5)
    assert mask.open is not None
    live = mask.open[:, 0, :, 0]
    assert torch.equal(mask.allowed[:, 0][live], theirs[live])
    assert not theirs[~live].any()


def test_masks_from_lengths_and_the_causal_one() -> None:
    lengths = torch.tensor([4, 2, 5])
    assert torch.equal(masks.from_lengths(lengths), ~MASKS["valid_len/hidden"][:, 0])
    assert torch.equal(masks.causal(5), ~MASKS["torch/causal_blocked"])
    assert torch.equal(masks.causal(5), MASKS["labml/causal"][..., 0])
