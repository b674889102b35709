"""The plain stacks and the attention module against PyTorch's own: outputs, weights and every gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model import masks
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.transformer import Transformer
from model_variants import close
from tolerances import FLOAT32, FLOAT32_GRADIENT, FLOAT64

D, H, FF, LAYERS = 16, 4, 24, 2
PRECISIONS = [(torch.float64, FLOAT64, FLOAT64), (torch.float32, FLOAT32, FLOAT32_GRADIENT)]

# Ours to PyTorch's, inside a layer; the three projections of an attention are slices of one matrix there.
ENCODER_PARTS = {
    "self_attention.output": "self_attn.out_proj",
    "feed_forward.inner": "linear1",
    "feed_forward.output": "linear2",
    "self_attention_residual.norm": "norm1",
    "feed_forward_residual.norm": "norm2",
}
DECODER_PARTS = {
    "self_attention.output": "self_attn.out_proj",
    "cross_attention.output": "multihead_attn.out_proj",
    "feed_forward.inner": "linear1",
    "feed_forward.output": "linear2",
    "self_attention_residual.norm": "norm1",
    "cross_attention_residual.norm": "norm2",
    "feed_forward_residual.norm": "norm3",
}
PROJECTIONS = ("query", "key", "value")


def grad_of(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def pairs(ours: Transformer, theirs: nn.Transformer) -> dict[str, tuple[Tensor, Tensor, slice]]:
    """Each parameter of our stacks with the rows of PyTorch's that it is, by our name."""
    found: dict[str, tuple[Tensor, Tensor, slice]] = {}
    everything = slice(None)

    def add(mine: str, its: str, rows: slice = everything) -> None:
        found[mine] = ours.get_parameter(mine), theirs.get_parameter(its), rows

    for stack, parts, attentions in (
        ("encoder", ENCODER_PARTS, {"self_attention": "self_attn"}),
        ("decoder", DECODER_PARTS, {"self_attention": "self_attn", "cross_attention": "multihead_attn"}),
    ):
        for end in ("weight", "bias"):
            add(f"{stack}.norm.{end}", f"{stack}.norm.{end}")
            for layer in (f"{stack}.layers.{i}" for i in range(LAYERS)):
                for mine, its in parts.items():
                    add(f"{layer}.{mine}.{end}", f"{layer}.{its}.{end}")
                for mine, its in attentions.items():
                    for place, name in enumerate(PROJECTIONS):
                        rows = slice(place * D, (place + 1) * D)
                        add(f"{layer}.{mine}.{name}.{end}", f"{layer}.{its}.in_proj_{end}", rows)
    return found


def both(norm_first: bool, dtype: torch.dtype, activation: str = "relu") -> tuple[Transformer, nn.Transformer]:
    """Our model and PyTorch's with the same random weights, biases and gains included."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "dropout": 0.0, "activation": activation, "batch_first": True, "norm_first": norm_first, "dtype": dtype,
    }  # fmt: skip
    encoder_layer = nn.TransformerEncoderLayer(D, H, FF, **settings)
    # Nested tensors, which pre-norm warns about, are off.
    encoder = nn.TransformerEncoder(encoder_layer, LAYERS, nn.LayerNorm(D, dtype=dtype), enable_nested_tensor=False)
    theirs = nn.Transformer(D, H, LAYERS, LAYERS, FF, custom_encoder=encoder, **settings)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    config = ModelConfig(
        src_vocab_size=5, tgt_vocab_size=5, d_model=D, n_heads=H, n_encoder_layers=LAYERS, n_decoder_layers=LAYERS,
        d_ff=FF, norm_first=norm_first, dropout=0.0, feed_forward=activation,
    )  # fmt: skip
    ours = Transformer(config).to(dtype)
    with torch.no_grad():
        for mine, its, rows in pairs(ours, theirs).values():
            mine.copy_(its[rows])
    return ours, theirs


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(3, n, D, dtype=torch.float64, generator=generator).to(dtype) for n in (6, 5))
    return x.requires_grad_(), y.requires_grad_()


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance", "gradient_tolerance"), PRECISIONS)
def test_stacks(
    norm_first: bool, activation: str, masked: bool, dtype: torch.dtype, tolerance: float, gradient_tolerance: float
) -> None:
    ours, theirs = both(norm_first, dtype, activation)
    real_src, real_tgt = masks.from_lengths(torch.tensor([6, 3, 2])), masks.from_lengths(torch.tensor([5, 4, 1]))
    src_mask, tgt_mask = (real_src, real_tgt) if masked else (None, None)
    shown = real_tgt if masked else torch.ones_like(real_tgt)
    probe = torch.randn(3, 5, D, dtype=dtype) * shown[:, :, None]
    x, y = inputs(dtype)
    memory = ours.encoder(x, src_mask)
    mine = ours.decoder(y, memory, src_mask, tgt_mask)
    (mine * probe).sum().backward()
    got = grad_of(x).clone(), grad_of(y).clone()
    x.grad = y.grad = None
    # PyTorch's masks say what is hidden.
    hidden = {
        "src_key_padding_mask": ~real_src,
        "memory_key_padding_mask": ~real_src,
        "tgt_key_padding_mask": ~real_tgt,
    }
    other = theirs(x, y, tgt_mask=~masks.causal(5), **(hidden if masked else {}))
    (other * probe).sum().backward()
    close(mine[shown], other[shown], tolerance)
    for left, right in zip(got, (grad_of(x), grad_of(y)), strict=True):
        close(left, right, gradient_tolerance)
    compared = pairs(ours, theirs)
    # Every parameter of the two stacks, on both sides.
    assert set(compared) == {n for n, _ in ours.named_parameters() if n.startswith(("encoder.", "decoder."))}
    assert {id(its) for _, its, _ in compared.values()} == {id(parameter) for parameter in theirs.parameters()}
    for name, (parameter, its, rows) in compared.items():
        left, right = grad_of(parameter), grad_of(its)[rows]
        assert float((left - right).abs().max()) < gradient_tolerance, name
    assert sum(p.numel() for n, p in ours.named_parameters() if n in compared) == sum(
        p.numel() for p in theirs.parameters()
    )


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_final_norm_stands_even_after_post_norm(norm_first: bool) -> None:
    """As PyTorch's; without it the vectors differ, so the comparison above does see it."""
    ours, theirs = both(norm_first, torch.float64)
    x, _ = inputs(torch.float64)
    close(ours.encoder(x), theirs.encoder(x))
    ours.encoder.norm = nn.Identity()
    assert not torch.allclose(ours.encoder(x), theirs.encoder(x))


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_fused_evaluation_path_of_pytorch_agrees_at_real_positions(norm_first: bool) -> None:
    ours, theirs = both(norm_first, torch.float32)
    x, y = (tensor.detach() for tensor in inputs(torch.float32))
    real = masks.from_lengths(torch.tensor([6, 3, 2]))
    ours.eval()
    theirs.eval()
    with torch.no_grad():
        close(ours.encoder(x, real)[real], theirs.encoder(x, src_key_padding_mask=~real)[real], FLOAT32)
        memory = ours.encoder(x, real)
        wanted = theirs.decoder(y, memory, tgt_mask=~masks.causal(5), memory_key_padding_mask=~real)
        close(ours.decoder(y, memory, real), wanted, FLOAT32)


