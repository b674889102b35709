"""What breaks a conversion: odd archives, odd values, facts that contradict, places that are taken meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from bundles import make_bundle
from conftest import RunCli
from dragoman import interop
from dragoman.bundle import MOST_POSITIONS, Bundle, load_bundle, save_bundle
from dragoman.config import ModelConfig, TokenizerConfig
from dragoman.errors import BundleError, ConversionError, DataError, DragomanError
from dragoman.files import signals_kept
from dragoman.interop import check, ctranslate2
from dragoman.interop.checkpoint import state_dict_of
from dragoman.interop.marian_decode import decode_settings
from dragoman.interop.positions import kind_of
from dragoman.interop.valid_len import ramp_table
from dragoman.interop.weights import read_weights
from dragoman.model.positions import sinusoid_halves_table, sinusoid_table
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenizer import Tokenizer
from marian_folders import our_bundle, their_folder, trained
from test_interop_export import random_model
from tolerances import FLOAT32, FLOAT64

AROUND = {"src_embedding": "src", "tgt_embedding": "tgt", "generator": "out"}
# The module: the function of its name hides it.
SAVING = sys.modules["dragoman.interop.save"]
KEY = "encoder.layers.0.self_attn.linears.0.weight"


def refused(call: Any, *args: Any, error: type[DragomanError] = ConversionError, **facts: Any) -> str:
    with pytest.raises(error) as caught:
        call(*args, **facts)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def annotated() -> dict[str, torch.Tensor]:
    return interop.export_state_dict("annotated", random_model("annotated").float())


def rezip(source: Path, target: Path, how: int, **more: bytes) -> None:
    """The same archive with records packed in another way; ``more`` goes behind the records of these endings."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", how) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + more.get(name.rpartition("/")[2].replace(".", "_"), b""))


# Files of weights


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_that_was_zipped_again_holds_the_same_numbers(tmp_path: Path, how: int) -> None:
    state = annotated()
    torch.save(state, tmp_path / "a.pt")
    rezip(tmp_path / "a.pt", tmp_path / "b.pt", how)
    again = read_weights(tmp_path / "b.pt")
    assert again.keys() == state.keys()
    assert all(torch.equal(again[key], state[key]) for key in state)
    interop.convert(tmp_path / "b.pt", tmp_path / "c.pt", "annotated", n_heads=4)
    written = read_weights(tmp_path / "c.pt")
    assert all(torch.equal(written[key], state[key]) for key in state if not key.endswith(".pe"))


@pytest.mark.parametrize("record", ["data_pkl", "0"])
def test_an_archive_made_to_fill_the_memory_is_refused(tmp_path: Path, record: str) -> None:
    torch.save(annotated(), tmp_path / "a.pt")
    rezip(tmp_path / "a.pt", tmp_path / "bomb.pt", zipfile.ZIP_DEFLATED, **{record: bytes(100_000_000)})
    message = refused(read_weights, tmp_path / "bomb.pt")
    assert "would unpack to 100 MB" in message
    assert "bomb.pt" in message


def test_zeros_that_shrink_much_are_read(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(1000, 1000)}, tmp_path / "a.pt")
    rezip(tmp_path / "a.pt", tmp_path / "b.pt", zipfile.ZIP_DEFLATED)
    assert (tmp_path / "b.pt").stat().st_size * 100 < (tmp_path / "a.pt").stat().st_size
    assert torch.equal(read_weights(tmp_path / "b.pt")["w"], torch.zeros(1000, 1000))


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    torch.save(annotated(), tmp_path / "a.pt")
    content = (tmp_path / "a.pt").read_bytes()
    for name, part in (("cut.pt", content[:-100]), ("torn.pt", content[:300] + content[400:])):
        (tmp_path / name).write_bytes(part)
        assert name in refused(read_weights, tmp_path / name)
    assert "cannot read" in refused(read_weights, Path("a\0b.pt"))


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:659] . unexpected pos 64 vs 0\nand more")

    monkeypatch.setattr(torch, "save", full)
    message = refused(interop.save, make_bundle(), tmp_path / "out.pt", "dragoman")
    assert "cannot write" in message
    assert "out.pt" in message
    assert list(tmp_path.iterdir()) == []


# Checkpoints


