"""What requests may look like, and what they are told: sentences as the model reads them, headers, errors in JSON."""

from __future__ import annotations

import codecs
import json
from dataclasses import fields, replace
from html import escape
from pathlib import Path
from typing import Any

import httpx
import pytest

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from dragoman.server.asked import DecodeOptions
from dragoman.server.limits import Limits
from served_models import server_of_one, translator_of_one  # noqa: F401  # fixtures
from serving import Server, fine, refused

PAIR = {"source": "en", "target": "de"}
SHORT = {"max_length": 1, "min_length": 0}
STRICT = {"terms": {"key": "der Hafen"}, "strict_terms": True}
SERVING = Path(__file__).parents[1] / "docs" / "serving.md"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    # A minimum, so that whatever is translated becomes something.
    decode = DecodeConfig(beam_size=2, max_length_ratio=1.0, max_length_extra=6, min_length=5, renormalize=True)
    save_bundle(replace(make_bundle(max_length=1024), decode=decode), folder / "model")
    return folder / "model"


def libre(server: Server, text: str, form: str = "text") -> str:
    return str(fine(server.post("/translate", q=text, format=form, **PAIR))["translatedText"])


# sentences as the model reads them


@pytest.mark.parametrize("text", ["..." * 100, "\u200b\u200b", "\ufeff", "***\n---\n", " ! \n", "🙂", "→ €"])
def test_what_holds_no_word_comes_back(server: Server, text: str) -> None:
    assert libre(server, text) == text
    found = fine(server.post("/v1/translate", text=text))["translations"][0]
    assert (found["text"], [one["tokens"] for one in found["sentences"]]) == (text, [[]])
    events = server.post("/v1/translate", text=text, stream=True).text
    pieces = [json.loads(line[6:])["text"] for line in events.splitlines() if line.startswith('data: {"text"')]
    assert "".join(pieces) == text


def test_lines_without_a_word_stand_between_sentences(server: Server, translator: Translator) -> None:
    text = f"{LINES[0]}\n * * *\n{LINES[1]}\n"
    one, two = (translator.translate(line).text for line in LINES[:2])
    assert libre(server, text) == f"{one}\n * * *\n{two}\n" == translator.translate_document(text)


def test_a_digit_and_a_letter_of_any_script_are_words(server: Server, translator: Translator) -> None:
    for text in ("7", "٣", "Ω", "字", "½"):
        assert libre(server, text) == translator.translate(text).text


def test_marks_between_tags_stay(server: Server, translator: Translator) -> None:
    one, two = (escape(translator.translate(text).text, quote=False) for text in ("The man", "sleeps"))
    html = "<p>The man <img src=x>sleeps</p>.&nbsp;<i>&quot;</i>"
    assert libre(server, html, "html") == f"<p>{one} <img src=x>{two}</p>.&nbsp;<i>&quot;</i>"


@pytest.mark.parametrize("space", ["\t", "\u00a0", "   ", " \u2009\t", "\r", "\u3000", "\u2028"])
def test_white_space_inside_a_sentence_is_a_space(server: Server, translator: Translator, space: str) -> None:
    text = LINES[0].replace(" ", space)
    expected = translator.translate(LINES[0]).text
    assert libre(server, text) == expected
    found = fine(server.post("/v1/translate", text=text, alignments=True))["translations"][0]["sentences"][0]
    assert (found["text"], found["source"]) == (expected, text)
    for name in ("attention", "replay"):
        assert fine(server.post(f"/v1/{name}", text=text))["text"] == expected
    plain = fine(server.post("/v1/alternatives", text=LINES[0], n=2))
    assert fine(server.post("/v1/alternatives", text=text, n=2)) == plain


def test_a_text_that_is_not_split_stays_as_it_is(server: Server, translator: Translator) -> None:
    for text in (LINES[0].replace(" ", "\u00a0"), "..."):
        found = fine(server.post("/v1/translate", text=text, split=False))["translations"][0]
        assert found["text"] == translator.translate(text).text


def test_a_line_break_in_html_is_white_space(server: Server, translator: Translator) -> None:
    found = translator.translate(["Nobody found the key.", "Our neighbour paints."])
    one, two = (escape(each.text, quote=False) for each in found)
    html = "<p>\n  Nobody\nfound the key.\n\nOur neighbour&nbsp;paints.\n</p>"
    assert libre(server, html, "html") == f"<p>\n  {one}\n\n{two}\n</p>"


