"""The server under load: many clients at once, every answer compared with what ``translate`` says of the sentence.

    python benchmarks/serve.py [MODEL] [FILE] [--clients 64] [--seconds 120] [--threads N] [--workers N]
                               [--sentences 2000] [--each 1]

FILE holds sentences, one a line; without it they are the English ones that the phrasebook holds out. Before and after
the load this process translates all of them with ``Translator.translate``: these are the answers that are right, and
the speed to compare with. ``dragoman serve --workers N`` is asked over the loopback, ``--each`` sentences a request,
from as many connections as there are clients, by a process of its own. Server and translate have the same search
settings and threads; with several workers translate is measured with as many processes too. It ends with 1 if an
answer was lost or wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

# The share of the time that each measurement of translate alone takes; it goes once over all sentences at least.
BASELINE_SHARE = 0.1
# Seconds that an answer may take before it counts as lost.
PATIENCE = 60.0


@dataclass
class Load:
    """What came of the requests; ``seconds`` are those of each sentence that was answered right, ``cpu`` ours."""

    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    asked: int = 0
    took: float = 0.0
    cpu: float = 0.0


@dataclass(frozen=True)
class Request:
    """What is sent, and what the answer has to hold."""

    data: bytes
    sentences: list[str]
    expected: list[str]


def main() -> None:
    options = read_options()
    prepare(options.threads)
    from dragoman import Translator

    sentences = read_sentences(options)
    print(
        f"{len(sentences)} sentences, {options.clients} clients, {options.threads} threads, {options.workers} workers"
    )
    translator = Translator.load(options.model)
    languages = translator.bundle.src_lang, translator.bundle.tgt_lang
    expected = [found.text for found in translator.translate(sentences)]
    requests = make_requests(sentences, expected, options.each, *languages)
    share = options.seconds * BASELINE_SHARE
    alone = [speed(translator, sentences, share)]
    several = speed_of_several(options, sentences, share) if options.workers > 1 else 0.0
    command = [str(Path(sys.executable).with_name("dragoman")), "serve", options.model, "--port", "0"]
    command += ["--threads", str(options.threads), "--workers", str(options.workers)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = read_address(process)
            before = processor_seconds(process.pid)
            load = put_under_load(address, requests, options.clients, options.seconds)
            cpu = {pid: taken - before.get(pid, 0.0) for pid, taken in processor_seconds(process.pid).items()}
            mean = mean_batch(address)
        finally:
            process.terminate()
        ended = process.wait(timeout=60)
    alone.append(speed(translator, sentences, share))
    report(load, sum(alone) / len(alone), several, mean)
    report_processors(load, cpu.pop(process.pid, 0.0), list(cpu.values()))
    print(f"the server ended with {ended} at SIGTERM")
    if load.wrong or load.lost or ended:
        raise SystemExit(1)


def read_options() -> argparse.Namespace:
    processors = os.cpu_count() or 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="runs/demo/best")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--sentences", type=int, default=2000, help="of the file, or made; the first ones")
    parser.add_argument("--each", type=int, default=1, help="sentences of a request")
    parser.add_argument("--threads", type=int, default=processors)
    parser.add_argument("--workers", type=int, default=processors, help="processes of the server that translate")
    options = parser.parse_args()
    if not Path(options.model).is_dir():
        raise SystemExit(f"{options.model} is no model directory; run dragoman demo first, or name one.")
    return options


def prepare(threads: int) -> None:
    """What the commands do before they load a model."""
    from dragoman.cli.common import prepare_runtime

    prepare_runtime(threads)


def read_sentences(options: argparse.Namespace) -> list[str]:
    """Different sentences, the same every time; each is one to the server too."""
    from dragoman.phrasebook import generate
    from dragoman.text.readers import read_lines
    from dragoman.text.sentences import split_sentences

    if options.file is None:
        found = [pair.src for pair in generate(0, 0, options.sentences, seed=7).test]
    else:
        found = [line.strip() for line in read_lines(options.file)]
    return [one for one in dict.fromkeys(found) if len(split_sentences(one)) == 1 and one][: options.sentences]


def make_requests(
    sentences: Sequence[str], expected: Sequence[str], each: int, source: str, target: str
) -> list[Request]:
    """Requests of ``each`` sentences; as many as there are sentences, so that each is asked for equally often."""
    made = []
    for first in range(len(sentences)):
        places = [(first + n) % len(sentences) for n in range(each)]
        texts = [sentences[place] for place in places]
        body = json.dumps({"q": texts, "source": source, "target": target}).encode()
        head = f"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        made.append(Request(f"{head}\r\n\r\n".encode() + body, texts, [expected[place] for place in places]))
    return made


def speed(translator: Any, sentences: list[str], seconds: float) -> float:
    """Sentences a second, the model being loaded and warm."""
    started, done = time.perf_counter(), 0
    while done == 0 or time.perf_counter() - started < seconds:
        translator.translate(sentences)
        done += len(sentences)
    return done / (time.perf_counter() - started)


def speed_of_several(options: argparse.Namespace, sentences: list[str], seconds: float) -> float:
    """Sentences a second of as many processes as there are workers, which share the threads."""
    own = max(1, options.threads // options.workers)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context, prepare, (own,)) as pool:
        begin = context.Manager()
        with begin:
            barrier = begin.Barrier(options.workers)
            each = [
                pool.submit(speed_beside, barrier, options.model, sentences, seconds) for _ in range(options.workers)
            ]
            return sum(one.result() for one in each)


def speed_beside(barrier: Any, model: str, sentences: list[str], seconds: float) -> float:
    from dragoman import Translator

    translator = Translator.load(model)
    translator.translate(sentences)
    barrier.wait()
    return speed(translator, sentences, seconds)


def read_address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"listening on (http://\S+)", line):
            return found[1]
        print(line, end="", file=sys.stderr)
    raise SystemExit("the server did not start.")


def processor_seconds(process: int) -> dict[int, float]:
    """What a process and its children have taken of the processors so far; nothing where /proc does not say."""
    found: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(stat.parent.name)
        if process in (pid, int(fields[1])):
            found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def put_under_load(address: str, requests: list[Request], clients: int, seconds: float) -> Load:
    """Ask from another process, which does nothing else."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(ask, address, requests, clients, seconds).result()


