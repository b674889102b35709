"""The records of a run: lines of JSON, TensorBoard curves, and the cut on resume."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import RunError
from dragoman.training.metrics_log import MetricsLog


@pytest.fixture
def log(tmp_path: Path) -> MetricsLog:
    return MetricsLog(tmp_path / "run")


def records(log: MetricsLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.path.read_bytes().decode().split("\n")[:-1]]


def curves(log: MetricsLog) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would draw."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(log.path.parent / "tensorboard"))
    board.Reload()
    return {tag: [(event.step, event.value) for event in board.Scalars(tag)] for tag in board.Tags()["scalars"]}


def test_one_line_a_record_that_is_on_disk_at_once(log: MetricsLog) -> None:
    log.write("train", {"step": 1, "loss": 2.5})
    assert records(log) == [{"kind": "train", "step": 1, "loss": 2.5}]
    log.write("valid", {"step": 2, "bleu": 30.0, "signatures": {"bleu": "x|y"}, "best": True})
    assert records(log)[1] == {"kind": "valid", "step": 2, "bleu": 30.0, "signatures": {"bleu": "x|y"}, "best": True}
    log.close()


def test_nothing_is_made_before_the_first_record(log: MetricsLog) -> None:
    log.truncate_after(5)
    log.close()
    assert not log.path.parent.exists()


def test_numbers_become_curves_and_words_do_not(log: MetricsLog) -> None:
    for step in (1, 2):
        log.write("train", {"step": step, "loss": 1.5 * step, "note": "word"})
    log.write("valid", {"step": 2, "loss": 9.0})
    log.close()
    assert curves(log) == {"train/loss": [(1, 1.5), (2, 3.0)], "valid/loss": [(2, 9.0)]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_null(log: MetricsLog, value: float) -> None:
    """JSON has no word for it, and other readers stop at Python's."""
    log.write("train", {"step": 1, "loss": value, "lr": 0.1})
    log.close()
    assert "NaN" not in log.path.read_text()
    assert "Infinity" not in log.path.read_text()
    assert records(log) == [{"kind": "train", "step": 1, "loss": None, "lr": 0.1}]
    assert curves(log) == {"train/lr": [(1, pytest.approx(0.1))]}


def test_records_past_a_step_are_cut(log: MetricsLog) -> None:
    for step in (10, 20, 30):
        log.write("train", {"step": step, "loss": 1.0 / step})
    log.write("test", {"step": 10, "bleu": 3.0})
    with log.path.open("a") as stream:
        stream.write('{"kind": "train", "step": 2')
    log.truncate_after(20)
    assert [record["step"] for record in records(log)] == [10, 20]
    log.write("train", {"step": 30, "loss": 7.0})
    assert [record["step"] for record in records(log)] == [10, 20, 30]
    log.close()


def test_a_resumed_curve_has_each_step_once(log: MetricsLog) -> None:
    for step in (1, 2, 3, 4):
        log.write("train", {"step": step, "loss": float(step)})
    log.close()
    again = MetricsLog(log.path.parent)
    again.truncate_after(2)
    for step in (3, 4, 5):
        again.write("train", {"step": step, "loss": 10.0 * step})
    again.close()
    assert curves(again)["train/loss"] == [(1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0), (5, 50.0)]


@pytest.mark.parametrize(
    "damage", ["", "\n", "[1, 2]\n", '{"step": "x", "kind": 1}\n', '{"step": 3}\n', "null\n", "\0\n"]
)
def test_lines_that_a_crash_left_are_dropped(log: MetricsLog, damage: str) -> None:
    log.write("train", {"step": 1})
    log.close()
    with log.path.open("a", newline="\n") as stream:
        stream.write(damage + '{"kind": "train", "st')
    log.truncate_after(5)
    assert records(log) == [{"kind": "train", "step": 1}]


@given(st.text(max_size=20))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_survives_the_cut(tmp_path: Path, text: str) -> None:
    """Line separators of Unicode and a lone CR stand inside a record, not between two."""
    path = tmp_path / "metrics.jsonl"
    path.unlink(missing_ok=True)
    log = MetricsLog(tmp_path)
    line = json.dumps({"kind": "valid", "step": 1, "text": f"a\u2028{text}\x85"}, ensure_ascii=False)
    try:
        path.write_bytes(line.encode() + b"\n")
    except UnicodeEncodeError:  # a lone surrogate is no text
        return
    log.truncate_after(1)
    assert path.read_bytes() == line.encode() + b"\n"


def test_the_cut_is_atomic(log: MetricsLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash while cutting leaves the old file."""
    log.write("train", {"step": 1})
    log.write("train", {"step": 2})
    log.close()
    before = log.path.read_bytes()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            log.truncate_after(1)
    assert log.path.read_bytes() == before
    assert [path.name for path in log.path.parent.iterdir() if path.name != "tensorboard"] == ["metrics.jsonl"]


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write the records"):
        MetricsLog(tmp_path / "file").write("train", {"step": 1})


def test_others_may_read_what_the_umask_allows(log: MetricsLog) -> None:
    old = os.umask(0o022)
    try:
        log.write("train", {"step": 1})
        log.truncate_after(1)
        log.close()
    finally:
        os.umask(old)
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o644
