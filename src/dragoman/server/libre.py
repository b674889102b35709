"""The addresses that LibreTranslate's clients ask: /translate, /detect, /languages, /frontend/settings."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.server import answered, asked
from dragoman.server.catalogue import AUTO, Found, Served
from dragoman.server.describing import ASKING, TRANSLATING, gives, takes
from dragoman.server.documents import Part, parts_of, put_together
from dragoman.server.inline import Group, grouped
from dragoman.server.languages import name_of
from dragoman.server.looks import links_of
from dragoman.server.markup import Piece, pieces_of, plain, written
from dragoman.server.queue import Sentence
from dragoman.server.service import Service
from dragoman.server.tagging import Writing
from dragoman.server.wordings import Wording, Wordings
from dragoman.text.languages import language_of
from dragoman.text.sentences import has_word

# The best of a language is found with at least as many hypotheses as it has translations.
_SURE = Found("", 100.0)
# Languages without spaces between words: there words have no links.
_UNSPACED = frozenset(("zh", "yue", "ja", "th", "lo", "my", "km", "bo", "dz"))


@dataclass(frozen=True)
class Text:
    """One text of a request: the model for it, its language, and its runs, each text run as sentences."""

    served: Served
    language: Found
    runs: list[tuple[Piece | Group, list[Part]]]

    @classmethod
    def of(cls, text: str, served: Served, language: Found, markup: bool) -> Text:
        """A text, or a document of HTML."""
        pieces: Sequence[Piece | Group] = [Piece(text, True)]
        if markup:
            pieces = pieces_of(text)
            if not _UNSPACED & {language_of(served.source), language_of(served.target)}:
                pieces = list(grouped(pieces))
        return cls(served, language, [(piece, _parts(piece, markup)) for piece in pieces])

    @property
    def parts(self) -> list[Part]:
        """The sentences of all runs."""
        return [part for _, parts in self.runs for part in parts]

    @property
    def tagged(self) -> list[bool]:
        """For each sentence of all runs whether tags stand inside it."""
        found: list[bool] = []
        for piece, parts in self.runs:
            found += piece.tagged_parts(parts) if isinstance(piece, Group) else [False] * len(parts)
        return found

    def written(self, wordings: Sequence[Wording], markup: bool) -> str:
        """The document with a translation for each sentence."""
        whole, left = "", iter(wordings)
        for piece, parts in self.runs:
            if isinstance(piece, Group):
                writing = Writing(piece)
                for part in parts:
                    own = next(left)
                    writing.add(part, own.translation.text, own.links)
                whole += writing.html()
            elif parts:
                text = put_together(parts, [next(left).translation.text for _ in parts])
                whole += written(text) if markup else text
            else:
                whole += piece.content
        return whole


def _parts(piece: Piece | Group, markup: bool) -> list[Part]:
    """The sentences of a run; none where it stays as it is written."""
    if isinstance(piece, Group):
        return parts_of(piece.text, lines=False)
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
        found = []
        for text in texts:
            found.append(_text(service, wanted, text))
            await asyncio.sleep(0)  # other requests are read and answered between two texts
        wordings = await _translated(service, request, wanted, found, deadline)
        return JSONResponse(_answer(wanted, found, wordings))

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
) -> list[list[list[Wording]]]:
    """The translations of each text's sentences, best first; the sentences of all texts for a model wait together."""
    entries = []
    for served in dict.fromkeys(text.served for text in texts):
        own = [text.parts for text in texts if text.served is served]
        options: dict[str, Any] = {}
        if wanted.alternatives:
            count = wanted.alternatives + 1
            beam = served.translator.bundle.decode.beam_size
            options = {"n_best": count, "beam_size": max(count, beam)}
        sentences = service.sentences(served, own)
        tagged = [one for text in texts if text.served is served for one in text.tagged]
        for sentence, inside in zip(sentences, tagged, strict=True):
            sentence.tagged = inside
        entries.append((served, service.put_texts(served, sentences, deadline, options)))
    outcomes = await service.outcome(request, *(entry for _, entry in entries))
    found = {
        served.name: iter(await _linked(service, request, served, outcome, deadline))
        for (served, _), outcome in zip(entries, outcomes, strict=True)
    }
    return [[next(found[text.served.name]) for _ in text.parts] for text in texts]


async def _linked(
    service: Service, request: Request, served: Served, sentences: list[Sentence], deadline: float
) -> list[list[Wording]]:
    """All translations of translated sentences, best first, with the links of their words where these are needed."""
    wordings = Wordings(sentences, service.limits)
    if not wordings.pairs:
        return wordings.with_links([])
    # One piece of work for all of them, in which other requests have their turns.
    work = links_of(wordings.pairs)
    (links,) = await service.outcome(request, service.put_alone(served, work, deadline, within=False))
    return wordings.with_links(links)


def _answer(wanted: asked.LibreTranslate, texts: list[Text], wordings: list[list[list[Wording]]]) -> dict[str, Any]:
    markup = wanted.format == "html"
    pairs = list(zip(texts, wordings, strict=True))
    best = [text.written([_nth(one, 0) for one in own], markup) for text, own in pairs]
    others = []
    for text, own in pairs:
        most = min(wanted.alternatives, max(map(len, own), default=1) - 1)
        others.append([text.written([_nth(one, n) for one in own], markup) for n in range(1, most + 1)])
    listed = not isinstance(wanted.q, str)
    answer: dict[str, Any] = {"translatedText": best if listed else best[0]}
    if wanted.alternatives:
        answer["alternatives"] = others if listed else others[0]
    if wanted.source == AUTO:
        found = [_detected(text.language) for text in texts]
        answer["detectedLanguage"] = found if listed else found[0]
    return answer


def _nth(wordings: Sequence[Wording], n: int) -> Wording:
    """The ``n``-th translation of a sentence, the best where it has fewer."""
    return wordings[n] if n < len(wordings) else wordings[0]


def _detected(found: Found) -> dict[str, Any]:
    return {"confidence": found.confidence, "language": found.language}
