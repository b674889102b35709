"""Translator: what goes in and comes out, and the laws that hold whatever the weights are."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bundles import LINES, make_bundle
from dragoman import Translation, Translator
from dragoman.bundle import save_bundle
from dragoman.decoding import length_norm
from dragoman.errors import BundleError, ConfigError, DataError, RunError
from dragoman.translating.device import resolve_device
from tolerances import LOGPROB, REORDERED

SEARCHES: list[dict[str, Any]] = [
    {"beam_size": 1},
    {"beam_size": 4, "n_best": 3},
    {"sample": True, "n_best": 2, "seed": 7},
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator(make_bundle())


@pytest.fixture(scope="module")
def bounded() -> Translator:
    return Translator(make_bundle(positions="learned", max_length=12, src_bos=True))


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    logger = logging.getLogger("dragoman")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)
    logger.propagate = propagate


def every(found: Sequence[Translation]) -> list[Translation]:
    return [one for best in found for one in (best, *best.alternatives)]


def assert_same(found: Sequence[Translation], expected: Sequence[Translation]) -> None:
    for one, other in zip(every(found), every(expected), strict=True):
        assert (one.text, one.ids, one.tokens, one.finished) == (other.text, other.ids, other.tokens, other.finished)
        assert one.src_tokens == other.src_tokens
        assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=REORDERED)
        assert one.score == pytest.approx(other.score, abs=REORDERED)


def test_a_string_gives_a_translation_and_a_list_a_list(translator: Translator) -> None:
    one = translator.translate(LINES[0])
    assert isinstance(one, Translation)
    found = translator.translate(LINES)
    assert isinstance(found, list)
    assert len({len(other.ids) for other in found}) > 2
    assert_same([found[0]], [one])
    assert_same(translator.translate(tuple(LINES)), found)
    assert translator.translate([]) == []


@pytest.mark.parametrize("options", SEARCHES)
def test_the_fields(translator: Translator, options: dict[str, Any]) -> None:
    bundle = translator.bundle
    config = bundle.decode.changed(**options)
    found = translator.translate(LINES, **options)
    assert {one.finished for one in every(found)} == {True, False}
    for line, best in zip(LINES, found, strict=True):
        assert len(best.alternatives) == config.n_best - 1
        limit = config.limit(len(bundle.tokenizers.src.encode(line)) + 1)
        for one in (best, *best.alternatives):
            assert one.finished == (one.ids[-1] == 3)
            assert 3 not in one.ids[:-1]
            assert len(one.ids) <= limit
            assert one.text == bundle.tokenizers.tgt.decode_whole(one.ids)
            assert one.tokens == bundle.tokenizers.tgt.tokens(one.ids)
            assert one.src_tokens == [*bundle.tokenizers.src.tokens(bundle.tokenizers.src.encode(line)), "</s>"]
            assert len(one.token_logprobs) == len(one.ids)
            assert one.logprob == pytest.approx(math.fsum(one.token_logprobs))
            assert one.score == pytest.approx(one.logprob / length_norm(config, len(one.ids)))
            assert one.attention is None
        scores = [one.score for one in (best, *best.alternatives)]
        assert scores == sorted(scores, reverse=True)
        if not config.sample:
            assert len({tuple(one.ids) for one in (best, *best.alternatives)}) == config.n_best


@pytest.mark.parametrize("options", SEARCHES)
def test_batched_is_single(translator: Translator, options: dict[str, Any]) -> None:
    found = translator.translate(LINES, batch_tokens=10_000, **options)
    for number, line in enumerate(LINES):
        assert_same(translator.translate([line], line_numbers=[number], **options), [found[number]])
    assert_same(translator.translate(LINES, batch_tokens=1, **options), found)


@settings(max_examples=6)
@given(order=st.permutations(range(len(LINES))), options=st.sampled_from(SEARCHES), batch_tokens=st.integers(1, 200))
def test_order_and_neighbours_change_nothing(
    translator: Translator, order: list[int], options: dict[str, Any], batch_tokens: int
) -> None:
    lines = [*(LINES[number] for number in order), " "]
    found = translator.translate(lines, batch_tokens=batch_tokens, line_numbers=[*order, 99], **options)
    expected = translator.translate(LINES, **options)
    assert_same(found, [*(expected[number] for number in order), Translation("")])


def test_a_beam_of_one_is_greedy(translator: Translator) -> None:
    model = translator.model
    for line, found in zip(LINES, translator.translate(LINES, beam_size=1), strict=True):
        src = torch.tensor([[*translator.bundle.tokenizers.src.encode(line), 3]])
        ids = [2]
        with torch.no_grad():
            while len(ids) < 1 + len(found.ids):
                logits = model(src, torch.tensor([ids]))[0, -1]
                logits[[0, 1, 2]] = float("-inf")
                ids.append(int(logits.argmax()))
        assert found.ids == ids[1:]
        assert found.finished or len(found.ids) == translator.bundle.decode.limit(src.shape[1])


@pytest.mark.parametrize("text", ["", " ", "\t\u2028\u00a0\n"])
def test_nothing_in_nothing_out(translator: Translator, text: str) -> None:
    assert translator.translate(text, attention=True, n_best=3, prefix="Der") == Translation("", unmet=["Der"])
    found = translator.translate([text, "key", text], beam_size=2)
    assert [one.text == "" for one in found] == [True, False, True]
    assert_same([found[1]], [translator.translate("key", beam_size=2)])


def test_a_character_that_looks_empty_is_text(translator: Translator) -> None:
    assert translator.translate("\u200b").ids


@pytest.mark.parametrize("options", SEARCHES)
def test_special_tokens_are_never_produced(options: dict[str, Any]) -> None:
    bundle = make_bundle()
    with torch.no_grad():
        bundle.model.output.bias[[0, 1, 2]] += 50.0
    for one in every(Translator(bundle).translate(LINES, **options)):
        assert not {0, 1, 2} & set(one.ids)


def test_options_are_those_of_the_model_unless_given(translator: Translator) -> None:
    assert_same(translator.translate(LINES), translator.translate(LINES, beam_size=3))
    assert translator.decode_config() is translator.bundle.decode
    assert translator.decode_config(beam_size=2, n_best=2).max_length_extra == 6
    found = translator.translate(LINES, max_length=2, min_length=2)
    assert {len(one.ids) for one in found} == {2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beamsize": 4}, r'called "beamsize" \(did you mean "beam_size"\?\)'),
        ({"atention": True}, r'called "atention" \(did you mean "attention"\?\)'),
        ({"strict_term": 1}, r'called "strict_term" \(did you mean "strict_terms"\?\)'),
        ({"beam_size": 0}, '"beam_size" is 0'),
        ({"beam_size": 2, "n_best": 3}, "n_best 3 needs a beam_size of at least 3"),
        ({"batch_tokens": 0}, "batch_tokens is 0; give a whole number of at least 1"),
    ],
)
def test_bad_options(translator: Translator, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate("key", **options)


def test_half_a_surrogate_pair_is_refused(translator: Translator) -> None:
    with pytest.raises(DataError, match="line 2 holds half of a surrogate pair at character 3"):
        translator.translate(["a", "b \ud83d"])
    with pytest.raises(DataError, match="surrogate"):
        translator.translate("a", prefix="\udc00")


def test_a_prefix_is_forced(translator: Translator) -> None:
    prefixes = ["Der kalte", "", "Ein Zaun,", "Niemand", "ß🙂", "Die"]
    for options in SEARCHES:
        found = translator.translate(LINES, prefix=prefixes, **options)
        for prefix, best in zip(prefixes, found, strict=True):
            ids = translator.bundle.tokenizers.tgt.encode(prefix)
            for one in (best, *best.alternatives):
                assert one.ids[: len(ids)] == ids
                assert one.text.startswith(prefix)
        assert_same([found[1]], translator.translate(LINES[1:2], line_numbers=[1], **options))
    assert_same([translator.translate(LINES[2], prefix=prefixes[2])], [translator.translate(LINES, prefix=prefixes)[2]])


def test_bad_prefixes(translator: Translator) -> None:
    with pytest.raises(DataError, match="2 texts need as many prefixes"):
        translator.translate(["a", "b"], prefix=["c"])
    with pytest.raises(DataError, match="2 texts need as many prefixes"):
        translator.translate(["a", "b"], prefix="ab")  # type: ignore[call-overload]
    for odd in (5, b"c", [5], object()):
        with pytest.raises(DataError, match="a prefix is a "):
            translator.translate("a", prefix=odd)  # type: ignore[call-overload]
    never = translator.bundle.tokenizers.tgt.vocabulary()[translator.bundle.tokenizers.tgt.encode("Ein")[0]]
    assert translator.translate("a", prefix="Ein", suppress=(never,)).text.startswith("Ein")
    assert translator.translate("a", prefix="Ein", renormalize=True).text.startswith("Ein")
    with pytest.raises(DataError, match="line 1 has a token that never comes by itself, to which renormalize gives no"):
        translator.translate("a", prefix="Ein", suppress=(never,), renormalize=True)
    long = "Ein sehr langer Anfang"
    tokens = len(translator.bundle.tokenizers.tgt.encode(long))
    message = f"the prefix of line 8 has {tokens} tokens, and its translation may have 3; shorten the prefix or raise"
    with pytest.raises(DataError, match=message):
        translator.translate(["", "a"], prefix=["", long], max_length=3, line_numbers=[6, 7])


def test_attention_is_that_of_a_forced_pass(translator: Translator) -> None:
    for line in LINES:
        found = translator.translate(line, attention=True)
        assert found.attention is not None
        src = torch.tensor([[*translator.bundle.tokenizers.src.encode(line), 3]])
        with torch.no_grad():
            _, expected = translator.model(src, torch.tensor([[2, *found.ids[:-1]]]), return_attention=True)
        sizes = {"encoder": (src.shape[1], src.shape[1]), "decoder": (len(found.ids), len(found.ids))}
        sizes["cross"] = (len(found.tokens), len(found.src_tokens))
        for kind, size in sizes.items():
            layers = getattr(found.attention, kind)
            assert len(layers) == {"encoder": 2, "decoder": 1, "cross": 1}[kind]
            for layer, other in zip(layers, getattr(expected, kind), strict=True):
                assert layer.shape == (2, *size)
                torch.testing.assert_close(layer, other[0], atol=REORDERED, rtol=0)
                torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:2]), atol=REORDERED, rtol=0)
        assert not found.attention.decoder[0].triu(1).any()
        assert_same([found], [translator.translate(line)])


def test_attention_can_be_worked_on(translator: Translator) -> None:
    found = translator.translate(LINES[:2], attention=True, n_best=2)
    for best in found:
        assert best.attention is not None
        best.attention.cross[0] /= 2  # no tensor of inference mode
        assert [other.attention for other in best.alternatives] == [None]


@pytest.mark.parametrize(
    ("options", "norm"),
    list(zip(SEARCHES, [{"length_norm": "none"}, {"length_norm": "power", "length_penalty": 0.4}, {}], strict=True)),
)
def test_a_translation_is_scored_as_it_was_found(
    translator: Translator, options: dict[str, Any], norm: dict[str, Any]
) -> None:
    for line, best in zip(LINES, translator.translate(LINES, **options, **norm), strict=True):
        for one in (best, *best.alternatives):
            assert translator.score(line, one, **norm) == pytest.approx(one.score, abs=REORDERED)
            assert translator.score(line, one.ids, **norm) == pytest.approx(one.score, abs=REORDERED)
            assert_same([translator.force(line, one, **norm)], [replace(one, alternatives=[])])


def test_scoring_a_text(translator: Translator) -> None:
    tgt = translator.bundle.tokenizers.tgt
    ids = [*tgt.encode("Die alte Fähre"), 3]
    src = torch.tensor([[*translator.bundle.tokenizers.src.encode("The ferry"), 3]])
    with torch.no_grad():
        logits = translator.model(src, torch.tensor([[2, *ids[:-1]]]))[0]
    expected = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
    forced = translator.force("The ferry", "Die alte Fähre", attention=True)
    assert (forced.text, forced.ids, forced.finished) == ("Die alte Fähre", ids, True)
    assert forced.token_logprobs == pytest.approx(expected.tolist(), abs=REORDERED)
    assert forced.logprob == pytest.approx(expected.sum().item(), abs=LOGPROB)
    assert forced.attention is not None
    assert forced.attention.cross[0].shape == (2, len(ids), src.shape[1])
    assert translator.score("The ferry", "Die alte Fähre") == forced.score
    assert translator.force("The ferry", ids[:-1]).finished is False
    assert translator.score("The ferry", "Die alte Fähre") == translator.score("The ferry", ids)


def test_scoring_nothing(translator: Translator) -> None:
    for nothing in ([], Translation("")):
        assert translator.force("key", nothing) == Translation("")
        assert translator.score("key", nothing) == 0.0
    assert translator.force("key", "").ids == [3]
    assert translator.score("", "Die") < 0


def test_what_cannot_be_scored(translator: Translator) -> None:
    for ids in ([5, 300], [-1]):
        with pytest.raises(DataError, match=f"the id {ids[-1]}, and the target vocabulary has 300"):
            translator.score("key", ids)
    with pytest.raises(ConfigError, match='called "length_penality"'):
        translator.score("key", "Die", length_penality=1.0)


def test_positions_that_end(bounded: Translator, warnings: pytest.LogCaptureFixture) -> None:
    text = "key " * 20
    ids = bounded.bundle.tokenizers.src.encode(text)
    found = bounded.translate(["key", text], line_numbers=[4, 5], max_length=50, min_length=12, attention=True)
    # 12 positions: <s>, 10 tokens, </s> of the source; 12 target tokens, the last of which needs no position.
    parts = bounded.intake.parts(text, ids, 5)
    assert all(len(source) <= 10 for _, source, _ in parts)
    assert {record.getMessage() for record in warnings.records} == {
        f"line 6 has {len(ids)} tokens, more than the model's 10: it is translated in {len(parts)} parts, split at "
        "sentence ends where there are any.",
        f"line 6: the translation stops unfinished at 12 tokens in {len(parts)} of its {len(parts)} parts; "
        "split it into sentences.",
        "line 5: the translation stops unfinished at 12 tokens; split it into sentences.",
    }
    each = [bounded.bundle.tokenizers.src.tokens([2, *source, 3]) for _, source, _ in parts]
    assert found[1].src_tokens == [token for tokens in each for token in tokens]
    assert [len(one.ids) for one in found] == [12, 12 * len(parts)]
    assert found[1].attention is not None
    assert found[1].attention.cross[0].shape == (2, 12 * len(parts), len(found[1].src_tokens))
    alone = bounded.translate(parts[0][0], max_length=50, min_length=12)
    assert alone.ids == found[1].ids[:12]
    with pytest.raises(DataError, match=r"the prefix of line 1 has .* may have 12"):
        bounded.translate("key", prefix="sehr " * 20, max_length=50)
    with pytest.raises(DataError, match="longer than the 12 positions"):
        bounded.score("key", [5] * 13)


def test_positions_without_end(translator: Translator, warnings: pytest.LogCaptureFixture) -> None:
    """The translation goes past the model's max_length (64) only where it is asked to."""
    text = "key " * 20
    assert len(translator.translate(text, max_length=70, min_length=70, beam_size=1).ids) == 70
    assert not warnings.records
    found = translator.translate(["key", text], min_length=64, beam_size=1)
    assert [len(one.ids) for one in found] == [64, 64]
    assert sorted(record.getMessage() for record in warnings.records) == [
        f"line {line}: the translation stops unfinished at 64 tokens; split it into sentences or set max_length."
        for line in (1, 2)
    ]


