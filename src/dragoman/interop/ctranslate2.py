"""Out to CTranslate2 (github.com/OpenNMT/CTranslate2): a folder that its ``Translator`` loads, quantised or not.

Its code computes nearly every model of ours: pre- and post-norm, RMS norms, any eps, rotary positions, shared
key-value heads, gated feed-forward parts, biases or none. Positions that are added are written as a table, which
has an end: past it CTranslate2 raises an error. What its search has and ours has not, and the other way round,
stands in the folder's README (``ctranslate2_readme.py``). Shapes: B batch, S and T lengths, L rows of a table, D
``d_model``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from dragoman.bundle import Bundle, empty_model
from dragoman.config import ModelConfig
from dragoman.errors import ConversionError, nearest
from dragoman.files import write_json, write_text
from dragoman.interop.check import judged, rounding
from dragoman.interop.ctranslate2_readme import readme
from dragoman.interop.format import Settings, State, computes, refusal
from dragoman.interop.rewrite import Rewrite
from dragoman.interop.write import ExportPlan
from dragoman.model.positions import sinusoid_halves_table, sinusoid_table
from dragoman.model.transformer import Transformer
from dragoman.text.batching import collate
from dragoman.text.tokenizer import TokenizerPair

if TYPE_CHECKING:
    from types import ModuleType

NAME = "ctranslate2"
# What weights may be stored as; int8 has a scale per row, int16 one per matrix. All run on any machine: CTranslate2
# turns weights into what it can compute with when it loads them.
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16")

_COMPUTED: Settings = {"norm": ("layer", "rms")}
# CTranslate2 cuts sentences after this many tokens unless told otherwise, special ones included.
_LEAST_POSITIONS = 1024

# Of the largest log-probability: weights of 8 and of 16 bits that are of any use change none by so much.
_OFF_INT8, _OFF_SHORT = 1.0, 0.2

_PROBES = 8
_PROBE_LENGTH = 24


@dataclass(frozen=True)
class _Rewrite(Rewrite):
    """A rewriting that changes a second field too."""

    also: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, state: State, config: ModelConfig) -> tuple[State, ModelConfig]:
        """The rewritten tensors and configuration."""
        return self.apply(state, config), config.changed(**{self.field: self.value}, **self.also)


def plan(config: ModelConfig) -> ExportPlan:
    """What an export of a model of this shape would rewrite, and what it would refuse."""
    refused = [refusal(_COMPUTED, config, name) for name in _COMPUTED if not computes(_COMPUTED, config, name)]
    # A source holds a token beside its special ones, a target the start.
    least = max(2, 1 + config.src_bos + config.src_eos)
    if config.positions in ("learned", "table") and config.max_length < least:
        refused.append(f"max_length is {config.max_length}, and a sentence of one token needs {least} positions")
    rewrites: list[Rewrite] = []
    if config.feed_forward == "bilinear":
        rewrites.append(
            _Rewrite(
                "a bilinear gate becomes a ReLU gate of twice the width",
                "feed_forward",
                "reglu",
                _split_gates,
                {"d_ff": 2 * config.d_ff},
            )
        )
    if config.positions in ("sinusoidal", "sinusoidal_halves", "none"):
        rows = max(config.max_length, _LEAST_POSITIONS)
        what = "no positions" if config.positions == "none" else f"{config.positions} positions"
        text = f"{what} become a table of {rows} rows, where they end"
        rewrites.append(_Rewrite(text, "positions", "table", _with_tables, {"max_length": rows}))
    if config.n_encoder_layers == 0:
        rewrites.append(_first_layer("encoder"))
    if config.n_decoder_layers == 0:
        rewrites.append(_first_layer("decoder"))
    return ExportPlan(NAME, tuple(rewrites), tuple(refused))


def _split_gates(state: State, _: ModelConfig) -> State:
    """x · v = relu(x) · v + relu(-x) · (-v): each inner feature twice, once with either sign."""
    rewritten = dict(state)
    for key, tensor in state.items():
        if ".feed_forward.inner." in key or ".feed_forward.value." in key:
            rewritten[key] = torch.cat([tensor, -tensor])
        elif key.endswith(".feed_forward.output.weight"):
            rewritten[key] = torch.cat([tensor, tensor], dim=1)
    return rewritten


def _with_tables(state: State, config: ModelConfig) -> State:
    """The position tables [L,D] that the model computes (none: zeros), in float32."""
    length = max(config.max_length, _LEAST_POSITIONS)
    makers = {"sinusoidal": sinusoid_table, "sinusoidal_halves": sinusoid_halves_table}
    make = makers.get(config.positions, torch.zeros)
    table = make(length, config.d_model).float()
    return {**state, "src_positions.weight": table, "tgt_positions.weight": table}


def _first_layer(stack: Literal["encoder", "decoder"]) -> Rewrite:
    """A layer for a stack that has none: all its weights are zero, so that in pre-norm it adds nothing."""
    name = f"n_{stack}_layers"

    def add(state: State, config: ModelConfig) -> State:
        shapes = empty_model(config.changed(**{name: 1}), "meta").state_dict()
        made = {
            key: torch.zeros(tensor.shape) for key, tensor in shapes.items() if key.startswith(f"{stack}.layers.0.")
        }
        return {**state, **made}

    return Rewrite(f"the {stack}, which has no layers, gets one that adds nothing", name, 1, add)


def refused_tokenizers(bundle: Bundle) -> list[str]:
    """Why CTranslate2, which looks tokens up by their text, cannot use these vocabularies."""
    config, pair = bundle.model.config, bundle.tokenizers
    src, tgt = _vocabularies(pair)
    problems = []
    for side, tokens in (("source", src), ("target", tgt))[: 1 if src is tgt else 2]:
        often = [token for token, count in Counter(tokens).items() if count > 1]
        problems += [f'the {side} vocabulary holds "{token}" more than once' for token in often[:1]]
    special = [("unknown", pair.src.unk_id, pair.tgt.unk_id, True)]
    special += [("start", config.bos_id, config.bos_id, config.src_bos)]
    special += [("end", config.eos_id, config.eos_id, config.src_eos)]
    for what, src_id, tgt_id, used in special:
        ours, theirs = (
            tokens[index] if index < len(tokens) else None for tokens, index in ((src, src_id), (tgt, tgt_id))
        )
        if used and ours != theirs:
            problems.append(
                f"its {what} token is {_shown(ours)} in the source vocabulary and {_shown(theirs)} in the target's"
            )
    return problems


def _vocabularies(pair: TokenizerPair) -> tuple[list[str], list[str]]:
    """The tokens of both sides in the order of their ids; one and the same list where one tokenizer does both."""
    src = pair.src.vocabulary()
    return src, src if pair.src is pair.tgt else pair.tgt.vocabulary()


def _shown(token: str | None) -> str:
    return "none" if token is None else f'"{token}"'


def save_folder(bundle: Bundle, folder: Path, quantization: str | None = None) -> None:
    """Write a CTranslate2 model into ``folder``, which exists and is empty; the bundle stays as it is.

    ``quantization`` is one of :data:`QUANTIZATIONS`, None being float32. Beside CTranslate2's own files stand our
    tokenizers', ``decode.json`` and a ``README.md`` that says how to run it. Raises :class:`ConversionError` with
    every reason why the model cannot be expressed, for an unknown quantization, and where CTranslate2 is missing.
    """
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ConversionError(
            f'no quantization is called "{quantization}"{nearest(quantization, list(QUANTIZATIONS))}; '
            f"there are {', '.join(QUANTIZATIONS)}."
        )
    original = config = bundle.model.config
    way = plan(config)
    problems = [*way.refused, *refused_tokenizers(bundle)]
    if problems:
        raise ConversionError(
            f"cannot write this model as {NAME}: {'; '.join(problems)}; choose another format for it."
        )
    _library()
    from dragoman.interop.ctranslate2_spec import make_spec

    state = {name: tensor.detach() for name, tensor in bundle.model.state_dict().items()}
    for rewrite in way.rewrites:
        state, config = rewrite(state, config)
    # The layer of a stack that had none has to be pre-norm.
    pre_norm = (
        original.norm_first or not original.n_encoder_layers,
        original.norm_first or not original.n_decoder_layers,
    )
    spec = make_spec(state, config, pre_norm=pre_norm)
    del state
    src, tgt = _vocabularies(bundle.tokenizers)
    spec.register_source_vocabulary(src)
    spec.register_target_vocabulary(tgt)
    for name, value in _model_options(bundle, tgt).items():
        setattr(spec.config, name, value)
    spec.validate()
    spec.optimize(quantization=quantization or "float32")
    spec.save(str(folder))
    bundle.tokenizers.save(folder)
    write_json(folder / "decode.json", bundle.decode.model_dump(mode="json"))
    # Rotary positions are computed, wherever they are.
    rows = None if config.positions == "rotary" else config.max_length
    write_text(folder / "README.md", readme(bundle, quantization or "float32", rows))


def _model_options(bundle: Bundle, tokens: list[str]) -> dict[str, Any]:
    """What stands in CTranslate2's ``config.json``; ``tokens`` is the target vocabulary."""
    config = bundle.model.config
    return {
        "unk_token": tokens[bundle.tokenizers.tgt.unk_id],
        "bos_token": tokens[config.bos_id],
        "eos_token": tokens[config.eos_id],
        "decoder_start_token": tokens[config.bos_id],
        "add_source_bos": config.src_bos,
        "add_source_eos": config.src_eos,
        "layer_norm_epsilon": config.norm_eps,
    }


