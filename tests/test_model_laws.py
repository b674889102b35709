"""Laws that hold for every variant of the model. Shapes: B batch, S source length, T target length, V vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.errors import ConfigError, DataError
from dragoman.model import masks
from dragoman.model.layers import Residual
from dragoman.model.positions import sinusoid_table
from dragoman.model.transformer import Transformer
from model_variants import VARIANTS, V, batch, close, make


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Transformer:
    return make(request.param)


def test_padded_equals_unpadded_and_batched_equals_single(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    together = variant(src, tgt, src_mask, tgt_mask)
    for row in range(3):
        s, t = int(src_mask[row].sum()), int(tgt_mask[row].sum())
        alone = variant(src[row : row + 1, :s], tgt[row : row + 1, :t])
        close(together[row : row + 1, :t], alone)


def test_what_stands_in_padding_changes_nothing(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    garbage = torch.randint(0, V, (2, 3, 6), generator=torch.Generator().manual_seed(5))
    other_src, other_tgt = torch.where(src_mask, src, garbage[0]), torch.where(tgt_mask, tgt, garbage[1, :, :5])
    assert not torch.equal(other_src, src)
    assert not torch.equal(other_tgt, tgt)
    before, after = variant(src, tgt, src_mask, tgt_mask), variant(other_src, other_tgt, src_mask, tgt_mask)
    assert torch.equal(before[tgt_mask], after[tgt_mask])


@pytest.mark.parametrize("hidden", [[0, 1], [2], [0, 3, 5]])
def test_padding_may_stand_anywhere(hidden: list[int]) -> None:
    """Without positions, hidden tokens on the left or in the middle are as good as absent."""
    model = make(positions="none")
    src, tgt, _, _ = batch()
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[:, hidden] = False
    close(model(src, tgt, mask), model(src[:, mask[0]], tgt))
    longer = torch.cat([tgt, tgt[:, :1]], 1)
    shown = model.decode(longer, None, tgt_mask=mask)[:, mask[0]]
    close(shown, model.decode(longer[:, mask[0]], None))


def test_without_masks_every_position_is_real_padding_ids_too(variant: Transformer) -> None:
    """Ids are never inspected."""
    src, tgt, _, _ = batch()
    src[:, 3:] = variant.config.src_pad_id
    tgt[:, 2:] = variant.config.tgt_pad_id
    everything = torch.ones(3, 6, dtype=torch.bool)
    close(variant(src, tgt), variant(src, tgt, everything, everything[:, :5]))
    if variant.config.n_encoder_layers:
        assert not torch.allclose(variant(src, tgt), variant(src, tgt, everything.cumsum(1) < 4))


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


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Any combination of settings, at a small size."""
    heads = draw(st.sampled_from([1, 2, 3, 4]))
    names = ("norm", "positions", "feed_forward", "tie_embeddings", "init", "embedding_init")
    return {
        "n_heads": heads,
        "n_kv_heads": draw(st.sampled_from([divisor for divisor in range(1, heads + 1) if heads % divisor == 0])),
        "d_model": 2 * heads * draw(st.integers(1, 2)),
        "d_ff": draw(st.integers(1, 9)),
        "n_encoder_layers": draw(st.integers(0, 2)),
        "n_decoder_layers": draw(st.integers(0, 2)),
        "attention_bias": draw(st.sampled_from([True, False, "q", "kv", "vo"])),
        **{name: draw(st.sampled_from(get_args(ModelConfig.model_fields[name].annotation))) for name in names},
        **{
            name: draw(st.booleans())
            for name in ("norm_first", "final_norm", "scale_embeddings", "feed_forward_bias", "output_bias")
        },
    }


@settings(max_examples=60)
@given(config=configs())
def test_any_combination_of_settings(config: dict[str, Any]) -> None:
    """Alone is padded is cached is explicit, whatever is combined with what."""
    model = make(**config)
    src, tgt, src_mask, tgt_mask = batch()
    together, attention = model(src, tgt, src_mask, tgt_mask, return_attention=True)
    close(together, model(src, tgt, src_mask, tgt_mask))
    assert len(attention.encoder) == config["n_encoder_layers"]
    close(together[1:2, :2], model(src[1:2, :3], tgt[1:2, :2]))
    state = model.start(model.encode(src, src_mask), src_mask)
    for place in range(2):
        close(model.step(tgt[:, place], state), together[:, place])
    close(model.step(tgt[[2, 0, 0], 2], state, torch.tensor([2, 0, 0])), together[[2, 0, 0], 2])


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


