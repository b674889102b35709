"""``dragoman evaluate`` through the real entry point."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bundles import LINES, make_bundle
from conftest import RunCli
from dragoman import Translator
from dragoman.bundle import save_bundle
from dragoman.config import ModelConfig, TokenizerConfig
from dragoman.evaluation import METRICS, evaluate
from dragoman.model.transformer import Transformer
from dragoman.phrasebook import generate
from dragoman.text.tokenizer import Tokenizer, TokenizerPair

WriteLines = Callable[[str, Sequence[str]], Path]
# An empty source and an empty reference are scored like all others.
SOURCES = [*LINES, "", "key"]
REFERENCES = ["Die alte Fähre", "Schlüssel", "Niemand", "Ein Wind", "x", "Ärger", "nichts", ""]
LIMIT = ("--max-length", "8", "--beam-size", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    save_bundle(make_bundle(), folder)
    return folder


@pytest.fixture
def files(write_lines: WriteLines) -> list[str | Path]:
    return ["--src", write_lines("src", SOURCES), "--ref", write_lines("ref", REFERENCES)]


@pytest.fixture(scope="module")
def translations(model: Path) -> list[str]:
    found = Translator.load(model, device="cpu").translate(SOURCES, max_length=8, beam_size=2)
    return [one.text for one in found]


@pytest.mark.parametrize("lowercase", [False, True])
def test_json_is_the_score_of_the_translations(
    run_cli: RunCli, model: Path, files: list[str | Path], translations: list[str], lowercase: bool, tmp_path: Path
) -> None:
    flags = ["--lowercase"] if lowercase else []
    metrics = ["--metrics", ",".join(METRICS), "--json", "-o", tmp_path / "out"]
    result = run_cli("evaluate", model, *files, *LIMIT, *metrics, *flags, "-q")
    assert (result.rc, result.stderr) == (0, "")
    fields = json.loads(result.stdout)
    assert fields["sentences"] == len(SOURCES)
    expected = evaluate(translations, REFERENCES, METRICS, lowercase, confidence=True)
    assert fields["scores"] == [vars(score) for score in expected]
    kept = (tmp_path / "out").read_text("utf-8").split("\n")[:-1]
    assert kept == [text.replace("\n", " ") for text in translations]


def test_the_table(run_cli: RunCli, model: Path, files: list[str | Path], translations: list[str]) -> None:
    result = run_cli("evaluate", model, *files, *LIMIT)
    assert result.rc == 0
    header, *rows = result.stdout.splitlines()
    assert header.split() == ["metric", "score", "95", "%", "interval", "signature"]
    for row, score in zip(rows, evaluate(translations, REFERENCES, confidence=True), strict=True):
        assert row.split()[1] == f"{score.value:.2f}"
        assert row.split()[-1] == score.signature


def test_refusals_before_the_work(run_cli: RunCli, files: list[str | Path], tmp_path: Path) -> None:
    nowhere = tmp_path / "no-model"
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "short").write_bytes(b"a\nb\n")
    (tmp_path / "bad").write_bytes(b"a\n\xff\n")
    cases: list[tuple[list[str | Path], int, str]] = [
        (["--src", tmp_path / "nope", *files[2:]], 1, "cannot read nope: No such file"),
        (["--src", tmp_path, *files[2:]], 1, "is a folder; give a file."),
        (["--src", tmp_path / "empty", *files[2:]], 1, "empty is empty; give a file with one sentence a line."),
        ([*files[:2], "--ref", tmp_path / "short"], 1, "src has 8 lines and short has 2; give files that belong"),
        ([*files, "--ref", tmp_path / "empty"], 1, "src has 8 lines and empty has 0; give files that belong"),
        ([*files[:2], "--ref", tmp_path / "bad"], 1, "bad, line 2: byte 0xff at column 1 is not UTF-8"),
        (["--src", "-", "--ref", "-"], 2, "standard input can be read only once"),
        ([*files, "-o", "-"], 2, "-o keeps the translations, and standard output has the scores; give a file."),
        ([*files, "-o", tmp_path], 1, "it is a folder; give a file in it."),
    ]
    for args, code, message in cases:
        result = run_cli("evaluate", nowhere, *args)
        assert (result.rc, result.stdout) == (code, ""), args
        assert result.stderr.count("\n") == 1
        assert message in result.stderr.replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [(["--metrics", "blue"], 2, '(did you mean "bleu"?)'), ([], 1, "no-model does not exist")],
)
def test_refusals_of_names(
    run_cli: RunCli, files: list[str | Path], args: list[str], code: int, message: str, tmp_path: Path
) -> None:
    result = run_cli("evaluate", tmp_path / "no-model", *files, *args)
    assert (result.rc, result.stdout) == (code, "")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


@pytest.mark.parametrize("missing", ["--src", "--ref"])
def test_wrong_usage(run_cli: RunCli, missing: str) -> None:
    given = {"--src": "a", "--ref": "b"}
    del given[missing]
    result = run_cli("evaluate", "model", *(word for pair in given.items() for word in pair))
    assert (result.rc, result.stdout) == (2, "")
    assert f"Missing option '{missing}'" in result.stderr


def test_files_that_are_swapped_are_said_to_be(run_cli: RunCli, model: Path, write_lines: WriteLines) -> None:
    """The scores come all the same; text in the model's direction gives no alarm."""
    pairs = generate(1, 1, 30, seed=1).test
    english, german = write_lines("en", [pair.src for pair in pairs]), write_lines("de", [pair.tgt for pair in pairs])
    right = run_cli("evaluate", model, "--src", english, "--ref", german, *LIMIT, "-q")
    assert (right.rc, right.stderr) == (0, "")
    wrong = run_cli("evaluate", model, "--src", german, "--ref", english, *LIMIT, "-q")
    said = "--src is in de and --ref in en, and this model translates from en to de; swap the two files."
    # Behind it stands what is said of sentences that are too long for this model.
    assert wrong.rc == 0
    assert wrong.stderr.startswith(f"warning: {said}\n")
    assert wrong.stdout.startswith("metric")


def test_a_model_that_writes_lower_case_alone_is_said_to(
    run_cli: RunCli, model: Path, files: list[str | Path], tmp_path: Path
) -> None:
    bundle = make_bundle()
    config = TokenizerConfig(kind="bpe", vocab_size=300, lowercase=True)
    joint = Tokenizer.train(config, LINES)
    shape = {"src_vocab_size": joint.vocab_size, "tgt_vocab_size": joint.vocab_size}
    lower = replace(
        bundle,
        tokenizers=TokenizerPair(joint, joint),
        model=Transformer(ModelConfig(**{**bundle.model.config.model_dump(), **shape})),
    )
    save_bundle(lower, tmp_path / "lower")
    said = "lower case alone; --lowercase"
    assert said in run_cli("evaluate", tmp_path / "lower", *files, *LIMIT).stderr
    assert said not in run_cli("evaluate", tmp_path / "lower", *files, *LIMIT, "--lowercase").stderr
    assert said not in run_cli("evaluate", model, *files, *LIMIT).stderr
