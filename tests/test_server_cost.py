"""What a request may cost: how long its translations have to be and may become, for every hypothesis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from dragoman.server.catalogue import Catalogue
from dragoman.server.cost import weigh, width_of
from dragoman.server.limits import Limits
from dragoman.server.metrics import Metrics
from dragoman.server.queue import Sentence
from dragoman.server.refusals import TooLargeError
from dragoman.server.service import Service
from serving import Server, fine, refused, serving

# What the interface allows in one request.
TEXTS, BEAM, LENGTH = 1000, 16, 1024


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_bundle(replace(make_bundle(max_length=1024), decode=DecodeConfig(beam_size=5)), folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu")


def sentences(*tokens: int, phrases: int = 0) -> list[Sentence]:
    return [Sentence("a", count, phrases=phrases) for count in tokens]


@pytest.mark.parametrize(
    ("options", "least", "most", "charge"),
    [
        ({}, 0, 50, 5 * 50),
        ({"beam_size": 1}, 0, 50, 50),
        ({"beam_size": 16, "n_best": 2}, 0, 50, 16 * 50),
        ({"beam_size": 1, "sample": True, "n_best": 3}, 0, 50, 3 * 50),
        ({"max_length": 30}, 0, 30, 5 * 30),
        ({"max_length": 120}, 0, 120, 5 * 50),  # an ordinary translation
        ({"max_length": 1024}, 0, 1024, 5 * 256),  # a fourth
        ({"min_length": 100, "max_length": 120}, 100, 120, 5 * 100),
        ({"min_length": 1023}, 1023, 1024, 5 * 1023),
        ({"min_length_ratio": 2.0}, 40, 50, 5 * 50),
        ({"min_length_ratio": 10.0, "max_length": 300}, 200, 300, 5 * 200),
    ],
)
def test_what_a_sentence_is_charged(
    translator: Translator, options: dict[str, Any], least: int, most: int, charge: int
) -> None:
    config = translator.decode_config(**options)
    own = sentences(20)
    assert weigh(own, translator.intake, config) == charge
    assert (own[0].least, own[0].most) == (least, most)
    assert weigh(sentences(20, 20, 20), translator.intake, config) == 3 * charge
    assert weigh(sentences(20, phrases=2), translator.intake, config) == 3 * charge
    assert width_of(config) * max(least, min(most, 50), most // 4) == charge


def test_to_link_words_is_charged_as_a_hypothesis(translator: Translator) -> None:
    for options, charge in (({}, 6 * 50), ({"beam_size": 16, "n_best": 16}, 32 * 50), ({"beam_size": 1}, 2 * 50)):
        own = [*sentences(20), replace(*sentences(20), tagged=True)]
        config = translator.decode_config(**options)
        assert weigh(own, translator.intake, config) == width_of(config) * 50 + charge


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_are_as_long_as_was_said(translator: Translator, beam: int) -> None:
    options = {"beam_size": beam, "min_length": 20, "max_length": 25}
    own = [Sentence(line, len(translator.intake.with_special(translator.intake.source(line)))) for line in LINES]
    weigh(own, translator.intake, translator.decode_config(**options))
    for sentence, found in zip(own, translator.translate(LINES, **options), strict=True):
        assert sentence.least <= len(found.ids) <= sentence.most


def asked(model: Path, own: list[Sentence], max_work: int = Limits.max_work, **options: Any) -> None:
    """Put sentences into the queue of a service that does no work."""

    async def main() -> None:
        limits = Limits(max_work=max_work)
        service = Service(Catalogue.load([str(model)], limits, Metrics(), device="cpu"), limits, Metrics())
        (served,) = service.catalogue.models.values()
        entry = service.put_texts(served, own, service.deadline(), options)
        assert len(served.worker.queue) == 1
        assert entry.width == options.get("beam_size", 5)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("tokens", "options"),
    [
        ([20] * TEXTS, {}),
        ([8] * TEXTS, {"beam_size": BEAM}),
        ([8] * TEXTS, {"max_length": LENGTH}),
        ([8] * TEXTS, {"max_length": 512, "beam_size": 16}),
        ([60] * 400, {"beam_size": 10}),
        ([1024] * 20, {"max_length": LENGTH}),
        ([8], {"beam_size": BEAM, "min_length": LENGTH, "max_length": LENGTH}),
        ([8] * TEXTS, {"min_length": 400}),
        ([8] * TEXTS, {"beam_size": 1, "min_length": LENGTH, "max_length": LENGTH}),
    ],
)
def test_the_ordinary_is_taken(model: Path, tokens: list[int], options: dict[str, Any]) -> None:
    asked(model, sentences(*tokens), **options)


def test_one_more_is_refused(model: Path) -> None:
    with pytest.raises(TooLargeError) as caught:
        asked(model, sentences(*[8] * TEXTS), beam_size=BEAM, min_length=LENGTH, max_length=LENGTH)
    assert str(caught.value) == (
        "the request asks for a search of 16,384,000 target tokens, those of every hypothesis, and may ask for "
        "2,500,000; send it in several, or lower beam_size, min_length or max_length."
    )
    asked(model, sentences(20, 20), max_work=2 * 250)
    with pytest.raises(TooLargeError):
        asked(model, sentences(20, 20), max_work=2 * 250 - 1)


# a server


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Server]:
    with serving(model, "--max-work", "20000") as running:
        yield running
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)


def test_every_way_of_translating_is_bounded(server: Server) -> None:
    options = {"beam_size": BEAM, "min_length": LENGTH, "max_length": LENGTH}
    said = "asks for a search of 32,768 target tokens, those of every hypothesis, and may ask for 20,000"
    assert said in refused(server.post("/v1/translate", text=["key", "key"], options=options), 413)
    assert said in refused(server.post("/v1/translate", text="A key. A key.", options=options, stream=True), 413)
    many = refused(server.post("/translate", q=["key"] * 500, source="en", target="de", alternatives=15), 413)
    assert "and may ask for 20,000" in many
    assert 'dragoman_batch_sentences_count{model="en-de"} 0.0' in server.get("/metrics").text
    fine(server.post("/translate", q=["key"] * 50, source="en", target="de"))
