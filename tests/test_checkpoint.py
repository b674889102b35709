"""Checkpoints: a run goes on to the bit, and what is damaged is never taken for whole."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.config import TrainConfig
from dragoman.errors import BundleError, RunError
from dragoman.training import checkpoint as module
from dragoman.training.checkpoint import (
    CheckpointState,
    checkpoints,
    load_checkpoint,
    model_tensors,
    newest_checkpoint,
    optimizer_tensors,
    prune_checkpoints,
    random_tensors,
    restore_model,
    restore_optimizer,
    restore_random,
    save_checkpoint,
)
from dragoman.training.optim import make_optimizer


class Small(nn.Module):
    """An embedding tied to the output, a matrix, a norm and dropout, so that random numbers matter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.inner = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.dropout = nn.Dropout(0.3)
        self.output = nn.Linear(4, 5, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.output(self.dropout(self.norm(self.inner(self.embedding(ids)))))
        return logits


class Training:
    """A model and its optimizer, fused or not, fed with random ids."""

    def __init__(self, kind: str, fused: bool) -> None:
        self.model = Small()
        self.optimizer = make_optimizer(self.model, TrainConfig(max_steps=1, optimizer=kind, weight_decay=0.01))
        for group in self.optimizer.param_groups:
            group["fused"] = fused

    def steps(self, count: int) -> None:
        for _ in range(count):
            # Python's generator chooses too: a Gaussian keeps a second one for the next call.
            scale = random.gauss(1.0, 0.1)
            (self.model(torch.randint(0, 5, (6,))).square().mean() * scale).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

    def state(self) -> CheckpointState:
        tensors = model_tensors(self.model), optimizer_tensors(self.optimizer), random_tensors()
        return CheckpointState(*tensors, {"step": 1})

    def restore(self, state: CheckpointState) -> None:
        restore_model(self.model, state.model, "here")
        restore_optimizer(self.optimizer, state.optimizer)
        restore_random(state.random)


def seed(value: int) -> None:
    torch.manual_seed(value)
    random.seed(value)


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[name], right[name]) and left[name].dtype == right[name].dtype for name in left
    )


def plain(trainer: dict[str, Any] | None = None) -> CheckpointState:
    return CheckpointState({"w": torch.ones(3)}, {}, random_tensors(), trainer or {})


def save(run: Path, *steps: int) -> None:
    for step in steps:
        save_checkpoint(run, step, plain())


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


# Going on to the bit


@pytest.mark.parametrize("kind", ["adam", "adamw"])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@given(before=st.integers(0, 6), after=st.integers(1, 5), value=st.integers(0, 1000))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_training_goes_on_to_the_bit(
    kind: str, fused: bool, before: int, after: int, value: int, tmp_path: Path
) -> None:
    seed(value)
    whole = Training(kind, fused)
    whole.steps(before)
    path = save_checkpoint(tmp_path, before, whole.state())
    whole.steps(after)
    generators = random_tensors()
    seed(value + 1)
    resumed = Training(kind, fused)
    resumed.steps(1 + before % 2)  # whatever it did before, the checkpoint is what counts
    resumed.restore(load_checkpoint(path))
    resumed.steps(after)
    assert same(model_tensors(whole.model), model_tensors(resumed.model))
    assert same(optimizer_tensors(whole.optimizer), optimizer_tensors(resumed.optimizer))
    assert same(generators, random_tensors())


def test_every_part_comes_back_as_it_was(tmp_path: Path) -> None:
    seed(3)
    training = Training("adam", True)
    training.steps(2)
    state = training.state()
    state.ema = {"a": torch.randn(2, 3), "b": torch.randn(4).bfloat16()}
    state.trainer = {
        "step": 2,
        "best": None,
        "elapsed": 0.1 + 0.2,
        "position": [1, 2],
        "name": "ä\u2028",
        "deep": {"x": []},
    }
    loaded = load_checkpoint(save_checkpoint(tmp_path, 2, state))
    for part in ("model", "optimizer", "random", "ema"):
        assert same(getattr(state, part), getattr(loaded, part)), part
    assert loaded.trainer == state.trainer


