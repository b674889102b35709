"""The model in every precision: near the exact numbers, finite, and exact again in float64."""

from __future__ import annotations

import pytest
import torch

from model_variants import batch, close, make
from tolerances import BFLOAT16, FLOAT16, REORDERED


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, REORDERED), (torch.bfloat16, BFLOAT16 * 4), (torch.float16, FLOAT16 * 2)]
)
def test_lower_precisions_stay_near(dtype: torch.dtype, tolerance: float) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    exact = make()(src, tgt, src_mask, tgt_mask)
    rough = make(dtype=dtype)(src, tgt, src_mask, tgt_mask)
    close(rough.double()[tgt_mask], exact[tgt_mask], tolerance)


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "learned"])
def test_autocast_stays_near_forward_backward_and_stepping(positions: str) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    model = make(dtype=torch.float32, positions=positions)
    exact = model(src, tgt, src_mask, tgt_mask)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(src, tgt, src_mask, tgt_mask)
        state = model.start(model.encode(src, src_mask), src_mask)
        stepped = torch.stack([model.step(tgt[:, place], state) for place in range(5)], 1)
    close(rough.float()[tgt_mask], exact[tgt_mask], BFLOAT16 * 4)
    close(stepped.float()[tgt_mask], exact[tgt_mask], BFLOAT16 * 4)
    rough.float().square().sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal_halves", "rotary"])
def test_a_model_turned_to_float64_is_exact(positions: str) -> None:
    """Its position tables are made anew, not widened from float32 or from float16."""
    src, tgt, src_mask, tgt_mask = batch()
    exact = make(dtype=torch.float64, positions=positions)
    turned = make(dtype=torch.float32, positions=positions)
    turned(src, tgt)
    close(turned.double()(src, tgt, src_mask, tgt_mask), exact(src, tgt, src_mask, tgt_mask))


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "learned"])
def test_training_goes_on_after_a_pass_in_inference_mode(positions: str) -> None:
    """As validation does between updates; the tables made there must serve the backward pass."""
    model = make(positions=positions)
    src, tgt, src_mask, _ = batch()
    with torch.inference_mode():
        before = model(src, tgt, src_mask)
        state = model.start(model.encode(src, src_mask), src_mask)
        model.step(tgt[:, 0], state)
    model.train()
    model(src, tgt, src_mask).sum().backward()
    assert torch.equal(model.eval()(src, tgt, src_mask), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_log_probabilities_are_float32_at_least(dtype: torch.dtype) -> None:
    src, tgt, _, _ = batch()
    logprobs = make(dtype=dtype).log_probs(src, tgt)
    assert logprobs.dtype == torch.float32
    close(logprobs.exp().sum(-1), torch.ones(3, 5), REORDERED)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_row_with_nothing_to_attend_to_is_finite(dtype: torch.dtype, explicit: bool, dropout: float) -> None:
    model = make(dtype=dtype, dropout=dropout).train(dropout > 0)
    src, tgt, src_mask, tgt_mask = batch()
    src_mask, tgt_mask = src_mask.clone(), tgt_mask.clone()
    src_mask[1] = False
    tgt_mask[2] = False
    tgt_mask[0, 0] = False
    out = model(src, tgt, src_mask, tgt_mask, return_attention=explicit)
    logits = out[0] if isinstance(out, tuple) else out
    assert logits.isfinite().all()
    logits.float().square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)
    if isinstance(out, tuple):
        assert (out[1].cross[0][1] == 0).all()
        assert (out[1].decoder[0][0, :, 0] == 0).all()
        assert (out[1].encoder[0][1] == 0).all()
