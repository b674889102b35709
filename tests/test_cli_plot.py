"""``dragoman plot``: the numbers that are drawn are those of the package's own code."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bundles import make_bundle
from conftest import REPOSITORY, RunCli
from dragoman.bundle import save_bundle
from dragoman.cli import drawings
from dragoman.cli.plot import plot
from dragoman.config import RunConfig
from dragoman.configfile import dump_config
from dragoman.errors import DataError, DragomanError, UsageError
from dragoman.model.positions import rotation_table, sinusoid_halves_table, sinusoid_table
from dragoman.training.metrics_log import MetricsLog
from tolerances import FLOAT64

RECIPE = REPOSITORY / "recipes" / "multi30k-en-de.yaml"


def config(**parts: Any) -> RunConfig:
    settings = {"data": {"train": {"src": "a", "tgt": "b"}}, "train": {"max_steps": 1000}}
    return RunConfig(**{**settings, **parts})


def config_file(path: Path, **parts: Any) -> Path:
    dump_config(config(**parts), path)
    return path


def images(figure: Any) -> list[Any]:
    """The pictures of a figure, those of colour scales left out."""
    return [np.asarray(axes.get_images()[0].get_array()) for axes in figure.axes if axes.get_images()]


def test_through_the_entry_point(run_cli: RunCli, tmp_path: Path) -> None:
    result = run_cli("plot", "schedule", RECIPE, cwd=tmp_path)
    assert (result.rc, result.stdout, result.stderr) == (0, "", "written to schedule.png\n")
    assert (tmp_path / "schedule.png").read_bytes().startswith(b"\x89PNG")
    result = run_cli("plot", "shedule", RECIPE)
    assert (result.rc, result.stdout) == (2, "")
    assert (
        result.stderr
        == 'dragoman: nothing called "shedule" can be drawn (did you mean "schedule"?); see plot --help.\n'
    )


def test_schedules_by_their_formulas() -> None:
    def rates(**train: Any) -> dict[float, float]:
        line = drawings.schedule_line("x", config(train={"max_steps": 1000, **train}), None)
        assert line.points[0][0] == 1.0
        assert line.points[-1][0] == 1000.0
        assert "assumed" not in line.note
        return dict(line.points)

    noam = rates(schedule="noam", lr=2.0, warmup_steps=100)
    for step in (1.0, 100.0, 1000.0):
        assert noam[step] == pytest.approx(2.0 * 512**-0.5 * min(step**-0.5, step * 100**-1.5), abs=FLOAT64)
    root = rates(schedule="inverse_sqrt", lr=0.5, warmup_steps=100)
    assert root[50.0] == pytest.approx(0.25, abs=FLOAT64)
    assert root[400.0] == pytest.approx(0.25, abs=FLOAT64)
    linear = rates(schedule="linear", lr=1.0, warmup_ratio=0.1)
    assert max(linear.values()) == pytest.approx(1.0, abs=FLOAT64)
    assert linear[551.0] == pytest.approx(0.5, abs=FLOAT64)
    cosine = rates(schedule="cosine", lr=1.0, warmup_steps=0)
    assert cosine[501.0] == pytest.approx(0.5, abs=FLOAT64)
    assert cosine[251.0] == pytest.approx(0.5 + 0.5 * math.cos(math.pi / 4), abs=FLOAT64)


def test_a_horizon_without_steps() -> None:
    def line(steps: int | None, **train: Any) -> drawings.Line:
        return drawings.schedule_line("x", config(train=train), steps)

    for train in ({"max_minutes": 30}, {"max_epochs": 3}):
        assumed = line(None, schedule="linear", warmup_steps=400, **train)
        assert (assumed.note, assumed.points[-1][0]) == ("8,000 steps assumed", 8000.0)
        assert len(assumed.points) <= 4003
        assert (400.0, 1e-3) in assumed.points
        told = line(500, schedule="linear", warmup_ratio=0.1, **train)
        assert (told.note, told.points[-1][0]) == ("", 500.0)
        # The whole budget is used, so the rate ends within one update of zero.
        assert told.points[-1][1] == pytest.approx(1e-3 / 450, abs=FLOAT64)
    assert line(None, schedule="linear", warmup_ratio=0.1, max_minutes=1).points[-1][0] == 1000.0
    assert line(None, max_steps=10, max_minutes=1).points[-1][0] == 10.0
    plateau = line(None, schedule="plateau", max_steps=10)
    assert plateau.note == "while validation improves"
    assert {rate for _, rate in plateau.points} == {1e-3}


def test_positions(tmp_path: Path) -> None:
    (table, _) = images(drawings.positions(None, 20))
    np.testing.assert_array_equal(table, sinusoid_table(20, 512).numpy())
    shape = {"d_model": 16, "n_heads": 2}
    for kind, expected in [
        ("sinusoidal_halves", sinusoid_halves_table(9, 16)),
        ("rotary", rotation_table(9, 8)),
    ]:
        path = config_file(tmp_path / f"{kind}.yaml", model={**shape, "positions": kind})
        (table, likeness) = images(drawings.positions(path, 9))
        np.testing.assert_array_equal(table, expected.numpy())
        # Both kinds know a distance and no place: the likeness is the same along each diagonal.
        for distance in range(9):
            assert np.ptp(np.diagonal(likeness, distance)) < FLOAT64


@pytest.mark.parametrize("kind", ["learned", "table"])
def test_positions_of_a_trained_model(tmp_path: Path, kind: str) -> None:
    bundle = make_bundle(positions=kind)
    if kind == "table":
        with torch.no_grad():
            for part in (bundle.model.src_positions, bundle.model.tgt_positions):
                part.get_buffer("weight").normal_()
    save_bundle(bundle, tmp_path / "model")
    shown = images(drawings.positions(tmp_path / "model", 100))
    for table, part in zip(shown[:4:2], (bundle.model.src_positions, bundle.model.tgt_positions), strict=True):
        weight = dict([*part.named_parameters(), *part.named_buffers()])["weight"]
        np.testing.assert_allclose(table, weight.detach().numpy(), atol=FLOAT64)
        assert table.shape == (64, 16)


def test_positions_that_cannot_be_drawn(tmp_path: Path) -> None:
    save_bundle(make_bundle(positions="none"), tmp_path / "model")
    learned = config_file(tmp_path / "x.yaml", model={"positions": "learned"})
    for path, message in [
        (tmp_path / "model", "this model has none positions, so there is no table to draw"),
        (learned, "learned positions are made by training; give a model directory"),
        (tmp_path / "nope", "does not exist; give a model directory or a configuration file"),
    ]:
        with pytest.raises(DataError, match=message):
            drawings.positions(path, 9)


def test_masks_are_those_of_the_model() -> None:
    figure = drawings.masks("3,1")
    encoder, decoder, cross, *second = images(figure)
    assert encoder.all()
    assert cross.all()
    np.testing.assert_array_equal(decoder, np.tril(np.ones((3, 3), dtype=bool)))
    first_key = np.array([[True, False, False]] * 3)
    for shown in second:
        np.testing.assert_array_equal(shown, first_key)
    for wrong in ("", "a", "1,", "0", "0,5", "2,0", "-1", "1.5", ",".join("1" * 9), "1000"):
        with pytest.raises(UsageError, match="give at most 8 numbers from 1 to 999"):
            drawings.masks(wrong)


def test_smoothing_is_what_the_losses_ask_for(tmp_path: Path) -> None:
    path = config_file(tmp_path / "x.yaml", train={"max_steps": 1, "label_smoothing": 0.2})
    smoothed, hard, annotated = images(drawings.smoothing(path))
    expected = np.full((3, 8), 0.2 / 8)
    kl = np.full((3, 8), 0.2 / 6)
    kl[:, 1] = 0.0
    plain = np.zeros((3, 8))
    for row, target in enumerate((4, 5, 3)):
        expected[row, target] += 0.8
        kl[row, target] = 0.8
        plain[row, target] = 1.0
    for shown, wanted in ((smoothed, expected), (hard, plain), (annotated, kl)):
        np.testing.assert_allclose(shown, wanted, atol=FLOAT64)
    # The loss is least where the model is as sure as the target, and grows again beyond.
    lines = drawings.smoothing(None).axes[-1].get_lines()
    values = np.asarray(lines[0].get_ydata())
    least = float(np.asarray(lines[0].get_xdata())[values.argmin()])
    assert least == pytest.approx(0.9 + 0.1 / 8, abs=3e-3)
    assert values[-1] > values.min()
    none = config_file(tmp_path / "y.yaml", train={"max_steps": 1, "label_smoothing": 0.0})
    with pytest.raises(DragomanError, match="label_smoothing is 0, so nothing is smoothed"):
        drawings.smoothing(none)


def make_run(folder: Path, scale: float) -> Path:
    """A run's records, written by the code that writes them."""
    log = MetricsLog(folder)
    for step in (10, 20):
        log.write("train", {"step": step, "loss": scale / step, "lr": 0.1, "best": True})
    log.write("valid", {"step": 20, "loss": scale, "bleu": 30.0, "signatures": {"bleu": "x"}, "chrf": float("nan")})
    log.close()
    return folder


