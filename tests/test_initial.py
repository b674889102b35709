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
    """The largest difference from a uniform distribution function is within Kolmogorov's bound for one in 10^8."""
    values = weight.detach().double().flatten().sort().values
    assert -bound <= values[0]
    assert values[-1] <= bound
    share = torch.arange(1, len(values) + 1) / len(values)
    assert (share - (values / bound + 1) / 2).abs().max() < 3.1 / math.sqrt(len(values))
    assert values[-1] > 0.98 * bound


def is_normal(weight: torch.Tensor, deviation: float) -> None:
    """The same for a normal distribution around zero."""
    values = weight.detach().double().flatten().sort().values
    share = torch.arange(1, len(values) + 1) / len(values)
    wanted = torch.special.ndtr(values / deviation)
    assert (share - wanted).abs().max() < 3.1 / math.sqrt(len(values))
    assert values.std().item() == pytest.approx(deviation, rel=0.03)


def test_xavier_takes_each_projection_as_a_matrix_of_its_own() -> None:
    m = model()
    attention = m.encoder.layers[0].self_attention
    for part in (attention.query, attention.key, attention.value, attention.output):
        is_uniform(part.weight, math.sqrt(6 / 128))
        assert (part.bias == 0).all()
    is_uniform(m.encoder.layers[0].feed_forward.inner.weight, math.sqrt(6 / 192))
    is_uniform(m.output.weight, math.sqrt(6 / 464))
    is_normal(m.src_embedding.weight, 64**-0.5)
    is_normal(m.tgt_embedding.weight, 64**-0.5)


def test_grouped_keys_have_their_own_range() -> None:
    is_uniform(model(n_kv_heads=1).encoder.layers[0].self_attention.key.weight, math.sqrt(6 / 80))


def test_kaiming_and_torch() -> None:
    m = model(init="kaiming", embedding_init="like_init")
    is_uniform(m.src_embedding.weight, math.sqrt(6 / 64))
    is_uniform(m.encoder.layers[0].feed_forward.output.weight, math.sqrt(6 / 128))
    m = model(init="torch", embedding_init="like_init")
    is_uniform(m.encoder.layers[0].self_attention.query.weight, math.sqrt(1 / 64))
    is_normal(m.src_embedding.weight, 1.0)


def test_marian_is_normal_whatever_the_fan() -> None:
    m = model(init="marian", embedding_init="like_init")
    for part in (m.src_embedding, m.encoder.layers[0].feed_forward.output, m.encoder.layers[0].self_attention.key):
        is_normal(part.weight, 0.02)
    assert (m.encoder.layers[0].feed_forward.output.bias == 0).all()


@pytest.mark.parametrize("init", ["xavier", "kaiming", "torch", "marian"])
def test_embeddings_are_normal_whatever_the_matrices_are(init: str) -> None:
    m = model(init=init)
    is_normal(m.src_embedding.weight, 64**-0.5)
    is_normal(m.tgt_embedding.weight, 64**-0.5)


def test_embeddings_like_the_matrices() -> None:
    m = model(init="xavier", embedding_init="like_init")
    is_uniform(m.src_embedding.weight, math.sqrt(6 / 364))
    is_uniform(m.tgt_embedding.weight, math.sqrt(6 / 464))


def test_biases() -> None:
    """Zero beside Xavier's matrices; elsewhere as PyTorch draws them, within 1 / sqrt(fan in)."""
    for init in ("xavier", "kaiming", "torch"):
        m = model(init=init, feed_forward="swiglu")
        for part in m.modules():
            if isinstance(part, torch.nn.Linear):
                largest = float(part.bias.detach().abs().max())
                bound = 0.0 if init == "xavier" else part.in_features**-0.5
                assert 0.8 * bound <= largest <= bound


