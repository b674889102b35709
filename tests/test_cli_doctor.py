"""``dragoman doctor``: what it prints, how it ends, and what it leaves alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from bundles import SRC_TEXT, TGT_TEXT, make_bundle
from conftest import REPOSITORY, RunCli
from dragoman import phrasebook
from dragoman.bundle import save_bundle
from dragoman.cli.doctor import doctor
from dragoman.doctor import saying
from dragoman.doctor.examine import Examination, counts, examine
from dragoman.errors import ConfigError, DataError, UsageError
from dragoman.preflight.finding import Outcome

WriteLines = Callable[[str, Sequence[str]], Path]
SHAPE = {"d_model": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 64, "tie_embeddings": "all"}


@pytest.fixture
def config(tmp_path: Path, write_lines: WriteLines) -> Path:
    """A small but healthy configuration on the phrasebook."""
    splits = phrasebook.generate(1500, 60, 60, seed=1)
    for name in ("train", "valid", "test"):
        pairs = getattr(splits, name)
        write_lines(f"{name}.en", [pair.src for pair in pairs])
        write_lines(f"{name}.de", [pair.tgt for pair in pairs])
    files = {name: {"src": f"{name}.en", "tgt": f"{name}.de"} for name in ("train", "valid", "test")}
    settings = {
        "data": {"src_lang": "en", "tgt_lang": "de", **files},
        "tokenizer": {"vocab_size": 700},
        "model": SHAPE,
        "train": {"max_steps": 1000, "warmup_steps": 50, "lr": 0.003, "threads": 1},
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    # Apart, so that the folder is no run.
    apart = tmp_path / "configs" / "small.yaml"
    apart.parent.mkdir()
    settings["data"]["dir"] = ".."  # type: ignore[index]
    apart.write_text(yaml.safe_dump(settings))
    path.unlink()
    return apart


def look(target: Path, overrides: Sequence[str] = (), **text: Any) -> tuple[list[Outcome], list[str]]:
    made = Examination(lambda line: None)
    examine(target, overrides, text.get("src"), text.get("ref"), made)
    return made.outcomes, [
        finding.text for one in made.outcomes for finding in one.findings if finding.severity != "ok"
    ]


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_healthy_configuration(config: Path, tmp_path: Path, run_cli: RunCli) -> None:
    before = files(tmp_path)
    # It ends long before, unless the machine is busy.
    done = run_cli("doctor", config, "--seconds=600", cwd=tmp_path, timeout=600)
    assert done.rc == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "0 errors, 0 warnings, 0 notes"
    assert all(line.startswith("✓ ") for line in lines[:-1])
    assert len(lines) > 20
    assert any("the loss of 8 pairs fell from" in line for line in lines)
    assert any("up to 3.0e-03 the loss went" in line for line in lines)
    assert done.stderr.startswith(f"looking at {config}\n")
    assert "checking: repeated pairs" in done.stderr
    assert files(tmp_path) == before


def test_nothing_takes_long_in_silence(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a clock has moved on between two looks, each long part says how far it is."""
    monkeypatch.setattr(saying, "SILENCE", 0.0)
    said: list[str] = []
    examine(config, [], None, None, Examination(said.append))
    for line in (
        "reading the text: 1,500 pairs",
        "cutting the sample into tokens: 1,500 pairs",
        "learning one batch by heart: 2 updates, loss ",
        "trying the learning rate: ",
    ):
        assert any(one.startswith(line) for one in said), line


def test_it_is_said_every_few_seconds_and_not_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 2.9, 3.0, 5.9, 6.1])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    said: list[str] = []
    often = saying.Often(said.append)
    for number in range(5):
        often(str(number))
    assert said == ["2", "4"]


def test_errors_end_with_1_and_training_is_not_tried(config: Path, run_cli: RunCli) -> None:
    done = run_cli("doctor", "-q", config, "model.positions=learned", "model.max_length=8", "--json")
    assert done.rc == 1
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["error"] == 2
    assert told["target"] == str(config)
    failed = [one for one in told["checks"] if any(finding["severity"] == "error" for finding in one["findings"])]
    assert [one["check"] for one in failed] == [
        "longest sentences, positions and batches",
        "validation text against the positions",
    ]
    assert not failed[0]["passed"]
    assert any(one["check"] == "learning" for one in told["checks"])


def test_warnings_end_with_0(config: Path, run_cli: RunCli) -> None:
    done = run_cli("doctor", "-q", config, "train.lr=50", "train.clip_norm=0")
    assert done.rc == 0
    assert "!   warning: train.lr 50 is so large that training will diverge" in done.stdout
    assert "!   warning: at a learning rate of" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 errors, 2 warnings, 0 notes"


