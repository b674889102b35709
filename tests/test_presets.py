"""The published shapes: parameter counts to the last one, and the ranges of the initial values."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from dragoman import ModelConfig, Transformer
from dragoman.errors import ConfigError
from dragoman.presets import PRESETS

FULL = {"src_vocab_size": 5893, "tgt_vocab_size": 7855}
SMALL = {
    "src_vocab_size": 23, "tgt_vocab_size": 29, "d_model": 16, "n_heads": 4, "d_ff": 32,
    "n_encoder_layers": 2, "n_decoder_layers": 2,
}  # fmt: skip

# Counted on the implementations' own models, for vocabularies of 5893 and 7855 words and for the small shape.
COUNTS = [
    ("valid_len", {}, 55_170_223, {"d_ff": 2048}, 278_189),
    ("hyunwoongko", {}, 55_207_087, {}, 12_461),
    ("labml", {}, 55_209_135, {}, 12_525),
    ("labml", {"positions": "learned"}, 60_329_135, {}, 172_525),
    ("hkproj-article", {}, 55_176_431, {}, 12_165),
    ("hkproj-no-bias", {}, 55_139_567, {}, 11_781),
    ("hkproj", {}, 55_172_271, {}, 12_141),
    ("annotated", {}, 55_209_135, {}, 12_525),
]


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def weightless(config: ModelConfig) -> Transformer:
    with torch.device("meta"):
        return Transformer(config)


@pytest.mark.parametrize(("preset", "changes", "full", "small_changes", "small"), COUNTS)
def test_parameter_counts(
    preset: str, changes: dict[str, Any], full: int, small_changes: dict[str, Any], small: int
) -> None:
    assert count(weightless(ModelConfig.preset(preset, **FULL, **changes))) == full
    shape = {**SMALL, **changes, **small_changes}
    assert count(weightless(ModelConfig.preset(preset, **shape))) == small


@pytest.mark.parametrize(("shape", "wanted"), [(FULL, 44_140_544), (SMALL, 11_200)])
def test_parameter_counts_of_torch_s_stacks(shape: dict[str, int], wanted: int) -> None:
    model = weightless(ModelConfig.preset("torch", **shape))
    assert count(model.encoder) + count(model.decoder) == wanted


# The bounds for vocabularies of 5893 and 7855 words, width 512 and inner width 2048.
KAIMING = {
    "src_embedding": 0.10825317547305482,
    "tgt_embedding": 0.10825317547305482,
    "encoder.layers.0.self_attention.query": 0.10825317547305482,
    "decoder.layers.0.cross_attention.output": 0.10825317547305482,
    "encoder.layers.0.feed_forward.inner": 0.10825317547305482,
    "decoder.layers.0.feed_forward.output": 0.05412658773652741,
    "output": 0.10825317547305482,
}
XAVIER = {
    "src_embedding": 0.030606668389141996,
    "tgt_embedding": 0.026778777124184784,
    "encoder.layers.0.self_attention.key": 0.07654655446197431,
    "decoder.layers.0.self_attention.value": 0.07654655446197431,
    "encoder.layers.0.feed_forward.inner": 0.04841229182759271,
    "decoder.layers.0.feed_forward.output": 0.04841229182759271,
    "output": 0.026778777124184784,
}
TORCH = {
    "encoder.layers.0.self_attention.query": 0.044194173824159216,
    "decoder.layers.0.self_attention.output": 0.044194173824159216,
    "encoder.layers.0.feed_forward.inner": 0.044194173824159216,
    "decoder.layers.0.feed_forward.output": 0.022097086912079608,
}
RANGES = [
    ("hyunwoongko", KAIMING),
    ("valid_len", TORCH),
    *((preset, XAVIER) for preset in ("labml", "hkproj-article", "hkproj-no-bias", "hkproj", "annotated", "torch")),
]


@pytest.mark.parametrize(("preset", "bounds"), RANGES)
def test_initial_ranges(preset: str, bounds: dict[str, float]) -> None:
    torch.manual_seed(11)
    model = Transformer(ModelConfig.preset(preset, **FULL, n_encoder_layers=1, n_decoder_layers=1))
    for name, bound in bounds.items():
        weight = model.get_submodule(name).weight.detach()
        assert isinstance(weight, torch.Tensor)
        # The largest of n uniform numbers falls short of the bound by one part in n; the deviation is bound / sqrt(3).
        assert 0.999 * bound < float(weight.abs().max()) <= bound * (1 + 1e-6), name
        assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.01), name


def test_marian_s_matrices_and_embeddings_are_all_alike() -> None:
    """As the live library draws them: its padding's embedding, zero there, is ours only by what training leaves."""
    import transformers

    torch.manual_seed(11)
    shape = {**FULL, "src_vocab_size": 7855, "n_encoder_layers": 1, "n_decoder_layers": 1}
    ours = Transformer(ModelConfig.preset("marian", **shape))
    theirs = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=7855, d_model=512, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=2048,
            decoder_ffn_dim=2048, encoder_attention_heads=8, decoder_attention_heads=8, pad_token_id=7854,
            decoder_start_token_id=7854,
        )
    )  # fmt: skip
    for model in (ours, theirs):
        parts = [part for part in model.modules() if type(part).__name__ in ("Linear", "Embedding")]
        assert len(parts) >= 16
        for part in parts:
            assert float(part.weight.detach().std()) == pytest.approx(0.02, rel=0.01)
            assert abs(float(part.weight.detach().mean())) < 1e-4
            assert getattr(part, "bias", None) is None or not bool(part.bias.any())


