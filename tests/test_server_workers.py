"""A server whose models are used by processes of their own, and one such process by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bundles import LINES, make_bundle
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.cli.common import prepare_runtime
from dragoman.config import DecodeConfig
from dragoman.errors import BundleError, DataError, RunError
from dragoman.server.helper import HelperProcess
from dragoman.server.refusals import GoneError
from serving import Echo, Server, load_nothing, prepare_nothing, serving
from tolerances import LOGPROB, REORDERED

PREPARE = partial(prepare_runtime, 1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    decode = DecodeConfig(beam_size=3, max_length_ratio=1.0, max_length_extra=6, min_length_ratio=0.5, min_length=5)
    save_bundle(replace(make_bundle(), decode=decode), folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu")


@pytest.fixture(scope="module")
def helper(model: Path) -> Iterator[HelperProcess]:
    made = HelperProcess(partial(Translator.load, model, "cpu"), PREPARE)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Server]:
    with serving(model, "--workers", "2") as running:
        yield running
        assert not any("Traceback" in line for line in running.log), "\n".join(running.log)


def children(process: int) -> list[int]:
    """The processes that translate for a server: those that were spawned with what they have to do."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat, command = (folder / "stat").read_text(), (folder / "cmdline").read_bytes()
            except OSError:
                continue
            fields = stat.rpartition(")")[2].split()
            if int(fields[1]) == process and fields[0] != "Z" and b"spawn_main" in command:
                found.append(int(folder.name))
    return found


def wait_until(true: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    assert true()


# one process


def test_it_says_what_a_translator_says(helper: HelperProcess, translator: Translator) -> None:
    options: dict[str, Any] = {"n_best": 2, "beam_size": 3, "attention": True, "prefix": ["Ein"] * len(LINES)}
    for found, wanted in zip(helper.translate(LINES, **options), translator.translate(LINES, **options), strict=True):
        assert (found.text, found.ids) == (wanted.text, wanted.ids)
        # Another process may have another number of threads, and so sums in another order.
        assert [word for word, _ in found.words] == [word for word, _ in wanted.words]
        assert [of for _, of in found.words] == pytest.approx([of for _, of in wanted.words], abs=LOGPROB)
        assert [one.text for one in found.alternatives] == [one.text for one in wanted.alternatives]
        assert found.attention is not None
        assert wanted.attention is not None
        for layer, expected in zip(found.attention.cross, wanted.attention.cross, strict=True):
            torch.testing.assert_close(layer, expected, rtol=0.0, atol=REORDERED)


@pytest.fixture
def echo() -> Iterator[HelperProcess]:
    made = HelperProcess(Echo, prepare_nothing)  # type: ignore[arg-type]  # it translates, too
    yield made
    made.close()


def said(helper: HelperProcess, text: str) -> str:
    (found,) = helper.translate([text])
    return found.text


def test_errors_come_across(echo: HelperProcess) -> None:
    with pytest.raises(DataError, match=r"^not that\.$"):
        said(echo, "bad")
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*in translate.*ZeroDivisionError"):
        said(echo, "bug")
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*OddError: 1 and 2"):
        said(echo, "odd")
    assert said(echo, "a") == "A"


def test_what_cannot_be_loaded_is_said_at_once() -> None:
    made = HelperProcess(load_nothing, prepare_nothing)  # type: ignore[arg-type]
    with pytest.raises(BundleError, match=r"^no model here\.$"):
        made.wait()
    made.close()


def test_a_search_there_ends_when_it_is_not_wanted(echo: HelperProcess) -> None:
    """Told between two looks of the one who waits; the process goes on with the next task."""
    process, looks = said(echo, "who"), iter(range(3))

    def check() -> None:
        if next(looks, None) is None:
            raise GoneError

    with pytest.raises(GoneError):
        echo.translate(["long"], check=check)
    assert int(said(echo, "steps")) > 0
    assert said(echo, "who") == process


def test_to_stop_what_is_done_already_does_no_harm(echo: HelperProcess) -> None:
    """The process has answered when it is told to stop: it passes that over, and each answer is that of its task."""
    process = said(echo, "who")

    def too_late() -> None:
        assert echo._connection.poll(10)
        raise GoneError

    for number in range(3):
        with pytest.raises(GoneError):
            echo.translate(["a little later"], check=too_late)
        assert said(echo, f"a{number}") == f"A{number}"
    assert said(echo, "who") == process


def test_one_that_dies_is_replaced(echo: HelperProcess) -> None:
    first = int(said(echo, "who"))
    with pytest.raises(RunError, match=r"a helper process died with 3 \(out of memory\?\)\.$"):
        said(echo, "die")
    second = int(said(echo, "who"))
    os.kill(second, signal.SIGKILL)
    echo._process.join()
    assert len({first, second, int(said(echo, "who"))}) == 3


def test_it_ends_with_its_maker_and_at_no_signal() -> None:
    code = """
import os, signal, sys
from dragoman.server.helper import HelperProcess
from serving import Echo, prepare_nothing
if __name__ == "__main__":
    made = HelperProcess(Echo, prepare_nothing)
    made.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(made._process.pid, number)
    print(made.translate(["who"])[0].text, flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ZeroDivisionError
"""
    for how, code_wanted in (("killed", -signal.SIGKILL), ("failed", 1)):
        done = subprocess.run(
            [sys.executable, "-c", code, how], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=90
        )  # fmt: skip
        assert done.returncode == code_wanted, done.stderr
        stat = Path(f"/proc/{int(done.stdout)}/stat")
        wait_until(lambda stat=stat: not stat.exists() or ") Z" in stat.read_text(), 20)


# a server


def test_answers_are_what_translate_says(server: Server, translator: Translator) -> None:
    texts = [line[: n % 7 + 4] + line for n in range(12) for line in LINES]
    settings: list[dict[str, Any]] = [{}, {"beam_size": 1}, {"beam_size": 4, "n_best": 2}]
    asked = [(text, settings[n % 3]) for n, text in enumerate(texts)]
    expected = [translator.translate(text, **options) for text, options in asked]

    def ask(one: tuple[str, dict[str, Any]]) -> Any:
        answer = server.post("/v1/translate", text=one[0], split=False, options=one[1])
        assert answer.status_code == 200, answer.text
        return answer.json()["translations"][0]["sentences"][0]

    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(ask, asked))
    for found, wanted in zip(answers, expected, strict=True):
        assert (found["text"], found["ids"]) == (wanted.text, wanted.ids)
        assert found["score"] == pytest.approx(wanted.score, abs=REORDERED)
    assert len(children(server.process.pid)) == 2


