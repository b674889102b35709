"""Initial values: the ranges of each rule, and exact parameter counts."""

from __future__ import annotations

import math

import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.model.transformer import Transformer

SIZES = {"src_vocab_size": 300, "tgt_vocab_size": 400, "d_model": 64, "n_heads": 4, "d_ff": 128,
         "n_encoder_layers": 1, "n_decoder_layers": 1}  # fmt: skip


def model(**changes: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelConfig(**{**SIZES, **changes}))


def is_uniform(weight: torch.Tensor, bound: float) -> None:
    assert weight.abs().max() <= bound
    assert weight.abs().max() > 0.98 * bound
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_xavier_takes_each_projection_as_a_matrix_of_its_own() -> None:
    m = model()
    attention = m.encoder.layers[0].self_attention
    for part in (attention.query, attention.key, attention.value, attention.output):
        is_uniform(part.weight, math.sqrt(6 / 128))
        assert (part.bias == 0).all()
    is_uniform(m.encoder.layers[0].feed_forward.inner.weight, math.sqrt(6 / 192))
    is_uniform(m.output.weight, math.sqrt(6 / 464))
    assert m.src_embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.03)
    assert m.src_embedding.weight.abs().max() > 3 * 64**-0.5


def test_grouped_keys_have_their_own_range() -> None:
    is_uniform(model(n_kv_heads=1).encoder.layers[0].self_attention.key.weight, math.sqrt(6 / 80))


def test_kaiming_and_torch() -> None:
    m = model(init="kaiming", embedding_init="like_init")
    is_uniform(m.src_embedding.weight, math.sqrt(6 / 64))
    is_uniform(m.encoder.layers[0].feed_forward.output.weight, math.sqrt(6 / 128))
    m = model(init="torch", embedding_init="like_init")
    is_uniform(m.encoder.layers[0].self_attention.query.weight, math.sqrt(1 / 64))
    assert m.src_embedding.weight.std().item() == pytest.approx(1.0, rel=0.03)


def test_tied_embeddings_keep_the_embedding_s_values() -> None:
    m = model(tie_embeddings="all", src_vocab_size=400)
    assert m.output.weight.std().item() == pytest.approx(64**-0.5, rel=0.03)


def test_learned_positions_keep_their_own_values() -> None:
    assert model(positions="learned", init="kaiming").src_positions.weight.std().item() == pytest.approx(
        64**-0.5, rel=0.03
    )


def test_the_same_seed_gives_the_same_weights() -> None:
    first, second = model().state_dict(), model().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_paper_s_base_model_has_the_right_size() -> None:
    with torch.device("meta"):
        m = Transformer(ModelConfig.preset("transformer-base", src_vocab_size=37000, tgt_vocab_size=37000))
    # 37,000 x 512 shared embeddings; a layer's attention is 4 · 512², its feed-forward 2 · 512 · 2048 + 2560.
    attention, feed_forward, norm = 4 * 512 * 512, 2 * 512 * 2048 + 2560, 1024
    layers = 6 * (attention + feed_forward + 2 * norm) + 6 * (2 * attention + feed_forward + 3 * norm)
    assert sum(p.numel() for p in m.parameters()) == 37000 * 512 + layers
