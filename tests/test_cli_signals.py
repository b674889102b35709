"""Commands that are asked to end: no file is left half written, and no process goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bundles import make_bundle
from dragoman.bundle import save_bundle
from dragoman.cli import common, ending
from dragoman.cli.main import app
from dragoman.errors import RunError
from dragoman.files import atomic_file
from trainings import children, wait_until_gone

DRAGOMAN = Path(sys.executable).with_name("dragoman")
ASKED = [signal.SIGTERM, signal.SIGHUP]
FAST = ("--max-length", "3", "--beam-size", "1", "-q")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signals")
    save_bundle(make_bundle(), folder / "model")
    (folder / "text").write_text("key\n" * 200_000)
    return folder / "model"


@pytest.fixture(autouse=True)
def _default() -> Iterator[None]:
    """What the tests were started with may ignore SIGHUP, and what they start would inherit that."""
    old = {number: signal.signal(number, signal.SIG_DFL) for number in ASKED}
    yield
    for number, handler in old.items():
        signal.signal(number, handler)


def start(*arguments: str | Path, before: Callable[[], object] | None = None) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [DRAGOMAN, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, start_new_session=True, preexec_fn=before,
    )  # fmt: skip


def wait_for(true: Callable[[], object], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def is_writing(folder: Path) -> bool:
    return any(path.stat().st_size for path in folder.glob(".*.part"))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "workers"), [(signal.SIGHUP, "1"), (signal.SIGTERM, "2")])
def test_translate_leaves_nothing(model: Path, tmp_path: Path, number: signal.Signals, workers: str) -> None:
    out = tmp_path / "out"
    out.write_text("old\n")
    arguments = ["translate", model, model.with_name("text"), "-o", out, "--workers", workers, *FAST]
    with start(*arguments) as process:
        wait_for(lambda: is_writing(tmp_path), process)
        others = children(process.pid)
        assert len(others) >= (2 if workers == "2" else 0)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (128 + number, "", f"dragoman: ended by {number.name}.\n")
    wait_until_gone(others)
    assert out.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
@pytest.mark.parametrize("number", ASKED)
def test_a_whole_group_is_asked(model: Path, tmp_path: Path, number: signal.Signals) -> None:
    """As ``timeout`` and a terminal that is closed do: the workers get the signal as well, and one line is said."""
    arguments = ["translate", model, model.with_name("text"), "-o", tmp_path / "out", "--workers", "2", *FAST]
    with start(*arguments) as process:
        wait_for(lambda: is_writing(tmp_path), process)
        others = children(process.pid)
        os.killpg(process.pid, number)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (128 + number, f"dragoman: ended by {number.name}.\n")
    wait_until_gone(others)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_workers_do_not_outlive_a_command_that_is_killed(model: Path, tmp_path: Path) -> None:
    arguments = ["translate", model, model.with_name("text"), "-o", tmp_path / "out", "--workers", "2", *FAST]
    with start(*arguments) as process:
        wait_for(lambda: is_writing(tmp_path), process)
        others = children(process.pid)
        assert len(others) >= 2
        process.kill()
        process.communicate(timeout=60)
    wait_until_gone(others, 20)


def test_a_hangup_that_is_ignored_stays_ignored(model: Path, tmp_path: Path) -> None:
    """As ``nohup`` starts commands."""

    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    out = tmp_path / "out"
    with start("translate", model, "-", "-o", out, *FAST, before=ignore) as process:
        wait_for(lambda: list(tmp_path.iterdir()), process)
        process.send_signal(signal.SIGHUP)
        _, stderr = process.communicate("key\n", timeout=60)
    assert (process.returncode, stderr) == (0, "")
    assert out.read_text().count("\n") == 1


@pytest.mark.parametrize("number", ASKED)
def test_every_command(tmp_path: Path, number: signal.Signals) -> None:
    """Here another one that has begun a file."""
    (tmp_path / "text").write_text("key\n")
    script = f"""
import os, signal, sys, time
from dragoman import Translator
def strike(*_, **__):
    os.kill(os.getpid(), {int(number)})
    for _ in range(1000): time.sleep(0.01)
    raise AssertionError("the signal did nothing")
Translator.load = strike
from dragoman.cli.main import main
sys.argv = ["dragoman", "evaluate", "model", "--src", "text", "--ref", "text", "-o", "out"]
main()
"""
    result = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (
        128 + number, "", f"dragoman: ended by {number.name}.\n"
    )  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


@pytest.mark.parametrize("number", ASKED)
def test_what_a_program_of_ours_did_before_stays(number: signal.Signals) -> None:
    """A handler that somebody else has set is left alone, and ours goes away with the command."""
    seen: list[int] = []
    old = signal.signal(number, lambda came, frame: seen.append(came))
    try:
        with ending.at_signals():
            os.kill(os.getpid(), number)
        assert seen == [number]
        signal.signal(number, signal.SIG_DFL)
        with ending.at_signals():
            assert callable(signal.getsignal(number))
        assert signal.getsignal(number) == signal.SIG_DFL
        with ending.at_signals():
            ending.left_to_others()
            assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, old)


def test_a_second_signal_does_not_disturb_the_end(tmp_path: Path) -> None:
    """``timeout`` sends its signal twice, to the command and to its group; a shell and its terminal hang up each."""
    reached = []
    with ending.at_signals():
        try:
            with atomic_file(tmp_path / "out") as stream:
                stream.write("half")
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)
        except ending.Ended as ended:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
            reached.append(ended.signal)
    assert reached == [signal.SIGTERM]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["train", "serve"])
def test_commands_with_an_end_of_their_own(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One of several processes that train, where it waits for the others; a server, before and while it listens."""
    seen: list[object] = []

    def look(*_: Any, **__: Any) -> Any:
        seen.extend(signal.getsignal(number) for number in ASKED)
        raise RunError("seen.")

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("dragoman.cli.train._run", look)
    monkeypatch.setattr("dragoman.server.run.listen", look)
    monkeypatch.setattr(common, "prepare_runtime", lambda threads: None)
    with pytest.raises(RunError, match="seen"):
        app([command, str(tmp_path)], standalone_mode=False)
    assert seen == [signal.SIG_DFL, signal.SIG_DFL]


def test_a_training_in_one_process_is_like_any_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def strike(*_: Any) -> Path:
        with atomic_file(tmp_path / "out"):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        return tmp_path

    monkeypatch.setattr("dragoman.cli.train._run", strike)
    with pytest.raises(ending.Ended):
        app(["train", str(tmp_path)], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []
    assert [signal.getsignal(number) for number in ASKED] == [signal.SIG_DFL] * 2
