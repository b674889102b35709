"""Pictures: what is drawn, the same bytes each time, and no harm from any text."""

from __future__ import annotations

import logging
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image

from attention_samples import NASTY, SPECIAL, SRC, TGT, sample
from dragoman.errors import DataError, DragomanError, UsageError
from dragoman.visualize import figure as drawing
from dragoman.visualize.curves import Line, Run, curves_figure, schedule_figure
from dragoman.visualize.diagrams import masks_figure, positions_figure, smoothing_figure
from dragoman.visualize.figure import Fonts, check_format, require_matplotlib, save_figure
from dragoman.visualize.heatmap import attention_figure
from dragoman.visualize.maps import AttentionMap, AttentionMaps
from tolerances import FLOAT64

SVG = "{http://www.w3.org/2000/svg}"


def attention_map(src: list[str] = SRC, tgt: list[str] = TGT, kind: str = "cross") -> AttentionMap:
    source, translation = sample(src, tgt)
    return AttentionMaps.of(source, translation, SPECIAL).map(kind)


def texts_of(path: Path) -> list[str]:
    """The texts of an SVG, in order."""
    return ["".join(element.itertext()) for element in ElementTree.parse(path).iter(f"{SVG}text")]


def images(figure: Any) -> list[Any]:
    return [np.asarray(image.get_array()) for axes in figure.axes for image in axes.get_images()]


def test_one_map_with_its_tokens_and_numbers(tmp_path: Path) -> None:
    one = attention_map()
    figure = attention_figure(one, 1, 2)
    (shown,) = images(figure)
    np.testing.assert_array_equal(shown, one.weights[1, 2])
    save_figure(figure, tmp_path / "x.svg")
    texts = texts_of(tmp_path / "x.svg")
    assert texts[: len(SRC) + len(TGT)] == [*SRC, *TGT]
    assert "Source attention, layer 2, head 3" in texts
    numbers = [f"{100 * value:.0f}" for value in one.weights[1, 2].ravel().tolist() if value >= 0.005]
    assert [text for text in texts if text.isdigit()] == numbers
    figure = attention_figure(one, 0, "mean")
    np.testing.assert_array_equal(images(figure)[0], one.weights[0].mean(0))


