"""The engine: a model's ``encode``, ``start`` and ``step`` over packed weights.

Shapes: B sentences, S source length, R rows of a step, M rows, D ``d_model``, V target vocabulary.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, Literal, Protocol, cast

import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.engine.compiled import CompiledRow, compiled_row, go_on_without
from dragoman.engine.layers import PackedDecoderLayer, PackedEncoderLayer
from dragoman.engine.norms import fast_norm
from dragoman.engine.pack import Block, Pack
from dragoman.engine.programs import keep_few_programs
from dragoman.engine.rotary import Turn
from dragoman.engine.rows import RealRows
from dragoman.engine.source import Source, SourceMask, steady_length, steady_mask
from dragoman.engine.state import EngineState
from dragoman.errors import ConfigError, Setting
from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.positions import Rotary
from dragoman.model.transformer import Transformer

# Float32 weights of up to this many in all stay in the outer cache of the processor between steps.
SMALL_MODEL = 1 << 22

Positions = Callable[[Tensor, int], Tensor]


class Steps(Protocol):
    """What decoding needs of a model: :class:`~dragoman.model.transformer.Transformer` has it, and the engine."""

    config: ModelConfig

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """Ids [B,S] -> memory [B,S,D]."""

    def start(self, memory: Tensor | None, src_mask: Tensor | None = None) -> Any:
        """An empty cache for step-wise decoding over ``memory`` [B,S,D]; None: no source."""

    def step(self, tokens: Tensor, state: Any, parents: Tensor | None = None) -> Tensor:
        """Logits [R,V] for the token after ``tokens`` [R]."""


class Engine:
    """Decodes with the weights that ``model`` has now, in float32 or with eight-bit products.

    Only sums in another order and, with ``int8``, rounding set its results apart from the model's in evaluation mode.
    With ``int8`` a row's sums are added in the same order whatever stands beside it: a last digit that is another one
    can round to another of the 255 steps, which shows in the second digit of a probability. (In float32 it does not.)
    The embeddings stay the model's own. ``consume`` frees the model's other matrices as soon as each is packed, so that
    they are not there twice; the model cannot be used any more. ``row`` makes the steps of a single hypothesis; it
    was made from the same ``model``.
    """

    def __init__(
        self, model: Transformer, *, int8: bool = False, consume: bool = False, row: CompiledRow | None = None
    ) -> None:
        keep_few_programs()
        config = self.config = model.config
        self.row = row
        self.steady = int8
        pack = Pack(int8, small=_n_weights(model) <= SMALL_MODEL)
        turn = self.turn = Turn(Rotary(config.d_head)) if config.positions == "rotary" else None
        self.nothing = torch.zeros(1, 1, config.d_model)
        self.scale = model.scale
        self.src_table, self.tgt_table = model.src_embedding.weight.detach(), model.tgt_embedding.weight.detach()
        self.src_positions, self.tgt_positions = model.src_positions.forward, model.tgt_positions.forward
        encoder = cast("list[EncoderLayer]", model.encoder.layers)
        decoder = cast("list[DecoderLayer]", model.decoder.layers)
        sources = [part for layer in decoder for part in (layer.cross_attention.key, layer.cross_attention.value)]
        self.source = pack([Block.of(layer) for layer in sources]) if sources else None
        self.encoder: list[PackedEncoderLayer] = []
        for encoder_layer in encoder:
            self.encoder.append(PackedEncoderLayer(encoder_layer, config, pack, turn))
            if consume:
                _empty(encoder_layer)
        self.encoder_norm = fast_norm(model.encoder.norm)
        self.decoder: list[PackedDecoderLayer] = []
        for decoder_layer in decoder:
            self.decoder.append(PackedDecoderLayer(decoder_layer, len(self.decoder), config, pack, turn))
            if consume:
                _empty(decoder_layer)
        self.decoder_norm = fast_norm(model.decoder.norm)
        self.output = pack([Block.of(model.output)])
        if consume and config.tie_embeddings == "none":
            _empty(model.output)

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """Ids [B,S] -> memory [B,S,D]; masks as the model's, True = real token."""
        with torch.inference_mode():
            size, length = src.shape
            x = self._embed(src, self.src_table, self.src_positions, 0)
            if self.steady:
                x, src_mask = _longer(x), steady_mask(src_mask, size, length)
            mask, real = SourceMask.of(src_mask), RealRows.of(src_mask)
            x = x.flatten(0, 1) if real is None else real.pick(x.flatten(0, 1))
            for layer in self.encoder:
                x = layer(x, size, mask, real)
            x = self.encoder_norm(x)
            x = x if real is None else real.spread(x)
            return x.view(size, len(x) // max(size, 1), x.shape[1])[:, :length]

    def start(self, memory: Tensor | None, src_mask: Tensor | None = None) -> EngineState:
        """An empty cache for step-wise decoding over ``memory`` [B,S,D]; None: no source."""
        shape = len(self.decoder), self.config.kv_heads, self.config.d_head
        with torch.inference_mode():
            if memory is None or self.source is None:
                return EngineState(shape, None, steady=self.steady)
            layers, kv_heads, d_head = shape
            src_mask = None if src_mask is None else src_mask.expand(len(memory), -1)
            if self.steady:
                src_mask = steady_mask(src_mask, *memory.shape[:2])
                memory = _longer(memory)
            size, length, _ = memory.shape
            real, x = RealRows.of(src_mask), memory.reshape(size * length, -1)
            projected = self.source(x) if real is None else real.spread(self.source(real.pick(x)))
            parts = projected.view(size, length, layers, 2, kv_heads, d_head)
            source = Source.of(parts, SourceMask.of(src_mask), steady=self.steady)
            return EngineState(shape, source, steady=self.steady)

    def step(self, tokens: Tensor, state: EngineState, parents: Tensor | None = None) -> Tensor:
        """Logits [R,V] for the token after ``tokens`` [R], as :meth:`Transformer.step` gives them.

        Raises :class:`DataError` for another number of tokens than of rows, and past the end of learned or table
        positions.
        """
        if self.row is not None and state.goes_on_alone(len(tokens), parents):
            return self._step_alone(self.row, tokens, state)
        with torch.inference_mode():
            if parents is not None:
                state.select(parents)
            x = self._embed(tokens[:, None], self.tgt_table, self.tgt_positions, state.length)[:, 0]
            state.advance(len(tokens))
            x = state.to_places(x)
            for layer in self.decoder:
                x = layer.step(x, state)
            x = state.from_places(self.decoder_norm(x))
        return self.project(x)

    def _step_alone(self, row: CompiledRow, tokens: Tensor, state: EngineState) -> Tensor:
        with torch.inference_mode():
            if self.turn is not None:
                position = self.turn.rows(state.length)
            else:
                position = self.tgt_positions(self.nothing, state.length)[0]
            place, slots = state.advance_alone()
        assert state.source is not None
        # Outside, so that the logits may be changed in place.
        return row(tokens, place, position, slots, *state.source.single)

    @torch.no_grad()
    def project(self, hidden: Tensor) -> Tensor:
        """Hidden vectors [M,D] -> logits [M,V]: an ordinary tensor, which a search may change in place."""
        return self.output(hidden)

    def _embed(self, ids: Tensor, table: Tensor, positions: Positions, start: int) -> Tensor:
        return positions(torch.embedding(table, ids) * self.scale, start)


def _longer(x: Tensor) -> Tensor:
    """[B,S,D] with zeros at the end of each sentence, up to :func:`steady_length`."""
    return nn.functional.pad(x, (0, 0, 0, steady_length(x.shape[1]) - x.shape[1]))


def _empty(module: nn.Module) -> None:
    """Free the matrices of the linear layers in ``module``."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight = nn.Parameter(part.weight.new_empty(0), requires_grad=False)


def _n_weights(model: Transformer) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def fast(
    model: Transformer,
    precision: Literal["fp32", "int8"] = "fp32",
    *,
    consume: bool = False,
    compile: bool = False,  # noqa: A002  # PyTorch's word
) -> Steps:
    """The fastest way to decode with ``model`` where it is: an :class:`Engine` on an x86 processor in float32.

    Elsewhere (a GPU, float64, another processor) the model itself. ``consume``: see :class:`Engine`. ``compile``:
    the steps of a single hypothesis are compiled, once for a shape (:mod:`dragoman.engine.compiled`); where that
    cannot be, or would be slower (a large model), a warning says so. Raises :class:`ConfigError` for int8 where there
    is no engine.
    """
    if precision not in ("fp32", "int8"):
        raise ConfigError(f'there is no precision "{precision}" for the engine; use fp32 or int8.')
    can = can_pack(model)
    if precision == "int8" and not can:
        raise ConfigError("int8 needs a float32 model on an x86 processor; use ", Setting("precision"), " fp32 here.")
    row = None
    if compile and (precision == "int8" or not can):
        go_on_without("it needs float32 on an x86 processor.")
    elif compile and _n_weights(model) > SMALL_MODEL:
        go_on_without(f"above {SMALL_MODEL:,} weights the packed step is faster.")
    elif compile:
        row = compiled_row(model)
    return Engine(model, int8=precision == "int8", consume=consume, row=row) if can else model


def has_operators() -> bool:
    """Whether the engine's operators exist on this machine's processor."""
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # PyTorch
    return has_onednn and platform.machine().lower() in ("x86_64", "amd64")


def can_pack(model: Transformer) -> bool:
    """Whether the engine's operators exist for the place and type of the model's weights."""
    return has_operators() and all(p.device.type == "cpu" and p.dtype == torch.float32 for p in model.parameters())
