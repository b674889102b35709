"""Options of a translation: those that make no sense together, whoever gives them, and minimum lengths."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from dragoman.errors import ConfigError
from dragoman.server.catalogue import Catalogue, Served
from dragoman.server.limits import Limits
from dragoman.server.metrics import Metrics
from dragoman.server.service import Service
from dragoman.translating import ensemble
from dragoman.translating.alternatives import MOST_WORDS
from dragoman.translating.options import asked_config, check_together

BOUND = "{} has no effect beside max_length, which takes its place; leave one of them out."
SEARCH = "beam_size is for a search, and sample draws at random; leave one of them out."


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(make_bundle())


@pytest.fixture(scope="module")
def drawing() -> Translator:
    """A model that draws unless it is told otherwise."""
    return Translator(replace(make_bundle(), decode=DecodeConfig(sample=True, top_k=4, seed=9, max_length=12)))


# -- what makes no sense together --------------------------------------------------------------------------------------

CLASHES = [
    ({"sample": True, "beam_size": 2}, SEARCH),
    ({"sample": True, "beam_size": 4, "n_best": 2}, SEARCH),
    ({"seed": 3}, "seed is for drawing; add sample."),
    ({"temperature": 0.5, "beam_size": 4}, "temperature is for drawing; add sample."),
    ({"top_k": 0}, "top_k is for drawing; add sample."),
    ({"top_p": 0.9, "sample": False}, "top_p is for drawing; add sample."),
    ({"sample": True, "stop_after": 2}, SEARCH.replace("beam_size", "stop_after")),
    (
        {"beam_size": 1, "stop_after": 2},
        "stop_after is for a beam, and beam_size is 1; leave it out, or take a wider beam.",
    ),
    (
        {"length_norm": "none", "length_penalty": 0.5},
        "length_penalty is the exponent of a norm, and length_norm is none; leave it out, or take a norm.",
    ),
    ({"max_length": 9, "max_length_ratio": 2.0}, BOUND.format("max_length_ratio")),
    ({"max_length": 9, "max_length_extra": 3}, BOUND.format("max_length_extra")),
]
GOOD: list[dict[str, Any]] = [
    {},
    {"beam_size": 4},
    {"sample": True},
    {"sample": True, "beam_size": 1, "n_best": 3},
    {"sample": True, "seed": 3, "temperature": 0.5, "top_k": 4, "top_p": 0.5},
    {"sample": False, "beam_size": 4},
    {"sample": True, "stop_after": 0},
    {"beam_size": 1, "stop_after": 0},
    {"beam_size": 2, "stop_after": 2},
    {"sample": True, "length_norm": "power", "length_penalty": 0.5},
    {"beam_size": 1, "length_norm": "none", "length_penalty": 0.0},
    {"max_length": 9, "min_length_ratio": 0.5, "min_length": 2},
]


@pytest.mark.parametrize(("options", "message"), CLASHES)
def test_clashes_from_python(translator: Translator, options: dict[str, Any], message: str) -> None:
    asked: list[Callable[..., Any]] = [
        translator.translate,
        translator.stream,
        translator.translate_document,
        translator.record,
        translator.alternatives,
    ]
    for ask in asked:
        given = {**options, "n_best": 1} if ask == translator.translate_document else options
        with pytest.raises(ConfigError) as caught:
            ask("key", **given)
        assert str(caught.value) == message
    with pytest.raises(ConfigError, match=r"^" + message.replace(".", r"\.")):
        translator.score("key", "Zaun", **options)
    with pytest.raises(ConfigError):
        check_together(options)


@pytest.mark.parametrize("options", GOOD)
def test_what_goes_together(translator: Translator, options: dict[str, Any]) -> None:
    check_together(options)
    config = translator.decode_config(**options)
    assert {name: getattr(config, name) for name in options} == options
    assert translator.translate("key", **{"max_length": 3, **options}).ids


def served(translator: Translator) -> tuple[Service, Served]:
    catalogue = Catalogue([])
    one = Served("a", "en", "de", translator, None, 64)  # type: ignore[arg-type]  # nothing gets as far as its worker
    return Service(catalogue, Limits(), Metrics(), []), one


@pytest.mark.parametrize(("options", "message"), CLASHES)
def test_clashes_from_the_server(translator: Translator, options: dict[str, Any], message: str) -> None:
    service, one = served(translator)

    async def put() -> None:
        service.put_texts(one, [], 0.0, options)

    with pytest.raises(ConfigError) as caught:
        put().send(None)
    assert (str(caught.value), caught.value.http_status) == (message, 400)


def test_a_model_that_draws(drawing: Translator) -> None:
    """Its own settings clash with nothing, and who asks for a beam wants a search."""
    assert drawing.decode_config() is drawing.bundle.decode
    assert drawing.decode_config(seed=4, top_k=3).sample
    assert drawing.decode_config(n_best=7).n_best == 7
    searching = drawing.decode_config(beam_size=4)
    assert (searching.sample, searching.beam_size, searching.max_length) == (False, 4, 12)
    searched = Translator(replace(drawing.bundle, decode=DecodeConfig(max_length=12)))
    assert drawing.translate(LINES[0], beam_size=4).ids == searched.translate(LINES[0], beam_size=4).ids
    with pytest.raises(ConfigError, match="beam_size is for a search"):
        drawing.decode_config(beam_size=4, sample=True)
    with pytest.raises(ConfigError, match="seed is for drawing"):
        drawing.decode_config(beam_size=4, seed=3)
    # These search, and nobody asked them to draw.
    assert [one.text for one in drawing.alternatives("key", "", 2)] == [
        one.text for one in searched.alternatives("key", "", 2)
    ]
    assert drawing.record("key")[0].ids == searched.translate("key").ids
    with pytest.raises(ConfigError, match="only a beam search can be recorded; leave out sample"):
        drawing.record("key", sample=True)


def own(**decode: Any) -> Translator:
    return Translator(replace(make_bundle(), decode=DecodeConfig(**decode)))


def test_what_a_model_has_by_itself_stands_in_nobody_s_way() -> None:
    """Drawing, a greedy search, another norm or length for one call: no contradiction, whatever the model's own are."""
    ending = own(beam_size=4, stop_after=2, length_penalty=0.7, max_length=12)
    for options in ({"sample": True}, {"beam_size": 1}, {"length_norm": "none"}, {"sample": True, "n_best": 2}):
        assert ending.translate("key", **options).ids
    ratio = own(max_length_ratio=0.5, max_length_extra=1)
    assert len(ratio.translate(LINES[2], max_length=2, beam_size=1).ids) <= 2
    drawing = own(sample=True, temperature=2.0, top_k=3, seed=4)
    assert drawing.translate("key", beam_size=2, max_length=5).ids


