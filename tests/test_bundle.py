"""Model directories: what is saved comes back to the bit, and nothing half or damaged is taken."""

from __future__ import annotations

import contextlib
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from bundles import LINES, make_bundle
from dragoman import bundle as module
from dragoman.bundle import Bundle, empty_model, load_bundle, save_bundle, unique_weights
from dragoman.config import DecodeConfig
from dragoman.errors import BundleError, DragomanError

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_bundle(make_bundle(), folder)
    return folder


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def assert_equal(found: Bundle, expected: Bundle) -> None:
    weights, others = found.model.state_dict(), expected.model.state_dict()
    assert list(weights) == list(others)
    for name, tensor in weights.items():
        assert tensor.dtype == others[name].dtype, name
        assert torch.equal(tensor, others[name]), name
    assert found.model.config == expected.model.config
    assert found.decode == expected.decode
    assert (found.src_lang, found.tgt_lang, found.card) == (expected.src_lang, expected.tgt_lang, expected.card)
    assert found.tokenizers.joint == expected.tokenizers.joint
    for text in LINES:
        assert found.tokenizers.src.encode(text) == expected.tokenizers.src.encode(text)
        assert found.tokenizers.tgt.encode(text) == expected.tokenizers.tgt.encode(text)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_embeddings": "decoder", "joint": False},
        {"tie_embeddings": "all", "output_bias": False, "positions": "learned"},
        {"positions": "table", "norm": "std_scalar", "attention_bias": "qo"},
        {"positions": "rotary", "norm": "rms", "feed_forward": "swiglu", "init": "kaiming", "n_kv_heads": 1},
        {"kind": "wordlevel", "positions": "none", "norm": "std", "init": "torch", "final_norm": False},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())) or "default",
)
def test_saved_is_loaded(changes: dict[str, Any], tmp_path: Path) -> None:
    bundle = make_bundle(**changes)
    for tensor in bundle.model.state_dict().values():
        tensor.normal_()
    bundle.decode = DecodeConfig(beam_size=7, n_best=2, length_norm="power", length_penalty=0.6)
    bundle.card = "# Größe 🙂\r\n\n| a | b |\n"
    save_bundle(bundle, tmp_path / "deep" / "model")
    loaded = load_bundle(tmp_path / "deep" / "model")
    assert_equal(loaded, bundle)
    assert not loaded.model.training
    src, tgt = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 8, 9]])
    assert torch.equal(loaded.model(src, tgt), bundle.model(src, tgt))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_type_of_the_weights_is_kept_and_can_be_chosen(dtype: torch.dtype, tmp_path: Path) -> None:
    bundle = make_bundle(tie_embeddings="all")
    bundle.model.to(dtype)
    save_bundle(bundle, tmp_path / "model")
    assert {tensor.dtype for tensor in load_file(tmp_path / "model" / WEIGHTS).values()} == {dtype}
    assert_equal(load_bundle(tmp_path / "model", dtype=dtype), bundle)
    bundle.model.float()
    assert_equal(load_bundle(tmp_path / "model"), bundle)


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_a_tied_matrix_is_written_once_and_stays_tied(tie: str, tmp_path: Path) -> None:
    bundle = make_bundle(tie_embeddings=tie)
    save_bundle(bundle, tmp_path / "model")
    stored = load_file(tmp_path / "model" / WEIGHTS)
    assert sum(tensor.numel() for tensor in stored.values()) == sum(p.numel() for p in bundle.model.parameters())
    for model in (load_bundle(tmp_path / "model").model, load_bundle(tmp_path / "model", dtype=torch.bfloat16).model):
        assert (model.output.weight is model.tgt_embedding.weight) == (tie != "none")
        assert (model.src_embedding.weight is model.tgt_embedding.weight) == (tie == "all")
        assert len(list(model.parameters())) == len(list(bundle.model.parameters()))


@pytest.mark.parametrize("joint", [True, False])
def test_the_layout(joint: bool, tmp_path: Path) -> None:
    save_bundle(make_bundle(joint), tmp_path / "model")
    tokenizers = ["tokenizer.json"] if joint else ["src.tokenizer.json", "tgt.tokenizer.json"]
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == sorted(["README.md", "config.json", "decode.json", WEIGHTS, *tokenizers])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert {name: config[name] for name in ("format_version", "src_lang", "tgt_lang")} == {
        "format_version": 1,
        "src_lang": "en",
        "tgt_lang": "de",
    }
    assert config["model"]["d_model"] == 16


