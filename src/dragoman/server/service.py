"""What every address of the server needs: who may ask, what a request may hold, and waiting for the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.requests import Request

from dragoman.config import DecodeConfig
from dragoman.server import body
from dragoman.server.asked import Asked
from dragoman.server.catalogue import Catalogue, Served
from dragoman.server.cost import is_light, weigh, width_of
from dragoman.server.documents import Part
from dragoman.server.keys import Keys
from dragoman.server.limits import Limits
from dragoman.server.metrics import Metrics
from dragoman.server.queue import Alone, Entry, Sentence, Texts
from dragoman.server.refusals import GoneError, LateError, TooLargeError
from dragoman.server.waiting import LINE, Clock, Line, fail
from dragoman.translating.terms import Terms
from dragoman.translator import Translator

A = TypeVar("A", bound=Asked)
T = TypeVar("T")

# The beam that ``batch_tokens`` is meant for; a wider one gets smaller batches.
_BEAM = 5


class Service:
    """The models of one server, with its limits and keys. No key: everybody may ask."""

    def __init__(self, catalogue: Catalogue, limits: Limits, metrics: Metrics, keys: Sequence[str] = ()) -> None:
        self.catalogue = catalogue
        self.limits = limits
        self.metrics = metrics
        self.clock = Clock()
        self.keys = Keys(keys)
        self.reader = body.Reader(limits, self.clock)

    @property
    def needs_key(self) -> bool:
        """Whether a request has to bring a key."""
        return bool(self.keys)

    def deadline(self) -> float:
        """When the answer to a request that comes now is due, on the clock of :func:`time.monotonic`."""
        return time.monotonic() + self.limits.timeout

    def admit(self, request: Request, key: str | None = None) -> None:
        """Raises :class:`ForbiddenError` as :meth:`Keys.admit` does."""
        self.keys.admit(request, key)

    async def read(self, request: Request, model: type[A], *, forms: bool = False) -> A:
        """The body of a request that is admitted. Raises as :meth:`Reader.read`, :func:`body.parse`, :meth:`admit`.

        A request whose head brings a key that is none is refused before its body is read.
        """
        self.keys.check_head(request)
        content = await self.reader.read(request)
        asked = body.parse(content, request.headers.get("content-type", ""), model, forms=forms)
        self.admit(request, asked.api_key)
        return asked

    def check_characters(self, texts: Sequence[str]) -> None:
        """Raises :class:`TooLargeError` for more text than a request may hold; an empty text counts as a character."""
        size = sum(max(1, len(text)) for text in texts)
        if size > self.limits.max_characters:
            raise TooLargeError(
                f"the request holds {size:,} characters and may hold {self.limits.max_characters:,}; "
                "send it in several."
            )

    def check_sentence(
        self, served: Served, text: str, name: str = "a sentence", *, target: bool = False, attention: bool = False
    ) -> int:
        """How many tokens a sentence has, special ones included. Raises :class:`TooLargeError` for too many.

        ``attention``: its weights are to be shown, of which there are as many as the square of that for each head.
        """
        tokenizers, intake = served.translator.bundle.tokenizers, served.translator.intake
        tokens = len(intake.with_special((tokenizers.tgt if target else tokenizers.src).encode(text)))
        if tokens > served.most_tokens:
            raise TooLargeError(
                f"{name} has {tokens:,} tokens and the model takes {served.most_tokens:,}; break it up."
            )
        if attention:
            self.check_shown(name, tokens)
        return tokens

    def check_shown(self, name: str, tokens: int) -> None:
        """Raises :class:`TooLargeError` for more tokens than attention is given for."""
        if tokens > self.limits.attention_tokens:
            raise TooLargeError(
                f"{name} has {tokens:,} tokens and attention is given for up to {self.limits.attention_tokens:,}; "
                "break it up."
            )

    def check_weights(self, count: int) -> None:
        """Raises :class:`TooLargeError` for more attention weights than one answer holds."""
        if count > self.limits.attention_weights:
            raise TooLargeError(
                f"the answer would hold {count:,} attention weights and may hold {self.limits.attention_weights:,}; "
                "send fewer or shorter sentences, or leave attention out."
            )

    def sentences(self, served: Served, texts: Sequence[Sequence[Part]], terms: Terms | None = None) -> list[Sentence]:
        """The sentences of texts. Raises :class:`TooLargeError` for one that is too long, or holds too many terms."""
        found = []
        for line, parts in enumerate(texts):
            for part in parts:
                held = 0 if terms is None else len(terms.targets(part.read))
                if held > self.limits.phrases:
                    raise TooLargeError(f"a sentence holds more than {self.limits.phrases} terms; break it up.")
                found.append(Sentence(part.read, self.check_sentence(served, part.read), line, phrases=held))
        return found

    def check_work(self, served: Served, sentences: Sequence[Sentence], options: dict[str, Any]) -> DecodeConfig:
        """The search that is asked for. Raises :class:`TooLargeError` where it may take more than a request may cost.

        Raises :class:`ConfigError` for options that cannot be.
        """
        config = served.translator.decode_config(**options)
        charge = weigh(sentences, served.translator.intake, config)
        if charge > self.limits.max_work:
            raise TooLargeError(
                f"the request asks for a search of {charge:,} target tokens, those of every hypothesis, and may ask "
                f"for {self.limits.max_work:,}; send it in several, or lower beam_size, min_length or max_length."
            )
        return config

    def put_texts(
        self,
        served: Served,
        sentences: list[Sentence],
        deadline: float,
        options: dict[str, Any],
        terms: Sequence[tuple[str, str]] = (),
        **beside: Any,
    ) -> Texts:
        """Put sentences into the queue of a model. ``beside`` the options: more arguments of ``translate``.

        Raises :class:`ConfigError` for options that cannot be, :class:`TooLargeError` for too much work,
        :class:`BusyError`.
        """
        config = self.check_work(served, sentences, options)
        width = width_of(config)
        entry = Texts(
            asyncio.get_running_loop().create_future(),
            deadline,
            self.limits.timeout,
            sentences=sentences,
            key=(config, tuple(terms), tuple(sorted(beside.items()))),
            options={**options, **beside, **({"terms": terms} if terms else {})},
            budget=self.limits.batch_tokens * _BEAM // max(_BEAM, width),
            width=width,
            light=is_light(config),
        )
        if sentences:
            served.worker.queue.put(entry)
        else:
            entry.future.set_result([])
        return entry

    def put_alone(
        self,
        served: Served,
        work: Callable[[Translator], Any],
        deadline: float,
        *,
        within: bool = True,
        sentence: Sentence | None = None,
    ) -> Alone:
        """Put work that needs the model for itself into its queue. Raises :class:`BusyError`."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        entry = Alone(future, deadline, self.limits.timeout, work=work, sentence=sentence)
        served.worker.queue.put(entry, within=within)
        return entry

    async def outcome(self, request: Request, *entries: Entry) -> list[Any]:
        """What came of entries. Raises their errors, :class:`LateError`, :class:`GoneError` if the client hangs up."""
        line: Line = request.scope.get(LINE) or Line()

        def late() -> None:
            for entry in entries:
                fail(entry.future, LateError(self.limits.timeout))

        def gone() -> None:
            for entry in entries:
                fail(entry.future, GoneError())

        due = self.clock.at(entries[0].deadline, late)
        line.watch(gone)
        try:
            return [await entry.future for entry in entries]
        finally:
            self.clock.forget(due)
            line.forget(gone)
            for entry in entries:
                entry.abandoned = True

    async def unless_gone(self, request: Request, work: asyncio.Future[T], deadline: float) -> T:
        """What comes of ``work``, which is cancelled when it is late or the client hangs up."""
        gone = asyncio.ensure_future(_gone(request))
        left = max(0.0, deadline - time.monotonic())
        try:
            both: set[asyncio.Future[Any]] = {work, gone}
            done, _ = await asyncio.wait(both, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if work in done:
                return work.result()
            if gone in done:
                raise GoneError
            raise LateError(self.limits.timeout)
        finally:
            gone.cancel()
            work.cancel()


async def _gone(request: Request) -> None:
    """Returns when the client hangs up; the body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