def test_weights_are_found_in_the_holder_that_has_some() -> None:
    state = annotated()
    for checkpoint in (
        {"model_state_dict": {}, "model": state},
        {"model_state_dict": None, "state_dict": {}, "model": {"model": state}},
    ):
        assert state_dict_of(checkpoint).keys() == state.keys()
    assert state_dict_of({"model": {}}) == {}


def test_a_checkpoint_without_end_is_refused(tmp_path: Path) -> None:
    ring: dict[str, Any] = {}
    ring["model"] = ring
    assert "mappings deep" in refused(state_dict_of, ring)
    torch.save(ring, tmp_path / "ring.pt")
    assert "mappings deep" in refused(interop.convert, tmp_path / "ring.pt", tmp_path / "out.pt", "annotated")
    deep: dict[str, Any] = annotated()
    for _ in range(5000):
        deep = {"model": deep}
    assert "mappings deep" in refused(state_dict_of, deep)


def test_two_keys_of_one_name_are_refused() -> None:
    assert "one name" in refused(state_dict_of, {1: torch.zeros(1), "1": torch.zeros(1)})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda tensor: tensor.to("meta"), "device meta"),
        (lambda tensor: torch.nested.nested_tensor([tensor, tensor[:1]]), "nested tensor"),
        (lambda tensor: tensor.to_sparse(), "sparse tensor"),
        (lambda tensor: tensor.to(torch.int32), "torch.int32"),
        (lambda tensor: tensor.to(torch.complex64), "torch.complex64"),
        (lambda tensor: tensor.tolist(), "list"),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_that_are_no_weights_are_named(make: Any, said: str) -> None:
    state = annotated()
    odd = {**state, KEY: make(state[KEY])}
    message = refused(interop.import_state_dict, "annotated", odd, n_heads=4)
    assert f"{KEY} holds" in message
    assert said in message
    own = interop.export_state_dict("dragoman", random_model("labml"))
    odd = {**own, "decoder.norm.weight": make(torch.ones(3, 4))}
    message = refused(interop.import_state_dict, "dragoman", odd, n_heads=4)
    assert "decoder.norm.weight" in message
    assert said in message


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_eight_bit_floats_are_read(tie: str) -> None:
    model = random_model("marian", tie_embeddings=tie).float()
    state = {
        key: tensor.to(torch.float8_e4m3fn) for key, tensor in interop.export_state_dict("marian", model).items()
        if "positions" not in key
    }  # fmt: skip
    again = interop.import_state_dict("marian", state, n_heads=4)
    assert again.config.tie_embeddings == tie
    key = "model.decoder.layers.0.fc1.weight"
    assert torch.equal(again.decoder.layers[0].feed_forward.inner.weight, state[key].float())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("fmt", ["annotated", "dragoman"])
def test_numbers_that_are_not_finite_are_refused(value: float, fmt: str) -> None:
    state = interop.export_state_dict(fmt, random_model("annotated").float())
    keys = [key for key in state if key.endswith("weight")]
    state[keys[3]][0, 0] = value
    message = refused(interop.import_state_dict, fmt, state, n_heads=4, norm_first=True, final_norm=True)
    assert f"not finite: {keys[3]}" in message
    for key in keys:
        state[key].fill_(value)
    message = refused(interop.import_state_dict, fmt, state, n_heads=4, norm_first=True, final_norm=True)
    assert f"and {len(keys) - 8} more" in message


def test_numbers_too_large_for_the_type_asked_for_are_refused() -> None:
    state = annotated()
    state[KEY][0, 0] = 1e6
    assert interop.import_state_dict("annotated", state, n_heads=4).config.n_heads == 4
    message = refused(interop.import_state_dict, "annotated", state, torch.float16, n_heads=4)
    assert f"not finite: {KEY}" in message


# What is checked after writing


def test_a_result_that_computes_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = make_bundle()

    def other(path: Path) -> Any:
        return {key: tensor * 1.01 for key, tensor in read_weights(path).items()}

    monkeypatch.setattr(SAVING, "read_weights", other)
    for fmt in ("dragoman", "torch"):
        message = refused(interop.save, bundle, tmp_path / "out.pt", fmt, **(AROUND if fmt == "torch" else {}))
        assert "nothing is written" in message
        assert "in its logits" in message
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_computes_something_else_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(*args: Any, **facts: Any) -> Bundle:
        bundle = load_bundle(*args, **facts)
        with torch.no_grad():
            bundle.model.output.weight.mul_(2.0)
        return bundle

    monkeypatch.setattr(SAVING, "load_bundle", other)
    assert "nothing is written" in refused(interop.save, make_bundle(), tmp_path / "out", "dragoman")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_computes_nothing_is_refused(tmp_path: Path) -> None:
    bundle = make_bundle()
    with torch.no_grad():
        bundle.model.output.weight.fill_(3e38)
    for path, fmt in (("a.pt", "dragoman"), ("b", "dragoman"), ("c", "ctranslate2")):
        assert "are not finite" in refused(interop.save, bundle, tmp_path / path, fmt)
    assert list(tmp_path.iterdir()) == []


def test_weights_beyond_half_precision_are_not_written_in_it(tmp_path: Path) -> None:
    bundle = make_bundle(final_norm=True)
    with torch.no_grad():
        bundle.model.encoder.layers[0].feed_forward.inner.weight.mul_(1e7)
    message = refused(interop.save, bundle, tmp_path / "ct2", "ctranslate2", quantization="float16")
    assert "nothing is written" in message
    assert list(tmp_path.iterdir()) == []


def test_how_far_a_copy_may_be_off() -> None:
    ours = torch.tensor([1.0, -100.0])
    assert check.judged("x", ours, ours + 0.09) == pytest.approx(0.09, rel=1e-3)
    assert "1.1e-01" in refused(check.judged, "x", ours, ours + 0.11)
    assert check.judged("x", ours, ours + 50.0, share=1.0) == 50.0
    assert "nan" in refused(check.judged, "x", ours, ours * float("nan"), share=1.0)
    assert check.judged("x", ours.bfloat16(), ours.bfloat16() + 10.0) == 10.0
    assert check.judged("x", torch.zeros(2), torch.zeros(2)) == 0.0


# torch: models around nn.Transformer


@pytest.mark.parametrize("positions", ["learned", "table"])
def test_positions_are_not_dropped_in_silence(tmp_path: Path, positions: str) -> None:
    bundle = make_bundle(positions=positions)
    if positions == "table":
        for table in (bundle.model.src_positions, bundle.model.tgt_positions):
            table.weight.copy_(ramp_table(*table.weight.shape))
    message = refused(interop.save, bundle, tmp_path / "out.pt", "torch", **AROUND)
    assert "positions=KEY" in message
    saved = interop.save(bundle, tmp_path / "out.pt", "torch", **AROUND, positions="pe.src,pe.tgt")
    assert saved.checks["logits"] <= FLOAT32
    assert "pe.src" in read_weights(tmp_path / "out.pt")
    stacks = interop.save(bundle, tmp_path / "stacks.pt", "torch")
    assert list(stacks.checks) == ["nn.Transformer"]
    assert all(key.startswith(("encoder.", "decoder.")) for key in read_weights(tmp_path / "stacks.pt"))


def test_a_kind_of_positions_goes_to_both_sides(tmp_path: Path) -> None:
    state = interop.export_state_dict("torch", random_model("torch", positions="sinusoidal_halves").float(), **AROUND)
    torch.save(state, tmp_path / "in.pt")
    facts = {**AROUND, "n_heads": 4, "positions": "sinusoidal_halves"}
    saved = interop.convert(tmp_path / "in.pt", tmp_path / "out.pt", "torch", variant="pre_norm", **facts)
    assert saved.checks["logits"] <= FLOAT32
    model = random_model("torch", positions="sinusoidal")
    assert "positions=none was said" in refused(interop.export_state_dict, "torch", model, **AROUND, positions="none")


@pytest.mark.parametrize(("encoder", "decoder"), [(0, 1), (1, 0), (0, 0)])
def test_a_stack_without_layers_is_refused_in_the_plan(tmp_path: Path, encoder: int, decoder: int) -> None:
    bundle = make_bundle(n_encoder_layers=encoder, n_decoder_layers=decoder)
    way = interop.plan_save(bundle, "torch")
    assert len(way.refused) == (encoder == 0) + (decoder == 0)
    message = refused(interop.save, bundle, tmp_path / "out.pt", "torch")
    assert all(reason in message for reason in way.refused)