def test_what_is_asked_beside_a_model_s_own_has_an_effect_or_is_refused() -> None:
    """Asked for alone, but the model's own setting would leave it without any."""
    ending = own(sample=True, beam_size=4).decode_config(stop_after=2)
    assert (ending.sample, ending.beam_size, ending.stop_after) == (False, 4, 2)
    with pytest.raises(ConfigError, match=r"^stop_after is for a beam, and beam_size is 1"):
        own(beam_size=1).decode_config(stop_after=2)
    with pytest.raises(ConfigError, match=r"^length_penalty is the exponent of a norm, and length_norm is none"):
        own(length_norm="none").decode_config(length_penalty=0.5)
    assert own(length_norm="none").decode_config(length_norm="power", length_penalty=0.5).length_penalty == 0.5
    fixed = own(max_length=9)
    assert fixed.decode_config(max_length_ratio=0.5, max_length_extra=1).limit(8) == 5
    assert fixed.decode_config(max_length_extra=1).max_length is None
    assert fixed.decode_config(min_length_ratio=0.5).max_length == 9


def test_values_are_checked_before_their_company() -> None:
    default = DecodeConfig()
    with pytest.raises(ConfigError, match="\"beam_size\" is 'wide'"):
        asked_config(default, {"beam_size": "wide", "sample": True})
    with pytest.raises(ConfigError, match="beam_size is for a search"):
        asked_config(default, {"beam_size": "4", "sample": True})
    with pytest.raises(ConfigError, match='"seed" is -1'):
        asked_config(default, {"seed": -1})
    with pytest.raises(ConfigError, match=r'called "sed" \(did you mean "seed"\?\)'):
        asked_config(default, {"sed": 1})


