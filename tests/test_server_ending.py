"""Searches that are given up: late ones, those of clients that hung up, and what a stop does not wait for."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bundles import LINES, make_bundle
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from serving import Server, fine, refused, serving

# Minutes of work, which only a server that was told so takes.
OPTIONS = {"beam_size": 16, "min_length": 1023, "max_length": 1024}
HUGE = {"text": ["key"] * 1000, "options": OPTIONS}
ANY_WORK = ("--max-work", str(10**9))
SECONDS = 3.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_bundle(replace(make_bundle(max_length=1024), decode=DecodeConfig(beam_size=2)), folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Server]:
    with serving(model, *ANY_WORK, "--timeout", str(SECONDS)) as running:
        yield running
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)


def begun(server: Server) -> None:
    """Wait until the rest of a huge request waits for the model, or for so long that a stream has begun."""
    end = time.monotonic() + 1
    while time.monotonic() < end and 'dragoman_queue_requests{model="en-de"} 0.0' in server.get("/metrics").text:
        time.sleep(0.02)


def assert_free(server: Server) -> None:
    """This needs the model for itself, and nothing of it is done beside another search."""
    begun = time.monotonic()
    fine(server.post("/v1/alternatives", text="key", n=1, options={"max_length": 2}))
    assert time.monotonic() - begun < SECONDS - 0.5


def send(server: Server, body: dict[str, Any]) -> Any:
    """A connection that has sent a request and reads nothing."""
    content = json.dumps(body).encode()
    head = "POST /v1/translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: "
    connection = server.connect()
    connection.sendall(f"{head}{len(content)}\r\n\r\n".encode() + content)
    return connection


def test_a_late_request_frees_the_model_and_others_are_answered_beside_it(server: Server) -> None:
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(server.post, "/v1/translate", **HUGE)
        begun(server)
        fine(server.post("/translate", q=LINES[0], source="en", target="de"))
        assert not late.done()
        said = refused(late.result(), 504)
    assert said == f"no answer within {SECONDS:g} s; send less at once, or try again later."
    assert_free(server)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_frees_the_model(server: Server, stream: bool) -> None:
    connection = send(server, {"text": "A key. " * 50, "options": OPTIONS, "stream": True} if stream else HUGE)
    begun(server)
    connection.close()
    assert_free(server)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stop_is_bounded(model: Path, workers: str) -> None:
    with (
        serving(model, *ANY_WORK, "--grace", "1.5", "--workers", workers) as server,
        ThreadPoolExecutor(2) as pool,
    ):
        stream = {"text": "A key. " * 50, "options": OPTIONS, "stream": True}
        answers = [pool.submit(server.post, "/v1/translate", **body) for body in (HUGE, stream)]
        begun(server)
        time.sleep(0.5)
        start = time.monotonic()
        assert server.stop() == 0
        assert 1.4 < time.monotonic() - start < 12
        assert refused(answers[0].result(), 503) == "the server is stopping; try again later."
        if answers[1].result().status_code == 200:
            assert answers[1].result().text.split("\n\n")[-2].startswith("event: error\n")
        assert '"the server is stopping; try again later."' in answers[1].result().text
        assert server.log[-3:] == [
            "stopping: the requests that came are finished first, for 1.5 s at most.",
            "warning: stopping took 1.5 s: what is not finished is given up.",
            "stopped.",
        ]


def test_a_second_signal_gives_up_at_once(model: Path) -> None:
    with serving(model, *ANY_WORK) as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.post, "/v1/translate", **HUGE)
        begun(server)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        start = time.monotonic()
        assert server.stop() == 1
        assert time.monotonic() - start < 6
        assert answer.exception() or answer.result().status_code == 503
        assert server.log[-2:] == [
            "stopped.",
            "dragoman: the server was stopped before it had answered every request; one signal lets it finish.",
        ]
        assert not any("Traceback" in line for line in server.log), "\n".join(server.log)


def memory(server: Server) -> int:
    """Bytes of the server that are in memory."""
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def test_a_stop_does_not_wait_for_who_takes_no_answer(model: Path) -> None:
    """Nor do requests that are sent on and on while no answer is taken gather in memory."""
    request = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
    with serving(model, "--grace", "1.5") as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.settimeout(1)
        server.get("/openapi.json")
        before = memory(server)
        with contextlib.suppress(TimeoutError):
            while True:  # until all that lies between them is full
                connection.sendall(request * 100)
        assert memory(server) - before < 200 << 20
        assert server.stop() == 0
        assert server.log[-3:] == [
            "stopping: the requests that came are finished first, for 1.5 s at most.",
            "warning: stopping took 1.5 s: what is not finished is given up.",
            "stopped.",
        ]


def test_many_requests_that_come_at_once_are_all_answered(server: Server) -> None:
    request = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    with server.connect() as connection:
        for _ in range(2):
            connection.sendall(request * 3000)
            found = b""
            while found.count(b"HTTP/1.1 200 OK") < 3000 or not found.endswith(b"}"):
                more = connection.recv(1 << 20)
                assert more, found[-200:]
                found += more
