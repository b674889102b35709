"""The description of the interface as one page of HTML, which asks for nothing but its icon."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "code{font-family:ui-monospace,monospace}table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884}"
    "section{margin-top:2.5rem}"
)


def manual(description: dict[str, Any]) -> str:
    """A page for an OpenAPI description: each address, the fields that it takes, and its answers.

    Its links are relative, so that they lead somewhere below a path of a proxy too.
    """
    schemas = description["components"]["schemas"]
    sections = [
        _section(path, method, operation, schemas)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>dragoman: the interface</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="static/icon.svg">'
        f'<style>{_STYLE}</style></head><body><nav><a href="./">The page</a></nav>'
        f"<h1>The interface</h1><p>{escape(description['info']['description'])}</p>"
        f'<p>For programs: <a href="openapi.json">openapi.json</a></p>{"".join(sections)}</body></html>'
    )


def _section(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    title = f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}.</p>"
    about = f"<p>{escape(operation['description'])}</p>" if operation.get("description") else ""
    content = operation.get("requestBody", {}).get("content", {})
    fields = ""
    if content:
        schema = _resolved(next(iter(content.values()))["schema"], schemas)
        kinds = ", ".join(f"<code>{escape(kind)}</code>" for kind in content)
        rows = "".join(
            _row(name, field, name in schema.get("required", ()), schemas)
            for name, field in schema.get("properties", {}).items()
        )
        fields = f"<h3>Takes</h3><p>{kinds}</p><table>{rows}</table>"
    answers = "".join(
        f"<tr><td><code>{status}</code></td><td>{escape(answer['description'])} {_contents(answer, schemas)}</td></tr>"
        for status, answer in sorted(operation["responses"].items())
    )
    return f"<section>{title}{about}{fields}<h3>Answers</h3><table>{answers}</table></section>"


def _contents(answer: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The types of an answer, each with what it holds."""
    each = answer.get("content", {}).items()
    return ", ".join(
        f"<code>{escape(kind)}: {escape(_type(one.get('schema', {}), schemas))}</code>" for kind, one in each
    )


def _row(name: str, field: dict[str, Any], required: bool, schemas: dict[str, Any]) -> str:
    default = field.get("default")
    beside = "required" if required else "" if default in (None, {}, "") else f"default {default}"
    return (
        f"<tr><th><code>{escape(name)}</code></th><td>{escape(_type(field, schemas))}</td>"
        f"<td>{escape(field.get('description', ''))}</td><td>{escape(str(beside))}</td></tr>"
    )


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _type(field: dict[str, Any], schemas: dict[str, Any]) -> str:
    """What a field holds, in words."""
    if "$ref" in field:
        inner = _resolved(field, schemas).get("properties", {})
        return "object (" + ", ".join(inner) + ")"
    if "anyOf" in field:
        return " or ".join(_type(one, schemas) for one in field["anyOf"] if one.get("type") != "null")
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}), schemas)}"
    signs = {"minimum": "≥", "maximum": "≤", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
    bounds = " ".join(f"{sign} {field[name]}" for name, sign in signs.items() if name in field)
    return f"{field.get('type', 'anything')} {bounds}".strip()
