"""HTTP/1.1 as uvicorn speaks it, with an end for slow clients, and a bound on connections."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.server.waiting import LINE, Clock, Line

# Seconds for the head of a request, and for an answer that fills the buffer to be taken; bytes of a head. A body has
# bounds of its own.
SECONDS, _HEAD_BYTES = 10.0, 1 << 16
_REASONS = {400: "Bad Request", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


class Together:
    """A transport that sends together what is written in one round of the event loop, such as head and body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Take bytes that are sent soon."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)

    def close(self) -> None:
        """Send what was written, then close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._held:
            data = b"".join(self._held)
            self._held.clear()
            self._transport.write(data)


class PatientProtocol(HttpToolsProtocol):
    """Closes a connection on which no whole head of a request arrives, or too long a one, or no answer is taken."""

    max_connections = 1000
    seconds = SECONDS
    clock = Clock()
    _head: int | None = None
    _unread: int | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        self.line = Line()
        self.transport = Together(transport, self.loop)  # type: ignore[assignment]  # all that uvicorn asks of one
        if len(self.connections) > self.max_connections:
            self._refuse(503, "too many connections are open; try again later.")
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take bytes; between two requests the clock runs until the head is whole."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self._watch()
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head is None:
            self._head_bytes = 0
        elif self._head_bytes > _HEAD_BYTES:
            self._refuse(431, f"the head of the request is longer than {_HEAD_BYTES:,} bytes; send less of it.")

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._stop_watching()
        self.scope[LINE] = self.line  # type: ignore[literal-required]  # it is ours, and not in ASGI's
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_watching()
        self._stop_waiting()
        super().connection_lost(exc)
        self.line.hang_up()

    def pause_writing(self) -> None:
        """The client does not take its answer as fast as it is written."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """It has taken most of it."""
        super().resume_writing()
        self._stop_waiting()

    def on_response_complete(self) -> None:
        """An answer is written; where the connection ends with it, its last bytes have the same time."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_for_reader()

    def timeout_keep_alive_handler(self) -> None:
        """No further request came; what was not taken by now is thrown away."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(400, "this is no HTTP request that can be read; send it again.")

    def _refuse(self, status: int, sentence: str) -> None:
        body = json.dumps({"error": sentence}).encode()
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()

    def _wait_for_reader(self) -> None:
        if self._unread is None:
            self._unread = self.clock.at(time.monotonic() + self.seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._unread is not None:
            self.clock.forget(self._unread)
            self._unread = None

    def _watch(self) -> None:
        if self._head is None:
            self._head = self.clock.at(time.monotonic() + self.seconds, self._give_up)

    def _stop_watching(self) -> None:
        if self._head is not None:
            self.clock.forget(self._head)
            self._head = None

    def _give_up(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.close()
