"""Bounds of what the server says: attention weights, what it repeats of a request; and the methods that it takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from dragoman.server.errors import bounded
from dragoman.server.limits import Limits
from dragoman.server.looks import weights_of
from dragoman.server.problems import quoted
from served_models import server_of_one, translator_of_one  # noqa: F401  # fixtures
from serving import Server, fine, refused

LAYERS = {"n_encoder_layers": 5, "n_decoder_layers": 6, "n_heads": 8}
MOST = Limits.attention_weights


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    decode = DecodeConfig(beam_size=1, min_length=5)
    save_bundle(replace(make_bundle(max_length=1024, **LAYERS), decode=decode), folder / "model")
    return folder / "model"


# attention


def tokens_of(translator: Translator, text: str) -> int:
    return len(translator.intake.with_special(translator.bundle.tokenizers.src.encode(text)))


def exactly(count: int) -> dict[str, Any]:
    """Options that make a translation ``count`` tokens long."""
    return {"beam_size": 1, "min_length": count - 1, "max_length": count}


def text_of(translator: Translator, tokens: int) -> str:
    """A text of at least so many tokens."""
    text = "key"
    while tokens_of(translator, text) < tokens:
        text += " key"
    return text


def batches(server: Server) -> float:
    metrics = server.get("/metrics").text
    return float(metrics.split('dragoman_batch_sentences_count{model="en-de"} ')[1].split()[0])


def numbers(value: Any) -> int:
    return sum(map(numbers, value)) if isinstance(value, list) else 1


@pytest.mark.parametrize("line", LINES[:4])
def test_how_many_weights_there_are(translator: Translator, line: str) -> None:
    found = translator.translate(line, attention=True)
    assert found.attention is not None
    kinds = (found.attention.encoder, found.attention.decoder, found.attention.cross)
    count = weights_of(translator.model.config, len(found.src_tokens), len(found.ids))
    assert count == sum(layer.numel() for layers in kinds for layer in layers)


def test_an_answer_holds_so_many_weights(server: Server, translator: Translator) -> None:
    """One below the bound comes as a whole; one above it is refused, though each of its sentences would do."""
    text = text_of(translator, 60)
    sources, shape = tokens_of(translator, text), translator.model.config
    one = weights_of(shape, sources, 80)
    assert one < MOST < 3 * one
    asked = {"split": False, "attention": True, "options": exactly(80)}
    (sentence,) = fine(server.post("/v1/translate", text=text, **asked))["translations"][0]["sentences"]
    assert sum(numbers(sentence["attention"][kind]) for kind in ("encoder", "decoder", "cross")) == one
    said = refused(server.post("/v1/translate", text=[text] * 3, **asked), 413)
    assert said == (
        f"the answer would hold {3 * one:,} attention weights and may hold {MOST:,}; "
        "send fewer or shorter sentences, or leave attention out."
    )
    # Links are few, however many weights they are read from.
    links = fine(server.post("/v1/translate", text=[text] * 3, **{**asked, "attention": False}, alignments=True))
    assert all(whole["sentences"][0]["alignment"] for whole in links["translations"])


def test_too_many_weights_of_the_text_alone_cost_no_search(server: Server, translator: Translator) -> None:
    text = text_of(translator, 100)
    assert weights_of(translator.model.config, tokens_of(translator, text), 0) * 8 > MOST
    before = batches(server)
    said = refused(server.post("/v1/translate", text=[text] * 8, split=False, attention=True), 413)
    assert "attention weights and may hold" in said
    assert batches(server) == before


@pytest.mark.parametrize("look", ["attention", "alignments"])
def test_a_long_translation_of_a_short_text(server: Server, look: str) -> None:
    most = Limits.attention_tokens
    said = refused(server.post("/v1/translate", text="key", **{look: True}, options=exactly(most + 44)), 413)
    assert said == f"a translation has {most + 44} tokens and attention is given for up to {most}; break it up."
    assert fine(server.post("/v1/translate", text="key", options=exactly(most + 44)))


def test_a_stream_ends_with_the_refusal(server: Server) -> None:
    options = exactly(Limits.attention_tokens + 4)
    answer = server.post("/v1/translate", text="key", attention=True, stream=True, options=options)
    assert answer.status_code == 200
    *pieces, last = answer.text.split("\n\n")[:-1]
    assert pieces
    assert all(piece.startswith("event: piece\n") for piece in pieces)
    name, data = last.split("\n")
    found = json.loads(data.removeprefix("data: "))
    assert (name, found["status"]) == ("event: error", 413)
    assert "attention is given for up to" in found["error"]


def test_the_bounds_are_described(server: Server) -> None:
    description = server.get("/openapi.json").json()
    fields = description["components"]["schemas"]["Translate"]["properties"]
    for number in (Limits.attention_weights, Limits.attention_sentences, Limits.attention_tokens):
        assert f"{number:,}" in fields["attention"]["description"]
    answers = description["paths"]["/v1/translate"]["post"]["responses"]
    assert "its answer" in answers["413"]["description"]


# errors

LONG = "k" * 8_000


def sent(server: Server, path: str, content: str | bytes, **headers: str) -> httpx.Response:
    kinds = {"Content-Type": "application/json", **{name.replace("_", "-"): one for name, one in headers.items()}}
    return server.client.post(path, content=content, headers=kinds)


@pytest.mark.parametrize("mark", ["k", '"', "\\", "\n", "ü", "🙂", "[", "."])
@pytest.mark.parametrize(
    "body",
    [
        lambda long: {"text": "x", long: 1},
        lambda long: {"text": "x", "options": {long: 1}},
        lambda long: {"text": "x", "options": {"beam_size": long}},
        lambda long: {"text": "x", "options": {"beam_size": [long]}},
        lambda long: {"text": "x", "options": {"suppress": [long[:1000]]}},
        lambda long: {"text": "x", "terms": {long: ""}},
        lambda long: {"text": "x", "terms": {long: 3}},
        lambda long: {"text": "x", "attention": long, "stream": long, "n": long, long: long, long + "2": long},
        lambda long: {"text": {long: long}},
        lambda long: {"text": "x", "source": long},
        lambda long: {"text": "x", "source": long[:35]},
        lambda long: {"text": "x", "model": long[:200]},
        lambda long: {"text": "x", "model": long[:201]},
        lambda long: {"text": "x", "prefix": [1, long]},
    ],
)
def test_errors_repeat_little_of_a_request(server: Server, body: Any, mark: str) -> None:
    answer = server.post("/v1/translate", **body(mark * 8_000))
    assert answer.status_code in (400, 404)
    assert len(answer.json()["error"]) <= 1000
    assert mark * 81 not in answer.json()["error"]


def test_what_an_error_says_of_a_long_key(server: Server) -> None:
    said = refused(server.post("/v1/translate", text="x", **{LONG: 1}), 400)
    assert said == f'unknown key "{"k" * 59}…"; GET /docs lists the fields.'
    # A name that is short is repeated whole, with a known one that is near.
    said = refused(server.post("/v1/translate", text="x", options={"beam_sise": 1}), 400)
    assert 'unknown key "options.beam_sise" (did you mean "options.beam_size"?)' in said
    said = refused(server.post("/v1/translate", text="x", options={"beam_size": LONG}), 400)
    assert said == f'"options.beam_size" is "{"k" * 59}…": give a whole number; GET /docs lists the fields.'
    said = refused(server.post("/v1/translate", text="x", options={"suppress": ["k" * 900]}), 400)
    assert said.startswith(f'"options.suppress": "{"k" * 59}…" is no token of the target vocabulary')


def test_headers_and_forms_are_repeated_little(server: Server) -> None:
    long = "k" * 5000
    answers = [
        sent(server, "/translate", "{}", Content_Type=long),
        sent(server, "/translate", "{}", Content_Encoding=long),
        sent(server, "/translate", f"{long}=1", Content_Type="application/x-www-form-urlencoded"),
        sent(server, "/translate", "x", Content_Type=f"multipart/form-data; boundary={long}"),
        sent(server, "/v1/translate", '{"text": ' + long),
        server.client.get(f"/{long}"),
        server.client.request("DELETE", f"/{long}"),
    ]
    for answer in answers:
        assert answer.status_code in (400, 404, 415)
        assert len(answer.json()["error"]) <= 250


def test_a_sentence_is_bounded() -> None:
    assert [quoted(text) for text in ("k" * 60, "k" * 61, '"\n')] == [f'"{"k" * 60}"', f'"{"k" * 59}…"', r'"\"\n"']
    short = 'term 1 has "a" and "b" beside it; change one of them, or leave it out, or do something else altogether.'
    assert bounded(short) == short
    assert bounded(f'no "{"x" * 60}" and no "{"y" * 61}".') == f'no "{"x" * 60}" and no "{"y" * 59}…".'
    # What stands between two quotations is none.
    assert bounded(f'"a" {"z " * 99} "b"') == f'"a" {"z " * 99} "b"'
    assert bounded(r'"\"' + "x" * 80 + '" y') == r'"\"' + "x" * 57 + '…" y'
    assert bounded("x" * 50_000) == "x" * 79 + "…" == bounded('"' * 50_001).replace('"', "x")
    assert len(bounded("so much of it " * 500)) == 1000


# methods


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/translate", ["POST"]),
        ("/v1/replay", ["POST"]),
        *((path, ["GET", "HEAD"]) for path in ("/health", "/languages", "/v1/models", "/metrics", "/", "/docs")),
        ("/openapi.json", ["GET", "HEAD"]),
        ("/static/js/main.js", ["GET", "HEAD"]),
        ("/views/base.css", ["GET", "HEAD"]),
    ],
)
def test_what_an_address_allows(server: Server, path: str, allowed: list[str]) -> None:
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = server.client.request(method, path)
        assert (answer.status_code == 405) == (method not in allowed), method
        if method in allowed:
            continue
        assert answer.headers["allow"] == ", ".join(allowed)
        if method != "HEAD":
            named = " and ".join(allowed)
            said = f"this address takes no {method}, but {named}; GET /docs lists the addresses."
            assert refused(answer, 405) == said
