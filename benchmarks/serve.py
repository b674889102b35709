"""The server under load: many clients at once, every answer compared with what ``translate`` says of the sentence.

    python benchmarks/serve.py [MODEL] [--clients 64] [--seconds 120] [--sentences 2000] [--each 1] [--threads N]

MODEL translates English, by default runs/demo/best; the sentences are those that the phrasebook holds out. First this
process translates all of them with ``Translator.translate`` again and again: these are the answers that are right, and
the speed to compare with. Then it starts ``dragoman serve`` and asks it over the loopback, ``--each`` sentences a
request, from as many connections as there are clients. Both have the same threads. It ends with 1 if an answer was
lost or wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

# The share of the time that is used to measure translate alone, at least once over all sentences.
BASELINE_SHARE = 0.25


@dataclass
class Load:
    """What came of the requests; ``seconds`` are those of the answers that were right."""

    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    asked: int = 0


def main() -> None:
    options = read_options()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    sentences = held_out_sentences(options.sentences)
    expected, alone = translate_alone(options.model, sentences, options.seconds * BASELINE_SHARE)
    print(f"{len(sentences)} sentences, {options.threads} threads, {options.clients} clients")
    print(f"translate alone   {alone:8.1f} sentences/s")
    command = [str(Path(sys.executable).with_name("dragoman")), "serve", options.model, "--port", "0"]
    with subprocess.Popen([*command, "--threads", str(options.threads)], stderr=subprocess.PIPE, text=True) as process:
        try:
            address = read_address(process)
            load, took = asyncio.run(put_under_load(address, expected, options.clients, options.seconds, options.each))
            mean = mean_batch(address)
        finally:
            process.terminate()
        print(f"the server ended with {process.wait(timeout=60)} at SIGTERM")
    report(load, took, alone, mean)
    if load.wrong or load.lost:
        raise SystemExit(1)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="runs/demo/best")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--each", type=int, default=1, help="sentences of a request")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if not Path(options.model).is_dir():
        raise SystemExit(f"{options.model} is no model directory; run dragoman demo first, or name one.")
    return options


def held_out_sentences(count: int) -> list[str]:
    """Different English sentences, the same every time."""
    from dragoman.phrasebook import generate

    return list(dict.fromkeys(pair.src for pair in generate(0, 0, count, seed=7).test))


def translate_alone(model: str, sentences: list[str], seconds: float) -> tuple[dict[str, str], float]:
    """What translate makes of each sentence, and sentences a second, the model being loaded and warm."""
    from dragoman import Translator

    translator = Translator.load(model)
    expected = dict(zip(sentences, (found.text for found in translator.translate(sentences)), strict=True))
    started, done = time.perf_counter(), 0
    while done == 0 or time.perf_counter() - started < seconds:
        translator.translate(sentences)
        done += len(sentences)
    return expected, done / (time.perf_counter() - started)


def read_address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"listening on (http://\S+)", line):
            return found[1]
        print(line, end="", file=sys.stderr)
    raise SystemExit("the server did not start.")


async def put_under_load(
    address: str, expected: dict[str, str], clients: int, seconds: float, each: int = 1
) -> tuple[Load, float]:
    load, place = Load(), urlsplit(address)
    started = time.perf_counter()
    until = started + seconds
    await asyncio.gather(
        *(client(place.hostname, place.port, expected, load, until, each, number) for number in range(clients))
    )
    return load, time.perf_counter() - started


async def client(
    host: str | None, port: int | None, expected: dict[str, str], load: Load, until: float, each: int, number: int
) -> None:
    """Asks one request after the other on one connection; plain sockets, to leave the processors to the server."""
    chance, every = random.Random(number), list(expected)
    reader, writer = await asyncio.open_connection(host, port)
    try:
        while (begun := time.perf_counter()) < until:
            sentences = chance.sample(every, each)
            load.asked += each
            try:
                status, answer = await asyncio.wait_for(ask(reader, writer, sentences), 60)
            except (OSError, ValueError, TimeoutError, EOFError) as error:
                load.lost += [repr(error)] * each
                return
            if status != 200:
                load.lost += [f"{status} {answer}"] * each
                continue
            took = time.perf_counter() - begun
            for sentence, found in zip(sentences, answer["translatedText"], strict=True):
                if found == expected[sentence]:
                    load.seconds.append(took)
                else:
                    load.wrong.append(f"{sentence!r}: {found!r}, not {expected[sentence]!r}")
    finally:
        writer.close()


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sentences: list[str]
) -> tuple[int, dict[str, list[str]]]:
    body = json.dumps({"q": sentences, "source": "auto", "target": "de"}).encode()
    head = f"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    writer.write(f"{head}\r\n\r\n".encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    length = re.search(r"content-length: (\d+)", head)
    answer = await reader.readexactly(int(length[1]) if length else 0)
    return int(head.split(" ", 2)[1]), json.loads(answer)


def mean_batch(address: str) -> float:
    with urlopen(f"{address}/metrics", timeout=30) as answer:
        found = re.search(r"batch_sentences_mean\{[^}]*\} (\S+)", answer.read().decode())
    return float(found[1]) if found else 0.0


def report(load: Load, took: float, alone: float, mean: float) -> None:
    times = sorted(load.seconds)
    rate = len(times) / took
    print(f"served            {rate:8.1f} sentences/s in {took:.1f} s: {rate / alone:.2f} of translate alone")
    print(f"mean batch        {mean:8.1f} sentences")
    for share in (50, 95, 99):
        value = times[min(len(times) - 1, len(times) * share // 100)] if times else float("nan")
        print(f"p{share}               {1000 * value:8.1f} ms")
    print(f"asked {load.asked}, right {len(times)}, wrong {len(load.wrong)}, lost {len(load.lost)}")
    for line in (*load.wrong[:5], *load.lost[:5]):
        print("  " + line)


if __name__ == "__main__":
    main()
