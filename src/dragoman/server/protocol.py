"""HTTP/1.1 as uvicorn speaks it, with an end for slow clients, and a bound on connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dragoman.server.waiting import LINE, Clock, Line

# Seconds for the head of a request, and for an answer that fills the buffer to be taken. A body has bounds of its own.
SECONDS = 10.0
# Bytes of a head, and how many are read at once, after which it is looked whether there are more.
HEAD_BYTES, _AT_ONCE = 1 << 16, 1 << 12
# Seconds in which what a refused client still sends is thrown away: it would not see why, were it cut off.
_LINGER_SECONDS = 2.0
_REASONS = {400: "Bad Request", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}


class Together:
    """A transport that sends together what is written in one round of the event loop, such as head and body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._ended = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Take bytes that are sent soon; behind the last answer there is none."""
        if self._ended:
            return
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)

    def write_eof(self) -> None:
        """Send what was written, as the last of it."""
        self._send()
        self._ended = True
        with contextlib.suppress(OSError):  # the client may be gone
            self._transport.write_eof()

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
    """Closes a connection on which no whole head of a request arrives, or too long a one, or no answer is taken.

    An offer to go on in another protocol (the header Upgrade) is passed over, as RFC 9110, 7.8 allows.
    """

    max_connections = 1000
    seconds = SECONDS
    clock = Clock()
    _head: int | None = None
    _unread: int | None = None
    _in_head = _in_one = True  # or before the next one; and that since the piece of data began
    _head_bytes = 0
    _offers = False  # the request whose head was just read, another protocol
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        self.line = Line()
        self.transport = Together(transport, self.loop)  # type: ignore[assignment]  # all that uvicorn asks of one
        if len(self.connections) > self.max_connections:
            self._say(503, "too many connections are open; try again later.")
            self.transport.close()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take bytes; between two requests the clock runs until the head is whole."""
        if self.cycle is None or self.cycle.response_complete:
            self._watch()
        self._unset_keepalive_if_required()
        at = 0
        while at < len(data) and not self._refused and not self.transport.is_closing():
            piece = data[at : at + min(_AT_ONCE, HEAD_BYTES - self._head_bytes)]
            self._in_one = self._in_head
            self._take(piece)
            at += len(piece)
            # Of requests that come together, the piece in which a head begins is not counted.
            self._head_bytes = self._head_bytes + len(piece) if self._in_one else 0
            if self._head_bytes >= HEAD_BYTES:
                self._turn_away(431, f"the head of the request is longer than {HEAD_BYTES:,} bytes; send less of it.")

    def _take(self, data: bytes) -> None:
        """Read some bytes."""
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as stop:
                if not self._offers:
                    return  # CONNECT, which is refused; what follows is no HTTP
                # Its parser takes the rest for the other protocol. Another one reads the request without the offer.
                data = self._head_without_offer() + data[stop.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
                self._offers = False
            except httptools.HttpParserError:
                if not self._refused:
                    self.send_400_response("")
                return

    def _head_without_offer(self) -> bytes:
        first = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        lines = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([first, *lines, b"", b""])

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._offers = True
            return
        self._in_head = self._in_one = False
        self._stop_watching()
        self.scope[LINE] = self.line  # type: ignore[literal-required]  # it is ours, and not in ASGI's
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._offers:
            return
        self._in_head = True
        super().on_message_complete()

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
        if self.pipeline:
            # uvicorn reads on with each answer, though thousands of requests may come at once and wait in memory.
            self.flow.pause_reading()
        if self.transport.is_closing():
            self._wait_for_reader()

    def timeout_keep_alive_handler(self) -> None:
        """No further request came; what was not taken by now is thrown away."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._turn_away(400, "this is no HTTP request that can be read; send it again.")

    def _turn_away(self, status: int, sentence: str) -> None:
        """Refuse a request that may still be on its way, and read no more of it."""
        self._stop_watching()
        self._refused = True
        self._say(status, sentence)
        self.transport.write_eof()
        self._head = self.clock.at(time.monotonic() + _LINGER_SECONDS, self._give_up)

    def _say(self, status: int, sentence: str) -> None:
        body = json.dumps({"error": sentence}).encode()
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)

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
