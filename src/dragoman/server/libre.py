"""The addresses that LibreTranslate's clients ask: /translate, /detect, /languages, /frontend/settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.server import answered, asked
from dragoman.server.catalogue import AUTO, Found, Served
from dragoman.server.describing import ASKING, TRANSLATING, gives, takes
from dragoman.server.documents import Part, parts_of, put_together
from dragoman.server.languages import name_of
from dragoman.server.markup import Piece, pieces_of, plain, written
from dragoman.server.queue import Sentence
from dragoman.server.service import Service
from dragoman.text.sentences import has_word

# The best of a language is found with at least as many hypotheses as it has translations.
_SURE = Found("", 100.0)


@dataclass(frozen=True)
class Text:
    """One text of a request: the model for it, its language, and its runs, each text run as sentences."""

    served: Served
    language: Found
    runs: list[tuple[Piece, list[Part]]]

    @classmethod
    def of(cls, text: str, served: Served, language: Found, markup: bool) -> Text:
        """A text, or a document of HTML."""
        pieces = pieces_of(text) if markup else [Piece(text, True)]
        runs = [(piece, _parts(piece, markup)) for piece in pieces]
        return cls(served, language, runs)

    @property
    def parts(self) -> list[Part]:
        """The sentences of all runs."""
        return [part for _, parts in self.runs for part in parts]

    def written(self, translations: list[str], markup: bool) -> str:
        """The document with a translation for each sentence."""
        whole, at = "", 0
        for piece, parts in self.runs:
            if parts:
                text = put_together(parts, translations[at : at + len(parts)])
                at += len(parts)
                whole += written(text) if markup else text
            else:
                whole += piece.content
        return whole


def _parts(piece: Piece, markup: bool) -> list[Part]:
    """The sentences of a run; none where it stays as it is written."""
    content = plain(piece.content) if markup else piece.content
    return parts_of(content, lines=not markup) if piece.is_text and has_word(content) else []


def router(service: Service) -> APIRouter:
    """The addresses, answered by ``service``."""
    routes = APIRouter(tags=["LibreTranslate"])

    @routes.post(
        "/translate",
        summary="Translate a text, or a list of texts",
        response_model=answered.LibreTranslated,
        response_model_exclude_none=True,
        responses=gives(*TRANSLATING),
        openapi_extra=takes(asked.LibreTranslate, forms=True),
    )
    async def translate(request: Request) -> Response:
        deadline = service.deadline()
        wanted = await service.read(request, asked.LibreTranslate, forms=True)
        texts = [wanted.q] if isinstance(wanted.q, str) else list(wanted.q)
        service.check_characters(texts)
        found = [_text(service, wanted, text) for text in texts]
        sentences = await _translated(service, request, wanted, found, deadline)
        return JSONResponse(_answer(wanted, found, sentences))

    @routes.post(
        "/detect",
        summary="Which of the languages that are translated from a text is in",
        response_model=list[answered.Detected],
        responses=gives(*ASKING),
        openapi_extra=takes(asked.Detect, forms=True),
    )
    async def detect(request: Request) -> Response:
        wanted = await service.read(request, asked.Detect, forms=True)
        service.check_characters([wanted.q])
        return JSONResponse([_detected(one) for one in service.catalogue.detect(wanted.q)])

    @routes.get("/languages", summary="The languages", response_model=list[answered.Language])
    async def languages(request: Request) -> Response:
        return JSONResponse(service.catalogue.languages())

    @routes.get("/frontend/settings", summary="Limits and defaults", response_model=answered.Settings)
    async def settings(request: Request) -> Response:
        first = next(iter(service.catalogue.models.values()))
        pair = {"source": first.source, "target": first.target}
        return JSONResponse(
            {
                "apiKeys": service.needs_key,
                "charLimit": service.limits.max_characters,
                "filesTranslation": False,
                "frontendTimeout": 500,
                "keyRequired": service.needs_key,
                "language": {side: {"code": code, "name": name_of(code)} for side, code in pair.items()},
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    return routes


def _text(service: Service, wanted: asked.LibreTranslate, text: str) -> Text:
    """A text with the model for it. Raises :class:`BadRequestError` for languages that there are not."""
    markup = wanted.format == "html"
    source, language = wanted.source, _SURE
    if wanted.source == AUTO:
        shown = "".join(plain(piece.content) for piece in pieces_of(text) if piece.is_text) if markup else text
        language = service.catalogue.detect(shown, wanted.target, wanted.model)[0]
        source = language.language
    return Text.of(text, service.catalogue.choose(wanted.model, source, wanted.target), language, markup)


async def _translated(
    service: Service, request: Request, wanted: asked.LibreTranslate, texts: list[Text], deadline: float
) -> list[list[Sentence]]:
    """The translated sentences of each text; those of all texts for one model wait together."""
    entries = []
    for served in dict.fromkeys(text.served for text in texts):
        own = [text.parts for text in texts if text.served is served]
        options: dict[str, Any] = {}
        if wanted.alternatives:
            count = wanted.alternatives + 1
            beam = served.translator.bundle.decode.beam_size
            options = {"n_best": count, "beam_size": max(count, beam)}
        entries.append((served, service.put_texts(served, service.sentences(served, own), deadline, options)))
    outcomes = await service.outcome(request, *(entry for _, entry in entries))
    left = {served.name: iter(outcome) for (served, _), outcome in zip(entries, outcomes, strict=True)}
    return [[next(left[text.served.name]) for _ in text.parts] for text in texts]


def _answer(wanted: asked.LibreTranslate, texts: list[Text], sentences: list[list[Sentence]]) -> dict[str, Any]:
    markup = wanted.format == "html"
    pairs = list(zip(texts, sentences, strict=True))
    best = [text.written([_nth(one, 0) for one in own], markup) for text, own in pairs]
    others = []
    for text, own in pairs:
        most = max((len(one.found.alternatives) for one in own if one.found is not None), default=0)
        wordings = [text.written([_nth(one, n) for one in own], markup) for n in range(1, most + 1)]
        others.append(wordings[: wanted.alternatives])
    listed = not isinstance(wanted.q, str)
    answer: dict[str, Any] = {"translatedText": best if listed else best[0]}
    if wanted.alternatives:
        answer["alternatives"] = others if listed else others[0]
    if wanted.source == AUTO:
        found = [_detected(text.language) for text in texts]
        answer["detectedLanguage"] = found if listed else found[0]
    return answer


def _nth(sentence: Sentence, n: int) -> str:
    """The ``n``-th translation of a sentence, the best where it has fewer."""
    assert sentence.found is not None
    every = [sentence.found, *sentence.found.alternatives]
    return (every[n] if n < len(every) else every[0]).text


def _detected(found: Found) -> dict[str, Any]:
    return {"confidence": found.confidence, "language": found.language}
