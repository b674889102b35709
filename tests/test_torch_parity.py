"""The plain stacks against ``torch.nn.Transformer``: outputs and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dragoman.config import ModelConfig
from dragoman.model import masks
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.transformer import Transformer
from tolerances import FLOAT32, FLOAT32_GRADIENT, FLOAT64

D, H, FF, LAYERS = 16, 4, 24, 2


def _copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    for place, name in enumerate(("query", "key", "value")):
        rows = slice(place * D, (place + 1) * D)
        getattr(ours, name).weight.data.copy_(theirs.in_proj_weight[rows])
        getattr(ours, name).bias.data.copy_(theirs.in_proj_bias[rows])
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def _pair(norm_first: bool, dtype: torch.dtype) -> tuple[Transformer, nn.Transformer]:
    torch.manual_seed(0)
    encoder_layer = nn.TransformerEncoderLayer(D, H, FF, 0.0, batch_first=True, norm_first=norm_first, dtype=dtype)
    # Nested tensors, which pre-norm warns about, are off.
    encoder = nn.TransformerEncoder(encoder_layer, LAYERS, nn.LayerNorm(D, dtype=dtype), enable_nested_tensor=False)
    theirs = nn.Transformer(
        D, H, LAYERS, LAYERS, FF, 0.0, batch_first=True, norm_first=norm_first, dtype=dtype, custom_encoder=encoder
    )
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)
    config = ModelConfig(
        src_vocab_size=5, tgt_vocab_size=5, d_model=D, n_heads=H, n_encoder_layers=LAYERS, n_decoder_layers=LAYERS,
        d_ff=FF, norm_first=norm_first, dropout=0.0,
    )  # fmt: skip
    ours = Transformer(config).to(dtype)
    for mine, other in zip(ours.encoder.layers, theirs.encoder.layers, strict=True):
        _copy_attention(mine.self_attention, other.self_attn)
        mine.feed_forward.inner.load_state_dict(other.linear1.state_dict())
        mine.feed_forward.output.load_state_dict(other.linear2.state_dict())
        mine.self_attention_residual.norm.load_state_dict(other.norm1.state_dict())
        mine.feed_forward_residual.norm.load_state_dict(other.norm2.state_dict())
    for mine, other in zip(ours.decoder.layers, theirs.decoder.layers, strict=True):
        _copy_attention(mine.self_attention, other.self_attn)
        _copy_attention(mine.cross_attention, other.multihead_attn)
        mine.feed_forward.inner.load_state_dict(other.linear1.state_dict())
        mine.feed_forward.output.load_state_dict(other.linear2.state_dict())
        mine.self_attention_residual.norm.load_state_dict(other.norm1.state_dict())
        mine.cross_attention_residual.norm.load_state_dict(other.norm2.state_dict())
        mine.feed_forward_residual.norm.load_state_dict(other.norm3.state_dict())
    ours.encoder.norm.load_state_dict(theirs.encoder.norm.state_dict())
    ours.decoder.norm.load_state_dict(theirs.decoder.norm.state_dict())
    return ours, theirs


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize(
    ("dtype", "tolerance", "gradient_tolerance"),
    [(torch.float64, FLOAT64, FLOAT64), (torch.float32, FLOAT32, FLOAT32_GRADIENT)],
)
def test_stacks(norm_first: bool, dtype: torch.dtype, tolerance: float, gradient_tolerance: float) -> None:
    ours, theirs = _pair(norm_first, dtype)
    x = torch.randn(3, 6, D, dtype=dtype, requires_grad=True)
    y = torch.randn(3, 5, D, dtype=dtype, requires_grad=True)
    src_mask, tgt_mask = masks.from_lengths(torch.tensor([6, 3, 2])), masks.from_lengths(torch.tensor([5, 4, 1]))
    probe = torch.randn(3, 5, D, dtype=dtype) * tgt_mask[:, :, None]
    mine = ours.decoder(y, ours.encoder(x, src_mask), src_mask, tgt_mask)
    (mine * probe).sum().backward()
    got = x.grad.clone(), y.grad.clone()
    x.grad = y.grad = None
    other = theirs(
        x, y, tgt_mask=~masks.causal(5), src_key_padding_mask=~src_mask, memory_key_padding_mask=~src_mask,
        tgt_key_padding_mask=~tgt_mask,
    )  # fmt: skip
    (other * probe).sum().backward()
    torch.testing.assert_close(mine[tgt_mask], other[tgt_mask], rtol=0.0, atol=tolerance)
    for left, right in zip(got, (x.grad, y.grad), strict=True):
        torch.testing.assert_close(left, right, rtol=0.0, atol=gradient_tolerance)
    for mine_layer, other_layer in zip(ours.decoder.layers, theirs.decoder.layers, strict=True):
        for own, torchs in (
            (mine_layer.self_attention, other_layer.self_attn),
            (mine_layer.cross_attention, other_layer.multihead_attn),
        ):
            for place, name in enumerate(("query", "key", "value")):
                rows = slice(place * D, (place + 1) * D)
                for kind in ("weight", "bias"):
                    grad = getattr(getattr(own, name), kind).grad
                    torch.testing.assert_close(
                        grad, getattr(torchs, f"in_proj_{kind}").grad[rows], rtol=0.0, atol=gradient_tolerance
                    )
        grads = mine_layer.feed_forward.inner.weight.grad, other_layer.linear1.weight.grad
        torch.testing.assert_close(*grads, rtol=0.0, atol=gradient_tolerance)
    torch.testing.assert_close(
        ours.encoder.norm.weight.grad, theirs.encoder.norm.weight.grad, rtol=0.0, atol=gradient_tolerance
    )


def test_key_and_value_inputs_of_other_widths() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(D, H, kdim=10, vdim=7, batch_first=True, dtype=torch.float64)
    ours = MultiHeadAttention(D, H, d_key=10, d_value=7).double()
    weights = theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight
    for name, weight in zip(("query", "key", "value"), weights, strict=True):
        getattr(ours, name).weight.data.copy_(weight)
        getattr(ours, name).bias.data.zero_()
    ours.output.load_state_dict(theirs.out_proj.state_dict())
    x, key, value = (torch.randn(2, n, d, dtype=torch.float64) for n, d in ((3, D), (4, 10), (4, 7)))
    expected, _ = theirs(x, key, value)
    torch.testing.assert_close(ours(x, key, value=value), expected, rtol=0.0, atol=FLOAT64)


def test_an_inner_width_of_its_own() -> None:
    wide = MultiHeadAttention(D, H, 2, d_inner=40)
    assert wide.query.weight.shape == (40, D)
    assert wide.key.weight.shape == (20, D)
    assert wide(torch.randn(2, 3, D)).shape == (2, 3, D)