@pytest.mark.parametrize("init", ["xavier", "kaiming", "torch", "marian"])
def test_biases_may_be_asked_for(init: str) -> None:
    """``bias_init`` counts whatever the matrices are, and leaves those alone."""
    for rule, bound in (("zero", 0.0), ("torch", 1 / 8)):
        m = model(init=init, bias_init=rule)
        largest = float(m.decoder.layers[0].cross_attention.key.bias.detach().abs().max())
        assert 0.8 * bound <= largest <= bound
        assert torch.equal(m.output.weight, model(init=init).output.weight)


def test_gated_parts_are_drawn_alike() -> None:
    part = model(feed_forward="geglu").decoder.layers[0].feed_forward
    is_uniform(part.inner.weight, math.sqrt(6 / 192))
    is_uniform(part.value.weight, math.sqrt(6 / 192))
    assert not torch.equal(part.inner.weight, part.value.weight)


@pytest.mark.parametrize("init", ["xavier", "kaiming", "torch", "marian"])
def test_norms_change_nothing_at_first(init: str) -> None:
    for norm in ("layer", "std", "std_scalar", "rms"):
        for name, parameter in model(init=init, norm=norm).named_parameters():
            if "norm." in name:
                assert (parameter == (1.0 if name.endswith("weight") else 0.0)).all(), name


@pytest.mark.parametrize("tie", ["decoder", "all"])
@pytest.mark.parametrize("init", ["xavier", "kaiming", "torch", "marian"])
def test_tied_embeddings_keep_the_embedding_s_values(tie: str, init: str) -> None:
    m = model(tie_embeddings=tie, src_vocab_size=400, init=init)
    is_normal(m.output.weight, 64**-0.5)
    is_normal(m.src_embedding.weight, 64**-0.5)


@pytest.mark.parametrize("init", ["xavier", "kaiming", "torch", "marian"])
def test_learned_positions_keep_their_own_values(init: str) -> None:
    m = model(positions="learned", init=init)
    is_normal(m.src_positions.weight, 64**-0.5)
    is_normal(m.tgt_positions.weight, 64**-0.5)
    assert not torch.equal(m.src_positions.weight, m.tgt_positions.weight)


def test_no_two_matrices_are_alike() -> None:
    matrices = [p for p in model(n_encoder_layers=2, n_decoder_layers=2).parameters() if p.ndim == 2]
    assert len({float(p.detach().double().sum()) for p in matrices}) == len(matrices)


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_a_fresh_model_s_loss_is_near_that_of_guessing(p: float) -> None:
    """With the paper's settings logits have a variance near one, and the loss is near log V."""
    for norm_first in (True, False):
        m = model(tie_embeddings="all", src_vocab_size=400, norm_first=norm_first, dropout=p)
        tokens = torch.arange(400).view(20, 20)
        logprobs = m.log_probs(tokens, tokens).detach()
        loss = -logprobs.gather(-1, tokens.roll(7, 1)[..., None]).mean()
        assert float(loss) == pytest.approx(math.log(400), abs=1.0)


def test_the_same_seed_gives_the_same_weights() -> None:
    first, second = model().state_dict(), model().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    torch.manual_seed(1)
    third = Transformer(ModelConfig(**SIZES)).state_dict()
    assert not any(torch.equal(first[name], third[name]) for name in first if first[name].ndim == 2)


def test_the_paper_s_base_model_has_the_right_size() -> None:
    with torch.device("meta"):
        m = Transformer(ModelConfig.preset("transformer-base", src_vocab_size=37000, tgt_vocab_size=37000))
    # 37,000 x 512 shared embeddings; a layer's attention is 4 · 512², its feed-forward 2 · 512 · 2048 + 2560.
    attention, feed_forward, norm = 4 * 512 * 512, 2 * 512 * 2048 + 2560, 1024
    layers = 6 * (attention + feed_forward + 2 * norm) + 6 * (2 * attention + feed_forward + 3 * norm)
    assert sum(p.numel() for p in m.parameters()) == 37000 * 512 + layers