@pytest.mark.parametrize("widths", [(D, D), (10, 10), (10, 7), (D, 7)])
@pytest.mark.parametrize(("dtype", "tolerance", "gradient_tolerance"), PRECISIONS)
def test_attention_with_key_and_value_inputs_of_other_widths(
    widths: tuple[int, int], dtype: torch.dtype, tolerance: float, gradient_tolerance: float
) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(D, H, kdim=widths[0], vdim=widths[1], batch_first=True, dtype=dtype)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4)
    ours = MultiHeadAttention(D, H, d_key=widths[0], d_value=widths[1]).to(dtype)
    rows = [slice(place * D, (place + 1) * D) for place in range(3)]
    if widths == (D, D):
        weights = [(theirs.in_proj_weight, row) for row in rows]
    else:
        weights = [(w, slice(None)) for w in (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)]
    compared = [(ours.output.weight, theirs.out_proj.weight, slice(None))]
    compared.append((ours.output.bias, theirs.out_proj.bias, slice(None)))
    for name, (weight, part), row in zip(PROJECTIONS, weights, rows, strict=True):
        projection = ours.get_submodule(name)
        compared.append((projection.get_parameter("weight"), weight, part))
        compared.append((projection.get_parameter("bias"), theirs.in_proj_bias, row))
    with torch.no_grad():
        for mine, its, part in compared:
            mine.copy_(its[part])
    arguments = [
        torch.randn(2, n, d, dtype=dtype, requires_grad=True) for n, d in ((3, D), (4, widths[0]), (4, widths[1]))
    ]
    probe, real = torch.randn(2, 3, D, dtype=dtype), torch.tensor([[True] * 4, [True, False, True, False]])
    record: list[Tensor] = []
    x, key, value = arguments
    out = ours(x, key, masks.for_keys(real), record=record, value=value)
    mine_grads = torch.autograd.grad((out * probe).sum(), [*arguments, *(mine for mine, _, _ in compared)])
    expected, weights_expected = theirs(x, key, value, key_padding_mask=~real, average_attn_weights=False)
    (expected * probe).sum().backward()
    close(out, expected, tolerance)
    close(ours(x, key, masks.for_keys(real), value=value), expected, tolerance)
    close(record[0], weights_expected, tolerance)
    their_grads = [grad_of(a) for a in arguments] + [grad_of(its)[part] for _, its, part in compared]
    for left, right in zip(mine_grads, their_grads, strict=True):
        close(left, right, gradient_tolerance)


def test_attention_without_biases() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(D, H, bias=False, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(D, H, biases="").double()
    with torch.no_grad():
        for place, name in enumerate(PROJECTIONS):
            ours.get_parameter(f"{name}.weight").copy_(theirs.in_proj_weight[place * D : (place + 1) * D])
        ours.output.weight.copy_(theirs.out_proj.weight)
    x, _ = inputs(torch.float64)
    close(ours(x, causal=True), theirs(x, x, x, attn_mask=~masks.causal(6), is_causal=False)[0])
