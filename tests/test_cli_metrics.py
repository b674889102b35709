"""``dragoman metrics`` through the real entry point."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from conftest import RunCli
from dragoman.evaluation import METRICS, compare, evaluate

WriteLines = Callable[[str, Sequence[str]], Path]
HYPOTHESES = ["Der Hund läuft schnell.", "zwei katzen schlafen", "", "eine rote Tür steht offen"]
REFERENCES = ["Der Hund läuft schnell.", "Zwei Katzen schlafen dort.", "Nichts", "eine rote Tür ist offen"]


@pytest.fixture
def hyp(write_lines: WriteLines) -> Path:
    return write_lines("hyp.de", HYPOTHESES)


@pytest.fixture
def ref(write_lines: WriteLines) -> Path:
    return write_lines("ref.de", REFERENCES)


def test_the_table(run_cli: RunCli, hyp: Path, ref: Path) -> None:
    result = run_cli("metrics", "--hyp", hyp, "--ref", ref, "--metrics", ",".join(METRICS))
    assert (result.rc, result.stderr) == (0, "")
    header, *rows = result.stdout.splitlines()
    assert header.split() == ["metric", "score", "95", "%", "interval", "signature"]
    for row, score in zip(rows, evaluate(HYPOTHESES, REFERENCES, METRICS, confidence=True), strict=True):
        assert row.split() == [
            score.signature.partition("|")[0],
            f"{score.value:.2f}",
            f"{score.low:.2f}",
            "-",
            f"{score.high:.2f}",
            score.signature,
        ]
    assert len({row.index(row.split()[-1]) for row in rows}) == 1


def test_bleu_and_chrf_are_the_default(run_cli: RunCli, hyp: Path, ref: Path) -> None:
    result = run_cli("metrics", "--hyp", hyp, "--ref", ref, "--no-confidence")
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["BLEU", "chrF2"]
    assert all(len(row) == 3 for row in rows)


@pytest.mark.parametrize("lowercase", [False, True])
def test_json_holds_every_field(run_cli: RunCli, hyp: Path, ref: Path, lowercase: bool) -> None:
    flags = ["--lowercase"] if lowercase else []
    result = run_cli(
        "metrics", "--hyp", hyp, "--ref", ref, "--metrics", "wer, BLEU", "--baseline", ref, "--json", *flags
    )
    fields = json.loads(result.stdout)
    assert list(fields) == ["sentences", "scores", "comparisons"]
    assert fields["sentences"] == 4
    scores = evaluate(HYPOTHESES, REFERENCES, ["wer", "bleu"], lowercase, confidence=True)
    assert fields["scores"] == [vars(score) for score in scores]
    comparisons = compare(HYPOTHESES, REFERENCES, REFERENCES, ["wer", "bleu"], lowercase)
    assert fields["comparisons"] == [{**vars(item), "difference": item.difference} for item in comparisons]


def test_a_baseline(run_cli: RunCli, hyp: Path, ref: Path, write_lines: WriteLines) -> None:
    other = write_lines("old.de", ["x"] * 4)
    result = run_cli("metrics", "--hyp", hyp, "--ref", ref, "--baseline", other, "--test", "bs", "--metrics", "cer")
    (expected,) = compare(HYPOTHESES, ["x"] * 4, REFERENCES, ["cer"], test="bs")
    row = result.stdout.splitlines()[-1].split()
    assert row == [
        "CER",
        f"{expected.value:.2f}",
        f"{expected.baseline:.2f}",
        f"{expected.difference:+.2f}",
        f"{expected.p_value:.4f}",
        expected.signature,
    ]
    assert f"against {other}:" in result.stdout


def test_several_references(run_cli: RunCli, hyp: Path, ref: Path) -> None:
    result = run_cli("metrics", "--hyp", hyp, "--ref", ref, "--ref", hyp, "--metrics", "wer", "--json")
    (score,) = json.loads(result.stdout)["scores"]
    assert score["value"] == 0.0
    assert "nrefs:2" in score["signature"]


def test_standard_input_and_gzip(run_cli: RunCli, hyp: Path, ref: Path, tmp_path: Path) -> None:
    packed = tmp_path / "ref.de.gz"
    packed.write_bytes(gzip.compress(ref.read_bytes()))
    plain = run_cli("metrics", "--hyp", hyp, "--ref", ref)
    assert run_cli("metrics", "--hyp", "-", "--ref", packed, stdin=hyp.read_bytes()) == plain


def test_line_ends_inside_a_sentence_shift_nothing(run_cli: RunCli, write_lines: WriteLines) -> None:
    path = write_lines("odd", ["a\u2028b\x85c", "d\x0ce\rf", "g"])
    fields = json.loads(run_cli("metrics", "--hyp", path, "--ref", path, "--metrics", "cer", "--json").stdout)
    assert (fields["sentences"], fields["scores"][0]["value"]) == (3, 0.0)


def test_a_last_line_without_its_end(run_cli: RunCli, ref: Path, tmp_path: Path) -> None:
    hyp = tmp_path / "cut"
    hyp.write_bytes(ref.read_bytes().rstrip(b"\n"))
    assert run_cli("metrics", "--hyp", hyp, "--ref", ref, "--metrics", "wer", "--json").rc == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "bad is empty; give a file with one sentence a line."),
        (b"a\nb\n", "hyp.de has 4 lines and bad has 2; give files that belong line to line."),
        (b"a\nb\xff\nc\nd\n", "bad, line 2: byte 0xff"),
    ],
)
def test_bad_references(run_cli: RunCli, hyp: Path, tmp_path: Path, content: bytes, message: str) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    for option in ("--ref", "--baseline"):
        args = ["--ref", hyp] if option == "--baseline" else []
        result = run_cli("metrics", "--hyp", hyp, *args, option, bad)
        assert (result.rc, result.stdout) == (1, "")
        assert message in result.stderr.replace(f"{tmp_path}/", "")
        assert result.stderr.count("\n") == 1


def test_bad_paths(run_cli: RunCli, hyp: Path, tmp_path: Path) -> None:
    for path, message in ((tmp_path / "nope", "No such file or directory"), (tmp_path, "folder")):
        result = run_cli("metrics", "--hyp", hyp, "--ref", path)
        assert (result.rc, result.stdout) == (1, "")
        assert message in result.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--metrics", "bleu,blue"], 'no metric is called "blue" (did you mean "bleu"?)'),
        (["--metrics", ","], "metrics should be a list of some of bleu, chrf"),
        (["--baseline", "-"], "standard input can be read only once"),
    ],
)
def test_wrong_usage(run_cli: RunCli, hyp: Path, args: list[str], message: str) -> None:
    result = run_cli("metrics", "--hyp", "-" if "-" in args else hyp, "--ref", hyp, *args)
    assert (result.rc, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_large_corpus_has_no_intervals_unless_asked(run_cli: RunCli, write_lines: WriteLines) -> None:
    path = write_lines("many", ["a b"] * 20_001)
    args = ["metrics", "--hyp", path, "--ref", path, "--metrics", "wer", "--json"]
    result = run_cli(*args)
    assert json.loads(result.stdout)["scores"][0]["low"] is None
    assert result.stderr == "no intervals: there are more than 20000 lines.\n"
    result = run_cli(*args, "--confidence")
    assert (result.rc, result.stdout) == (1, "")
    assert "resampling takes at most 20,000 sentences" in result.stderr