def test_what_needs_the_translator_for_itself(server: Server, translator: Translator) -> None:
    found = server.post("/v1/alternatives", text=LINES[2], prefix="Die ", n=4).json()
    wanted = translator.alternatives(LINES[2], "Die ", n=4)
    assert [one["text"] for one in found["alternatives"]] == [one.text for one in wanted]
    stream = server.post("/v1/translate", text=LINES[2], stream=True).text
    assert stream.count("event: done") == 1
    assert server.post("/v1/attention", text=LINES[0]).status_code == 200
    looks = server.post("/v1/translate", text=LINES[0], attention=True, alignments=True).json()
    assert looks["translations"][0]["sentences"][0]["attention"]["cross"]
    short = server.post("/v1/translate", text="key", prefix="Die " * 9)
    assert (short.status_code, "shorten the prefix" in short.json()["error"]) == (400, True)


def test_a_process_that_dies_costs_what_it_did(server: Server, translator: Translator) -> None:
    before = children(server.process.pid)
    with ThreadPoolExecutor(8) as pool:
        long = "\n".join(line + str(n) for n in range(6) for line in LINES)
        answers = [
            pool.submit(server.post, "/v1/translate", text=long, options={"beam_size": 16, "length_penalty": n / 4})
            for n in range(8)
        ]
        time.sleep(0.3)
        os.kill(before[0], signal.SIGKILL)
        statuses = [answer.result().status_code for answer in answers]
    assert set(statuses) <= {200, 500}
    assert statuses.count(500) <= 1  # the one whose batch it was
    for _ in range(4):
        answer = server.post("/translate", q=LINES[0], source="en", target="de")
        assert answer.json() == {"translatedText": translator.translate(LINES[0]).text}
    wait_until(lambda: len(set(children(server.process.pid)) - {before[0]}) == 2 or 500 not in statuses)
    if 500 in statuses:
        assert any("helper process died" in line for line in server.log)
        server.log[:] = [line for line in server.log if "Traceback" not in line]


def test_a_stop_finishes_what_came(model: Path) -> None:
    with serving(model, "--workers", "2", "--grace", "60") as server, ThreadPoolExecutor(8) as pool:
        own = children(server.process.pid)
        assert len(own) == 2
        long = "\n".join(line + str(n) for n in range(4) for line in LINES)
        options = [{"beam_size": 16, "length_penalty": n / 4} for n in range(6)]
        answers = [pool.submit(server.post, "/v1/translate", text=long, options=one) for one in options]
        while 'dragoman_queue_requests{model="en-de"} 0.0' in server.get("/metrics").text:
            time.sleep(0.01)
        assert not all(answer.done() for answer in answers)
        for process in own:
            os.kill(process, signal.SIGTERM)  # as a service manager does to all processes of a service
        assert server.stop() == 0
        assert [answer.result().status_code for answer in answers] == [200] * 6
        assert not any(Path(f"/proc/{process}").exists() for process in own)
