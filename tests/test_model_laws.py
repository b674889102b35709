"""Laws that hold for every variant of the model. Shapes: B batch, S source length, T target length, V vocabulary."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.errors import ConfigError, DataError
from dragoman.model import masks
from dragoman.model.transformer import Transformer
from tolerances import BFLOAT16, FLOAT16, FLOAT64, REORDERED

V = 13
BASE: dict[str, Any] = {
    "src_vocab_size": V,
    "tgt_vocab_size": V,
    "d_model": 12,
    "n_heads": 3,
    "n_encoder_layers": 2,
    "n_decoder_layers": 2,
    "d_ff": 20,
    "max_length": 16,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "ours": {},
    "paper": {"norm_first": False, "final_norm": False, "tie_embeddings": "all", "output_bias": False},
    "post-norm with final norm": {"norm_first": False},
    "odd width": {"d_model": 15},
    "one head": {"n_heads": 1},
    "rms": {"norm": "rms"},
    "std": {"norm": "std", "norm_eps": 1e-6},
    "std, one gain": {"norm": "std_scalar", "norm_first": False},
    "halves": {"positions": "sinusoidal_halves", "scale_embeddings": False},
    "halves, odd": {"positions": "sinusoidal_halves", "d_model": 9},
    "learned": {"positions": "learned", "tie_embeddings": "decoder"},
    "rotary": {"positions": "rotary", "d_model": 12, "n_heads": 3},
    "no positions": {"positions": "none"},
    "table": {"positions": "table"},
    "shared heads": {"n_heads": 6, "n_kv_heads": 2, "positions": "rotary"},
    "one key head": {"n_kv_heads": 1},
    "no biases": {"attention_bias": False, "feed_forward_bias": False, "output_bias": False},
    "some biases": {"attention_bias": "qo"},
    **{kind: {"feed_forward": kind} for kind in ("gelu", "silu", "glu", "bilinear", "reglu", "geglu", "swiglu")},
    "kaiming": {"init": "kaiming", "embedding_init": "like_init"},
    "torch": {"init": "torch", "embedding_init": "like_init"},
    "no encoder layers": {"n_encoder_layers": 0},
}


def make(name: str = "ours", dtype: torch.dtype = torch.float64, **changes: Any) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(ModelConfig(**{**BASE, **VARIANTS[name], **changes})).to(dtype).eval()
    if isinstance(getattr(model.src_positions, "weight", None), Tensor) and name == "table":
        for table in (model.src_positions.weight, model.tgt_positions.weight):
            table.normal_()
    return model


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Transformer:
    return make(request.param)


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Three sentences of unequal length; what stands in the padded places is arbitrary."""
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(0, V, (3, 6), generator=generator)
    tgt = torch.randint(0, V, (3, 5), generator=generator)
    return src, tgt, masks.from_lengths(torch.tensor([6, 3, 1])), masks.from_lengths(torch.tensor([5, 2, 4]))


def close(ours: Tensor, theirs: Tensor, tolerance: float = FLOAT64) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=tolerance)


