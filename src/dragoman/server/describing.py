"""How addresses are described: the answers that each can give, and the body that it takes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from dragoman import __version__
from dragoman.server import asked
from dragoman.server.answered import Error
from dragoman.server.body import FORM, JSON, PARTS

_REASONS = {
    400: "The request cannot be done as it stands.",
    403: "A key is needed, or the key is wrong.",
    404: "There is no such model.",
    408: "The request did not arrive in time.",
    413: "The request, or its answer, is larger than the server takes.",
    415: "The request is of another content type.",
    429: "Too many requests are waiting; the header Retry-After says when to try again.",
    500: "The server failed.",
    503: "The server is stopping, or has too many connections.",
    504: "The answer was not ready in time.",
}
_MODELS: list[type[BaseModel]] = [
    asked.LibreTranslate,
    asked.Detect,
    asked.Translate,
    asked.Alternatives,
    asked.Attention,
    asked.Replay,
]
_TEMPLATE = "#/components/schemas/{model}"
_ABOUT = """Translation with the models of this server. /translate, /detect, /languages and /frontend/settings answer
the clients of LibreTranslate; /v1 gives everything that is known of a translation."""


def takes(model: type[BaseModel], *, forms: bool = False) -> dict[str, Any]:
    """The description of a body: JSON, and where ``forms`` is set the two kinds of forms."""
    content = {"schema": {"$ref": _TEMPLATE.format(model=model.__name__)}}
    kinds = (JSON, FORM, PARTS) if forms else (JSON,)
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, content)}}


def gives(*statuses: int, good: dict[str, Any] | None = None) -> dict[int | str, dict[str, Any]]:
    """The answers of an address: the error statuses, each with our form of an error; ``good`` adds to status 200."""
    found: dict[int | str, dict[str, Any]] = {
        status: {"model": Error, "description": _REASONS[status]} for status in statuses
    }
    if 429 in found:
        found[429]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return found if good is None else {200: good, **found}


ASKING = (400, 403, 408, 413, 415, 500, 503)
TRANSLATING = (*ASKING, 404, 429, 504)


def describe(app: FastAPI, needs_key: bool) -> dict[str, Any]:
    """The OpenAPI description of the server."""
    whole = get_openapi(title="dragoman", version=__version__, description=_ABOUT, routes=app.routes)
    _, definitions = models_json_schema([(model, "validation") for model in _MODELS], ref_template=_TEMPLATE)
    parts = whole.setdefault("components", {})
    parts.setdefault("schemas", {}).update(definitions["$defs"])
    if needs_key:
        parts["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "address": {"type": "apiKey", "in": "query", "name": "api_key"},
        }
        for methods in whole["paths"].values():
            for method in methods.values():
                if "403" in method["responses"]:
                    method["security"] = [{"bearer": []}, {"key": []}, {"address": []}, {}]
    return whole
