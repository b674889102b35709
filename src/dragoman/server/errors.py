"""Errors as clients get them: ``{"error": …}`` with a status, and never where in the server they came from."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from dragoman.errors import DragomanError
from dragoman.server.asked import MOST_TEXTS, DecodeOptions, Translate
from dragoman.server.problems import shortened
from dragoman.server.refusals import BusyError, GoneError, InternalError

logger = logging.getLogger("dragoman")

# What is read, and thrown away, of a request that was answered before it had arrived: a client that still sends would
# not see the answer, were the connection closed at once. A server that is stopping waits for less of it.
_LINGER_SECONDS, _STOPPING_SECONDS, _LINGER_BYTES = 2.0, 0.3, 64 << 20
# A client that hung up gets nothing; the number is nginx's, for the metrics.
CLIENT_GONE = 499
# Of what a client sent, its error repeats so much between two quotation marks, or without a space; and an error as a
# whole is no longer.
_QUOTED, _WORD, _LONGEST = 60, 80, 1000
# What a client calls what the rest of dragoman has other names for: settings of the search, which nobody named by
# their class, and the places of texts.
_NAMES = {
    "": "",
    **{name: f'"{name}"' for name in Translate.model_fields},
    **{name: f'"options.{name}"' for name in DecodeOptions.model_fields},
    **{f"line {number}": f"text {number}" for number in range(1, MOST_TEXTS + 1)},
}
_QUOTE = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_LONG_WORD = re.compile(rf"\S{{{_WORD + 1},}}")


class EarlyAnswer(JSONResponse):
    """An answer to a request that has not arrived as a whole; the connection ends with it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, then take what still comes, within bounds."""
        self.headers["connection"] = "close"
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        left = _LINGER_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOPPING_SECONDS if self.status_code == 503 else _LINGER_SECONDS):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        break
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def told(error: Exception) -> tuple[int, str]:
    """Status and sentence for an error; of a fault of ours the log learns the reason, and the client does not."""
    if isinstance(error, DragomanError) and (error.http_status < 500 or type(error).__module__.endswith("refusals")):
        return error.http_status, bounded(error.named(_NAMES))
    logger.error("a request failed:", exc_info=error)
    return 500, str(InternalError())


def bounded(sentence: str) -> str:
    """A sentence of bounded length: what it quotes is shortened, and where that is not enough, its end is cut."""
    found = _QUOTE.sub(lambda quote: f'"{shortened(quote[1], _QUOTED)}"', sentence[: 10 * _LONGEST])
    return shortened(_LONG_WORD.sub(lambda word: shortened(word[0], _WORD), found), _LONGEST)


def answer_to(error: Exception, *, early: bool = False) -> Response:
    """The answer to an error; ``early``: the request has not arrived as a whole."""
    if isinstance(error, GoneError):
        return Response(status_code=CLIENT_GONE)
    status, message = told(error)
    if early:
        return EarlyAnswer({"error": message}, status)
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, BusyError) else None
    return JSONResponse({"error": message}, status, headers)


async def refuse_address(request: Request, error: Exception) -> Response:
    """The answer where no address fits, or not with this method; then the header Allow says which ones fit."""
    assert isinstance(error, HTTPException)
    status, headers = error.status_code, dict(error.headers or {})
    message = f"{HTTPStatus(status).phrase}."
    if status == 404:
        message = "there is nothing at this address; GET /docs lists the addresses."
    elif status == 405:
        # Where nothing is said, it is a file. Whatever takes GET takes HEAD too: see gate.py.
        said = {name.strip() for name in headers.get("Allow", "GET").split(",")}
        allowed = sorted(said | ({"HEAD"} if "GET" in said else set()))
        headers["Allow"] = ", ".join(allowed)
        message = f"this address takes no {request.method}, but {' and '.join(allowed)}; GET /docs lists the addresses."
    return JSONResponse({"error": bounded(message)}, status, headers)
