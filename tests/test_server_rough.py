"""The server among rough clients: whatever comes over the wire, the status is right and the server lives on."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from bundles import LINES, make_bundle
from dragoman.bundle import save_bundle
from dragoman.config import DecodeConfig
from serving import Server, refused, serving

QUEUE, SECONDS = 4, 4.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is slow for its size: its translations are as long as they may be."""
    folder = tmp_path_factory.mktemp("models")
    decode = DecodeConfig(beam_size=3, max_length_ratio=1.0, max_length_extra=6, min_length_ratio=0.9)
    save_bundle(replace(make_bundle(max_length=128), decode=decode), folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Server]:
    options = ["--max-queue", str(QUEUE), "--timeout", str(SECONDS), "--max-characters", "12000"]
    with serving(model, *options) as running:
        yield running
        assert running.process.poll() is None
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)


@pytest.fixture(autouse=True)
def _lives_on(server: Server) -> Iterator[None]:
    yield
    answer = server.post("/translate", q="key", source="en", target="de")
    assert answer.status_code == 200, answer.text


def status_and_error(data: bytes) -> tuple[int, str]:
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), str(json.loads(body)["error"])


def send(server: Server, content: bytes, kind: str = "application/json", path: str = "/v1/translate") -> httpx.Response:
    return server.client.post(path, content=content, headers={"Content-Type": kind})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no JSON"),
        (b"{", "is no JSON"),
        (b'{"text": "x"', "is no JSON"),
        (b'{"text": "x"} x', "is no JSON"),
        (b"\xff\xfe{}", "is no JSON"),
        (b'{"text": "\xff"}', "is no JSON"),
        (b'{"text": "\xed\xa0\x80"}', "is no JSON"),
        (rb'{"text": "\ud800"}', "is no JSON"),
        (rb'{"text": "\udc00\ud800"}', "is no JSON"),
        (b'{"text": "a\x00b"}', "is no JSON"),
        (b'{"text": "x", "options": {"length_penalty": NaN}}', '"options.length_penalty"'),
        (b'{"text": "x", "options": {"seed": 1' + b"0" * 5000 + b"}}", ""),
        (b"[" * 50_000, "is no JSON"),
        (b'{"text":' * 5_000, "is no JSON"),
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", '"text" is missing'),
        (b'{"text": null}', '"text" is null'),
        (b'{"text": [["x"]]}', '"text'),
        (b'{"text": "x", "n\\u0000": 1}', "unknown key"),
    ],
)
def test_what_is_no_request(server: Server, content: bytes, message: str) -> None:
    assert message in refused(send(server, content), 400)


@pytest.mark.parametrize(
    ("kind", "content", "status"),
    [
        ("text/plain", b"{}", 415),
        ("", b"{}", 415),
        ("application/xml", b"<a/>", 415),
        ("application/x-www-form-urlencoded", b"q=%ff&source=en&target=de", 400),
        ("application/x-www-form-urlencoded", b"q=\xff&source=en&target=de", 400),
        ("application/x-www-form-urlencoded", b"q=x&" * 3000, 400),
        ("application/x-www-form-urlencoded", b"", 400),
        ("multipart/form-data", b"--x\r\n", 400),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nq\r\n--x--\r\n", 400),
        ("multipart/form-data; boundary=x", b"", 400),
        ('multipart/form-data; boundary="', b"--x", 400),
    ],
)
def test_other_forms(server: Server, kind: str, content: bytes, status: int) -> None:
    refused(send(server, content, kind, "/translate"), status)


@pytest.mark.parametrize("first", [*range(0x0, 0x110000, 0x10000), 0x80, 0x300, 0x600, 0x2000, 0xE000, 0xFF00])
def test_every_plane_of_unicode(server: Server, first: int) -> None:
    letters = [chr(code) for code in range(first, first + 0x100, 7) if not 0xD800 <= code < 0xE000]
    text = "".join(letters[:10]) + " " + " ".join(letters[10:20])
    answer = server.post("/v1/translate", text=[text, letters[0], "\0", "\u2028\x85\r"])
    assert answer.status_code == 200, answer.text
    for form in (True, False):
        answer = server.client.post(
            "/translate",
            **{"data" if form else "json": {"q": text, "source": "en", "target": "de"}},  # type: ignore[arg-type]
        )
        assert answer.status_code == 200, answer.text


def test_a_very_long_word(server: Server) -> None:
    for path, body in (
        ("/v1/translate", {"text": "x" * 10_000}),
        ("/translate", {"q": "ä" * 10_000, "source": "en", "target": "de"}),
    ):
        assert "and the model takes 128; break it up" in refused(server.post(path, **body), 413)
    many = server.post("/v1/translate", text=["\n" * 10_000, " " * 1000])
    assert many.status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_ten_megabytes(server: Server, chunked: bool) -> None:
    """Refused at once; most of it is never asked for."""
    with server.connect() as connection:
        length = "transfer-encoding: chunked" if chunked else f"content-length: {10 << 20}"
        head = f"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
        connection.sendall(head.encode())
        if chunked:
            for _ in range(8):
                connection.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        begun = time.monotonic()
        data = connection.recv(4096)
        assert time.monotonic() - begun < 2
    assert data.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in data
    body = b'{"text": "' + b"x" * (10 << 20) + b'"}'
    assert "larger than 209,536 bytes" in refused(send(server, body), 413)


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "99999999999999999999999", "0" * 5000 + "2", "1" * 5000])
def test_odd_lengths(server: Server, length: str) -> None:
    head = f"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    status, _ = status_and_error(server.exchange(head.encode() + b"{}"))
    assert status in (400, 413)


