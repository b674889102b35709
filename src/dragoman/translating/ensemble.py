"""Several models of the same vocabularies as one.

Shapes: B sources, S source length, R rows of a decoding step, V vocabulary, M models.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, cast

import torch
from torch import Tensor

from dragoman.bundle import Bundle
from dragoman.config import DecodeConfig, ModelConfig
from dragoman.decoding.step import log_probabilities
from dragoman.engine import fast
from dragoman.engine.engine import has_operators
from dragoman.errors import ConfigError
from dragoman.model.transformer import Transformer
from dragoman.translating.asked import items_of

logger = logging.getLogger("dragoman")


class Engine(Protocol):
    """What a search needs of a model: :class:`~dragoman.model.transformer.Transformer` is one."""

    @property
    def config(self) -> ModelConfig:
        """Its shape."""

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Any:
        """What :meth:`start` takes, for source ids and mask [B,S]."""

    def start(self, memory: Any, src_mask: Tensor | None = None) -> Any:
        """The state before the first step."""

    def step(self, tokens: Tensor, state: Any, parents: Tensor | None = None) -> Tensor:
        """Logits [R,V], as :class:`dragoman.decoding.Step` says."""


class Ensemble:
    """An engine whose probabilities are the mean of those of its engines (a linear mixture, all weights equal).

    What it gives as logits are the logarithms of these means. ``config`` is the first engine's.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = list(engines)
        self.config = self.engines[0].config

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> list[Any]:
        """Each engine's memory."""
        return [engine.encode(src, src_mask) for engine in self.engines]

    def start(self, memory: list[Any], src_mask: Tensor | None = None) -> list[Any]:
        """Each engine's state."""
        return [engine.start(own, src_mask) for engine, own in zip(self.engines, memory, strict=True)]

    def step(self, tokens: Tensor, state: list[Any], parents: Tensor | None = None) -> Tensor:
        """Log-probabilities [R,V]. Raises :class:`RunError` where an engine's logits are NaN."""
        each = zip(self.engines, state, strict=True)
        logprobs = torch.stack(
            [log_probabilities(engine.step(tokens, own, parents)) for engine, own in each]
        )  # [M,R,V]
        return logprobs.logsumexp(0) - math.log(len(self.engines))


def make_engine(models: Sequence[Transformer], precision: str, *, compiled: bool = False) -> Engine:
    """What computes for some models: the fast step where there is one, ``compiled`` if asked for, else the model.

    A warning says what bf16 loses on a processor that has the fast step. Raises :class:`ConfigError` for int8 where it
    cannot be had.
    """
    weights = [next(model.parameters()) for model in models]
    if has_operators() and any(one.device.type == "cpu" and one.dtype == torch.bfloat16 for one in weights):
        _warn_of_bf16()
    kind: Literal["fp32", "int8"] = "int8" if precision == "int8" else "fp32"
    engines: list[Engine] = [fast(model, kind, compile=compiled) for model in models]
    return engines[0] if len(engines) == 1 else Ensemble(engines)


def note_beam(engine: Engine, config: DecodeConfig) -> None:
    """Say once that a beam makes no use of a compiled step."""
    engines = engine.engines if isinstance(engine, Ensemble) else [engine]
    if config.beam_size > 1 and not config.sample and any(getattr(one, "row", None) for one in engines):
        _warn_of_beam()


@functools.cache
def _warn_of_beam() -> None:
    logger.warning(
        "the compiled step is for greedy search and drawing, and a beam goes on without; ask for a beam of 1."
    )


@functools.cache
def _warn_of_bf16() -> None:
    """Say once that there is no fast step (docs/howto/decode.md has what that costs)."""
    logger.warning("bf16 on a processor runs without the fast engine and is seldom faster than fp32; int8 is.")


def alike(first: Bundle, others: object) -> list[Bundle]:
    """The models of an ensemble in a list.

    Raises :class:`ConfigError` for what is no model, and where they do not read and write the same ids.
    """
    bundles = [first, *(items_of(others) or ([] if isinstance(others, Iterable) else [others]))]
    for one in bundles:
        if not isinstance(one, Bundle):
            raise ConfigError(f"a model is given as a {type(one).__name__}; give a Bundle, or a path to load.")
    models = cast("list[Bundle]", bundles)
    _check_alike(models)
    return models


def _check_alike(bundles: Sequence[Bundle]) -> None:
    first = bundles[0]
    for number, other in enumerate(bundles[1:], start=2):
        for side in ("src", "tgt"):
            one, two = getattr(first.tokenizers, side), getattr(other.tokenizers, side)
            if one.kind != two.kind or one.vocabulary() != two.vocabulary():
                raise ConfigError(
                    f"model {number} of the ensemble has another {'source' if side == 'src' else 'target'} vocabulary "
                    "than the first; use models that were trained with the same tokenizers."
                )
        for name in ("src_pad_id", "tgt_pad_id", "bos_id", "eos_id", "src_bos", "src_eos"):
            values = getattr(first.model.config, name), getattr(other.model.config, name)
            if values[0] != values[1]:
                raise ConfigError(
                    f"model {number} of the ensemble has {name} {values[1]}, and the first {values[0]}; "
                    "use models of the same settings."
                )
