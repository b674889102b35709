"""The feed-forward part and its gated variants: formulas, which branch is activated, dropout inside, kept inputs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from dragoman.model.feedforward import ACTIVATIONS, GATES, FeedForward, GatedFeedForward, make_feed_forward
from dragoman.model.hooks import feed_forward_inputs
from model_variants import batch, close, make
from tolerances import FLOAT32

KINDS = [*ACTIVATIONS, *GATES]


def normal_cdf(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


# From their definitions: GELU is exact (Hendrycks and Gimpel 2016), not the approximation by tanh.
FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: x * (x > 0),
    "gelu": lambda x: x * normal_cdf(x),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "glu": lambda x: 1 / (1 + torch.exp(-x)),
    "bilinear": lambda x: x,
    "reglu": lambda x: x * (x > 0),
    "geglu": lambda x: x * normal_cdf(x),
    "swiglu": lambda x: x / (1 + torch.exp(-x)),
}


def inputs(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_the_formula(kind: str, bias: bool) -> None:
    torch.manual_seed(0)
    part = make_feed_forward(kind, 6, 10, bias, 0.0).double()
    x = inputs(2, 3, 6)
    weights = dict(part.named_parameters())

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + (weights[f"{name}.bias"] if bias else 0.0)

    hidden = FORMULAS[kind](linear("inner", x))
    if kind in GATES:
        hidden = hidden * linear("value", x)
    close(part(x), linear("output", hidden))
    names = ("inner", "value", "output") if kind in GATES else ("inner", "output")
    assert set(weights) == {f"{name}.{end}" for name in names for end in (("weight", "bias") if bias else ("weight",))}


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    torch.manual_seed(0)
    part = make_feed_forward(kind, 4, 6, True, 0.0).double()
    x = inputs(2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *_: part(x), (x, *part.parameters()), fast_mode=True)


@pytest.mark.parametrize("kind", KINDS)
def test_each_position_is_on_its_own(kind: str) -> None:
    part = make_feed_forward(kind, 6, 10, True, 0.0).double()
    x = inputs(2, 3, 6)
    close(part(x)[1, 2], part(x[1, 2]))


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_acts_on_the_inner_features(kind: str) -> None:
    """What the last projection receives has zeros in the given share, and the rest is scaled."""
    part = make_feed_forward(kind, 16, 4000, True, 0.3).double()
    assert isinstance(part, FeedForward | GatedFeedForward)
    seen: list[Tensor] = []
    part.output.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    x = inputs(10, 16)
    torch.manual_seed(0)
    part(x)
    part.eval()
    part(x)
    dropped, whole = seen
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], whole[kept] / 0.7, rtol=FLOAT32, atol=0.0)
    share = float(kept[whole != 0].double().mean())
    # Six standard deviations of 20,000 coins (a ReLU leaves half of the features).
    assert abs(share - 0.7) < 6 * math.sqrt(0.21 / 20_000)


@pytest.mark.parametrize("name", ["ours", "paper", "swiglu"])
def test_inputs_can_be_kept_and_nothing_is_left_behind(name: str) -> None:
    model = make(name)
    src, tgt, src_mask, _ = batch()
    before = model(src, tgt, src_mask)
    with feed_forward_inputs(model) as kept:
        assert torch.equal(model(src, tgt, src_mask), before)
    assert list(kept) == [f"{stack}.layers.{i}.feed_forward" for stack in ("encoder", "decoder") for i in (0, 1)]
    assert kept["encoder.layers.1.feed_forward"].shape == (3, 6, 12)
    last = model.decoder.layers[1].feed_forward_residual
    vectors = kept["decoder.layers.1.feed_forward"]
    if not model.config.norm_first:
        # After post-norm's last sub-layer nothing follows: the rest of the model can be redone from the kept input.
        close(model.project(last.norm(vectors + model.decoder.layers[1].feed_forward(vectors))), before)
    shapes = {name: value.shape for name, value in kept.items()}
    model(src[:, :2], tgt)
    assert {name: value.shape for name, value in kept.items()} == shapes
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_hooks_are_removed_after_an_error_too() -> None:
    model = make()
    with pytest.raises(RuntimeError), feed_forward_inputs(model):
        raise RuntimeError("stop")
    assert not any(part._forward_pre_hooks for part in model.modules())
