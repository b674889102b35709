"""The addresses of our own: everything that is known of a translation."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.server import answered, asked
from dragoman.server.catalogue import Served
from dragoman.server.describing import TRANSLATING, gives, takes
from dragoman.server.job import Job, chosen
from dragoman.server.languages import name_of
from dragoman.server.looks import attention_of, replay_of
from dragoman.server.refusals import BadRequestError
from dragoman.server.service import Service
from dragoman.text.sentences import plainly_spaced
from dragoman.translator import Translator


def router(service: Service) -> APIRouter:
    """The addresses, answered by ``service``."""
    routes = APIRouter(prefix="/v1", tags=["dragoman"])

    @routes.post(
        "/translate",
        summary="Translate, with everything that is known of it",
        description="With stream, server-sent events: piece holds the text that came to stand, done the whole answer, "
        "error what went wrong.",
        response_model=answered.Translations,
        response_model_exclude_none=True,
        responses=gives(*TRANSLATING, good={"content": {"text/event-stream": {}}}),
        openapi_extra=takes(asked.Translate),
    )
    async def translate(request: Request) -> Response:
        deadline = service.deadline()
        job = Job(service, await service.read(request, asked.Translate), deadline)
        if job.wanted.stream:
            return await job.stream(request)
        return JSONResponse(await job.answer(request))

    @routes.post(
        "/alternatives",
        summary="How a translation could go on",
        response_model=answered.Continuations,
        responses=gives(*TRANSLATING),
        openapi_extra=takes(asked.Alternatives),
    )
    async def alternatives(request: Request) -> Response:
        deadline = service.deadline()
        wanted = await service.read(request, asked.Alternatives)
        served, _ = chosen(service, wanted, [wanted.text])
        text = sentence_of(service, served, wanted.text)
        prefix = wanted.prefix if isinstance(wanted.prefix, str) else list(wanted.prefix)
        if isinstance(prefix, str):
            service.check_sentence(served, prefix, "the prefix", target=True)

        def work(translator: Translator) -> list[dict[str, Any]]:
            found = translator.alternatives(text, prefix, wanted.n, **wanted.given(translator.bundle.decode))
            return [answered.hypothesis(one) for one in found]

        (found,) = await service.outcome(request, service.put_alone(served, work, deadline))
        return JSONResponse({"model": served.name, "alternatives": found})

    @routes.post(
        "/attention",
        summary="What a translation attended to, as the attention view takes it",
        response_model=dict[str, Any],
        responses=gives(*TRANSLATING),
        openapi_extra=takes(asked.Attention),
    )
    async def attention(request: Request) -> Response:
        deadline = service.deadline()
        wanted = await service.read(request, asked.Attention)
        served, _ = chosen(service, wanted, [wanted.text])
        text = sentence_of(service, served, wanted.text, attention=True)
        if wanted.tgt is not None:
            if not wanted.tgt.strip():
                raise BadRequestError("tgt is blank; give a translation, or leave it out for the model's own.")
            service.check_sentence(served, wanted.tgt, "the translation", target=True, attention=True)
        work = attention_of(wanted, text, service.check_shown)
        (found,) = await service.outcome(request, service.put_alone(served, work, deadline))
        return JSONResponse(found)

    @routes.post(
        "/replay",
        summary="A beam search step by step, as the replay takes it",
        response_model=dict[str, Any],
        responses=gives(*TRANSLATING),
        openapi_extra=takes(asked.Replay),
    )
    async def replay(request: Request) -> Response:
        deadline = service.deadline()
        wanted = await service.read(request, asked.Replay)
        served, _ = chosen(service, wanted, [wanted.text])
        text = sentence_of(service, served, wanted.text)
        (found,) = await service.outcome(request, service.put_alone(served, replay_of(wanted, text), deadline))
        return JSONResponse(found)

    @routes.get("/models", summary="The models", response_model=list[answered.Model])
    async def models(request: Request) -> Response:
        return JSONResponse([_model(one) for one in service.catalogue.models.values()])

    return routes


def sentence_of(service: Service, served: Served, text: str, *, attention: bool = False) -> str:
    """A text of one sentence as the model reads it. Raises :class:`BadRequestError` for a blank one.

    Raises :class:`TooLargeError` as :meth:`Service.check_sentence` does.
    """
    read = plainly_spaced(text)
    if not read:
        raise BadRequestError("there is nothing to translate; give a text that holds more than white space.")
    service.check_sentence(served, read, "the text", attention=attention)
    return read


def _model(served: Served) -> dict[str, Any]:
    return {
        "name": served.name,
        "source": served.source,
        "source_name": name_of(served.source),
        "target": served.target,
        "target_name": name_of(served.target),
        "max_sentence_tokens": served.most_tokens,
        "decode": served.translator.bundle.decode.model_dump(mode="json"),
    }