@pytest.mark.parametrize(
    "positions", [5, True, 1.5, "", [], ["a"] * 3, [1, 2], {}, {"a": 1}, "a,b,c", "a,,b", ",", [""]]
)
def test_what_names_no_key_of_positions_is_refused(positions: Any) -> None:
    state = interop.export_state_dict("torch", random_model("torch", positions="sinusoidal"))
    assert "positions" in refused(interop.import_state_dict, "torch", state, n_heads=4, positions=positions)
    with pytest.raises(ConversionError):
        interop.export_state_dict("torch", random_model("torch"), **AROUND, positions=positions)


@pytest.mark.parametrize("value", [1, None, [1], "", True])
def test_what_names_no_module_is_refused(value: Any) -> None:
    state = interop.export_state_dict("torch", random_model("torch", positions="sinusoidal"), **AROUND)
    for fact in AROUND:
        facts = {**AROUND, fact: value}
        assert f"{fact} should name" in refused(interop.import_state_dict, "torch", state, n_heads=4, **facts)
    if value != "":
        assert "encoder should name" in refused(interop.import_state_dict, "torch", state, n_heads=4, encoder=value)


def test_stacks_at_the_root_are_found_and_written_there(tmp_path: Path) -> None:
    state = interop.export_state_dict("torch", random_model("torch", positions="sinusoidal").float())
    root = {key.removeprefix("encoder."): tensor for key, tensor in state.items()}
    torch.save(root, tmp_path / "in.pt")
    interop.convert(tmp_path / "in.pt", tmp_path / "out.pt", "torch", n_heads=4)
    assert read_weights(tmp_path / "out.pt").keys() == root.keys()


def test_facts_that_contradict_are_refused() -> None:
    state = interop.export_state_dict("torch", random_model("torch", positions="sinusoidal"))
    for variant, first in (("pre_norm", False), ("post_norm", True)):
        message = refused(interop.import_state_dict, "torch", state, n_heads=4, variant=variant, norm_first=first)
        assert "contradict" in message
    assert interop.import_state_dict("torch", state, n_heads=4, variant="pre_norm").config.norm_first
    assert interop.import_state_dict("torch", state, n_heads=4, norm_first=True).config.norm_first


def test_a_key_that_is_named_for_two_things_is_refused() -> None:
    model = random_model("torch", positions="sinusoidal", d_ff=13, src_vocab_size=13, tgt_vocab_size=13)
    state = interop.export_state_dict("torch", model, **AROUND)
    del state["src.weight"]
    facts = {**AROUND, "n_heads": 4, "src_embedding": "encoder.layers.0.linear1"}
    assert "encoder.layers.0.linear1.weight was named for two" in refused(
        interop.import_state_dict, "torch", state, **facts
    )
    state = interop.export_state_dict("torch", model, **AROUND)
    assert "out.weight was named for two" in refused(
        interop.import_state_dict, "torch", state, n_heads=4, **AROUND, positions="out"
    )


# Small models, large numbers


@pytest.mark.parametrize("width", [1, 2])
def test_sinusoids_of_one_or_two_columns_are_of_the_order_that_the_code_knows(width: int) -> None:
    table = sinusoid_table(9, width)
    assert torch.equal(table, sinusoid_halves_table(9, width))
    assert kind_of(table) == "sinusoidal"
    assert kind_of(table, {"sinusoidal_halves"}) == "sinusoidal_halves"
    model = random_model("marian", d_model=width, n_heads=1)
    state = interop.export_state_dict("marian", model)
    again = interop.import_state_dict("marian", state, torch.float64, n_heads=1)
    src = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(again(src, src), model(src, src), rtol=0.0, atol=FLOAT64)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_shortest_models_for_ctranslate2(tmp_path: Path, positions: str, length: int) -> None:
    for src_bos in (False, True):
        bundle = make_bundle(positions=positions, max_length=length, src_bos=src_bos)
        way = interop.plan_save(bundle, "ctranslate2")
        if positions == "learned" and length < 2 + src_bos:
            assert f"needs {2 + src_bos} positions" in way.refused[0]
            assert way.refused[0] in refused(interop.save, bundle, tmp_path / "no", "ctranslate2")
        else:
            saved = interop.save(bundle, tmp_path / f"{src_bos}", "ctranslate2")
            assert saved.checks["log-probabilities"] <= FLOAT32


