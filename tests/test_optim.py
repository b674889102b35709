"""The optimizer: who decays, by which rule, and clipping."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.config import ModelConfig, TrainConfig
from dragoman.model.transformer import Transformer
from dragoman.training.optim import clip_gradients, make_optimizer
from tolerances import FLOAT32


def config_of(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"max_steps": 1, "lr": 0.01, "weight_decay": 0.3, **changes})


def transformer(**changes: Any) -> Transformer:
    sizes = {"d_model": 8, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "d_ff": 12, "max_length": 16}
    return Transformer(ModelConfig(src_vocab_size=11, tgt_vocab_size=11, **{**sizes, **changes}))


def decayed_names(model: nn.Module) -> set[str]:
    groups = make_optimizer(model, config_of()).param_groups
    return {name for group in groups if group["weight_decay"] for name in group["param_names"]}


def rule(name: str) -> bool:
    """Matrices of the layers, and the output projection where it is nobody's embedding."""
    return name.endswith("weight") and "norm" not in name and "embedding" not in name and "positions" not in name


@pytest.mark.parametrize("tying", ["none", "decoder", "all"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm", ["layer", "rms", "std", "std_scalar"])
def test_weight_decay_acts_on_matrices_alone(tying: str, positions: str, norm: str) -> None:
    model = transformer(tie_embeddings=tying, positions=positions, norm=norm)
    names = {name for name, parameter in model.named_parameters() if rule(name) and parameter.dim() > 1}
    assert decayed_names(model) == names
    assert ("output.weight" in names) == (tying == "none")
    assert any("encoder" in name for name in names)


def test_every_parameter_is_in_one_group_once() -> None:
    model = transformer(tie_embeddings="all")
    optimizer = make_optimizer(model, config_of())
    held = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in model.parameters())


def test_a_model_without_matrices() -> None:
    assert len(make_optimizer(nn.LayerNorm(3), config_of()).param_groups) == 1


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_the_first_update_is_the_papers(kind: str) -> None:
    """Adam's first step has the size of the rate, bias corrected; decay is in the gradient or beside it."""
    model = nn.Linear(3, 2, bias=False)
    config = config_of(optimizer=kind, betas=(0.8, 0.95), eps=1e-3)
    optimizer = make_optimizer(model, config)
    before = model.weight.detach().clone()
    gradient = torch.randn(2, 3, generator=torch.Generator().manual_seed(1))
    model.weight.grad = gradient.clone()
    optimizer.step()
    if kind == "adam":
        gradient, shrunk = gradient + 0.3 * before, before
    else:
        shrunk = before * (1 - 0.01 * 0.3)
    wanted = shrunk - 0.01 * gradient / (gradient.abs() + 1e-3)
    torch.testing.assert_close(model.weight.detach(), wanted, rtol=0.0, atol=FLOAT32)


def test_it_is_fused_on_the_cpu() -> None:
    """The other forms take three times as long."""
    assert make_optimizer(nn.Linear(2, 2), config_of()).defaults["fused"] is True


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_fused_is_the_plain_rule(kind: str) -> None:
    weights = []
    for fused in (True, False):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        optimizer = make_optimizer(model, config_of(optimizer=kind))
        for group in optimizer.param_groups:
            group["fused"] = fused
            group["foreach"] = False
        for _ in range(10):
            model(torch.randn(5, 4)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        weights.append(model.weight.detach())
    torch.testing.assert_close(*weights, rtol=0.0, atol=FLOAT32)


def parameters_of(*gradients: list[float] | None) -> list[nn.Parameter]:
    parameters = []
    for gradient in gradients:
        parameter = nn.Parameter(torch.zeros(len(gradient or [0])))
        parameter.grad = None if gradient is None else torch.tensor(gradient)
        parameters.append(parameter)
    return parameters


@given(
    st.lists(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=4) | st.none(), max_size=5),
    st.sampled_from([0.0, 1e-3, 1.0, 100.0]),
)
def test_clipping(gradients: list[list[float] | None], max_norm: float) -> None:
    parameters = parameters_of(*gradients)
    flat = torch.tensor([value for gradient in gradients for value in gradient or []], dtype=torch.float64)
    expected = float(flat.norm()) if len(flat) else 0.0
    assert clip_gradients(parameters, max_norm) == pytest.approx(expected, rel=1e-5)
    kept = [p.grad for p in parameters if p.grad is not None]
    after = torch.cat(kept).double() if kept else flat
    scale = max_norm / expected if 0.0 < max_norm < expected else 1.0
    torch.testing.assert_close(after, flat * scale, rtol=1e-5, atol=1e-6)


def test_below_the_limit_nothing_changes_at_all() -> None:
    parameters = parameters_of([3.0], [0.1, 4.0])
    before = [parameter.grad.clone() for parameter in parameters if parameter.grad is not None]
    clip_gradients(parameters, 5.5)
    assert all(torch.equal(one, p.grad) for one, p in zip(before, parameters, strict=True) if p.grad is not None)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_said_and_left(value: float) -> None:
    parameters = parameters_of([3.0], [value])
    assert clip_gradients(parameters, 1.0) == math.inf
    first: Tensor | None = parameters[0].grad
    assert first is not None
    assert first.item() == 3.0
