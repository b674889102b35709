"""Exports: what a rewriting can express is exact, the rest is refused with every reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman import ModelConfig, Transformer, interop
from dragoman.errors import ConversionError
from dragoman.presets import PRESETS
from tolerances import FLOAT64

SMALL = {
    "src_vocab_size": 11, "tgt_vocab_size": 13, "d_model": 12, "n_heads": 4, "d_ff": 10,
    "n_encoder_layers": 2, "n_decoder_layers": 1, "max_length": 20,
}  # fmt: skip
SRC = torch.tensor([[4, 5, 6, 7, 3], [8, 9, 3, 1, 1]])
TGT = torch.tensor([[2, 4, 5, 6], [2, 7, 8, 1]])
FORMATS = ("valid_len", "hyunwoongko", "labml", "hkproj", "annotated", "torch")


def random_model(preset: str, **changes: Any) -> Transformer:
    """A small float64 model with every weight random, norms and biases included."""
    torch.manual_seed(5)
    sizes = dict(SMALL)
    if changes.get("tie_embeddings", PRESETS[preset].get("tie_embeddings")) == "all":
        sizes["src_vocab_size"] = sizes["tgt_vocab_size"]
    model = Transformer(ModelConfig.preset(preset, **{**sizes, **changes})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model


def logits(model: Transformer) -> Tensor:
    with torch.no_grad():
        return model(SRC, TGT, SRC != 1, TGT != 1)[TGT != 1]


def names(fmt: str) -> dict[str, str]:
    """The facts that a whole model needs."""
    if fmt != "torch":
        return {}
    return {"src_embedding": "src.weight", "tgt_embedding": "tgt.weight", "generator": "out", "positions": "s.pe,t.pe"}


def there_and_back(fmt: str, model: Transformer, **facts: Any) -> Transformer:
    written = interop.export_state_dict(fmt, model, **names(fmt))
    assert all(tensor.dtype == torch.float64 and tensor.is_contiguous() for tensor in written.values())
    return interop.import_state_dict(
        fmt, written, dtype=torch.float64, **{"n_heads": 4, "src_pad_id": 1, "tgt_pad_id": 1, **names(fmt), **facts}
    )


REWRITTEN: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("valid_len", "valid_len", {"tie_embeddings": "all"}, {}),
    ("valid_len", "valid_len", {"n_kv_heads": 2}, {}),
    ("valid_len", "valid_len", {"n_kv_heads": 1, "feed_forward_bias": False, "output_bias": False}, {}),
    ("valid_len", "valid_len", {"positions": "sinusoidal_halves"}, {}),
    ("valid_len", "valid_len", {"scale_embeddings": False}, {}),
    ("valid_len", "transformer-base", {}, {}),
    ("hyunwoongko", "hyunwoongko", {"scale_embeddings": True, "tie_embeddings": "decoder"}, {}),
    ("hyunwoongko", "hyunwoongko", {"attention_bias": "vo", "n_kv_heads": 2, "positions": "sinusoidal_halves"}, {}),
    ("labml", "labml", {"attention_bias": "k"}, {}),
    ("labml", "labml", {"attention_bias": "vo"}, {}),
    ("labml", "labml", {"positions": "sinusoidal_halves"}, {}),
    ("labml", "labml", {"positions": "learned"}, {}),
    ("labml", "labml", {"feed_forward": "gelu", "feed_forward_bias": False}, {"feed_forward": "gelu"}),
    ("labml", "labml", {"feed_forward": "swiglu"}, {"feed_forward": "swiglu"}),
    ("labml", "labml", {"feed_forward": "reglu", "feed_forward_bias": False}, {"feed_forward": "reglu"}),
    ("hkproj", "hkproj", {"attention_bias": ""}, {}),
    ("hkproj", "hkproj-article", {"attention_bias": "qv", "positions": "sinusoidal_halves"}, {}),
    ("hkproj", "hkproj-no-bias", {"tie_embeddings": "all", "output_bias": False}, {}),
    ("annotated", "hkproj-no-bias", {"positions": "sinusoidal_halves"}, {}),
    ("annotated", "annotated", {"scale_embeddings": False, "n_kv_heads": 2, "tie_embeddings": "all"}, {}),
    ("torch", "torch", {"positions": "sinusoidal_halves"}, {}),
    ("torch", "torch", {"positions": "learned", "scale_embeddings": False}, {"scale_embeddings": False}),
    ("torch", "torch", {"attention_bias": False, "n_kv_heads": 2, "norm_first": True}, {"variant": "pre_norm"}),
    ("torch", "torch", {"final_norm": False, "feed_forward": "gelu"}, {"feed_forward": "gelu"}),
    ("torch", "marian", {"final_norm": False}, {"feed_forward": "silu", "norm_first": False}),
]


@pytest.mark.parametrize(("fmt", "preset", "changes", "facts"), REWRITTEN)
def test_a_rewriting_computes_the_same(fmt: str, preset: str, changes: dict[str, Any], facts: dict[str, Any]) -> None:
    model = random_model(preset, **changes)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    again = there_and_back(fmt, model, **facts)
    torch.testing.assert_close(logits(again), logits(model), rtol=0.0, atol=FLOAT64)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(("fmt", "preset", "changes", "facts"), REWRITTEN)
def test_the_plan_says_what_is_rewritten(fmt: str, preset: str, changes: dict[str, Any], facts: dict[str, Any]) -> None:
    way = interop.plan_export(fmt, random_model(preset, **changes).config)
    assert way.format == fmt
    assert way.refused == ()
    assert len(way.steps) == len(way.rewrites)
    rewritten = {rewrite.field for rewrite in way.rewrites}
    assert ("tie_embeddings" in rewritten) == ("tie_embeddings" in {**PRESETS[preset], **changes} and fmt != "torch")
    assert ("n_kv_heads" in rewritten) == ("n_kv_heads" in changes)


@pytest.mark.parametrize(
    ("own", "preset"),
    [
        ("valid_len", "valid_len"),
        ("hyunwoongko", "hyunwoongko"),
        ("labml", "labml"),
        ("hkproj", "hkproj-article"),
        ("hkproj", "hkproj-no-bias"),
        ("hkproj", "hkproj"),
        ("annotated", "annotated"),
        ("torch", "torch"),
    ],
)
def test_a_preset_goes_out_as_it_is(own: str, preset: str) -> None:
    assert interop.plan_export(own, ModelConfig.preset(preset, **SMALL)).steps == []


def reasons(fmt: str, model: Transformer, **facts: Any) -> str:
    with pytest.raises(ConversionError) as caught:
        interop.export_state_dict(fmt, model, **facts)
    return str(caught.value)


@pytest.mark.parametrize(
    ("fmt", "preset", "changes", "fields"),
    [
        ("hyunwoongko", "labml", {"positions": "rotary", "n_heads": 2}, "norm_eps norm_first final_norm positions"),
        ("hyunwoongko", "annotated", {"feed_forward": "geglu"}, "norm norm_eps norm_first final_norm feed_forward"),
        ("valid_len", "valid_len", {"attention_bias": True}, "attention_bias"),
        ("valid_len", "valid_len", {"norm": "rms", "positions": "none"}, "norm positions"),
        ("labml", "labml", {"norm": "rms", "positions": "rotary", "n_heads": 2}, "norm positions"),
        ("hkproj", "annotated", {}, "attention_bias"),
        ("hkproj", "labml", {"positions": "learned"}, "norm norm_eps positions"),
        ("annotated", "hkproj", {"positions": "none", "final_norm": False}, "final_norm positions"),
        ("annotated", "annotated", {"norm_eps": 1e-5}, "norm_eps"),
        ("torch", "torch", {"positions": "rotary", "n_heads": 2, "feed_forward": "glu"}, "positions feed_forward"),
        ("torch", "hkproj", {}, "norm"),
    ],
)
def test_a_refusal_gives_every_reason(fmt: str, preset: str, changes: dict[str, Any], fields: str) -> None:
    model = random_model(preset, **changes)
    message = reasons(fmt, model)
    refused = interop.plan_export(fmt, model.config).refused
    assert {reason.split(" ")[0] for reason in refused} == set(fields.split())
    for reason in refused:
        assert reason in message
    assert message.endswith(".")


def test_a_table_of_positions_goes_out_only_where_the_code_makes_it() -> None:
    model = random_model("valid_len", positions="table")
    assert "its position table is none that the code makes" in reasons("valid_len", model)
    with torch.no_grad():
        for positions in (model.src_positions, model.tgt_positions):
            positions.weight.copy_(interop.valid_len.column_table(20, 12))
    with pytest.warns(UserWarning, match="fault kept"):
        again = there_and_back("valid_len", model, variant="repaired_return", max_length=20)
    torch.testing.assert_close(logits(again), logits(model), rtol=0.0, atol=FLOAT64)
    assert "positions is table" in reasons("hkproj", model)


def test_two_matrices_cannot_share_a_key() -> None:
    named = {"src_embedding": "embed", "tgt_embedding": "embed", "generator": "out"}
    assert "embed.weight would hold two matrices that differ" in reasons(
        "torch", random_model("torch", src_vocab_size=13), **named
    )
    learned = random_model("torch", positions="learned")
    assert "two tables that differ" in reasons("torch", learned, **{**names("torch"), "positions": "pe"})
    tied = random_model("torch", tie_embeddings="all")
    written = interop.export_state_dict("torch", tied, src_embedding="e", tgt_embedding="e", generator="e")
    again = interop.import_state_dict("torch", written, n_heads=4, src_embedding="e", tgt_embedding="e", generator="e")
    assert again.config.tie_embeddings == "all"
    assert again.src_embedding.weight is again.output.weight


def test_an_unknown_fact_of_an_export() -> None:
    assert 'unknown fact "src_embeding" (did you mean "src_embedding"?)' in reasons(
        "torch", random_model("torch"), src_embeding="x"
    )
    assert 'unknown fact "generator"' in reasons("hkproj", random_model("hkproj"), generator="x")


OPTIONS = {
    "norm": st.sampled_from(["layer", "std", "std_scalar", "rms"]),
    "norm_eps": st.sampled_from([1e-5, 1e-6, 1e-12]),
    "norm_first": st.booleans(),
    "final_norm": st.booleans(),
    "positions": st.sampled_from(["sinusoidal", "sinusoidal_halves", "learned", "rotary", "none"]),
    "scale_embeddings": st.booleans(),
    "tie_embeddings": st.sampled_from(["none", "decoder", "all"]),
    "attention_bias": st.sampled_from([True, False, "vo", "q"]),
    "feed_forward": st.sampled_from(["relu", "gelu", "swiglu"]),
    "feed_forward_bias": st.booleans(),
    "output_bias": st.booleans(),
    "n_kv_heads": st.sampled_from([None, 1, 2]),
}


@settings(max_examples=60)
@given(st.sampled_from(FORMATS), st.data())
def test_every_model_is_refused_or_comes_back_the_same(fmt: str, data: st.DataObject) -> None:
    """A few options are changed from the preset of the same name, which the format takes as it is."""
    changed = data.draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=4, unique=True))
    changes = {name: data.draw(OPTIONS[name], label=name) for name in changed}
    if changes.get("positions") == "rotary":
        changes["n_heads"] = 2
        changes.pop("n_kv_heads", None)
    model = random_model(fmt, **changes)
    if interop.plan_export(fmt, model.config).refused:
        assert "cannot write this model as" in reasons(fmt, model, **names(fmt))
        return
    told = {"feed_forward": model.config.feed_forward, "n_heads": model.config.n_heads}
    if fmt == "torch":
        told |= {name: getattr(model.config, name) for name in ("norm_first", "norm_eps", "scale_embeddings")}
        if model.config.positions == "none":
            told["positions"] = "none"
    again = there_and_back(fmt, model, **told)
    torch.testing.assert_close(logits(again), logits(model), rtol=0.0, atol=FLOAT64)