def ask(address: str, requests: list[Request], clients: int, seconds: float) -> Load:
    return asyncio.run(ask_all(address, requests, clients, seconds))


async def ask_all(address: str, requests: list[Request], clients: int, seconds: float) -> Load:
    load, place, loop = Load(), urlsplit(address), asyncio.get_running_loop()
    cpu, started = time.process_time(), time.perf_counter()
    each = [Client(requests, load, started + seconds, number) for number in range(clients)]
    for client in each:
        await loop.create_connection(lambda client=client: client, place.hostname, place.port)
    await asyncio.wait([client.ended for client in each], timeout=seconds + PATIENCE)
    for client in each:
        client.give_up("no answer")
    load.took, load.cpu = time.perf_counter() - started, time.process_time() - cpu
    return load


class Client(asyncio.Protocol):
    """Asks one request after the other on one connection; plain bytes, to leave the processors to the server."""

    def __init__(self, requests: list[Request], load: Load, until: float, number: int) -> None:
        self.requests = requests
        self.load = load
        self.until = until
        self.chance = random.Random(number)
        self.ended = asyncio.get_running_loop().create_future()
        self.data = b""
        self.begun = 0.0
        self.request: Request | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.begun = time.perf_counter()
        if self.begun >= self.until:
            self.ended.set_result(None)
            self.transport.close()
            return
        self.request = self.requests[int(self.chance.random() * len(self.requests))]
        self.load.asked += len(self.request.sentences)
        self.transport.write(self.request.data)

    def data_received(self, data: bytes) -> None:
        self.data = self.data + data if self.data else data
        end = self.data.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        at = self.data.find(b"content-length: ") + 16
        length = int(self.data[at : self.data.index(b"\r", at)])
        if len(self.data) < end + length:
            return
        status, body, self.data = self.data[9:12], self.data[end:], b""
        request, self.request = self.request, None
        assert request is not None
        self.check(request, status, body, time.perf_counter() - self.begun)
        self.ask()

    def check(self, request: Request, status: bytes, body: bytes, took: float) -> None:
        if status != b"200":
            self.load.lost += [f"{status.decode()} {body[:200]!r}"] * len(request.sentences)
            return
        for sentence, found, wanted in zip(
            request.sentences, json.loads(body)["translatedText"], request.expected, strict=True
        ):
            if found == wanted:
                self.load.seconds.append(took)
            else:
                self.load.wrong.append(f"{sentence!r}: {found!r}, not {wanted!r}")

    def connection_lost(self, exc: Exception | None) -> None:
        self.give_up(f"the connection was closed: {exc!r}")

    def give_up(self, reason: str) -> None:
        if self.request is not None:
            self.load.lost += [reason] * len(self.request.sentences)
            self.request = None
        if not self.ended.done():
            self.ended.set_result(None)


def mean_batch(address: str) -> float:
    with urlopen(f"{address}/metrics", timeout=30) as answer:
        found = re.search(r"batch_sentences_mean\{[^}]*\} (\S+)", answer.read().decode())
    return float(found[1]) if found else 0.0


def report(load: Load, alone: float, several: float, mean: float) -> None:
    times = sorted(load.seconds)
    rate = len(times) / load.took
    print(f"translate alone   {alone:8.1f} sentences/s")
    if several:
        print(f"translate, as many processes as workers: {several:.1f} sentences/s")
    beside = f", {rate / several:.2f} of as many processes" if several else ""
    print(f"served            {rate:8.1f} sentences/s in {load.took:.1f} s: {rate / alone:.2f} of translate{beside}")
    print(f"mean batch        {mean:8.1f} sentences")
    for share in (50, 95, 99):
        value = times[min(len(times) - 1, len(times) * share // 100)] if times else float("nan")
        print(f"p{share}               {1000 * value:8.1f} ms")
    print(f"asked {load.asked}, right {len(times)}, wrong {len(load.wrong)}, lost {len(load.lost)}")
    for line in (*load.wrong[:5], *load.lost[:5]):
        print("  " + line)


def report_processors(load: Load, server: float, helpers: list[float]) -> None:
    """Milliseconds of a processor that a sentence took, by whom."""
    each = 1000 / max(1, len(load.seconds))
    print(f"processor time    {each * (server + sum(helpers)):8.3f} ms/sentence of the server", end="")
    print(f" ({each * server:.3f} of it in the process that answers)" if helpers else "")
    print(f"                  {each * load.cpu:8.3f} ms/sentence of the clients")
    busy = (server + sum(helpers) + load.cpu) / load.took
    print(f"                  {busy:8.2f} processors busy")


if __name__ == "__main__":
    main()
