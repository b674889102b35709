"""Options of a translation: fields of ``DecodeConfig`` in place of the model's, and which make no sense together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.config import DecodeConfig
from dragoman.errors import ConfigError, Setting, nearest

# What may be asked of a translation beside the fields of DecodeConfig.
_BESIDE = ("prefix", "constraints", "terms", "strict_terms", "attention", "batch_tokens")
_DRAWING = ("temperature", "top_k", "top_p", "seed")


def asked_config(default: DecodeConfig, options: Mapping[str, Any]) -> DecodeConfig:
    """``default`` with some fields changed; a beam that is asked for is a search, though the default may draw.

    Raises :class:`ConfigError` for an unknown option, a value that cannot be, and as :func:`check_together` does.
    """
    fields = DecodeConfig.model_fields
    for name in options:
        if name not in fields:
            raise ConfigError(f'no option of a translation is called "{name}"{nearest(name, [*fields, *_BESIDE])}.')
    if not options:
        return default
    searches = {"sample": False} if default.sample and "beam_size" in options else {}
    config = default.changed(**{**searches, **options})
    check_together({"sample": config.sample, **{name: getattr(config, name) for name in options}})
    return config


def check_together(options: Mapping[str, Any]) -> None:
    """Raises :class:`ConfigError` where some options have no effect because of others.

    The defaults of a model do not count: that it has a beam is no reason against drawing.
    """
    draws = options.get("sample", False)
    if draws and options.get("beam_size", 1) > 1:
        clash = (" is for a search, and ", Setting("sample"), " draws at random; leave one of them out.")
        raise ConfigError(Setting("beam_size"), *clash)
    for name in _DRAWING:
        if name in options and not draws:
            raise ConfigError(Setting(name), " is for drawing; add ", Setting("sample"), ".")
