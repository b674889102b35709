"""Configuration files: YAML in, :class:`RunConfig` out, each error with its file and line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from dragoman.config import RunConfig, explain
from dragoman.errors import ConfigError, UsageError
from dragoman.files import write_text

Line = dict[tuple[str, ...], int]


class _Loader(yaml.SafeLoader):
    """YAML 1.2's idea of booleans and numbers: ``no`` is a language, ``1e-3`` is a number."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:float")]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false|True|False)$"), list("tTfF"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$"),
    list("-+.0123456789"),
)


def _construct(node: yaml.Node, path: tuple[str, ...], lines: Line, where: str) -> Any:
    """The value of a node; ``lines`` collects the line of each key path."""
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(getattr(key_node, "value", ""))
            line = key_node.start_mark.line + 1
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


def _parse(text: str, where: str, lines: Line, path: tuple[str, ...] = ()) -> Any:
    try:
        node = yaml.compose(text, Loader=_Loader)
        return None if node is None else _construct(node, path, lines, where)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{where}{line}: not valid YAML ({problem}); mend it there.") from None


def _override(values: dict[str, Any], assignment: str) -> None:
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise UsageError(f'"{assignment}" is not KEY=VALUE; write for example train.lr=0.002.')
    parts = key.strip().split(".")
    target = values
    for part in parts[:-1]:
        inner = target.get(part)
        target[part] = inner = dict(inner) if isinstance(inner, dict) else {}
        target = inner
    target[parts[-1]] = _parse(text, f'"{assignment}"', {})


def load_config(path: str | os.PathLike[str], overrides: list[str] | None = None) -> RunConfig:
    """Read a training configuration; ``overrides`` are ``KEY=VALUE`` with dots in the key, values in YAML.

    ``data.dir`` becomes absolute: relative to the file's own folder, or to the working directory when it
    was given as an override. Raises :class:`ConfigError` that names the file and the line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; give the path of a configuration file.") from None
    lines: Line = {}
    values = _parse(text, str(path), lines)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: no keys in it; see recipes/ for examples.")
    overridden = set()
    for assignment in overrides or []:
        _override(values, assignment)
        overridden.add(tuple(assignment.partition("=")[0].strip().split(".")))
    try:
        config = RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_sentence(error, path, lines, overridden)) from None
    start = Path.cwd() if ("data", "dir") in overridden else path.resolve().parent
    return config.model_copy(update={"data": config.data.model_copy(update={"dir": str(start / config.data.dir)})})


def _sentence(error: ValidationError, path: Path, lines: Line, overridden: set[tuple[str, ...]]) -> str:
    texts = []
    for place, text in explain(error, RunConfig):
        if any(place[: len(key)] == key for key in overridden):
            texts.append(f"on the command line: {text}")
            continue
        known = next((place[:end] for end in range(len(place), -1, -1) if place[:end] in lines), ())
        texts.append(f"{path}, line {lines.get(known, 1)}: {text}")
    return "; ".join(texts) + "."


def dump_config(config: RunConfig, path: str | os.PathLike[str]) -> None:
    """Write every setting, resolved, as YAML that :func:`load_config` reads back to an equal configuration."""
    values = config.model_dump(mode="json")
    write_text(path, yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120))
