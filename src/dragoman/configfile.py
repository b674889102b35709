"""Configuration files: YAML in, :class:`RunConfig` out, each error with its file and line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from dragoman.config import RunConfig
from dragoman.errors import ConfigError, UsageError, nearest
from dragoman.explain import Place, explain
from dragoman.files import write_text
from dragoman.presets import PRESETS

Lines = dict[Place, int]


class _Resolver(yaml.resolver.BaseResolver):
    """The plain words and numbers of YAML 1.2's core schema: ``no`` is a language, ``1e-3`` a number, no dates."""


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Resolver.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


class _Loader(yaml.SafeLoader, _Resolver):
    """Reads with :class:`_Resolver`."""

    yaml_implicit_resolvers = _Resolver.yaml_implicit_resolvers


class _Dumper(yaml.SafeDumper, _Resolver):
    """Quotes what :class:`_Resolver` would read as something other than text, and escapes line ends of all kinds."""

    yaml_implicit_resolvers = _Resolver.yaml_implicit_resolvers


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if any(end in text for end in "\n\r\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def _construct(node: yaml.Node, path: Place, lines: Lines, where: str) -> Any:
    """The value of a node; ``lines`` collects the line of each key path."""
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{where}, line {line}: a key is not a plain word; write it as one.")
            key = str(key_node.value)
            if key in values:
                raise ConfigError(f'{where}, line {line}: the key "{".".join((*path, key))}" stands twice; keep one.')
            lines[(*path, key)] = line
            values[key] = _construct(value_node, (*path, key), lines, where)
        return values
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*path, str(index)), lines, where) for index, item in enumerate(node.value)]
    loader = _Loader("")
    try:
        return loader.construct_object(node)
    finally:
        loader.dispose()


def _parse(text: str, where: str, lines: Lines, path: Place = ()) -> Any:
    try:
        node = yaml.compose(text, Loader=_Loader)
        return None if node is None else _construct(node, path, lines, where)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{where}{line}: not valid YAML ({problem}); mend it there.") from None
    except RecursionError:
        raise ConfigError(f"{where}: nested without end, or too deep; write it flat.") from None


def _override(values: dict[str, Any], assignment: str) -> Place:
    """Set the key that ``KEY=VALUE`` names; returns its path."""
    key, equals, text = assignment.partition("=")
    place = tuple(key.strip().split("."))
    if not equals or not all(place):
        raise UsageError(f'"{assignment}" is not KEY=VALUE; write for example train.lr=0.002.')
    target = values
    for depth, part in enumerate(place[:-1], start=1):
        inner = target.get(part)
        if inner is not None and not isinstance(inner, dict):
            raise ConfigError(
                f'"{assignment}": "{".".join(place[:depth])}" is {inner!r} and has no keys; set it whole.'
            )
        target[part] = inner = dict(inner or {})
        target = inner
    target[place[-1]] = _parse(text, f'"{assignment}"', {})
    return place


def parse_settings(assignments: list[str]) -> dict[str, Any]:
    """The values of plain ``KEY=VALUE`` words, read as YAML. Raises :class:`UsageError` for one that is none,
    :class:`ConfigError` for a key that stands twice."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageError(f'"{assignment}" is not KEY=VALUE; write for example n_heads=8.')
        if key in values:
            raise ConfigError(f'the key "{key}" stands twice; keep one.')
        values[key] = _parse(text, f'"{assignment}"', {})
    return values


def _read(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; give the path of a configuration file.") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8; save the file as UTF-8.") from None


def load_config(path: str | os.PathLike[str], overrides: list[str] | None = None) -> RunConfig:
    """Read a training configuration; ``overrides`` are ``KEY=VALUE`` with dots in the key, values in YAML.

    ``data.dir`` becomes absolute: relative to the file's own folder, or to the working directory when it
    was given as an override. Raises :class:`ConfigError` that names the file and the line.
    """
    path = Path(path)
    text = _read(path)
    lines: Lines = {}
    values = _parse(text, str(path), lines)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: no keys in it; see recipes/ for examples.")
    overridden = {_override(values, assignment) for assignment in overrides or []}
    _expand_preset(values, path, lines)
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_sentence(error, path, lines, overridden)) from None
    start = Path.cwd() if ("data", "dir") in overridden else path.resolve().parent
    return config.model_copy(
        update={"data": config.data.model_copy(update={"dir": str(start / Path(config.data.dir).expanduser())})}
    )


def _expand_preset(values: dict[str, Any], path: Path, lines: Lines) -> None:
    """``model.preset`` gives way to the settings of that name; what is set beside it goes before them."""
    model = values.get("model")
    if not isinstance(model, dict) or "preset" not in model:
        return
    own = dict(model)
    name = own.pop("preset")
    if not isinstance(name, str) or name not in PRESETS:
        line = f", line {lines[('model', 'preset')]}" if ("model", "preset") in lines else ""
        raise ConfigError(
            f'{path}{line}: no preset is called "{name}"{nearest(str(name), list(PRESETS))}; there are '
            f"{', '.join(PRESETS)}."
        )
    values["model"] = {**PRESETS[name], **own}


def _sentence(error: ValidationError, path: Path, lines: Lines, overridden: set[Place]) -> str:
    texts = []
    for place, parts in explain(error, RunConfig):
        text = "".join(map(str, parts))
        # A key may also be wrong above what was given: of valid.x it is valid that is unknown.
        if any(place[: len(key)] == key or (key[: len(place)] == place not in lines) for key in overridden):
            texts.append(f"on the command line: {text}")
            continue
        known = next((place[:end] for end in range(len(place), -1, -1) if place[:end] in lines), ())
        texts.append(f"{path}, line {lines.get(known, 1)}: {text}")
    return "; ".join(texts) + "."


def dump_config(config: RunConfig, path: str | os.PathLike[str]) -> None:
    """Write every setting, resolved, as YAML that :func:`load_config` reads back to an equal configuration."""
    values = config.model_dump(mode="json")
    write_text(path, yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))
