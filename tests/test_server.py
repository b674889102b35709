"""The server as its clients see it: a real process, LibreTranslate's addresses and our own."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from serving import Server, serving
from tolerances import REORDERED

DOCUMENT = "  Nobody found the key. Our neighbour paints.\n\n\tA cold wind blows! \n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    # Random models often say nothing at all; these say something of each sentence.
    decode = DecodeConfig(beam_size=3, max_length_ratio=1.0, max_length_extra=6, min_length_ratio=0.5, min_length=5)
    save_bundle(replace(make_bundle(), decode=decode), folder / "first")
    save_bundle(replace(make_bundle(seed=9), decode=decode), folder / "second")
    back = replace(make_bundle(joint=False, seed=6), decode=decode, src_lang="de", tgt_lang="en")
    save_bundle(back, folder / "back")
    return folder


@pytest.fixture(scope="module")
def translator(models: Path) -> Translator:
    return Translator.load(models / "first", device="cpu")


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[Server]:
    with serving(models / "first", f"second={models / 'second'}", models / "back") as running:
        yield running
        assert not any("Traceback" in line for line in running.log)


def fine(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: httpx.Response, status: int) -> str:
    assert (answer.status_code, list(answer.json())) == (status, ["error"]), answer.text
    assert "/tmp" not in answer.text
    assert "Traceback" not in answer.text
    return str(answer.json()["error"])


# LibreTranslate


def test_a_text_as_libretranslate_gives_it(server: Server, translator: Translator) -> None:
    expected = translator.translate(LINES[0]).text
    assert fine(server.post("/translate", q=LINES[0], source="en", target="de")) == {"translatedText": expected}


def test_a_list_gives_a_list(server: Server, translator: Translator) -> None:
    found = fine(server.post("/translate", q=[*LINES, ""], source="en", target="de"))
    assert found == {"translatedText": [translator.translate_document(line) for line in [*LINES, ""]]}


@pytest.mark.parametrize("form", ["urlencoded", "multipart"])
def test_forms(server: Server, translator: Translator, form: str) -> None:
    expected = translator.translate(LINES[4], n_best=2, beam_size=3)
    fields = {"q": LINES[4], "source": "en", "target": "de", "alternatives": "1"}
    sent = {"data": fields} if form == "urlencoded" else {"files": {key: (None, one) for key, one in fields.items()}}
    found = fine(server.client.post("/translate", **sent))  # type: ignore[arg-type]
    assert found == {"translatedText": expected.text, "alternatives": [expected.alternatives[0].text]}


def test_a_form_with_several_texts(server: Server, translator: Translator) -> None:
    found = fine(server.client.post("/translate", data={"q": LINES[:2], "source": "en", "target": "de"}))
    assert found["translatedText"] == [one.text for one in translator.translate(LINES[:2])]


def test_alternatives(server: Server, translator: Translator) -> None:
    best = translator.translate(LINES[2], n_best=4, beam_size=4)
    found = fine(server.post("/translate", q=LINES[2], source="en", target="de", alternatives=3))
    assert found == {"translatedText": best.text, "alternatives": [one.text for one in best.alternatives]}
    assert len(found["alternatives"]) == 3
    found = fine(server.post("/translate", q=[LINES[2]], source="en", target="de", alternatives=3))
    assert found["alternatives"] == [[one.text for one in best.alternatives]]


def test_a_document_keeps_its_white_space(server: Server, translator: Translator) -> None:
    found = fine(server.post("/translate", q=DOCUMENT, source="en", target="de"))["translatedText"]
    assert found == translator.translate_document(DOCUMENT)
    assert found.startswith("  ")
    assert found.endswith(" \n")
    assert found.count("\n") == 3


def test_markup_stays(server: Server, translator: Translator) -> None:
    one, two = (translator.translate(text).text for text in ("Nobody found", "the key"))
    html = '<p class="a>b">Nobody found <b>the key</b></p><script>if (a<b) x</script><!-- key -->&amp;'
    found = fine(server.post("/translate", q=html, source="en", target="de", format="html"))["translatedText"]
    escaped = [text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for text in (one, two)]
    assert found.startswith(
        f'<p class="a>b">{escaped[0]} <b>{escaped[1]}</b></p><script>if (a<b) x</script><!-- key -->'
    )


def test_auto_finds_the_language(server: Server) -> None:
    found = fine(server.post("/translate", q="the key and the wind", source="auto", target="de"))
    assert found["detectedLanguage"] == {"language": "en", "confidence": 100.0}  # only English goes to German
    detected = fine(server.post("/detect", q="Niemand hat den Schlüssel gefunden und das ist nicht gut."))
    assert [one["language"] for one in detected] == ["de", "en"]
    assert detected[0]["confidence"] > 90
    assert sum(one["confidence"] for one in detected) == pytest.approx(100, abs=0.2)
    listed = fine(server.post("/translate", q=["the key", "a wind"], source="auto", target="de"))
    assert [one["language"] for one in listed["detectedLanguage"]] == ["en", "en"]


def test_languages_and_settings(server: Server) -> None:
    assert fine(server.get("/languages")) == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]
    settings = fine(server.get("/frontend/settings"))
    assert (settings["charLimit"], settings["keyRequired"]) == (20_000, False)
    assert settings["language"]["source"] == {"code": "en", "name": "English"}


def test_a_model_is_chosen_by_pair_and_by_name(server: Server, models: Path) -> None:
    wanted = {
        name: Translator.load(models / name, device="cpu").translate(LINES[0]).text
        for name in ("first", "second", "back")
    }
    assert len(set(wanted.values())) == 3
    asked = {"q": LINES[0], "source": "en", "target": "de"}
    assert fine(server.post("/translate", **asked))["translatedText"] == wanted["first"]
    assert fine(server.post("/translate", **asked, model="second"))["translatedText"] == wanted["second"]
    assert fine(server.post("/translate", q=LINES[0], source="DE", target="EN"))["translatedText"] == wanted["back"]
    assert [one["name"] for one in fine(server.get("/v1/models"))] == ["en-de", "second", "de-en"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"q": "x", "source": "en"}, 400, '"target" is missing'),
        ({"source": "en", "target": "de"}, 400, '"q" is missing'),
        ({"q": "", "source": "en", "target": "de"}, 400, '"q" is'),
        ({"q": "x", "source": "fr", "target": "de"}, 400, "fr is not supported as source"),
        ({"q": "x", "source": "en", "target": "fr"}, 400, "fr is not supported as target"),
        ({"q": "x", "source": "en", "target": "en"}, 400, "no model translates en to en"),
        ({"q": "x", "source": "en", "target": "de", "format": "pdf"}, 400, '"format" is'),
        ({"q": "x", "source": "en", "target": "de", "alternatives": "2"}, 400, '"alternatives" is'),
        ({"q": ["x", 3], "source": "en", "target": "de"}, 400, '"q'),
        ({"q": {"a": 1}, "source": "en", "target": "de"}, 400, '"q" is'),
        ({"q": "x", "source": "en", "target": "de", "model": "secnd"}, 404, 'did you mean "second"?'),
        ({"q": "x", "source": "de", "target": "en", "model": "second"}, 400, 'no model of the name "second"'),
        ({"q": "x" * 20_001, "source": "en", "target": "de"}, 413, "20,001 characters"),
        ({"q": ["x" * 10_001] * 2, "source": "en", "target": "de"}, 413, "20,002 characters"),
    ],
)
def test_what_libretranslate_refuses(server: Server, body: dict[str, Any], status: int, message: str) -> None:
    assert message in refused(server.post("/translate", **body), status)


# our own


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
        ({"text": "x", "options": {"n_best": 5}}, 400, "n_best 5 needs a beam_size"),
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


# the law


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


# the server itself


def test_health_metrics_and_pages(server: Server) -> None:
    assert fine(server.get("/health")) == {"status": "ok"}
    server.get("/nowhere")
    metrics = server.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in (
        'dragoman_requests_total{path="/health",status="200"}',
        'dragoman_requests_total{path="other",status="404"}',
        'dragoman_request_seconds_bucket{le="0.1",path="/health"}',
        'dragoman_queue_requests{model="second"} 0.0',
        'dragoman_batch_sentences_sum{model="en-de"}',
        'dragoman_tokens_total{model="en-de",side="target"}',
    ):
        assert name in metrics.text
    for path, part in (("/", "<title>dragoman"), ("/docs", "POST /v1/translate"), ("/static/index.html", "<title>")):
        page = server.get(path)
        assert (page.status_code, page.headers["x-content-type-options"]) == (200, "nosniff")
        assert part in page.text
        assert "http://" not in page.text
        assert "https://" not in page.text
    assert "showAttention" in server.get("/views/attention.js").text


def test_addresses_and_methods_that_there_are_not(server: Server) -> None:
    assert "nothing at this address" in refused(server.get("/v2/translate"), 404)
    assert "nothing at this address" in refused(server.get("/static/none.js"), 404)
    refused(server.get("/static/../app.py"), 404)
    refused(server.get("/static/%2e%2e/app.py"), 404)
    answer = server.client.delete("/translate")
    assert "takes no DELETE" in refused(answer, 405)
    assert answer.headers["allow"] == "POST"


def test_no_page_of_another_origin_may_ask(server: Server) -> None:
    answer = server.client.get("/languages", headers={"Origin": "http://elsewhere.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_keys_cors_and_limits(models: Path) -> None:
    options = ["--api-key", "alpha", "--cors", "http://page.example", "--max-characters", "100"]
    with serving(models / "first", *options, env={"DRAGOMAN_API_KEYS": "beta, gamma"}) as server:
        asked = {"q": "key", "source": "en", "target": "de"}
        assert "an API key is needed" in refused(server.post("/translate", **asked), 403)
        for wrong in ("alph", "alphaa", "Alpha", "é", "beta,"):
            assert "not valid" in refused(server.post("/translate", **asked, api_key=wrong), 403)
        for right in ("alpha", "beta", "gamma"):
            fine(server.post("/translate", **asked, api_key=right))
            fine(server.client.post("/translate", json=asked, headers={"X-API-Key": right}))
            fine(server.client.post("/translate", json=asked, headers={"Authorization": f"Bearer {right}"}))
            fine(server.client.post("/translate", data={**asked, "api_key": right}))
        refused(server.get("/metrics"), 403)
        assert server.client.get("/metrics", headers={"X-API-Key": "beta"}).status_code == 200
        settings = fine(server.get("/frontend/settings"))
        assert (settings["keyRequired"], settings["charLimit"]) == (True, 100)
        page = {"Origin": "http://page.example"}
        answer = server.client.post("/translate", json={**asked, "api_key": "beta"}, headers=page)
        assert answer.headers["access-control-allow-origin"] == "http://page.example"
        other = server.client.get("/languages", headers={"Origin": "http://elsewhere.example"})
        assert "access-control-allow-origin" not in other.headers
        assert not any(key in line for key in ("alpha", "beta", "gamma") for line in server.log)
        assert server.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_finishes_what_came(models: Path, number: int) -> None:
    with serving(models / "first") as server, ThreadPoolExecutor(8) as pool:
        long = "\n".join(line + str(n) for n in range(20) for line in LINES)
        # Options of its own give each a batch of its own.
        options = [{"beam_size": 16, "length_penalty": n / 4} for n in range(4)]
        answers = [pool.submit(server.post, "/v1/translate", text=long, options=one) for one in options]
        while 'dragoman_queue_requests{model="en-de"} 0.0' in server.get("/metrics").text:
            time.sleep(0.01)
        assert not all(answer.done() for answer in answers)
        assert server.stop(number) == 0
        assert [answer.result().status_code for answer in answers] == [200] * 4
        assert server.log[-1] == "stopped."


def test_a_second_signal_ends_soon(models: Path) -> None:
    with serving(models / "first") as server, ThreadPoolExecutor(4) as pool:
        long = "\n".join(line + str(n) for n in range(60) for line in LINES)
        answers = [pool.submit(server.post, "/v1/translate", text=long, options={"beam_size": 16}) for _ in range(4)]
        time.sleep(0.5)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        begun = time.monotonic()
        assert server.stop() == 1
        assert time.monotonic() - begun < 10
        lost = [answer for answer in answers if answer.exception() or answer.result().status_code != 200]
        assert len(lost) > 1, [answer.result().text[:100] for answer in answers]
        assert "one signal lets it finish" in server.log[-1]


def test_a_package_that_is_missing(models: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; sys.argv[1:] = ['serve', 'x']; from dragoman.cli import main"
    code += "; main.main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == "dragoman: serving needs uvicorn, which is not installed; pip install 'dragoman[serve]'.\n"


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["nowhere"], 1, "nowhere"),
        (["first", "--api-key", ""], 2, "an empty key was given"),
        (["first", "first"], 2, 'two models are called "en-de"; name them'),
        ([], 2, ""),
    ],
)
def test_what_cannot_be_served(run_cli: Any, models: Path, args: list[str], code: int, message: str) -> None:
    result = run_cli("serve", *args, "--port", "0", cwd=models)
    assert (result.rc, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_port_that_is_taken(run_cli: Any, server: Server, models: Path) -> None:
    result = run_cli("serve", models / "first", "--port", str(server.port))
    assert (result.rc, result.stderr.count("\n")) == (1, 1)
    assert f"cannot listen at 127.0.0.1, port {server.port}: " in result.stderr
