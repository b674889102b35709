"""The command line as a whole: finding commands, exit codes, what goes to which output, interruptions."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from conftest import RunCli
from dragoman import __version__
from dragoman.cli import common
from dragoman.cli.main import COMMANDS

COMMAND = Path(sys.executable).with_name("dragoman")
# Output that waits in a buffer shows a lost reader only when it is flushed.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
WriteLines = Callable[[str, Sequence[str]], Path]


@pytest.fixture
def files(write_lines: WriteLines) -> list[str]:
    """Options of ``metrics`` that work."""
    return ["--hyp", str(write_lines("hyp", ["a b c d e"])), "--ref", str(write_lines("ref", ["a b c d f"]))]


@pytest.fixture
def log_level() -> Iterator[None]:
    level = common.logger.level
    yield
    common.logger.setLevel(level)


def test_help_lists_every_command(run_cli: RunCli) -> None:
    result = run_cli("--help")
    assert (result.rc, result.stderr) == (0, "")
    for name, (_, line) in COMMANDS.items():
        assert f"\n  {name} " in result.stdout
        assert line in " ".join(result.stdout.split())
    assert run_cli("-h") == result


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command(run_cli: RunCli, name: str) -> None:
    result = run_cli(name, "--help")
    assert (result.rc, result.stderr) == (0, "")
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert f"Usage: dragoman {name}" in lines[0]
    assert any(line.startswith("Example") for line in lines)
    assert any(line.startswith(f"dragoman {name}") for line in lines)
    for option in ("-q, --quiet", "-v, --verbose", "-h, --help"):
        assert option in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_a_function_of_its_own_module(name: str) -> None:
    assert callable(getattr(import_module(COMMANDS[name][0]), name))


def test_version(run_cli: RunCli) -> None:
    result = run_cli("--version")
    assert (result.rc, result.stdout, result.stderr) == (0, f"dragoman {__version__}\n", "")


def test_without_arguments_the_help_is_shown(run_cli: RunCli) -> None:
    result = run_cli()
    assert (result.rc, result.stdout) == (2, "")
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["metric"], 'dragoman: no command is called "metric" (did you mean "metrics"?); see dragoman --help.\n'),
        (["--bogus"], "No such option: --bogus"),
        (["metrics"], "Missing option '--hyp'"),
        (["metrics", "--hyp"], "--hyp"),
        (["metrics", "--bogus"], "No such option: --bogus"),
        (["metrics", "--hyp", "a", "--ref", "b", "c"], "unexpected extra argument"),
        (["-q", "-v", "metrics"], "dragoman: -q and -v exclude each other; give one of them.\n"),
        (["-q", "metrics", "-v"], "dragoman: -q and -v exclude each other; give one of them.\n"),
    ],
)
def test_wrong_usage(run_cli: RunCli, args: list[str], message: str) -> None:
    result = run_cli(*args)
    assert (result.rc, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_refused_input_is_one_sentence(run_cli: RunCli, tmp_path: Path) -> None:
    result = run_cli("metrics", "--hyp", tmp_path / "nope", "--ref", tmp_path / "nope")
    assert (result.rc, result.stdout) == (1, "")
    assert result.stderr.startswith("dragoman: cannot read ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("place", [0, 1])
def test_verbose_tells_where_an_error_came_from(run_cli: RunCli, tmp_path: Path, place: int) -> None:
    args: list[str | Path] = ["metrics", "--hyp", tmp_path / "nope", "--ref", tmp_path / "nope"]
    result = run_cli(*args[:place], "-v", *args[place:])
    assert result.rc == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("dragoman: cannot read ")


@pytest.mark.parametrize("place", [0, 1])
def test_quiet_leaves_the_data(run_cli: RunCli, files: list[str], place: int) -> None:
    args = ["metrics", *files]
    result = run_cli(*args[:place], "-q", *args[place:])
    assert (result.rc, result.stderr) == (0, "")
    assert result.stdout == run_cli(*args).stdout != ""


def _listen() -> None:
    """A job that a shell started in the background ignores Ctrl-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_interruption(files: list[str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    args = [COMMAND, "metrics", "--hyp", str(pipe), "--ref", files[1]]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_listen)
    with process, pipe.open("w"):  # the pipe opens when the command reads
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (130, "", "dragoman: interrupted.\n")


def test_a_reader_that_goes_away(files: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    args = [COMMAND, "metrics", *files]
    with subprocess.Popen(args, stdout=writing, stderr=subprocess.PIPE, text=True, env=BUFFERED) as process:
        os.close(writing)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (141, "")


def test_a_full_disk_behind_standard_output(files: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [COMMAND, "metrics", *files], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 1
    what = "cannot write the output: No space left on device"
    assert result.stderr == f"dragoman: {what}; make room, or choose another place.\n"


def test_a_closed_standard_output(files: list[str]) -> None:
    script = f'"{COMMAND}" metrics {" ".join(files)} >&-'
    result = subprocess.run(["bash", "-c", script], stderr=subprocess.PIPE, text=True, check=False)
    assert "Traceback" not in result.stderr


def test_output_is_utf8_whatever_the_locale(run_cli: RunCli, files: list[str], write_lines: WriteLines) -> None:
    other = write_lines("ältere", ["a b c d e"])
    result = run_cli("metrics", *files, "--baseline", other, env={"LC_ALL": "C", "PYTHONIOENCODING": "latin-1"})
    assert result.rc == 0
    assert "ältere" in result.stdout


def test_the_log_goes_to_the_present_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    handler = common._Stderr()
    for level in (logging.INFO, logging.WARNING):
        handler.emit(logging.LogRecord("dragoman.x", level, "", 0, "%d lines", (3,), None))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "3 lines\nwarning: 3 lines\n")


def test_progress_is_plain_lines_where_there_is_no_terminal(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], log_level: None
) -> None:
    common.logger.setLevel(logging.INFO)
    with common.Progress("translating", 10, seconds=0.0) as progress:
        progress.update(0)
        progress.update(5, "320 tokens/s")
        progress.update(10)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0].startswith("translating: 5 of 10, ")
    assert messages[0].endswith(" s left, 320 tokens/s")
    assert messages[1] == "translating: 10 of 10, 0 s left"
    caplog.clear()
    with common.Progress("translating", 10, seconds=3600.0) as progress:
        progress.update(5)
    assert not caplog.records
    assert capsys.readouterr().out == ""


