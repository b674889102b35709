"""The application: its addresses, its errors, its models' beginning and end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from dragoman import __version__
from dragoman.server import answered, libre, native
from dragoman.server.describing import describe, gives
from dragoman.server.errors import refuse_address
from dragoman.server.gate import Gate, endpoints_of
from dragoman.server.pages import add_pages
from dragoman.server.service import Service

_PLAIN = {"text/plain": {"schema": {"type": "string"}}}


def make_app(service: Service, cors: Sequence[str] = ()) -> ASGIApp:
    """The application of a service. ``cors``: origins whose pages may ask it; ``*`` for all."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        workers = [model.worker for model in service.catalogue.models.values()]
        for worker in workers:
            worker.start(asyncio.get_running_loop())
        yield
        for worker in workers:
            await asyncio.to_thread(worker.stop)

    # A redirection would name the address that the server has behind a proxy, or whatever the client calls it.
    app = FastAPI(
        title="dragoman",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    routers = [libre.router(service), native.router(service), _about(service)]
    for router in routers:
        app.include_router(router)
    add_pages(app)
    app.add_exception_handler(HTTPException, refuse_address)
    described: list[dict[str, Any]] = []

    def openapi() -> dict[str, Any]:
        if not described:
            described.append(describe(app, service.needs_key))
        return described[0]

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's manual says
    endpoints = endpoints_of(route for router in routers for route in router.routes)
    gate = Gate(app, endpoints, service.metrics)
    if not cors:
        return gate
    headers = ["Authorization", "Content-Type", "X-API-Key"]
    return CORSMiddleware(gate, allow_origins=list(cors), allow_methods=["GET", "POST"], allow_headers=headers)


def _about(service: Service) -> APIRouter:
    """What is known of the server itself."""
    routes = APIRouter(tags=["server"])

    @routes.get("/health", summary="Whether the server works", response_model=answered.Health)
    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    @routes.get(
        "/metrics",
        summary="What the server counted, for Prometheus",
        response_class=Response,
        responses=gives(403, good={"description": "Prometheus' text format.", "content": _PLAIN}),
    )
    async def metrics(request: Request) -> Response:
        service.admit(request)
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes
