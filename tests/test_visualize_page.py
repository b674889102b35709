"""The pages: one file each, harmless whatever the tokens are, with the numbers they were given."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from attention_samples import NASTY, SPECIAL, SRC, TGT, sample
from decoding_toys import BOS, Toy
from dragoman.config import DecodeConfig
from dragoman.decoding import make_search
from dragoman.decoding.beam import BeamSearch
from dragoman.decoding.record import SearchRecord, record_search
from dragoman.visualize.maps import AttentionMaps
from dragoman.visualize.page import asset, attention_data, attention_page, safe_json
from dragoman.visualize.replay import replay_data, replay_page

NAMES = ["base.js", "attention.js", "replay.js", "base.css", "attention.css", "replay.css", "page.html"]


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    text: str = ""


class Reader(HTMLParser):
    """The elements of a page in order, with the text right inside each."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.open: list[Element] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if tag != "meta":
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data


def record(config: DecodeConfig, limit: int = 6, seed: int = 4) -> SearchRecord:
    toy = Toy.random(seed, 6)
    search = make_search(1, config, eos_id=5, limits=[limit])
    assert isinstance(search, BeamSearch)
    return record_search(search, toy.step, toy.start(1), config, limit=limit, bos_id=BOS, eos_id=5)


def nasty_pages() -> list[str]:
    source, translation = sample(NASTY, [*NASTY[::-1][1:], "</s>"])
    found = record(DecodeConfig(beam_size=3))
    return [
        attention_page(AttentionMaps.of(source, translation, SPECIAL)),
        replay_page(source, translation.text, found, lambda index: NASTY[index]),
    ]


def data_of(document: str) -> Any:
    (element,) = [one for one in Reader(document).elements if one.attributes.get("id") == "data"]
    return json.loads(element.text)


@pytest.mark.parametrize("place", [0, 1])
def test_a_page_is_one_harmless_file(place: int) -> None:
    document = nasty_pages()[place]
    reader = Reader(document)
    assert not reader.open
    names = [element.name for element in reader.elements]
    assert names == [
        "html",
        "head",
        "meta",
        "meta",
        "meta",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "noscript",
        "script",
        "script",
    ]
    assert reader.elements[0].attributes == {"lang": "en"}
    # Nothing is asked from anywhere: the policy forbids it, and nothing tries.
    policy = reader.elements[4].attributes
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    for element in reader.elements:
        assert not {"src", "href", "onload", "onerror"} & element.attributes.keys()
    assert not re.search("[\x00-\x09\x0b-\x1f\ud800-\udfff]", document)
    assert len(reader.elements[6].text) == 80
    data, script = reader.elements[-2], reader.elements[-1]
    assert not set("<>&\u2028\u2029\x00") & set(data.text)
    assert data.text.isascii()
    assert NASTY[0] in json.dumps(json.loads(data.text), ensure_ascii=False)
    for token in NASTY[:2]:
        assert token not in script.text
    assert reader.elements[6].text.startswith(("Attention: <script>", "Beam search: <script>"))


def test_our_files_ask_for_nothing_and_never_read_markup() -> None:
    for name in NAMES:
        text = asset(name)
        outside = re.findall(r"https?://[^\"' ]+", text)
        assert set(outside) <= {"http://www.w3.org/2000/svg"}, name
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "import ",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket",
            "@import",
            "url(",
            "localStorage",
        ):
            assert word not in text, f"{name} has {word}"
        assert name == "page.html" or "</script" not in text, name


@pytest.mark.parametrize("words", [False, True])
def test_the_attention_page_holds_the_weights(words: bool) -> None:
    source, translation = sample(SRC, TGT, layers=2, heads=3)
    maps = AttentionMaps.of(source, translation, SPECIAL)
    data = data_of(attention_page(maps, words))
    assert data == attention_data(maps, words)
    assert (data["source"], data["text"], data["words"]) == (source, translation.text, words)
    assert [one["kind"] for one in data["maps"]] == ["cross", "encoder", "decoder"]
    for one in data["maps"]:
        expected = maps.map(one["kind"])
        numbers = np.frombuffer(base64.b64decode(one["weights"]), dtype="<u2") / 65535.0
        np.testing.assert_allclose(numbers.reshape(expected.weights.shape), expected.weights, atol=0.5 / 65535 + 1e-7)
        assert (one["layers"], one["heads"]) == (2, 3)
        assert (one["queries"], one["keys"]) == (expected.queries, expected.keys)
        assert one["query_words"] == {"labels": expected.query_words.labels, "groups": expected.query_words.groups}
        assert [i for group in one["key_words"]["groups"] for i in group] == list(range(len(one["keys"])))


def test_a_long_sentence_of_a_large_model_stays_a_small_file() -> None:
    tokens = [f"▁w{index}" for index in range(59)] + ["</s>"]
    source, translation = sample(tokens, tokens, layers=6, heads=8)
    document = attention_page(AttentionMaps.of(source, translation, SPECIAL))
    # Two bytes a weight in base64: 518,400 of them.
    assert 3 * 6 * 8 * 60 * 60 * 8 / 3 < len(document) < 1.5e6


def test_the_same_gives_the_same_page() -> None:
    assert nasty_pages() == nasty_pages()


@pytest.mark.parametrize("norm", ["gnmt", "power", "none"])
def test_the_replay_page_holds_the_search(norm: str) -> None:
    config = DecodeConfig(beam_size=3, n_best=2, length_norm=norm, length_penalty=0.6)
    found = record(config)
    names = ["▁a", "b", "▁c", "▁d", "e", "</s>"]
    data = data_of(replay_page("x y", "a b", found, names.__getitem__))
    assert data == replay_data("x y", "a b", found, names.__getitem__)
    assert (data["beam_size"], data["length_norm"], data["length_penalty"], data["limit"]) == (3, norm, 0.6, 6)
    assert data["results"] == found.results
    assert len(data["candidates"]) == len(found.candidates)
    for one, candidate in zip(data["candidates"], found.candidates, strict=True):
        assert one["token"] == names[candidate.token]
        assert (one["n"], one["parent"], one["fate"]) == (candidate.n, candidate.parent, candidate.fate)
        assert one["score"] == pytest.approx(candidate.score, abs=1e-6)
    # The script scores hypotheses anew for other penalties by the same formula.
    for place in data["results"]:
        one = data["candidates"][place]
        norm_of = {"gnmt": ((5 + one["n"]) / 6) ** 0.6, "power": one["n"] ** 0.6, "none": 1.0}[norm]
        assert one["total"] / norm_of == pytest.approx(one["score"], abs=2e-6)
    assert [standing["n"] for standing in data["standings"]] == list(range(1, len(found.standings) + 1))


def test_a_search_for_nothing_has_a_page() -> None:
    data = data_of(replay_page("", "", SearchRecord(DecodeConfig(), 0), str))
    assert (data["candidates"], data["standings"], data["results"]) == ([], [], [])


def test_json_in_a_script_is_closed_to_markup() -> None:
    value = {"a": NASTY, "b": [1.5, None, True, "\ud800"]}
    text = safe_json(value)
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text) == value
    with pytest.raises(ValueError, match="JSON"):
        safe_json(float("nan"))


def test_half_a_surrogate_pair_can_be_written() -> None:
    source, translation = sample(["▁\ud800", "</s>"], ["▁a", "</s>"])
    document = attention_page(AttentionMaps.of(source, translation, SPECIAL))
    assert document.encode("utf-8").decode("utf-8") == document
