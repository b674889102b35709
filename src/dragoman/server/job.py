"""One request to /v1/translate, from its fields to its answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from dragoman.server import answered, asked
from dragoman.server.catalogue import AUTO, Found, Served
from dragoman.server.documents import Part, parts_of, whole
from dragoman.server.errors import told
from dragoman.server.looks import Look, looks_of, weights_of
from dragoman.server.queue import Sentence
from dragoman.server.refusals import BadRequestError, GoneError, TooLargeError
from dragoman.server.service import Service
from dragoman.server.streaming import streamed
from dragoman.translating.terms import Terms


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
        self.options = wanted.given(self.served.translator.bundle.decode)
        self.beside = {"strict_terms": wanted.strict_terms}
        self.sentences = service.sentences(self.served, self.parts, Terms(self.terms) if self.terms else None)
        if self.looks and len(self.sentences) > service.limits.attention_sentences:
            raise TooLargeError(
                f"attention and alignments are given for {service.limits.attention_sentences} sentences at once, and "
                f"here are {len(self.sentences)}; send them in several requests."
            )
        self._check_size([0] * len(self.sentences))
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

    def _check_size(self, targets: Sequence[int]) -> None:
        """Whether what is to be shown of the sentences stays within bounds, ``targets`` tokens of each translation."""
        if not self.looks:
            return
        shape, weights = self.served.translator.model.config, 0
        for sentence, count in zip(self.sentences, targets, strict=True):
            self.service.check_shown("a sentence", sentence.tokens)
            self.service.check_shown("a translation", count)
            weights += weights_of(shape, sentence.tokens, count)
        if self.wanted.attention:
            self.service.check_weights(weights)

    async def answer(self, request: Request) -> dict[str, Any]:
        """The translations of all texts, from the queue that they share with other requests."""
        entry = self.service.put_texts(
            self.served, self.sentences, self.deadline, self.options, self.terms, **self.beside
        )
        await self.service.outcome(request, entry)
        return await self._written(request)

    async def _written(self, request: Request) -> dict[str, Any]:
        """The answer, when every sentence has its translation."""
        if not self.looks or not self.sentences:
            return self._answer([Look()] * len(self.sentences))
        # The weights are computed when it is known how many they are.
        self._check_size([len(one.found.ids) for one in self.sentences if one.found is not None])
        work = looks_of(self.sentences, self.wanted.attention, self.wanted.alignments)
        (looks,) = await self.service.outcome(
            request, self.service.put_alone(self.served, work, self.deadline, within=False)
        )
        # They are many numbers: another thread writes them, so that other requests go on.
        return await asyncio.to_thread(self._answer, looks)

    def _answer(self, looks: Sequence[Look]) -> dict[str, Any]:
        left = iter(zip(self.sentences, looks, strict=True))
        answer: dict[str, Any] = {
            "model": self.served.name,
            "source": self.served.source,
            "target": self.served.target,
            "translations": [
                answered.translated(parts, [_sentence(part, *next(left)) for part in parts]) for parts in self.parts
            ],
        }
        if self.found is not None:
            answer["detected"] = {"language": self.found.language, "confidence": self.found.confidence}
        return answer

    async def stream(self, request: Request) -> Response:
        """Server-sent events. What goes wrong before the first one is an ordinary error."""
        if not isinstance(self.wanted.text, str):
            raise BadRequestError("only one text can be streamed; give a string, or set stream to false.")
        options = {**self.options, **self.beside}
        if self.terms:
            options["terms"] = self.terms
        self.service.check_work(self.served, self.sentences, self.options)
        pieces = streamed(self.service, self.served, self.parts[0], self.sentences, options, self.deadline)
        first = asyncio.ensure_future(_next(pieces))
        try:
            head = await self.service.unless_gone(request, first, self.deadline)
        except BaseException:
            await asyncio.wait([first])  # it was cancelled, and a generator can be closed only where it rests
            await pieces.aclose()
            raise
        return StreamingResponse(
            self._events(request, head, pieces), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def _events(self, request: Request, head: str | None, pieces: AsyncGenerator[str]) -> AsyncIterator[str]:
        try:
            async with contextlib.aclosing(pieces):
                if head is not None:
                    yield event("piece", {"text": head})
                    async for piece in pieces:
                        yield event("piece", {"text": piece})
            yield event("done", await self._written(request))
        except GoneError:
            return
        except Exception as error:  # the head has gone out: the rest is told in an event
            status, message = told(error)
            yield event("error", {"error": message, "status": status})


def _sentence(part: Part, sentence: Sentence, look: Look) -> dict[str, Any]:
    assert sentence.found is not None
    return answered.sentence(part, sentence.found, look.alignment, look.attention)


async def _next(pieces: AsyncIterator[str]) -> str | None:
    return await anext(pieces, None)


def event(name: str, data: Any) -> str:
    """One server-sent event; JSON has no line breaks."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
