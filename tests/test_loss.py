"""Losses: the golden values of other implementations, and the chunked projection against the plain formula."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.training.loss import projected_loss, smoothed_cross_entropy, smoothed_kl
from goldens import tensors
from tolerances import BFLOAT16, FLOAT16, FLOAT32, FLOAT32_GRADIENT, FLOAT64

GOLDEN = tensors("losses")
TOLERANCES = {torch.float64: FLOAT64, torch.float32: FLOAT32}
PRECISIONS = {torch.float64: "f64", torch.float32: "f32"}


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """A leaf tensor of normal values that wants a gradient."""
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def targets_of(rows: int, size: int, seed: int = 0) -> Tensor:
    return torch.randint(0, size, (rows,), generator=torch.Generator().manual_seed(seed))


def close(ours: Tensor | None, theirs: Tensor | None, tolerance: float, relative: float = 0.0) -> None:
    assert ours is not None
    assert theirs is not None
    torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=relative, atol=tolerance)


def logits_of(dtype: torch.dtype) -> Tensor:
    return GOLDEN["input/logits"].to(dtype, copy=True).requires_grad_()


# The golden files


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(("name", "smoothing"), [("cross_entropy", 0.0), ("cross_entropy_smoothed", 0.1)])
@pytest.mark.parametrize("chunked", [False, True])
def test_cross_entropy_golden(dtype: torch.dtype, name: str, smoothing: float, chunked: bool) -> None:
    logits = logits_of(dtype)
    real = GOLDEN["input/target_pad1"] != 1
    targets = GOLDEN["input/target_pad1"][real]
    if chunked:
        loss, nll = projected_loss(logits[real], torch.eye(7, dtype=dtype), None, targets, smoothing, 2)
    else:
        loss, nll = smoothed_cross_entropy(logits[real], targets, smoothing)
    mean = loss / len(targets)
    mean.backward()
    precision, tolerance = PRECISIONS[dtype], TOLERANCES[dtype]
    close(mean[None], GOLDEN[f"{precision}/{name}/value"], tolerance)
    close((nll / len(targets))[None], GOLDEN[f"{precision}/cross_entropy/value"], tolerance)
    close(logits.grad, GOLDEN[f"f64/{name}/grad_logits"], tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(("name", "smoothing"), [("kl_smoothed", 0.1), ("kl_unsmoothed", 0.0)])
def test_the_annotated_transformer_s_loss_golden(dtype: torch.dtype, name: str, smoothing: float) -> None:
    logits = logits_of(dtype)
    loss = smoothed_kl(logits, GOLDEN["input/target_pad2"], smoothing, pad_id=2)
    loss.backward()
    close(loss[None], GOLDEN[f"{PRECISIONS[dtype]}/{name}/value"], TOLERANCES[dtype])
    close(logits.grad, GOLDEN[f"f64/{name}/grad_logits"], TOLERANCES[dtype])


def test_the_annotated_transformer_s_targets_golden() -> None:
    """By log-probabilities the divergence falls as the target distribution has it: that is its gradient."""
    logprobs = torch.full((6, 7), 1 / 7, dtype=torch.float64).log().requires_grad_()
    targets = GOLDEN["input/target_pad2"]
    smoothed_kl(logprobs, targets, 0.1, pad_id=2).backward()
    wanted = GOLDEN["f64/kl_smoothed/target_distribution"]
    close(logprobs.grad, wanted.sum(1, keepdim=True) / 7 - wanted, FLOAT64)


# The projection joined to the loss


@given(rows=st.integers(0, 9), chunk=st.integers(1, 10), smoothing=st.sampled_from([0.0, 0.1, 0.4]), bias=st.booleans())
@settings(max_examples=40)
def test_projected_loss_is_the_plain_loss(rows: int, chunk: int, smoothing: float, bias: bool) -> None:
    inputs = [draw(rows, 5, seed=rows), draw(7, 5, seed=chunk), *([draw(7)] if bias else [])]
    targets = targets_of(rows, 7, seed=chunk)
    ours, our_nll = projected_loss(inputs[0], inputs[1], inputs[2] if bias else None, targets, smoothing, chunk)
    logits = F.linear(*inputs)
    plain, plain_nll = smoothed_cross_entropy(logits, targets, smoothing)
    torchs = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    close(ours, plain, FLOAT64)
    close(plain, torchs, FLOAT64)
    close(our_nll, plain_nll, FLOAT64)
    scale = torch.tensor(0.37, dtype=torch.float64)
    for mine, theirs in zip(
        torch.autograd.grad(ours * scale, inputs), torch.autograd.grad(torchs * scale, inputs), strict=True
    ):
        close(mine, theirs, FLOAT64)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradcheck(smoothing: float) -> None:
    targets = targets_of(6, 5)

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return projected_loss(hidden, weight, bias, targets, smoothing, 4)[0]

    assert torch.autograd.gradcheck(loss, (draw(6, 3), draw(5, 3, seed=1), draw(5, seed=2)))


def test_float32_at_a_realistic_size_with_the_chunks_of_its_own_choice() -> None:
    inputs = [draw(1100, 16, dtype=torch.float32), draw(9000, 16, dtype=torch.float32, seed=1)]
    targets = targets_of(1100, 9000)
    ours, nll = projected_loss(*inputs, None, targets, 0.1)
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    theirs, their_nll = smoothed_cross_entropy(F.linear(*exact), targets, 0.1)
    close(ours, theirs, 0.0, FLOAT32)
    close(nll, their_nll, 0.0, FLOAT32)
    for mine, wanted in zip(torch.autograd.grad(ours, inputs), torch.autograd.grad(theirs, exact), strict=True):
        close(mine, wanted, FLOAT32_GRADIENT)


def test_the_logits_never_exist_whole() -> None:
    """No operation inside gives or takes a tensor of N rows by V columns."""
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            for value in (*args, *(result if isinstance(result, tuple) else (result,))):
                if isinstance(value, Tensor):
                    largest = max(largest, value.numel())
            return result

    hidden, weight, targets = draw(600, 4), draw(50, 4), targets_of(600, 50)
    with Watch():
        projected_loss(hidden, weight, None, targets, 0.1, 60)[0].backward()
    assert largest == 60 * 50


@pytest.mark.parametrize("needed", list(product([False, True], repeat=3)))
def test_a_gradient_only_for_what_needs_one(needed: tuple[bool, ...]) -> None:
    inputs = [draw(6, 3), draw(5, 3, seed=1), draw(5, seed=2)]
    for tensor, needs in zip(inputs, needed, strict=True):
        tensor.requires_grad_(needs)
    targets = targets_of(6, 5)
    loss, nll = projected_loss(*inputs, targets, 0.1, 4)
    assert not nll.requires_grad
    assert loss.requires_grad == any(needed)
    if not any(needed):
        return
    loss.backward()
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    expected = torch.autograd.grad(smoothed_cross_entropy(F.linear(*inputs), targets, 0.1)[0], wanted)
    assert all((tensor.grad is not None) == needs for tensor, needs in zip(inputs, needed, strict=True))
    for tensor, gradient in zip(wanted, expected, strict=True):
        close(tensor.grad, gradient, FLOAT64)


def test_backward_twice_adds_the_same_and_there_is_no_second_derivative() -> None:
    hidden, weight = draw(6, 3), draw(5, 3)
    loss, _ = projected_loss(hidden, weight, None, targets_of(6, 5), 0.1, 4)
    loss.backward(retain_graph=True)
    assert weight.grad is not None
    once = weight.grad.clone()
    loss.backward(retain_graph=True)
    close(weight.grad, 2 * once, FLOAT64)
    (gradient,) = torch.autograd.grad(loss.square(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_a_tied_weight_gathers_both_gradients() -> None:
    embedding, ids, targets = nn.Embedding(9, 4).double(), targets_of(8, 9, seed=3), targets_of(8, 9)
    plain = smoothed_cross_entropy(F.linear(embedding(ids), embedding.weight), targets, 0.1)[0]
    (wanted,) = torch.autograd.grad(plain, embedding.weight)
    projected_loss(embedding(ids), embedding.weight, None, targets, 0.1, 3)[0].backward()
    close(embedding.weight.grad, wanted, FLOAT64)


def test_extreme_logits_stay_finite() -> None:
    """Far from the largest logit a softmax is 0; its logarithm must not be taken."""
    logits = torch.tensor([[0.0, 1e4, -1e4], [-2e4, -2e4, -2e4], [3e4, 0.0, 3e4]], dtype=torch.float32)
    targets = torch.tensor([2, 1, 0])
    inputs = logits.clone().requires_grad_()
    ours, nll = projected_loss(inputs, torch.eye(3), None, targets, 0.1)
    theirs, their_nll = smoothed_cross_entropy(logits, targets, 0.1)
    close(ours, theirs, 0.0, FLOAT32)
    close(nll, their_nll, 0.0, FLOAT32)
    ours.backward()
    assert inputs.grad is not None
    assert inputs.grad.isfinite().all()


def test_what_is_not_finite_shows_in_the_loss() -> None:
    hidden = torch.full((2, 3), float("nan"))
    assert projected_loss(hidden, torch.ones(4, 3), None, torch.zeros(2, dtype=torch.int64), 0.1)[0].isnan()


# Lower precision

HALVES = {torch.bfloat16: BFLOAT16, torch.float16: FLOAT16}


def half_inputs() -> tuple[list[Tensor], Tensor]:
    inputs = [draw(40, 16, dtype=torch.float32), draw(30, 16, dtype=torch.float32, seed=1), draw(30).float().detach()]
    inputs[2].requires_grad_()
    return inputs, targets_of(40, 30)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("hidden_dtype", ["autocast", "half", "float32"])
def test_lower_precision(dtype: torch.dtype, hidden_dtype: str) -> None:
    """Under autocast whatever ``hidden`` comes as; without, in the type of ``hidden``."""
    inputs, targets = half_inputs()
    wanted, wanted_nll = smoothed_cross_entropy(F.linear(*inputs), targets, 0.1)
    expected = torch.autograd.grad(wanted, inputs)
    hidden = inputs[0] if hidden_dtype == "float32" else inputs[0].to(dtype)
    with torch.autocast("cpu", dtype, enabled=hidden_dtype != "half"):
        loss, nll = projected_loss(hidden, *inputs[1:], targets, 0.1, 16)
        assert loss.dtype == nll.dtype == torch.float32
        # A loss divided inside the block, as trainers do.
        (loss / 40).backward()
    close(loss, wanted, 0.0, HALVES[dtype])
    close(nll, wanted_nll, 0.0, HALVES[dtype])
    for tensor, gradient in zip(inputs, expected, strict=True):
        assert tensor.grad is not None
        assert tensor.grad.dtype == torch.float32
        # Relative to the largest, since single gradients are differences of rounded numbers.
        close(tensor.grad * 40 / gradient.abs().max(), gradient / gradient.abs().max(), HALVES[dtype])


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_autocast_is_the_type_of_the_products(dtype: torch.dtype) -> None:
    inputs, targets = half_inputs()
    with torch.autocast("cpu", dtype):
        ours = projected_loss(*inputs, targets, 0.1)
    half = projected_loss(inputs[0].to(dtype), *inputs[1:], targets, 0.1)
    assert [value.item() for value in ours] == [value.item() for value in half]
    assert ours[0].item() != projected_loss(*inputs, targets, 0.1)[0].item()


def test_sums_do_not_lose_what_half_precision_would() -> None:
    """2,500 chunks that each add 1 to a gradient: in float16 the sum would stop at 2,048."""
    rows = 2500
    hidden = torch.ones(rows, 1, dtype=torch.float16)
    weight = torch.tensor([[8.0], [-8.0]], requires_grad=True)
    bias = torch.zeros(2, requires_grad=True)
    loss, _ = projected_loss(hidden, weight, bias, torch.ones(rows, dtype=torch.int64), 0.0, 1)
    loss.backward()
    assert loss.item() == pytest.approx(rows * 16.0)
    close(bias.grad, torch.tensor([2500.0, -2500.0]), 0.01)
    close(weight.grad, torch.tensor([[2500.0], [-2500.0]]), 0.01)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the compiler's own
def test_it_stands_in_a_compiled_function() -> None:
    layer, weight = nn.Linear(4, 4), draw(9, 4, dtype=torch.float32)

    def loss(x: Tensor, targets: Tensor) -> Tensor:
        return projected_loss(layer(x), weight, None, targets, 0.1, 3)[0]

    compiled = torch.compile(loss, backend="eager")
    for rows in (4, 5, 7):
        x, targets = draw(rows, 4, dtype=torch.float32), targets_of(rows, 9)
        ours = torch.autograd.grad(compiled(x, targets), [weight, layer.weight])
        plain = torch.autograd.grad(loss(x, targets), [weight, layer.weight])
        assert all(torch.equal(one, other) for one, other in zip(ours, plain, strict=True))
