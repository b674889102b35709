"""Odd Python arguments of a Translator: one sentence of ours, never an error from inside."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from bundles import make_bundle
from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.translating import ensemble
from dragoman.translating.terms import Terms
from dragoman.translation import Translation
from dragoman.translator import Translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(make_bundle())


@pytest.mark.parametrize("text", [None, 3, b"abc", [1], [None], ["a", 2.0]])
def test_what_is_no_text(translator: Translator, text: Any) -> None:
    with pytest.raises(DataError, match="give a string"):
        translator.translate(text)
    with pytest.raises(DataError, match="give a string"):
        translator.translate_document(text)


@pytest.mark.parametrize("target", [None, 5, ["a"], [1.5], b"ab"])
def test_what_is_no_target(translator: Translator, target: Any) -> None:
    with pytest.raises(DataError, match="target"):
        translator.score("a", target)


@pytest.mark.parametrize("tokens", [None, "a", 0, 1.5])
def test_what_is_no_batch_size(translator: Translator, tokens: Any) -> None:
    with pytest.raises(ConfigError, match="batch_tokens"):
        translator.translate("a", batch_tokens=tokens)


@pytest.mark.parametrize("options", [{"device": None}, {"device": 3}, {"precision": []}, {"precision": None}])
def test_what_cannot_be_asked_of_load(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(DragomanError):
        Translator.load(tmp_path, **options)


def test_any_sequence_of_strings_will_do(translator: Translator) -> None:
    assert [one.text for one in translator.translate(("", " "))] == ["", ""]
    assert translator.translate([]) == []


def test_a_prefix_of_a_blank_text_is_not_dropped_in_silence(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dragoman"):
        assert translator.translate("", prefix="Der").text == ""
    assert "target prefix: 1" in caplog.text


@pytest.mark.parametrize("lines", [[], [-1], [1.5], [None], "a", 3, 1.5, {}, [0, 1], b"a", {"a": 1}])
def test_what_are_no_line_numbers(translator: Translator, lines: Any) -> None:
    message = r"^1 texts need as many line_numbers, whole numbers from 0; give a list of that length\.$"
    for text in ("key", ["key"], ""):
        with pytest.raises(DataError, match=message):
            translator.translate(text, line_numbers=lines)
        with pytest.raises(DataError, match=message):
            translator.translate_document(text, line_numbers=lines)


@pytest.mark.parametrize("line", [-1, 1.5, "a", []])
def test_what_is_no_line_number(translator: Translator, line: Any) -> None:
    with pytest.raises(DataError, match="whole numbers from 0"):
        translator.stream("key", line_number=line)


def test_line_numbers_of_any_kind_of_whole_number(translator: Translator) -> None:
    options: dict[str, Any] = {"sample": True, "max_length": 5}
    ways: list[Any] = [[7], (7,), range(7, 8), np.array([7]), iter([7])]
    found = [translator.translate(["key"], line_numbers=lines, **options)[0].ids for lines in ways]
    assert found == [found[0]] * len(ways)
    assert translator.translate(["key"], line_numbers=[2**70], **options)[0].ids


@pytest.mark.parametrize("text", [["key"], [], {}, None, 3, b"key", {"key": 1}])
def test_what_is_not_one_text(translator: Translator, text: Any) -> None:
    asked: dict[str, Callable[[], Any]] = {
        "streamed": lambda: translator.stream(text),
        "continued": lambda: translator.alternatives(text),
        "recorded": lambda: translator.record(text),
        "scored": lambda: translator.score(text, "Zaun"),
    }
    for done, ask in asked.items():
        with pytest.raises(DataError) as caught:
            ask()
        kind = type(text).__name__
        assert str(caught.value) == f"only one text can be {done}, and this is a {kind}; give a string."
    with pytest.raises(DataError, match="can be scored"):
        translator.force(text, [])


@pytest.mark.parametrize("ids", [[2**70], [-1], [10**6]])
def test_ids_that_no_vocabulary_has(translator: Translator, ids: list[int]) -> None:
    with pytest.raises(DataError, match="there is no id"):
        translator.alternatives("key", ids)
    with pytest.raises(DataError, match="id"):
        translator.score("key", ids)


@pytest.mark.parametrize("report", [3, "a", [], True])
def test_what_cannot_be_called(translator: Translator, report: Any) -> None:
    for ask in (translator.translate, translator.translate_document):
        with pytest.raises(ConfigError, match=rf"^report is a {type(report).__name__}; give a function"):
            ask("key", report=report)


@pytest.mark.parametrize("path", [None, 3, b"model", [None], [2**70], [b"a"], True, {1: 2}, object()])
def test_what_is_no_path_of_a_model(path: Any) -> None:
    with pytest.raises(ConfigError, match=r"^a model directory is given as a \w+; give a path, or a list of paths\.$"):
        Translator.load(path)
    for none in ([], {}, set()):
        with pytest.raises(ConfigError, match="an ensemble of no models"):
            Translator.load(none)


@pytest.mark.parametrize("model", [None, 3, "runs/demo/best", [1], ["a"], torch.tensor([1])])
def test_what_is_no_model(model: Any) -> None:
    with pytest.raises(ConfigError, match=r"^a model is given as a \w+; give a Bundle, or a path to load\.$"):
        Translator(model)
    with pytest.raises(ConfigError, match=r"^a model is given as a"):
        Translator(make_bundle(), others=model)


@pytest.mark.parametrize("device", [3, "gpu", "", b"cpu", [], "cpu:1"])
def test_what_is_no_device(device: Any) -> None:
    with pytest.raises(ConfigError, match=r"^there is no device"):
        Translator(make_bundle(), device)


@pytest.mark.parametrize("device", ["cpu", "auto", torch.device("cpu")])
def test_devices_of_every_kind(device: Any) -> None:
    assert Translator(make_bundle(), device).device.type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("pairs", [None, 3, "ab", b"ab", True, Path("x")])
def test_what_are_no_terms(translator: Translator, pairs: Any) -> None:
    with pytest.raises(DataError, match=r"^terms are no list of pairs; give"):
        Terms(pairs)
    with pytest.raises(DataError):
        Terms.read(pairs if not isinstance(pairs, str | Path) else 3.5)  # type: ignore[arg-type]
    if pairs is not None:
        with pytest.raises(DataError, match=r"^terms are no list of pairs; give"):
            translator.translate("key", terms=pairs)


def test_a_tensor_without_dimensions_is_no_list(translator: Translator) -> None:
    with pytest.raises(DataError, match="a constraint is a Tensor"):
        translator.translate(["key"], constraints=torch.tensor([1]))  # type: ignore[arg-type]


# -- what has no effect ------------------------------------------------------------------------------------------------


def test_being_strict_about_nothing(translator: Translator) -> None:
    message = r"^strict_terms is about terms and constraints; give some, or leave it out\.$"
    for ask in (translator.translate, translator.stream, translator.translate_document):
        with pytest.raises(ConfigError, match=message):
            ask("key", strict_terms=True)
        assert ask("key", strict_terms=True, terms=[], max_length=3)
    assert translator.translate("key", strict_terms=True, constraints=[], max_length=3).unmet == []


def test_what_a_document_does_not_show(translator: Translator) -> None:
    for options in ({"attention": True}, {"n_best": 2}):
        (name,) = options
        with pytest.raises(ConfigError, match=f"^{name} has no effect on a document, which is given as text; use tran"):
            translator.translate_document("key", **options)
    same = translator.translate_document("key", attention=False, n_best=1)
    several = Translator(replace(make_bundle(), decode=translator.bundle.decode.changed(n_best=2)))
    assert several.translate_document("key") == same  # its own n_best stands in nobody's way


def test_a_beam_beside_a_compiled_step(caplog: pytest.LogCaptureFixture) -> None:
    """Said once, by the search that makes no use of it."""
    ensemble._warn_of_beam.cache_clear()
    translator = Translator(make_bundle())
    translator.translate("key", max_length=2)
    compiled = Translator(make_bundle())
    with_row: Any = compiled.engine
    with_row.row = lambda *_: pytest.fail("no hypothesis is alone here")
    both = Translator(make_bundle(), others=[make_bundle()])
    cast("Any", both.engine).engines[1].row = with_row.row
    with caplog.at_level(logging.WARNING, "dragoman"):
        compiled.translate(["key", "Zaun"], max_length=2, beam_size=1)
        compiled.translate(["key", "Zaun"], max_length=2, sample=True)
        assert not caplog.records
        for one in (compiled, both):
            one.translate(["key", "Zaun"], max_length=2)
    assert [record.getMessage() for record in caplog.records] == [
        "the compiled step is for greedy search and drawing, and a beam goes on without; ask for a beam of 1."
    ]
    ensemble._warn_of_beam.cache_clear()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "dragoman"):
        both.translate(["key", "Zaun"], max_length=2)
    assert len(caplog.records) == 1


# -- blank texts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", ["", "   ", "\t\u3000"])
def test_what_is_asked_of_a_blank_text_is_not_met(
    translator: Translator, blank: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dragoman"):
        found = translator.translate(["key", blank], constraints=[[], ["der", "Zaun", "der"]], line_numbers=[4, 8])
    assert (found[1].text, found[1].ids, found[1].unmet) == ("", [], ["der", "Zaun", "der"])
    assert found[0].unmet == []
    assert [record.getMessage() for record in caplog.records] == ['line 9: the translation lacks "der", "Zaun", "der".']
    stream = translator.stream(blank, constraints=["der"], line_number=2)
    assert list(stream) == []
    assert stream.translation == Translation("", unmet=["der"])
    for ask in (translator.translate, translator.stream):
        with pytest.raises(DataError, match=r'^the translation of line 1 cannot hold "der"; change the terms\.$'):
            ask(blank, constraints=["der"], strict_terms=True)
        with pytest.raises(DataError, match="a phrase that must appear is blank"):
            ask(blank, constraints=[" "])
    # No term stands in it, so that none asks for anything.
    assert translator.translate(blank, terms={"key": "Zaun"}, strict_terms=True).unmet == []


def test_a_prefix_of_a_blank_text_is_not_met(translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dragoman"):
        found = translator.translate([" ", "", "key"], prefix=["Der", " ", "Der"], constraints=[["Zaun"], [], []])
    assert [one.unmet for one in found] == [["Der", "Zaun"], [], []]
    assert [one.text for one in found[:2]] == ["", ""]
    assert found[2].text.startswith("Der")
    stream = translator.stream("", prefix="Der")
    assert list(stream) == []
    assert stream.translation.unmet == ["Der"]
    assert translator.record(" ", prefix="Der")[0] == Translation("", unmet=["Der"])
    # Nothing was asked about strictness of a prefix.
    assert translator.translate("", prefix="Der", terms=[], strict_terms=True).unmet == ["Der"]