def test_documents(translator: Translator) -> None:
    text = "  The key. Nobody leaves!\u2028\n\n A wind?  "
    parts = ["The key.", "Nobody leaves!", "A wind?"]
    first, second, third = (one.text for one in translator.translate(parts))
    whole = f"  {first} {second}\u2028\n\n {third}  "
    assert translator.translate_document(text) == whole
    assert translator.translate_document([text, "", " \n", "A wind?"]) == [whole, "", " \n", third]
    assert translator.translate_document("") == ""
    assert translator.translate_document([]) == []
    greedy = [one.text for one in translator.translate(parts[:2], beam_size=1)]
    assert translator.translate_document("The key. Nobody leaves!", beam_size=1) == " ".join(greedy)


def test_documents_as_the_model_reads_them(translator: Translator) -> None:
    first, second = (one.text for one in translator.translate(["Nobody leaves!", "A wind?"]))
    assert translator.translate_document("Nobody\tleaves! A\u00a0 wind?\n") == f"{first} {second}\n"
    assert translator.translate_document(" Nobody\rleaves!\n--- * ---\n\u200b") == f" {first}\n--- * ---\n\u200b"
    unchanged = ["...", "\ufeff", "\u200b\u200b", "🙂 → ?\n!\n", "«»"]
    assert translator.translate_document(unchanged) == unchanged
    # A line by itself is translated as it stands, whatever it holds.
    assert translator.translate("...").ids


