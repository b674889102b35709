"""Reading a request: within a size and a time, as JSON or as a form, checked field by field."""

from __future__ import annotations

import asyncio
import re
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.types import Receive

from dragoman.errors import DragomanError
from dragoman.server import form
from dragoman.server.limits import Limits
from dragoman.server.problems import problems, quoted
from dragoman.server.refusals import (
    BadRequestError,
    GoneError,
    MediaTypeError,
    SlowClientError,
    StoppingError,
    TooLargeError,
)
from dragoman.server.waiting import Clock

M = TypeVar("M", bound=BaseModel)

JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_FIELDS = 1100  # of a form: a thousand texts, and what stands beside them
_DIGITS = re.compile("[0-9]{1,18}")  # a number as a form writes it
_PROBLEMS = 4  # that one answer names


class Reader:
    """Reads the bodies of requests, each within a time, until all of that is given up."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._reading: set[Callable[[DragomanError], None]] = set()
        self._given_up = False

    def give_up(self) -> None:
        """Wait for nothing more: who still sends gets :class:`StoppingError`."""
        self._given_up = True
        for give_up in list(self._reading):
            give_up(StoppingError())

    async def read(self, request: Request) -> bytes:
        """The body.

        Raises :class:`MediaTypeError` for one that is packed, :class:`TooLargeError` before more than that is read,
        :class:`SlowClientError`, :class:`StoppingError`.
        """
        _check_coding(request)
        # Python turns no more than 4,300 digits into a number, leading zeros among them.
        said = request.headers.get("content-length", "0")
        most = self._limits.max_body
        if not said.isdecimal() or len(said.lstrip("0")) > 20 or int(said.lstrip("0") or "0") > most:
            raise _too_large(self._limits)
        if self._given_up:
            raise StoppingError
        task, reason = asyncio.current_task(), list[DragomanError]()
        assert task is not None  # every request has one

        def give_up(error: DragomanError, task: asyncio.Task[Any] = task) -> None:
            if not reason and task.cancel():
                reason.append(error)

        seconds = self._limits.body_seconds
        late = SlowClientError(f"the request did not arrive within {seconds:g} s; send it again.")
        due = self._clock.at(time.monotonic() + seconds, lambda: give_up(late))
        self._reading.add(give_up)
        try:
            return await _whole(request.receive, self._limits)
        except asyncio.CancelledError:
            if not reason:
                raise
            task.uncancel()
            raise reason[0] from None
        finally:
            self._clock.forget(due)
            self._reading.discard(give_up)


def _check_coding(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise MediaTypeError(f"the content encoding is {quoted(encoding)}; send the request as it is, not packed.")
    transfer = ", ".join(request.headers.getlist("transfer-encoding")).strip().lower()
    if transfer not in ("", "chunked"):
        raise MediaTypeError(f"the transfer encoding is {quoted(transfer)}; send the request as it is, not packed.")


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
            fields = _joined(_fields(body, content_type, kind))
            return model.model_validate(_numbered(fields, model), strict=True)
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
        return form.fields(body, content_type, _FIELDS)
    except UnicodeError:
        raise BadRequestError("the form is not UTF-8; send it so.") from None
    except ValueError as error:
        raise BadRequestError(f"the form cannot be read ({error}); send its fields again.") from None


def _numbered(fields: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The fields, and in place of digits the number where one is asked for."""
    whole = {name for name, field in model.model_fields.items() if field.annotation is int}
    return {
        name: int(value) if name in whole and isinstance(value, str) and _DIGITS.fullmatch(value) else value
        for name, value in fields.items()
    }


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