def test_a_tied_matrix_is_saved_once_and_comes_back_tied(tmp_path: Path) -> None:
    training = Training("adam", True)
    training.steps(1)
    loaded = load_checkpoint(save_checkpoint(tmp_path, 1, training.state()))
    assert "embedding.weight" in loaded.model
    assert "output.weight" not in loaded.model
    other = Training("adam", True)
    other.restore(loaded)
    assert other.model.output.weight is other.model.embedding.weight
    assert torch.equal(other.model.output.weight, training.model.output.weight)


def test_the_optimizer_s_state_goes_by_name() -> None:
    training = Training("adam", True)
    assert optimizer_tensors(training.optimizer) == {}
    training.steps(1)
    found = set(optimizer_tensors(training.optimizer))
    parameters = dict(training.model.named_parameters())
    assert found == {f"{name}.{value}" for name in parameters for value in ("step", "exp_avg", "exp_avg_sq")}


@pytest.mark.parametrize(
    ("key", "value"), [("inner.weight.exp_avg", torch.ones(4, 5)), ("inner.wait.exp_avg", torch.ones(4, 4))]
)
def test_the_state_of_other_parameters_is_refused(key: str, value: Tensor) -> None:
    training = Training("adam", True)
    with pytest.raises(BundleError, match=r"fits no parameter here") as caught:
        restore_optimizer(training.optimizer, {key: value})
    assert key in str(caught.value)


def test_the_weights_of_another_model_are_refused() -> None:
    training = Training("adam", True)
    with pytest.raises(BundleError, match=r"step-7 .*inner\.weight"):
        restore_model(training.model, {"embedding.weight": torch.ones(5, 4)}, "step-7")


@given(value=st.integers(0, 2**32), draws=st.integers(0, 5))
@settings(max_examples=15)
def test_the_generators_go_on_as_they_were(value: int, draws: int) -> None:
    seed(value)
    for _ in range(draws):
        random.gauss(0, 1)
    torch.rand(draws)

    def draw() -> list[float]:
        return [random.random(), random.gauss(0, 1), random.gauss(0, 1), *torch.rand(3).tolist()]

    states = random_tensors()
    expected = draw()
    seed(0)
    random.gauss(0, 1)
    restore_random(states)
    assert draw() == expected


# Complete or absent, newest first


def test_checkpoints_are_ordered_by_number(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path) is None
    save(tmp_path, 99, 100, 9)
    folder = tmp_path / "checkpoints"
    for junk in ("step-200", "step-x", "step-", ".step-300.abc.part", "step-101.bak", "step--3"):
        (folder / junk).mkdir()
    (folder / "step-400").write_text("a file")
    (folder / "step-101.bak" / "trainer.json").write_text("{}")
    assert names(checkpoints(tmp_path)) == ["step-9", "step-99", "step-100"]
    assert newest_checkpoint(tmp_path) == folder / "step-100"


