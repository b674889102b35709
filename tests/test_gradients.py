"""Gradients: they reach every parameter, are right, and come from real positions alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.dropout import Dropout
from dragoman.model.transformer import Transformer
from model_variants import VARIANTS, V, batch, close, make
from tolerances import FLOAT64, SLOPE


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Transformer:
    return make(request.param)


def loss_of(model: Transformer, src: Tensor, tgt: Tensor, src_mask: Tensor | None, tgt_mask: Tensor | None) -> Tensor:
    """Summed over the real target positions, so that a batch's is the sum of its sentences'."""
    logprobs = model.log_probs(src, tgt, src_mask, tgt_mask)
    wanted = logprobs.gather(-1, ((tgt * 3 + 1) % V)[..., None])[..., 0]
    return -(wanted if tgt_mask is None else wanted[tgt_mask]).sum()


def gradients(model: Transformer) -> dict[str, Tensor]:
    """By name; a parameter outside the pass has none."""
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def is_unseen_key_bias(name: str, model: Transformer) -> bool:
    """Key biases that the softmax does not see.

    A key bias adds query · bias to every score of a query alike, and a softmax takes no notice of what is added to
    all. Rotary positions turn each key by its own angle after the bias, so in self-attention there it counts.
    """
    return name.endswith("key.bias") and (model.config.positions != "rotary" or "cross_attention" in name)


def test_gradients_reach_every_parameter(variant: Transformer) -> None:
    tokens = torch.arange(V)[None]
    loss_of(variant, tokens, tokens, None, None).backward()
    for name, parameter in variant.named_parameters():
        assert parameter.grad is not None, name
        if is_unseen_key_bias(name, variant):
            assert parameter.grad.abs().max() < FLOAT64, name
        elif name.endswith("positions.weight"):
            assert (parameter.grad[:V] != 0).any(-1).all(), name
            assert (parameter.grad[V:] == 0).all(), name
        elif name.endswith("embedding.weight"):
            assert (parameter.grad != 0).any(-1).all(), name
        elif parameter.ndim == 1 and "feed_forward" not in name:
            assert (parameter.grad != 0).all(), name
        else:  # some inner features of a ReLU may rest
            assert (parameter.grad != 0).any(), name


def test_key_biases_count_where_keys_are_turned() -> None:
    model = make("rotary")
    loss_of(model, *batch()).backward()
    sizes = {name: float(g.abs().max()) for name, g in gradients(model).items() if name.endswith("key.bias")}
    assert len(sizes) == 6
    assert all((size < FLOAT64) == ("cross" in name) for name, size in sizes.items())


def test_embeddings_of_absent_ids_and_of_padding_get_none() -> None:
    model = make()
    src, tgt, src_mask, tgt_mask = batch()
    src, tgt = src.clamp(max=8).masked_fill(~src_mask, 9), tgt.clamp(max=8).masked_fill(~tgt_mask, 9)
    loss_of(model, src, tgt, src_mask, tgt_mask).backward()
    for ids, mask, weight in (
        (src, src_mask, model.src_embedding.weight),
        (tgt, tgt_mask, model.tgt_embedding.weight),
    ):
        assert weight.grad is not None
        touched = (weight.grad != 0).any(-1).nonzero()[:, 0].tolist()
        assert touched == sorted(set(ids[mask].tolist()))


def test_a_batch_s_gradient_is_the_sum_of_its_sentences(variant: Transformer) -> None:
    """Each sentence alone, without any padding or mask."""
    src, tgt, src_mask, tgt_mask = batch()
    loss_of(variant, src, tgt, src_mask, tgt_mask).backward()
    together = gradients(variant)
    variant.zero_grad()
    for row in range(3):
        loss_of(variant, src[row : row + 1, src_mask[row]], tgt[row : row + 1, tgt_mask[row]], None, None).backward()
    for name, gradient in gradients(variant).items():
        close(together[name], gradient)


def test_what_stands_in_padding_changes_no_gradient(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    found = []
    for fill in (1, 7):
        variant.zero_grad()
        loss_of(
            variant, src.masked_fill(~src_mask, fill), tgt.masked_fill(~tgt_mask, fill), src_mask, tgt_mask
        ).backward()
        found.append(gradients(variant))
    for name, gradient in found[0].items():
        close(gradient, found[1][name])


def test_the_explicit_path_has_the_same_gradients(variant: Transformer) -> None:
    src, tgt, src_mask, tgt_mask = batch()
    found = []
    for explicit in (False, True):
        variant.zero_grad()
        out = variant(src, tgt, src_mask, tgt_mask, return_attention=explicit)
        logits = out[0] if isinstance(out, tuple) else out
        logits[tgt_mask].square().sum().backward()
        found.append(gradients(variant))
    for name, gradient in found[0].items():
        close(gradient, found[1][name])


def test_gradients_are_slopes(variant: Transformer) -> None:
    """The change along a random direction of all parameters at once, by a central difference."""
    inputs = batch()
    loss_of(variant, *inputs).backward()
    generator = torch.Generator().manual_seed(4)
    directions = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in variant.parameters()]
    slope = sum(
        float((p.grad * d).sum()) for p, d in zip(variant.parameters(), directions, strict=True) if p.grad is not None
    )
    step, losses = 1e-5, []
    with torch.no_grad():
        for sign in (1, -2):
            for parameter, direction in zip(variant.parameters(), directions, strict=True):
                parameter += sign * step * direction
            losses.append(float(loss_of(variant, *inputs)))
    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(slope, rel=SLOPE, abs=SLOPE)


def test_no_gradient_flows_back_from_the_future() -> None:
    """The hidden vector at t depends on target vectors 0..t, and on no later one."""
    model = make()
    src, tgt, src_mask, _ = batch()
    y, memory = model.embed_tgt(tgt).detach().requires_grad_(), model.encode(src, src_mask).detach().requires_grad_()
    for place in range(5):
        y.grad = memory.grad = None
        model.decoder(y, memory, src_mask)[:, place].sin().sum().backward()
        assert y.grad is not None
        assert (y.grad[:, place + 1 :] == 0).all()
        assert (y.grad[:, : place + 1] != 0).any(-1).all()
        assert memory.grad is not None
        assert torch.equal((memory.grad != 0).any(-1), src_mask)


@pytest.mark.parametrize("tie", ["decoder", "all"])
def test_a_tied_matrix_gathers_the_gradients_of_its_copies(tie: str) -> None:
    tied, loose = make(tie_embeddings=tie), make(tie_embeddings="none")
    loose.load_state_dict(tied.state_dict())
    inputs = batch()
    for model in (tied, loose):
        loss_of(model, *inputs).backward()
    parts: list[nn.Module] = [loose.tgt_embedding, loose.output]
    if tie == "all":
        parts.append(loose.src_embedding)
    weights = [part.get_parameter("weight") for part in parts]
    shared = tied.tgt_embedding.weight.grad
    assert shared is not None
    close(shared, torch.stack([weight.grad for weight in weights if weight.grad is not None]).sum(0))


def test_dropout_in_training_leaves_every_gradient_finite(variant: Transformer) -> None:
    torch.manual_seed(1)
    variant.train()
    for part in variant.modules():
        if isinstance(part, Dropout | MultiHeadAttention):
            part.p = 0.5
    loss_of(variant, *batch()).backward()
    assert all(gradient.isfinite().all() for gradient in gradients(variant).values())
