"""The folder for CTranslate2: what is in it, what is refused and rightly so, and that the bundle stays as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch

from bundles import make_bundle
from dragoman.bundle import Bundle, empty_model
from dragoman.config import DecodeConfig, ModelConfig
from dragoman.errors import ConversionError
from dragoman.interop.ctranslate2 import (
    QUANTIZATIONS,
    check_folder,
    plan,
    refused_tokenizers,
    save_folder,
)
from dragoman.interop.ctranslate2_readme import readme, search_options
from dragoman.model.transformer import Transformer
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.tokenizer import TokenizerPair
from dragoman.translator import Translator
from model_variants import BASE, VARIANTS
from tolerances import FLOAT32, INT8


class Renamed:
    """A tokenizer whose vocabulary has other texts for some ids."""

    def __init__(self, inner: Any, changes: dict[int, str]) -> None:
        self._inner = inner
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def vocabulary(self) -> list[str]:
        tokens = list(self._inner.vocabulary())
        for index, token in self._changes.items():
            tokens[index] = token
        return tokens


def renamed(bundle: Bundle, src: dict[int, str], tgt: dict[int, str]) -> Bundle:
    pair: Any = TokenizerPair(Renamed(bundle.tokenizers.src, src), Renamed(bundle.tokenizers.tgt, tgt))  # type: ignore[arg-type]
    return Bundle(bundle.model, pair, bundle.decode)


def saved(bundle: Bundle, folder: Path, quantization: str | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    save_folder(bundle, folder, quantization)
    return folder


def snapshot(bundle: Bundle) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in bundle.model.state_dict().items()}


@pytest.mark.parametrize("quantization", [None, *QUANTIZATIONS])
def test_the_bundle_stays_as_it_is(quantization: str | None, tmp_path: Path) -> None:
    bundle = make_bundle(tie_embeddings="all", n_encoder_layers=0, positions="learned")
    bundle.model.train()
    before, config = snapshot(bundle), bundle.model.config
    save_folder(bundle, tmp_path, quantization)
    check_folder(bundle, tmp_path, quantization)
    after = bundle.model.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert bundle.model.config == config
    assert bundle.model.training
    assert bundle.model.output.weight is bundle.model.src_embedding.weight


def test_what_is_in_the_folder(tmp_path: Path) -> None:
    bundle = make_bundle(src_bos=True, norm_eps=1e-6)
    save_folder(bundle, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "model.bin", "config.json", "shared_vocabulary.json", "tokenizer.json", "decode.json", "README.md",
    }  # fmt: skip
    config = json.loads((tmp_path / "config.json").read_text())
    wanted = {
        "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "decoder_start_token": "<s>",
        "add_source_bos": True, "add_source_eos": True, "layer_norm_epsilon": 1e-6,
    }  # fmt: skip
    assert wanted.items() <= config.items()
    vocabulary = json.loads((tmp_path / "shared_vocabulary.json").read_text())
    assert vocabulary == bundle.tokenizers.src.vocabulary()
    assert DecodeConfig(**json.loads((tmp_path / "decode.json").read_text())) == bundle.decode


def test_the_start_token_is_the_models(tmp_path: Path) -> None:
    save_folder(make_bundle(bos_id=1), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["decoder_start_token"] == config["bos_token"] == "<pad>"


def test_a_tied_matrix_is_written_once(tmp_path: Path) -> None:
    sizes = {}
    for tie in ("none", "all"):
        folder = saved(make_bundle(tie_embeddings=tie, positions="rotary"), tmp_path / tie)
        sizes[tie] = (folder / "model.bin").stat().st_size
    assert sizes["none"] - sizes["all"] == pytest.approx(2 * 300 * 16 * 4, abs=200)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("length_norm", ["none", "power", "gnmt"])
def test_the_readme_runs_as_it_stands(
    joint: bool, length_norm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = make_bundle(joint)
    bundle.decode = DecodeConfig(beam_size=1, length_norm=length_norm, max_length=256)
    # The likeliest of all are tokens that are never produced.
    bundle.model.output.bias.data[:4] += torch.tensor([9.0, 9.0, 9.0, 1.0])
    save_folder(bundle, tmp_path, "float32")
    text = (tmp_path / "README.md").read_text()
    assert "float32" in text
    assert "1024 tokens" in text
    assert text.endswith(bundle.card)
    code = text.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    ours = Translator(bundle).translate("A sentence.").text
    assert len(ours) > 1
    assert capsys.readouterr().out == ours + "\n"


@pytest.mark.parametrize(
    ("kind", "joint", "needs", "absent"),
    [
        ("bpe", True, "ctranslate2 tokenizers`, and neither", ("dragoman", "torch")),
        ("bpe", False, "ctranslate2 tokenizers`, and neither", ("dragoman", "torch")),
        ("unigram", True, "ctranslate2 tokenizers`, and neither", ("dragoman", "torch")),
        ("wordlevel", False, "ctranslate2 tokenizers`, and neither", ("dragoman", "torch")),
        ("sentencepiece", True, "ctranslate2 sentencepiece`, and neither", ("dragoman", "torch")),
        ("sentencepiece", False, "ctranslate2 sentencepiece`, and neither", ("dragoman", "torch")),
        ("rules", True, "ctranslate2 dragoman`, whose", ("torch",)),
    ],
)
def test_the_readme_needs_no_more_than_it_says(
    kind: str, joint: bool, needs: str, absent: tuple[str, ...], tmp_path: Path
) -> None:
    bundle = make_bundle(joint, kind)
    bundle.decode = DecodeConfig(beam_size=1, max_length=256)
    save_folder(bundle, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert needs in text
    line = "Nobody found the  empty Fähre, key 7."
    code = text.split("```python\n")[1].split("```")[0].replace("A sentence.", line)
    # What stands there as None cannot be imported.
    without = f"import sys\nsys.modules.update(dict.fromkeys({absent!r}))\n"
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", without + code], cwd=tmp_path, capture_output=True, encoding="utf-8"
    )
    assert (done.returncode, done.stderr) == (0, "")
    ours = Translator(bundle).translate(line).text
    assert len(ours) > 1
    # Of bytes at the end that make no character, which no trained model leaves there, dragoman shows fewer.
    theirs = done.stdout.removesuffix("\n")
    assert theirs.rstrip("\ufffd") == ours.rstrip("\ufffd") != ""


def test_where_a_piece_names_a_language_our_own_tokenizers_find_it() -> None:
    plain = make_bundle(kind="sentencepiece")
    spm = plain.tokenizers.src
    assert isinstance(spm, SentencePieceTokenizer)
    named = SentencePieceTokenizer(spm.model, {**spm.pieces, ">>deu<<": len(spm.pieces)})
    bundle = Bundle(plain.model, TokenizerPair(named, spm), plain.decode)
    assert "TokenizerPair.load" not in readme(plain, "float32", None)
    assert "TokenizerPair.load" in readme(bundle, "float32", None)


def test_a_readme_says_where_positions_end(tmp_path: Path) -> None:
    for positions, said in (("learned", "after 64 tokens"), ("none", "after 1024 tokens")):
        folder = saved(make_bundle(positions=positions), tmp_path / positions)
        assert said in (folder / "README.md").read_text()
    assert "positions end" not in (saved(make_bundle(positions="rotary"), tmp_path / "r") / "README.md").read_text()


def long_score(folder: Path, bundle: Bundle, length: int) -> list[float]:
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    token = bundle.tokenizers.src.vocabulary()[40]
    # As read, the source has an end too, and so has what is scored.
    results = translator.score_batch([[token] * (length - 1)], [[token] * 3], max_input_length=0)
    return list(results[0].log_probs)


@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_positions_reach_as_far_as_said_and_end_with_an_error(positions: str, tmp_path: Path) -> None:
    bundle = make_bundle(positions=positions, max_length=64)
    save_folder(bundle, tmp_path)
    assert len(long_score(tmp_path, bundle, 1024)) == 4
    with pytest.raises(RuntimeError, match="position"):
        long_score(tmp_path, bundle, 1025)
    longer = saved(make_bundle(positions=positions, max_length=1100), tmp_path / "longer")
    assert len(long_score(longer, bundle, 1100)) == 4


def test_rotary_positions_do_not_end(tmp_path: Path) -> None:
    bundle = make_bundle(positions="rotary", max_length=64)
    save_folder(bundle, tmp_path)
    source = [40] * 1499
    with torch.no_grad():
        logits = bundle.model.log_probs(torch.tensor([[*source, 3]]), torch.tensor([[2, 40, 40, 40]]))
    ours = [logits[0, place, token].item() for place, token in enumerate([40, 40, 40, 3])]
    assert long_score(tmp_path, bundle, 1500) == pytest.approx(ours, abs=FLOAT32)


@pytest.mark.parametrize("norm", ["std", "std_scalar"])
def test_norms_over_another_deviation_are_refused(norm: str, tmp_path: Path) -> None:
    bundle = make_bundle(norm=norm)
    assert plan(bundle.model.config).refused == (f"norm is {norm}, and its code knows layer or rms only",)
    with pytest.raises(ConversionError, match=f"cannot write this model as ctranslate2: norm is {norm}"):
        save_folder(bundle, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_refused_norm_would_have_been_wrong(tmp_path: Path) -> None:
    """The same tensors under an ordinary layer norm give other numbers."""
    bundle = make_bundle(norm="std")
    other = make_bundle(norm="layer")
    other.model.load_state_dict(bundle.model.state_dict())
    save_folder(other, tmp_path)
    assert check_folder(other, tmp_path) < FLOAT32
    with pytest.raises(ConversionError, match="differs from the model by"):
        check_folder(bundle, tmp_path)


def test_every_reason_stands_in_one_error(tmp_path: Path) -> None:
    bundle = renamed(
        make_bundle(joint=False, norm="std", src_bos=True), {9: "x", 8: "x", 2: "<S>"}, {0: "<u>", 3: "<e>"}
    )
    with pytest.raises(ConversionError) as caught:
        save_folder(bundle, tmp_path)
    text = str(caught.value)
    for reason in (
        "norm is std, and its code knows layer or rms only",
        'the source vocabulary holds "x" more than once',
        'its unknown token is "<unk>" in the source vocabulary and "<u>" in the target\'s',
        'its start token is "<S>" in the source vocabulary and "<s>" in the target\'s',
        'its end token is "</s>" in the source vocabulary and "<e>" in the target\'s',
    ):
        assert reason in text
    assert text.count(";") == 5
    assert list(tmp_path.iterdir()) == []


def test_special_tokens_matter_only_where_the_source_has_them() -> None:
    changes: tuple[dict[int, str], dict[int, str]] = ({2: "<S>", 3: "<e>"}, {})
    assert len(refused_tokenizers(renamed(make_bundle(joint=False, src_bos=True), *changes))) == 2
    assert len(refused_tokenizers(renamed(make_bundle(joint=False), *changes))) == 1
    assert refused_tokenizers(renamed(make_bundle(joint=False, src_eos=False), *changes)) == []
    assert refused_tokenizers(make_bundle(joint=False, src_bos=True)) == []


def test_a_token_twice_would_have_been_wrong(tmp_path: Path) -> None:
    bundle = make_bundle()
    wrong = renamed(bundle, {}, {250: bundle.tokenizers.tgt.vocabulary()[251]})
    assert refused_tokenizers(wrong) == [
        'the target vocabulary holds "' + wrong.tokenizers.tgt.vocabulary()[250] + '" more than once'
    ]
    save_folder(bundle, tmp_path)
    names = [wrong.tokenizers.tgt.vocabulary()[index] for index in (250, 251)]
    (tmp_path / "shared_vocabulary.json").write_text(json.dumps(wrong.tokenizers.tgt.vocabulary()))
    translator = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    one, other = (translator.score_batch([["<s>"]], [[name]])[0].log_probs[0] for name in names)
    assert one == other


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("quantization", ["int16", "int8"])
def test_a_matrix_of_zeros_has_a_scale(quantization: str, tmp_path: Path) -> None:
    bundle = make_bundle()
    with torch.no_grad():
        bundle.model.decoder.layers[0].feed_forward.output.weight.zero_()
        bundle.model.encoder.layers[1].self_attention.output.weight.zero_()
    save_folder(bundle, tmp_path, quantization)
    assert check_folder(bundle, tmp_path, quantization) < INT8


def test_an_unknown_quantization(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r'no quantization is called "int9" \(did you mean "int8"\?\); there are'):
        save_folder(make_bundle(), tmp_path, "int9")
    assert list(tmp_path.iterdir()) == []


def test_without_the_library_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for act in (save_folder, check_folder):
        with pytest.raises(ConversionError, match=r"pip install 'dragoman\[ctranslate2\]'"):
            act(make_bundle(), tmp_path)  # type: ignore[operator]
    assert list(tmp_path.iterdir()) == []


def test_the_check_sees_a_wrong_weight(tmp_path: Path) -> None:
    bundle = make_bundle()
    save_folder(bundle, tmp_path)
    assert check_folder(bundle, tmp_path) < FLOAT32
    with torch.no_grad():
        bundle.model.decoder.layers[0].feed_forward.output.bias[3] += 0.1
    with pytest.raises(ConversionError, match="differs from the model by"):
        check_folder(bundle, tmp_path)


def test_the_check_shows_damaged_weights(tmp_path: Path) -> None:
    bundle, damaged = make_bundle(), make_bundle()
    with torch.no_grad():
        damaged.model.tgt_embedding.weight[100:140] = float("nan")
    save_folder(damaged, tmp_path)
    with pytest.raises(ConversionError, match="differs from the model by nan"):
        check_folder(bundle, tmp_path)


def test_the_check_fits_into_few_positions(tmp_path: Path) -> None:
    bundle = make_bundle(positions="learned", max_length=3)
    save_folder(bundle, tmp_path)
    assert check_folder(bundle, tmp_path) < FLOAT32


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_the_rewritten_model_is_ours(name: str) -> None:
    """Every rewriting alone: the new configuration and tensors make a model of ours that computes the same."""
    config = ModelConfig(**{**BASE, **VARIANTS[name]})
    torch.manual_seed(1)
    model = Transformer(config).double().eval()
    state, changed = dict(model.state_dict()), config
    for rewrite in plan(config).rewrites:
        state, changed = rewrite(state, changed)
    again = empty_model(changed).double().eval()
    again.load_state_dict(state)
    src, tgt = torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]])
    with torch.no_grad():
        torch.testing.assert_close(again(src, tgt), model(src, tgt), rtol=0.0, atol=FLOAT32)


def test_rewritings_in_words() -> None:
    config = ModelConfig(**{**BASE, "feed_forward": "bilinear", "n_encoder_layers": 0, "n_decoder_layers": 0})
    assert plan(config).steps == [
        "a bilinear gate becomes a ReLU gate of twice the width",
        "sinusoidal positions become a table of 1024 rows, where they end",
        "the encoder, which has no layers, gets one that adds nothing",
        "the decoder, which has no layers, gets one that adds nothing",
    ]
    assert plan(config.changed(positions="none", max_length=2000)).steps[1] == (
        "no positions become a table of 2000 rows, where they end"
    )
    plain = ModelConfig(**{**BASE, "positions": "rotary", "n_kv_heads": 1, "feed_forward": "swiglu", "norm": "rms"})
    assert plan(plain).steps == []


def test_search_options() -> None:
    power = search_options(DecodeConfig(beam_size=3, length_norm="power", length_penalty=0.6, min_length=2))
    assert power == {
        "beam_size": 3, "length_penalty": 0.6, "min_decoding_length": 2, "return_end_token": True,
        "no_repeat_ngram_size": 0,
    }  # fmt: skip
    assert search_options(DecodeConfig(length_norm="none"))["length_penalty"] == 0.0
