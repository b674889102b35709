"""Our own addresses, below /v1: everything that Python gives, from a real process."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from bundles import LINES
from dragoman import Translator
from served_models import DOCUMENT, all_models, server_of_all, translator_of_first  # noqa: F401  # fixtures
from serving import Server, fine, refused
from tolerances import REORDERED


def test_everything_python_gives(server: Server, translator: Translator) -> None:
    options = {"beam_size": 4, "n_best": 3, "length_penalty": 0.5}
    found = fine(server.post("/v1/translate", text=LINES, split=False, options=options))
    assert (found["model"], found["source"], found["target"]) == ("en-de", "en", "de")
    for one, line, whole in zip(translator.translate(LINES, **options), LINES, found["translations"], strict=True):
        (sentence,) = whole["sentences"]
        assert whole["text"] == sentence["text"] == one.text
        assert (sentence["source"], sentence["before"], sentence["after"]) == (line, "", "")
        for own, other in zip((sentence, *sentence["alternatives"]), (one, *one.alternatives), strict=True):
            assert (own["text"], own["tokens"], own["ids"]) == (other.text, other.tokens, other.ids)
            assert (own["finished"], own["unmet"]) == (other.finished, other.unmet)
            assert own["score"] == pytest.approx(other.score, abs=REORDERED)
            assert own["token_logprobs"] == pytest.approx(other.token_logprobs, abs=REORDERED)
            assert [word["text"] for word in own["words"]] == [text for text, _ in other.words]
            for word in own["words"]:
                assert word["confidence"] == pytest.approx(min(1.0, math.exp(word["logprob"])))
        assert sentence["src_tokens"] == one.src_tokens


def test_sentences_joined_are_the_text(server: Server, translator: Translator) -> None:
    (whole,) = fine(server.post("/v1/translate", text=DOCUMENT))["translations"]
    assert whole["text"] == translator.translate_document(DOCUMENT)
    parts = [(one["before"], one["source"], one["after"]) for one in whole["sentences"]]
    assert "".join(map("".join, parts)) == DOCUMENT
    assert [source for _, source, _ in parts] == [
        "Nobody found the key.",
        "Our neighbour paints.",
        "A cold wind blows!",
    ]
    assert "".join(one["before"] + one["text"] + one["after"] for one in whole["sentences"]) == whole["text"]


@pytest.mark.parametrize("text", ["", " \n ", "\n"])
def test_blank_texts(server: Server, text: str) -> None:
    (whole,) = fine(server.post("/v1/translate", text=text))["translations"]
    assert whole["text"] == text


def test_attention_and_alignments(server: Server, translator: Translator) -> None:
    from dragoman.visualize.alignment import align, pharaoh

    one = translator.translate(LINES[0], attention=True)
    found = fine(server.post("/v1/translate", text=LINES[0], attention=True, alignments=True))
    (sentence,) = found["translations"][0]["sentences"]
    assert sentence["alignment"] == pharaoh(align(LINES[0], one, translator.special))
    assert one.attention is not None
    for kind in ("encoder", "decoder", "cross"):
        for layer, expected in zip(sentence["attention"][kind], getattr(one.attention, kind), strict=True):
            for head, wanted in zip(layer, expected.tolist(), strict=True):
                for row, other in zip(head, wanted, strict=True):
                    assert row == pytest.approx(other, abs=REORDERED)
    plain = fine(server.post("/v1/translate", text=LINES[0]))["translations"][0]["sentences"][0]
    assert not {"attention", "alignment"} & set(plain)


def test_links_of_many_sentences_are_those_of_each(server: Server, translator: Translator) -> None:
    """Without the weights they are read from passes of several sentences."""
    from dragoman.visualize.alignment import align, pharaoh

    texts = [*LINES, "", f"{LINES[2]} {LINES[0]}"]
    found = fine(server.post("/v1/translate", text=texts, alignments=True))["translations"]
    shown = [one for whole in found for one in whole["sentences"]]
    assert len(shown) == len(LINES) + 2
    for one in shown:
        alone = translator.translate(one["source"], attention=True)
        assert one["alignment"] == pharaoh(align(one["source"], alone, translator.special))


def test_prefix_constraints_and_terms(server: Server, translator: Translator) -> None:
    prefix = fine(server.post("/v1/translate", text=LINES[0], prefix="Die alte"))["translations"][0]
    assert prefix["text"] == translator.translate(LINES[0], prefix="Die alte").text
    assert prefix["text"].startswith("Die alte")
    listed = fine(server.post("/v1/translate", text=LINES[:2], prefix=["Die", ""]))["translations"]
    assert [one["text"] for one in listed] == [one.text for one in translator.translate(LINES[:2], prefix=["Die", ""])]
    held = fine(server.post("/v1/translate", text=LINES[0], constraints=["Zaun"]))["translations"][0]
    assert held["text"] == translator.translate(LINES[0], constraints=["Zaun"]).text
    assert "Zaun" in held["text"]
    terms = fine(server.post("/v1/translate", text="The ferry. A wind.", terms={"ferry": "Hafen"}))["translations"][0]
    assert terms["text"] == translator.translate_document("The ferry. A wind.", terms={"ferry": "Hafen"})
    assert "Hafen" in terms["text"]


def test_drawing_is_as_in_python(server: Server, translator: Translator) -> None:
    options: dict[str, Any] = {"sample": True, "seed": 7, "n_best": 2}
    found = fine(server.post("/v1/translate", text=LINES, split=False, options=options))["translations"]
    assert [one["text"] for one in found] == [one.text for one in translator.translate(LINES, **options)]


def events(answer: httpx.Response) -> list[tuple[str, Any]]:
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 3, "n_best": 2}, {"sample": True}])
def test_a_stream_says_the_same(server: Server, options: dict[str, Any]) -> None:
    *pieces, (name, done) = events(server.post("/v1/translate", text=DOCUMENT, stream=True, options=options))
    assert name == "done"
    assert {name for name, _ in pieces} == {"piece"}
    whole = fine(server.post("/v1/translate", text=DOCUMENT, options=options))
    assert "".join(piece["text"] for _, piece in pieces) == whole["translations"][0]["text"]
    assert [one["text"] for one in done["translations"]] == [one["text"] for one in whole["translations"]]
    if options.get("beam_size", 1) == 1:
        assert len(pieces) > 8


def test_a_stream_with_a_prefix_and_of_nothing(server: Server, translator: Translator) -> None:
    *pieces, _ = events(server.post("/v1/translate", text=LINES[0], stream=True, prefix="Die alte"))
    assert "".join(piece["text"] for _, piece in pieces) == translator.translate(LINES[0], prefix="Die alte").text
    ((name, done),) = events(server.post("/v1/translate", text="", stream=True))
    assert (name, done["translations"]) == ("done", [{"text": "", "sentences": []}])
    assert "only one text can be streamed" in refused(server.post("/v1/translate", text=["a"], stream=True), 400)
    answer = server.post("/v1/translate", text="key", stream=True, options={"suppress": ["nonsense"]})
    assert '"nonsense" is no token' in refused(answer, 400)


def test_alternatives_at_a_place(server: Server, translator: Translator) -> None:
    best = translator.translate(LINES[2])
    for prefix in ("", "Die ", best.ids[:3]):
        found = fine(server.post("/v1/alternatives", text=LINES[2], prefix=prefix, n=4))
        wanted = translator.alternatives(LINES[2], prefix, n=4)
        assert [one["text"] for one in found["alternatives"]] == [one.text for one in wanted]
    assert "nothing to translate" in refused(server.post("/v1/alternatives", text="  "), 400)


def test_what_the_views_take(server: Server, translator: Translator) -> None:
    found = fine(server.post("/v1/attention", text=LINES[0]))
    assert (found["source"], found["text"]) == (LINES[0], translator.translate(LINES[0]).text)
    assert [one["kind"] for one in found["maps"]] == ["cross", "encoder", "decoder"]
    assert fine(server.post("/v1/attention", text=LINES[0], tgt="Die Fähre"))["text"] == "Die Fähre"
    replay = fine(server.post("/v1/replay", text=LINES[0], options={"beam_size": 2}))
    assert (replay["beam_size"], replay["text"]) == (2, translator.translate(LINES[0], beam_size=2).text)
    assert replay["candidates"]
    assert "only a beam search" in refused(server.post("/v1/replay", text="key", options={"sample": True}), 400)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"text": "x", "streem": True}, 400, 'unknown key "streem" (did you mean "stream"?)'),
        (
            {"text": "x", "options": {"beamsize": 3}},
            400,
            'unknown key "options.beamsize" (did you mean "options.beam_size"?)',
        ),
        ({"text": "x", "options": {"beam_size": 17}}, 400, '"options.beam_size" is 17'),
        ({"text": "x", "options": {"n_best": 5}}, 400, '"options.n_best" 5 needs a "options.beam_size"'),
        ({"text": "x", "options": {"temperature": 0}}, 400, '"options.temperature" is 0'),
        ({"text": 3}, 400, '"text" is 3'),
        ({"text": "A key. A wind.", "prefix": "Ein"}, 400, "set split to false"),
        ({"text": "A key.", "prefix": ["Ein"]}, 400, "prefix and text do not fit"),
        ({"text": ["A key."], "prefix": ["Ein", "Zwei"]}, 400, "prefix and text do not fit"),
        ({"text": "key", "terms": {"key": ""}}, 400, '"terms.key" is empty'),
        ({"text": "key", "terms": {" ": "x"}}, 400, "term 1 has an empty side"),
        ({"text": "a " * 17, "terms": {"a": "x"}}, 413, "more than 16 terms"),
        ({"text": "A key. " * 9, "attention": True}, 413, "for 8 sentences at once, and here are 9"),
        ({"text": "x", "model": "third"}, 404, 'no model is called "third"'),
    ],
)
def test_what_we_refuse(server: Server, body: dict[str, Any], status: int, message: str) -> None:
    assert message in refused(server.post("/v1/translate", **body), status)


def test_strict_terms_fail_alone(server: Server, translator: Translator) -> None:
    """One that cannot be met is an error for its own request, and for no other in the same batch."""
    bad = {"text": LINES[0], "prefix": "Die " * 200}
    with ThreadPoolExecutor(12) as pool:
        answers = list(
            pool.map(lambda n: server.post("/v1/translate", **(bad if n % 3 == 0 else {"text": LINES[0]})), range(24))
        )
    assert [answer.status_code for answer in answers[::3]] == [413] * 8
    expected = translator.translate(LINES[0]).text
    others = [answer for n, answer in enumerate(answers) if n % 3]
    assert {fine(answer)["translations"][0]["text"] for answer in others} == {expected}


def test_company_changes_nothing(server: Server, translator: Translator) -> None:
    """Whatever else is in the batch, an answer is what ``translate`` says of the sentence."""
    texts = [line[: n % 7 + 4] + line for n in range(12) for line in LINES]
    settings: list[dict[str, Any]] = [{}, {"beam_size": 1}, {"beam_size": 4, "n_best": 2}]
    asked = [(text, settings[n % 3]) for n, text in enumerate(texts)]
    expected = [translator.translate(text, **options) for text, options in asked]

    def ask(one: tuple[str, dict[str, Any]]) -> Any:
        return server.post("/v1/translate", text=one[0], split=False, options=one[1])

    with ThreadPoolExecutor(24) as pool:
        answers = [fine(answer)["translations"][0]["sentences"][0] for answer in pool.map(ask, asked)]
    for found, wanted in zip(answers, expected, strict=True):
        assert (found["text"], found["ids"]) == (wanted.text, wanted.ids)
        assert found["score"] == pytest.approx(wanted.score, abs=REORDERED)
    metrics = server.get("/metrics").text
    mean = float(
        next(
            line for line in metrics.splitlines() if line.startswith('dragoman_batch_sentences_mean{model="en-de"}')
        ).split()[1]
    )
    assert mean > 1.2
