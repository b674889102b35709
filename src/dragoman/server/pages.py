"""The web page and its files, the views of ``visualize`` for it, and the description of the interface."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Receive, Scope, Send

from dragoman.server.manual import manual

_STATIC = files("dragoman.server").joinpath("static")
_VIEWS = files("dragoman.visualize").joinpath("assets")
# Scripts, styles and requests of our own address alone; no script in the page itself, and no markup made of text.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# A browser asks whether a file has changed: those of two versions do not get mixed.
_FRESH = {"Cache-Control": "no-cache"}
_PAGE: Mapping[str, str] = {**_FRESH, "Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"}


class WholeFile(FileResponse):
    """A file, whole also where a part is asked for, as RFC 9110, 14.2 allows: they are small."""

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, **options)
        self.headers["Accept-Ranges"] = "none"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)


class Files(StaticFiles):
    """The files of a folder."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """A file, or that it has not changed."""
        response = WholeFile(str(full_path), status_code=status_code, stat_result=stat_result)
        if self.is_not_modified(response.headers, Headers(scope=scope)):
            return NotModifiedResponse(response.headers)
        return response

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, or that it has not changed."""
        response = await super().get_response(path, scope)
        response.headers.update(_FRESH)
        return response


def add_pages(app: FastAPI) -> None:
    """Serve them at ``/``, ``/static``, ``/views`` and ``/docs``."""

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page() -> Response:
        return WholeFile(str(_STATIC.joinpath("index.html")), headers=_PAGE)

    @app.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(manual(app.openapi()))

    app.mount("/static", Files(directory=str(_STATIC)), name="static")
    app.mount("/views", Files(directory=str(_VIEWS)), name="views")
