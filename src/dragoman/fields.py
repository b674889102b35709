"""What the settings are made of: their base class, and the kinds of numbers that their fields hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from dragoman.errors import ConfigError, Setting
from dragoman.explain import explain, joined

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)  # pydantic exports it under no public name


def _no_switch(value: Any) -> Any:
    """``true`` is no number here, though Python takes it for 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("number", "input should be a number")
    return value


Number = BeforeValidator(_no_switch)
Fraction = Annotated[float, Field(ge=0.0, lt=1.0), Number]
NotNegative = Annotated[float, Field(ge=0.0), Number]
AboveZero = Annotated[float, Field(gt=0.0), Number]
Ratio = Annotated[float, Field(ge=0.0, le=1000.0), Number]
Count = Annotated[int, Field(ge=0), Number]
Positive = Annotated[int, Field(ge=1), Number]
# In tokens of a translation: far beyond any text, and a search of so many still ends.
_LONGEST = 100_000
Length = Annotated[int, Field(ge=1, le=_LONGEST), Number]
Extent = Annotated[int, Field(ge=0, le=_LONGEST), Number]
Thousand = Annotated[int, Field(ge=1, le=1000), Number]
Seed = Annotated[int, Field(ge=0, lt=1 << 63), Number]


class _ConfigMeta(ModelMetaclass):
    """Turns pydantic's error into ours where a caller makes a configuration; nested ones are validated inside."""

    def __call__(cls, **values: Any) -> Any:  # noqa: N805 (a metaclass: its instances are classes)
        try:
            return super().__call__(**values)
        except ValidationError as error:
            problems = joined(parts for _, parts in explain(error, cast("type[BaseModel]", cls)))
            raise ConfigError(Setting("", f"{cls.__name__}: "), *problems) from None


class Config(BaseModel, metaclass=_ConfigMeta):
    """Frozen, strict about keys; a bad value raises :class:`ConfigError` from Python too."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    def changed(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked like a new one."""
        return type(self)(**{**{name: getattr(self, name) for name in self.model_fields_set}, **changes})
