"""Translations that have to hold given phrases, and tokens that must not come."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.errors import ConfigError, DataError
from dragoman.text.scripts import is_boundary
from dragoman.translating.terms import Terms
from test_translator import assert_same, every, warnings  # noqa: F401  # a fixture
from tolerances import REORDERED

PHRASES = ["Zaun", "der Hafen", "Schlüssel gefunden", "grün", "Ü", "Niemand hat", "北京"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(make_bundle())


def count(phrase: str, text: str) -> int:
    """How often a phrase stands in a text as whole words."""
    places = [match.start() for match in re.finditer(re.escape(phrase), text)]
    return sum(is_boundary(text, place) and is_boundary(text, place + len(phrase)) for place in places)


@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("phrase", [phrase for phrase in PHRASES if phrase != "北京"])
def test_a_phrase_stands_in_every_translation(translator: Translator, beam_size: int, phrase: str) -> None:
    found = translator.translate(LINES, constraints=[[phrase]] * len(LINES), beam_size=beam_size, max_length=40)
    for one in found:
        assert count(phrase, one.text)
        assert one.unmet == []


def test_phrases_of_scripts_without_spaces(translator: Translator) -> None:
    """No space is put before them where there is none around."""
    for one in translator.translate(LINES, constraints=[["北京"]] * len(LINES), max_length=40):
        assert "北京" in one.text
        assert one.unmet == []
    forms = translator.intake._forms("北京", 0)
    assert [translator.bundle.tokenizers.tgt.decode(form) for form in forms] == ["北京", "北京"]
    pieces = [translator.bundle.tokenizers.tgt.tokens(form)[0] for form in forms]
    assert [piece.startswith("▁") for piece in pieces] == [False, True]


@settings(max_examples=10)
@given(
    batch=st.lists(st.lists(st.sampled_from(PHRASES), max_size=3), min_size=6, max_size=6),
    beam_size=st.integers(1, 4),
    batch_tokens=st.integers(20, 200),
)
def test_batched_is_single_and_no_phrase_changes_a_neighbour(
    translator: Translator, batch: list[list[str]], beam_size: int, batch_tokens: int
) -> None:
    options: dict[str, Any] = {"beam_size": beam_size, "max_length": 25}
    found = translator.translate(LINES, constraints=batch, batch_tokens=batch_tokens, **options)
    free = translator.translate(LINES, **options)
    for line, phrases, one, other in zip(LINES, batch, found, free, strict=True):
        assert_same([translator.translate(line, constraints=phrases, **options)], [one])
        if not phrases:
            assert_same([other], [one])
        for phrase in set(phrases):
            assert count(phrase, one.text) >= phrases.count(phrase) - one.unmet.count(phrase)


def test_the_score_is_that_of_forcing_the_tokens(translator: Translator) -> None:
    found = translator.translate(LINES, constraints=[["Zaun", "Zaun"]] * 6, beam_size=4, n_best=3, max_length=40)
    for line, best in zip(LINES, found, strict=True):
        for one in (best, *best.alternatives):
            assert translator.score(line, one) == pytest.approx(one.score, abs=REORDERED)
            assert count("Zaun", one.text) >= 2
        assert len({tuple(one.ids) for one in every([best])}) == 3


def test_terms_ask_for_their_phrase_where_they_stand(translator: Translator) -> None:
    terms = [("key", "Schlüssel"), ("harbour green", "Zaun"), ("nobody", "Niemand")]
    found = translator.translate(LINES, terms=terms, max_length=40)
    free = translator.translate(LINES, max_length=40)
    for line, one, other in zip(LINES, found, free, strict=True):
        targets = Terms(terms).targets(line)
        assert all(count(target, one.text) for target in targets)
        if not targets:
            assert_same([one], [other])
    assert [len(Terms(terms).targets(line)) for line in LINES] == [0, 1, 2, 0, 1, 0]
    assert_same(translator.translate(LINES, terms=Terms(terms), max_length=40), found)
    assert_same(translator.translate(LINES, terms=dict(terms), max_length=40), found)
    document = translator.translate_document("The key. A second wind", terms=terms, max_length=40)
    assert count("Schlüssel", document)


def test_the_attention_is_of_the_constrained_translation(translator: Translator) -> None:
    found = translator.translate(LINES[0], constraints=["Zaun"], attention=True, max_length=40)
    assert found.attention is not None
    assert found.attention.cross[0].shape[1:] == (len(found.tokens), len(found.src_tokens))


def test_a_phrase_may_stand_in_the_prefix(translator: Translator) -> None:
    found = translator.translate(LINES[0], prefix="Ein Zaun", constraints=["Zaun"], max_length=40)
    assert found.text.startswith("Ein Zaun")
    assert found.unmet == []


def test_what_cannot_be_met_is_said(
    translator: Translator,
    warnings: pytest.LogCaptureFixture,  # noqa: F811
) -> None:
    constraints = [[], ["der Hafen", "Zaun", "Zaun"]]
    found = translator.translate(["key", "key"], constraints=constraints, max_length=4, line_numbers=[6, 7])
    assert found[0].unmet == []
    assert found[1].unmet
    assert set(found[1].unmet) <= {"der Hafen", "Zaun"}
    lacking = ", ".join(f'"{text}"' for text in found[1].unmet)
    assert [record.getMessage() for record in warnings.records] == [f"line 8: the translation lacks {lacking}."]
    with pytest.raises(DataError, match="the translation of line 8 cannot hold "):
        translator.translate("key", constraints=["der Hafen"], max_length=2, line_numbers=[7], strict_terms=True)
    assert translator.translate("key", constraints=["Zaun"], max_length=40, strict_terms=True).unmet == []


def test_many_that_cannot_be_met_are_counted(
    translator: Translator,
    warnings: pytest.LogCaptureFixture,  # noqa: F811
) -> None:
    phrases = [f"key {number}" for number in range(40)]
    found = translator.translate("key", constraints=phrases, max_length=2)
    assert len(found.unmet) == 40
    shown = ", ".join(f'"{phrase}"' for phrase in found.unmet[:5])
    assert [record.getMessage() for record in warnings.records] == [
        f"line 1: the translation lacks {shown}, and 35 more."
    ]
    with pytest.raises(DataError, match="and 35 more; change the terms"):
        translator.translate("key", constraints=phrases, max_length=2, strict_terms=True)


def test_words_that_the_model_does_not_have(warnings: pytest.LogCaptureFixture) -> None:  # noqa: F811
    translator = Translator(make_bundle(kind="wordlevel"))
    found = translator.translate("key", constraints=["Flugzeug", "Zaun", "Flugzeug"])
    assert found.unmet == ["Flugzeug", "Flugzeug"]
    assert "Zaun" in found.text.split()
    assert "lacks" in warnings.text
    # What cannot come is not searched for.
    hopeless = translator.translate("key", constraints=["Flugzeug"])
    assert hopeless.unmet == ["Flugzeug"]
    assert_same([hopeless], [translator.translate("key")])


@pytest.mark.parametrize(
    ("text", "options", "error", "message"),
    [
        ("a", {"constraints": "Zaun"}, DataError, "are a text"),
        ("a", {"constraints": [3]}, DataError, "a constraint is a int"),
        ("a", {"constraints": [" "]}, DataError, "a phrase that must appear is blank"),
        (["a"], {"constraints": "Zaun"}, DataError, "are no list"),
        (["a", "b"], {"constraints": [["Zaun"]]}, DataError, "2 texts need as many lists of constraints"),
        (["a"], {"constraints": ["Zaun"]}, DataError, "are a text"),
        ("a", {"constraints": ["Zaun"], "sample": True}, ConfigError, "sample draws at random"),
        ("key", {"terms": [("key", "Zaun")], "sample": True}, ConfigError, "sample draws at random"),
        ("a", {"terms": 3}, DataError, "terms are no list"),
        ("a", {"terms": "key"}, DataError, "terms are no list"),
        ("a", {"terms": [("key",)]}, DataError, "term 1 is no pair"),
        ("key", {"terms": [("key", "\ud83d")]}, DataError, "half of a surrogate pair"),
    ],
)
def test_what_cannot_be_asked(
    translator: Translator, text: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        translator.translate(text, **options)


def test_a_document_has_no_constraints(translator: Translator) -> None:
    with pytest.raises(ConfigError, match="constraints belongs to one sentence"):
        translator.translate_document("a", constraints=["Zaun"])


# -- suppressed tokens -------------------------------------------------------------------------------------------------


def test_suppressed_tokens_never_come(translator: Translator) -> None:
    free = translator.translate(LINES)
    counts = [token for one in free for token in one.tokens if token != "</s>"]
    names = tuple(sorted(set(counts), key=counts.count)[-3:])
    for options in ({"beam_size": 1}, {"beam_size": 4, "n_best": 2}, {"sample": True}):
        found = translator.translate(LINES, suppress=names, **options)
        for line, best in zip(LINES, found, strict=True):
            for one in every([best]):
                assert not set(names) & set(one.tokens)
                assert translator.score(line, one) == pytest.approx(one.score, abs=REORDERED)
    assert_same(translator.translate(LINES, suppress=("zuvor"[:1],)), translator.translate(LINES, suppress=["z"]))


def test_a_token_may_be_named_as_in_the_vocabulary(translator: Translator) -> None:
    tokenizer = translator.bundle.tokenizers.tgt
    index, name = next((place, token) for place, token in enumerate(tokenizer.vocabulary()) if token[:1] == "Ġ" < token)
    shown = tokenizer.tokens([index])[0]
    intake, config = translator.intake, translator.decode_config
    assert shown == name.replace("Ġ", "▁")
    assert intake.suppressed(config(suppress=(name,))) == intake.suppressed(config(suppress=(shown,))) == {index}
    # What stands for parts of characters stands for all of them.
    assert len(intake.suppressed(config(suppress=("�",)))) > 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"suppress": ("Zaunkönig",)}, 'suppress: "Zaunkönig" is no token of the target vocabulary'),
        ({"suppress": ("▁dern",)}, r'"▁dern" is no token .* \(did you mean "'),
        ({"suppress": ("</s>",)}, "without its end token never ends"),
        ({"suppress": "x"}, '"suppress"'),
    ],
)
def test_bad_suppression(translator: Translator, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate("key", **options)


def test_a_phrase_that_needs_a_suppressed_token_is_one_clear_error(translator: Translator) -> None:
    token = translator.bundle.tokenizers.tgt.tokens(translator.bundle.tokenizers.tgt.encode("Zaun"))[0]
    with pytest.raises(ConfigError, match='suppress rules out a token of "Zaun"'):
        translator.translate("key", constraints=["Zaun"], suppress=(token,))


# -- lengths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}])
def test_lengths_by_the_source(options: dict[str, Any]) -> None:
    bundle = make_bundle()
    with torch.no_grad():
        bundle.model.output.bias[3] += 20.0  # </s> as soon as it may come
    translator = Translator(bundle)
    found = translator.translate(LINES, min_length_ratio=0.5, max_length_ratio=2.0, **options)
    for one in found:
        assert len(one.ids) == len(one.src_tokens) // 2 + 1
        assert one.finished
    assert {len(one.ids) for one in translator.translate(LINES, min_length=4, min_length_ratio=0.1, **options)} >= {5}
    # The ratio leaves room for </s>.
    for one in translator.translate(LINES, min_length_ratio=3.0, max_length=6, **options):
        assert (len(one.ids), one.finished) == (6, True)
    for alone, one in zip(LINES, found, strict=True):
        place = LINES.index(alone)
        lengths: dict[str, Any] = {"min_length_ratio": 0.5, "max_length_ratio": 2.0}
        single = translator.translate([alone], line_numbers=[place], **lengths, **options)
        assert single[0].ids == one.ids


def test_lengths_that_contradict(translator: Translator) -> None:
    with pytest.raises(ConfigError, match=r"min_length_ratio 3\.0 is above max_length_ratio 1\.0"):
        translator.translate("key", min_length_ratio=3.0)
