"""After writing: the result is read again, by the code it is meant for where that is here, and must compute the same.

Shapes: B batch, S source length, T target length, D ``d_model``, V vocabulary.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.errors import ConversionError
from dragoman.interop.format import Format
from dragoman.interop.write import plan
from dragoman.model.transformer import Transformer

# Weights that were rewritten exactly differ in the last digits alone, which some layers of sums may multiply.
_ROUNDING = 1e-3
# Fields that the weights, the format or the plan decide; a reading is told all the others.
_TOLD_BY_WEIGHTS = (
    "src_vocab_size", "tgt_vocab_size", "d_model", "d_ff", "n_encoder_layers", "n_decoder_layers", "attention_bias",
    "feed_forward_bias", "output_bias", "final_norm", "norm", "init", "embedding_init", "bias_init",
)  # fmt: skip


def random_ids(config: ModelConfig, sentences: int = 8, length: int = 12) -> tuple[Tensor, Tensor]:
    """Ids [B,S] and [B,T] from a generator of its own."""
    generator = torch.Generator().manual_seed(1)
    sizes = (config.src_vocab_size or 1, config.tgt_vocab_size or 1)
    length = min(length, config.max_length)
    src, tgt = (torch.randint(0, size, (sentences, length), generator=generator) for size in sizes)
    return src, tgt


@torch.no_grad()
def largest_difference(model: Transformer, other: Transformer) -> float:
    """The largest difference between the logits of two models on random ids, in the models' type."""
    src, tgt = random_ids(model.config)
    mask = torch.ones_like(src, dtype=torch.bool)
    mask[::2, (src.shape[1] + 1) // 2 :] = False
    training = model.training
    ours = model.eval()(src, tgt, mask)
    model.train(training)
    return judged("logits", ours, other(src, tgt, mask))


def rounding(dtype: torch.dtype) -> float:
    """What 64 roundings of a type make of a number, relative to it."""
    return 64 * float(torch.finfo(dtype).eps)


def judged(what: str, ours: Tensor, theirs: Tensor, share: float = 0.0) -> float:
    """The largest difference between what the model computes and what its copy does.

    Raises :class:`ConversionError` where it is far above rounding, or no number: above a thousandth of the largest
    value (for half precision :func:`rounding`), or a larger ``share`` of it where weights were quantised.
    """
    difference, size = (float(tensor.abs().max()) if tensor.numel() else 0.0 for tensor in (ours - theirs, ours))
    if not math.isfinite(size):
        raise ConversionError(
            f"the model's own {what} on random ids are not finite, so that nothing can be compared with them; "
            "convert a checkpoint from before training went wrong."
        )
    if not difference <= size * max(_ROUNDING, rounding(ours.dtype), share):
        raise ConversionError(
            f"nothing is written: read again, the result differs from the model by {difference:.1e} in its {what}, "
            f"which reach {size:.1e}; choose another format, and report this."
        )
    return difference


def reading_facts(fmt: Format, model: Transformer, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a reading of an export needs to be told: the rewritten settings, and the ``facts`` that the export had."""
    config = model.config
    for rewrite in plan(fmt, config).rewrites:
        config = config.changed(**{rewrite.field: rewrite.value})
    told = {name: value for name, value in config if name not in _TOLD_BY_WEIGHTS}
    if config.positions in ("sinusoidal", "table") or fmt.positions is not None:
        del told["positions"]
    if fmt.partial and "src_embedding" not in facts:
        # The stacks alone were written, and have none.
        told["positions"] = "none"
    variant = _variant_of(fmt, model)
    return {**told, **facts, **({} if variant is None else {"variant": variant})}


def _variant_of(fmt: Format, model: Transformer) -> str | None:
    """The variant whose position table the model has; None where it has none of them."""
    if model.config.positions != "table":
        return None
    ours = model.state_dict()["src_positions.weight"]
    for name, variant in fmt.variants.items():
        if variant.table is not None:
            table = variant.table(model.config.max_length, model.config.d_model)
            if torch.equal(table.to(ours), ours):
                return name
    return None


@torch.no_grad()
def torch_difference(model: Transformer, state: Mapping[str, Tensor], encoder: str, decoder: str) -> float:
    """The largest difference between our stacks and ``nn.TransformerEncoder`` and ``-Decoder`` with exported weights.

    ``model`` is what those weights are read as; ``encoder`` and ``decoder`` are the prefixes of their keys. Both run
    on random vectors [B,S,D] and [B,T,D], with source padding; padded rows are not compared.
    """
    config, weight = model.config, model.output.weight
    common: dict[str, Any] = {
        "d_model": config.d_model,
        "nhead": config.n_heads,
        "dim_feedforward": config.d_ff,
        "dropout": 0.0,
        "activation": {"relu": nn.functional.relu, "gelu": nn.functional.gelu, "silu": nn.functional.silu}[
            config.feed_forward
        ],
        "layer_norm_eps": config.norm_eps,
        "batch_first": True,
        "norm_first": config.norm_first,
        "dtype": weight.dtype,
    }
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(4, length, config.d_model, generator=generator).to(weight) for length in (7, 5))
    real = torch.ones(4, 7, dtype=torch.bool)
    real[::2, 4:] = False
    norms = [nn.LayerNorm(config.d_model, config.norm_eps, dtype=weight.dtype) for _ in range(2)]
    final: list[nn.Module | None] = [norm if config.final_norm else None for norm in norms]
    with warnings.catch_warnings():
        # The class says aloud which of its fast paths it does not take.
        warnings.simplefilter("ignore")
        theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(**common), config.n_encoder_layers, final[0])
        back = nn.TransformerDecoder(nn.TransformerDecoderLayer(**common), config.n_decoder_layers, final[1])
    theirs.load_state_dict(_below(state, encoder))
    back.load_state_dict(_below(state, decoder))
    causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
    memory = model.encoder(x, real)
    hidden = model.decoder(y, memory, real)
    their_memory = theirs.train()(x, src_key_padding_mask=~real)
    their_hidden = back.train()(y, their_memory, tgt_mask=causal, memory_key_padding_mask=~real)
    states = "states of the stacks"
    return max(judged(states, memory[real], their_memory[real]), judged(states, hidden, their_hidden))


def _below(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    # Of a stack at the root of the names, all keys begin with its prefix.
    own = f"{prefix}layers.", f"{prefix}norm."
    return {key.removeprefix(prefix): tensor for key, tensor in state.items() if key.startswith(own)}
