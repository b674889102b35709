"""What holds in every call alike: how prefixes are read, which names are taken, what is said once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from bundles import LINES, make_bundle
from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.translating.terms import Terms
from dragoman.translator import Translator

LONG = "Our old neighbour paints the empty harbour green at nine. A cold wind blows over the empty fields. key"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(make_bundle())


@pytest.fixture(scope="module")
def short() -> Translator:
    return Translator(make_bundle(max_length=24))


@pytest.mark.parametrize("spaced", ["Ein Zaun ", "  Ein Zaun", "\tEin Zaun\u3000\n", "Ein Zaun"])
def test_white_space_around_a_prefix_is_none_of_it(translator: Translator, spaced: str) -> None:
    bare = translator.translate(LINES[0], prefix="Ein Zaun")
    assert translator.translate(LINES[0], prefix=spaced).ids == bare.ids
    assert translator.translate(LINES[:2], prefix=[spaced, ""])[0].ids == bare.ids
    stream = translator.stream(LINES[0], prefix=spaced)
    assert "".join(stream) == stream.translation.text == bare.text
    assert translator.record(LINES[0], prefix=spaced)[0].ids == bare.ids
    if spaced == spaced.rstrip():  # behind white space the alternatives begin a new word
        others = translator.alternatives(LINES[0], spaced, 2)
        assert [one.ids for one in others] == [one.ids for one in translator.alternatives(LINES[0], "Ein Zaun", 2)]


@pytest.mark.parametrize("blank", ["", "  ", "\t\u3000"])
def test_a_blank_prefix_is_none(translator: Translator, blank: str, caplog: pytest.LogCaptureFixture) -> None:
    free = translator.translate(LINES[0])
    assert translator.translate(LINES[0], prefix=blank).ids == free.ids
    assert "".join(translator.stream(LINES[0], prefix=blank)) == free.text
    assert translator.record(LINES[0], prefix=blank)[0].ids == free.ids
    with caplog.at_level(logging.WARNING, "dragoman"):
        assert translator.translate(" ", prefix=blank).unmet == []
    assert not caplog.records


def test_a_call_says_what_it_does_not_take(translator: Translator) -> None:
    asked: list[tuple[Callable[..., Any], tuple[Any, ...], str, str]] = [
        (translator.alternatives, ("key", "Ein"), "constraints", "alternatives takes no constraints; leave it out."),
        (translator.alternatives, ("key",), "terms", "alternatives takes no terms; leave it out."),
        (translator.alternatives, ("key",), "attention", "alternatives takes no attention; leave it out."),
        (translator.record, ("key",), "terms", "record takes no terms; leave it out."),
        (translator.force, ("key", "Zaun"), "prefix", "force takes no prefix; leave it out."),
        (translator.stream, ("key",), "batch_tokens", "stream takes no batch_tokens; leave it out."),
        (
            translator.stream,
            ("key",),
            "line_numbers",
            'stream takes no line_numbers (did you mean "line_number"?); leave it out.',
        ),
        (
            translator.translate,
            ("key",),
            "line_number",
            'translate takes no line_number (did you mean "line_numbers"?); leave it out.',
        ),
        (translator.decode_config, (), "terms", "decode_config takes no terms; leave it out."),
        (
            translator.alternatives,
            ("key",),
            "prefx",
            'no option of a translation is called "prefx" (did you mean "prefix"?).',
        ),
        (translator.force, ("key", "Zaun"), "constraint", 'no option of a translation is called "constraint".'),
    ]
    for ask, given, name, message in asked:
        with pytest.raises(ConfigError) as caught:
            ask(*given, **{name: ["x"]})
        assert str(caught.value) == message


def test_the_ends_of_the_parts_of_a_line_are_one_warning(short: Translator, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {"min_length": 24, "beam_size": 1}
    with caplog.at_level(logging.WARNING, "dragoman"):
        found = short.translate("x" * 300, line_numbers=[6], **options)
    ends = [record.getMessage() for record in caplog.records if "unfinished" in record.getMessage()]
    assert found.parts == len(found.ids) // 24 > 2
    where = f"24 tokens in {found.parts} of its {found.parts} parts"
    assert ends == [f"line 7: the translation stops unfinished at {where}; split it into sentences or set max_length."]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "dragoman"):
        short.record("A cold wind blows over.", **options)
        list(short.stream("x" * 300, **options))
    assert sum("unfinished" in record.getMessage() for record in caplog.records) == 2


def test_a_translation_in_parts_is_no_target(short: Translator) -> None:
    found = short.translate(LONG, n_best=2)
    assert found.parts > 1
    message = f"the text of this translation was translated in {found.parts} parts; give its sentences one by one."
    asked: list[Callable[[Any], object]] = [
        lambda one: short.score(LONG, one),
        lambda one: short.force(LONG, one),
        lambda one: short.alternatives(LONG, one),
    ]
    for ask in asked:
        for one in (found, *found.alternatives):
            with pytest.raises(DataError) as caught:
                ask(one)
            assert str(caught.value) == message
    whole = short.translate("key")
    assert whole.parts == 1
    assert short.score("key", whole) == pytest.approx(whole.score, abs=1e-5)


@pytest.mark.parametrize("odd", [3, None, "check"])
def test_what_is_no_check(translator: Translator, odd: Any) -> None:
    with pytest.raises(ConfigError, match=rf"^check is a {type(odd).__name__}; give a function"):
        translator.interruptible(odd)


def test_a_check_that_ends_a_loop(translator: Translator) -> None:
    able = translator.interruptible(lambda: next(iter(())))
    asked: list[Callable[[], object]] = [
        lambda: able.translate("key"),
        lambda: list(able.stream("key")),
        lambda: able.force("key", "Zaun"),
        lambda: able.record("key"),
    ]
    for ask in asked:
        with pytest.raises(ConfigError, match=r"^check raised StopIteration, which ends loops and not calls; let it"):
            ask()


@pytest.mark.parametrize(
    ("terms", "text", "targets"),
    [
        ([("οδος", "x")], "ΟΔΟΣ Οδος οδος, ΟΔΟΣ.", ["x"] * 4),
        ([("οδος εδώ", "x"), ("και", "y")], "ΚΑΙ ΟΔΟΣ ΕΔΏ", ["y", "x"]),
        ([("straße", "x"), ("weg", "y")], "STRASSE, STRAẞE, Straße WEG", ["x", "x", "x", "y"]),
        # Another spelling is another word; where capitals do not tell, the nearer one.
        ([("maße", "x")], "Masse masse", []),
        ([("maße", "x"), ("masse", "y")], "MASSE maße masse", ["y", "x", "y"]),
        ([("Straße", "x")], "STRASSE Straße", ["x"]),
        ([("STRASSE", "y"), ("straße", "x")], "STRASSE straße", ["y", "x"]),
    ],
)
def test_terms_in_capitals(terms: list[tuple[str, str]], text: str, targets: list[str]) -> None:
    assert Terms(terms).targets(text) == targets


def test_an_error_can_be_printed_whatever_it_quotes(translator: Translator) -> None:
    odd: Any = "a\ud800ä"
    asked: list[Callable[[], object]] = [
        lambda: translator.translate("key", constraints=odd),
        lambda: translator.translate("key", suppress=[odd]),
        lambda: translator.translate("key", **{odd: 1}),
        lambda: Terms([(odd, "x"), (odd, "y")]),
    ]
    for ask in asked:
        with pytest.raises(DragomanError) as caught:
            ask()
        assert "a\\ud800ä" in str(caught.value)
        assert str(caught.value).encode().decode() == str(caught.value)


def test_several_draws_come_at_the_end(translator: Translator) -> None:
    options: dict[str, Any] = {"sample": True, "seed": 3, "min_length": 10, "max_length": 12}
    assert len(list(translator.stream(LINES[2], **options))) > 2
    assert list(translator.stream(LINES[2], n_best=2, **options)) == [
        translator.translate(LINES[2], n_best=2, **options).text
    ]
