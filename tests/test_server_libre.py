"""The server as LibreTranslate's clients see it: a real process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bundles import LINES
from dragoman import Translator
from served_models import DOCUMENT, all_models, server_of_all, translator_of_first  # noqa: F401  # fixtures
from serving import Server, fine, refused


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
    html = '<p class="a>b">Nobody found</p> <b>the key</b><script>if (a<b) x</script><!-- key -->&amp;'
    found = fine(server.post("/translate", q=html, source="en", target="de", format="html"))["translatedText"]
    escaped = [text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for text in (one, two)]
    assert found.startswith(
        f'<p class="a>b">{escaped[0]}</p> <b>{escaped[1]}</b><script>if (a<b) x</script><!-- key -->'
    )


def test_auto_finds_the_language(server: Server) -> None:
    found = fine(server.post("/translate", q="the key and the wind", source="auto", target="de"))
    assert found["detectedLanguage"]["language"] == "en"
    assert found["detectedLanguage"]["confidence"] > 90
    # Only English goes to German, so that it is taken, sure or not.
    found = fine(server.post("/translate", q="La clé est dans le jardin.", source="auto", target="de"))
    assert found["detectedLanguage"]["language"] == "en"
    assert found["detectedLanguage"]["confidence"] < 1
    detected = fine(server.post("/detect", q="Niemand hat den Schlüssel gefunden und das ist nicht gut."))
    assert [one["language"] for one in detected] == ["de", "en"]
    assert detected[0]["confidence"] > 90
    assert sum(one["confidence"] for one in detected) <= 100
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
