"""The addresses of our own: everything that is known of a translation."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from dragoman.server import answered, asked
from dragoman.server.catalogue import AUTO, Found, Served
from dragoman.server.describing import TRANSLATING, gives, takes
from dragoman.server.documents import Part, parts_of, whole
from dragoman.server.errors import told
from dragoman.server.languages import name_of
from dragoman.server.looks import attention_of, replay_of
from dragoman.server.queue import Sentence
from dragoman.server.refusals import BadRequestError, TooLargeError
from dragoman.server.service import Service
from dragoman.server.streaming import streamed
from dragoman.text.sentences import plainly_spaced
from dragoman.translating.terms import Terms
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
            found = translator.alternatives(text, prefix, wanted.n, **wanted.given())
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


def chosen(
    service: Service, wanted: asked.OneModel, texts: list[str], beside: Sequence[str] = ()
) -> tuple[Served, Found | None]:
    """The model that a request means, and the language that was found where it asks for that.

    What stands ``beside`` the texts counts as text.

    Raises :class:`TooLargeError` for too much text, and as :meth:`Catalogue.choose` does.
    """
    service.check_characters([*texts, *beside])
    source, found = wanted.source, None
    if source == AUTO:
        found = service.catalogue.detect("\n".join(texts), wanted.target, wanted.model)[0]
        source = found.language
    return service.catalogue.choose(wanted.model, source, wanted.target), found


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


class Job:
    """One request to /v1/translate. Raises :class:`DragomanError` for what cannot be done, before anything waits."""

    def __init__(self, service: Service, wanted: asked.Translate, deadline: float) -> None:
        self.service = service
        self.wanted = wanted
        self.deadline = deadline
        texts = [wanted.text] if isinstance(wanted.text, str) else list(wanted.text)
        beside = [*(wanted.constraints or ()), *wanted.terms, *wanted.terms.values()]
        self.served, self.found = chosen(service, wanted, texts, beside)
        self.parts = [parts_of(text) if wanted.split else whole(text) for text in texts]
        self.terms = tuple(wanted.terms.items())
        self.looks = wanted.attention or wanted.alignments
        self.beside = {"attention": self.looks, "strict_terms": wanted.strict_terms}
        self.sentences = service.sentences(self.served, self.parts, Terms(self.terms) if self.terms else None)
        if self.looks and len(self.sentences) > service.limits.attention_sentences:
            raise TooLargeError(
                f"attention and alignments are given for {service.limits.attention_sentences} sentences at once, and "
                f"here are {len(self.sentences)}; send them in several requests."
            )
        if self.looks:
            for sentence in self.sentences:
                service.check_shown("a sentence", sentence.tokens)
        self._add_prefixes()

    def _add_prefixes(self) -> None:
        """Give each sentence its prefix and constraints; both are for texts of one sentence."""
        wanted = self.wanted
        prefixes: list[str] = (
            [] if wanted.prefix is None else [wanted.prefix] if isinstance(wanted.prefix, str) else list(wanted.prefix)
        )
        if not prefixes and not wanted.constraints:
            return
        if prefixes and (
            len(prefixes) != len(self.parts) or isinstance(wanted.prefix, str) != isinstance(wanted.text, str)
        ):
            raise BadRequestError(
                "prefix and text do not fit; give a string for a string, and as many as texts for a list."
            )
        if any(len(parts) > 1 for parts in self.parts):
            raise BadRequestError(
                "a prefix and constraints belong to one sentence, and a text has several; set split to false."
            )
        for sentence in self.sentences:
            sentence.constraints = tuple(wanted.constraints or ())
            sentence.phrases += len(sentence.constraints)
            if prefixes:
                sentence.prefix = prefixes[sentence.line]
                self.service.check_sentence(self.served, sentence.prefix, "a prefix", target=True)

    async def answer(self, request: Request) -> dict[str, Any]:
        """The translations of all texts, from the queue that they share with other requests."""
        entry = self.service.put_texts(
            self.served, self.sentences, self.deadline, self.wanted.given(), self.terms, **self.beside
        )
        (sentences,) = await self.service.outcome(request, entry)
        return await self._written(sentences)

    async def _written(self, sentences: list[Sentence]) -> dict[str, Any]:
        # Weights are many numbers: they are written by another thread, so that other requests go on.
        return await asyncio.to_thread(self._answer, sentences) if self.looks else self._answer(sentences)

    def _answer(self, sentences: list[Sentence]) -> dict[str, Any]:
        left = iter(sentences)
        answer: dict[str, Any] = {
            "model": self.served.name,
            "source": self.served.source,
            "target": self.served.target,
            "translations": [
                answered.translated(parts, [self._sentence(part, next(left)) for part in parts]) for parts in self.parts
            ],
        }
        if self.found is not None:
            answer["detected"] = {"language": self.found.language, "confidence": self.found.confidence}
        return answer

    def _sentence(self, part: Part, sentence: Sentence) -> dict[str, Any]:
        assert sentence.found is not None
        links = None
        if self.wanted.alignments:
            from dragoman.visualize.alignment import align, pharaoh

            links = pharaoh(align(sentence.text, sentence.found, self.served.translator.special))
        return answered.sentence(part, sentence.found, links, self.wanted.attention)

    async def stream(self, request: Request) -> Response:
        """Server-sent events. What goes wrong before the first one is an ordinary error."""
        if not isinstance(self.wanted.text, str):
            raise BadRequestError("only one text can be streamed; give a string, or set stream to false.")
        options = {**self.wanted.given(), **self.beside}
        if self.terms:
            options["terms"] = self.terms
        self.served.translator.decode_config(**self.wanted.given())
        pieces = streamed(self.service, self.served, self.parts[0], self.sentences, options, self.deadline)
        first = asyncio.ensure_future(_next(pieces))
        try:
            head = await self.service.unless_gone(request, first, self.deadline)
        except BaseException:
            await asyncio.wait([first])  # it was cancelled, and a generator can be closed only where it rests
            await pieces.aclose()
            raise
        return StreamingResponse(
            self._events(head, pieces), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def _events(self, head: str | None, pieces: AsyncGenerator[str]) -> AsyncIterator[str]:
        try:
            async with contextlib.aclosing(pieces):
                if head is not None:
                    yield event("piece", {"text": head})
                    async for piece in pieces:
                        yield event("piece", {"text": piece})
            yield event("done", await self._written(self.sentences))
        except Exception as error:  # the head has gone out: the rest is told in an event
            status, message = told(error)
            yield event("error", {"error": message, "status": status})


async def _next(pieces: AsyncIterator[str]) -> str | None:
    return await anext(pieces, None)


def event(name: str, data: Any) -> str:
    """One server-sent event; JSON has no line breaks."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
