"""Streams inside the server: one search each, which ends when nobody reads on; clocks, lines and writing together."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.requests import Request

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from dragoman.server.catalogue import Catalogue, Served
from dragoman.server.documents import parts_of
from dragoman.server.limits import Limits
from dragoman.server.metrics import Metrics
from dragoman.server.protocol import Together
from dragoman.server.refusals import GoneError, LateError
from dragoman.server.service import Service
from dragoman.server.streaming import streamed
from dragoman.server.waiting import LINE, TICK, Clock, Line, fail
from serving import Server, serving
from tolerances import REORDERED

# Every sentence has so many steps, and a greedy search gives out a piece at most of them.
STEPS = 40
OPTIONS = {"beam_size": 1, "min_length": STEPS - 1, "max_length": STEPS}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_bundle(replace(make_bundle(max_length=1024), decode=DecodeConfig(beam_size=2)), folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Server]:
    with serving(model) as running:
        yield running
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)


class Steps:
    """Counts the steps of an engine; the one of number ``held`` waits for ``go``."""

    def __init__(self, translator: Translator, held: int = 0) -> None:
        self.count = 0
        self.go = threading.Event()
        real = translator.engine.step

        def step(*args: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == held:
                self.go.wait(30)
            return real(*args, **options)

        translator.engine.step = step  # type: ignore[method-assign]


def in_service(model: Path, job: Callable[[Service, Served], Coroutine[Any, Any, Any]], timeout: float = 60.0) -> Any:
    async def main() -> Any:
        limits, metrics = Limits(timeout=timeout), Metrics()
        service = Service(Catalogue.load([str(model)], limits, metrics, device="cpu"), limits, metrics)
        (served,) = service.catalogue.models.values()
        served.worker.start(asyncio.get_running_loop())
        try:
            return await job(service, served)
        finally:
            await asyncio.to_thread(served.worker.stop)

    return asyncio.run(main())


# one search


def test_the_pieces_and_then_the_translations(model: Path) -> None:
    text = "  Nobody found the key. A wind\n\n blows! "

    async def job(service: Service, served: Served) -> Any:
        parts = parts_of(text)
        sentences = service.sentences(served, [parts])
        steps = Steps(served.translator)
        stream = streamed(service, served, parts, sentences, OPTIONS, service.deadline())
        found = "".join([piece async for piece in stream])
        made = steps.count
        wanted = [served.translator.translate(part.body, **OPTIONS) for part in parts]
        whole = "".join(part.before + one.text + part.after for part, one in zip(parts, wanted, strict=True))
        assert (found, [one.found for one in sentences]) == (whole, wanted)
        assert (made, steps.count) == (STEPS * len(parts), 2 * STEPS * len(parts))

    in_service(model, job)


def test_the_last_event_needs_no_second_search(server: Server) -> None:
    asked = {"text": "Nobody found the key. A wind blows!", "options": OPTIONS}
    answer = server.post("/v1/translate", stream=True, attention=True, alignments=True, **asked).text
    name, data = answer.split("\n\n")[-2].split("\n")
    assert name == "event: done"
    metrics = server.get("/metrics").text
    assert 'dragoman_batch_sentences_count{model="en-de"} 0.0' in metrics
    assert f'dragoman_tokens_total{{model="en-de",side="target"}} {2.0 * STEPS}' in metrics
    whole = server.post("/v1/translate", attention=True, alignments=True, **asked)
    for found, wanted in zip(sentences(json.loads(data.removeprefix("data: "))), sentences(whole.json()), strict=True):
        assert set(found) == set(wanted)
        assert [found[name] for name in SAME] == [wanted[name] for name in SAME]
        assert found["score"] == pytest.approx(wanted["score"], abs=REORDERED)
        for layer, other in zip(found["attention"]["cross"], wanted["attention"]["cross"], strict=True):
            torch.testing.assert_close(torch.tensor(layer), torch.tensor(other), atol=REORDERED, rtol=0)


SAME = ("text", "source", "before", "after", "ids", "tokens", "src_tokens", "alignment", "finished", "unmet")


def sentences(answer: Any) -> Any:
    (whole,) = answer["translations"]
    assert whole["text"] == "".join(one["before"] + one["text"] + one["after"] for one in whole["sentences"])
    return whole["sentences"]


# an end when nobody reads on


def test_a_closed_stream_ends_its_search(model: Path) -> None:
    async def job(service: Service, served: Served) -> None:
        steps = Steps(served.translator, held=5)
        parts = parts_of(LINES[2])
        stream = streamed(service, served, parts, service.sentences(served, [parts]), OPTIONS, service.deadline())
        assert await anext(stream)
        await stream.aclose()
        steps.go.set()
        await service.put_alone(served, lambda translator: None, service.deadline()).future  # the next in turn
        assert 0 < steps.count <= 5

    in_service(model, job)


def test_a_search_without_pieces_ends_too(model: Path) -> None:
    """A beam may agree on nothing until its end; that nobody waits is seen after each step all the same."""

    async def job(service: Service, served: Served) -> None:
        steps = Steps(served.translator, held=3)
        parts = parts_of(LINES[2])
        served.translator.results.text = lambda ids: "�" * len(ids)  # type: ignore[method-assign]  # nothing is sure
        options = {**OPTIONS, "beam_size": 4}
        stream = streamed(service, served, parts, service.sentences(served, [parts]), options, service.deadline())
        first = asyncio.ensure_future(anext(stream))
        while steps.count < 3:
            await asyncio.sleep(0.001)
        first.cancel()
        await asyncio.wait([first])
        steps.go.set()
        await service.put_alone(served, lambda translator: None, service.deadline()).future
        assert steps.count == 3

    in_service(model, job)


def test_a_late_stream_ends_its_search(model: Path) -> None:
    async def job(service: Service, served: Served) -> None:
        steps = Steps(served.translator, held=4)
        parts = parts_of(LINES[2])
        stream = streamed(service, served, parts, service.sentences(served, [parts]), OPTIONS, service.deadline())
        with pytest.raises(LateError, match=r"within 0\.2 s"):
            [piece async for piece in stream]
        steps.go.set()
        await service.put_alone(served, lambda translator: None, time.monotonic() + 10).future
        assert steps.count == 4

    in_service(model, job, timeout=0.2)


def test_a_client_that_hangs_up_frees_the_model(server: Server) -> None:
    asked = {"text": LINES[2], "options": {"beam_size": 4, "min_length": 700, "max_length": 701}, "stream": True}
    begun = time.monotonic()
    assert "event: done" in server.post("/v1/translate", **asked).text
    whole = time.monotonic() - begun
    read = 'dragoman_tokens_total{model="en-de",side="target"} '
    before = server.get("/metrics").text.split(read)[1].split()[0]
    request = server.client.build_request("POST", "/v1/translate", json=asked)
    with server.connect() as connection:
        head = "POST /v1/translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: "
        connection.sendall(f"{head}{len(request.content)}\r\n\r\n".encode() + request.content)
        time.sleep(0.1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    begun = time.monotonic()
    # It needs the model for itself, and so has to wait until the stream is over.
    assert server.post("/v1/alternatives", text="key", n=1, options={"max_length": 1}).status_code == 200
    assert time.monotonic() - begun < whole / 2
    after = server.get("/metrics").text.split(read)[1].split()[0]
    assert after == before  # what was broken off counts for nothing


# waiting


@pytest.mark.parametrize(("gone", "error"), [(False, LateError), (True, GoneError)])
def test_a_request_does_not_wait_for_a_busy_model(model: Path, gone: bool, error: type[Exception]) -> None:
    """Its time, and its client's patience, end while its own batch is worked at."""

    async def job(service: Service, served: Served) -> None:
        steps, line = Steps(served.translator, held=1), Line()
        request = Request({"type": "http", "headers": [], LINE: line})
        found = service.sentences(served, [parts_of(LINES[0])])
        entry = service.put_texts(served, found, service.deadline() - 59 * (not gone), {})
        waiting = asyncio.ensure_future(service.outcome(request, entry))
        while not steps.count:
            await asyncio.sleep(0.001)
        if gone:
            line.hang_up()
        with pytest.raises(error):
            await waiting
        assert entry.abandoned
        assert (service.clock._calls, line._calls) == ({}, set())
        steps.go.set()

    in_service(model, job)