@torch.no_grad()
def check_folder(bundle: Bundle, folder: Path, quantization: str | None = None) -> float:
    """The largest difference between CTranslate2's forced log-probabilities and ours, on random ids.

    ``quantization`` is what the folder was written with: CTranslate2 computes the int8 kinds in int8, the others in
    float32, where only the rounding of the weights is left. Raises :class:`ConversionError` where CTranslate2
    is missing, or where the difference is far above that.
    """
    library, model = _library(), bundle.model
    compute_type = "int8_float32" if (quantization or "").startswith("int8") else "float32"
    translator = library.Translator(str(folder), device="cpu", compute_type=compute_type)
    pairs = _random_pairs(model.config)
    src, tgt = _vocabularies(bundle.tokenizers)
    results = translator.score_batch(
        [[src[index] for index in ids] for ids, _ in pairs], [[tgt[index] for index in ids] for _, ids in pairs]
    )
    was_training = model.training
    ours = _log_probs(model.eval(), pairs)
    model.train(was_training)
    theirs = [torch.tensor(result.log_probs) for result in results]
    share = 0.0 if quantization in (None, "float32") else _OFF_INT8 if "int8" in quantization else _OFF_SHORT
    share = max(share, rounding(model.output.weight.dtype))
    return judged("log-probabilities", torch.cat(ours), torch.cat(theirs), share)