def test_curves_of_runs(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / "a", 2.0), make_run(tmp_path / "b", 4.0)]
    with (folders[1] / "metrics.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"kind": "train", "st')  # still being written
    run = drawings.read_run(folders[0], "name")
    assert run.curves["train loss"] == [(10.0, 0.2), (20.0, 0.1)]
    assert run.curves["valid bleu"] == [(20.0, 30.0)]
    assert not {"valid chrf", "train best", "valid signatures"} & run.curves.keys()
    figure = drawings.curves(folders)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left").split(" (")[0] for axes in shown] == [
        "training loss",
        "validation loss",
        "validation BLEU",
    ]
    assert [line.get_label() for line in shown[0].get_lines()] == ["a", "b"]
    assert [list(line.get_ydata()) for line in shown[1].get_lines()] == [[2.0], [4.0]]
    again = make_run(tmp_path / "other" / "a", 1.0)
    labels = [line.get_label() for line in drawings.curves([folders[0], again]).axes[0].get_lines()]
    assert labels == [f"{tmp_path.name}/a", "other/a"]
    assert drawings.run_names([tmp_path / "x" / "a", tmp_path / "a", tmp_path / "b"])[1:] == [
        f"{tmp_path.name}/a",
        f"{tmp_path.name}/b",
    ]
    assert drawings.run_names([folders[0], folders[0]]) == ["a", "a"]


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    def refused(content: bytes) -> str:
        (tmp_path / "metrics.jsonl").write_bytes(content)
        with pytest.raises(DataError) as caught:
            drawings.read_run(tmp_path, "x")
        return str(caught.value).replace(f"{tmp_path}/", "")

    good = json.dumps({"kind": "train", "step": 1}).encode()
    for bad in (b"{", b"[]", b"3", b'{"kind": "train"}', b'{"kind": "train", "step": "x"}', b""):
        assert refused(good + b"\n" + bad + b"\n") == (
            "metrics.jsonl, line 2: not a record of a run; mend or remove that line."
        )
    assert "not UTF-8" in refused(b"\xff\n")
    with pytest.raises(DataError, match=r"cannot read .*metrics.jsonl: .*; give a run directory"):
        drawings.curves([tmp_path / "nope"])
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(DataError, match="no records to draw"):
        drawings.curves([tmp_path])


@pytest.mark.parametrize("inner", ["best", "checkpoints", "checkpoints/step-10", "metrics.jsonl"])
def test_a_part_of_a_run_names_the_run(tmp_path: Path, inner: str) -> None:
    run = tmp_path / "run"
    (run / "checkpoints" / "step-10").mkdir(parents=True)
    (run / "best").mkdir()
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(DataError) as caught:
        drawings.curves([run / inner])
    assert str(caught.value).endswith(f"; give a run directory, such as {run}.")
    with pytest.raises(DataError, match=r"; give a run directory\.$"):
        drawings.curves([tmp_path / "checkpoints" / "step-10" / "deep"])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("curves",), {}, "plot curves needs runs; name some"),
        (("schedule", []), {}, "plot schedule needs configuration files; name some"),
        (("positions", [Path("a"), Path("b")]), {}, "plot positions takes one file or folder; leave out b"),
        (("masks", [Path("a")]), {}, "plot masks takes no file; leave out a"),
        (("masks",), {"steps": 5}, "--steps is for plot schedule"),
        (("masks",), {"output": Path("x.jpg")}, "use one of .png, .svg"),
        (("mask",), {}, 'did you mean "masks"'),
    ],
)
def test_wrong_usage(arguments: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        plot(*arguments, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("what", ["positions", "masks", "smoothing"])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_files(tmp_path: Path, what: str, ending: str) -> None:
    plot(what, output=tmp_path / f"x.{ending}")
    first = (tmp_path / f"x.{ending}").read_bytes()
    assert first.startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    plot(what, output=tmp_path / f"y.{ending}")
    assert (tmp_path / f"y.{ending}").read_bytes() == first