def test_reports_of_progress(translator: Translator) -> None:
    seen: list[int] = []
    translator.translate([*LINES, ""], batch_tokens=1, report=seen.append)
    assert seen == [2, 3, 4, 5, 6, 7]
    seen.clear()
    translator.translate_document(["The key. A wind. Nobody!", "key"], batch_tokens=1, report=seen.append)
    assert seen == [0, 1, 1, 2]


def test_sampling_draws_by_seed_and_line(translator: Translator) -> None:
    line = LINES[2]
    draws = translator.translate([line] * 4, sample=True)
    assert len({one.text for one in draws}) == 4
    assert_same([translator.translate(line, sample=True, line_numbers=[2])], [draws[2]])
    assert translator.translate(line, sample=True, seed=2).ids != draws[0].ids
    likeliest = translator.translate(LINES, sample=True, top_k=1)
    assert_same(likeliest, translator.translate(LINES, beam_size=1))


def test_fields_are_json(translator: Translator) -> None:
    best = translator.translate(LINES[2], n_best=3, attention=True)
    fields = json.loads(json.dumps(best.fields()))
    shared = ["text", "score", "logprob", "finished", "unmet", "words", "tokens", "token_logprobs", "ids"]
    assert list(fields) == [*shared, "src_tokens", "alternatives"]
    assert fields["src_tokens"] == best.src_tokens
    for other, found in zip([fields, *fields["alternatives"]], [best, *best.alternatives], strict=True):
        assert [tuple(word) for word in other["words"]] == found.words
        assert all(other[name] == getattr(found, name) for name in shared if name != "words")
    assert all(list(other) == shared for other in fields["alternatives"])