def _random_pairs(config: ModelConfig) -> list[tuple[list[int], list[int]]]:
    """Ids without special tokens around them, of unequal lengths, that the model's positions have room for."""
    generator = torch.Generator().manual_seed(1)
    longest = max(1, min(_PROBE_LENGTH, config.max_length - 2))

    def draw(size: int | None) -> list[int]:
        length = int(torch.randint(1, longest + 1, (1,), generator=generator))
        drawn: list[int] = torch.randint(size or 1, (length,), generator=generator).tolist()
        return drawn

    return [(draw(config.src_vocab_size), draw(config.tgt_vocab_size)) for _ in range(_PROBES)]


def _log_probs(model: Transformer, pairs: list[tuple[list[int], list[int]]]) -> list[Tensor]:
    """Our forced log-probabilities of each target, ``</s>`` included."""
    batch = collate(pairs, model.config, range(len(pairs)))
    there = batch.to(model.output.weight.device)
    log_probs = model.log_probs(there.src, there.tgt_in, there.src_mask, there.tgt_mask).float().cpu()
    chosen = log_probs.gather(-1, batch.tgt_out[..., None])[..., 0]
    return [row[: len(ids) + 1] for row, (_, ids) in zip(chosen, pairs, strict=True)]


def _library() -> ModuleType:
    try:
        import ctranslate2
    except ImportError:
        raise ConversionError(
            "CTranslate2 is not installed; pip install 'dragoman[ctranslate2]', or choose another format."
        ) from None
    library: ModuleType = ctranslate2
    return library