def test_a_clock_calls_when_a_time_is_over() -> None:
    async def main() -> None:
        clock, called, now = Clock(), [], time.monotonic()
        clock.at(now + 0.05, lambda: called.append("first"))
        gone = clock.at(now + 0.05, lambda: called.append("forgotten"))
        later = clock.at(now + 60.0, lambda: called.append("later"))
        second = clock.at(now - 1.0, lambda: (called.append("second"), clock.forget(third)))
        third = clock.at(now - 1.0, lambda: called.append("third"))
        clock.forget(gone)
        clock.forget(gone)
        assert called == []
        await asyncio.sleep(0.05 + 3 * TICK)
        assert called == ["first", "second"]
        clock.forget(later)
        clock.forget(second)
        await asyncio.sleep(2 * TICK)
        assert not clock._ticking  # nothing is left to look at
        clock.at(0.0, lambda: called.append("again"))
        await asyncio.sleep(2 * TICK)
        assert called == ["first", "second", "again"]

    asyncio.run(main())


def test_a_line_tells_those_who_wait() -> None:
    line, called = Line(), []

    def first() -> None:
        called.append("first")

    def second() -> None:
        called.append("second")

    line.watch(first)
    line.watch(second)
    line.forget(second)
    line.hang_up()
    line.hang_up()
    assert (called, line.gone) == (["first"], True)
    line.watch(second)
    assert called == ["first", "second"]


def test_a_future_fails_once() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        fail(future, GoneError("a"))
        fail(future, LateError(1))
        with pytest.raises(GoneError, match="a"):
            await future

    asyncio.run(main())


class Wire:
    """A transport that remembers."""

    def __init__(self) -> None:
        self.did: list[Any] = []

    def write(self, data: bytes) -> None:
        self.did.append(data)

    def close(self) -> None:
        self.did.append("close")

    def is_closing(self) -> bool:
        return "close" in self.did


def test_head_and_body_go_together() -> None:
    async def main() -> None:
        wire = Wire()
        together = Together(wire, asyncio.get_running_loop())  # type: ignore[arg-type]  # all that it needs
        together.write(b"head ")
        together.write(b"body")
        assert wire.did == []
        await asyncio.sleep(0)
        assert wire.did == [b"head body"]
        together.write(b"more")
        await asyncio.sleep(0)
        together.write(b"last")
        together.close()
        assert wire.did == [b"head body", b"more", b"last", "close"]
        await asyncio.sleep(0)
        assert (wire.did[-1], together.is_closing()) == ("close", True)

    asyncio.run(main())