def test_options_of_alternatives_that_have_no_effect(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="n_best has no effect on alternatives, of which there are n; leave it out"):
        translator.alternatives("key", n_best=2, beam_size=3)
    found, same = (translator.alternatives("key", "Der", 2, **more) for more in ({}, {"n_best": 1}))
    assert [one.ids for one in found] == [one.ids for one in same]
    with pytest.raises(ConfigError, match=f"n is {MOST_WORDS + 1}; give at most {MOST_WORDS}"):
        translator.alternatives("key", "", MOST_WORDS + 1)
    assert translator.alternatives("key", "", MOST_WORDS, max_length=2, beam_size=1)


def test_scoring_takes_the_options_of_the_search(translator: Translator) -> None:
    options: dict[str, Any] = {"beam_size": 4, "n_best": 2, "length_norm": "power", "length_penalty": 0.6}
    found = translator.translate(LINES[0], **options)
    assert translator.score(LINES[0], found, **options) == pytest.approx(found.score, abs=1e-4)


# -- lengths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True}])
def test_a_minimum_goes_before_what_the_source_allows(options: dict[str, Any]) -> None:
    """``key`` alone would get 10 tokens, so that a minimum of 20 would be cut in silence."""
    bundle = make_bundle()
    with torch.no_grad():
        bundle.model.output.bias[3] += 20.0  # </s> as soon as it may come
    eager = Translator(bundle)
    assert eager.bundle.decode.limit(len(eager.translate("key").src_tokens)) < 20
    found = eager.translate(["key", LINES[2]], min_length=20, **options)
    assert [(len(one.ids), one.finished) for one in found] == [(21, True), (21, True)]
    assert len(eager.translate("key", min_length=20, max_length=21, **options).ids) == 21


def test_a_minimum_above_the_maximum() -> None:
    endless, bounded = Translator(make_bundle()), Translator(make_bundle(positions="learned", max_length=12))
    above = "min_length 65 is above the 64 target tokens that this model writes at most; lower it, or set max_length."
    for ask in (endless.translate, endless.stream, endless.record, endless.alternatives, endless.decode_config):
        with pytest.raises(ConfigError) as caught:
            ask(*(() if ask == endless.decode_config else ("key",)), min_length=65)
        assert str(caught.value) == above
    assert len(endless.translate("key", min_length=64, beam_size=1).ids) == 64
    assert len(endless.translate("key", min_length=65, max_length=66, beam_size=1).ids) >= 66
    # Past the last position there is nothing, whatever max_length says.
    with pytest.raises(ConfigError, match="min_length 13 is above the 12 target tokens that this model writes at mo"):
        bounded.translate("key", min_length=13, max_length=50)
    with pytest.raises(ConfigError, match="min_length 9 is above max_length 8"):
        bounded.translate("key", min_length=9, max_length=8)


def test_a_minimum_of_the_model_itself_is_checked_too() -> None:
    wordy = Translator(replace(make_bundle(), decode=DecodeConfig(min_length=70)))
    with pytest.raises(ConfigError, match="min_length 70 is above the 64 target tokens"):
        wordy.translate("key")
    assert wordy.translate("key", min_length=0).ids


# -- precision ---------------------------------------------------------------------------------------------------------


def test_bf16_on_a_processor_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a processor that has the engine, so that something is lost."""
    save_bundle(make_bundle(), tmp_path / "model")
    ensemble._warn_of_bf16.cache_clear()
    with caplog.at_level(logging.WARNING, "dragoman"):
        monkeypatch.setattr(ensemble, "has_operators", lambda: False)
        Translator.load(tmp_path / "model", device="cpu", precision="bf16")
        assert not caplog.records
        monkeypatch.setattr(ensemble, "has_operators", lambda: True)
        Translator.load(tmp_path / "model", device="cpu")
        assert not caplog.records
        for _ in range(2):
            loaded = Translator.load(tmp_path / "model", device="cpu", precision="bf16")
    assert [record.getMessage() for record in caplog.records] == [
        "bf16 on a processor runs without the fast engine and is seldom faster than fp32; int8 is."
    ]
    assert loaded.engine is loaded.model
