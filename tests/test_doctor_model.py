"""The doctor on models: weights, embeddings, ids and translations, each spoilt once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

import model_variants
from bundles import LINES, SRC_TEXT, TGT_TEXT, make_bundle
from dragoman.bundle import Bundle, save_bundle
from dragoman.doctor import model
from dragoman.doctor.examine import Examination, examine_model
from dragoman.preflight.finding import Finding
from dragoman.translation import Translation

PAIRS = list(zip(SRC_TEXT, TGT_TEXT, strict=True))


def only(findings: Iterable[Finding], severity: str) -> str:
    found = list(findings)
    assert len(found) == 1, found
    assert found[0].severity == severity, found
    assert severity == "ok" or found[0].text.endswith(".")
    return found[0].text


@pytest.mark.parametrize("name", model_variants.VARIANTS)
def test_fresh_models_of_every_variant_are_healthy(name: str) -> None:
    network = model_variants.make(name, torch.float32)
    assert [*model.weights(network), *model.embeddings(network)] == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(value: float) -> None:
    network = make_bundle().model
    with torch.no_grad():
        network.encoder.layers[1].feed_forward.inner.weight[0, 0] = value  # type: ignore[union-attr,index]
    assert "encoder.layers.1.feed_forward.inner.weight hold values" in only(model.weights(network), "error")


@pytest.mark.parametrize("name", ["decoder.layers.0.cross_attention.value.weight", "encoder.norm.weight"])
def test_dead_matrices_and_gains(name: str) -> None:
    network = make_bundle().model
    with torch.no_grad():
        network.get_parameter(name).zero_()
    assert f"{name} are zero throughout" in only(model.weights(network), "error")


def test_many_names_are_cut_short() -> None:
    network = make_bundle().model
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(float("nan"))
    assert " and 61 more hold values" in only(model.weights(network), "error")


def test_rows_that_drown_the_others() -> None:
    network = make_bundle().model
    with torch.no_grad():
        network.tgt_embedding.weight[7] *= 100
        network.src_embedding.weight[1] *= 100  # the padding's row is looked at by nobody
    assert "1 rows of tgt_embedding" in only(model.embeddings(network), "warning")


def test_rows_of_zeros() -> None:
    network = make_bundle().model
    with torch.no_grad():
        network.src_embedding.weight[1] = 0
    assert list(model.embeddings(network)) == []
    with torch.no_grad():
        network.src_embedding.weight[100:] = 0
    assert "of the rows of src_embedding are zero" in only(model.embeddings(network), "warning")


def test_rows_that_collapsed() -> None:
    network = make_bundle().model
    with torch.no_grad():
        network.tgt_embedding.weight.add_(50.0)
    assert "all point the same way" in only(model.embeddings(network), "warning")


def test_ties_that_are_only_said() -> None:
    network = make_bundle(tie_embeddings="all").model
    network.output.weight = torch.nn.Parameter(network.output.weight.detach().clone())
    assert "output has a matrix of its own, though tie_embeddings is all" in only(model.embeddings(network), "error")


def test_ties_that_are_not_said() -> None:
    network = make_bundle().model
    with torch.no_grad():
        network.output.weight.copy_(network.tgt_embedding.weight)
    assert f"save {300 * 16:,} parameters" in only(model.embeddings(network), "note")


def test_positions_that_end() -> None:
    bounded = make_bundle(positions="learned").model
    assert list(model.positions(bounded, [64, 3], "the sentences")) == []
    assert "1 of the sentences are longer than the model's 64 positions" in only(
        model.positions(bounded, [65, 3], "the sentences"), "warning"
    )
    assert "translated in parts" in only(model.positions(make_bundle().model, [65], "the sentences"), "note")


def _favour(bundle: Bundle, index: int, by: float) -> None:
    with torch.no_grad():
        bundle.model.output.bias[index] = by


def test_a_model_no_better_than_guessing() -> None:
    bundle = make_bundle()
    assert "no better than guessing on 4 pairs" in only(model.likelihood(bundle, PAIRS), "error")
    with torch.no_grad():
        bundle.model.output.weight.zero_()
    _favour(bundle, 3, 2.0)
    assert "a loss of" in only(model.likelihood(bundle, PAIRS), "ok")


@pytest.mark.parametrize(("name", "index"), [("<pad>", 1), ("<s>", 2)])
def test_probability_for_what_is_never_a_target(name: str, index: int) -> None:
    bundle = make_bundle()
    with torch.no_grad():
        bundle.model.output.weight.zero_()
        bundle.model.output.bias[4:] = 1.0
    _favour(bundle, index, 3.0)
    found = list(model.likelihood(bundle, PAIRS))
    assert [finding.severity for finding in found] == ["warning", "ok"]
    assert found[0].text.startswith(f"{name} gets ")


def translations(texts: list[str], references: list[str] | None = None, finished: bool = True) -> list[Finding]:
    found = [Translation(text, finished=finished) for text in texts]
    return list(model.translations(LINES[: len(texts)], found, references))


GOOD = ["Die Fähre fährt um neun.", "Schlüssel", "Unser alter Nachbar streicht.", "Ein Wind", "Niemand geht."]


def test_translations_that_are_well() -> None:
    assert translations(GOOD) == []
    assert "chrF 100.0 on 5 sentences" in only(translations(GOOD, GOOD), "ok")


def test_translations_that_are_not() -> None:
    assert "2 of 5 translations are empty" in only(translations([*GOOD[:3], "", " "]), "warning")
    assert "translations are their source" in only(translations([*LINES[:4], GOOD[4]]), "warning")
    loop = "der Mann mit " + "dem Hund und " * 9
    assert "3 of 5 translations say the same again" in only(
        translations([loop, f"{loop} {loop}", "哈" * 40, *GOOD[3:]]), "warning"
    )
    assert "do not end" in only(translations(GOOD, finished=False), "warning")
    assert "5 of 5 translations are the same ('Ein Wind')" in only(translations(["Ein Wind"] * 5), "warning")


def test_translations_against_references() -> None:
    long = [f"{text} und noch viel mehr und mehr Worte dazu" for text in GOOD]
    assert any("times as long as their references" in finding.text for finding in translations(long, GOOD))
    unrelated = ["xyz qqq www zzz", "jjj", "www kkk yyy qqq jjj xxx", "xxx zzz", "qqq yyy xxx"]
    assert any("what unrelated text gets" in finding.text for finding in translations(unrelated, GOOD))


def findings(folder: Path, pairs: list[tuple[str, str]] | None = None) -> tuple[list[str], list[Finding]]:
    made = Examination(lambda text: None)
    examine_model(folder, pairs, made)
    return (
        [one.title for one in made.outcomes],
        [finding for one in made.outcomes for finding in one.findings if finding.severity != "ok"],
    )


def test_a_model_directory_without_text(tmp_path: Path) -> None:
    save_bundle(make_bundle(), tmp_path / "m")
    titles, found = findings(tmp_path / "m")
    assert "masks: what the model sees and must not see" in titles
    assert "give --src" in only(found, "note")


def test_a_random_model_is_found_out(tmp_path: Path) -> None:
    save_bundle(make_bundle(), tmp_path / "m")
    _, found = findings(tmp_path / "m", PAIRS * 5)
    assert any("no better than guessing" in finding.text and finding.severity == "error" for finding in found)


def test_a_directory_that_cannot_be_loaded(tmp_path: Path) -> None:
    save_bundle(make_bundle(), tmp_path / "m")
    make_bundle(kind="wordlevel").tokenizers.src.save(tmp_path / "m" / "tokenizer.json")
    titles, found = findings(tmp_path / "m")
    assert titles == ["loading the model"]
    assert "the tokenizers have" in only(found, "error")
