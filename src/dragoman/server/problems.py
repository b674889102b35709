"""What is wrong with a request, in the words of JSON: which field, what it holds, and what to give in its place."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from dragoman.errors import nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Loc = tuple[str | int, ...]
Model = type[BaseModel]

_SHOWN = 60  # characters of a value, or of a name that is a client's own

# Kind of pydantic's error -> what to give in its place, from the error's bounds.
_GIVE: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "string_type": lambda _: "a string",
    "list_type": lambda _: "a list",
    "int_type": lambda _: "a whole number",
    "int_parsing": lambda _: "a whole number",
    "int_parsing_size": lambda _: "a smaller whole number",
    "int_from_float": lambda _: "a whole number",
    "float_type": lambda _: "a number",
    "float_parsing": lambda _: "a number",
    "finite_number": lambda _: "a finite number",
    "bool_type": lambda _: "true or false",
    "bool_parsing": lambda _: "true or false",
    "dict_type": lambda _: "an object",
    "model_type": lambda _: "an object",
    "greater_than": lambda bound: f"more than {_number(bound['gt'])}",
    "greater_than_equal": lambda bound: f"at least {_number(bound['ge'])}",
    "less_than": lambda bound: f"less than {_number(bound['lt'])}",
    "less_than_equal": lambda bound: f"at most {_number(bound['le'])}",
    "literal_error": lambda bound: bound["expected"].replace("'", '"'),
}


def _number(value: float) -> str:
    return f"{int(value) if value == int(value) else value:,}"


def problems(error: ValidationError, model: Model) -> list[str]:
    """Each problem as a sentence without its end, one a field, in the order of the fields."""
    found: dict[str, list[ErrorDetails]] = {}
    for item in error.errors(include_url=False):
        found.setdefault(_name(model, item["loc"]), []).append(item)
    for name in [name for name in found if any(other.startswith(f"{name}[") for other in found)]:
        del found[name]  # a list that is right but for its items is no string either
    return [_problem(name, _telling(items), model) for name, items in found.items()]


def _name(model: Model, loc: Loc) -> str:
    """Where an error stands, as ``options.beam_size`` or ``q[3]``."""
    label = 1 if str(loc[0]) in model.model_fields and _is_union(model, str(loc[0])) else None
    name = ""
    for place, part in enumerate(loc):
        if place != label and part != "[key]":
            name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def _is_union(model: Model, field: str) -> bool:
    """Whether a field takes several types, null not counted; pydantic then names the type in an error's place."""
    annotation = model.model_fields[field].annotation
    if get_origin(annotation) not in (Union, types.UnionType):
        return False
    return len([one for one in get_args(annotation) if one is not types.NoneType]) > 1


def _telling(items: list[ErrorDetails]) -> list[ErrorDetails]:
    """The errors of one place, without those of types that the value was not meant for."""
    fitting = [item for item in items if not item["type"].endswith("_type")]
    return fitting or items


def _problem(name: str, items: list[ErrorDetails], model: Model) -> str:
    first, suggestion = items[0], _suggestion(name[: 2 * _SHOWN], model)
    name = quoted(name)
    kind, value, bounds = first["type"], first["input"], first.get("ctx", {})
    if kind == "missing":
        return f"{name} is missing"
    if kind == "extra_forbidden":
        return f"unknown key {name}{suggestion}"
    if kind in ("string_too_short", "too_short"):
        return f"{name} is empty: give at least one {'character' if kind == 'string_too_short' else 'item'}"
    if kind == "string_too_long":
        return f"{name} has {len(value):,} characters and may have {bounds['max_length']:,}"
    if kind == "too_long":
        return f"{name} has {len(value):,} items and may have {bounds['max_length']:,}"
    gives = [_GIVE[item["type"]](item.get("ctx", {})) for item in items if item["type"] in _GIVE]
    advice = " or ".join(dict.fromkeys(gives)) or "another value"
    return f"{name} is {_shown(value)}: give {advice}"


def _shown(value: object) -> str:
    """A value as JSON writes it."""
    if isinstance(value, str):
        return quoted(value)
    return shortened(json.dumps(value, ensure_ascii=False, default=str), _SHOWN)


def quoted(text: str) -> str:
    """The beginning of a text between quotation marks, on one line, as JSON writes it."""
    return f'"{shortened(json.dumps(text, ensure_ascii=False)[1:-1], _SHOWN)}"'


def shortened(text: str, most: int) -> str:
    """A text of at most ``most`` characters; one that was longer ends with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _suggestion(name: str, model: Model) -> str:
    """A field of that name beside or below the place, or else the nearest one there."""
    section, _, own = name.rpartition(".")
    fields = {"": list(model.model_fields)}
    for field, info in model.model_fields.items():
        for kind in (info.annotation, *get_args(info.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                fields[field] = list(kind.model_fields)
    for other, names in fields.items():
        if other != section and own in names:
            return f' (did you mean "{other}.{own}"?)' if other else f' (did you mean "{own}"?)'
    return nearest(own, fields.get(section, []), f"{section}." if section else "")
