"""Weights of Hugging Face's Marian, in and out, against the live class: logits, gradients, every key."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import MarianMTModel

from dragoman import ModelConfig, Transformer, interop
from dragoman.errors import ConversionError
from marian_models import CASES, SMALL, batch, facts, live, their_logits
from tolerances import FLOAT32, FLOAT32_GRADIENT, FLOAT64

DTYPES = {torch.float64: (FLOAT64, FLOAT64), torch.float32: (FLOAT32, FLOAT32_GRADIENT)}
SHARED = "model.shared.weight"
ENCODER = "model.encoder.embed_tokens.weight"
DECODER = "model.decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
every_case = pytest.mark.parametrize("case", CASES)


def read(theirs: MarianMTModel, state: dict[str, Tensor] | None = None, **more: Any) -> Transformer:
    """Our model of these weights."""
    weights = theirs.state_dict() if state is None else state
    return interop.import_state_dict(
        "marian", weights, dtype=theirs.dtype, **{**facts(theirs.config), "max_length": 24, **more}
    )


def close(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=tolerance)


@every_case
@pytest.mark.parametrize("dtype", DTYPES, ids=["float64", "float32"])
def test_logits_and_gradients_are_the_live_model_s(case: str, dtype: torch.dtype) -> None:
    theirs = live(dtype, **CASES[case])
    for stack in (theirs.model.encoder, theirs.model.decoder):
        stack.embed_tokens.padding_idx = None  # there that row gets no gradient; decoding starts from it
    ours = read(theirs)
    src, tgt, src_mask, tgt_mask = batch(theirs.config)
    wanted = their_logits(theirs, src, tgt, src_mask, tgt_mask)[tgt_mask]
    found = ours(src, tgt, src_mask, tgt_mask)[tgt_mask]
    tolerance, gradient_tolerance = DTYPES[dtype]
    close(found, wanted, tolerance)
    weights = torch.linspace(-1.0, 1.0, found.numel(), dtype=dtype).view_as(found)
    (wanted * weights).sum().backward()
    (found * weights).sum().backward()
    gradients = _gradients(theirs)
    # Their output bias is no parameter.
    assert set(gradients) == {name for name, _ in ours.named_parameters()} - {"output.bias"}
    for name, gradient in gradients.items():
        own = ours.get_parameter(name).grad
        assert own is not None
        close(own, gradient, gradient_tolerance)


def _gradients(theirs: MarianMTModel) -> dict[str, Tensor]:
    """Their gradients under our names; a tied matrix has the first of ours."""
    found: dict[str, Tensor] = {}
    fmt, _, _ = interop.marian.FORMAT.resolved({}, theirs.state_dict())
    names = {slot.key: name for name, slot in reversed(fmt.slots(9, 9).items())}
    parameters = {id(parameter): parameter for parameter in theirs.parameters()}
    for key, parameter in theirs.named_parameters(remove_duplicate=False):
        if parameter.requires_grad and id(parameter) in parameters and key in names and parameter.grad is not None:
            found[names[key]] = parameter.grad
            del parameters[id(parameter)]
    return found


@every_case
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_there_and_back_is_bit_identical(case: str, dtype: torch.dtype) -> None:
    theirs = live(dtype, **CASES[case])
    state = theirs.state_dict()
    before = {key: tensor.clone() for key, tensor in state.items()}
    written = interop.export_state_dict("marian", read(theirs))
    assert set(written) == set(before)
    for key, tensor in written.items():
        assert torch.equal(tensor, before[key]), key
        assert tensor.dtype == dtype
    assert all(torch.equal(tensor, before[key]) for key, tensor in state.items())
    assert interop.plan_export("marian", read(theirs).config).steps == []


@every_case
def test_the_live_class_loads_what_is_written(case: str) -> None:
    theirs = live(torch.float32, **CASES[case])
    written = interop.export_state_dict("marian", read(theirs))
    other = live(torch.float32, seed=8, **CASES[case])
    inputs = batch(theirs.config)
    assert not torch.equal(their_logits(other, *inputs), their_logits(theirs, *inputs))
    other.load_state_dict(written, strict=True)
    assert torch.equal(their_logits(other, *inputs), their_logits(theirs, *inputs))


@pytest.mark.parametrize("d_model", [7, 12, 96, 512, 1024])
def test_written_tables_of_positions_are_theirs_to_the_bit(d_model: int) -> None:
    config = ModelConfig.preset(
        "marian", src_vocab_size=5, tgt_vocab_size=5, d_model=d_model, n_heads=1, d_ff=1, n_encoder_layers=0,
        n_decoder_layers=1, max_length=600,
    )  # fmt: skip
    written = interop.export_state_dict("marian", Transformer(config))
    made = live(torch.float32, d_model=d_model, encoder_attention_heads=1, decoder_attention_heads=1,
                max_position_embeddings=600).state_dict()  # fmt: skip
    for key in POSITIONS:
        assert torch.equal(written[key], made[key])


@pytest.mark.parametrize(
    ("case", "left"),
    [
        ("opus-mt", (SHARED,)),
        ("opus-mt", (OUTPUT,)),
        ("opus-mt", (DECODER, ENCODER)),
        ("opus-mt", (SHARED, ENCODER, DECODER, OUTPUT)),
        ("separate vocabularies", (ENCODER, DECODER)),
        ("separate vocabularies", (ENCODER, OUTPUT)),
        ("separate, nothing tied", (ENCODER, DECODER, OUTPUT)),
    ],
)
def test_one_key_of_a_tied_matrix_is_enough(case: str, left: tuple[str, ...]) -> None:
    theirs = live(**CASES[case])
    told = {"tie_embeddings": "all"} if left == (OUTPUT,) else {}
    embeddings = {SHARED, ENCODER, DECODER, OUTPUT}
    state = {key: tensor for key, tensor in theirs.state_dict().items() if key not in embeddings | set(POSITIONS)}
    state |= {key: theirs.state_dict()[key] for key in left}
    ours = read(theirs, state, **told)
    assert ours.config == read(theirs).config
    whole = read(theirs).state_dict()
    assert all(torch.equal(tensor, whole[name]) for name, tensor in ours.state_dict().items())
    assert (ours.output.weight is ours.tgt_embedding.weight) == (case != "separate, nothing tied")


def test_embeddings_of_one_matrix_beside_another_projection() -> None:
    """As older versions saved a shared matrix with ``tie_word_embeddings`` off."""
    theirs = live(tie_word_embeddings=False)
    state = theirs.state_dict()
    state[ENCODER] = state[DECODER] = state[SHARED]
    ours = read(theirs, state)
    assert ours.config.tie_embeddings == "none"
    assert torch.equal(ours.src_embedding.weight, state[SHARED])
    assert torch.equal(ours.tgt_embedding.weight, state[SHARED])
    assert torch.equal(ours.output.weight, state[OUTPUT])
    del state[ENCODER], state[DECODER]
    assert torch.equal(read(theirs, state).src_embedding.weight, state[SHARED])


def refused(state: dict[str, Any], **told: Any) -> str:
    with pytest.raises(ConversionError) as caught:
        interop.import_state_dict("marian", state, **{"n_heads": 3, **told})
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def test_copies_that_differ_are_refused() -> None:
    state = live().state_dict()
    state[ENCODER] = state[ENCODER] + 1.0
    assert f"{SHARED} and {ENCODER} differ" in refused(state)
    state[ENCODER] = state[SHARED].float()
    assert f"{SHARED} and {ENCODER} differ" in refused(state)
    separate = live(share_encoder_decoder_embeddings=False, tie_word_embeddings=False).state_dict()
    assert f"{DECODER} and {OUTPUT} differ" in refused(separate, tie_embeddings="decoder")


def test_all_that_is_wrong_is_listed_together() -> None:
    state: dict[str, Any] = live().state_dict()
    del state["model.decoder.layers.0.encoder_attn.k_proj.bias"]
    state["final_logits_bias"] = torch.zeros(23)
    state["model.encoder.layers.1.fc1.weight"] = torch.zeros(21, 12)
    state["model.encoder.layernorm_embedding.weight"] = torch.zeros(12)
    message = refused(state, feed_forward="tanh", tie_embedings="all")
    assert "missing: model.decoder.layers.0.encoder_attn.k_proj.bias" in message
    assert "final_logits_bias is [23] and should be [1, 23]" in message
    assert "model.encoder.layers.1.fc1.weight is [21, 12] and should be [20, 12]" in message
    assert "unused: model.encoder.layernorm_embedding.weight" in message
    assert 'unknown fact "tie_embedings" (did you mean "tie_embeddings"?)' in message
    assert "feed_forward" in message
    assert "tie_embeddings" in refused(live().state_dict(), tie_embeddings="both")


def test_another_bias_of_the_output() -> None:
    state = live().state_dict()
    del state["final_logits_bias"]
    ours = interop.import_state_dict("marian", state, dtype=torch.float64, n_heads=3)
    assert not ours.config.output_bias
    assert interop.plan_export("marian", ours.config).steps == ["the output projection get biases of zero"]
    assert torch.equal(
        interop.export_state_dict("marian", ours)["final_logits_bias"], torch.zeros(1, 23, dtype=torch.float64)
    )


def test_tables_of_positions_may_be_absent_rounded_or_of_another_length_but_not_others() -> None:
    theirs = live(torch.float32)
    state = theirs.state_dict()
    wanted = read(theirs)(*batch(theirs.config))
    without = {key: tensor for key, tensor in state.items() if key not in POSITIONS}
    assert torch.equal(read(theirs, without)(*batch(theirs.config)), wanted)
    halved = {key: tensor.half() if key in POSITIONS else tensor for key, tensor in state.items()}
    assert torch.equal(read(theirs, halved)(*batch(theirs.config)), wanted)
    longer = {
        **state,
        **dict.fromkeys(POSITIONS, live(torch.float32, max_position_embeddings=99).state_dict()[POSITIONS[0]]),
    }
    del longer["final_logits_bias"]
    assert interop.import_state_dict("marian", longer, n_heads=3).config.max_length == 99
    assert "hold no sinusoids in halves" in refused({**state, **dict.fromkeys(POSITIONS, torch.randn(24, 12))})
    flat = refused({**state, POSITIONS[0]: state[POSITIONS[0]][None]})
    assert f"{POSITIONS[0]} is [1, 24, 12] and should be [L, D]" in flat


def test_ids_default_to_opus_mt_s() -> None:
    config = interop.import_state_dict("marian", live().state_dict(), n_heads=3).config
    assert (config.src_pad_id, config.tgt_pad_id, config.bos_id, config.eos_id) == (22, 22, 22, 0)
    assert (config.src_bos, config.src_eos, config.feed_forward) == (False, True, "silu")
    separate = live(**CASES["separate vocabularies"]).state_dict()
    config = interop.import_state_dict("marian", separate, n_heads=3, bos_id=5).config
    assert (config.src_pad_id, config.tgt_pad_id, config.bos_id) == (22, 22, 5)
    assert (config.src_vocab_size, config.tgt_vocab_size) == (23, 29)


def test_the_format_is_told_from_the_keys() -> None:
    assert interop.detect_format(live().state_dict()) == "marian"
    assert "marian" in interop.FORMATS


OUR_SHAPE: dict[str, Any] = {
    "src_vocab_size": 23, "tgt_vocab_size": 23, "d_model": 12, "n_heads": 3, "d_ff": 10, "n_encoder_layers": 2,
    "n_decoder_layers": 1, "max_length": 20, "norm_first": False, "final_norm": False,
}  # fmt: skip
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "positions": st.sampled_from(["sinusoidal", "sinusoidal_halves"]),
    "scale_embeddings": st.booleans(),
    "tie_embeddings": st.sampled_from(["none", "decoder", "all"]),
    "attention_bias": st.sampled_from([True, False, "vo"]),
    "feed_forward": st.sampled_from(["relu", "gelu", "silu"]),
    "feed_forward_bias": st.booleans(),
    "output_bias": st.booleans(),
    "n_kv_heads": st.sampled_from([None, 1]),
    "d_model": st.sampled_from([6, 9, 12]),
}


def random_model(**changes: Any) -> Transformer:
    torch.manual_seed(5)
    model = Transformer(ModelConfig(**{**OUR_SHAPE, **changes})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model


@settings(max_examples=40)
@given(st.fixed_dictionaries(OPTIONS))
def test_every_post_norm_model_of_ours_goes_to_the_live_class(changes: dict[str, Any]) -> None:
    model = random_model(**changes)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    config = model.config
    theirs = live(
        d_model=config.d_model, encoder_ffn_dim=10, decoder_ffn_dim=10, activation_function=config.feed_forward,
        scale_embedding=config.scale_embeddings, share_encoder_decoder_embeddings=config.tie_embeddings == "all",
        tie_word_embeddings=config.tie_embeddings != "none", max_position_embeddings=20,
    )  # fmt: skip
    theirs.load_state_dict(interop.export_state_dict("marian", model), strict=True)
    src, tgt, src_mask, tgt_mask = batch(theirs.config)
    with torch.no_grad():
        wanted, found = model(src, tgt, src_mask, tgt_mask), their_logits(theirs, src, tgt, src_mask, tgt_mask)
    close(found[tgt_mask], wanted[tgt_mask], FLOAT64)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_refusal_gives_every_reason() -> None:
    model = random_model(
        norm_first=True, final_norm=True, norm="rms", norm_eps=1e-6, positions="rotary", feed_forward="swiglu"
    )
    fields = {reason.split(" ")[0] for reason in interop.plan_export("marian", model.config).refused}
    assert fields == {"norm_first", "final_norm", "norm", "norm_eps", "positions", "feed_forward"}
    with pytest.raises(ConversionError) as caught:
        interop.export_state_dict("marian", model)
    assert all(f"{field} is " in str(caught.value) for field in fields)


def test_opus_mt_s_preset_goes_out_as_it_is() -> None:
    config = ModelConfig.preset("marian", src_vocab_size=9, tgt_vocab_size=9, d_model=8, n_heads=2)
    assert interop.plan_export("marian", config).steps == []
    assert SMALL["pad_token_id"] == SMALL["vocab_size"] - 1
