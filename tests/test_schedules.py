"""Learning rates: golden values, PyTorch's own schedules, and the shapes that the configuration promises."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import TrainConfig
from dragoman.errors import BundleError
from dragoman.training.schedules import Schedule, make_schedule

GOLDEN = json.loads((Path(__file__).parent / "golden" / "learning_rates.json").read_text())
KINDS = ["noam", "inverse_sqrt", "cosine", "linear", "plateau", "constant"]
FALLING = ["cosine", "linear"]


def make(kind: str, d_model: int = 512, **changes: Any) -> Schedule:
    return make_schedule(TrainConfig(**{"max_steps": 100, "schedule": kind, "lr": 1.0, **changes}), d_model)


def rates(kind: str, steps: int = 100, **changes: Any) -> list[float]:
    """The rates of all updates of a run of so many steps."""
    schedule = make(kind, max_steps=steps, **changes)
    return [schedule.rate(step, (step - 1) / steps) for step in range(1, steps + 1)]


@pytest.mark.parametrize("table", GOLDEN["noam"], ids=lambda table: f"d{table['d_model']}")
def test_noam_golden(table: dict[str, Any]) -> None:
    schedule = make("noam", table["d_model"], lr=table["factor"], warmup_steps=table["warmup"])
    for step, value in table["values"].items():
        assert schedule.rate(int(step), 0.0) == pytest.approx(value, rel=1e-12)


def test_plateau_golden() -> None:
    """One update an epoch; the recipe does not consult the rule after its epochs 0 to ``warm_epochs``."""
    golden = GOLDEN["plateau"]
    schedule = make(
        "plateau",
        lr=golden["start"],
        plateau_factor=golden["factor"],
        plateau_patience=golden["patience"],
        warmup_steps=golden["warm_epochs"] + 1,
    )
    found = []
    for step, loss in enumerate(golden["losses"], 1):
        schedule.rate(step, 0.0)
        schedule.observe(loss)
        found.append(schedule.rate(step, 0.0))
    assert found == pytest.approx(golden["values"], rel=1e-12)


@given(
    losses=st.lists(st.sampled_from([4.0, 3.0, 2.9999, 2.9, 2.0, math.nan, math.inf]), max_size=40),
    patience=st.integers(0, 4),
)
def test_plateau_is_pytorchs(losses: list[float], patience: int) -> None:
    ours = make("plateau", plateau_factor=0.5, plateau_patience=patience, warmup_steps=0)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    # PyTorch leaves a rate alone that would change by less than eps.
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience, eps=0.0)
    for step, loss in enumerate(losses, 1):
        assert ours.rate(step, 0.0) == optimizer.param_groups[0]["lr"]
        ours.observe(loss)
        theirs.step(loss)


def test_the_gate_of_plateau_may_be_a_share_of_the_horizon() -> None:
    schedule = make("plateau", plateau_patience=0, warmup_ratio=0.5, warmup_steps=1)
    for step, progress in enumerate([0.1, 0.2, 0.3, 0.499], 1):
        assert schedule.rate(step, progress) == 1.0
        schedule.observe(9.0)
    schedule.rate(5, 0.5)
    schedule.observe(9.0)
    schedule.observe(9.0)
    assert schedule.rate(6, 0.6) == 0.5


def test_the_gate_stays_open_after_a_resume() -> None:
    first, second = (make("plateau", plateau_patience=0, warmup_steps=3) for _ in range(2))
    first.rate(4, 0.0)
    first.observe(1.0)
    second.load_state_dict(first.state_dict())
    second.observe(2.0)
    assert second.rate(5, 0.0) == 0.5


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("noam", "plateau")])
def test_the_rise_is_a_line_to_the_peak(kind: str) -> None:
    values = rates(kind, warmup_steps=20)
    assert values[:20] == pytest.approx([step / 20 for step in range(1, 21)])
    assert max(values) == values[19] == 1.0
    by_share = rates(kind, warmup_ratio=0.2)
    assert by_share[:20] == pytest.approx([1e-3, *(step / 20 for step in range(1, 20))])
    # The 20th update closed the rise; for inverse_sqrt it stands for the peak, and the 21st falls already.
    assert by_share[20] == max(by_share) == pytest.approx(math.sqrt(20 / 21) if kind == "inverse_sqrt" else 1.0)


@pytest.mark.parametrize("kind", ["inverse_sqrt", "cosine", "linear", "constant"])
def test_no_rise(kind: str) -> None:
    assert rates(kind, warmup_steps=0)[0] == rates(kind, warmup_ratio=0.0)[0] == 1.0


def test_constant_stays() -> None:
    assert set(rates("constant", warmup_steps=0)) == {1.0}


def test_linear_falls_in_a_line() -> None:
    values = rates("linear", warmup_steps=20)
    # The 20th update is made at progress 0.19; from there the line goes to 0 at progress 1.
    assert values[20:] == pytest.approx([(100 - step) / 81 for step in range(20, 100)])
    by_share = rates("linear", warmup_ratio=0.2)
    assert by_share[20:] == pytest.approx([(100 - step) / 80 for step in range(20, 100)])


def test_cosine_is_pytorchs() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    expected = []
    for _ in range(100):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert rates("cosine", warmup_steps=0) == pytest.approx(expected)


def test_inverse_sqrt_halves_at_four_times_the_warm_up() -> None:
    assert rates("inverse_sqrt", warmup_steps=16)[63] == pytest.approx(0.5)
    by_share = rates("inverse_sqrt", warmup_ratio=0.16)
    assert by_share[63] == pytest.approx(0.5)
    assert rates("inverse_sqrt", warmup_steps=0)[3] == pytest.approx(0.5)


@pytest.mark.parametrize("kind", FALLING)
@given(data=st.data())
def test_a_horizon_of_time_ends_at_zero_whatever_the_pace(kind: str, data: st.DataObject) -> None:
    """However unevenly the clock moves, the rate falls without a jump up, and is 0 when the time is up."""
    jumps = data.draw(st.lists(st.floats(1e-3, 10.0), min_size=3, max_size=40))
    warmup = data.draw(st.integers(0, len(jumps) - 2))
    schedule = make(kind, max_steps=None, max_minutes=1.0, warmup_steps=warmup)
    elapsed, values = 0.0, []
    for step, jump in enumerate(jumps, 1):
        values.append(schedule.rate(step, elapsed / sum(jumps)))
        elapsed += jump
    after = values[max(0, warmup - 1) :]
    assert after == sorted(after, reverse=True)
    assert after[0] == pytest.approx(1.0)
    # Each stays below what the line or the curve through the end of the rise allows.
    assert schedule.rate(len(jumps) + 1, 1.0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", FALLING)
def test_the_end_of_a_rise_by_steps_is_remembered(kind: str) -> None:
    """Two updates take half of the time; the fall then starts from the whole peak."""
    schedule = make(kind, warmup_steps=2)
    assert [schedule.rate(1, 0.0), schedule.rate(2, 0.5)] == [0.5, 1.0]
    assert schedule.rate(3, 0.5) == pytest.approx(1.0)
    assert schedule.rate(4, 0.75) == pytest.approx(0.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("warmup", [{"warmup_steps": 7}, {"warmup_ratio": 0.2}], ids=str)
@pytest.mark.parametrize("cut", [3, 7, 8, 30])
def test_a_schedule_goes_on_from_its_state(kind: str, warmup: dict[str, Any], cut: int) -> None:
    def drive(schedule: Schedule, begin: int, end: int) -> list[float]:
        values = []
        for step in range(begin, end):
            values.append(schedule.rate(step, (step - 1) / 60))
            schedule.observe(3.0 + math.sin(step))
        return values

    settings = {"plateau_patience": 1, "max_steps": 60, **warmup}
    expected = drive(make(kind, **settings), 1, 60)
    first, second = make(kind, **settings), make(kind, **settings)
    drive(first, 1, cut)
    second.load_state_dict(json.loads(json.dumps(first.state_dict(), allow_nan=False)))
    assert drive(second, cut, 60) == expected[cut - 1 :]


@pytest.mark.parametrize("kind", KINDS)
def test_asking_twice_gives_the_same(kind: str) -> None:
    schedule = make(kind, warmup_steps=5)
    for step in (1, 5, 6, 50):
        assert schedule.rate(step, step / 100) == schedule.rate(step, step / 100)


def test_the_state_of_another_schedule_is_refused() -> None:
    with pytest.raises(BundleError, match=r"another train\.schedule"):
        make("linear").load_state_dict(make("plateau").state_dict())
