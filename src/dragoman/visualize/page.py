"""Pages of one file: our style, our script and the data in one HTML document that asks no address for anything."""

from __future__ import annotations

import base64
import html
import json
from importlib.resources import files
from string import Template
from typing import Any

from dragoman.visualize.maps import KINDS, AttentionMap, AttentionMaps

# Characters of a page's title, at most.
_TITLE = 80
# Kind -> what the page says of the map, of its rows and of its columns.
_TEXTS = {
    "cross": (
        "A row is a token of the translation at the moment it was written; its shades say which tokens of the source "
        "the model looked at. A row adds up to 100 %.",
        "Token of the translation",
        "looked at these tokens of the source",
    ),
    "encoder": (
        "A row is a token of the source; its shades say which tokens of the source its new meaning was gathered from. "
        "A row adds up to 100 %.",
        "Token of the source",
        "gathered from these tokens of the source",
    ),
    "decoder": (
        "A row is a token of the translation at the moment it was written; its shades say which tokens written "
        "before the model looked at, none of which can come later. A row adds up to 100 %.",
        "Token of the translation",
        "looked back at these tokens",
    ),
}


def attention_page(maps: AttentionMaps, words: bool = False) -> str:
    """The attention view as an HTML document; ``words``: it opens with whole words, which a box switches off."""
    return page(f"Attention: {maps.source}", ["attention"], "showAttention", attention_data(maps, words))


def attention_data(maps: AttentionMaps, words: bool = False) -> dict[str, Any]:
    """What ``assets/attention.js`` shows, as JSON values; weights are rounded to 1/65535."""
    kinds = [_map_data(maps.maps[kind]) for kind in KINDS if kind in maps.maps]
    return {"source": maps.source, "text": maps.text, "words": words, "maps": kinds}


def _map_data(one: AttentionMap) -> dict[str, Any]:
    import numpy as np

    layers, heads = one.weights.shape[:2]
    numbers = np.rint(one.weights.clip(0.0, 1.0) * 65535.0).astype("<u2").tobytes()
    note, asks, answers = _TEXTS[one.kind]
    return {
        "kind": one.kind,
        "title": KINDS[one.kind],
        "note": note,
        "asks": asks,
        "answers": answers,
        "queries": one.queries,
        "keys": one.keys,
        "layers": layers,
        "heads": heads,
        "weights": base64.b64encode(numbers).decode("ascii"),
        "query_words": {"labels": one.query_words.labels, "groups": one.query_words.groups},
        "key_words": {"labels": one.key_words.labels, "groups": one.key_words.groups},
    }


def asset(name: str) -> str:
    """The text of a file in ``assets/``."""
    return files("dragoman.visualize").joinpath("assets", name).read_text(encoding="utf-8")


def page(title: str, parts: list[str], function: str, data: Any) -> str:
    """A document that calls ``function(root, data)`` of the scripts ``parts``, with their styles."""
    names = ["base", *parts]
    start = f'{function}(document.getElementById("view"), JSON.parse(document.getElementById("data").textContent));'
    return Template(asset("page.html")).substitute(
        title=html.escape(_short(title)),
        style="\n".join(asset(f"{name}.css") for name in names),
        script="\n".join([*(asset(f"{name}.js") for name in names), start]),
        data=safe_json(data),
    )


def safe_json(value: Any) -> str:
    """JSON in ASCII that can stand inside a script element: no character of it can end the element or open another."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _short(text: str) -> str:
    """The beginning of the text, as a title can hold it: what cannot be printed becomes a space."""
    plain = "".join(character if character.isprintable() else " " for character in text)
    return plain if len(plain) <= _TITLE else plain[: _TITLE - 1] + "…"
