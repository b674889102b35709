"""Write ``docs/settings.md``: every setting of a configuration, from the models of ``dragoman.config``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dragoman.config import (
    Config,
    DataConfig,
    DecodeConfig,
    HeldOutCorpus,
    HubCorpus,
    ModelConfig,
    RunConfig,
    TableCorpus,
    TextCorpus,
    TokenizerConfig,
    TrainConfig,
)
from dragoman.files import write_text
from dragoman.presets import PRESETS

SECTIONS: list[tuple[str, type[Config]]] = [
    ("The whole file", RunConfig),
    ("data", DataConfig),
    ("data: line-aligned files", TextCorpus),
    ("data: tables", TableCorpus),
    ("data: the Hub", HubCorpus),
    ("data: held out", HeldOutCorpus),
    ("tokenizer", TokenizerConfig),
    ("model", ModelConfig),
    ("train", TrainConfig),
    ("decode", DecodeConfig),
]
HEAD = """# Settings

Written by `make docs` from `src/dragoman/config.py`. A configuration is a YAML file with the
sections below; `dragoman train FILE SECTION.KEY=VALUE` sets one on the command line, and Python takes each section as a
class of the same name (`ModelConfig(d_model=256)`). A key that is not here is an error that names the nearest one.
`model: {preset: NAME}` begins with one of the [published shapes](#published-shapes) and takes changes beside it.
"""
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
_KINDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true, false", "null": "null"}


def values(schema: dict[str, Any]) -> str:
    """What a field may be, from its JSON schema."""
    if "$ref" in schema or "oneOf" in schema:
        return "a section"
    if "anyOf" in schema:
        return ", ".join(dict.fromkeys(values(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        parts = schema.get("prefixItems", [schema.get("items", {})])
        return f"list of {values(parts[0])}"
    kind = _KINDS[schema["type"]]
    if schema.get("pattern") == "^q?k?v?o?$":
        return "some of the letters qkvo"
    bounds = " and ".join(f"{sign} {_number(schema[name])}" for name, sign in _BOUNDS.items() if name in schema)
    return f"{kind} {bounds}".rstrip()


def _number(value: float) -> str:
    return "2^63" if value == 1 << 63 else f"{value:g}"


def default(model: type[Config], name: str) -> str:
    """The default as YAML has it; an empty section stands for one that has its own defaults."""
    field = model.model_fields[name]
    if field.is_required():
        return "–"
    if isinstance(field.default, Config):
        return "its own"
    return f"`{json.dumps(field.default)}`" if field.default != () else "`[]`"


def table(model: type[Config]) -> str:
    """A row for each field."""
    properties = model.model_json_schema()["properties"]
    lines = ["| key | default | values | |", "| --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        meaning = (field.description or f"see [{name}](#{name})").replace("|", "\\|")
        lines.append(f"| `{name}` | {default(model, name)} | {values(properties[name])} | {meaning} |")
    return "\n".join(lines)


def presets() -> str:
    """A row for each published shape, with what differs from the defaults."""
    lines = ["| preset | differs from the defaults of `model` in |", "| --- | --- |"]
    for name, shape in PRESETS.items():
        fields = ModelConfig.model_fields
        own = (f"`{key}: {json.dumps(value)}`" for key, value in shape.items() if value != fields[key].default)
        lines.append(f"| `{name}` | {', '.join(own)} |")
    return "\n".join(lines)


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD.rstrip()]
    for title, model in SECTIONS:
        doc = " ".join((model.__doc__ or "").split()).replace("``", "`").replace(": see :meth:`preset`.", ".")
        parts += [f"## {title}", doc, table(model)]
    parts += ["## Published shapes", "`transformer-base` and `transformer-big` are the paper's.", presets()]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    write_text(Path(__file__).with_name("settings.md"), page())