def test_html_that_is_not_to_be_translated(server: Server, translator: Translator) -> None:
    html = '<p translate="no">Nobody</p><p translate="yes">key</p>'
    assert libre(server, html, "html") == html.replace("key", escape(translator.translate("key").text, quote=False))


# options


def test_the_settings_of_a_model_are_options(server: Server, translator: Translator) -> None:
    decode = fine(server.get("/v1/models"))[0]["decode"]
    assert decode == translator.bundle.decode.model_dump(mode="json")
    assert decode["renormalize"] is True
    plain = fine(server.post("/v1/translate", text=LINES[0]))
    assert fine(server.post("/v1/translate", text=LINES[0], options=decode)) == plain
    for name in ("alternatives", "attention", "replay"):
        assert fine(server.post(f"/v1/{name}", text=LINES[0], options=decode))
    # With one of them changed, the others still say nothing new.
    changed = fine(server.post("/v1/translate", text=LINES[0], options={**decode, "beam_size": 1}))
    (found,) = changed["translations"][0]["sentences"]
    assert found["text"] == translator.translate(LINES[0], beam_size=1).text
    other = fine(server.post("/v1/translate", text=LINES[0], options={"renormalize": False}))
    sentence = other["translations"][0]["sentences"][0]
    assert sentence["logprob"] == pytest.approx(translator.translate(LINES[0], renormalize=False).logprob, abs=1e-4)
    assert sentence["logprob"] != plain["translations"][0]["sentences"][0]["logprob"]


def test_options_of_a_model_that_draws() -> None:
    """What it does anyway is not asked for once more; a beam by itself is, since it means a search."""
    own = DecodeConfig(sample=True, beam_size=4, temperature=0.5)

    def given(**options: Any) -> dict[str, Any]:
        return DecodeOptions(**options).given(own)

    assert given(**own.model_dump(mode="json")) == given() == given(sample=True, temperature=0.5) == {}
    assert given(beam_size=4) == {"beam_size": 4}
    assert given(sample=False, beam_size=4) == {"sample": False}
    assert given(sample=True, temperature=2.0, suppress=["a"]) == {"temperature": 2.0, "suppress": ("a",)}


def test_no_options_at_all(server: Server) -> None:
    plain = fine(server.post("/v1/translate", text=LINES[0]))
    for options in (None, {}, {"beam_size": None}):
        assert fine(server.post("/v1/translate", text=LINES[0], options=options)) == plain


