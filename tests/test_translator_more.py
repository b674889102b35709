"""Streaming, alternatives, words, ensembles, long texts: what a Translator does beside translating."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bundles import LINES, make_bundle
from dragoman import Translation, Translator
from dragoman.bundle import save_bundle
from dragoman.decoding import Hypothesis
from dragoman.decoding.record import record_search
from dragoman.errors import ConfigError, DataError, RunError
from dragoman.translating.alternatives import next_words
from dragoman.translating.jobs import Job
from dragoman.translating.searcher import Searcher
from dragoman.translating.stream import Growing
from dragoman.translating.words import word_starts
from test_translator import SEARCHES, assert_same, warnings  # noqa: F401  # a fixture
from tolerances import FLOAT32, LOGPROB, REORDERED

KINDS: list[dict[str, Any]] = [{}, {"kind": "unigram"}, {"kind": "wordlevel"}, {"joint": False}]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(make_bundle())


# -- streaming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [*SEARCHES, {"beam_size": 5, "no_repeat_ngram": 2}])
@pytest.mark.parametrize("kind", KINDS)
def test_the_pieces_joined_are_the_text(options: dict[str, Any], kind: dict[str, Any]) -> None:
    translator = Translator(make_bundle(**kind))
    for number, line in enumerate([*LINES, "", "  "]):
        pieces = list(translator.stream(line, line_number=number, **options))
        assert all(pieces)
        assert "".join(pieces) == translator.translate([line], line_numbers=[number], **options)[0].text


def test_greedy_search_gives_out_every_token(translator: Translator) -> None:
    for line in LINES:
        found = translator.translate(line, beam_size=1)
        pieces = list(translator.stream(line, beam_size=1))
        whole = [token for token in found.tokens if "�" not in token and token != "</s>"]
        assert len(pieces) >= len(whole) - 1
    assert max(len(list(translator.stream(line))) for line in LINES) > 1  # a beam of 3 settles some of it early


def test_characters_of_several_tokens_come_whole() -> None:
    bundle = make_bundle()
    tokenizer = bundle.tokenizers.tgt
    wanted = [*tokenizer.encode("Ü🙂 北京"), 3]
    assert any("�" in token for token in tokenizer.tokens(wanted))
    with torch.no_grad():  # a model that says this, whatever it reads
        bundle.model.output.weight.zero_()
        bundle.model.output.bias.fill_(-20.0)
    translator = Translator(bundle)
    pieces = list(translator.stream("key", prefix="Ü🙂 北京", max_length=len(wanted)))
    assert "".join(pieces).startswith("Ü🙂 北京")
    assert not any("�" in piece for piece in pieces[:-1])
    assert len(pieces) > 3


def spelling(kind: str) -> Translator:
    """A model that gives every token the same probability, so that it draws bytes without sense."""
    bundle = make_bundle(kind=kind)
    with torch.no_grad():
        bundle.model.output.weight.zero_()
        bundle.model.output.bias.zero_()
    return Translator(bundle)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "sentencepiece"])
def test_half_a_character_at_the_end_is_no_text(kind: str) -> None:
    """Its tokens are kept, their words count them, and the pieces of the stream still make the text."""
    translator = spelling(kind)
    tokenizer, halves = translator.bundle.tokenizers.tgt, 0
    for length in (1, 2, 3, 7):
        options: dict[str, Any] = {"sample": True, "max_length": length, "seed": length}
        texts = ["key"] * 60
        for number, found in enumerate(translator.translate(texts, **options)):
            shown = tokenizer.decode(found.ids)
            assert found.text == tokenizer.decode_whole(found.ids)
            halves += shown != found.text
            assert shown.startswith(found.text)
            assert set(shown[len(found.text) :].strip()) <= {"�"}
            assert len(found.tokens) == len(found.ids) == len(found.token_logprobs)
            assert all(text for text, _ in found.words)
            if found.words and not found.finished:
                assert sum(value for _, value in found.words) == pytest.approx(found.logprob, abs=LOGPROB)
            stream = translator.stream("key", line_number=number, **options)
            assert "".join(stream) == found.text
            assert stream.translation.ids == found.ids
    assert halves > 10


def test_the_part_of_a_character_that_a_beam_ends_in(translator: Translator) -> None:
    """Not of drawing alone: what is cut at its limit ends where it ends."""
    whole, every = translator.intake.target("Zaun"), translator.intake.target("Zaun猫")
    assert every[: len(whole)] == whole
    half = every[:-1]
    assert translator.force("key", whole).text == translator.force("key", half).text == "Zaun"
    assert translator.force("key", half).tokens[-1] == "�"
    assert [word for word, _ in translator.force("key", half).words] == ["Zaun"]
    assert translator.force("key", every).text == "Zaun猫"
    assert translator.force("key", [*half, *translator.intake.target("Zaun")]).text == "Zaun� Zaun"


def test_phrases_prefixes_and_warnings_are_streamed_too(translator: Translator) -> None:
    options: dict[str, Any] = {"prefix": "Ein", "constraints": ["Zaun"], "max_length": 30}
    assert "".join(translator.stream(LINES[0], **options)) == translator.translate(LINES[0], **options).text
    with pytest.raises(DataError, match="cannot hold"):
        list(translator.stream("key", constraints=["der Hafen"], max_length=2, strict_terms=True))


def test_what_cannot_be_streamed_is_said_at_once(translator: Translator) -> None:
    with pytest.raises(DataError, match="only one text can be streamed, and this is a list"):
        translator.stream(["a"])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="beamsize"):
        translator.stream("a", beamsize=3)


@given(
    ids=st.lists(st.integers(4, 299), max_size=25),
    kind=st.sampled_from(["bpe", "unigram", "wordlevel", "sentencepiece"]),
)
def test_nothing_that_was_given_out_is_taken_back(ids: list[int], kind: str) -> None:
    tokenizer = _tokenizers(kind)
    ids = [index for index in ids if index < tokenizer.vocab_size]
    growing = Growing(tokenizer.decode_whole)
    pieces = [growing.piece(ids[:n]) for n in range(len(ids) + 1)]
    pieces.append(growing.rest(tokenizer.decode_whole(ids)))
    assert "".join(pieces) == tokenizer.decode_whole(ids)


def _tokenizers(kind: str, made: dict[str, Any] = {}) -> Any:  # noqa: B006  # made once
    if kind not in made:
        made[kind] = make_bundle(kind=kind).tokenizers.tgt
    return made[kind]


# -- alternatives ------------------------------------------------------------------------------------------------------


def next_tokens(translator: Translator, line: str, prefix: Sequence[int]) -> list[int]:
    """All that may come next, likeliest first, by one pass of the model."""
    src = torch.tensor([[*translator.bundle.tokenizers.src.encode(line), 3]])
    with torch.no_grad():
        logits = translator.model(src, torch.tensor([[2, *prefix]]))[0, -1]
    logits[[0, 1, 2]] = -math.inf
    return [int(token) for token in logits.argsort(descending=True, stable=True)]


@pytest.mark.parametrize("n", [1, 3])
def test_alternatives_are_the_best_completions_of_the_likeliest_tokens(translator: Translator, n: int) -> None:
    for line in LINES[:4]:
        prefix = translator.translate(line).ids[:2]
        found = translator.alternatives(line, prefix, n)
        assert len(found) == n
        assert len({one.text for one in found}) == n
        assert all(one.ids[: len(prefix)] == prefix for one in found)
        # With word-like tokens, the first of each is among the likeliest; it is completed as a prefix would be.
        likeliest = next_tokens(translator, line, prefix)[: 4 * n]
        for one in found:
            assert one.ids[len(prefix)] in likeliest
            assert translator.score(line, one) == pytest.approx(one.score, abs=REORDERED)


def test_a_completion_is_the_best_that_begins_so(translator: Translator) -> None:
    line = LINES[2]
    prefix = translator.translate(line).ids[:1]
    (found,) = translator.alternatives(line, prefix, 1)
    start = found.ids[:2]
    text = translator.bundle.tokenizers.tgt.decode(start)
    if translator.bundle.tokenizers.tgt.encode(text) == start:
        assert translator.translate(line, prefix=text).ids == found.ids


def test_prefixes_of_several_kinds(translator: Translator) -> None:
    line = LINES[0]
    best = translator.translate(line)
    assert_same(translator.alternatives(line, "Ein Zaun", 2), translator.alternatives(line, "  Ein Zaun", 2))
    ids = translator.bundle.tokenizers.tgt.encode("Ein Zaun")
    assert_same(translator.alternatives(line, ids, 2), translator.alternatives(line, "Ein Zaun", 2))
    if best.finished:  # that it ends here is one way to go on
        (end,) = [one for one in translator.alternatives(line, best, 5) if one.ids == best.ids]
        assert end.score == pytest.approx(best.score, abs=REORDERED)
    assert translator.alternatives(line, "", 1)[0].ids
    # Behind white space a new word begins.
    for one in translator.alternatives(line, "Ein ", 4):
        assert one.text.startswith("Ein ")
        assert one.tokens[len(translator.bundle.tokenizers.tgt.encode("Ein"))].startswith("▁")
    inside = [one.text for one in translator.alternatives(line, "Ein", 8)]
    assert any(not text.startswith("Ein ") for text in inside)


def test_of_two_ways_to_a_word_the_better_completion_stays(translator: Translator) -> None:
    """The tokens 10 and 11 lead to one word, 12 and 13 to another; the better is the first and then the second."""
    found = {10: (["▁a", "b"], -1.0), 11: (["▁ab", "▁c"], -3.0), 12: (["▁d"], -9.0), 13: (["▁d", "."], -0.5)}

    def search(jobs: list[Job], config: Any) -> list[list[Hypothesis]]:
        tokens = [job.prefix[-1] for job in jobs]
        asked.append(tokens)
        return [[Hypothesis([token], found[token][1], found[token][1], [], True)] for token in tokens]

    asked: list[list[int]] = []
    tokenizer = SimpleNamespace(tokens=lambda ids: found[ids[0]][0])
    searcher: Any = SimpleNamespace(
        intake=SimpleNamespace(
            tokenizers=SimpleNamespace(tgt=tokenizer), marks_spaces=True, shape=SimpleNamespace(eos_id=3)
        ),
        next_tokens=lambda job, config, count, among: [10, 11, 12, 13][:count],
        search=search,
    )
    words = next_words(searcher, Job(0, 0, [5], []), translator.bundle.decode, 2, new_word=False)
    assert [one.tokens for one in words] == [[10], [13]]
    assert asked == [[10, 11], [12, 13]]


def test_the_next_words_come_by_what_they_are_told_to_have(translator: Translator) -> None:
    """A word of several tokens may be less likely than its first one, and than other words."""
    for line in LINES[:6]:
        found = translator.alternatives(line, "Ein ", 8)
        told = [one.words[1][1] for one in found if len(one.words) > 1]
        assert len(told) > 4
        assert told == sorted(told, reverse=True)


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        (("key", "Der", 0), {}, ConfigError, "n is 0; give a whole number"),
        (("key", "Der", True), {}, ConfigError, "n is True"),
        (("key", 3.5), {}, DataError, "neither a text, nor token ids"),
        ((" ", "Der"), {}, DataError, "there is nothing to translate"),
        (("key", "Der"), {"sample": True}, ConfigError, "sample draws at random"),
        (("key", [5, 6, 7, 8]), {"max_length": 3}, DataError, "has 4 tokens, and its translation may have 3"),
        ((3, "Der"), {}, DataError, "give a string"),
    ],
)
def test_alternatives_that_cannot_be(
    translator: Translator, args: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        translator.alternatives(*args, **options)


# -- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "starts"),
    [
        (["▁Der", "▁al", "te", "▁Hafen", "."], [0, 1, 3, 4]),
        (["Der", "▁", "▁", "Zaun"], [0, 1]),
        (["▁(", "Zaun", ")", "-", "9", "a"], [0, 1, 2, 4]),
        (["▁Ü", "�", "�", "b", "▁�", "�"], [0, 4]),
        (["▁犬", "が", "いる", "。", "A"], [0, 1, 2, 3, 4]),
        ([], []),
    ],
)
def test_where_words_begin(pieces: list[str], starts: list[int]) -> None:
    assert word_starts(pieces, True) == starts
    assert word_starts(pieces, False) == list(range(len(pieces)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", SEARCHES)
def test_words_make_the_text_and_their_scores_the_sum(kind: dict[str, Any], options: dict[str, Any]) -> None:
    translator = Translator(make_bundle(**kind))
    for best in translator.translate(LINES, **options):
        for one in (best, *best.alternatives):
            end = one.token_logprobs[-1] if one.finished else 0.0
            words = "".join(word for word, _ in one.words)
            assert "".join(words.split()) == "".join(one.text.split())
            assert all(word == word.strip() and word for word, _ in one.words)
            total = math.fsum(value for _, value in one.words) + end
            assert total == pytest.approx(one.logprob, abs=LOGPROB) or not one.words
    forced = translator.force("key", "Der alte Zaun")
    assert [word for word, _ in forced.words] == ["Der", "alte", "Zaun"] or kind.get("kind") == "wordlevel"


# -- ensembles ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both() -> Translator:
    return Translator(make_bundle(seed=5), others=[make_bundle(seed=6, n_decoder_layers=2, d_model=24)])


def mean_logprobs(translators: Sequence[Translator], line: str, ids: Sequence[int]) -> list[float]:
    src = torch.tensor([[*translators[0].bundle.tokenizers.src.encode(line), 3]])
    with torch.no_grad():
        rows = [one.model(src, torch.tensor([[2, *ids[:-1]]]))[0].softmax(-1) for one in translators]
    mean = torch.stack(rows).mean(0).log()
    return [float(value) for value in mean.gather(1, torch.tensor(ids)[:, None])[:, 0]]


@pytest.mark.parametrize("options", SEARCHES)
def test_an_ensemble_averages_probabilities(both: Translator, options: dict[str, Any]) -> None:
    parts = [
        Translator(make_bundle(seed=5)),
        Translator(make_bundle(seed=6, n_decoder_layers=2, d_model=24)),
    ]  # fmt: skip
    found = both.translate(LINES, **options)
    for number, (line, best) in enumerate(zip(LINES, found, strict=True)):
        for one in (best, *best.alternatives):
            assert one.token_logprobs == pytest.approx(mean_logprobs(parts, line, one.ids), abs=REORDERED)
            assert both.score(line, one) == pytest.approx(one.score, abs=REORDERED)
        assert_same(both.translate([line], line_numbers=[number], **options), [best])
    assert [one.ids for one in found] != [one.ids for one in parts[0].translate(LINES, **options)]
    assert [one.ids for one in found] != [one.ids for one in parts[1].translate(LINES, **options)]


def test_two_of_the_same_are_one(translator: Translator) -> None:
    twice = Translator(make_bundle(), others=[make_bundle(), make_bundle()])
    for options in SEARCHES:
        assert_same(twice.translate(LINES, **options), translator.translate(LINES, **options))
    found, expected = (one.translate(LINES[0], constraints=["Zaun"]) for one in (twice, translator))
    assert_same([found], [expected])


def test_what_an_ensemble_has_of_its_first_model(both: Translator, translator: Translator) -> None:
    line = LINES[0]
    found = both.translate(line, attention=True)
    assert found.attention is not None
    expected = translator.force(line, found, attention=True).attention
    assert expected is not None
    assert len(found.attention.cross) == 1
    torch.testing.assert_close(found.attention.cross[0], expected.cross[0], atol=FLOAT32, rtol=0)
    assert "".join(both.stream(line)) == found.text
    assert both.alternatives(line, "Ein", 2)
    assert both.decode_config() == translator.decode_config()


def test_models_that_do_not_fit_together() -> None:
    first = make_bundle()
    other = make_bundle(joint=False)
    with pytest.raises(ConfigError, match="model 3 of the ensemble has another source vocabulary than the first"):
        Translator(first, others=[make_bundle(), other])
    with pytest.raises(ConfigError, match="model 2 of the ensemble has src_bos True, and the first False"):
        Translator(first, others=[make_bundle(src_bos=True)])
    with pytest.raises(ConfigError, match="another source vocabulary"):
        Translator(first, others=[make_bundle(kind="unigram")])


def test_an_ensemble_is_loaded(tmp_path: Path, both: Translator) -> None:
    save_bundle(make_bundle(seed=5), tmp_path / "a")
    save_bundle(make_bundle(seed=6, n_decoder_layers=2, d_model=24), tmp_path / "b")
    loaded = Translator.load([tmp_path / "a", str(tmp_path / "b")], device="cpu")
    assert_same(loaded.translate(LINES), both.translate(LINES))
    assert_same(Translator.load((tmp_path / "a",)).translate(LINES), Translator.load(tmp_path / "a").translate(LINES))
    with pytest.raises(ConfigError, match="an ensemble of no models"):
        Translator.load([])


def test_damaged_weights_of_one_are_said() -> None:
    other = make_bundle(seed=6)
    with torch.no_grad():
        other.model.output.weight[7, 0] = float("nan")
    with pytest.raises(RunError, match="NaN"):
        Translator(make_bundle(), others=[other]).translate("key")


# -- texts longer than the model ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short() -> Translator:
    return Translator(make_bundle(positions="learned", max_length=24))


LONG = "The old ferry leaves. Nobody found it!  A cold wind blows.\tOur neighbour paints. Nobody leaves the fields."


def test_a_long_text_is_translated_in_parts(
    short: Translator,
    warnings: pytest.LogCaptureFixture,  # noqa: F811
) -> None:
    parts = short.intake.parts(LONG, short.bundle.tokenizers.src.encode(LONG), 0)
    warnings.clear()
    assert len(parts) > 2
    assert "".join(text + gap for text, _, gap in parts) == LONG
    room = 24 - 1
    assert all(len(short.bundle.tokenizers.src.encode(text)) <= room for text, _, _ in parts)
    found = short.translate(["key", LONG], n_best=2, attention=True, max_length=20, line_numbers=[3, 4])
    each = short.translate([text for text, _, _ in parts], n_best=2, max_length=20)
    assert found[1].text == "".join(
        one.text + gap for one, (_, _, gap) in zip(each, [*parts[:-1], ("", [], "")], strict=True)
    )  # fmt: skip
    assert found[1].ids == [index for one in each for index in one.ids]
    assert found[1].logprob == pytest.approx(sum(one.logprob for one in each), abs=REORDERED)
    assert [other.ids for other in found[1].alternatives] == [[i for one in each for i in one.alternatives[0].ids]]
    assert found[1].finished == all(one.finished for one in each)
    assert found[1].attention is not None
    assert found[1].attention.cross[0].shape == (2, len(found[1].tokens), len(found[1].src_tokens))
    torch.testing.assert_close(
        found[1].attention.cross[0].sum(-1), torch.ones(2, len(found[1].tokens)), atol=REORDERED, rtol=0
    )
    tokens = len(short.bundle.tokenizers.src.encode(LONG))
    said = f"line 5 has {tokens} tokens, more than the model's 23: it is translated in {len(parts)} parts, split at"
    assert any(said in record.getMessage() for record in warnings.records)
    assert "".join(short.stream(LONG, max_length=20)) == short.translate(LONG, max_length=20).text


@pytest.mark.parametrize("endless", ["key " * 40 + "stop. A wind blows.", "x" * 300, "a " * 20 + "y" * 90 + " b."])
def test_what_is_too_long_without_a_sentence_end_is_split_between_words_or_inside(
    short: Translator,
    warnings: pytest.LogCaptureFixture,  # noqa: F811
    endless: str,
) -> None:
    encode = short.bundle.tokenizers.src.encode
    parts = short.intake.parts(endless, encode(endless), 0)
    assert "".join(text + gap for text, _, gap in parts) == endless
    assert all(0 < len(source) <= 23 for _, source, _ in parts)
    broken = [text for text, _, _ in parts[:-1] if endless.startswith("key") and not text.endswith(("key", "."))]
    assert not broken
    found = short.translate(endless, beam_size=1)
    messages = [record.getMessage() for record in warnings.records]
    assert any(f"it is translated in {len(parts)} parts" in message for message in messages)
    assert not any("left out" in message for message in messages)
    assert found.src_tokens.count("</s>") == len(parts)


def test_terms_and_prefixes_of_long_texts(short: Translator) -> None:
    found = short.translate(LONG, prefix="Der", terms=[("wind", "Zaun")], max_length=20)
    parts = short.intake.parts(LONG, short.bundle.tokenizers.src.encode(LONG), 0)
    assert found.text.startswith("Der")
    assert "Zaun" in found.text
    assert found.unmet == []
    places = [place for place, (text, _, _) in enumerate(parts) if "wind" in text]
    assert places != [0]
    with pytest.raises(DataError, match="line 1 is longer than the model reads at once, so that its constraints have"):
        short.translate(LONG, constraints=["Zaun"])


def test_positions_without_end_are_split_too(
    translator: Translator,
    warnings: pytest.LogCaptureFixture,  # noqa: F811
) -> None:
    text = "The old ferry leaves. " * 12
    found = translator.translate(text, beam_size=1, max_length=5)
    assert found.src_tokens.count("</s>") > 1
    assert "split at sentence ends" in warnings.text


# -- recording ---------------------------------------------------------------------------------------------------------


def test_a_recorded_search_is_the_search(translator: Translator) -> None:
    assert record_search.__module__ == "dragoman.decoding.record"
    for line in LINES:
        found, record = translator.record(line, beam_size=3, n_best=2)
        assert_same([found], [translator.translate(line, beam_size=3, n_best=2)])
        assert record.tokens(record.results[0]) == found.ids
    assert translator.record("  ")[0] == Translation("")
    with pytest.raises(ConfigError, match="only a beam search can be recorded"):
        translator.record("key", sample=True)


def test_the_names_of_special_tokens(translator: Translator) -> None:
    assert translator.special == {"<s>", "</s>", "<pad>"}


# -- the engine --------------------------------------------------------------------------------------------------------


class Counting:
    """An engine that counts what is asked of it."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.config = model.config
        self.calls = Counter[str]()

    def encode(self, src: torch.Tensor, src_mask: torch.Tensor | None = None) -> Any:
        self.calls["encode"] += 1
        return self.model.encode(src, src_mask)

    def start(self, memory: Any, src_mask: torch.Tensor | None = None) -> Any:
        self.calls["start"] += 1
        return self.model.start(memory, src_mask)

    def step(self, tokens: torch.Tensor, state: Any, parents: torch.Tensor | None = None) -> torch.Tensor:
        self.calls["step"] += 1
        logits: torch.Tensor = self.model.step(tokens, state, parents)
        return logits


