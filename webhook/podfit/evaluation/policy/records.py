"""Parameters of rules as pydantic models: numbers, texts, and dataclasses of them, one alone or a list by GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, create_model, model_validator
from pydantic.alias_generators import to_camel

from podfit.evaluation.policy import words


class Strict(BaseModel):
    """No unknown field, no conversion: `"3"` is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=False)


class RecordShape(Strict):
    """Base of the shapes that are made of a rule's dataclasses."""

    record_type: ClassVar[Callable[..., Any]]

    def record(self) -> Any:
        """The dataclass; raises ValueError if it does not accept its values."""
        return self.record_type(**{name: plain(getattr(self, name)) for name in type(self).model_fields})

    @model_validator(mode="after")
    def _is_accepted(self) -> RecordShape:
        self.record()
        return self


def plain(value: Any) -> Any:
    """The value of a parameter as rules take it: dataclasses instead of shapes."""
    if isinstance(value, RecordShape):
        return value.record()
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


_FORMS: Mapping[str, Any] = {"gpu": words.GpuModel, "release": words.Version, "model": words.Models}
"""`Form` of a parameter → the type of its texts."""
SINGLE, LIST = "one value", "a list"
"""Tags of the two ways to write a limit by GPU."""


@cache
def _record_shape(record: type[Any]) -> type[RecordShape]:
    """The shape of a dataclass that is a parameter of a rule, or a part of one."""
    name, fields_ = record.__name__, shape_fields(record)
    shape = create_model(name, __base__=RecordShape, __doc__=record.__doc__, **fields_)
    shape.record_type = record
    return shape


def shape_fields(record: Any) -> dict[str, Any]:
    """Field of a dataclass → its type and pydantic's description of it."""
    hints = get_type_hints(record)
    shapes: dict[str, Any] = {}
    for field in fields(record):
        bounds = dict(field.metadata)
        form, _ = bounds.pop("form"), bounds.pop("example")
        default = ... if field.default is MISSING else _shape_default(field.default)
        hint = _limits_by_gpu(hints[field.name], bounds) or _shape_type(hints[field.name], form)
        shapes[field.name] = (hint, Field(default=default, **bounds))
    return shapes


def _shape_default(default: Any) -> Any:
    """A parameter's default as a shape has it: a shape instead of a dataclass, not validated again."""
    record: Any = type(default)
    if not _is_record(record):
        return default
    values = {field.name: getattr(default, field.name) for field in fields(default)}
    return _record_shape(record).model_construct(**values)


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


def _shape_type(hint: Any, form: str | None) -> Any:
    """The type of a field, with shapes for dataclasses, and with the type of its texts."""
    if _is_record(hint):
        return _record_shape(hint)
    if hint is str and form:
        return _FORMS[form]
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return reduce(or_, [_shape_type(item, form) for item in inner])
    return tuple[_shape_type(inner[0], form), ...] if origin is tuple else hint  # type: ignore[misc]


def _limits_by_gpu(hint: Any, bounds: dict[str, Any]) -> Any:
    """The type of a parameter that is a tuple of dataclasses: a policy may write one alone, or only its `value`, in
    place of a list. None for another type. `bounds`: those of the value."""
    inner = get_args(hint)
    if get_origin(hint) is not tuple or not _is_record(inner[0]):
        return None
    limit = _record_shape(inner[0])
    value = limit.model_fields.get("value")
    alone = limit if value is None else Annotated[value.annotation, Field(**_bounds(inner[0]))]

    def as_tuple(given: Any) -> Any:
        """One limit as a tuple of it."""
        if isinstance(given, tuple):
            return given
        return (given if value is None else limit.model_validate({"value": given}),)

    either = Annotated[
        Annotated[alone, Tag(SINGLE)] | Annotated[tuple[limit, ...], Field(min_length=1), Tag(LIST)],  # type: ignore[valid-type]
        Discriminator(lambda given: LIST if isinstance(given, list | tuple) else SINGLE),
    ]
    return Annotated[either, AfterValidator(as_tuple)]


def _bounds(record: Any) -> dict[str, Any]:
    """The bounds of a limit's `value`."""
    metadata = next(field.metadata for field in fields(record) if field.name == "value")
    return {word: bound for word, bound in metadata.items() if word in ("ge", "gt", "le", "lt")}
