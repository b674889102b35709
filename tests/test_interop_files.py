"""Foreign models on disk: files of weights in and out, what stands beside them, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bundles import LINES, make_bundle, make_tokenizers
from dragoman import Translator, interop
from dragoman.bundle import save_bundle
from dragoman.errors import BundleError, ConversionError
from dragoman.interop.weights import read_weights
from goldens import CASES, TORCH_CASES, Case
from test_interop_export import random_model
from tolerances import FLOAT32, FLOAT64

BY_NAME = {str(case): case for case in CASES + TORCH_CASES}
AROUND = {"src_embedding": "src", "tgt_embedding": "tgt", "generator": "out"}
# Every kind of weights that goes into a file, with a preset that it can express as it is.
OWN = [
    ("dragoman", "transformer-small"),
    ("dragoman", "marian"),
    ("valid_len", "valid_len"),
    ("hyunwoongko", "hyunwoongko"),
    ("labml", "labml"),
    ("hkproj", "hkproj-article"),
    ("hkproj", "hkproj"),
    ("annotated", "annotated"),
    ("torch", "torch"),
    ("marian", "marian"),
]


def refused(call: Any, *args: Any, **facts: Any) -> str:
    with pytest.raises(ConversionError) as caught:
        call(*args, **facts)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def bundle_of(preset: str, **changes: Any) -> Any:
    """A bundle around a small random model, with tokenizers of its own sizes."""
    tokenizers = make_tokenizers(joint=True)
    size = tokenizers.src.vocab_size
    bundle = make_bundle(joint=True)
    bundle.model = random_model(preset, src_vocab_size=size, tgt_vocab_size=size, n_heads=2, **changes).float()
    bundle.tokenizers = tokenizers
    return bundle


@pytest.mark.parametrize(("fmt", "preset"), OWN)
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_weights_go_out_and_come_back(tmp_path: Path, fmt: str, preset: str, suffix: str) -> None:
    facts = dict(AROUND) if fmt == "torch" else {}
    bundle = bundle_of(preset, **({"positions": "sinusoidal"} if fmt == "torch" else {}))
    before = {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}
    path = tmp_path / f"weights{suffix}"
    saved = interop.save(bundle, path, fmt, **facts)
    assert (saved.format, saved.path) == (fmt, path)
    assert all(difference <= FLOAT32 for difference in saved.checks.values()), saved.checks
    assert "logits" in saved.checks
    assert ("nn.Transformer" in saved.checks) == (fmt == "torch")
    assert interop.format_of(path) == fmt
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    for name, tensor in bundle.model.state_dict().items():
        assert torch.equal(tensor, before[name])
    state = load_file(path) if suffix == ".safetensors" else torch.load(path, weights_only=True)
    expected = interop.export_state_dict(fmt, bundle.model, **facts)
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[key], expected[key]) for key in state)


def test_our_own_weights_come_back_as_they_were(tmp_path: Path) -> None:
    model = random_model("marian", n_heads=2, tie_embeddings="all")
    told = {name: value for name, value in model.config if name not in ("src_vocab_size", "tgt_vocab_size")}
    again = interop.import_state_dict(
        "dragoman", interop.export_state_dict("dragoman", model), dtype=torch.float64, **told
    )
    assert again.config == model.config
    assert again.output.weight is again.src_embedding.weight
    src, tgt = torch.tensor([[4, 5, 0]]), torch.tensor([[2, 6]])
    torch.testing.assert_close(again(src, tgt), model(src, tgt), rtol=0.0, atol=FLOAT64)


def test_our_own_weights_are_read_strictly() -> None:
    model = random_model("labml")
    state: dict[str, Any] = interop.export_state_dict("dragoman", model)
    del state["encoder.norm.bias"]
    state["decoder.norm.weight"] = torch.zeros(2)
    state["more"] = torch.zeros(1)
    state["output.bias"] = torch.zeros(13, dtype=torch.int64)
    message = refused(interop.import_state_dict, "dragoman", state, n_heads=4)
    for words in (
        "missing: encoder.norm.bias",
        "unused: more",
        "decoder.norm.weight is [2] and should be [12]",
        "no tensor of floating-point numbers: output.bias",
    ):
        assert words in message
    assert "n_heads" in refused(interop.import_state_dict, "dragoman", state)
    assert "n_head" in refused(interop.import_state_dict, "dragoman", state, n_heads=4, n_head=4)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.filterwarnings("ignore:these valid_len weights")
def test_a_training_checkpoint_becomes_a_model_directory(tmp_path: Path, case: Case) -> None:
    """From a tutorial's checkpoint to translations, and back to its own weights bit for bit."""
    weights = case.state_dict
    checkpoint = {
        "epoch": 3,
        "model_state_dict": {f"module.{key}": tensor for key, tensor in weights.items()},
        "optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 0.1}]},
        "global_step": 7,
    }
    torch.save(checkpoint, tmp_path / "tmodel_03.pt")
    model = case.model(torch.float32)
    config = model.config
    for side, size in (("src", config.src_vocab_size), ("tgt", config.tgt_vocab_size)):
        words = ["<unk>", "<pad>", "<s>", "</s>", *(f"w{number}" for number in range(4, size))]
        for place, name in ((config.tgt_pad_id, "<pad>"), (config.bos_id, "<s>"), (config.eos_id, "</s>")):
            other = words.index(name)
            words[place], words[other] = words[other], words[place]
        (tmp_path / f"{side}.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    files = {f"{side}_tokenizer": str(tmp_path / f"{side}.txt") for side in ("src", "tgt")}
    facts = {**files, "src_lang": "en", "tgt_lang": "de", "n_heads": case.n_heads, **case.facts}
    assert interop.format_of(tmp_path / "tmodel_03.pt") == case.format
    saved = interop.convert(tmp_path / "tmodel_03.pt", tmp_path / "model", "dragoman", **facts)
    assert saved.checks == {"logits": 0.0}
    translator = Translator.load(tmp_path / "model")
    assert translator.model.config == config
    assert (translator.bundle.src_lang, translator.bundle.tgt_lang) == ("en", "de")
    assert isinstance(translator.translate("w5 w6", max_length=5).text, str)
    assert ("kept fault" in translator.bundle.card) == (case.variant in ("as_written", "repaired_return"))
    back = interop.convert(tmp_path / "model", tmp_path / "back.pt", case.format)
    assert back.checks["logits"] == 0.0
    returned = read_weights(tmp_path / "back.pt")
    buffers = [key for key in weights if key.endswith((".pe", "positional_encodings"))]
    for key, tensor in weights.items():
        if key not in buffers or case.name == "labml_learned_positions":
            assert torch.equal(returned[key], tensor), key


def test_weights_go_from_file_to_file_without_tokenizers(tmp_path: Path) -> None:
    case = BY_NAME["hkproj_article"]
    save_file(case.state_dict, tmp_path / "in.safetensors")
    saved = interop.convert(tmp_path / "in.safetensors", tmp_path / "out.pt", "annotated", n_heads=4)
    assert saved.steps == ["the one gain and bias of a norm become vectors"]
    assert saved.checks["logits"] <= FLOAT32
    message = refused(interop.convert, tmp_path / "in.safetensors", tmp_path / "model", "dragoman", n_heads=4)
    assert "src_tokenizer=" in message
    assert not (tmp_path / "model").exists()


def test_nothing_is_written_where_a_model_cannot_be_expressed(tmp_path: Path) -> None:
    bundle = bundle_of("labml", positions="learned", feed_forward="geglu")
    save_bundle(bundle, tmp_path / "model")
    for fmt, dest in (("hyunwoongko", "x.pt"), ("marian", "folder")):
        message = refused(interop.save, tmp_path / "model", tmp_path / dest, fmt)
        for field in ("positions", "feed_forward", "norm_first"):
            assert field in message
    assert "quantization" in refused(interop.save, bundle, tmp_path / "ct2", "ctranslate2", quantisation="int8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_place_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    bundle = bundle_of("labml")
    save_bundle(bundle, tmp_path / "model")
    (tmp_path / "taken.pt").write_text("mine")
    for dest, fmt in (("taken.pt", "labml"), ("model", "dragoman"), ("model", "ctranslate2")):
        assert f"{dest} exists" in refused(interop.convert, tmp_path / "model", tmp_path / dest, fmt)
    assert (tmp_path / "taken.pt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    interop.convert(tmp_path / "model", tmp_path / "empty", "dragoman")
    assert Translator.load(tmp_path / "empty").translate(LINES[0]).text
    assert ".safetensors" in refused(interop.convert, tmp_path / "model", tmp_path / "weights", "labml")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no file of weights"),
        (b"hello, this is a text", "no file of weights"),
        (b"PK\x03\x04 and no more", "no file of weights"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00{ cut short", "damaged"),
        (b"\x80\x02}q\x00.", "no file of weights"),
    ],
)
def test_what_is_no_file_of_weights_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.pt").write_bytes(content)
    message = refused(interop.convert, tmp_path / "x.pt", tmp_path / "model", "dragoman")
    assert said in message
    assert str(tmp_path / "x.pt") in message


def test_python_objects_are_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path(tmp_path / "sprung").write_text, ("x",))

    torch.save({"w": torch.zeros(1), "trap": Trap()}, tmp_path / "x.pt")
    assert "not safe" in refused(interop.load, tmp_path / "x.pt")
    torch.save([torch.zeros(1)], tmp_path / "list.pt")
    assert "list" in refused(interop.load, tmp_path / "list.pt")
    torch.save({"w": torch.zeros(1)}, tmp_path / "unknown.pt")
    assert "no known format" in refused(interop.load, tmp_path / "unknown.pt")
    assert not (tmp_path / "sprung").exists()


def test_old_and_moved_files_are_read(tmp_path: Path) -> None:
    weights = BY_NAME["hyunwoongko"].state_dict
    torch.save(weights, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert read_weights(tmp_path / "old.pt").keys() == weights.keys()
    save_file(weights, tmp_path / "named.bin")
    assert read_weights(tmp_path / "named.bin").keys() == weights.keys()


def test_the_tokenizers_must_fit(tmp_path: Path) -> None:
    case = BY_NAME["hyunwoongko"]
    torch.save(case.state_dict, tmp_path / "x.pt")
    make_tokenizers(joint=True).src.save(tmp_path / "t.json")
    load = {"path": tmp_path / "x.pt", "n_heads": 4}
    assert "300 tokens" in refused(interop.load, **load, tokenizer=tmp_path / "t.json")
    assert "leave out src_tokenizer" in refused(interop.load, **load, tokenizer="a", src_tokenizer="b")
    assert "given alone" in refused(interop.load, **load, src_tokenizer=tmp_path / "t.json")
    assert "no.json" in refused(interop.load, **load, tokenizer=tmp_path / "no.json")


def test_a_folder_says_all_about_itself(tmp_path: Path) -> None:
    bundle = bundle_of("labml")
    save_bundle(bundle, tmp_path / "model")
    assert interop.load(tmp_path / "model").model.config == bundle.model.config
    assert "leave out n_heads" in refused(interop.load, tmp_path / "model", n_heads=3)
    assert "is a dragoman folder" in refused(interop.load, tmp_path / "model", "labml")
    assert "written and not read" in refused(interop.load, tmp_path / "model", "ctranslate2")
    assert re.search("does not exist", refused(interop.load, tmp_path / "nothing"))
    (tmp_path / "loose").mkdir()
    torch.save({}, tmp_path / "loose" / "w.pt")
    assert "w.pt" in refused(interop.load, tmp_path / "loose")
    assert "lambl" in refused(interop.load, tmp_path / "loose" / "w.pt", "lambl")


@pytest.mark.parametrize("fmt", interop.FORMATS)
def test_every_format_has_a_plan(fmt: str) -> None:
    way = interop.plan_export(fmt, random_model("marian", n_heads=2).config)
    assert way.format == fmt
    assert isinstance(way.refused, tuple)


def test_a_model_around_nn_transformer_goes_back_under_its_own_keys(tmp_path: Path) -> None:
    names = {**AROUND, "positions": "pe.table", "encoder": "transformer.encoder", "decoder": "transformer.decoder"}
    state = interop.export_state_dict("torch", random_model("torch").float(), **names)
    torch.save({"epoch": torch.tensor(1), "model_state_dict": state}, tmp_path / "in.pt")
    facts = {**AROUND, "positions": "pe.table", "n_heads": 4, "src_pad_id": 1}
    saved = interop.convert(tmp_path / "in.pt", tmp_path / "out.pt", "torch", **facts)
    assert saved.checks["logits"] == 0.0
    written = read_weights(tmp_path / "out.pt")
    assert written.keys() == state.keys()
    assert all(torch.equal(written[key], state[key]) for key in state)


def test_facts_of_the_written_format_do_not_get_to_the_reading(tmp_path: Path) -> None:
    torch.save(BY_NAME["torch_post_norm"].state_dict, tmp_path / "in.pt")
    message = refused(
        interop.convert, tmp_path / "in.pt", tmp_path / "ct2", "ctranslate2", n_heads=4, quantization="int8"
    )
    assert "src_tokenizer=" in message


def test_words_of_a_list_are_lower_cased_as_the_recipe_does(tmp_path: Path) -> None:
    for name, fmt, lowercase in (("annotated", "annotated", False), ("hyunwoongko", "hyunwoongko", True)):
        case = BY_NAME[name]
        torch.save(case.state_dict, tmp_path / "in.pt")
        config = case.model(torch.float32).config
        for side, size in (("src", config.src_vocab_size), ("tgt", config.tgt_vocab_size)):
            special = (
                ["<s>", "</s>", "<blank>", "<unk>"] if fmt == "annotated" else ["<unk>", "<pad>", "<sos>", "<eos>"]
            )
            words = [*special, *(f"w{number}" for number in range(4, size or 0))]
            (tmp_path / f"{side}.txt").write_text("\n".join(words) + "\n")
        files = {f"{side}_tokenizer": tmp_path / f"{side}.txt" for side in ("src", "tgt")}
        bundle = interop.load(tmp_path / "in.pt", n_heads=4, src_lang="en", tgt_lang="de", **files)
        known = bundle.tokenizers.src.encode("w5")
        assert (bundle.tokenizers.src.encode("W5") == known) is lowercase


def test_a_folder_of_hugging_face_s_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    with pytest.raises(BundleError, match=r"a marian folder of Hugging Face's.*dragoman convert"):
        Translator.load(tmp_path)