def test_padded_equals_unpadded_and_batched_equals_single(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    together = variant(src, tgt, src_mask, tgt_mask)
    for row in range(3):
        s, t = int(src_mask[row].sum()), int(tgt_mask[row].sum())
        alone = variant(src[row : row + 1, :s], tgt[row : row + 1, :t])
        close(together[row : row + 1, :t], alone)


def test_what_stands_in_padding_changes_nothing_not_even_gradients(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()

    def run(fill: int) -> tuple[Tensor, list[Tensor]]:
        variant.zero_grad()
        logits = variant(src.masked_fill(~src_mask, fill), tgt.masked_fill(~tgt_mask, fill), src_mask, tgt_mask)
        real = logits[tgt_mask]
        real.square().sum().backward()
        return real, [parameter.grad.clone() for parameter in variant.parameters() if parameter.grad is not None]

    one, other = run(1), run(7)
    close(one[0], other[0])
    for left, right in zip(one[1], other[1], strict=True):
        close(left, right)


def test_padding_on_the_left_counts_as_padding() -> None:
    model = make(positions="none")
    src, tgt, _, _ = batch()
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[:, :2] = False
    close(model(src, tgt, mask), model(src[:, 2:], tgt))


def test_causal_attention_alone_hides_right_padding(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    close(variant(src, tgt, src_mask)[tgt_mask], variant(src, tgt, src_mask, tgt_mask)[tgt_mask])


def test_no_target_position_sees_a_later_one(variant: Transformer) -> None:
    src, tgt, src_mask, _ = batch()
    before = variant(src, tgt, src_mask)
    for changed in range(1, tgt.shape[1]):
        other = tgt.clone()
        other[:, changed] = (other[:, changed] + 1) % V
        after = variant(src, other, src_mask)
        assert torch.equal(before[:, :changed], after[:, :changed])
        assert not torch.equal(before[:, changed], after[:, changed])


def test_every_source_position_is_seen_from_everywhere() -> None:
    model = make()
    src, tgt, _, _ = batch()
    before = model(src, tgt)
    for changed in range(src.shape[1]):
        other = src.clone()
        other[:, changed] = (other[:, changed] + 1) % V
        assert (model(other, tgt) != before).any(-1).all()


def test_cached_equals_uncached(variant: Transformer) -> None:
    src, tgt, src_mask, _ = batch()
    logits = variant(src, tgt, src_mask)
    state = variant.start(variant.encode(src, src_mask), src_mask)
    for place in range(tgt.shape[1]):
        close(variant.step(tgt[:, place], state), logits[:, place])


def test_cached_equals_uncached_with_parents(variant: Transformer) -> None:
    """Rows are doubled, shuffled inside their sentences, dropped, mixed between sentences, and doubled again."""
    src, _, src_mask, _ = batch()
    state = variant.start(variant.encode(src, src_mask), src_mask)
    generator = torch.Generator().manual_seed(2)
    moves = [None, [0, 0, 1, 1, 2, 2], [1, 0, 2, 3, 5, 4], [0, 1, 4, 4], [3, 0, 1], [0, 0, 0, 2], [1], [0, 0]]
    sources, history = torch.arange(3), torch.empty(3, 0, dtype=torch.int64)
    for move in moves:
        parents = None if move is None else torch.tensor(move)
        if parents is not None:
            sources, history = sources[parents], history[parents]
        tokens = torch.randint(0, V, (len(sources),), generator=generator)
        history = torch.cat([history, tokens[:, None]], 1)
        expected = variant(src[sources], history, src_mask[sources])[:, -1]
        close(variant.step(tokens, state, parents), expected)


@given(moves=st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=6), min_size=1, max_size=6))
def test_any_parents(moves: list[list[int]]) -> None:
    model = make("shared heads")
    src, _, src_mask, _ = batch()
    state = model.start(model.encode(src, src_mask), src_mask)
    sources, history = torch.arange(3), torch.zeros(3, 1, dtype=torch.int64)
    model.step(history[:, 0], state)
    for move in moves:
        parents = torch.tensor([place % len(sources) for place in move])
        sources, history = sources[parents], history[parents]
        tokens = torch.tensor([place % V for place in move])
        history = torch.cat([history, tokens[:, None]], 1)
        close(model.step(tokens, state, parents), model(src[sources], history, src_mask[sources])[:, -1])


def test_long_decoding_outgrows_the_first_buffers() -> None:
    model = make("rotary")
    src, _, src_mask, _ = batch()
    tgt = torch.randint(0, V, (3, 150), generator=torch.Generator().manual_seed(3))
    logits = model(src, tgt, src_mask)
    state = model.start(model.encode(src, src_mask), src_mask)
    stepped = torch.stack([model.step(tgt[:, place], state) for place in range(150)], 1)
    close(stepped, logits)


def test_attention_weights_are_those_of_the_fused_path(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    logits, attention = variant(src, tgt, src_mask, tgt_mask, return_attention=True)
    close(logits, variant(src, tgt, src_mask, tgt_mask))
    config = variant.config
    assert len(attention.encoder) == config.n_encoder_layers
    assert len(attention.decoder) == len(attention.cross) == config.n_decoder_layers
    for weights in attention.encoder + attention.cross:
        assert weights.shape[1] == config.n_heads
        close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
        assert (weights * ~src_mask[:, None, None, :] == 0).all()
    for weights in attention.decoder:
        close(
            weights.sum(-1)[tgt_mask[:, None].expand(-1, config.n_heads, -1)], torch.ones(config.n_heads * 11).double()
        )
        assert (weights.triu(1) == 0).all()


def test_save_and_load_give_the_same_model(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    other = Transformer(variant.config).double().eval()
    other.load_state_dict(variant.state_dict())
    assert torch.equal(other(src, tgt, src_mask, tgt_mask), variant(src, tgt, src_mask, tgt_mask))
    assert torch.equal(copy.deepcopy(variant)(src, tgt), variant(src, tgt))


def test_gradients_reach_every_parameter(variant: Transformer) -> None:
    """Key biases excepted: they add the same to all scores of a query, which the softmax does not see.

    Rotary positions turn the keys after the bias, so there they do count.
    """
    tokens = torch.arange(V)[None]
    variant(tokens, tokens).square().sum().backward()
    for name, parameter in variant.named_parameters():
        assert parameter.grad is not None, name
        if name.endswith("key.bias") and (variant.config.positions != "rotary" or "cross" in name):
            assert parameter.grad.abs().max() < FLOAT64 * 100, name
        elif name.endswith("positions.weight"):
            assert (parameter.grad[:V] != 0).any(-1).all(), name
            assert (parameter.grad[V:] == 0).all(), name
        else:
            assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_row_with_nothing_to_attend_to_is_finite(dtype: torch.dtype, explicit: bool, dropout: float) -> None:
    model = make(dtype=dtype, dropout=dropout).train(dropout > 0)
    src, tgt, src_mask, tgt_mask = batch()
    src_mask, tgt_mask = src_mask.clone(), tgt_mask.clone()
    src_mask[1] = False
    tgt_mask[2] = False
    tgt_mask[0, 0] = False
    out = model(src, tgt, src_mask, tgt_mask, return_attention=explicit)
    logits = out[0] if isinstance(out, tuple) else out
    assert logits.isfinite().all()
    logits.float().square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)
    if isinstance(out, tuple):
        assert (out[1].cross[0][1] == 0).all()
        assert (out[1].decoder[0][0, :, 0] == 0).all()
        assert (out[1].encoder[0][1] == 0).all()


def test_a_dead_source_adds_nothing_but_the_output_bias() -> None:
    """Attention over no source is zero: the same as a memory of zeros."""
    model = make(attention_bias="qko")
    src, tgt, _, _ = batch()
    nothing = torch.zeros(3, 6, dtype=torch.bool)
    memory = model.encode(src)
    close(model.decode(tgt, memory, nothing), model.decode(tgt, torch.zeros_like(memory)))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, REORDERED), (torch.bfloat16, BFLOAT16 * 4), (torch.float16, FLOAT16 * 2)]
)
def test_lower_precisions_stay_near(dtype: torch.dtype, tolerance: float) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    exact = make()(src, tgt, src_mask, tgt_mask)
    rough = make(dtype=dtype)(src, tgt, src_mask, tgt_mask)
    close(rough.double()[tgt_mask], exact[tgt_mask], tolerance)


