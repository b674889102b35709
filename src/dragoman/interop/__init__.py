"""Weights of other implementations, in and out; each format is a table of keys in a file of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from dragoman.config import ModelConfig
from dragoman.errors import ConversionError, nearest
from dragoman.interop import annotated, hkproj, hyunwoongko, labml, nn_transformer, read, valid_len, write
from dragoman.interop.checkpoint import state_dict_of
from dragoman.interop.format import Format
from dragoman.interop.write import ExportPlan
from dragoman.model.transformer import Transformer

_FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT for module in (valid_len, hyunwoongko, labml, hkproj, annotated, nn_transformer)
}
FORMATS: tuple[str, ...] = tuple(_FORMATS)

__all__ = ["FORMATS", "ExportPlan", "detect_format", "export_state_dict", "import_state_dict", "plan_export"]


def import_state_dict(
    format: str,  # noqa: A002 (the word that the commands use too)
    state_dict: Mapping[str, Any],
    dtype: torch.dtype = torch.float32,
    **facts: Any,
) -> Transformer:
    """The ordinary model that somebody's weights make, in evaluation mode.

    ``facts`` say what the weights cannot: ``n_heads`` always; ``variant``, ids, ``max_length`` and any other field
    of :class:`ModelConfig` where the format's default is not right. The caller's tensors are copied. Position
    tables are computed in ``dtype``. Raises :class:`ConversionError` that lists every missing and unused key,
    wrong shape and unsupported option together.
    """
    return read.read(_format(format), state_dict, dtype, facts)


def export_state_dict(format: str, model: Transformer, **facts: Any) -> dict[str, Tensor]:  # noqa: A002
    """The state dict that the other implementation loads, in the model's type.

    ``facts`` name keys where the format leaves them open (``torch``: see :mod:`dragoman.interop.nn_transformer`).
    Raises :class:`ConversionError` with every reason why the model cannot be expressed.
    """
    return write.write(_format(format), model, facts)


def plan_export(format: str, config: ModelConfig) -> ExportPlan:  # noqa: A002
    """What an export of a model of this shape would rewrite, and what it would refuse."""
    return write.plan(_format(format), config)


def detect_format(state_dict: Mapping[str, Any] | Iterable[str]) -> str:
    """The format of these weights (or of these keys), told from the keys.

    Raises :class:`ConversionError` where no format, or more than one, has such keys.
    """
    keys = list(state_dict_of(state_dict) if isinstance(state_dict, Mapping) else state_dict)
    found = [fmt.name for fmt in _FORMATS.values() if any(re.search(fmt.signature, key) for key in keys)]
    if len(found) != 1:
        said = f"the keys are those of {' and '.join(found)}" if found else "no known format has these keys"
        raise ConversionError(f"{said}; say which it is: {', '.join(FORMATS)}.")
    return found[0]


def _format(name: str) -> Format:
    if name not in _FORMATS:
        raise ConversionError(
            f'no format is called "{name}"{nearest(name, list(FORMATS))}; there are {", ".join(FORMATS)}.'
        )
    return _FORMATS[name]