def test_a_refusal_lists_what_each_revision_knows() -> None:
    config = ModelConfig.preset("hkproj", src_vocab_size=9, tgt_vocab_size=9, norm="layer")
    (reason,) = interop.plan_export("hkproj", config).refused
    assert reason == "norm is layer, and its code knows std or std_scalar only"
    state = interop.export_state_dict("hkproj", random_model("hkproj"))
    assert "knows std or std_scalar only" in refused(
        interop.import_state_dict, "hkproj", state, n_heads=4, norm="layer"
    )


@pytest.mark.parametrize("fact", ["max_length", "src_pad_id", "eos_id", "src_vocab_size"])
@pytest.mark.parametrize("fmt", ["annotated", "dragoman", "torch"])
def test_sizes_beyond_any_machine_are_refused(fmt: str, fact: str) -> None:
    model = random_model("torch" if fmt == "torch" else "annotated", positions="sinusoidal")
    state = interop.export_state_dict(fmt, model)
    message = refused(interop.import_state_dict, fmt, state, n_heads=4, **{fact: 10**10})
    assert f"{fact}=10000000000" in message


def test_configurations_beyond_any_machine_are_refused(tmp_path: Path) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    config = json.loads(file.read_text())
    for field, value, said in (
        ("max_length", MOST_POSITIONS + 1, "positions at most"),
        ("n_encoder_layers", 10**9, "1000000001 layers"),
        ("n_decoder_layers", 10**9, "1000000002 layers"),
        ("d_ff", 10**18, "no machine has"),
    ):
        file.write_text(json.dumps({**config, "model": {**config["model"], field: value}}))
        started = time.monotonic()
        message = refused(load_bundle, tmp_path / "model", error=BundleError)
        assert said in message
        assert time.monotonic() - started < 5.0
    own = interop.export_state_dict("dragoman", random_model("labml"))
    own["encoder.layers.1000000000.norm.weight"] = torch.zeros(1)
    assert "unused: encoder.layers.1000000000.norm.weight" in refused(
        interop.import_state_dict, "dragoman", own, n_heads=4, feed_forward="relu"
    )


@pytest.mark.parametrize("value", [["all"], {}, 3, None])
def test_a_tie_that_is_none_is_refused(value: Any) -> None:
    state = interop.export_state_dict("marian", random_model("marian"))
    assert "tie_embeddings" in refused(interop.import_state_dict, "marian", state, n_heads=4, tie_embeddings=value)


@pytest.mark.parametrize("dtype", [int, float, "float32", torch.int64, torch.complex64, torch.float8_e5m2, None])
def test_a_type_that_models_cannot_have_is_refused(tmp_path: Path, dtype: Any) -> None:
    torch.save(annotated(), tmp_path / "a.pt")
    assert "dtype is" in refused(interop.import_state_dict, "annotated", annotated(), dtype, n_heads=4)
    assert "dtype is" in refused(interop.load, tmp_path / "a.pt", dtype=dtype, n_heads=4)


# What errors say


def test_an_error_names_the_file_and_everything_at_once(tmp_path: Path) -> None:
    torch.save(annotated(), tmp_path / "a.pt")
    message = refused(interop.load, tmp_path / "a.pt", src_tokenizer="no.json", tgt_tokenizer="nor.json", nheads=2)
    for words in (
        "no.json",
        f"cannot read {tmp_path / 'a.pt'} as annotated",
        'unknown fact "nheads"',
        "n_heads is not",
    ):
        assert words in message
    for fmt in ("dragoman", "labml"):
        message = refused(interop.load, tmp_path / "a.pt", fmt, n_heads=4)
        assert str(tmp_path / "a.pt") in message
        assert next(iter(annotated())) in message
        assert f"{'as ' * (fmt == 'dragoman')}{fmt}" in message


def test_a_matrix_without_rows_and_weights_of_nothing_are_named(tmp_path: Path) -> None:
    state = annotated()
    torch.save({**state, "src_embed.0.lut.weight": torch.zeros(0, 12)}, tmp_path / "a.pt")
    assert "a.pt as annotated: unsupported: ModelConfig" in refused(interop.load, tmp_path / "a.pt", n_heads=4)
    torch.save({key: tensor.int() for key, tensor in state.items()}, tmp_path / "b.pt")
    assert "b.pt as annotated: unsupported: src_embed" in refused(interop.load, tmp_path / "b.pt", n_heads=4)


