"""What a stream is beside its pieces: the whole translation at its end, and a search that stops where nobody reads."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import torch

from bundles import LINES, make_bundle
from dragoman import Translation, Translator
from dragoman.errors import DataError
from dragoman.translating.stream import Stream
from test_translator import SEARCHES
from test_translator import assert_same as all_same
from tolerances import REORDERED

LONG = "Our old neighbour paints the empty harbour green at nine. " * 4


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(make_bundle())


def assert_same(found: Translation, expected: Translation) -> None:
    all_same([found], [expected])


def counted(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an entry for each step of the engine."""
    steps: list[int] = []
    real = translator.engine.step

    def step(*args: Any, **options: Any) -> Any:
        steps.append(len(steps))
        return real(*args, **options)

    monkeypatch.setattr(translator.engine, "step", step)
    return steps


@pytest.mark.parametrize("options", [*SEARCHES, {"beam_size": 5, "no_repeat_ngram": 2}])
def test_the_translation_is_there_at_the_end(translator: Translator, options: dict[str, Any]) -> None:
    for number, line in enumerate([*LINES, "", "  "]):
        stream = translator.stream(line, line_number=number, **options)
        text = "".join(stream)
        (whole,) = translator.translate([line], line_numbers=[number], **options)
        assert stream.translation.text == text
        assert_same(stream.translation, whole)
        assert list(stream) == []
        assert_same(stream.translation, whole)  # reading on does not lose it


def test_attention_and_phrases_come_with_it(translator: Translator) -> None:
    options: dict[str, Any] = {"prefix": "Ein", "constraints": ["Zaun"], "max_length": 30}
    stream = translator.stream(LINES[0], attention=True, **options)
    assert "".join(stream) == stream.translation.text
    whole = translator.translate(LINES[0], attention=True, **options)
    assert_same(stream.translation, whole)
    assert stream.translation.attention is not None
    assert whole.attention is not None
    for found, wanted in zip(stream.translation.attention.cross, whole.attention.cross, strict=True):
        torch.testing.assert_close(found, wanted, atol=REORDERED, rtol=0)
    plain = translator.stream(LINES[0])
    assert "".join(plain)
    assert plain.translation.attention is None


def test_a_text_in_parts(translator: Translator) -> None:
    stream = translator.stream(LONG, beam_size=3, n_best=2, max_length=20)
    assert "".join(stream) == stream.translation.text
    assert_same(stream.translation, translator.translate(LONG, beam_size=3, n_best=2, max_length=20))
    assert len(stream.translation.src_tokens) > 64  # more than the model reads at once


def test_there_is_none_before_the_end(translator: Translator) -> None:
    stream = translator.stream(LINES[2], beam_size=1)
    for _ in range(2):
        with pytest.raises(DataError, match="when all of its pieces have been taken"):
            _ = stream.translation
        next(stream)
    stream.close()
    assert list(stream) == []
    with pytest.raises(DataError, match="when all of its pieces have been taken"):
        _ = stream.translation


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}])
def test_the_search_waits_for_its_reader(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    options |= {"max_length": 40, "min_length": 30}
    steps = counted(translator, monkeypatch)
    translator.translate(LINES[2], **options)
    whole = len(steps)
    steps.clear()
    stream = translator.stream(LINES[2], **options)
    assert not steps
    next(stream)
    assert 0 < len(steps) < whole
    taken = len(steps)
    stream.close()
    assert (list(stream), len(steps)) == ([], taken)


def test_a_stream_is_an_iterator_of_its_own() -> None:
    def pieces() -> Generator[str, None, Translation]:
        yield from ("a", "b")
        return Translation("ab")

    stream = Stream(pieces())
    assert iter(stream) is stream
    assert [*stream, stream.translation.text] == ["a", "b", "ab"]