def test_a_dead_source_adds_nothing_but_the_output_bias() -> None:
    """Attention over no source is zero: the same as a memory of zeros."""
    model = make(attention_bias="qko")
    src, tgt, _, _ = batch()
    nothing = torch.zeros(3, 6, dtype=torch.bool)
    memory = model.encode(src)
    close(model.decode(tgt, memory, nothing), model.decode(tgt, torch.zeros_like(memory)))


def test_log_probabilities(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    logprobs = variant.log_probs(src, tgt, src_mask, tgt_mask)
    assert logprobs.dtype == torch.float64
    close(logprobs.exp().sum(-1), torch.ones(3, 5, dtype=torch.float64))
    logits = variant(src, tgt, src_mask, tgt_mask)
    close(logprobs - logprobs[..., :1], logits - logits[..., :1])


def test_a_mask_that_is_not_boolean_is_refused() -> None:
    model = make()
    src, tgt, src_mask, tgt_mask = batch()
    for masks_given in ((src_mask.long(), tgt_mask), (src_mask, tgt_mask.double())):
        with pytest.raises(DataError, match="give booleans"):
            model(src, tgt, *masks_given)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_empty_sentences_and_batches(positions: str) -> None:
    """A source of no tokens is a source of which nothing is real; no sentences give no logits."""
    model = make(positions=positions)
    src, tgt, _, _ = batch()
    nothing = torch.zeros(3, 6, dtype=torch.bool)
    close(model(src[:, :0], tgt), model.project(model.decode(tgt, torch.zeros(3, 6, 12).double(), nothing)))
    assert model(src, tgt[:, :0]).shape == (3, 0, V)
    assert model(src[:0], tgt[:0]).shape == (0, 5, V)


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


def test_stacks_composed_by_hand_are_the_model(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    memory = variant.encoder(variant.embed_src(src), src_mask)
    close(memory, variant.encode(src, src_mask))
    hidden = variant.decoder(variant.embed_tgt(tgt), memory, src_mask, tgt_mask)
    close(hidden, variant.decode(tgt, memory, src_mask, tgt_mask))
    close(variant.project(hidden), variant(src, tgt, src_mask, tgt_mask))


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_layer_composed_by_hand(norm_first: bool) -> None:
    """The norm before each part, or after each sum."""
    model = make(norm_first=norm_first)
    src, tgt, src_mask, _ = batch()
    layer, y, memory = model.decoder.layers[0], model.embed_tgt(tgt), model.encode(src, src_mask)
    key_mask = masks.for_keys(src_mask)
    parts: list[tuple[Residual, Callable[[Tensor], Tensor]]] = [
        (layer.self_attention_residual, lambda x: layer.self_attention(x, causal=True)),
        (layer.cross_attention_residual, lambda x: layer.cross_attention(x, memory, key_mask)),
        (layer.feed_forward_residual, layer.feed_forward),
    ]
    x = y
    for residual, part in parts:
        x = x + part(residual.norm(x)) if norm_first else residual.norm(x + part(x))
    close(layer(y, memory, key_mask), x)


@pytest.mark.parametrize("scale", [True, False])
def test_embeddings_are_scaled_on_both_sides_before_positions_are_added(scale: bool) -> None:
    model = make(scale_embeddings=scale, d_model=15)
    src, tgt, _, _ = batch()
    factor, table = 15**0.5 if scale else 1.0, sinusoid_table(16, 15)
    close(model.embed_src(src), model.src_embedding(src) * factor + table[:6])
    close(model.embed_tgt(tgt), model.tgt_embedding(tgt) * factor + table[:5])
    close(model.embed_tgt(tgt, 7), model.tgt_embedding(tgt) * factor + table[7:12])


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