@pytest.mark.parametrize(
    "data", [b"\0" * 100, b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"\xff \xff \xff\r\n\r\n"]
)
def test_what_is_no_http(server: Server, data: bytes) -> None:
    assert status_and_error(server.exchange(data))[0] == 400


def test_a_head_without_end(server: Server) -> None:
    status, error = status_and_error(server.exchange(b"GET / HTTP/1.1\r\n" + b"x-a: " + b"y" * 100_000))
    assert (status, "head of the request is longer" in error) == (431, True)


def test_slow_clients(server: Server) -> None:
    """One that sends nothing, a byte of the head now and then, or half of a body: all are given up."""
    began = time.monotonic()
    head = b"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n"

    def drip(first: bytes, drop: bytes) -> bytes:
        with server.connect() as connection:
            connection.sendall(first)
            connection.settimeout(0.5)
            while time.monotonic() - began < 30:
                try:
                    if data := connection.recv(4096):
                        return data
                    return b""
                except TimeoutError:
                    if drop:
                        connection.sendall(drop)
            return b"never"

    with ThreadPoolExecutor(4) as pool:
        found = [
            pool.submit(drip, *one)
            for one in (
                (b"", b""),
                (b"GET /health HT", b""),
                (b"GET /health HTTP/1.1\r\n", b"a: b\r\n"),
                (head + b'{"q"', b""),
            )
        ]
        answers = [one.result() for one in found]
    assert SECONDS - 0.5 < time.monotonic() - began < SECONDS + 6
    assert answers[:3] == [b"", b"", b""]
    assert answers[3].startswith(b"HTTP/1.1 408 ")


def test_a_client_that_takes_no_answer(server: Server) -> None:
    """It asks and asks, and reads nothing: soon its connection is gone, with all that was written for it."""
    request = b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.settimeout(30)
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 20:
                connection.sendall(request * 100)
                time.sleep(0.05)
        assert SECONDS - 0.5 < time.monotonic() - began < SECONDS + 6


def test_a_full_queue_says_when_to_come_back(server: Server) -> None:
    text = [line + str(n) for n in range(10) for line in LINES]

    def ask(n: int) -> httpx.Response:
        # Options of its own keep each from joining another's batch.
        return server.post("/v1/translate", text=text, options={"length_penalty": n / 10})

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(16)))
    statuses = {answer.status_code for answer in answers}
    assert 429 in statuses
    assert statuses <= {200, 429, 504}
    for answer in answers:
        if answer.status_code == 429:
            assert 1 <= int(answer.headers["retry-after"]) <= 60
            assert f"try again in {answer.headers['retry-after']} s" in answer.json()["error"]


def test_late_answers_and_clients_that_leave(model: Path) -> None:
    """Work whose time is over, or for which nobody waits, is not begun."""
    long = [line + str(n) for n in range(60) for line in LINES]
    asked = [
        json.dumps({"text": long, "options": {"beam_size": 16, "length_penalty": n / 9}}).encode() for n in range(6)
    ]
    head = b"POST /v1/translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with serving(model, "--timeout", "0.5") as server:
        assert "no answer within 0.5 s" in refused(send(server, asked[0]), 504)
        for body in asked:
            with server.connect() as connection:
                connection.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
                time.sleep(0.05)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        end = time.monotonic() + 30
        while (answer := server.post("/v1/translate", text="key")).status_code == 504 and time.monotonic() < end:
            pass
        assert answer.status_code == 200
        metrics = server.get("/metrics").text
    assert 'dragoman_requests_total{path="/v1/translate",status="499"}' in metrics
    assert 'dragoman_queue_requests{model="en-de"} 0.0' in metrics
    begun = re.search(r"dragoman_batch_sentences_sum\S* (\S+)", metrics)
    assert begun is not None
    assert float(begun[1]) < 0.5 * len(asked) * len(long)


def test_a_stream_that_nobody_reads_on(server: Server) -> None:
    body = json.dumps({"text": "\n".join(LINES * 30), "stream": True, "options": {"beam_size": 1}})
    for _ in range(3):
        with server.client.stream(
            "POST", "/v1/translate", content=body, headers={"Content-Type": "application/json"}
        ) as answer:
            assert answer.status_code == 200
            next(answer.iter_text())
    begun = time.monotonic()
    assert server.post("/v1/translate", text="key").status_code == 200
    assert time.monotonic() - begun < SECONDS


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    def head(path: str, extra: str = "") -> bytes:
        return f"GET {path} HTTP/1.1\r\nhost: x\r\n{extra}\r\n".encode()

    data = server.exchange(head("/health") + head("/languages") + head("/nowhere", "connection: close\r\n"))
    places = [data.find(part) for part in (b'{"status":"ok"}', b'"code":"de"', b"nothing at this address")]
    assert -1 < places[0] < places[1] < places[2]


def test_one_request_in_single_bytes(server: Server) -> None:
    body = b'{"q":"key","source":"en","target":"de"}'
    head = b"POST /translate HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
    with server.connect() as connection:
        for byte in head + b"content-length: %d\r\n\r\n" % len(body) + body:
            connection.sendall(bytes([byte]))
        data: Any = b"".join(iter(lambda: connection.recv(65536), b""))
    assert data.startswith(b"HTTP/1.1 200 ")
