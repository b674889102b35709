"""Where to compute, and in what type of numbers."""

from __future__ import annotations

import re

import torch

from dragoman.errors import ConfigError

# The type that weights are read in; int8 is made of float32.
_DTYPES = {"fp32": torch.float32, "int8": torch.float32, "bf16": torch.bfloat16}


def resolve_device(name: str) -> torch.device:
    """``auto``: cuda, else mps, else cpu. Raises :class:`ConfigError` for a device that is not there."""
    there = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available()), "cpu": 1}
    if name == "auto":
        return torch.device(next(kind for kind, count in there.items() if count))
    match = re.fullmatch(r"(cuda|mps|cpu)(?::(\d+))?", name)
    if match is None or int(match[2] or 0) >= there[match[1]]:
        known = ", ".join(kind for kind, count in there.items() if count)
        raise ConfigError(f'there is no device "{name}" here; use auto, {known}.')
    return torch.device(name)


def dtype_of(precision: str) -> torch.dtype:
    """The type that weights are read in. Raises :class:`ConfigError` for a precision that there is not."""
    if precision not in _DTYPES:
        raise ConfigError(f'there is no precision "{precision}"; use one of {", ".join(_DTYPES)}.')
    return _DTYPES[precision]
