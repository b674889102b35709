"""Odd Python arguments of a Translator: one sentence of ours, never an error from inside."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from bundles import make_bundle
from dragoman.errors import ConfigError, DataError, DragomanError
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