def test_damaged_weights_are_said(translator: Translator) -> None:
    bundle = make_bundle()
    with torch.no_grad():
        bundle.model.output.weight[7, 0] = float("nan")
    with pytest.raises(RunError, match="NaN"):
        Translator(bundle).translate("key")


def test_a_model_in_training_is_put_into_evaluation_mode(translator: Translator) -> None:
    bundle = make_bundle()
    bundle.model.train()
    found = Translator(bundle).translate(LINES)
    assert not bundle.model.training
    assert_same(found, translator.translate(LINES))


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_training_can_go_on_after_a_translation(positions: str) -> None:
    bundle = make_bundle(positions=positions)
    Translator(bundle).translate(LINES, attention=True)
    bundle.model.train()
    bundle.model(torch.tensor([[5, 3]]), torch.tensor([[2, 5]])).sum().backward()
    assert bundle.model.output.weight.grad is not None


@pytest.mark.parametrize("tokenizers", [{"joint": False}, {"kind": "wordlevel"}])
def test_other_tokenizers(tokenizers: dict[str, Any]) -> None:
    translator = Translator(make_bundle(**tokenizers))
    found = translator.translate([*LINES, "zzz unknown"])
    for one in found:
        assert one.text == translator.bundle.tokenizers.tgt.decode(one.ids)
        assert 0 not in one.ids


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loading") / "model"
    save_bundle(make_bundle(), folder)
    return folder