def test_all_computing_goes_through_the_engine(monkeypatch: pytest.MonkeyPatch, translator: Translator) -> None:
    own = Translator(make_bundle())
    engine = Counting(own.model)
    monkeypatch.setattr(own, "_searcher", Searcher(engine, own.intake, own.device))
    assert own.engine is engine
    asked: list[Any] = [
        lambda one: one.translate(LINES[0]),
        lambda one: one.translate(LINES[0], sample=True),
        lambda one: one.translate(LINES[0], constraints=["Zaun"]),
        lambda one: one.force(LINES[0], "Der Zaun", attention=True),
        lambda one: one.alternatives(LINES[0], "Der", 1)[0],
        lambda one: one.record(LINES[0])[0],
    ]
    for ask in asked:
        engine.calls.clear()
        assert_same([ask(own)], [ask(translator)])
        assert engine.calls["encode"] == engine.calls["start"] >= 1
        assert engine.calls["step"] > 1
    engine.calls.clear()
    assert "".join(own.stream(LINES[0])) == translator.translate(LINES[0]).text
    assert engine.calls["step"] > 1


def test_eight_bits(tmp_path: Path, translator: Translator) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    try:
        eight = Translator.load(tmp_path / "model", device="cpu", precision="int8")
    except ConfigError as error:
        assert "int8 needs" in str(error)  # noqa: PT017  # a processor without the operators says so
        return
    assert eight.engine is not eight.model
    found = eight.translate(LINES, attention=True, n_best=2)
    for line, best in zip(LINES, found, strict=True):
        assert best.attention is not None
        expected = translator.force(line, best.ids, attention=True)
        assert expected.attention is not None
        torch.testing.assert_close(best.attention.cross[0], expected.attention.cross[0], atol=REORDERED, rtol=0)
        assert eight.score(line, best) == pytest.approx(best.score, abs=REORDERED)
    both = Translator.load([tmp_path / "model"] * 2, device="cpu", precision="int8")
    assert_same(both.translate(LINES, n_best=2), eight.translate(LINES, n_best=2))


@pytest.mark.parametrize("options", SEARCHES)
def test_probabilities_of_what_may_come(translator: Translator, options: dict[str, Any]) -> None:
    names = tuple(translator.translate(LINES[0]).tokens[:2])
    options = {**options, "renormalize": True, "suppress": names}
    never = [0, 1, 2, *translator.intake.suppressed(translator.decode_config(suppress=names))]
    for number, line in enumerate(LINES):
        found = translator.translate([line], line_numbers=[number], **options)[0]
        src = torch.tensor([[*translator.bundle.tokenizers.src.encode(line), 3]])
        with torch.no_grad():
            logits = translator.model(src, torch.tensor([[2, *found.ids[:-1]]]))[0]
        logits[:, never] = -math.inf
        expected = logits.log_softmax(-1).gather(1, torch.tensor(found.ids)[:, None])[:, 0]
        assert found.token_logprobs == pytest.approx(expected.tolist(), abs=REORDERED)
        score = translator.score(line, found, renormalize=True, suppress=names)
        assert score == pytest.approx(found.score, abs=REORDERED)
