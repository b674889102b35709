"""Every kind of tokenizer through a whole run: trained, kept in a model directory, loaded, translated with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from conftest import RunCli
from dragoman import Translator, load_config
from dragoman.bundle import Bundle, load_bundle, save_bundle
from dragoman.config import DecodeConfig, RunConfig, TokenizerConfig
from dragoman.errors import ConfigError
from dragoman.model.transformer import Transformer
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenizer import Tokenizer, TokenizerPair, train_tokenizers
from dragoman.training.prepare import model_config
from dragoman.training.run import train
from test_tokenizer_foreign import saved as save_hkproj
from test_tokenizer_sentencepiece import ENGLISH, GERMAN, marian_folder

CONFIG = """\
name: tiny
data:
  src_lang: en
  tgt_lang: de
  train: {src: train.en, tgt: train.de}
  valid: {src: train.en, tgt: train.de}
tokenizer: {kind: KIND, vocab_size: 400, joint: JOINT, min_frequency: 1}
model: {d_model: 16, n_heads: 2, n_encoder_layers: 1, n_decoder_layers: 1, d_ff: 32}
train: {max_steps: 3, batch_tokens: 300, valid_every: 3, threads: 1, seed: 5, device: cpu}
"""
FILES = {
    ("sentencepiece", True): {"source.spm", "target.spm", "vocab.json"},
    ("sentencepiece", False): {"source.spm", "target.spm", "vocab.json", "target_vocab.json"},
    ("rules", True): {"src.tokenizer.json", "tgt.tokenizer.json"},
    ("rules", False): {"src.tokenizer.json", "tgt.tokenizer.json"},
}


def text_in(folder: Path) -> None:
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        (folder / f"train.{name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def configured(folder: Path, kind: str, joint: bool) -> Path:
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        (folder / f"train.{name}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    path = folder / "c.yaml"
    path.write_text(CONFIG.replace("KIND", kind).replace("JOINT", str(joint).lower()))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "joint"), FILES)
def test_train_and_translate(kind: str, joint: bool, tmp_path: Path) -> None:
    train(load_config(configured(tmp_path, kind, joint)), tmp_path / "run", quiet=True)
    last = tmp_path / "run" / "last"
    own = {"config.json", "model.safetensors", "decode.json", "README.md"}
    assert {path.name for path in last.iterdir()} == own | FILES[kind, joint]
    translator = Translator.load(last)
    tokenizers = translator.bundle.tokenizers
    assert (tokenizers.joint, tokenizers.src.kind, tokenizers.tgt.kind) == (joint, kind, kind)
    if kind == "rules":
        assert [side.language for side in (tokenizers.src, tokenizers.tgt)] == ["en", "de"]  # type: ignore[attr-defined]
    texts = ["the old dog", "", "unheard 猫 </s>"]
    found = translator.translate(texts)
    assert found[1].text == ""
    for text, one in zip(texts, found, strict=True):
        assert one.text == tokenizers.tgt.decode_whole(one.ids)
        assert not text or one.src_tokens == [*tokenizers.src.tokens(tokenizers.src.encode(text)), "</s>"]


@pytest.mark.slow
def test_the_commands(tmp_path: Path, run_cli: RunCli) -> None:
    done = run_cli("train", configured(tmp_path, "sentencepiece", True), "--out", tmp_path / "run")
    assert done.rc == 0, done.stderr
    told = json.loads(run_cli("info", tmp_path / "run" / "last", "--json").stdout)
    size = load_bundle(tmp_path / "run" / "last").tokenizers.src.vocab_size
    assert told["vocabulary"] == {"kind": "sentencepiece", "joint": True, "src": size, "tgt": size}


def bundle_of(tokenizers: TokenizerPair, **changes: Any) -> Bundle:
    """A random model with the tokenizers' ids."""
    settings = {"d_model": 16, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 1, "n_decoder_layers": 1, **changes}
    data = {"train": {"src": "a", "tgt": "b"}}
    config = model_config(RunConfig(name="x", data=data, model=settings, train={"max_steps": 1}), tokenizers)
    torch.manual_seed(3)
    return Bundle(Transformer(config).eval(), tokenizers, DecodeConfig(beam_size=2, max_length=12), "en", "de", "")


def foreign(folder: Path) -> dict[str, TokenizerPair]:
    hkproj = Tokenizer.load(save_hkproj(folder))
    return {"marian": TokenizerPair.load(marian_folder(folder / "m")), "hkproj": TokenizerPair(hkproj, hkproj)}


@pytest.mark.parametrize("name", ["marian", "hkproj"])
def test_special_tokens_are_never_produced(name: str, tmp_path: Path) -> None:
    """Whatever their ids: Marian's end is 0, its start is the padding."""
    tokenizers = foreign(tmp_path)[name]
    bundle = bundle_of(tokenizers)
    config = bundle.model.config
    tgt = tokenizers.tgt
    assert (config.bos_id, config.eos_id, config.tgt_pad_id) == (tgt.bos_id, tgt.eos_id, tgt.pad_id)
    special = {tgt.unk_id, tgt.pad_id, tgt.bos_id}
    assert tgt.eos_id not in special
    with torch.no_grad():
        assert bundle.model.output.bias is not None
        bundle.model.output.bias[sorted(special)] += 100.0
    save_bundle(bundle, tmp_path / "bundle")
    translator = Translator.load(tmp_path / "bundle")
    found = translator.translate("the dog", n_best=2)
    for one in (found, *found.alternatives):
        assert one.ids
        assert not special & set(one.ids)
        assert tgt.decode(one.ids) == one.text
    with torch.no_grad():
        translator.model.output.bias[tgt.eos_id] += 100.0
    ended = translator.translate("the dog")
    assert (ended.ids, ended.text, ended.finished) == ([tgt.eos_id], "", True)
    assert ended.src_tokens[-1] == tokenizers.src.tokens([tgt.eos_id])[0]


def test_sides_that_end_otherwise(tmp_path: Path) -> None:
    marian = foreign(tmp_path)["marian"]
    own = train_tokenizers(
        TokenizerConfig(kind="sentencepiece", vocab_size=330), lambda: zip(ENGLISH, GERMAN, strict=True)
    )
    mixed = TokenizerPair(own.src, marian.tgt)
    message = r"^the source's tokenizer has eos_id 3 and the target's 0, but .* or set model\.src_eos: false\.$"
    with pytest.raises(ConfigError, match=message):
        bundle_of(mixed)
    assert bundle_of(mixed, src_eos=False).model.config.eos_id == 0
    with pytest.raises(ConfigError, match=r"bos_id 2 and the target's \d+, .* model\.src_bos: false\.$"):
        bundle_of(mixed, src_eos=False, src_bos=True)
    assert bundle_of(marian, src_bos=True).model.config.bos_id == marian.tgt.pad_id


def test_one_vocabulary_lets_all_embeddings_be_one(tmp_path: Path) -> None:
    """Two models that share a vocabulary are joint, so that a model may tie all of its tables."""
    pair = foreign(tmp_path)["marian"]
    assert isinstance(pair.src, SentencePieceTokenizer)
    assert isinstance(pair.tgt, SentencePieceTokenizer)
    assert pair.src.model != pair.tgt.model
    assert pair.joint
    bundle = bundle_of(pair, tie_embeddings="all")
    save_bundle(bundle, tmp_path / "bundle")
    loaded = load_bundle(tmp_path / "bundle")
    assert loaded.tokenizers.joint
    assert loaded.tokenizers.tgt.encode(GERMAN[0]) == pair.tgt.encode(GERMAN[0])
