"""Options of a translation: fields of ``DecodeConfig`` in place of the model's, and which make no sense together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.config import DecodeConfig
from dragoman.errors import ConfigError, Setting, nearest

# What each call may be asked beside the fields of DecodeConfig.
_PHRASES = ("prefix", "constraints", "terms", "strict_terms", "attention")
_BESIDE: dict[str, tuple[str, ...]] = {
    "translate": (*_PHRASES, "batch_tokens", "line_numbers", "report"),
    "stream": (*_PHRASES, "line_number"),
    "alternatives": ("prefix", "n"),
    "record": ("prefix",),
    "force": ("attention",),
    "decode_config": (),
}
_DRAWING = ("temperature", "top_k", "top_p", "seed")
# What asks for a search, where it is above its least value.
_SEARCHING = {"beam_size": 1, "stop_after": 0}
# What max_length takes the place of.
_BY_SOURCE = ("max_length_ratio", "max_length_extra")


def asked_config(default: DecodeConfig, options: Mapping[str, Any], call: str = "decode_config") -> DecodeConfig:
    """``default`` with some fields changed; ``call`` is the method of ``Translator`` that was asked.

    What is asked for counts: with a beam, or an end of the search, it is a search, though the default may draw, and
    lengths by the source hold, though the default may have a fixed one. Raises :class:`ConfigError` for an unknown
    option, a value that cannot be, and as :func:`check_together` does, of options beside each other and beside what
    the default leaves no effect.
    """
    fields = DecodeConfig.model_fields
    for name in options:
        if name in fields:
            continue
        beside = _BESIDE[call]
        if any(name in others for others in _BESIDE.values()):
            twin = [other for other in beside if other.rstrip("s") == name.rstrip("s")]
            raise ConfigError(f"{call} takes no {name}{nearest(name, twin)}; leave it out.")
        raise ConfigError(f'no option of a translation is called "{name}"{nearest(name, [*fields, *beside])}.')
    if not options:
        return default
    implied: dict[str, Any] = {}
    if default.sample and any(name in options for name in _SEARCHING):
        implied["sample"] = False
    if any(name in options for name in _BY_SOURCE):
        implied["max_length"] = None
    config = default.changed(**{**implied, **options})
    own: dict[str, Any] = {"sample": config.sample, "length_norm": config.length_norm}
    if config.beam_size == 1:
        own["beam_size"] = 1
    check_together({**own, **{name: getattr(config, name) for name in options}})
    return config


def check_together(options: Mapping[str, Any]) -> None:
    """Raises :class:`ConfigError` where some options have no effect because of others.

    The defaults of a model do not count: that it has a beam is no reason against drawing.
    """
    draws = options.get("sample", False)
    for name, least in _SEARCHING.items():
        if draws and options.get(name, least) > least:
            clash = (" is for a search, and ", Setting("sample"), " draws at random; leave one of them out.")
            raise ConfigError(Setting(name), *clash)
    for name in _DRAWING:
        if name in options and not draws:
            raise ConfigError(Setting(name), " is for drawing; add ", Setting("sample"), ".")
    if options.get("stop_after", 0) and options.get("beam_size") == 1:
        narrow = (" is for a beam, and ", Setting("beam_size"), " is 1; leave it out, or take a wider beam.")
        raise ConfigError(Setting("stop_after"), *narrow)
    if options.get("length_penalty", 0.0) and options.get("length_norm") == "none":
        none = (" is the exponent of a norm, and ", Setting("length_norm"), " is none; leave it out, or take a norm.")
        raise ConfigError(Setting("length_penalty"), *none)
    for name in _BY_SOURCE:
        if name in options and options.get("max_length") is not None:
            place = (" has no effect beside ", Setting("max_length"), ", which takes its place; leave one of them out.")
            raise ConfigError(Setting(name), *place)
