"""``dragoman attention``: every kind of file, through the real entry point once and in this process for the rest."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bundles import LINES, make_bundle
from conftest import RunCli
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.cli.attention import attention
from dragoman.errors import DataError, DragomanError, UsageError
from dragoman.visualize.maps import MOST_TOKENS, AttentionMaps
from test_visualize_page import data_of

LINE = LINES[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    save_bundle(make_bundle(), folder)
    return folder


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu")


def test_through_the_entry_point(run_cli: RunCli, model: Path, tmp_path: Path, translator: Translator) -> None:
    result = run_cli("attention", model, LINE, "-o", tmp_path / "x.html")
    found = translator.translate(LINE, attention=True)
    assert (result.rc, result.stdout) == (0, "")
    assert result.stderr.splitlines()[-2:] == [found.text, f"written to {tmp_path / 'x.html'}"]
    data = data_of((tmp_path / "x.html").read_text(encoding="utf-8"))
    assert (data["source"], data["text"], data["words"]) == (LINE, found.text, False)
    assert data["maps"][0]["queries"] == found.tokens
    result = run_cli("attention", model, LINE, "-o", tmp_path / "x.gif")
    assert (result.rc, result.stdout) == (2, "")
    assert (
        result.stderr
        == f"dragoman: {tmp_path / 'x.gif'}: the ending says what is written; use one of .html, .png, .svg, .json.\n"
    )


@pytest.mark.parametrize("tgt", [None, "Die Fähre, ja!"])
@pytest.mark.parametrize("words", [False, True])
def test_json(model: Path, tmp_path: Path, translator: Translator, tgt: str | None, words: bool) -> None:
    attention(model, LINE, tmp_path / "x.json", tgt=tgt, words=words, device="cpu")
    fields = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    found = translator.translate(LINE, attention=True) if tgt is None else translator.force(LINE, tgt, attention=True)
    maps = AttentionMaps.of(LINE, found, translator.special)
    assert fields == (maps.of_words() if words else maps).fields()
    assert fields["text"] == tgt or tgt is None
    if words:
        assert fields["attention"]["cross"]["keys"] == [*LINE.split(), "</s>"]
        for one in fields["attention"].values():
            np.testing.assert_allclose(np.array(one["weights"]).sum(-1), 1.0, atol=1e-5)


def test_options_of_the_search_and_a_model_that_gives_several(
    model: Path, tmp_path: Path, translator: Translator
) -> None:
    attention(model, LINE, tmp_path / "x.json", beam_size=1, length_penalty=0.0, device="cpu")
    text = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["text"]
    assert text == translator.translate(LINE, beam_size=1, length_penalty=0.0).text
    bundle = make_bundle()
    bundle.decode = bundle.decode.changed(n_best=3)
    save_bundle(bundle, tmp_path / "several")
    attention(tmp_path / "several", LINE, tmp_path / "y.json", beam_size=2, device="cpu")
    assert (tmp_path / "y.json").exists()


def test_a_page_with_words(model: Path, tmp_path: Path) -> None:
    attention(model, LINE, tmp_path / "x.html", words=True, device="cpu")
    data = data_of((tmp_path / "x.html").read_text(encoding="utf-8"))
    assert data["words"] is True
    assert data["maps"][0]["key_words"]["labels"] == [*LINE.split(), "</s>"]


def test_pictures(model: Path, tmp_path: Path) -> None:
    def titles(name: str, **options: Any) -> list[str]:
        attention(model, LINE, tmp_path / name, device="cpu", **options)
        texts = ["".join(element.itertext()) for element in ElementTree.parse(tmp_path / name).iter()]
        return [text for text in texts if text.startswith(("layer", "head", "mean", "Source", "Encoder", "Decoder"))]

    # One decoder layer and two encoder layers of two heads each.
    assert titles("a.svg") == ["Source attention, layer 1, mean of heads"]
    assert titles("b.svg", kind="encoder", layer="1", head="2") == ["Encoder, layer 1, head 2"]
    assert titles("c.svg", kind="encoder") == ["Encoder, layer 2, mean of heads"]
    many = titles("d.svg", kind="encoder", layer="all", head="all")
    assert sorted(many) == ["Encoder: rows are queries, columns are keys", "head 1", "head 2", "layer 1", "layer 2"]
    attention(model, LINE, tmp_path / "e.png", kind="decoder", words=True, device="cpu")
    with Image.open(tmp_path / "e.png") as picture:
        assert picture.format == "PNG"


def test_the_search(model: Path, tmp_path: Path, translator: Translator) -> None:
    for name in ("x.html", "x.json"):
        attention(model, LINE, tmp_path / name, beam=True, beam_size=4, device="cpu")
    data = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert data == data_of((tmp_path / "x.html").read_text(encoding="utf-8"))
    found = translator.translate(LINE, beam_size=4)
    assert (data["text"], data["beam_size"]) == (found.text, 4)
    tokens, at = [], data["results"][0]
    assert data["candidates"][at]["score"] == pytest.approx(found.score, abs=1e-4)
    while at is not None:
        tokens.append(data["candidates"][at]["token"])
        at = data["candidates"][at]["parent"]
    assert tokens[::-1] == found.tokens


@pytest.mark.parametrize(
    ("options", "name", "begins"),
    [
        ({}, "attention.html", b"<!doctype html>"),
        ({"words": True, "tgt": "ja"}, "attention.html", b"<!doctype html>"),
        ({"beam": True}, "search.html", b"<!doctype html>"),
        ({"head": "all"}, "attention.png", b"\x89PNG"),
        ({"kind": "encoder"}, "attention.png", b"\x89PNG"),
        ({"layer": "1"}, "attention.png", b"\x89PNG"),
    ],
)
def test_without_a_name_what_is_asked_for_says_what_is_written(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, Any],
    name: str,
    begins: bytes,
) -> None:
    monkeypatch.chdir(tmp_path)
    with caplog.at_level("INFO", "dragoman"):
        attention(model, LINE, device="cpu", **options)
    assert caplog.messages[-1] == f"written to {name}"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes()[: len(begins)].lower() == begins.lower()


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("x.html", {"head": "1"}, UsageError, "--head chooses what a picture shows"),
        ("x.json", {"layer": "1"}, UsageError, "--layer chooses"),
        ("x.json", {"kind": "cross"}, UsageError, "--kind chooses"),
        ("x.png", {"kind": "self"}, UsageError, 'no attention of the kind "self"; use cross, encoder, decoder'),
        ("x.png", {"layer": "0"}, UsageError, '--layer is "0"; give a number from 1 or all'),
        ("x.png", {"layer": "mean"}, UsageError, '--layer is "mean"'),
        ("x.png", {"head": "²"}, UsageError, '--head is "²"; give a number from 1 or all or mean'),
        ("x.png", {"layer": "2"}, UsageError, "no layer 2; choose one of 1 to 1"),
        ("x.png", {"head": "3"}, UsageError, "no head 3; choose one of 1 to 2"),
        ("x.png", {"beam": True}, UsageError, "use one of .html, .json"),
        ("x.html", {"beam": True, "tgt": "x"}, UsageError, "leave out --tgt and --words"),
        ("x.html", {"beam": True, "head": "1"}, UsageError, "--head is for a picture of the attention, and --beam"),
        ("x.html", {"sentence": " \t"}, DataError, "the sentence is blank"),
        ("x.html", {"tgt": ""}, DataError, "--tgt is blank"),
        ("x.json", {"tgt": " \n"}, DataError, "--tgt is blank"),
        ("x.html", {"sentence": "a" * 10_000}, DataError, "the sentence has 10,002 tokens and the model takes 64; br"),
        ("x.json", {"sentence": "a" * 10_000}, DataError, "the sentence has 10,002 tokens and the model takes 64; br"),
        ("x.html", {"sentence": "a" * 10_000, "beam": True}, DataError, "tokens and the model takes 64; break it up"),
        ("x.png", {"tgt": "a" * 10_000}, DataError, "--tgt has 10,002 tokens and the model takes 64; break it up."),
        ("x.svg", {"kind": "encoder", "layer": "3"}, UsageError, "no layer 3; choose one of 1 to 2"),
        ("x", {}, UsageError, "the ending says what is written"),
    ],
)
def test_refusals_leave_nothing(
    model: Path,
    tmp_path: Path,
    name: str,
    options: dict[str, Any],
    error: type[DragomanError],
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sentence = options.pop("sentence", LINE)
    with caplog.at_level("INFO", "dragoman"), pytest.raises(error) as caught:
        attention(model, sentence, tmp_path / name, device="cpu", **options)
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert not caplog.messages  # refused before anything is translated


def test_pages_and_pictures_have_an_end(tmp_path: Path) -> None:
    """A page holds every weight: beyond some length no browser opens it, and .json is for programs."""
    folder = tmp_path / "model"
    save_bundle(make_bundle(max_length=1024), folder)
    long = "a" * (MOST_TOKENS - 2)
    attention(folder, long, tmp_path / "x.html", tgt="ja", device="cpu")
    assert "data" in (tmp_path / "x.html").read_text(encoding="utf-8")
    for name in ("y.html", "y.png", "y.svg"):
        with pytest.raises(DataError, match=r"the sentence has 257 tokens and attention is shown for up to 256; break"):
            attention(folder, long + "a", tmp_path / name, device="cpu")
        with pytest.raises(DataError, match=r"--tgt has 257 tokens and .* or write \.json"):
            attention(folder, LINE, tmp_path / name, tgt=long + "a", device="cpu")
    bundle = make_bundle(max_length=1024)
    bundle.decode = bundle.decode.changed(min_length=260, max_length=270)
    save_bundle(bundle, tmp_path / "wordy")
    with pytest.raises(DataError, match=r"the translation has 2\d\d tokens and attention is shown for up to 256"):
        attention(tmp_path / "wordy", LINE, tmp_path / "y.html", beam_size=1, device="cpu")
    assert not list(tmp_path.glob("y.*"))
    attention(folder, long + "a", tmp_path / "y.json", tgt="ja", device="cpu")
    assert len(json.loads((tmp_path / "y.json").read_text(encoding="utf-8"))["attention"]["cross"]["keys"]) == 257