def test_loaded_is_made(folder: Path, translator: Translator) -> None:
    loaded = Translator.load(folder, device="cpu")
    for options in SEARCHES:
        assert loaded.translate(LINES, **options) == translator.translate(LINES, **options)
    assert Translator.load(str(folder)).device == resolve_device("auto")


def test_bfloat16(folder: Path) -> None:
    loaded = Translator.load(folder, device="cpu", precision="bf16")
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {torch.bfloat16}
    found = loaded.translate(LINES, attention=True)
    assert len({len(one.ids) for one in found}) > 1


def test_what_cannot_be_loaded(folder: Path) -> None:
    with pytest.raises(ConfigError, match='no precision "int4"; use one of fp32, int8, bf16'):
        Translator.load(folder, precision="int4")
    with pytest.raises(ConfigError, match=r'no device "gpu" here; use auto, .*cpu'):
        Translator.load(folder, device="gpu")
    with pytest.raises(BundleError, match="does not exist"):
        Translator.load(folder / "nothing")


@pytest.mark.parametrize("name", ["cpu:1", "cuda:99", "cuda:", "cuda:x", "", "CPU", "meta"])
def test_devices_that_are_not_there(name: str) -> None:
    with pytest.raises(ConfigError, match=f'there is no device "{name}" here'):
        resolve_device(name)


def test_devices() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    expected = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert resolve_device("auto").type == expected
