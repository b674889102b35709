"""pydantic's validation errors in our words: the key, the value, what is wrong, and the key that was probably meant.

A sentence comes in parts, as the arguments of a :class:`~dragoman.errors.DragomanError`: keys are a ``Setting`` each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError

from dragoman.errors import Setting, nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Place = tuple[str, ...]
Parts = tuple[str | Setting, ...]
Model = type[BaseModel]


def explain(error: ValidationError, model: Model) -> list[tuple[Place, Parts]]:
    """The problems in ``error`` as ``(key path, sentence without its end)``, in pydantic's order.

    A value that fits no member of a union is one problem, not one a member.
    """
    problems: dict[Place, Parts] = {}
    for item in error.errors():
        place, beside = _locate(model, item["loc"])
        dotted = ".".join(place)
        if item["type"] == "extra_forbidden":
            problems[place] = (f'unknown key "{dotted}"{_suggestion(model, place, beside)}',)
        elif item["type"] == "missing":
            problems[place] = (f'"{dotted}" is missing',)
        elif item["type"] == "value_error":
            problems[place] = _contradiction(item["ctx"]["error"], dotted)
        elif place in problems:
            problems[place] += (f", or {_message(item, model, place)}",)
        else:
            value = repr(item["input"])
            value = value if len(value) <= 60 else value[:57] + "..."
            problems[place] = (Setting(dotted, f'"{dotted}"'), f" is {value}: {_message(item, model, place)}")
    return list(problems.items())


def joined(problems: Iterable[Parts]) -> Parts:
    """Several problems as one sentence."""
    parts = [part for problem in problems for part in ("; ", *problem)]
    return (*parts[1:], ".")


def _contradiction(error: ValueError, section: str) -> Parts:
    """What the settings of a section (empty: of the model itself) say of each other; keys have its name before them."""
    parts: Parts = error.args
    if not section:
        return parts
    if not any(isinstance(part, Setting) for part in parts):
        return (f'"{section}": ', *parts)
    return tuple(Setting(f"{section}.{part.name}") if isinstance(part, Setting) else part for part in parts)


def _message(item: ErrorDetails, model: Model, place: Place) -> str:
    if item["type"] == "union_tag_invalid":
        kinds = _fitting(model, place)
        needs = [
            " and ".join(name for name, field in kind.model_fields.items() if field.is_required()) for kind in kinds
        ]
        return f"it should have the keys {', or '.join(needs)}"
    return item["msg"][:1].lower() + item["msg"][1:]


def _models(annotation: Any) -> list[Model]:
    """Every configuration that a field with this annotation can hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]


def _sections(model: Model, key: str) -> list[Model]:
    """The configurations that can stand under ``key``."""
    field = model.model_fields.get(key)
    return [] if field is None else _models(field.annotation)


def _fitting(model: Model, place: Place) -> list[Model]:
    """The configurations that can stand at ``place``."""
    kinds = [model]
    for part in place:
        kinds = [found for kind in kinds for found in _sections(kind, part)]
    return kinds


def _locate(model: Model, loc: tuple[str | int, ...]) -> tuple[Place, list[Model]]:
    """A pydantic location without its labels of union members, and the models that its last part may stand in."""
    place: list[str] = []
    beside, kinds = [model], [model]
    for part in loc:
        labelled = [kind for kind in kinds if kind.__name__ == part] if len(kinds) > 1 else []
        if labelled:
            kinds = labelled
        elif kinds or isinstance(part, int):
            place.append(str(part))
            beside, kinds = kinds, [found for kind in kinds for found in _sections(kind, str(part))]
    return tuple(place), beside


def _dotted_keys(model: Model, start: Place = ()) -> list[Place]:
    keys = []
    for name in model.model_fields:
        sections = _sections(model, name)
        keys.append((*start, name))
        if len(sections) == 1:
            keys += _dotted_keys(sections[0], (*start, name))
    return keys


def _suggestion(model: Model, place: Place, beside: list[Model]) -> str:
    """The key of that name in another section, or else the nearest one in the same section."""
    elsewhere = [f'"{".".join(key)}"' for key in _dotted_keys(model) if key[-1] == place[-1]]
    if elsewhere:
        return f" (did you mean {' or '.join(elsewhere)}?)"
    known = list(dict.fromkeys(name for kind in beside for name in kind.model_fields))
    return nearest(place[-1], known, "".join(f"{part}." for part in place[:-1]))
