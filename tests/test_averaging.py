"""Averages of weights, and the swap that puts them into a model for a while."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.errors import BundleError
from dragoman.training.averaging import Ema, mean_weights, swapped
from tolerances import FLOAT32


class Tied(nn.Module):
    """An embedding tied to the output, and a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.inner = nn.Linear(4, 4)
        self.output = nn.Linear(4, 5, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.output(self.inner(self.embedding(ids)))
        return logits


@pytest.fixture
def model() -> Tied:
    torch.manual_seed(0)
    return Tied()


def change(model: nn.Module) -> None:
    """What an update does, at random."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter)


def own(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@given(decay=st.sampled_from([0.5, 0.9, 0.999]), updates=st.integers(0, 40))
@settings(max_examples=20)
def test_ema_follows_its_formula(decay: float, updates: int) -> None:
    torch.manual_seed(updates)
    model = Tied()
    ema = Ema(model, decay)
    expected = model.inner.weight.detach().double()
    for n in range(1, updates + 1):
        change(model)
        ema.update()
        share = min(decay, (1 + n) / (10 + n))
        expected = share * expected + (1 - share) * model.inner.weight.detach().double()
    torch.testing.assert_close(ema.weights()["inner.weight"].double(), expected, rtol=0.0, atol=FLOAT32)


def test_ema_holds_a_tied_matrix_once_and_no_view_of_the_model(model: Tied) -> None:
    ema = Ema(model, 0.9)
    assert set(ema.weights()) == {"embedding.weight", "inner.weight", "inner.bias"}
    before = own(model)
    change(model)
    assert torch.equal(ema.weights()["inner.weight"], before["inner.weight"])
    assert not any(tensor.requires_grad for tensor in ema.weights().values())


def test_updating_leaves_the_model_alone(model: Tied) -> None:
    ema = Ema(model, 0.9)
    change(model)
    before = own(model)
    ema.update()
    assert same(before, own(model))


def test_ema_goes_on_to_the_bit(model: Tied) -> None:
    ema = Ema(model, 0.99)
    for _ in range(5):
        change(model)
        ema.update()
    other_model = copy.deepcopy(model)
    other = Ema(other_model, 0.99)
    other.restore({name: tensor.clone() for name, tensor in ema.weights().items()}, ema.updates)
    torch.manual_seed(7)
    change(model)
    torch.manual_seed(7)
    change(other_model)
    ema.update()
    other.update()
    assert same(ema.weights(), other.weights())
    assert ema.updates == other.updates == 6


def test_ema_refuses_what_is_not_its_own(model: Tied) -> None:
    ema = Ema(model, 0.9)
    before = {name: tensor.clone() for name, tensor in ema.weights().items()}
    wrong = {"embedding.weight": torch.ones(5, 4), "inner.weight": torch.ones(4, 3), "inner.bias": torch.ones(4)}
    with pytest.raises(BundleError, match=r"inner\.weight is missing or of another shape"):
        ema.restore(wrong, 3)
    assert same(before, ema.weights())
    assert ema.updates == 0


@given(st.lists(st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3), min_size=1, max_size=6))
def test_mean_weights_is_the_exact_mean(rows: list[list[float]]) -> None:
    """The sum is exact to float64, so that the order of the checkpoints does not matter."""
    mean = mean_weights([{"a": torch.tensor(row)} for row in rows])["a"]
    assert mean.dtype == torch.float32
    torch.testing.assert_close(mean, torch.tensor(rows, dtype=torch.float64).mean(0).float(), rtol=1e-6, atol=1e-30)


def test_mean_weights_of_one_is_itself_and_of_many_keeps_the_small(model: Tied) -> None:
    alone = mean_weights([own(model)])
    assert same(alone, own(model))
    many = mean_weights([{"a": torch.tensor([value])} for value in (1e8, 1.0, -1e8)])
    assert many["a"].item() == pytest.approx(1 / 3)


def test_swapping_puts_in_and_restores_to_the_bit(model: Tied) -> None:
    ema = Ema(model, 0.9)
    change(model)
    before, ids = own(model), torch.arange(5)
    logits = model(ids)
    with swapped(model, ema.weights()):
        assert torch.equal(model.inner.weight, ema.weights()["inner.weight"])
        assert torch.equal(model.output.weight, ema.weights()["embedding.weight"])
        assert model.output.weight is model.embedding.weight
        assert not torch.equal(model(ids), logits)
    assert same(before, own(model))
    assert torch.equal(model(ids), logits)


def test_swapping_restores_after_an_error_and_keeps_the_gradients_and_the_optimizer(model: Tied) -> None:
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.arange(5)).sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    before, held = own(model), [id(parameter) for parameter in optimizer.param_groups[0]["params"]]
    average = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    with pytest.raises(RuntimeError, match="on purpose"), swapped(model, average):
        raise RuntimeError("on purpose")
    assert same(before, own(model))
    assert [id(parameter) for parameter in model.parameters()] == held
    assert all(one is parameter.grad for one, parameter in zip(gradients, model.parameters(), strict=True))


def test_swapping_refuses_other_weights_and_leaves_the_model_whole(model: Tied) -> None:
    before = own(model)
    with pytest.raises(BundleError, match=r"inner\.weight"), swapped(model, {"embedding.weight": torch.ones(5, 4)}):
        pass
    assert same(before, own(model))
