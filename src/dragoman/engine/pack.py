"""From the model's linear layers to packed ones: several that read the same input become one product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dragoman.engine.linear import Int8Linear, Linear, PackedLinear, SmallLinear

# Weights of up to so many numbers stay in float32 in a small model.
_SMALL_WEIGHT = 1 << 16


@dataclass(frozen=True)
class Block:
    """Some outputs of a linear layer: ``weight`` [outputs,inputs], ``bias`` [outputs] or None."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, layer: nn.Linear) -> Block:
        """All outputs of ``layer``."""
        return cls(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())

    def scaled(self, factor: float) -> Block:
        """The same outputs, each times ``factor``."""
        return Block(self.weight * factor, None if self.bias is None else self.bias * factor)

    def split(self, parts: int) -> list[Block]:
        """Equal runs of the outputs."""
        biases = [None] * parts if self.bias is None else self.bias.chunk(parts)
        return [Block(weight, bias) for weight, bias in zip(self.weight.chunk(parts), biases, strict=True)]


@dataclass(frozen=True)
class Pack:
    """Packs blocks in one precision: eight bits with ``int8``, else float32.

    ``small``: for a small model, whose small weights stay in float32, since rounding their inputs costs more time than
    the shorter product saves. Beside eight bits they are multiplied in one way for any number of rows: a sum in another
    order may round to another step.
    """

    int8: bool = False
    small: bool = False

    def __call__(self, blocks: Sequence[Block], *, relu: bool = False) -> Linear:
        """One layer whose outputs are those of ``blocks`` one after the other; a missing bias counts as zeros."""
        weight = torch.cat([block.weight for block in blocks]) if len(blocks) > 1 else blocks[0].weight
        if self.int8 and not (self.small and weight.numel() <= _SMALL_WEIGHT):
            return Int8Linear(weight, _bias(blocks), relu=relu)
        return (SmallLinear if self.small and not self.int8 else PackedLinear)(weight, _bias(blocks), relu=relu)


def _bias(blocks: Sequence[Block]) -> Tensor | None:
    if all(block.bias is None for block in blocks):
        return None
    parts = [torch.zeros(len(block.weight)) if block.bias is None else block.bias for block in blocks]
    return torch.cat(parts) if len(parts) > 1 else parts[0]