def test_folders_that_are_no_models_of_ours_are_named(tmp_path: Path) -> None:
    bundle = make_bundle()
    interop.save(bundle, tmp_path / "ct2", "ctranslate2")
    assert "is a CTranslate2 folder" in refused(interop.convert, tmp_path / "ct2", tmp_path / "x", "dragoman")
    their_folder(tmp_path / "hf")
    (tmp_path / "hf" / "config.json").unlink()
    assert "Marian's tokenizers and no config.json" in refused(interop.format_of, tmp_path / "hf")
    assert "without a suffix" in refused(interop.export_state_dict, "ctranslate2", bundle.model)


@pytest.mark.parametrize("value", [5, "", [1], {"a": 1}, "../x", "a b", "en\nde", "\u202e", "\ud800", None])
def test_a_language_is_a_word(tmp_path: Path, value: Any) -> None:
    torch.save(annotated(), tmp_path / "a.pt")
    message = refused(interop.load, tmp_path / "a.pt", src_lang=value, n_heads=4)
    assert "src_lang is" in message
    message.encode()
    their_folder(tmp_path / "hf")
    assert "tgt_lang is" in refused(interop.load, tmp_path / "hf", tgt_lang=value)
    if value:
        file = tmp_path / "hf" / "tokenizer_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "source_lang": value}))
        assert "source_lang is" in refused(interop.load, tmp_path / "hf")
        assert interop.load(tmp_path / "hf", src_lang="pt-BR").src_lang == "pt-BR"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_length", "x"), ("max_new_tokens", True), ("min_length", 1.5), ("do_sample", "yes"), ("top_k", [1]),
        ("renormalize_logits", 1), ("length_penalty", "x"), ("suppress_tokens", {"a": 1}), ("bad_words_ids", 5),
        ("early_stopping", []), ("num_beams", "4"), ("no_repeat_ngram_size", 2.0),
    ],
)  # fmt: skip
def test_settings_of_generate_of_a_wrong_type_are_refused(key: str, value: Any) -> None:
    _, reasons, _ = decode_settings({key: value}, (), ["a", "b"])
    assert len(reasons) == 1
    assert f"{key} is {value}, and it should be" in reasons[0]


def test_an_index_of_parts_names_files(tmp_path: Path) -> None:
    their_folder(tmp_path / "hf")
    (tmp_path / "hf" / "model.safetensors").rename(tmp_path / "hf" / "part.safetensors")
    for name in ("a\0b", "", "../hf/part.safetensors", ".", "..", 5, "\ud800"):
        index = {"weight_map": {"model.shared.weight": name}}
        (tmp_path / "hf" / "model.safetensors.index.json").write_text(json.dumps(index))
        assert "model.safetensors.index.json names no files" in refused(interop.load, tmp_path / "hf")


# Text


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordlevel", "sentencepiece", "rules"])
def test_what_is_no_text_and_what_is_no_id_is_said(kind: str) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=400, min_frequency=1)
    tokenizer = Tokenizer.train(config, ["the key paints the ferry"] * 3, "en")
    for call in (tokenizer.encode, tokenizer.normalize, lambda text: tokenizer.encode_batch(["a", text])):
        assert "U+D800 at character 2" in refused(call, "a \ud800 b", error=DataError)
        assert "NoneType" in refused(call, None, error=DataError)
    assert "U+DFFF" in refused(Tokenizer.train, config, ["a", "\udfff b"], "en", error=DataError)
    for odd in (-1, tokenizer.vocab_size, 2**70):
        for call in (tokenizer.decode, tokenizer.tokens):
            assert f"no id {odd}" in refused(call, [4, odd], error=DataError)
    for odd in (1.5, "a", None):
        for call in (tokenizer.decode, tokenizer.tokens):
            assert "whole numbers" in refused(call, [4, odd], error=DataError)
    ids = tokenizer.encode("the ferry")
    assert tokenizer.decode(torch.tensor(ids)) == tokenizer.decode(ids) == tokenizer.normalize("the ferry")