def test_decoder_only() -> None:
    model = make()
    _, tgt, _, tgt_mask = batch()
    hidden = model.decode(tgt, None, None, tgt_mask)
    close(hidden, model.decoder(model.embed_tgt(tgt), None, tgt_mask=tgt_mask))
    state = model.start(None)
    stepped = torch.stack([model.step(tgt[:, place], state) for place in range(tgt.shape[1])], 1)
    close(stepped, model.project(model.decode(tgt, None)))
    for name, parameter in model.named_parameters():
        if "cross" in name:
            parameter.data.fill_(float("nan"))
    assert model.decode(tgt, None).isfinite().all()


def test_layers_composed_by_hand_are_the_model() -> None:
    model = make()
    src, tgt, src_mask, tgt_mask = batch()
    x, y = model.embed_src(src), model.embed_tgt(tgt)
    key_mask, target_mask = masks.for_keys(src_mask), masks.for_causal(tgt_mask, tgt.shape[1])
    for layer in model.encoder.layers:
        x = layer(x, key_mask)
    x = model.encoder.norm(x)
    for layer in model.decoder.layers:
        y = layer(y, x, key_mask, target_mask)
    close(model.project(model.decoder.norm(y)), model(src, tgt, src_mask, tgt_mask))


def test_ties_are_one_parameter() -> None:
    none, decoder, everything = (make(tie_embeddings=kind) for kind in ("none", "decoder", "all"))
    assert len({id(m) for m in (none.src_embedding.weight, none.tgt_embedding.weight, none.output.weight)}) == 3
    assert decoder.output.weight is decoder.tgt_embedding.weight
    assert decoder.src_embedding.weight is not decoder.tgt_embedding.weight
    assert everything.output.weight is everything.tgt_embedding.weight is everything.src_embedding.weight


@pytest.mark.parametrize("name", ["learned", "table"])
def test_positions_that_end_say_so(name: str) -> None:
    model = make(name)
    ids = torch.zeros(1, 16, dtype=torch.int64)
    model(ids, ids)
    with pytest.raises(DataError, match="17 tokens is longer than the 16 positions"):
        model.encode(torch.zeros(1, 17, dtype=torch.int64))


def test_a_model_needs_vocabularies() -> None:
    with pytest.raises(ConfigError, match="src_vocab_size"):
        Transformer(ModelConfig())


@pytest.mark.parametrize("part", ["dropout", "attention_dropout", "activation_dropout", "embedding_dropout"])
def test_each_dropout_acts_in_training_alone(part: str) -> None:
    off = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "embedding_dropout": 0.0}
    model = make(**{**off, part: 0.5})
    src, tgt, _, _ = batch()
    still = model(src, tgt)
    close(still, make(**off)(src, tgt))
    model.train()
    torch.manual_seed(3)
    first, second = model(src, tgt), model(src, tgt)
    assert not torch.equal(first, second)
    assert not torch.equal(first, still)
    torch.manual_seed(3)
    assert torch.equal(model(src, tgt), first)