def test_valid_len_s_embeddings_are_torch_s_own() -> None:
    torch.manual_seed(11)
    model = Transformer(ModelConfig.preset("valid_len", **FULL, n_encoder_layers=0, n_decoder_layers=0))
    assert float(model.src_embedding.weight.detach().std()) == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("preset", ["valid_len", "hyunwoongko", "labml", "hkproj-article", "hkproj", "annotated"])
def test_biases_are_torch_s_own(preset: str) -> None:
    """These implementations draw matrices anew and leave biases as nn.Linear drew them."""
    torch.manual_seed(11)
    model = Transformer(ModelConfig.preset(preset, **FULL, n_encoder_layers=1, n_decoder_layers=1))
    biased = [part for part in model.modules() if isinstance(part, nn.Linear) and part.bias is not None]
    assert len(biased) >= 5
    for part in biased:
        bound = {512: 0.044194173824159216, 2048: 0.022097086912079608}[part.in_features]
        assert 0.97 * bound < float(part.bias.detach().abs().max()) <= bound * (1 + 1e-6)


@pytest.mark.parametrize("preset", ["transformer-tiny", "transformer-base", "marian"])
def test_biases_that_begin_at_zero(preset: str) -> None:
    shape = {**SMALL, "src_vocab_size": 29}
    model = Transformer(ModelConfig.preset(preset, **shape))
    biases = [parameter for name, parameter in model.named_parameters() if name.endswith("bias")]
    assert biases
    assert not any(bool(bias.any()) for bias in biases)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_makes_a_model_that_runs(preset: str) -> None:
    shape = {**SMALL, "src_vocab_size": 29}
    model = Transformer(ModelConfig.preset(preset, **shape)).eval()
    assert model(torch.tensor([[4, 5, 3]]), torch.tensor([[2, 6]])).shape == (1, 2, 29)


def test_the_paper_s_base_and_big_models() -> None:
    """Table 3 gives 65 and 213 million parameters for some 37,000 shared tokens."""
    for preset, width, heads, d_ff, dropout, millions in (
        ("transformer-base", 512, 8, 2048, 0.1, 65),
        ("transformer-big", 1024, 16, 4096, 0.3, 213),
    ):
        config = ModelConfig.preset(preset, src_vocab_size=37_000, tgt_vocab_size=37_000)
        assert (config.d_model, config.n_heads, config.d_ff, config.dropout) == (width, heads, d_ff, dropout)
        assert (config.n_encoder_layers, config.n_decoder_layers) == (6, 6)
        assert (config.norm_first, config.final_norm, config.tie_embeddings) == (False, False, "all")
        assert count(weightless(config)) / 1e6 == pytest.approx(millions, rel=0.04)


def test_changes_come_on_top_of_a_preset() -> None:
    config = ModelConfig.preset("hkproj", src_vocab_size=50, tgt_vocab_size=60, dropout=0.3, n_encoder_layers=2)
    assert (config.dropout, config.n_encoder_layers, config.n_decoder_layers, config.norm) == (0.3, 2, 6, "std")
    assert PRESETS["hkproj"]["dropout"] == 0.1


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r'no preset is called "hkproj_article" \(did you mean "hkproj-article"\?\)'):
        ModelConfig.preset("hkproj_article")