@given(steps=st.sets(st.integers(0, 2000), min_size=1, max_size=12), keep=st.integers(1, 5))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pruning_keeps_the_newest(steps: set[int], keep: int, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    shutil.rmtree(folder, ignore_errors=True)
    for step in steps:
        (folder / f"step-{step}").mkdir(parents=True)
        (folder / f"step-{step}" / "trainer.json").write_text("{}")
    (folder / ".step-3000.abc.part").mkdir()
    (folder / "notes.txt").write_text("the user's")
    prune_checkpoints(tmp_path, keep)
    left = [f"step-{step}" for step in sorted(steps)[-keep:]]
    assert sorted(os.listdir(folder)) == sorted([*left, "notes.txt"])


def test_saving_again_replaces_the_checkpoint(tmp_path: Path) -> None:
    for number in (1, 2):
        path = save_checkpoint(tmp_path, 5, plain({"number": number}))
        assert load_checkpoint(path).trainer == {"number": number}
    assert os.listdir(path.parent) == ["step-5"]


def die_at(function: Callable[..., Any], call: int) -> Callable[..., Any]:
    """The function, which at its n-th call (from 1) stands for a process that is killed."""
    calls = 0

    def dies(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            os._exit(9)
        return function(*args, **kwargs)

    return dies


def killed_while(action: Callable[[], None]) -> None:
    """Run the action in a process of its own, which must die of it."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("again", [False, True], ids=["new", "replaced"])
@pytest.mark.parametrize(
    ("where", "call"), [("save_file", 1), ("save_file", 2), ("write_json", 1), ("os.rename", 1), ("os.rename", 2)]
)
def test_a_kill_while_saving_leaves_something_to_go_on_from(
    where: str, call: int, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "os.rename" and not again:
        call = 1  # a new checkpoint takes one rename alone
    step = 5 if again else 6
    save_checkpoint(tmp_path, 5, plain({"number": 1}))

    def action() -> None:
        target, name = (os, "rename") if where == "os.rename" else (module, where)
        monkeypatch.setattr(target, name, die_at(getattr(target, name), call))
        save_checkpoint(tmp_path, step, plain({"number": 2}))

    killed_while(action)
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    assert load_checkpoint(newest).trainer == {"number": 1}
    save_checkpoint(tmp_path, 7, plain())
    prune_checkpoints(tmp_path, 5)
    assert sorted(os.listdir(newest.parent)) == ["step-5", "step-7"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_kill_while_pruning_leaves_nothing_half_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1, 2, 3)

    unlink = os.unlink

    def delete_one_and_die(path: str, **options: Any) -> None:
        if not os.fspath(path).endswith("trainer.json"):
            unlink(path, **options)
            os._exit(9)

    def action() -> None:
        monkeypatch.setattr(os, "unlink", delete_one_and_die)
        prune_checkpoints(tmp_path, 1)

    killed_while(action)
    for path in checkpoints(tmp_path):
        load_checkpoint(path)
    prune_checkpoints(tmp_path, 1)
    assert os.listdir(tmp_path / "checkpoints") == ["step-3"]


def test_a_write_that_fails_is_one_sentence_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    original = module.save_file

    def full(tensors: dict[str, Tensor], path: Path) -> None:
        original(tensors, path.parent / "no folder" / path.name)

    monkeypatch.setattr(module, "save_file", full)
    with pytest.raises(RunError, match=r"cannot write .*step-2"):
        save(tmp_path, 2)
    assert os.listdir(tmp_path / "checkpoints") == ["step-1"]


# Damage


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with all its parts."""
    training = Training("adam", True)
    training.steps(1)
    state = training.state()
    state.ema = {"a": torch.ones(3)}
    return save_checkpoint(tmp_path_factory.mktemp("run"), 12, state)


FILES = ["model.safetensors", "optimizer.safetensors", "random.safetensors", "ema.safetensors", "trainer.json"]


def refusal(path: Path) -> str:
    with pytest.raises(BundleError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_empty_file_is_named(name: str, sound: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(sound, tmp_path / "step-12"))
    (path / name).write_bytes(b"")
    assert name in refusal(path)
    (path / name).unlink()
    assert name in refusal(path)
    (path / name).mkdir()
    assert name in refusal(path)


@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_wrong_or_missing_byte_is_seen(name: str, data: st.DataObject, sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "step-12"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(sound, path)
    content = bytearray((path / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 2))  # the last byte of the JSON is its line feed
    if data.draw(st.booleans()):
        content = content[:place]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
        if name == "trainer.json" and same_json(bytes(content), (sound / name).read_bytes()):
            return
    (path / name).write_bytes(content)
    refusal(path)


def same_json(left: bytes, right: bytes) -> bool:
    """Only white space differs."""
    try:
        return bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False


@pytest.mark.parametrize("text", ["{", "[]", "null", "[" * 100_000, '{"format_version": 1}', '{"a": 1}', "\udcff"])
def test_a_trainer_file_that_is_none(text: str, sound: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(sound, tmp_path / "step-12"))
    (path / "trainer.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    refusal(path)


def test_another_format_is_said(sound: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(sound, tmp_path / "step-12"))
    values = json.loads((path / "trainer.json").read_text())
    (path / "trainer.json").write_text(json.dumps({**values, "format_version": 99}))
    assert "checkpoint format 1" in refusal(path)


def test_nothing_in_a_checkpoint_can_run() -> None:
    """No pickle is read or written here."""
    source = Path(module.__file__).read_text()
    assert "pickle" not in source
    assert "torch.load" not in source
    assert "torch.save" not in source
