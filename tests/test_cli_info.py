"""``dragoman info`` through the real entry point, and the parts that need no process of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bundles import make_bundle
from conftest import REPOSITORY, RunCli
from dragoman.bundle import save_bundle
from dragoman.cli.info import card_scores

RECIPE = REPOSITORY / "recipes" / "multi30k-en-de.yaml"
CARD = """# A card

| | |
| --- | --- |
| seed | 1 |

| test set, beam 3 | score | 95 % interval | signature |
| --- | ---: | --- | --- |
| BLEU | 12.30 | 11.00 to 13.50 | `nrefs:1|case:mixed|eff:no` |
| chrF2 | 40.00 |  | `nrefs:1|case:mixed` |

Text after it.
"""


@pytest.mark.parametrize(("tie", "joint"), [("none", False), ("all", True)])
def test_a_model(run_cli: RunCli, tmp_path: Path, tie: str, joint: bool) -> None:
    bundle = make_bundle(joint=joint, tie_embeddings=tie, positions="learned")
    bundle.card = CARD
    folder = tmp_path / "model"
    save_bundle(bundle, folder)
    result = run_cli("info", folder, "--json")
    assert (result.rc, result.stderr) == (0, "")
    facts = json.loads(result.stdout)
    assert facts["languages"] == "en -> de"
    src, tgt = bundle.tokenizers.src.vocab_size, bundle.tokenizers.tgt.vocab_size
    assert facts["vocabulary"] == {"kind": "bpe", "joint": joint, "src": src, "tgt": tgt}
    parts = facts["parameters"]
    assert parts["total"] == sum(parameter.numel() for parameter in bundle.model.parameters())
    assert parts["total"] == sum(count for part, count in parts.items() if part != "total")
    assert parts["embeddings"] == 16 * (src if tie == "all" else src + tgt)
    assert parts["positions"] == 2 * 16 * 64
    assert parts["output"] == tgt + (0 if tie == "all" else 16 * tgt)
    stored = sum(path.stat().st_size for path in folder.iterdir())
    assert facts["size"]["on disk"]["MB"] == round(stored / 1e6, 2)
    assert facts["size"]["weights in fp32"]["MiB"] == round(4 * parts["total"] / 2**20, 2)
    assert [row["signature"] for row in facts["scores"]] == ["nrefs:1|case:mixed|eff:no", "nrefs:1|case:mixed"]
    assert facts["settings"]["model"] == bundle.model.config.model_dump(mode="json")
    assert facts["settings"]["decode"] == bundle.decode.model_dump(mode="json")


def test_a_model_for_a_person(run_cli: RunCli, tmp_path: Path) -> None:
    bundle = make_bundle()
    save_bundle(bundle, tmp_path / "model")
    lines = run_cli("info", tmp_path / "model").stdout.splitlines()
    assert lines[:2] == [f"model: {tmp_path / 'model'}", "languages: en -> de"]
    total = sum(parameter.numel() for parameter in bundle.model.parameters())
    assert f"  {'total':<12}{total:>15,}" in lines
    assert "tied: nothing is tied" in lines
    assert "scores: none in the model card" in lines
    assert "    d_model: 16" in lines


def test_a_configuration(run_cli: RunCli) -> None:
    """Nothing but the file is read: its data need not be there."""
    result = run_cli("info", RECIPE, "--json")
    assert (result.rc, result.stderr) == (0, "")
    facts = json.loads(result.stdout)
    assert facts["languages"] == "en -> de"
    settings = facts["settings"]
    assert facts["parameters"]["embeddings"] == settings["tokenizer"]["vocab_size"] * settings["model"]["d_model"]
    assert "on disk" not in facts["size"]


def test_refusals(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    save_bundle(make_bundle(), tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    misspelt = RECIPE.read_text("utf-8").replace("\nmodel:", "\nmodell:")
    (tmp_path / "x.yaml").write_text(misspelt, "utf-8")
    cases = [
        ("nope", "nope does not exist; give a model directory or a configuration file."),
        ("empty", "cannot read empty/config.json: it is missing"),
        ("cut", "cut/model.safetensors is damaged or cut short"),
        ("x.yaml", '(did you mean "model"?)'),
    ]
    for name, message in cases:
        result = run_cli("info", tmp_path / name)
        assert (result.rc, result.stdout) == (1, ""), name
        assert result.stderr.count("\n") == 1
        assert message in result.stderr.replace(f"{tmp_path}/", "")


def test_scores_of_a_card() -> None:
    assert card_scores(CARD) == [
        {
            "on": "test set, beam 3",
            "metric": "BLEU",
            "score": "12.30",
            "95 % interval": "11.00 to 13.50",
            "signature": "nrefs:1|case:mixed|eff:no",
        },
        {
            "on": "test set, beam 3",
            "metric": "chrF2",
            "score": "40.00",
            "95 % interval": "",
            "signature": "nrefs:1|case:mixed",
        },
    ]
    for card in ("", "no table", "| a | b |\n| --- | --- |\n| 1 | 2 |", "|", "||\n|"):
        assert card_scores(card) == []


@pytest.mark.parametrize("fmt", ["labml", "ctranslate2"])
def test_an_export_that_is_possible(run_cli: RunCli, tmp_path: Path, fmt: str) -> None:
    save_bundle(make_bundle(positions="sinusoidal_halves", norm_eps=1e-5), tmp_path / "model")
    result = run_cli("info", tmp_path / "model", "--export", fmt, "--json")
    facts = json.loads(result.stdout)[f"export to {fmt}"]
    assert facts["possible"] is True
    assert facts["refused"] == []
    if fmt == "labml":
        assert facts["rewritten"] == ["the features are permuted for the other order of sinusoids"]
    assert f"export to {fmt}: possible" in run_cli("info", tmp_path / "model", "--export", fmt).stdout


def test_an_export_that_is_refused_says_every_reason(run_cli: RunCli, tmp_path: Path) -> None:
    save_bundle(make_bundle(norm="rms", positions="rotary", norm_first=True), tmp_path / "model")
    result = run_cli("info", tmp_path / "model", "--export", "marian", "--json")
    facts = json.loads(result.stdout)["export to marian"]
    assert (result.rc, facts["possible"]) == (0, False)
    for words in ("norm is rms", "positions is rotary", "norm_first is True", "SentencePiece"):
        assert words in " ".join(facts["refused"]), facts["refused"]
    lines = run_cli("info", tmp_path / "model", "--export", "marian").stdout.splitlines()
    # The answer and nothing else: it would be lost below a screen of settings.
    assert lines[0] == "export to marian: refused"
    assert [line.partition(": ")[0] for line in lines[1:]] == [
        *["  rewritten exactly"] * len(facts["rewritten"]),
        *["  refused"] * len(facts["refused"]),
    ]


def test_the_export_of_a_configuration(run_cli: RunCli) -> None:
    result = run_cli("info", RECIPE, "--export", "hkproj")
    assert result.rc == 0
    assert "export to hkproj: refused" in result.stdout
    assert "SentencePiece" in run_cli("info", RECIPE, "--export", "marian").stdout
    wrong = run_cli("info", RECIPE, "--export", "marain")
    assert wrong.rc == 1
    assert 'did you mean "marian"' in wrong.stderr