# errors


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/translate", {"q": None, **PAIR}, '"q" is null: give a string or a list; GET'),
        ("/translate", {"q": ["a", None], **PAIR}, '"q[1]" is null: give a string; GET'),
        ("/translate", {"q": ["."] * 1001, **PAIR}, '"q" has 1,001 items and may have 1,000; GET'),
        ("/translate", {"q": "", **PAIR}, '"q" is empty: give at least one character; GET'),
        ("/translate", {"q": "x", **PAIR, "alternatives": True}, '"alternatives" is true: give a whole number; GET'),
        ("/translate", {"q": "x", **PAIR, "format": "md"}, '"format" is "md": give "text" or "html"; GET'),
        ("/translate", {"q": "x", "source": "e" * 36, "target": "de"}, '"source" has 36 characters and may have 35'),
        ("/v1/translate", {"text": "x", "terms": {"Katze": ""}}, '"terms.Katze" is empty: give at least one char'),
        ("/v1/translate", {"text": "x", "options": []}, '"options" is []: give an object; GET'),
        ("/v1/translate", {"text": "x", "options": "{}"}, '"options" is "{}": give an object; GET'),
        ("/v1/translate", {"text": "x", "options": {"beam_size": 17}}, '"options.beam_size" is 17: give at most 16'),
        ("/v1/translate", {"text": "x", "options": {"top_p": 0}}, '"options.top_p" is 0: give more than 0; GET'),
        ("/v1/translate", {"text": "x", "options": {"suppress": [3]}}, '"options.suppress[0]" is 3: give a string'),
        ("/v1/translate", {"text": "x", "renormalize": True}, '(did you mean "options.renormalize"?)'),
        ("/v1/translate", {"text": "x", "options": {"split": True}}, '(did you mean "split"?)'),
        ("/v1/translate", {"text": "x", "split": 1}, '"split" is 1: give true or false; GET'),
        (
            "/v1/translate",
            {"text": "x", "options": {"n_best": 10}},
            '"options.n_best" 10 needs a "options.beam_size" of',
        ),
        (
            "/v1/translate",
            {"text": "x", "options": SHORT, "prefix": "Der"},
            'shorten the prefix or raise "options.max_le',
        ),
        ("/v1/translate", {"text": "x", "options": SHORT, "prefix": "Der"}, "the prefix of text 1 has "),
        (
            "/v1/translate",
            {"text": ["x", "key"], "options": SHORT, **STRICT},
            'of text 2 cannot hold "der Hafen"; change',
        ),
        ("/v1/translate", {"text": "x", "strict_terms": True}, '"strict_terms" is about terms and constraints; give'),
        (
            "/v1/translate",
            {"text": "x", "options": {"seed": 3}},
            '"options.seed" is for drawing; add "options.sample".',
        ),
        ("/v1/replay", {"text": "x", "options": {"sample": True}}, 'can be recorded; leave out "options.sample".'),
        ("/v1/alternatives", {"text": "x", "options": {"n_best": 2}}, '"options.n_best" has no effect on alternatives'),
        ("/v1/alternatives", {"text": "x", "prefix": [1, "a"]}, '"prefix[1]" is "a": give a whole number; GET'),
        ("/v1/attention", {"text": "x", "tgt": " "}, "tgt is blank; give a translation, or leave it out"),
        ("/v1/attention", {"text": "\n"}, "there is nothing to translate; give a text"),
        ("/v1/replay", {"text": "\n"}, "there is nothing to translate; give a text"),
        ("/v1/alternatives", {"text": "\u00a0"}, "there is nothing to translate; give a text"),
    ],
)
def test_errors_are_in_the_words_of_json(server: Server, path: str, body: dict[str, Any], said: str) -> None:
    sentence = refused(server.post(path, **body), 400)
    assert said in sentence
    for word in ("None", "True", "nan", "DecodeConfig", "line ", "should", "validation", "valid string"):
        assert word not in sentence


def test_numbers_that_json_does_not_have(server: Server) -> None:
    def ask(body: bytes) -> str:
        return refused(
            server.client.post("/v1/translate", content=body, headers={"Content-Type": "application/json"}), 400
        )

    assert '"text" is NaN: give a string or a list' in ask(b'{"text": NaN}')
    assert "give a finite number" in ask(b'{"text": "x", "options": {"length_penalty": 1e999}}')


def test_every_problem_that_pydantic_names_is_said(server: Server) -> None:
    several = {"text": 1, "split": "no", "n": 1, "attention": 2, "terms": 3, "stream": 4}
    sentence = refused(server.post("/v1/translate", **several), 400)
    assert sentence.count(";") == 5
    assert "; and 2 more; GET /docs" in sentence


# headers, methods, addresses


@pytest.mark.parametrize(
    "path", ["/health", "/languages", "/metrics", "/frontend/settings", "/v1/models", "/docs", "/openapi.json"]
)
def test_head(server: Server, path: str) -> None:
    whole, head = server.get(path), server.client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert server.client.head("/translate").status_code == 405


@pytest.mark.parametrize("path", ["/docs/", "/translate/", "/health/", "/v1/models/", "/static"])
def test_no_address_is_redirected(server: Server, path: str) -> None:
    answer = server.client.get(path, headers={"Host": "evil.example"}, follow_redirects=False)
    assert answer.status_code == 404
    assert "location" not in answer.headers


def test_the_manual_works_below_a_path(server: Server) -> None:
    page = server.get("/docs").text
    links = [part.partition('"')[0] for part in page.split('href="')[1:]]
    assert sorted(links) == ["./", "openapi.json", "static/icon.svg"]
    base = httpx.URL(str(server.client.base_url)).join("/docs")
    assert all(server.client.get(base.join(link)).status_code == 200 for link in links)


