"""A real server in a process of its own, on a free port of the loopback, and what is needed to ask it."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from dragoman.errors import BundleError, DataError
from dragoman.translation import Translation

START_SECONDS = 60.0


@dataclass
class Server:
    """A running server; ``log`` are the lines of its standard error so far."""

    process: subprocess.Popen[str]
    port: int
    client: httpx.Client
    log: list[str] = field(default_factory=list)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def exchange(self, data: bytes) -> bytes:
        """What comes back for raw bytes until the server closes."""
        with self.connect() as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=30)


@contextlib.contextmanager
def serving(*args: str | Path, env: dict[str, str] | None = None) -> Iterator[Server]:
    """``dragoman serve ARGS --port 0``, until the block ends."""
    command = [Path(sys.executable).with_name("dragoman"), "serve", *map(str, args), "--port", "0", "--threads", "1"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    assert process.stderr is not None
    log: list[str] = []
    listening = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            log.append(line.rstrip("\n"))
            if "listening on" in line:
                listening.set()
        listening.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        assert listening.wait(START_SECONDS), f"no server after {START_SECONDS} s: {log}"
        found = re.search(r"listening on (http://127\.0\.0\.1:(\d+))$", log[-1] if log else "")
        assert found, f"the server did not start: {log}"
        with httpx.Client(base_url=found[1], timeout=60, trust_env=False) as client:
            yield Server(process, int(found[2]), client, log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join(10)
        process.stderr.close()


def fine(answer: httpx.Response) -> Any:
    """The JSON of an answer that has to be right."""
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: httpx.Response, status: int) -> str:
    """The sentence of a refusal with this status, which says nothing of the server's inside."""
    assert (answer.status_code, list(answer.json())) == (status, ["error"]), answer.text
    assert "/tmp" not in answer.text
    assert "Traceback" not in answer.text
    return str(answer.json()["error"])


class OddError(Exception):
    """One that cannot be read by another process."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Echo:
    """What a helper process can use in place of a translator; some words make it fail."""

    def __init__(self) -> None:
        self._check: Callable[[], object] = lambda: None
        self._steps = 0

    def interruptible(self, check: Callable[[], object]) -> Echo:
        self._check = check
        return self

    def translate(self, texts: list[str], **options: Any) -> list[Translation]:
        (text,) = texts
        if text == "bad":
            raise DataError("not that.")
        if text == "odd":
            raise OddError(1, 2)
        if text == "die":
            os._exit(3)
        if text == "long":  # a search of steps without an end
            for self._steps in itertools.count(1):
                self._check()
                time.sleep(0.01)
        if text == "a little later":
            time.sleep(0.2)
        if text == "steps":
            return [Translation(str(self._steps))]
        return [Translation(str({"who": os.getpid, "bug": lambda: 1 // 0}.get(text, text.upper)()))]


def load_nothing() -> Echo:
    raise BundleError("no model here.")


def prepare_nothing() -> None:
    """An Echo needs nothing."""