def test_loading_draws_no_random_numbers(saved: Path) -> None:
    before = torch.get_rng_state()
    load_bundle(saved)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_empty_model_has_every_weight_and_no_random_number() -> None:
    config = make_bundle(tie_embeddings="all", positions="learned", init="kaiming").model.config
    before = torch.get_rng_state()
    for device in ("cpu", "meta"):
        model = empty_model(config, device)
        assert {parameter.device.type for parameter in model.parameters()} == {device}
    assert torch.equal(torch.get_rng_state(), before)
    expected = make_bundle(tie_embeddings="all", positions="learned").model
    assert {n: t.shape for n, t in unique_weights(model).items()} == {
        n: t.shape for n, t in unique_weights(expected).items()
    }


def test_saving_replaces_a_model_and_nothing_else(tmp_path: Path) -> None:
    bundle = make_bundle()
    (tmp_path / "empty").mkdir()
    save_bundle(bundle, tmp_path / "empty")
    bundle.card = "# Another\n"
    save_bundle(bundle, tmp_path / "empty")
    assert load_bundle(tmp_path / "empty").card == "# Another\n"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    (tmp_path / "file").write_text("words")
    for name in ("mine", "file"):
        with pytest.raises(DragomanError, match=f"{name} exists and is no model directory; choose another place"):
            save_bundle(bundle, tmp_path / name)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"
    with pytest.raises(DragomanError, match="cannot write"):
        save_bundle(bundle, tmp_path / "file" / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "mine"]


def test_a_crash_leaves_the_old_model(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_text", fail)
    with pytest.raises(KeyboardInterrupt):
        save_bundle(make_bundle(seed=6), copied)
    assert_equal(load_bundle(copied), make_bundle())
    assert [path.name for path in copied.parent.iterdir()] == ["model"]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise module.SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr(module, "save_file", fail)
    with pytest.raises(DragomanError, match=r"cannot write .*model/model.safetensors: .*No space left") as caught:
        save_bundle(make_bundle(), tmp_path / "model")
    assert not isinstance(caught.value, BundleError)
    assert list(tmp_path.iterdir()) == []


Damage = Callable[[Path], Any]


def rewrite_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["model"].update({name: value for name, value in changes.items() if name not in config})
    config.update({name: value for name, value in changes.items() if name in config})
    (folder / "config.json").write_text(json.dumps(config))


def rewrite_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS)