def test_a_byte_order_mark_and_codings(server: Server, translator: Translator) -> None:
    body = json.dumps({"q": LINES[0], **PAIR}).encode()

    def ask(content: bytes, **headers: str) -> httpx.Response:
        kinds = {"Content-Type": "application/json", **{name.replace("_", "-"): one for name, one in headers.items()}}
        return server.client.post("/translate", content=content, headers=kinds)

    expected = translator.translate(LINES[0]).text
    assert fine(ask(codecs.BOM_UTF8 + body))["translatedText"] == expected
    assert fine(ask(body, Content_Encoding="Identity"))["translatedText"] == expected
    for coding in ("gzip", "br", "gzip, identity"):
        said = refused(ask(body, Content_Encoding=coding), 415)
        assert said == f'the content encoding is "{coding}"; send the request as it is, not packed.'


@pytest.mark.parametrize(
    ("version", "hosts", "status"), [("1.1", 0, 400), ("1.1", 1, 200), ("1.1", 2, 400), ("1.0", 0, 200)]
)
def test_http_1_1_names_its_server(server: Server, version: str, hosts: int, status: int) -> None:
    lines = [f"GET /health HTTP/{version}", *["Host: x"] * hosts, "Connection: close", "", ""]
    answer = server.exchange("\r\n".join(lines).encode())
    assert int(answer.split()[1]) == status
    assert status == 200 or b"one header Host" in answer


# how much


def test_attention_is_given_for_so_many_tokens(server: Server, translator: Translator) -> None:
    most = Limits.attention_tokens
    text = " ".join(["key"] * most)
    count = len(translator.intake.with_special(translator.bundle.tokenizers.src.encode(text)))
    assert count > most
    ending = f"tokens and attention is given for up to {most}; break it up."
    assert refused(server.post("/v1/attention", text=text), 413) == f"the text has {count:,} {ending}"
    assert ending in refused(server.post("/v1/attention", text="key", tgt=text), 413)
    assert ending in refused(server.post("/v1/translate", text=text, attention=True), 413)
    assert ending in refused(
        server.post("/v1/attention", text="key", options={"min_length": most + 4, "max_length": 300}), 413
    )
    options = {"beam_size": 1, "max_length": 3, "min_length": 0}
    assert fine(server.post("/v1/translate", text=text, options=options))["translations"]


def test_the_table_of_limits_is_whole(server: Server) -> None:
    """Every limit of the server, and of the fields of its requests, stands in the table with its number."""
    table = [line for line in SERVING.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = {line.split("|")[1].strip(): line.split("|")[2] for line in table}

    def holds(words: str, number: float) -> bool:
        return any(words in name and f"{number:,.12g}" in shown for name, shown in rows.items())

    limits = {
        "max_queue": "requests that wait",
        "max_characters": "characters of a request",
        "timeout": "seconds to the answer",
        "max_work": "target tokens of a request",
        "grace": "seconds that a stop leaves",
        "body_seconds": "seconds for a request to arrive",
        "sentence_tokens": "tokens of a sentence; 413",
        "attention_sentences": "sentences with attention",
        "attention_tokens": "tokens of a sentence with attention",
        "attention_weights": "attention weights in an answer",
        "linked": "have their words linked",
        "phrases": "terms that stand in one sentence",
        "max_connections": "connections",
    }
    # How many tokens make a batch is no limit for a client.
    assert {one.name for one in fields(Limits)} == {*limits, "batch_tokens"}
    for name, words in limits.items():
        assert holds(words, getattr(Limits(), name)), name
    schemas = server.get("/openapi.json").json()["components"]["schemas"]

    def most(schema: str, name: str) -> int:
        field = schemas[schema]["properties"][name]
        every = [field, *field.get("anyOf", ())]
        return max(int(one[key]) for one in every for key in ("maximum", "maxItems", "maxProperties") if key in one)

    for schema, name in [
        ("LibreTranslate", "q"),
        ("LibreTranslate", "alternatives"),
        ("Translate", "text"),
        ("Translate", "constraints"),
        ("Translate", "terms"),
        ("Alternatives", "n"),
        ("DecodeOptions", "beam_size"),
        ("DecodeOptions", "n_best"),
        ("DecodeOptions", "max_length"),
        ("DecodeOptions", "suppress"),
    ]:
        assert holds(f"`{name}`", most(schema, name)), name
