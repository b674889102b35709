"""Options of the commands that decode: by the names that were typed, and what cannot be together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from bundles import LINES, make_bundle
from conftest import RunCli
from dragoman.bundle import save_bundle
from dragoman.cli import common, work
from dragoman.cli.main import COMMANDS, Commands, app
from dragoman.config import DecodeConfig
from dragoman.errors import RunError
from serving import serving

WriteLines = Callable[[str, Sequence[str]], Path]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    save_bundle(make_bundle(), folder)
    bundle = make_bundle()
    save_bundle(replace(bundle, decode=bundle.decode.changed(n_best=3)), folder.with_name("several"))
    return folder


@pytest.fixture
def text(write_lines: WriteLines) -> Path:
    return write_lines("text", LINES)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--n-best", "9"], "--n-best 9 needs a --beam-size of at least 9, and it is 3."),
        (["--length-penalty", "1000"], "--length-penalty is 1000.0: input should be less than or equal to 10."),
        (
            ["--beam-size", "2000", "--max-length-ratio", "-1"],
            "--beam-size is 2000: input should be less than or equal to 1000; --max-length-ratio is -1.0: input should "
            "be greater than or equal to 0.",
        ),
        (["--sample", "--top-p", "0"], "--top-p is 0.0: input should be greater than 0."),
        (["--max-length", "8", "--min-length", "9"], "--min-length 9 is above --max-length 8."),
        (["--min-length-ratio", "3"], "--min-length-ratio 3.0 is above --max-length-ratio 1.0."),
        (
            ["--min-length", "100000"],
            "--min-length 100000 is above the 64 target tokens that this model writes at most; lower it, or set "
            "--max-length.",
        ),
        (["--suppress", "</s>"], "--suppress: a translation without its end token never ends; leave that token out."),
    ],
)
def test_translate_names_its_options(
    run_cli: RunCli, model: Path, text: Path, args: list[str], message: str, tmp_path: Path
) -> None:
    result = run_cli("translate", model, text, "-o", tmp_path / "out", *args)
    assert (result.rc, result.stdout, result.stderr) == (1, "", f"dragoman: {message}\n")
    assert not (tmp_path / "out").exists()


def test_a_worker_process_names_them_too(run_cli: RunCli, model: Path, text: Path) -> None:
    result = run_cli("translate", model, text, "--workers", "2", "--n-best", "9")
    assert result.stderr == "dragoman: --n-best 9 needs a --beam-size of at least 9, and it is 3.\n"


def test_a_prefix_that_is_too_long(run_cli: RunCli, model: Path, text: Path, write_lines: WriteLines) -> None:
    prefixes = write_lines("prefixes", ["Zaun " * 9] * len(LINES))
    result = run_cli("translate", model, text, "--prefix", prefixes, "--max-length", "3")
    assert result.rc == 1
    assert "may have 3; shorten the prefix or raise --max-length.\n" in result.stderr


def test_the_other_commands_name_theirs(run_cli: RunCli, model: Path, text: Path, tmp_path: Path) -> None:
    wide = "--beam-size is 2000: input should be less than or equal to 1000"
    result = run_cli("evaluate", model, "--src", text, "--ref", text, "--beam-size", "2000")
    assert (result.rc, result.stdout, result.stderr) == (1, "", f"dragoman: {wide}.\n")
    result = run_cli("attention", model, LINES[0], "-o", tmp_path / "x.html", "--beam-size", "2000")
    assert (result.rc, result.stderr) == (1, f"dragoman: {wide}.\n")
    # What is no option of the command keeps the name that the model directory has for it.
    several = model.with_name("several")
    result = run_cli("attention", several, LINES[0], "-o", tmp_path / "x.html", "--beam", "--beam-size", "1")
    assert (result.rc, result.stderr) == (1, "dragoman: n_best 3 needs a --beam-size of at least 3, and it is 1.\n")
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--sample", "--beam-size", "4"], "--beam-size is for a search, and --sample draws at random; leave one of t"),
        (["--top-k", "4"], "--top-k is for drawing; add --sample."),
        (["--temperature", "0.5", "--beam-size", "2"], "--temperature is for drawing; add --sample."),
    ],
)
def test_clashes_are_wrong_usage_before_a_model_is_read(
    run_cli: RunCli, text: Path, args: list[str], message: str
) -> None:
    result = run_cli("translate", "no-model", text, *args)
    assert (result.rc, result.stdout) == (2, "")
    assert result.stderr.startswith(f"dragoman: {message}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("option", "value"), [("--beam-size", "2"), ("--length-penalty", "0.5")])
def test_a_given_translation_is_not_searched_for(run_cli: RunCli, option: str, value: str, tmp_path: Path) -> None:
    result = run_cli("attention", "no-model", "a", "-o", tmp_path / "x.html", "--tgt", "b", option, value)
    assert result.rc == 2
    assert result.stderr == (
        f"dragoman: {option} is for a search, and --tgt is looked at as it is; leave one of them out.\n"
    )


def options_of(name: str) -> dict[str, Any]:
    """The options of a command by the names of their parameters."""
    group = typer.main.get_command(app)
    assert isinstance(group, Commands)
    return {one.name: one for one in group.get_command(None, name).params if one.param_type_name == "option"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_setting_that_is_an_option_is_called_as_it_is(name: str) -> None:
    """That is what makes the names in errors right, for the options of today and of tomorrow."""
    for parameter, option in options_of(name).items():
        if parameter in DecodeConfig.model_fields:
            assert f"--{parameter.replace('_', '-')}" in option.opts


def test_what_a_model_warns_of_is_said_by_one_process(run_cli: RunCli, model: Path, write_lines: WriteLines) -> None:
    path = write_lines("many", ["key"] * 3000)
    options = ["--max-length", "1", "--beam-size", "1", "-q"]
    warning = "warning: bf16 on a processor runs without the fast engine and is seldom faster than fp32; int8 is.\n"
    for workers in ("1", "3"):
        result = run_cli("translate", model, path, *options, "--precision", "bf16", "--workers", workers)
        assert (result.rc, result.stderr) == (0, warning)
        assert result.stdout.count("\n") == 3000


def test_serve_compiles_as_translate_does(run_cli: RunCli, model: Path, text: Path) -> None:
    """Where it cannot be compiled, both say so, once and in the same words."""
    said = "warning: no compiled step, decoding goes on without: it needs float32 on an x86 processor."
    options = ["--compile", "--precision", "int8"]
    result = run_cli("translate", model, text, *options, "--beam-size", "1")
    assert (result.rc, result.stderr) == (0, f"{said}\n")
    for workers in ("1", "2"):
        with serving(model, *options, "--workers", workers) as server:
            assert server.post("/v1/translate", text="key", options={"beam_size": 1}).status_code == 200
            assert server.log.count(said) == 1
    with serving(model, "--precision", "int8") as server:
        assert said not in server.log


def test_a_worker_that_loads_in_silence_talks_again(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = []

    def load(asked: work.Work) -> None:
        levels.append(common.logger.level)
        raise RunError("no.")

    before = common.logger.level
    monkeypatch.setattr(work, "_load", load)
    with pytest.raises(RunError):
        work._lines(work.Work([model], "cpu", "fp32"), (0, ["key"], None))
    assert (levels, common.logger.level) == ([logging.ERROR], before)


# -- threads, which every command that computes takes ------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--out", "{folder}/demo"),
        ("translate", "{model}", "{text}"),
        ("evaluate", "{model}", "--src", "{text}", "--ref", "{text}"),
        ("attention", "{model}", "key", "-o", "{folder}/out.json"),
        ("doctor", "{model}"),
        ("serve", "{model}"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_threads(
    arguments: tuple[str, ...], model: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def prepare(threads: int | None = None) -> None:
        seen.append(threads)
        raise RunError("seen.")

    monkeypatch.setattr(common, "prepare_runtime", prepare)
    given = [one.format(model=model, text=text, folder=tmp_path) for one in arguments]
    for more in ([], ["--threads", "3"]):
        with pytest.raises(RunError, match="seen"):
            app([*given, *more], standalone_mode=False)
    assert seen == [None, 3]


def test_threads_of_a_configuration_that_is_looked_at(
    tmp_path: Path, write_lines: WriteLines, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stand in place of its own, like every setting that is given; a model has none."""
    seen = []

    def examine(target: Path, settings: Sequence[str], *_: Any) -> None:
        seen.append(list(settings))

    monkeypatch.setattr("dragoman.doctor.examine.examine", examine)
    monkeypatch.setattr(common, "prepare_runtime", lambda threads: None)
    config = str(write_lines("config.yaml", ["train: {threads: 2}"]))
    app(["doctor", config, "train.seed=3", "--threads", "1"], standalone_mode=False)
    app(["doctor", config], standalone_mode=False)
    app(["doctor", str(model), "--threads", "1"], standalone_mode=False)
    assert seen == [["train.seed=3", "train.threads=1"], [], []]