def test_progress_is_a_bar_on_a_terminal(tmp_path: Path) -> None:
    """Run on a pseudo terminal; standard output stays free of the bar."""
    code = (
        "import logging\n"
        "from dragoman.cli import common\n"
        "common.set_up_streams()\n"
        "with common.Progress('translating', 4) as progress:\n"
        "    for i in range(5):\n"
        "        progress.update(i, 'x')\n"
        "    print('data')\n"
        "    common.logger.info('news')\n"
    )
    leader, follower = os.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=follower, text=True) as process:
        os.close(follower)
        seen = b""
        while True:
            try:
                block = os.read(leader, 65536)
            except OSError:  # how Linux reports that the other end is closed
                break
            if not block:
                break
            seen += block
        stdout = process.communicate(timeout=60)[0]
    os.close(leader)
    assert (process.returncode, stdout) == (0, "data\n")
    assert "translating" in seen.decode()
    assert "4/4" in seen.decode()
    assert "news" in seen.decode()


def test_progress_keeps_quiet(caplog: pytest.LogCaptureFixture, log_level: None) -> None:
    common.logger.setLevel(logging.WARNING)
    assert common.is_quiet()
    with common.Progress("translating", 2, seconds=0.0) as progress:
        progress.update(1)
    assert not caplog.records


def test_settings_of_the_process() -> None:
    code = (
        "import os, sys\n"
        "from dragoman.cli.common import prepare_runtime\n"
        "before = dict(os.environ)\n"
        "prepare_runtime()\n"
        "assert dict(os.environ) == before\n"
        "prepare_runtime(threads=1)\n"
        "print(os.environ['OMP_NUM_THREADS'], os.environ['RAYON_NUM_THREADS'], 'torch' in sys.modules)\n"
        "import torch\n"
        "print(torch.get_num_threads())\n"
    )
    environment = {**os.environ, "GOMP_SPINCOUNT": "1000"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert result.stdout == "1 1 False\n1\n"


@pytest.mark.parametrize(
    ("load", "threads", "shared"),
    [
        ("0.00 0.00 0.00 1/300 99", None, False),
        ("0.00 0.00 0.00 2/300 99", None, True),
        ("9.00 9.00 9.00 1/300 99", None, False),
        ("0.00 0.00 0.00 2/300 99", 3, False),
        ("0.00 0.00 0.00 3/300 99", 3, True),
        ("0.00 0.00 0.00 9/300 99", 1, False),
        ("", None, False),
        ("0.00 0.00", None, False),
        (None, None, False),
    ],
)
def test_a_shared_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: str | None, threads: int | None, shared: bool
) -> None:
    """Four processors, and what else runs beside the threads that are wanted."""
    if load is not None:
        (tmp_path / "loadavg").write_text(load)
    monkeypatch.setattr(common, "_LOAD", tmp_path / "loadavg")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert common.is_shared(threads) == shared
    monkeypatch.setenv("OMP_NUM_THREADS", "0")
    assert common.is_shared(threads) == shared
    if threads:
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        assert common.is_shared() == shared
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(os, "environ", os.environ.copy())
    common.prepare_runtime(threads)
    assert os.environ.get("OMP_WAIT_POLICY") == ("PASSIVE" if shared else None)


def test_a_chosen_way_to_wait_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loadavg").write_text("0.00 0.00 0.00 99/300 99")
    monkeypatch.setattr(common, "_LOAD", tmp_path / "loadavg")
    for name, value in (("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "1000")):
        environment = {**os.environ, name: value}
        monkeypatch.setattr(os, "environ", environment)
        common.prepare_runtime()
        assert environment[name] == value
        assert environment.get("OMP_WAIT_POLICY") != "PASSIVE"