def test_vocabularies_that_hold_no_text_are_refused(tmp_path: Path) -> None:
    words = ["<unk>", "<pad>", "<s>", "</s>", "a", "\ud800"]
    value = {"kind": "rules", "language": "en", "lowercase": True, "vocabulary": words}
    (tmp_path / "t.json").write_text(json.dumps(value))
    assert "no text" in refused(Tokenizer.load, tmp_path / "t.json", error=BundleError)
    tokenizer = trained(("the key paints the ferry",))
    pieces = dict(tokenizer.pieces)
    pieces["\udc00"] = pieces.pop(tokenizer.vocabulary()[-1])
    assert "no text" in refused(SentencePieceTokenizer, tokenizer.model, pieces, error=BundleError)


def test_a_list_of_words_may_begin_with_a_mark(tmp_path: Path) -> None:
    from dragoman.text.rules import RulesTokenizer

    (tmp_path / "words.txt").write_text("\ufeff<unk>\n<pad>\n<sos>\n<eos>\na\n", encoding="utf-8")
    assert RulesTokenizer.from_words(tmp_path / "words.txt", "en").unk_id == 0


# Places, signals


def test_links_and_places_inside_the_source_are_refused(tmp_path: Path) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    before = sorted(path.name for path in (tmp_path / "model").iterdir())
    (tmp_path / "empty").mkdir()
    for target in ("empty", "nowhere", "model"):
        link = tmp_path / f"to_{target}"
        link.symlink_to(target)
        for fmt in ("dragoman", "ctranslate2"):
            assert "is a link" in refused(interop.convert, tmp_path / "model", link, fmt)
        assert link.is_symlink()
    (tmp_path / "other").symlink_to("model")
    for inside in (tmp_path / "model" / "x", tmp_path / "other" / "a" / "x.pt"):
        assert "lies in" in refused(interop.convert, tmp_path / "model", inside, "dragoman")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == before
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize(("name", "fmt"), [("x.pt", "torch"), ("x.pt", "dragoman"), ("x", "dragoman"),
                                           ("x", "ctranslate2"), ("x", "marian")])  # fmt: skip
def test_what_came_to_the_place_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fmt: str
) -> None:
    place, real = tmp_path / name, check.random_ids

    def meanwhile(*args: Any) -> Any:
        place.mkdir(exist_ok=True)
        (place / "mine").write_text("mine")
        return real(*args)

    monkeypatch.setattr(check, "random_ids", meanwhile)
    monkeypatch.setattr("dragoman.interop.marian_folder.random_ids", meanwhile)
    monkeypatch.setattr(ctranslate2, "_random_pairs", lambda config, real=ctranslate2._random_pairs: (
        meanwhile(config), real(config))[1])  # fmt: skip
    bundle = our_bundle() if fmt == "marian" else make_bundle()
    facts = AROUND if fmt == "torch" else {}
    assert "exists" in refused(interop.save, bundle, place, fmt, **facts)
    assert (place / "mine").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_a_block(number: signal.Signals) -> None:
    class Came(BaseException):
        pass

    def come(*_: Any) -> None:
        raise Came

    before = signal.signal(number, come)
    reached = []

    def block() -> None:
        with signals_kept():
            os.kill(os.getpid(), number)
            time.sleep(0.01)
            reached.append(True)

    try:
        with pytest.raises(Came):
            block()
        assert reached
        assert signal.getsignal(number) is come
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_comparison_leaves_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    script = f"""
import os, signal, sys, time
from dragoman.interop import check
# A shell that starts the tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
def strike(config):
    os.kill(os.getpid(), {int(number)})
    for _ in range(1000): time.sleep(0.01)
    raise AssertionError("the signal did nothing")
check.random_ids = strike
from dragoman.cli.main import main
sys.argv = ["dragoman", "convert", "model", "out", "--to", "dragoman"]
main()
"""
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_warning_is_a_line_of_the_log(run_cli: RunCli, tmp_path: Path) -> None:
    model = random_model("valid_len").float()
    torch.save(interop.export_state_dict("valid_len", model), tmp_path / "in.pt")
    result = run_cli(
        "convert", tmp_path / "in.pt", tmp_path / "out.pt", "--to", "dragoman", "n_heads=4", "variant=as_written"
    )
    assert result.rc == 0, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if "valid_len weights" in line]
    assert line.startswith("warning: these valid_len weights are read with a fault kept")
    assert ".py" not in result.stderr
