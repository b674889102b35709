"""The way in: metrics, errors, and the short way to our own addresses.

FastAPI describes the addresses and serves the page, the files and the refusals of what there is not. Requests to the
addresses themselves do not pass through it: their bodies are read and checked here anyway, and its layers would cost
as much as all the rest of a request together.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.server.errors import answer_to, told
from dragoman.server.metrics import Metrics
from dragoman.server.refusals import BadRequestError

Endpoint = Callable[[Request], Awaitable[Response]]
Endpoints = Mapping[tuple[str, str], Endpoint]


def endpoints_of(routes: Iterable[BaseRoute]) -> dict[tuple[str, str], Endpoint]:
    """The functions of routes by method and address."""
    own = [route for route in routes if isinstance(route, APIRoute)]
    return {(method, route.path): route.endpoint for route in own for method in route.methods or ()}


class Gate:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, endpoints: Endpoints, metrics: Metrics) -> None:
        self.app = app
        self.endpoints = endpoints
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever comes of it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.monotonic()
        # HEAD is a GET whose body the connection does not send.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self.endpoints.get((method, scope["path"]))
        status = 0
        arriving = any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
            for name, value in scope["headers"]
        )

        async def received() -> Message:
            nonlocal arriving
            message = await receive()
            arriving = message.get("more_body", False)
            return message

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        try:
            if scope["http_version"] == "1.1" and sum(name == b"host" for name, _ in scope["headers"]) != 1:
                raise BadRequestError("an HTTP/1.1 request names its server in one header Host; send it with that.")
            if endpoint is None:
                await self.app(scope, receive, sent)
            else:
                response = await endpoint(Request(scope, received))
                await response(scope, received, sent)
        except Exception as error:  # whatever it is, the client gets an answer and no stack trace
            if status == 0:
                await answer_to(error, early=arriving)(scope, receive, sent)
            else:
                told(error)
        finally:
            # Made-up addresses do not fill the metrics.
            path = "other" if endpoint is None else scope["path"]
            self.metrics.answered(path, status, time.monotonic() - started)
