"""Imports and exports refuse what they cannot do exactly, with every reason in one error, and change nothing given."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import ModelConfig, Transformer, interop
from dragoman.errors import ConversionError, DragomanError
from goldens import CASES, TORCH_CASES, Case

BY_NAME = {str(case): case for case in CASES + TORCH_CASES}
HYUN = BY_NAME["hyunwoongko"]
HKPROJ = BY_NAME["hkproj_current"]
LABML = BY_NAME["labml_learned_positions"]
ONE_A_FORMAT = [
    BY_NAME[name]
    for name in (
        "valid_len_article-repaired_paper",
        "hyunwoongko",
        "labml_fixed_positions",
        "hkproj_article",
        "annotated",
        "torch_post_norm",
    )
]
every_format = pytest.mark.parametrize("case", ONE_A_FORMAT, ids=str)


def refused(case: Case, weights: dict[str, Any], **facts: Any) -> str:
    """The message with which the weights are refused: one sentence."""
    with pytest.raises(ConversionError) as caught:
        interop.import_state_dict(case.format, weights, **{"n_heads": case.n_heads, **facts})
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def part(message: str, title: str) -> str:
    """What stands under one title of the message."""
    found = re.search(rf"{title}: ([^;]*)", message)
    return found[1] if found else ""


@every_format
def test_all_that_is_wrong_is_listed_together(case: Case) -> None:
    weights = case.state_dict
    vectors = [key for key, tensor in weights.items() if tensor.ndim == 1 and "norm" in key.lower()]
    matrices = [key for key, tensor in weights.items() if tensor.ndim == 2 and "layers.1" in key.lower()]
    gone, odd = [vectors[0], matrices[0]], [vectors[-1], matrices[-1]]
    for key in gone:
        del weights[key]
    for key in odd:
        weights[key] = torch.zeros(3, 5, 7)
    weights["some.other.weight"] = torch.zeros(2)
    message = refused(case, weights, dropout=2.0, no_such_fact=1)
    for key in gone:
        assert key in part(message, "missing")
    for key in odd:
        assert f"{key} is [3, 5, 7] and should be [" in part(message, "wrong shape")
    assert part(message, "unused") == "some.other.weight"
    assert "no_such_fact" in part(message, "unsupported")
    assert "dropout" in message


@pytest.mark.parametrize("case", CASES + TORCH_CASES, ids=str)
@settings(max_examples=15)
@given(data=st.data())
def test_each_single_key_counts(case: Case, data: st.DataObject) -> None:
    weights = case.state_dict
    buffers = [key for key in weights if key.endswith((".pe", "positional_encodings"))]
    kept = buffers if case.name != "labml_learned_positions" else []
    key = data.draw(st.sampled_from(sorted(set(weights) - set(kept))))
    tensor = weights.pop(key)
    message = refused(case, weights, **case.facts)
    # A projection without its bias, or a stack without its final norm, may be read as another revision; then what is
    # left of the first one is unused.
    assert key in part(message, "missing") or part(message, "unused")
    weights[key] = tensor
    weights[f"{key}.more"] = tensor
    assert part(refused(case, weights, **case.facts), "unused") == f"{key}.more"


@pytest.mark.parametrize("case", CASES + TORCH_CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_caller_s_tensors_stay_as_they_are_and_apart(case: Case, dtype: torch.dtype) -> None:
    weights = {key: tensor.clone().requires_grad_() for key, tensor in case.state_dict.items()}
    before = {key: (id(tensor), tensor.detach().clone()) for key, tensor in weights.items()}
    facts = dict(case.facts)
    faulty = case.variant in ("as_written", "repaired_return")
    with pytest.warns(UserWarning, match="fault kept") if faulty else contextlib.nullcontext():
        model = interop.import_state_dict(case.format, weights, dtype=dtype, n_heads=case.n_heads, **facts)
    assert facts == case.facts
    assert not model.training
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.is_leaf
            assert parameter.requires_grad
            assert parameter.dtype == dtype
            parameter.add_(1.0)
    written = interop.export_state_dict(case.format, model)
    ours = {parameter.data_ptr() for parameter in model.state_dict().values()}
    assert not ours & {tensor.data_ptr() for tensor in written.values()}
    assert len({tensor.data_ptr() for tensor in written.values()}) == len(written)
    assert weights.keys() == before.keys()
    for key, tensor in weights.items():
        assert id(tensor) == before[key][0]
        assert torch.equal(tensor.detach(), before[key][1])
        assert tensor.grad is None


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"norm_first": True}, "norm_first is True, and its code knows False only"),
        ({"norm_eps": 1e-5}, "norm_eps is 1e-05, and its code knows 1e-12 only"),
        ({"positions": "rotary"}, "positions is rotary"),
        ({"feed_forward": "swiglu"}, "feed_forward is swiglu"),
        ({"attention_bias": False}, "encoder.layers.0.attention.w_q.bias"),
        ({"d_model": 32}, "d_model=32 was said, and the weights have 16"),
        ({"src_vocab_size": 7}, "src_vocab_size=7 was said, and the weights have 23"),
        ({"n_encoder_layers": 5}, "n_encoder_layers=5 was said, and the weights have 2"),
        ({"n_heads": 3}, "d_model 16 is not a multiple of n_heads 3"),
        ({"n_heads": "many"}, "n_heads"),
        ({"n_kv_heads": 2}, "wrong shape: encoder.layers.0.attention.w_k.weight is [16, 16] and should be [8, 16]"),
        ({"bos_id": 99}, "bos_id 99 lies outside the target vocabulary of 29"),
        ({"variant": "as_written"}, 'no variant is called "as_written"'),
        ({"n_head": 2}, 'unknown fact "n_head" (did you mean "n_heads"?)'),
        ({"src_embedding": "encoder.emb"}, 'unknown fact "src_embedding"'),
        ({"tie_embeddings": "decoder"}, "tie_embeddings is decoder, and decoder.emb.tok_emb.weight and decoder.linear"),
    ],
)
def test_facts_that_do_not_fit(facts: dict[str, Any], said: str) -> None:
    assert said in refused(HYUN, HYUN.state_dict, **facts)


def test_n_heads_is_the_only_fact_that_must_be_given() -> None:
    with pytest.raises(ConversionError, match="n_heads is not known from the weights"):
        interop.import_state_dict("hyunwoongko", HYUN.state_dict)


def test_facts_become_settings() -> None:
    facts = {"src_pad_id": 4, "tgt_pad_id": 5, "bos_id": 6, "eos_id": 7, "max_length": 99, "dropout": 0.25}
    config = interop.import_state_dict("hyunwoongko", HYUN.state_dict, n_heads=2, **facts).config
    assert {name: getattr(config, name) for name in facts} == facts
    assert config.n_heads == 2


@pytest.mark.parametrize(
    ("case", "preset"),
    [
        ("valid_len_article-repaired_paper", "valid_len"),
        ("hyunwoongko", "hyunwoongko"),
        ("labml_fixed_positions", "labml"),
        ("hkproj_article", "hkproj-article"),
        ("hkproj_no_attention_bias", "hkproj-no-bias"),
        ("hkproj_current", "hkproj"),
        ("annotated", "annotated"),
        ("torch_post_norm", "torch"),
    ],
)
def test_an_imported_model_has_the_settings_of_its_preset(case: str, preset: str) -> None:
    ours = BY_NAME[case].model(torch.float32).config
    sizes = {"n_heads", "d_model", "d_ff", "n_encoder_layers", "n_decoder_layers", "max_length"}
    sizes |= {"src_vocab_size", "tgt_vocab_size"}
    changes = {name: getattr(ours, name) for name in sizes}
    assert ours.model_dump() == ModelConfig.preset(preset, **changes).model_dump()


def test_a_mixture_of_revisions_is_refused() -> None:
    weights = BY_NAME["hkproj_article"].state_dict
    wide = {key: tensor.repeat(16) if "norm" in key else tensor for key, tensor in weights.items()}
    assert 'attention_bias is qkvo, and its code knows "" only' in refused(HKPROJ, wide)


def test_what_holds_no_numbers_is_refused() -> None:
    weights: dict[str, Any] = {**HYUN.state_dict, "steps": torch.tensor(3), "name": "mine"}
    said = part(refused(HYUN, weights), "unsupported")
    assert "steps holds torch.int64" in said
    assert "name holds str" in said


@pytest.mark.parametrize("weights", [{}, {"a": torch.zeros(2)}, HKPROJ.state_dict], ids=["empty", "alien", "other"])
def test_another_format_s_weights_are_told_at_once(weights: dict[str, torch.Tensor]) -> None:
    assert "none of the" in refused(HYUN, weights)


def test_weights_must_be_a_mapping() -> None:
    with pytest.raises(ConversionError, match="this is a list"):
        interop.import_state_dict("hyunwoongko", [1, 2], n_heads=4)  # type: ignore[arg-type]


def test_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(ConversionError, match=r'no format is called "hkpro" \(did you mean "hkproj"\?\)'):
        interop.import_state_dict("hkpro", {}, n_heads=4)
    with pytest.raises(ConversionError, match="there are dragoman, valid_len, hyunwoongko, labml, hkproj"):
        interop.export_state_dict("", HYUN.model(torch.float32))


def test_no_format_or_two_cannot_be_told() -> None:
    with pytest.raises(ConversionError, match="no known format has these keys"):
        interop.detect_format({"a": 1})
    with pytest.raises(ConversionError, match="hyunwoongko and hkproj"):
        interop.detect_format({**HYUN.state_dict, **HKPROJ.state_dict})


@pytest.mark.parametrize("number", ["7", "99999999999999999999", "x", "-1", "1.5"])
def test_a_wild_layer_number_is_an_unused_key_or_missing_layers(number: str) -> None:
    weights = {**HYUN.state_dict, f"encoder.layers.{number}.attention.w_q.weight": torch.zeros(16, 16)}
    message = refused(HYUN, weights)
    if number == "7":
        assert "encoder.layers.6.norm2.beta" in part(message, "missing")
    else:
        assert f"encoder.layers.{number}.attention.w_q.weight" in part(message, "unused")


@pytest.mark.parametrize("variant", ["as_written", "repaired_return"])
def test_a_faulty_variant_warns(variant: str) -> None:
    weights = BY_NAME["valid_len_article-repaired_paper"].state_dict
    with pytest.warns(UserWarning, match="read with a fault kept: its positions"):
        interop.import_state_dict("valid_len", weights, n_heads=2, variant=variant)


@pytest.mark.parametrize("length", [1, 2, 7, 350, 5000])
@pytest.mark.parametrize("name", ["labml_fixed_positions", "hkproj_article", "hkproj_current", "annotated"])
def test_position_buffers_of_any_length_are_rebuilt(name: str, length: int) -> None:
    case = BY_NAME[name]
    model = case.model(torch.float32)
    longer = Transformer(model.config.changed(max_length=length)).eval()
    longer.load_state_dict(model.state_dict())
    weights = interop.export_state_dict(case.format, longer)
    again = interop.import_state_dict(case.format, weights, n_heads=case.n_heads)
    assert again.config.max_length == length
    assert again.config.positions == "sinusoidal"
    inputs = case.ids("source"), case.ids("target_in"), *case.masks(model)
    assert torch.equal(again(*inputs), model(*inputs))
    written = interop.export_state_dict(case.format, again)
    assert all(torch.equal(written[key], tensor) for key, tensor in weights.items())


@pytest.mark.parametrize("name", ["labml_fixed_positions", "hkproj_current", "annotated"])
def test_weights_without_their_position_buffers_are_complete(name: str) -> None:
    case = BY_NAME[name]
    weights = {key: tensor for key, tensor in case.state_dict.items() if not key.endswith(("pe", "encodings"))}
    assert len(weights) == len(case.state_dict) - 2
    assert interop.import_state_dict(case.format, weights, n_heads=4).config.positions == "sinusoidal"


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((1, 32, 16), "hold different kinds of positions"),
        ((32, 1, 16), "src_pos.pe is [32, 1, 16] and should be [1, L, D]"),
        ((32, 16), "src_pos.pe is [32, 16] and should be [1, L, D]"),
        ((1, 0, 16), "should be [1, L, D]"),
    ],
)
def test_a_position_buffer_of_another_kind_or_shape(shape: tuple[int, ...], said: str) -> None:
    assert said in refused(HKPROJ, {**HKPROJ.state_dict, "src_pos.pe": torch.ones(shape)})


def test_a_position_buffer_of_another_width() -> None:
    other = interop.positions.published_sinusoids(32, 12, torch.float32)[None]
    message = refused(HKPROJ, {**HKPROJ.state_dict, "src_pos.pe": other, "tgt_pos.pe": other})
    assert "src_pos.pe holds [32, 12] and should hold [32, 16]" in part(message, "wrong shape")
    assert "tgt_pos.pe holds [32, 12]" in part(message, "wrong shape")


def test_learned_positions_where_the_code_has_none() -> None:
    wild = torch.randn(1, 32, 16)
    message = refused(HKPROJ, {**HKPROJ.state_dict, "src_pos.pe": wild, "tgt_pos.pe": wild})
    assert "src_pos.pe and tgt_pos.pe hold no interleaved sinusoids" in message


def test_sinusoids_may_be_learned_further() -> None:
    fixed = BY_NAME["labml_fixed_positions"]
    model = interop.import_state_dict("labml", fixed.state_dict, n_heads=4, positions="learned")
    assert model.config.positions == "learned"
    assert torch.equal(model.src_positions.weight.data, fixed.state_dict["src_embed.positional_encodings"][:, 0])
    assert "was said" in refused(LABML, LABML.state_dict, positions="sinusoidal")


def test_learned_positions_must_be_there_for_both_sides() -> None:
    weights = LABML.state_dict
    del weights["tgt_embed.positional_encodings"]
    assert "tgt_embed.positional_encodings" in part(refused(LABML, weights), "missing")
    weights["tgt_embed.positional_encodings"] = torch.randn(9, 1, 16)
    said = part(refused(LABML, weights), "wrong shape")
    assert "tgt_embed.positional_encodings holds [9, 16] and should hold [32, 16]" in said


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_may_come_in_another_precision(dtype: torch.dtype) -> None:
    weights = {key: tensor.to(dtype) for key, tensor in HKPROJ.state_dict.items()}
    model = interop.import_state_dict("hkproj", weights, n_heads=4)
    assert model.config.positions == "sinusoidal"
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize("wrap", [lambda d: {"model": d, "step": 3}, lambda d: {"epoch": 1, "model_state_dict": d}])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
def test_training_checkpoints_and_wrappers_are_seen_through(prefix: str, wrap: Any) -> None:
    checkpoint = wrap({f"{prefix}{key}": tensor for key, tensor in HYUN.state_dict.items()})
    assert interop.detect_format(checkpoint) == "hyunwoongko"
    model = interop.import_state_dict("hyunwoongko", checkpoint, n_heads=4)
    inputs = HYUN.ids("source"), HYUN.ids("target_in")
    assert torch.equal(model(*inputs), HYUN.model(torch.float32)(*inputs))


def test_tied_matrices_stay_tied_where_they_are_equal() -> None:
    case = BY_NAME["annotated"]
    weights = case.state_dict
    weights["generator.proj.weight"] = weights["tgt_embed.0.lut.weight"]
    model = interop.import_state_dict("annotated", weights, n_heads=4, tie_embeddings="decoder")
    assert model.output.weight is model.tgt_embedding.weight
    written = interop.export_state_dict("annotated", model)
    assert all(torch.equal(written[key], tensor) for key, tensor in weights.items())


@given(st.sampled_from(ONE_A_FORMAT), st.randoms(use_true_random=False))
@settings(max_examples=30)
def test_damaged_weights_give_our_error_or_a_model(case: Case, random: Any) -> None:
    weights: dict[str, Any] = case.state_dict
    for _ in range(random.randint(1, 4)):
        key = random.choice(sorted(weights))
        damage = random.choice(["drop", "cut", "flat", "scalar", "none", "rename", "empty"])
        tensor = weights.pop(key)
        if damage == "rename":
            weights[key[: random.randint(0, len(key))]] = tensor
        elif damage != "drop":
            shapes = {"cut": (1, 1), "flat": (4,), "scalar": (), "empty": (0, 16)}
            weights[key] = None if damage == "none" else torch.zeros(shapes[damage])
    with contextlib.suppress(DragomanError):
        model = interop.import_state_dict(case.format, weights, n_heads=case.n_heads)
        assert isinstance(model, Transformer)