DAMAGES: list[tuple[str, Damage, str]] = [
    ("no folder", shutil.rmtree, "model does not exist; give a model directory"),
    ("no config", lambda f: (f / "config.json").unlink(), "cannot read .*config.json: it is missing; give a complete"),
    ("not JSON", lambda f: (f / "config.json").write_text("{"), r"config.json is not valid JSON \(Expecting"),
    ("not UTF-8", lambda f: (f / "config.json").write_bytes(b"\xff"), "config.json is not valid JSON"),
    ("too deep", lambda f: (f / "config.json").write_text("[" * 100_000), "config.json is not valid JSON"),
    ("a list", lambda f: (f / "config.json").write_text("[1]"), "config.json holds no JSON object"),
    (
        "another version",
        lambda f: rewrite_config(f, format_version=2),
        "has format version 2, and this .* reads 1; use",
    ),
    ("no version", lambda f: (f / "config.json").write_text("{}"), "has format version None"),
    ("no language", lambda f: rewrite_config(f, src_lang=None), 'config.json: "src_lang" should be a language code'),
    ("no settings", lambda f: rewrite_config(f, model=3), "config.json holds no settings of a ModelConfig"),
    ("unknown key", lambda f: rewrite_config(f, d_modl=1), r'config.json: unknown key "d_modl" \(did you mean "d_mod'),
    ("bad value", lambda f: rewrite_config(f, n_heads=5), "config.json: d_model 16 is not a multiple of n_heads 5"),
    ("no tokenizer", lambda f: (f / "tokenizer.json").unlink(), "holds no tokenizer.json"),
    ("bad tokenizer", lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer.json: not a tokenizer file"),
    (
        "another vocabulary",
        lambda f: rewrite_config(f, tgt_vocab_size=299),
        "300 and 300 tokens, and the model 300 and",
    ),
    ("no decode", lambda f: (f / "decode.json").unlink(), "cannot read .*decode.json: it is missing"),
    (
        "true for a number",
        lambda f: (f / "decode.json").write_text('{"max_length": true}'),
        r'decode.json: "max_length" is True: input should be a number',
    ),
    ("bad decode", lambda f: (f / "decode.json").write_text('{"beam": 4}'), r'decode.json: unknown key "beam" \(did'),
    ("no weights", lambda f: (f / WEIGHTS).unlink(), "cannot read .*model.safetensors: it is missing; copy"),
    ("empty weights", lambda f: (f / WEIGHTS).write_bytes(b""), "model.safetensors is damaged or cut short"),
    ("pickled weights", lambda f: (f / WEIGHTS).write_bytes(pickle.dumps({})), "model.safetensors is damaged or cut"),
    (
        "missing",
        lambda f: rewrite_weights(f, lambda w: w.pop("output.bias")),
        r"configuration \(output.bias is missing",
    ),
    (
        "unknown",
        lambda f: rewrite_weights(f, lambda w: w.update(more=torch.ones(2))),
        r"does not fit its configuration \(more is unknown\); copy it again",
    ),
    (
        "integers",
        lambda f: rewrite_weights(f, lambda w: w.update({"output.bias": torch.ones(300, dtype=torch.int32)})),
        "output.bias is of type int32, not a float",
    ),
    ("huge", lambda f: rewrite_config(f, d_ff=10**11), r"has shape \[24, 16\], not \[100000000000, 16\]"),
    ("another size", lambda f: rewrite_config(f, d_ff=20), "; and 5 more"),
]


@pytest.mark.parametrize(("damage", "message"), [case[1:] for case in DAMAGES], ids=[case[0] for case in DAMAGES])
def test_damage_is_refused_in_one_sentence(copied: Path, damage: Damage, message: str) -> None:
    damage(copied)
    with pytest.raises(BundleError, match=message) as caught:
        load_bundle(copied)
    text = str(caught.value)
    assert str(copied) in text
    assert text.endswith(".")
    assert "\n" not in text
    assert ";" in text


def test_all_misfits_stand_in_one_error(copied: Path) -> None:
    def change(weights: dict[str, torch.Tensor]) -> None:
        weights["extra"] = weights.pop("output.weight")
        weights["output.bias"] = torch.zeros(7)

    rewrite_weights(copied, change)
    message = r"\(output.weight is missing; extra is unknown; output.bias has shape \[7\], not \[300\]\)"
    with pytest.raises(BundleError, match=message):
        load_bundle(copied)


def test_the_model_of_a_run_is_named(copied: Path) -> None:
    copied.rename(copied.with_name("best"))
    with pytest.raises(BundleError, match=r"is a run directory; give the model in it: .*best\."):
        load_bundle(copied.parent)


def test_a_file_is_no_model(saved: Path) -> None:
    with pytest.raises(BundleError, match=r"config\.json is a file; give a model directory"):
        load_bundle(saved / "config.json")


def test_a_card_is_not_needed(copied: Path) -> None:
    (copied / "README.md").unlink()
    assert load_bundle(copied).card == ""


@settings(max_examples=25)
@given(st.data())
def test_no_part_of_the_weights_is_taken_for_the_whole(saved: Path, data: st.DataObject) -> None:
    content = (saved / WEIGHTS).read_bytes()
    length = data.draw(st.integers(0, len(content) - 1))
    path = saved.parent / WEIGHTS
    path.write_bytes(content[:length])
    with pytest.raises(BundleError, match="damaged or cut short"):
        module.read_tensors(path)


@settings(max_examples=40)
@given(st.data())
def test_a_damaged_byte_is_refused_or_harmless(saved: Path, data: st.DataObject) -> None:
    """Whatever a byte of the JSON, or of the head of the weights, becomes: an error of ours, or a model."""
    folder = saved.parent / "damaged"
    shutil.copytree(saved, folder, dirs_exist_ok=True)
    name = data.draw(st.sampled_from([WEIGHTS, "config.json", "decode.json"]))
    content = bytearray((folder / name).read_bytes())
    place = data.draw(st.integers(0, min(2000, len(content) - 1)))
    content[place] = data.draw(st.integers(0, 255))
    (folder / name).write_bytes(content)
    with contextlib.suppress(BundleError):
        load_bundle(folder).model.eval()
