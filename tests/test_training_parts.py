"""The parts under the training loop: loss, schedules, optimizer, averages, checkpoints, horizon, records."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.config import TrainConfig
from dragoman.errors import BundleError
from dragoman.training.averaging import Ema, mean_weights, swapped
from dragoman.training.checkpoint import (
    CheckpointState,
    checkpoints,
    load_checkpoint,
    newest_checkpoint,
    optimizer_tensors,
    prune_checkpoints,
    random_tensors,
    restore_optimizer,
    restore_random,
    save_checkpoint,
)
from dragoman.training.horizon import Horizon
from dragoman.training.loss import projected_loss, smoothed_cross_entropy, smoothed_kl
from dragoman.training.metrics_log import MetricsLog
from dragoman.training.optim import clip_gradients, make_optimizer
from dragoman.training.schedules import make_schedule
from goldens import tensors
from tolerances import BFLOAT16, FLOAT32, FLOAT64


def settings_of(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"max_steps": 100, **changes})


# Loss

LOSSES = tensors("losses")


@pytest.mark.parametrize(("precision", "tolerance"), [("f64", FLOAT64), ("f32", FLOAT32)])
@pytest.mark.parametrize(("name", "smoothing"), [("cross_entropy", 0.0), ("cross_entropy_smoothed", 0.1)])
def test_cross_entropy_golden(precision: str, tolerance: float, name: str, smoothing: float) -> None:
    dtype = torch.float64 if precision == "f64" else torch.float32
    logits = LOSSES["input/logits"].to(dtype, copy=True).requires_grad_()
    targets = LOSSES["input/target_pad1"]
    real = targets != 1
    loss, nll = smoothed_cross_entropy(logits[real], targets[real], smoothing)
    mean = loss / real.sum()
    mean.backward()
    torch.testing.assert_close(mean[None], LOSSES[f"{precision}/{name}/value"], rtol=0.0, atol=tolerance)
    torch.testing.assert_close(
        (nll / real.sum())[None], LOSSES[f"{precision}/cross_entropy/value"], rtol=0.0, atol=tolerance
    )
    expected = LOSSES[f"f64/{name}/grad_logits"].to(logits.dtype)
    torch.testing.assert_close(logits.grad, expected, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize(("name", "smoothing"), [("kl_smoothed", 0.1), ("kl_unsmoothed", 0.0)])
def test_the_annotated_transformer_s_loss_golden(name: str, smoothing: float) -> None:
    logits = LOSSES["input/logits"].double().requires_grad_()
    loss = smoothed_kl(logits, LOSSES["input/target_pad2"], smoothing, 2)
    loss.backward()
    torch.testing.assert_close(loss[None], LOSSES[f"f64/{name}/value"], rtol=0.0, atol=FLOAT64)
    torch.testing.assert_close(logits.grad, LOSSES[f"f64/{name}/grad_logits"], rtol=0.0, atol=FLOAT64)


@given(rows=st.integers(1, 9), chunk=st.integers(1, 10), smoothing=st.sampled_from([0.0, 0.1, 0.4]), bias=st.booleans())
@settings(max_examples=30)
def test_projected_loss_is_the_plain_loss(rows: int, chunk: int, smoothing: float, bias: bool) -> None:
    generator = torch.Generator().manual_seed(rows * 100 + chunk)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()

    inputs = [draw(rows, 5), draw(7, 5), *([draw(7)] if bias else [])]
    targets = torch.randint(0, 7, (rows,), generator=generator)
    ours, our_nll = projected_loss(inputs[0], inputs[1], inputs[2] if bias else None, targets, smoothing, chunk)
    plain, plain_nll = smoothed_cross_entropy(F.linear(*inputs), targets, smoothing)
    torch.testing.assert_close(ours, plain, rtol=0.0, atol=FLOAT64)
    torch.testing.assert_close(our_nll, plain_nll, rtol=0.0, atol=FLOAT64)
    reference = F.cross_entropy(F.linear(*inputs), targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(plain, reference, rtol=0.0, atol=FLOAT64)
    weights = torch.tensor(0.37, dtype=torch.float64)
    for mine, theirs in zip(
        torch.autograd.grad(ours * weights, inputs), torch.autograd.grad(plain * weights, inputs), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=0.0, atol=FLOAT64)


def test_projected_loss_without_gradients_and_in_bfloat16() -> None:
    torch.manual_seed(0)
    hidden, weight, targets = torch.randn(6, 8), torch.randn(9, 8), torch.randint(0, 9, (6,))
    exact, _ = projected_loss(hidden, weight, None, targets, 0.1)
    assert not exact.requires_grad
    weight.requires_grad_()
    half, _ = projected_loss(hidden.bfloat16(), weight, None, targets, 0.1)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(exact.item(), rel=BFLOAT16)
    half.backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


# Schedules


def rates(steps: int = 100, **changes: Any) -> list[float]:
    schedule = make_schedule(settings_of(**changes), d_model=512)
    return [schedule.rate(step, (step - 1) / steps) for step in range(1, steps + 1)]


@pytest.mark.shared
def test_noam_golden(shared_dir: Path) -> None:
    goldens = json.loads((shared_dir / "fixtures/reference/text.json").read_text())["learning_rates"]
    for table in goldens["warmup_then_inverse_root"]["tables"]:
        config = settings_of(schedule="noam", lr=table["factor"], warmup_steps=table["warmup"])
        schedule = make_schedule(config, table["d_model"])
        for step, value in table["values"].items():
            assert schedule.rate(int(step), 0.0) == pytest.approx(value, rel=1e-12)


def test_linear_rises_to_the_peak_and_falls_to_zero() -> None:
    values = rates(schedule="linear", lr=2.0, warmup_steps=20)
    assert values[9] == pytest.approx(1.0)
    assert values[19] == pytest.approx(2.0, rel=0.02)
    assert values[59] == pytest.approx(values[99] + 40 * (values[58] - values[59]))
    assert 0 < values[99] < 0.03
    by_ratio = rates(schedule="linear", lr=2.0, warmup_ratio=0.2)
    assert max(by_ratio) == pytest.approx(2.0)
    assert by_ratio.index(max(by_ratio)) == 20
    assert all(value > 0 for value in by_ratio)


def test_a_time_horizon_ends_at_zero_whatever_the_pace() -> None:
    schedule = make_schedule(TrainConfig(max_minutes=1.0, schedule="cosine", warmup_steps=3, lr=1.0), 8)
    progress = [0.0, 0.01, 0.5, 0.52, 0.9, 1.0]
    values = [schedule.rate(step, share) for step, share in enumerate(progress, 1)]
    assert values[:2] == [pytest.approx(1 / 3), pytest.approx(2 / 3)]
    assert values[2:] == sorted(values[2:], reverse=True)
    assert values[-1] == 0.0


def test_cosine_is_at_half_in_the_middle() -> None:
    schedule = make_schedule(settings_of(schedule="cosine", warmup_ratio=0.2, lr=1.0), 8)
    assert schedule.rate(60, 0.6) == pytest.approx(0.5)


def test_inverse_sqrt() -> None:
    values = rates(schedule="inverse_sqrt", warmup_steps=16, lr=1.0)
    assert values[15] == pytest.approx(1.0)
    assert values[63] == pytest.approx(0.5)
    assert rates(schedule="inverse_sqrt", warmup_ratio=0.16, lr=1.0)[63] == pytest.approx(0.5, rel=0.01)
    assert set(rates(schedule="constant", warmup_steps=0)) == {1e-3}


def test_plateau_is_torchs_with_a_gate() -> None:
    config = settings_of(schedule="plateau", lr=1.0, plateau_factor=0.5, plateau_patience=2, warmup_steps=5)
    ours = make_schedule(config, 8)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
    for step, loss in enumerate([9, 9, 9, 9, 9, 8, 8, 8, 8, 7.9999, 8, 8, 8, 1, 2, 2, 2, 2], 1):
        rate = ours.rate(step, 0.0)
        assert rate == optimizer.param_groups[0]["lr"]
        ours.observe(loss)
        if step > 5:
            theirs.step(loss)
    assert rate < 1.0


@pytest.mark.parametrize("kind", ["noam", "inverse_sqrt", "cosine", "linear", "plateau", "constant"])
def test_a_schedule_goes_on_from_its_state(kind: str) -> None:
    config = settings_of(schedule=kind, warmup_steps=7, plateau_patience=0)
    whole, first = make_schedule(config, 8), make_schedule(config, 8)

    def drive(schedule: Any, begin: int, end: int) -> list[float]:
        values = []
        for step in range(begin, end):
            values.append(schedule.rate(step, step / 100))
            schedule.observe(math.sin(step))
        return values

    expected = drive(whole, 1, 60)
    drive(first, 1, 30)
    second = make_schedule(config, 8)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert drive(second, 30, 60) == expected[29:]


# Optimizer


class Tiny(nn.Module):
    """An embedding tied to the output, a matrix, a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.inner = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.output = nn.Linear(4, 5, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.output(self.norm(self.inner(self.embedding(ids))))


def step_once(model: Tiny, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randint(0, 5, (6,))).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_weight_decay_acts_on_matrices_alone() -> None:
    model = Tiny()
    optimizer = make_optimizer(model, settings_of(optimizer="adamw", weight_decay=0.3))
    decayed = [p for group in optimizer.param_groups if group["weight_decay"] for p in group["params"]]
    assert len(decayed) == 1
    assert decayed[0] is model.inner.weight
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


def test_clipping() -> None:
    parameters = [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
    parameters[0].grad, parameters[1].grad = torch.tensor([3.0, 0.0, 0.0]), torch.tensor([0.0, 4.0])
    assert clip_gradients(parameters, 0.0) == pytest.approx(5.0)
    assert parameters[1].grad[1] == 4.0
    assert clip_gradients(parameters, 10.0) == pytest.approx(5.0)
    assert parameters[1].grad[1] == 4.0
    assert clip_gradients(parameters, 1.0) == pytest.approx(5.0)
    assert parameters[1].grad[1] == pytest.approx(0.8)
    parameters[0].grad[1] = float("nan")
    assert clip_gradients(parameters, 1.0) == math.inf
    assert parameters[1].grad[1] == pytest.approx(0.8)


# Averages


def test_ema_follows_its_formula_and_swaps_back_to_the_bit() -> None:
    torch.manual_seed(0)
    model = Tiny()
    ema = Ema(model, 0.9)
    expected = model.inner.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for update in range(1, 30):
        step_once(model, optimizer)  # type: ignore[arg-type]
        ema.update()
        decay = min(0.9, (1 + update) / (10 + update))
        expected = decay * expected + (1 - decay) * model.inner.weight.detach()
    torch.testing.assert_close(ema.weights()["inner.weight"], expected)
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with swapped(model, ema.weights()):
        assert torch.equal(model.inner.weight, ema.weights()["inner.weight"])
        assert model.output.weight is model.embedding.weight
    assert all(torch.equal(own[name], tensor) for name, tensor in model.state_dict().items())
    with pytest.raises(RuntimeError, match="on purpose"), swapped(model, ema.weights()):
        raise RuntimeError("on purpose")
    assert all(torch.equal(own[name], tensor) for name, tensor in model.state_dict().items())


def test_mean_weights() -> None:
    mean = mean_weights([{"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([3.0, 6.0])}])
    assert torch.equal(mean["a"], torch.tensor([2.0, 4.0]))


# Checkpoints


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_an_optimizer_goes_on_to_the_bit(kind: str, tmp_path: Path) -> None:
    def run(interrupted: bool) -> dict[str, Tensor]:
        torch.manual_seed(0)
        model = Tiny()
        optimizer = make_optimizer(model, settings_of(optimizer=kind, weight_decay=0.01))
        for _ in range(5):
            step_once(model, optimizer)
        if interrupted:
            state = CheckpointState(dict(model.state_dict()), optimizer_tensors(optimizer), random_tensors(), {"a": 1})
            del state.model["output.weight"]
            save_checkpoint(tmp_path, 5, state)
            torch.manual_seed(99)
            loaded = load_checkpoint(tmp_path / "checkpoints" / "step-5")
            model = Tiny()
            model.load_state_dict({**loaded.model, "output.weight": loaded.model["embedding.weight"]})
            optimizer = make_optimizer(model, settings_of(optimizer=kind, weight_decay=0.01))
            restore_optimizer(optimizer, loaded.optimizer)
            restore_random(loaded.random)
            assert loaded.trainer["a"] == 1
        for _ in range(5):
            step_once(model, optimizer)
        return dict(model.state_dict())

    whole, resumed = run(False), run(True)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def _save(run: Path, *steps: int) -> None:
    for step in steps:
        save_checkpoint(run, step, CheckpointState({"w": torch.ones(3)}, {}, random_tensors(), {}))


def test_checkpoints_are_ordered_by_number_and_pruned(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    _save(tmp_path, 99, 100, 9)
    folder = tmp_path / "checkpoints"
    (folder / "step-200").mkdir()
    (folder / "step-x").mkdir()
    (folder / ".step-300.abc.part").mkdir()
    assert [path.name for path in checkpoints(tmp_path)] == ["step-9", "step-99", "step-100"]
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    assert newest.name == "step-100"
    prune_checkpoints(tmp_path, 2)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-99", "step-100"]
    assert not (folder / ".step-300.abc.part").exists()


def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path) -> None:
    _save(tmp_path, 1)
    path = tmp_path / "checkpoints" / "step-1"
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-2])
    with pytest.raises(BundleError, match="damaged or cut short"):
        load_checkpoint(path)
    (path / "trainer.json").write_text("{")
    with pytest.raises(BundleError, match=r"trainer\.json"):
        load_checkpoint(path)
    (path / "trainer.json").write_text('{"format_version": 9}')
    with pytest.raises(BundleError, match="format"):
        load_checkpoint(path)


# Horizon and records


def test_the_first_end_reached_counts() -> None:
    horizon = Horizon.of(TrainConfig(max_steps=100, max_epochs=4, max_minutes=2))
    assert horizon.progress(50, 1.0, 12.0) == 0.5
    assert horizon.progress(10, 3.0, 12.0) == 0.75
    assert horizon.progress(10, 1.0, 240.0) == 1.0
    assert horizon.seconds_left(10, 1.0, 60.0) == pytest.approx(60.0)
    assert Horizon(100, None, None).seconds_left(25, 9.0, 10.0) == pytest.approx(30.0)
    assert Horizon(100, None, None).seconds_left(0, 0.0, 0.0) is None


def test_records_past_a_step_are_cut(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    for step in (10, 20, 30):
        log.write("train", {"step": step, "loss": 1.0 / step})
    log.write("test", {"step": 10, "bleu": 3.0})
    log.close()
    with log.path.open("a") as stream:
        stream.write('{"kind": "train", "step": 2')
    log.truncate_after(20)
    records = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [record["step"] for record in records] == [10, 20]
    assert list((tmp_path / "tensorboard").iterdir())
