"""What a training run shows: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dragoman.training.report import Reporter, duration, train_line, valid_line

RECORD = {"step": 7, "epoch": 0.5, "loss": 1.5, "lr": 0.001, "tokens_per_second": 12345.6}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.6, "1m00s"), (75, "1m15s"), (3600, "1h00m"), (7384, "2h03m"), (-3, "0s")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_lines() -> None:
    assert train_line(RECORD, 61) == "step 7  epoch 0.50  loss 1.500  lr 1.00e-03  12,346 tokens/s  1m01s left"
    assert "left" not in train_line(RECORD, None)
    valid = valid_line({"step": 7, "loss": 2.0, "perplexity": 7.39, "bleu": 12.34})
    assert valid == "step 7  validation loss 2.000  perplexity 7.39  BLEU 12.3"


def test_plain_lines_are_rare_and_news_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter() as reporter:
        for _ in range(50):
            reporter.train(RECORD, 0.5, 10.0)
            reporter.tick(0.5)
        reporter.news("news [bold] as it is")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("step 7") == 1
    assert "news [bold] as it is" in err


def test_a_terminal_gets_a_bar_that_moves() -> None:
    reporter = Reporter()
    screen = io.StringIO()
    reporter.console = Console(file=screen, force_terminal=True, width=100)
    with reporter:
        reporter.train(RECORD, 0.25, 10.0)
        assert reporter._bar is not None
        assert reporter._bar.tasks[0].completed == 0.25
        reporter.tick(0.75)
        assert reporter._bar.tasks[0].completed == 0.75
    assert "75%" in screen.getvalue()


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Reporter(quiet=True) as reporter:
        reporter.train(RECORD, 0.5, None)
        reporter.news("news")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("quiet", [True, False])
def test_warnings_are_shown_in_any_case(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """``-q`` hides progress. A rank that does not lead has nothing to say at all."""
    with Reporter(quiet=quiet) as reporter:
        reporter.warn("9 % of the [bold] pairs")
    with Reporter(quiet=True, mute=True) as reporter:
        reporter.warn("the same on another rank")
    assert capsys.readouterr() == ("", "warning: 9 % of the [bold] pairs\n")
