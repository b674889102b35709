"""Reading a request: within a size and a time, as JSON or as a form, checked field by field."""

from __future__ import annotations

import asyncio
import time
from codecs import BOM_UTF8
from collections.abc import Mapping
from email import policy
from email.errors import CloseBoundaryNotFoundDefect
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.types import Receive

from dragoman.server.limits import Limits
from dragoman.server.problems import problems, quoted
from dragoman.server.refusals import BadRequestError, GoneError, MediaTypeError, SlowClientError, TooLargeError
from dragoman.server.waiting import Clock

M = TypeVar("M", bound=BaseModel)

JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_FIELDS = 1100  # of a form: a thousand texts, and what stands beside them
_PROBLEMS = 4  # that one answer names


async def read(request: Request, limits: Limits, clock: Clock) -> bytes:
    """The body.

    Raises :class:`TooLargeError` before more than that is read, :class:`SlowClientError`, and :class:`MediaTypeError`
    for one that is packed.
    """
    said = request.headers.get("content-length", "0")
    # Python turns no more than 4,300 digits into a number, leading zeros among them.
    if not said.isdecimal() or len(said.lstrip("0")) > 20 or int(said.lstrip("0") or "0") > limits.max_body:
        raise _too_large(limits)
    task, late = asyncio.current_task(), False
    assert task is not None  # every request has one

    def give_up(task: asyncio.Task[Any] = task) -> None:
        nonlocal late
        late = task.cancel()

    due = clock.at(time.monotonic() + limits.body_seconds, give_up)
    try:
        body = await _whole(request.receive, limits)
    except asyncio.CancelledError:
        if not late:
            raise
        task.uncancel()
        raise SlowClientError(f"the request did not arrive within {limits.body_seconds:g} s; send it again.") from None
    finally:
        clock.forget(due)
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise MediaTypeError(f"the content encoding is {quoted(encoding)}; send the request as it is, not packed.")
    return body


async def _whole(receive: Receive, limits: Limits) -> bytes:
    body: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        body.append(message["body"])
        size += len(body[-1])
        if size > limits.max_body:
            raise _too_large(limits)
        if not message["more_body"]:
            return b"".join(body)


def _too_large(limits: Limits) -> TooLargeError:
    return TooLargeError(f"the request is larger than {limits.max_body:,} bytes; send less text at once.")


def parse(body: bytes, content_type: str, model: type[M], *, forms: bool = False) -> M:
    """The body as a ``model``; ``forms``: it may be a form too, where a number is written as text.

    Raises :class:`BadRequestError`, and :class:`MediaTypeError` for what is neither.
    """
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == JSON:
            return model.model_validate_json(body.removeprefix(BOM_UTF8), strict=True)
        if forms and kind in (FORM, PARTS):
            return model.model_validate(_joined(_fields(body, content_type, kind)))
    except ValidationError as error:
        raise BadRequestError(_sentence(error, model)) from None
    wanted = f"{JSON}, {FORM} or {PARTS}" if forms else JSON
    raise MediaTypeError(f"the content type is {quoted(kind)}; send {wanted}.")


def _sentence(error: ValidationError, model: type[BaseModel]) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        reason = first["msg"].removeprefix("Invalid JSON: ")
        return f"the request is no JSON ({reason}); send an object in UTF-8."
    if not first["loc"]:
        return "the request is not a JSON object; send one with the fields of this address."
    found = problems(error, model)
    more = f"; and {len(found) - _PROBLEMS} more" if len(found) > _PROBLEMS else ""
    return f"{'; '.join(found[:_PROBLEMS])}{more}; GET /docs lists the fields."


def _fields(body: bytes, content_type: str, kind: str) -> list[tuple[str, str]]:
    try:
        if kind == FORM:
            return parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
        return _of_parts(body, content_type)
    except UnicodeError:
        raise BadRequestError("the form is not UTF-8; send it so.") from None
    except ValueError as error:
        raise BadRequestError(f"the form cannot be read ({error}); send its fields again.") from None


def _of_parts(body: bytes, content_type: str) -> list[tuple[str, str]]:
    """The fields of a multipart form; raises :class:`ValueError`."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
    whole = BytesParser(EmailMessage, policy=policy.HTTP).parsebytes(head + body)
    if not whole.is_multipart():
        raise ValueError("no boundary between its parts")
    if any(isinstance(defect, CloseBoundaryNotFoundDefect) for defect in whole.defects):
        raise ValueError("its end is missing: no closing boundary")
    found: list[tuple[str, str]] = []
    for part in whole.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes):
            raise ValueError("a part without a name")
        found.append((name, content.decode()))
        if len(found) > _FIELDS:
            raise ValueError("too many parts")
    return found


def _joined(fields: list[tuple[str, str]]) -> Mapping[str, Any]:
    """A name that is there several times gets a list."""
    found: dict[str, Any] = {}
    for name, value in fields:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found
