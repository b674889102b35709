"""``dragoman convert`` through the real entry point."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from bundles import LINES, make_bundle
from conftest import RunCli
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.text.tokenizer import TokenizerPair
from goldens import CASES
from tolerances import FLOAT32


def differences(report: str) -> dict[str, float]:
    """What the report says of each check."""
    return {what: float(value) for what, value in re.findall(r"largest difference of the (.+): (\S+)$", report, re.M)}


def test_a_tutorials_checkpoint_becomes_a_model_and_goes_back(run_cli: RunCli, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "hyunwoongko")
    torch.save({"epoch": 2, "model_state_dict": case.state_dict}, tmp_path / "saved.pt")
    config = case.model(torch.float32).config
    for side, size in (("src", config.src_vocab_size), ("tgt", config.tgt_vocab_size)):
        assert size is not None
        words = ["<unk>", "<pad>", "<sos>", "<eos>", *(f"w{number}" for number in range(4, size))]
        (tmp_path / f"{side}.txt").write_text("\n".join(words) + "\n")
    files = [f"{side}_tokenizer={tmp_path / side}.txt" for side in ("src", "tgt")]
    result = run_cli(
        "convert", tmp_path / "saved.pt", tmp_path / "model", "--to", "dragoman", "n_heads=4", "src_lang=en",
        "tgt_lang=de", *files,
    )  # fmt: skip
    assert result.rc == 0, result.stderr
    assert "told from its keys, this is hyunwoongko" in result.stderr
    assert differences(result.stdout) == {"logits": 0.0}
    assert f"{tmp_path / 'model'}: hyunwoongko -> dragoman" in result.stdout
    translated = run_cli("translate", tmp_path / "model", stdin="w5 w6 w7\n")
    assert translated.rc == 0
    back = run_cli("convert", tmp_path / "model", tmp_path / "back.pt", "--to", "hyunwoongko", "-q")
    assert (back.rc, back.stderr) == (0, "")
    returned = torch.load(tmp_path / "back.pt", weights_only=True)
    assert returned.keys() == case.state_dict.keys()
    assert all(torch.equal(returned[key], tensor) for key, tensor in case.state_dict.items())


def test_rewritings_are_said(run_cli: RunCli, tmp_path: Path) -> None:
    save_bundle(make_bundle(positions="sinusoidal_halves", tie_embeddings="decoder"), tmp_path / "model")
    result = run_cli("convert", tmp_path / "model", tmp_path / "w.safetensors", "--to", "labml")
    assert result.stdout.count("rewritten exactly: ") == 2
    assert differences(result.stdout)["logits"] <= FLOAT32


def test_to_ctranslate2(run_cli: RunCli, tmp_path: Path) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    result = run_cli("convert", tmp_path / "model", tmp_path / "ct2", "--to", "ctranslate2", "quantization=int8")
    assert result.rc == 0, result.stderr
    assert list(differences(result.stdout)) == ["log-probabilities"]
    assert (tmp_path / "ct2" / "model.bin").exists()
    assert isinstance(json.loads((tmp_path / "ct2" / "config.json").read_text()), dict)
    assert TokenizerPair.load(tmp_path / "ct2").joint
    wrong = run_cli("convert", tmp_path / "model", tmp_path / "other", "--to", "ctranslate2", "quantization=int3")
    assert wrong.rc == 1
    assert 'did you mean "int8"' in wrong.stderr.splitlines()[-1]
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["model", "out"], 2, "--to"),
        (["model", "out", "--to", "labml", "n_heads"], 2, "KEY=VALUE"),
        (["model", "out", "--to", "labml", "a=1", "a=2"], 1, "stands twice"),
        (["model", "out.pt", "--to", "lablm"], 1, 'did you mean "labml"'),
        (["nothing", "out", "--to", "dragoman"], 1, "does not exist"),
        (["model", "model", "--to", "dragoman"], 1, "exists"),
        (["model", "out", "--to", "dragoman", "--from", "marian"], 1, "is a dragoman folder"),
        (["model", "out.pt", "--to", "hyunwoongko"], 1, "norm_first"),
        (["model", "out.pt", "--to", "labml", "variant=x"], 1, "variant"),
        (["model/model.safetensors", "out", "--to", "dragoman", "n_heads=2"], 1, "tokenizer"),
        (["model/config.json", "out", "--to", "dragoman"], 1, "no file of weights"),
    ],
)
def test_refusals(run_cli: RunCli, tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    paths = [str(tmp_path / part) if place < 2 else part for place, part in enumerate(arguments)]
    result = run_cli("convert", *paths)
    assert result.rc == code
    assert said in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_help_names_every_format(run_cli: RunCli) -> None:
    from dragoman import interop

    text = run_cli("convert", "--help").stdout
    assert all(name in text for name in interop.FORMATS)


def test_training_goes_on_from_an_imported_model(run_cli: RunCli, tmp_path: Path) -> None:
    """The imported tokenizers are kept, and the weights are where training starts."""
    case = next(case for case in CASES if case.name == "hkproj_current")
    torch.save(case.state_dict, tmp_path / "tmodel.pt")
    config = case.model(torch.float32).config
    for side, size in (("src", config.src_vocab_size), ("tgt", config.tgt_vocab_size)):
        assert size is not None
        words = ["[UNK]", "[PAD]", "[SOS]", "[EOS]", *(f"w{number}" for number in range(4, size))]
        _word_level_json(tmp_path / f"{side}.json", words)
    files = [f"{side}_tokenizer={tmp_path / side}.json" for side in ("src", "tgt")]
    made = run_cli("convert", tmp_path / "tmodel.pt", tmp_path / "model", "--to", "dragoman", "n_heads=4", *files)
    assert made.rc == 0, made.stderr
    (tmp_path / "t.src").write_text("w5 w6\nw7 w4\nw8 w9 w4\n" * 8)
    (tmp_path / "t.tgt").write_text("w6 w5\nw4 w7\nw4 w9 w8\n" * 8)
    (tmp_path / "run.yaml").write_text(
        "data: {train: {src: t.src, tgt: t.tgt}, valid: {src: t.src, tgt: t.tgt}}\n"
        f"train: {{max_steps: 2, lr: 1.0e-9, warmup_steps: 0, init_from: {tmp_path / 'model'}, threads: 1}}\n"
    )
    trained = run_cli("train", tmp_path / "run.yaml", "--out", tmp_path / "run")
    assert trained.rc == 0, trained.stderr
    before, after = Translator.load(tmp_path / "model"), Translator.load(tmp_path / "run" / "last")
    assert after.bundle.tokenizers.src.encode("w5 nothing") == before.bundle.tokenizers.src.encode("w5 nothing")
    assert [t.text for t in after.translate(LINES)] == [t.text for t in before.translate(LINES)]
    assert after.model.config.changed(dropout=0.0) == before.model.config.changed(dropout=0.0)
    for (name, old), new in zip(before.model.state_dict().items(), after.model.state_dict().values(), strict=True):
        torch.testing.assert_close(new, old, rtol=0.0, atol=1e-6, msg=name)


def _word_level_json(path: Path, words: list[str]) -> None:
    """A tokenizer as hkproj's code makes and saves it."""
    import tokenizers

    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.WordLevelTrainer(special_tokens=words[:4], min_frequency=1)
    inner.train_from_iterator([" ".join(words[4:])], trainer)
    state = json.loads(inner.to_str())
    state["model"]["vocab"] = {word: place for place, word in enumerate(words)}
    path.write_text(json.dumps(state))
