"""HTTP/1.1 as uvicorn speaks it, with an end for clients that send their head slowly, and a bound on connections."""

from __future__ import annotations

import asyncio
import json

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Seconds and bytes for the head of a request; a body has bounds of its own.
HEAD_SECONDS, _HEAD_BYTES = 10.0, 1 << 16
_REASONS = {400: "Bad Request", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


class PatientProtocol(HttpToolsProtocol):
    """Closes a connection on which no whole head of a request arrives in time, or too long a one."""

    max_connections = 1000
    head_seconds = HEAD_SECONDS
    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
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
        if self._timer is None:
            self._head_bytes = 0
        elif self._head_bytes > _HEAD_BYTES:
            self._refuse(431, f"the head of the request is longer than {_HEAD_BYTES:,} bytes; send less of it.")

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._stop_watching()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_watching()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._refuse(400, "this is no HTTP request that can be read; send it again.")

    def _refuse(self, status: int, sentence: str) -> None:
        body = json.dumps({"error": sentence}).encode()
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()