def test_text_that_cannot_be_read_is_a_finding(config: Path, run_cli: RunCli) -> None:
    done = run_cli("doctor", "-q", config, "data.train.src=gone.en")
    assert done.rc == 1
    assert "✗   error: cannot read" in done.stdout
    assert "gone.en" in done.stdout


def test_text_in_a_bad_state(config: Path, tmp_path: Path) -> None:
    lines = (tmp_path / "train.de").read_text().splitlines()
    del lines[0]
    lines[700] = "x &amp; y\r z"
    (tmp_path / "train.de").write_bytes("".join(f"{line}\n" for line in [*lines, "Ende."]).encode())
    shutil.copy(tmp_path / "valid.en", tmp_path / "valid.de")
    _, found = look(config, ["data.test.src=train.en", "data.test.tgt=train.de"])
    for words in ("moved up by a line", "carriage return", "HTML entities", "of the pairs of data.test,"):
        assert any(words in text for text in found), words


def test_nothing_is_left_to_learn_from(config: Path, tmp_path: Path) -> None:
    _, found = look(config, ["data.max_length=1"])
    assert "every training pair is empty, too long or over the ratio" in found[-1]
    (tmp_path / "train.en").write_text("\n" * 1500)
    _, found = look(config)
    assert found == ["the training text holds no pair of sentences; check data.train."]


def test_tokenizers_from_a_file_of_another_language(config: Path, tmp_path: Path) -> None:
    make_bundle(kind="wordlevel").tokenizers.src.save(tmp_path / "words.json")
    _, found = look(config, ["tokenizer.path=words.json"])
    assert any("of the tokens of training text's sources are unknown words" in text for text in found)
    # A path that does not exist yet stays so.
    look(config, ["tokenizer.path=new.json", "data.max_length=1"])
    assert not (tmp_path / "new.json").exists()


def test_a_model_to_go_on_from(config: Path, tmp_path: Path) -> None:
    save_bundle(make_bundle(**SHAPE), tmp_path / "base")
    outcomes, _ = look(config, ["train.init_from=base", "tokenizer={}"])
    texts = {one.title: one.findings for one in outcomes}
    assert texts["tokenizers"][0].text == "those of base"
    with pytest.raises(ConfigError, match=r"train\.init_from has other values for model\.d_ff;"):
        look(config, ["train.init_from=base", "tokenizer={}", "model.d_ff=640"])


def test_a_model_with_and_without_text(tmp_path: Path, write_lines: WriteLines, run_cli: RunCli) -> None:
    save_bundle(make_bundle(), tmp_path / "model")
    src, ref = write_lines("a.en", SRC_TEXT * 6), write_lines("a.de", TGT_TEXT * 6)
    done = run_cli("doctor", "-q", tmp_path / "model")
    assert (done.rc, done.stderr) == (0, "")
    assert "give --src" in done.stdout
    done = run_cli("doctor", "-q", tmp_path / "model", "--src", src, "--ref", ref)
    assert done.rc == 1
    assert "no better than guessing" in done.stdout
    outcomes, _ = look(tmp_path / "model", src=SRC_TEXT * 6)
    assert not any("loss of real pairs" in one.title for one in outcomes)
    assert counts(outcomes)["error"] == 0


def test_targets_and_options_that_are_refused(config: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        doctor(tmp_path / "gone")
    with pytest.raises(DataError, match="holds neither a run"):
        doctor(tmp_path)
    with pytest.raises(UsageError, match="--ref needs --src"):
        doctor(config, ref=config)
    with pytest.raises(DataError, match="a configuration names its own text"):
        doctor(config, src=tmp_path / "valid.en")
    save_bundle(make_bundle(), tmp_path / "model")
    with pytest.raises(DataError, match="KEY=VALUE changes a configuration file"):
        doctor(tmp_path / "model", ["train.lr=1"])
    with pytest.raises(DataError, match=r"60 lines and .* has 1,500"):
        doctor(tmp_path / "model", src=tmp_path / "valid.en", ref=tmp_path / "train.de")
    (tmp_path / "empty").write_text("")
    with pytest.raises(DataError, match="is empty"):
        doctor(tmp_path / "model", src=tmp_path / "empty")
    with pytest.raises(ConfigError, match="did you mean"):
        doctor(config, ["train.lrr=1"])


@pytest.mark.shared
@pytest.mark.slow
def test_the_recipe_on_its_own_text_gives_no_alarm(shared_dir: Path, run_cli: RunCli) -> None:
    recipe = REPOSITORY / "recipes" / "multi30k-en-de.yaml"
    folder = shared_dir / "data" / "multi30k"
    done = run_cli("doctor", "-q", recipe, f"data.dir={folder}", "--json", "--seconds=20", timeout=600)
    told = json.loads(done.stdout)
    assert done.rc == 0, done.stdout
    assert (told["error"], told["warning"]) == (0, 0)