def test_every_layer_and_head() -> None:
    one = attention_map(kind="decoder")
    for layer, head, expected in [
        (None, None, [one.weights[i, j] for i in range(2) for j in range(3)]),
        (None, "mean", [one.weights[i].mean(0) for i in range(2)]),
        (1, None, list(one.weights[1])),
    ]:
        shown = images(attention_figure(one, layer, head))
        assert len(shown) == len(expected)
        for image, panel in zip(shown, expected, strict=True):
            np.testing.assert_array_equal(image, panel)


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (2, "mean", "no layer 3; choose one of 1 to 2"),
        (-1, "mean", "no layer 0"),
        (0, 3, "no head 4; choose one of 1 to 3"),
    ],
)
def test_a_layer_or_head_that_is_not_there(layer: int, head: int | str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        attention_figure(attention_map(), layer, head)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_bytes_each_time(tmp_path: Path, ending: str) -> None:
    before = dict(matplotlib.rcParams)
    for name in ("a", "b"):
        save_figure(attention_figure(attention_map(), None, None), tmp_path / f"{name}.{ending}")
    assert dict(matplotlib.rcParams) == before
    first = (tmp_path / f"a.{ending}").read_bytes()
    assert first == (tmp_path / f"b.{ending}").read_bytes()
    assert b"<dc:date>" not in first
    assert b"matplotlib.org" not in first
    if ending == "png":
        with Image.open(tmp_path / "a.png") as picture:
            assert "Software" not in picture.info


def test_another_process_writes_the_same_svg(tmp_path: Path) -> None:
    """Ids in an SVG come from a fixed salt, and pyplot with its global state is never imported."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_visualize_figures import *; "
        "save_figure(attention_figure(attention_map(), 0, 'mean'), sys.argv[2]); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path / "a.svg")], check=True)
    save_figure(attention_figure(attention_map(), 0, "mean"), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_no_text_does_harm(tmp_path: Path, ending: str) -> None:
    """No mathematics in a dollar sign, no markup, and no warning about missing characters."""
    one = attention_map(NASTY, [*NASTY[::-1][1:], "</s>"])
    path = tmp_path / f"x.{ending}"
    save_figure(attention_figure(one, 0, 0, elsewhere=ending == "svg"), path)
    if ending == "svg":
        texts = texts_of(path)
        for token in ("▁$x^2$", "▁北京", "▁🙂", NASTY[0][:23] + "…"):
            assert token in texts
        assert "▁" + "w" * 22 + "…" in texts
    else:
        with Image.open(path) as picture:
            assert picture.width > 1000


def test_what_no_font_has_becomes_a_box_and_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("dragoman"), "propagate", True)
    absent = "\U000f0000a\U000f0001"  # of the private use area
    with caplog.at_level(logging.WARNING, logger="dragoman"):
        fonts = Fonts([absent, "plain"])
    unseen = [character for character in absent if character != "a" and not character.isprintable()]
    assert fonts.drawable(absent) == "□a□"
    assert len(unseen) == 2
    assert not caplog.messages, "what is not printable is no character to look for"
    monkeypatch.setattr(drawing, "_characters_of", lambda path: frozenset("plain"))
    with caplog.at_level(logging.WARNING, logger="dragoman"):
        fonts = Fonts(["äöplain"])
    assert fonts.drawable("äöplain") == "□□plain"
    assert caplog.messages == ["no installed font has ä ö: a box stands in place of each such character."]
    assert Fonts(["ä"], elsewhere=True).drawable("ä") == "ä"
    assert len(caplog.messages) == 1


def test_another_font_is_taken_for_what_the_first_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import font_manager

    entries = [
        font_manager.FontEntry(fname="/bold", name="A Bold", style="normal", weight=700),
        font_manager.FontEntry(fname="/many", name="Many", style="normal", weight=400),
        font_manager.FontEntry(fname="/slanted", name="A Slanted", style="italic", weight=400),
    ]
    has = {"/bold": "京北", "/many": "京", "/slanted": "京北"}
    monkeypatch.setattr(font_manager.fontManager, "ttflist", entries)
    monkeypatch.setattr(drawing, "_characters_of", lambda path: frozenset(has.get(path, "a")))
    assert Fonts(["a京"]).families == ["DejaVu Sans", "Many"]
    assert Fonts(["京北"]).families == ["DejaVu Sans", "Many", "A Bold"]
    assert Fonts(["a"]).families == ["DejaVu Sans"]


def test_missing_matplotlib_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DragomanError, match=r'pip install "dragoman\[plots\]"'):
        require_matplotlib()


def test_endings() -> None:
    assert check_format("a.b.PNG") == ".png"
    for name in ("x.jpg", "x", "png"):
        with pytest.raises(UsageError, match=r"use one of .png, .svg"):
            check_format(name)


def test_a_failed_save_leaves_nothing(tmp_path: Path) -> None:
    figure = attention_figure(attention_map(), 0, 0)
    figure.axes[0].set_title("$\\broken{$")
    with pytest.raises(ValueError, match="broken"):
        save_figure(figure, tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


def test_positions() -> None:
    table = np.random.default_rng(0).normal(size=(5, 8))
    table[3] = 0.0
    figure = positions_figure({"a": table, "b": 2.0 * table})
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-300)
    shown = {title: [] for title in ("a", "b", "likeness of two positions (cosine)")}
    for axes in figure.axes:
        if axes.get_title(loc="left"):
            shown[axes.get_title(loc="left")].append(np.asarray(axes.get_images()[0].get_array()))
    np.testing.assert_array_equal(shown["a"], [table])
    np.testing.assert_array_equal(shown["b"], [2.0 * table])
    likeness = shown["likeness of two positions (cosine)"]
    np.testing.assert_allclose(likeness, [unit @ unit.T] * 2, atol=FLOAT64)


def test_masks() -> None:
    masks = {"a": [np.eye(3, dtype=bool), np.zeros((3, 3), dtype=bool)], "b": [np.ones((3, 3), dtype=bool)] * 2}
    figure = masks_figure(masks, [3, 2])
    expected = [masks["a"][0], masks["b"][0], masks["a"][1], masks["b"][1]]
    for shown, mask in zip(images(figure), expected, strict=True):
        np.testing.assert_array_equal(shown, mask)
    labels = [text.get_text() for text in figure.axes[3].get_xticklabels()]
    assert labels == ["1", "2", "pad"]


def test_smoothing() -> None:
    wanted = np.array([[0.9, 0.05, 0.05]])
    xs = np.linspace(0.1, 0.9, 9)
    figure = smoothing_figure({"t": wanted}, ["x", "y", "z"], {"l": (xs, (xs - 0.5) ** 2)})
    np.testing.assert_array_equal(images(figure)[0], wanted)
    line, dot = figure.axes[-1].get_lines()
    np.testing.assert_array_equal(line.get_xdata(), xs)
    assert dot.get_xdata()[0] == pytest.approx(0.5)


def test_curves_of_runs_over_each_other(tmp_path: Path) -> None:
    runs = [
        Run(
            "a_$x$", {"train loss": [(1.0, 3.0), (2.0, 2.0)], "valid loss": [(2.0, 1.0)], "valid nothing": [(1.0, 1.0)]}
        ),
        Run("b", {"train loss": [(1.0, 4.0)]}),
    ]
    figure = curves_figure(runs)
    first, second = figure.axes
    assert [line.get_label() for line in first.get_lines()] == ["a_$x$", "b"]
    assert [list(line.get_ydata()) for line in first.get_lines()] == [[3.0, 2.0], [4.0]]
    assert [list(line.get_ydata()) for line in second.get_lines()] == [[1.0]]
    save_figure(figure, tmp_path / "x.svg")
    assert "a_$x$" in texts_of(tmp_path / "x.svg")
    with pytest.raises(DataError, match="no records to draw"):
        curves_figure([Run("c", {"valid nothing": [(1.0, 1.0)]})])


def test_more_runs_than_colours_stay_apart() -> None:
    runs = [Run(str(index), {"train loss": [(1.0, index), (2.0, index)]}) for index in range(16)]
    lines = curves_figure(runs).axes[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 16


def test_schedules() -> None:
    figure = schedule_figure([Line("a: noam", [(1.0, 0.1), (2.0, 0.05)], "assumed"), Line("b", [(1.0, 0.1)])])
    axes = figure.axes[0]
    assert [line.get_label() for line in axes.get_lines()] == ["a: noam (assumed)", "b"]
    assert axes.get_ylim()[0] == 0.0
