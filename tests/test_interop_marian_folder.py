"""Marian folders, in and out, against transformers: every file, the same logits, and each damage in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MarianMTModel

from dragoman.bundle import Bundle, read_tensors
from dragoman.config import DecodeConfig
from dragoman.errors import ConversionError
from dragoman.interop import marian_folder
from dragoman.interop.marian_decode import generation_config, lost_settings
from marian_folders import OURS, TEXTS, THEIRS, load_theirs, our_bundle, their_folder, their_tokenizer
from tolerances import FLOAT32, FLOAT64

OPUS_FILES = {
    "config.json", "generation_config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json",
    "tokenizer_config.json",
}  # fmt: skip


@pytest.mark.parametrize("case", THEIRS)
def test_their_folder_comes_back_bit_identical(case: str, tmp_path: Path) -> None:
    their_folder(tmp_path / "a", **THEIRS[case])
    bundle = marian_folder.load_folder(tmp_path / "a", {})
    (tmp_path / "b").mkdir()
    marian_folder.save_folder(bundle, tmp_path / "b")
    before, after = (load_theirs(tmp_path / name).state_dict() for name in "ab")
    assert set(before) == set(after)
    assert all(torch.equal(tensor, after[key]) for key, tensor in before.items())
    # Position tables and copies of tied matrices are in neither file.
    assert set(read_tensors(tmp_path / "a" / "model.safetensors")) == set(
        read_tensors(tmp_path / "b" / "model.safetensors")
    )
    second = {"target_vocab.json"} if "separate" in case else set()
    assert {file.name for file in (tmp_path / "b").iterdir()} == OPUS_FILES | {"README.md"} | second
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    for text in TEXTS:
        ids = [their_tokenizer(tmp_path / name)(text).input_ids for name in "ab"]
        assert ids[0] == ids[1] == [*bundle.tokenizers.src.encode(text), 0]
    old, new = (json.loads((tmp_path / name / "config.json").read_text()) for name in "ab")
    ignored = {"activation_function", "encoder_layerdrop", "decoder_layerdrop", "init_std", "is_decoder",
               "transformers_version", "torch_dtype", "static_position_embeddings"}  # fmt: skip
    assert {k: v for k, v in old.items() if k not in ignored} == {k: v for k, v in new.items() if k not in ignored}


@pytest.mark.parametrize("changes", [*OURS.values(), {"scale_embeddings": False, "feed_forward": "gelu"}], ids=str)
def test_our_folder_computes_the_same(changes: dict[str, Any], tmp_path: Path) -> None:
    bundle = our_bundle(**changes)
    marian_folder.save_folder(bundle, tmp_path)
    assert marian_folder.is_model(tmp_path)
    assert marian_folder.check_folder(bundle, tmp_path) < FLOAT64
    again = marian_folder.load_folder(tmp_path, {})
    assert again.decode == bundle.decode
    assert (again.src_lang, again.tgt_lang) == ("en", "de")
    assert again.tokenizers.joint == bundle.tokenizers.joint
    assert "# A card" in again.card
    for text in TEXTS:
        assert again.tokenizers.src.encode(text) == bundle.tokenizers.src.encode(text)


def test_a_folder_of_ours_that_needs_no_rewriting_comes_back_bit_identical(tmp_path: Path) -> None:
    bundle = our_bundle(positions="sinusoidal_halves", tie_embeddings="all", dropout=0.2, activation_dropout=0.0)
    marian_folder.save_folder(bundle, tmp_path)
    again = marian_folder.load_folder(tmp_path, {})
    before = bundle.model.state_dict()
    assert all(torch.equal(tensor, before[name]) for name, tensor in again.model.state_dict().items())
    # A tie leaves nothing out, and what only new weights ask for is not in a folder.
    told = {
        "attention_dropout": 0.2,
        "init": again.model.config.init,
        "embedding_init": again.model.config.embedding_init,
    }
    assert again.model.config.model_dump() == {**bundle.model.config.model_dump(), **told, "embedding_dropout": None}


def test_what_their_search_cannot_be_told_stands_in_the_card(tmp_path: Path) -> None:
    marian_folder.save_folder(our_bundle(), tmp_path)
    assert (tmp_path / "README.md").read_text() == "# A card\n"
    settings = json.loads((tmp_path / "generation_config.json").read_text())
    assert (settings["num_beams"], settings["early_stopping"], settings["max_length"]) == (4, "never", 21)
    for stop_after, early in ((0, "never"), (1, True), (4, True), (5, "never")):
        decode = DecodeConfig(beam_size=4, stop_after=stop_after)
        assert generation_config(decode, 20, [], {})["early_stopping"] == early
    for decode in (DecodeConfig(beam_size=1, stop_after=1), DecodeConfig(beam_size=2, sample=True, stop_after=2)):
        assert generation_config(decode, 20, [], {})["early_stopping"] is False
        assert not any("search ends" in lost for lost in lost_settings(decode))
    for stop_after, lost in (
        (0, None), (4, None),
        (1, "a search ends once 4 have finished there, and once 1 have finished here"),
        (5, "a search ends when none can still win there, and once 5 have finished here"),
    ):  # fmt: skip
        found = lost_settings(DecodeConfig(beam_size=4, stop_after=stop_after, max_length=9, length_norm="power"))
        assert found == ([] if lost is None else [lost])
    marian_folder.save_folder(our_bundle(decode=DecodeConfig(beam_size=2, length_penalty=0.8)), tmp_path)
    card = (tmp_path / "README.md").read_text()
    assert "n^0.8 there, and by ((5+n)/6)^0.8 (gnmt) here" in card
    assert "2.0 times the source's and 10 here" in card
    assert json.loads((tmp_path / "generation_config.json").read_text())["max_length"] == 129
    marian_folder.save_folder(our_bundle(decode=DecodeConfig(sample=True, max_length=9, top_k=7)), tmp_path)
    settings = json.loads((tmp_path / "generation_config.json").read_text())
    assert (settings["do_sample"], settings["num_beams"], settings["top_k"]) == (True, 1, 7)
    assert marian_folder.load_folder(tmp_path, {}).decode.sample


def test_the_check_sees_a_damaged_folder(tmp_path: Path) -> None:
    bundle = our_bundle()
    marian_folder.save_folder(bundle, tmp_path)
    with torch.no_grad():
        bundle.model.decoder.layers[1].cross_attention.value.weight[2, 3] += 0.5
    with pytest.raises(ConversionError, match="differs from the model by"):
        marian_folder.check_folder(bundle, tmp_path)


def test_the_check_without_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = our_bundle()
    marian_folder.save_folder(bundle, tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    assert marian_folder.check_folder(bundle, tmp_path) < FLOAT64


@pytest.mark.parametrize("kind", ["bin", "sharded bin", "sharded safetensors", "float16", "float16 bin"])
def test_weights_of_every_kind_of_file(kind: str, tmp_path: Path) -> None:
    their_folder(tmp_path)
    model = load_theirs(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    if "float16" in kind:
        model = model.half()
    state = {key: tensor for key, tensor in model.state_dict().items() if "embed_positions" not in key}
    if kind == "sharded safetensors":
        model.save_pretrained(tmp_path, max_shard_size="10KB")
        assert len(list(tmp_path.glob("*.safetensors"))) > 1
    elif kind == "float16":
        model.save_pretrained(tmp_path)
    elif kind == "sharded bin":
        names = {key: f"pytorch_model-{1 + index % 2}.bin" for index, key in enumerate(state)}
        for name in set(names.values()):
            torch.save({key: state[key] for key in state if names[key] == name}, tmp_path / name)
        index = {"metadata": {}, "weight_map": names}
        (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    else:
        torch.save(state, tmp_path / "pytorch_model.bin")
    bundle = marian_folder.load_folder(tmp_path, {})
    assert bundle.model.output.weight.dtype == torch.float32
    theirs = MarianMTModel.from_pretrained(tmp_path, local_files_only=True, dtype=torch.float32).eval()
    src, tgt = torch.tensor([[5, 9, 11, 0]]), torch.tensor([[bundle.model.config.bos_id, 40, 7]])
    with torch.no_grad():
        wanted = theirs(input_ids=src, decoder_input_ids=tgt).logits
        torch.testing.assert_close(bundle.model(src, tgt), wanted, rtol=0.0, atol=FLOAT32)


OPUS_GENERATION: dict[str, Any] = {
    "num_beams": 6, "max_length": 512, "bad_words_ids": [[1]], "renormalize_logits": True, "forced_eos_token_id": 0,
}  # fmt: skip


def settings_of(folder: Path, **generation: Any) -> Bundle:
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return marian_folder.load_folder(folder, {})


def test_the_settings_of_their_search_become_ours(tmp_path: Path) -> None:
    their_folder(tmp_path)
    bundle = settings_of(tmp_path, **OPUS_GENERATION)
    assert bundle.decode == DecodeConfig(beam_size=6, length_norm="power", max_length=511, renormalize=True)
    for name in ("forced_eos_token_id", "early_stopping"):
        assert f"`{name}`" in bundle.card
    assert "`" not in settings_of(tmp_path, num_beams=2, early_stopping="never").card
    early = settings_of(tmp_path, num_beams=3, early_stopping=True)
    assert early.decode == DecodeConfig(beam_size=3, stop_after=3, length_norm="power")
    assert "`" not in early.card
    for without in ({"num_beams": 1}, {}, {"num_beams": 1, "do_sample": True}):
        assert settings_of(tmp_path, early_stopping=True, **without).decode.stop_after == 0
    assert settings_of(tmp_path).decode == DecodeConfig(beam_size=1, length_norm="power")
    wide = settings_of(tmp_path, num_beams=4, length_penalty=1.5, num_return_sequences=2, max_new_tokens=30,
                       min_length=5, no_repeat_ngram_size=3, early_stopping=False).decode  # fmt: skip
    assert wide == DecodeConfig(
        beam_size=4, length_norm="power", length_penalty=1.5, n_best=2, max_length=30, min_length=4, no_repeat_ngram=3
    )
    assert settings_of(tmp_path, min_new_tokens=5, min_length=2).decode.min_length == 5
    piece = bundle.tokenizers.tgt.tokens([7])[0]
    assert settings_of(tmp_path, bad_words_ids=[[7], [1]], suppress_tokens=[7]).decode.suppress == (piece,)
    drawn = settings_of(tmp_path, do_sample=True, temperature=0.7, top_p=0.9).decode
    assert (drawn.sample, drawn.temperature, drawn.top_p, drawn.top_k) == (True, 0.7, 0.9, 50)


def test_settings_in_the_model_s_configuration_count_where_there_are_no_others(tmp_path: Path) -> None:
    their_folder(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    change(tmp_path / "config.json", num_beams=4, max_length=100, num_beam_groups=1, bad_words_ids=[[1]])
    assert marian_folder.load_folder(tmp_path, {}).decode == DecodeConfig(
        beam_size=4, length_norm="power", max_length=99
    )


def change(path: Path, **values: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **values}), encoding="utf-8")


def refused(folder: Path, **facts: Any) -> str:
    with pytest.raises(ConversionError) as caught:
        marian_folder.load_folder(folder, facts)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("marian") / "good"
    their_folder(folder, generation=dict(OPUS_GENERATION, bad_words_ids=[[1]]))
    return folder


@pytest.fixture
def damaged(good: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(good, tmp_path / "copy"))


def test_all_reasons_are_given_together(damaged: Path) -> None:
    change(damaged / "config.json", activation_function="tanh", encoder_ffn_dim=21, decoder_attention_heads=2,
           scale_embedding="yes", d_model=-1, quantization_config={"bits": 8}, eos_token_id=[1, 2])  # fmt: skip
    change(
        damaged / "generation_config.json",
        repetition_penalty=1.2,
        bad_words_ids=[[5, 6]],
        num_beams=0,
        eos_token_id=None,
    )
    message = refused(damaged)
    for reason in (
        "activation_function is tanh, and we have swish",
        "encoder_ffn_dim is 21 and decoder_ffn_dim 20",
        "encoder_attention_heads is 3 and decoder_attention_heads 2",
        "scale_embedding is yes, and it should be true or false",
        "d_model is -1, and it should be a number of 0 or more",
        "eos_token_id is [1, 2]",
        "quantization_config",
        "repetition_penalty is 1.2",
        "bad_words_ids or suppress_tokens hold more than single tokens",
        "beam_size",
    ):
        assert reason in message


def test_what_their_class_ignores_is_ignored(damaged: Path) -> None:
    change(damaged / "config.json", normalize_before=True, normalize_embedding=True, add_final_layer_norm=True,
           add_bias_logits=True, static_position_embeddings=False, extra_pos_embeddings=2, layerdrop=0.3)  # fmt: skip
    bundle = marian_folder.load_folder(damaged, {})
    assert marian_folder.check_folder(bundle, damaged) < FLOAT64


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json"])
def test_a_file_that_is_missing(damaged: Path, name: str) -> None:
    (damaged / name).unlink()
    assert name in refused(damaged)
    assert str(damaged) in refused(damaged)


@pytest.mark.parametrize("name", ["generation_config.json", "tokenizer_config.json"])
def test_a_file_that_may_be_missing(damaged: Path, name: str) -> None:
    (damaged / name).unlink()
    bundle = marian_folder.load_folder(damaged, {"tgt_lang": "nl"})
    assert bundle.tgt_lang == "nl"
    assert bundle.src_lang == ("src" if name.startswith("tok") else "en")


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json", "vocab.json"])
@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b"", b"[" * 100_000])
def test_json_that_is_none(damaged: Path, name: str, content: bytes) -> None:
    (damaged / name).write_bytes(content)
    assert name in refused(damaged)
    assert marian_folder.is_model(damaged) == (name != "config.json")


@pytest.mark.parametrize("name", ["model.safetensors", "source.spm", "target.spm"])
@pytest.mark.parametrize("part", [0.0, 0.5])
def test_binaries_cut_short(damaged: Path, name: str, part: float) -> None:
    content = (damaged / name).read_bytes()
    (damaged / name).write_bytes(content[: int(len(content) * part)])
    assert name in refused(damaged)


def test_weights_of_another_shape(damaged: Path) -> None:
    change(damaged / "config.json", d_model=48, decoder_layers=2)
    message = refused(damaged)
    assert "d_model=48 was said, and the weights have 24" in message
    assert "n_decoder_layers=2 was said" in message


def test_a_vocabulary_of_another_size(damaged: Path) -> None:
    vocabulary = json.loads((damaged / "vocab.json").read_text(encoding="utf-8"))
    short = {**dict(list(vocabulary.items())[:-2]), "<pad>": len(vocabulary) - 2}
    (damaged / "vocab.json").write_text(json.dumps(short), encoding="utf-8")
    message = refused(damaged)
    size = len(vocabulary)
    assert f"the source vocabulary has {size - 1} pieces, and the model {size} rows for it" in message
    assert "the target vocabulary has" in message
    (damaged / "vocab.json").write_text(json.dumps({**vocabulary, "</s>": 1, "<unk>": 0}), encoding="utf-8")
    assert "</s> is 1 in the source vocabulary, and eos_token_id is 0" in refused(damaged)


def test_a_second_vocabulary_counts_only_where_it_is_said(damaged: Path) -> None:
    whole = marian_folder.load_folder(damaged, {})
    (damaged / "target_vocab.json").write_text(json.dumps({"</s>": 0, "<unk>": 1, "<pad>": 2}))
    bundle = marian_folder.load_folder(damaged, {})
    assert bundle.tokenizers.joint
    assert bundle.tokenizers.tgt.encode("den Hafen") == whole.tokenizers.tgt.encode("den Hafen")
    change(damaged / "tokenizer_config.json", separate_vocabs=True)
    assert "the target vocabulary has 3 pieces" in refused(damaged)
    (damaged / "target_vocab.json").unlink()
    assert "lacks target_vocab.json" in refused(damaged)


def test_an_index_that_is_wrong(damaged: Path) -> None:
    (damaged / "model.safetensors").rename(damaged / "part.safetensors")
    index = damaged / "model.safetensors.index.json"
    for where, said in (
        ({"a": "../part.safetensors"}, "names no files of weights beside it"),
        ([1], "names no files"),
        ({"a": "part.safetensors"}, "promises what is not there (a in part.safetensors)"),
        ({"a": "gone.safetensors"}, "gone.safetensors"),
    ):
        index.write_text(json.dumps({"weight_map": where}))
        assert said in refused(damaged)


def test_a_folder_of_another_kind(damaged: Path) -> None:
    assert "leave out n_heads" in refused(damaged, n_heads=3)
    change(damaged / "config.json", model_type="bart")
    assert "model_type is bart, not marian" in refused(damaged)
    assert not marian_folder.is_model(damaged)
    assert not marian_folder.is_model(damaged / "nowhere")


def test_everything_against_an_export_is_said_together(tmp_path: Path) -> None:
    from bundles import make_bundle

    bundle = make_bundle(src_bos=True, src_eos=False, src_pad_id=5)
    way = marian_folder.plan_folder(bundle.model.config, bundle.tokenizers)
    assert way.format == "marian"
    message = "; ".join(way.refused)
    for reason in ("norm_first", "final_norm", "src_bos", "src_eos", "src_pad_id is 5 and tgt_pad_id 1",
                   "the source tokenizer is of kind bpe", "the target tokenizer", "{kind: sentencepiece}"):  # fmt: skip
        assert reason in message
    with pytest.raises(ConversionError) as caught:
        marian_folder.save_folder(bundle, tmp_path)
    assert all(reason in str(caught.value) for reason in way.refused)
    assert not any(tmp_path.iterdir())
    fine = our_bundle()
    assert marian_folder.plan_folder(fine.model.config, fine.tokenizers).refused == ()
