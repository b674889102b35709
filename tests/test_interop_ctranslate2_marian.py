"""From a Marian folder to CTranslate2: as CTranslate2's own converter does it."""

from __future__ import annotations

import json
from pathlib import Path

import ctranslate2
import pytest
import torch
from ctranslate2.converters import TransformersConverter
from transformers import MarianMTModel

from bundles import LINES
from dragoman.bundle import Bundle
from dragoman.interop.ctranslate2 import check_folder, save_folder
from dragoman.interop.marian_folder import load_folder
from dragoman.translator import Translator
from marian_folders import THEIRS, our_bundle, their_folder
from tolerances import FLOAT32


def load(folder: Path) -> ctranslate2.Translator:
    return ctranslate2.Translator(str(folder), device="cpu", inter_threads=1, intra_threads=1)


def saved(bundle: Bundle, folder: Path) -> Path:
    folder.mkdir()
    save_folder(bundle, folder)
    return folder


@pytest.mark.parametrize("name", sorted(name for name, changes in THEIRS.items() if not changes.get("separate")))
def test_translations_are_those_of_its_own_converter(name: str, tmp_path: Path) -> None:
    """Its own takes <pad> out of the vocabulary and starts from a vector of zeros, as which OPUS-MT's <pad> is kept."""
    their_folder(tmp_path / "marian", **THEIRS[name])
    model = MarianMTModel.from_pretrained(tmp_path / "marian")
    with torch.no_grad():
        model.model.shared.weight[-1] = 0.0
    model.save_pretrained(tmp_path / "marian")
    bundle = load_folder(tmp_path / "marian", {})
    TransformersConverter(str(tmp_path / "marian")).convert(str(tmp_path / "own"))
    ours, own = load(saved(bundle, tmp_path / "ours")), load(tmp_path / "own")
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["decoder_start_token"] == "<pad>"
    src = bundle.tokenizers.src.vocabulary()
    rows = [[src[index] for index in ids] for ids in bundle.tokenizers.src.encode_batch(LINES)]
    options = {"beam_size": 1, "max_decoding_length": 20}
    found = ours.translate_batch(rows, suppress_sequences=[["<pad>"]], **options)
    # Its own leaves the </s> of the source to the caller.
    theirs = own.translate_batch([[*row, "</s>"] for row in rows], **options)
    assert [result.hypotheses for result in found] == [result.hypotheses for result in theirs]
    assert len({tuple(result.hypotheses[0]) for result in found}) > 1


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_a_marian_bundle(name: str, tmp_path: Path) -> None:
    their_folder(tmp_path / "marian", **THEIRS[name])
    bundle = load_folder(tmp_path / "marian", {})
    folder = saved(bundle, tmp_path / "ours")
    assert check_folder(bundle, folder) < FLOAT32
    shared = (folder / "shared_vocabulary.json").exists()
    assert shared == (not THEIRS[name].get("separate"))
    assert {"source.spm", "target.spm", "vocab.json"} <= {path.name for path in folder.iterdir()}


def test_the_readme_of_a_sentencepiece_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = our_bundle(joint=False, decode=None)
    bundle.decode = bundle.decode.changed(beam_size=1, max_length=256)
    folder = saved(bundle, tmp_path / "ours")
    code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(folder)
    exec(code.replace("A sentence.", LINES[0]), {})
    ours = Translator(bundle).translate(LINES[0]).text
    assert len(ours) > 1
    assert capsys.readouterr().out == ours + "\n"
