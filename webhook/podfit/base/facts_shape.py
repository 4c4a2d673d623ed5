"""What the tables of a set must look like: the fields that podfit reads, and what their numbers may be.

`SCHEMA` of `facts_set` is the version of what is written here. A field that is not named is another podfit's, and
passed over; what a config.json says is checked where it is read, as for any model that a user gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, StringConstraints, ValidationError

Text = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""Text on one line, for people."""
Release = Annotated[str, StringConstraints(pattern=r"^\d{1,4}(\.\d{1,6}){1,3}(\.post\d{1,4})?$")]
Share = Annotated[float, Field(gt=0, le=1)]
GiB = Annotated[float, Field(gt=0)]
Span = Annotated[list[Any], Field(min_length=2)]
"""`[first, last, …]`: indices into `releases`, both included, and what is true in them."""
Spans = dict[str, list[Span]]


class Shape(BaseModel):
    """No value is converted; NaN and infinities are none."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Model(Shape):
    """A row of models.json."""

    config: dict[str, Any]
    parameters: PositiveInt | None = None
    weights_bytes: PositiveInt | None = None
    dtype_parameters: dict[str, PositiveInt] | None = None
    expert_bytes: NonNegativeInt | None = None
    replicated_bytes: NonNegativeInt | None = None
    base: Text | None = None
    confidence: Text
    source: NonNegativeInt
    trusted: bool
    doubts: Text | None = None
    gated: bool = False
    scheme_guessed: bool = False
    storage_unknown: bool = False
    kv_heads_unknown: bool = False
    sizes_unconfirmed: bool = False
    length_corrected: bool = False
    length_scaled: bool = False
    dtype_inherited: bool = False


class Models(Shape):
    """models.json."""

    models: dict[Text, Model]
    aliases: dict[Text, Text]
    last_parts: dict[Text, list[Text]]
    relatives: dict[Text, Annotated[list[Text | None], Field(min_length=3, max_length=3)]]
    sources: list[Text]


class Mig(Shape):
    """A MIG profile of a GPU."""

    profile: Text
    memory: PositiveInt
    memory_high: PositiveInt
    max: PositiveInt


class Product(Shape):
    """A product of gpus.json; memory in bytes."""

    name: Text
    vendor: Text
    architecture: Text | None = None
    compute_capability: Annotated[list[NonNegativeInt], Field(min_length=2, max_length=2)] | None = None
    memory: PositiveInt
    memory_likely: PositiveInt | None = None
    memory_high: PositiveInt
    memory_label_mib: PositiveInt | None = None
    marketing_gb: PositiveInt | None = None
    bf16: bool | None = None
    unified_memory: bool
    names: dict[Text, list[Text]]
    mig: list[Mig] = []
    partitions: dict[Text, PositiveInt] = {}
    confidence: Text
    source: Text


class Gpus(Shape):
    """gpus.json."""

    products: Annotated[list[Product], Field(min_length=1)]
    ambiguous: dict[Text, list[Text]]


class InstanceType(Shape):
    """A machine type of instances.json."""

    gpu: Text
    count: NonNegativeInt | None = None
    fraction: Share | None = None
    host_ram_gib: GiB | None = None
    allocatable_memory: Text | None = None
    gpu_memory_label_mib: PositiveInt | None = None
    provider: Text
    confidence: Text
    source: Text


class Instances(Shape):
    """instances.json."""

    instance_types: dict[Text, InstanceType]


class Image(Shape):
    """An image of releases.json."""

    image: Text
    release: Release
    source: Text


class Images(Shape):
    """releases.json."""

    read: Release
    images: list[Image]


class Definition(Shape):
    """A definition of an option in flags.json."""

    flags: list[Text] = []
    negative: list[Text] = []
    type: Text | None = None
    choices: list[Any] | None = None
    action: Text | None = None
    nargs: int | Text | None = None
    only: Text | None = None
    deprecated: bool = False


class Flags(Shape):
    """flags.json."""

    releases: Annotated[list[Release], Field(min_length=1)]
    underscores: NonNegativeInt
    definitions: list[Definition]
    options: Spans


class Config(Shape):
    """A JSON argument of settings.json."""

    strict: Spans
    fields: Spans


class Settings(Shape):
    """settings.json."""

    releases: Annotated[list[Release], Field(min_length=1)]
    names: dict[Text, Spans]
    configs: dict[Text, Config]
    bounds: Spans
    environment: Spans


class Architectures(Shape):
    """architectures.json."""

    releases: Annotated[list[Release], Field(min_length=1)]
    architectures: dict[Text, Annotated[list[Release | None], Field(min_length=2, max_length=2)]]
    removed: dict[Text, Annotated[list[Release], Field(min_length=2, max_length=2)]]
    model_types: dict[Text, Release | None]


class ModelDefaults(Shape):
    """model_defaults.json."""

    model_types: dict[Text, dict[str, Any]]


class Facts(Shape):
    """facts.json."""

    version: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}$")]
    generated: Annotated[str, StringConstraints(pattern=r"^20\d\d-(0[1-9]|1[0-2])$")]
    vllm: Release
    released: Annotated[str, StringConstraints(pattern=r"^20\d\d-(0[1-9]|1[0-2])-([012]\d|3[01])$")]


SHAPES: Mapping[str, type[Shape]] = {
    "architectures": Architectures,
    "facts": Facts,
    "flags": Flags,
    "gpus": Gpus,
    "instances": Instances,
    "model_defaults": ModelDefaults,
    "models": Models,
    "releases": Images,
    "settings": Settings,
}
"""Table → what it must look like."""


def problem(table: str, found: Mapping[str, Any]) -> str | None:
    """The first thing of a table that can't be used, `field: reason`; None if there is nothing."""
    try:
        read = SHAPES[table].model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        return f"{'.'.join(_named(found, first['loc']))}: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return next(_dangling(read), None)


def _named(found: Any, place: Sequence[int | str]) -> Iterator[str]:
    """The parts of a place, the entries of a list by their names."""
    for part in place:
        try:
            found = found[part]
        except (LookupError, TypeError):  # a field that is missing
            found = None
        name = found.get("name", found.get("image")) if isinstance(part, int) and isinstance(found, dict) else None
        yield str(part if name is None else name)


def _dangling(read: Shape) -> Iterator[str]:
    """What points to nothing in its own table."""
    if isinstance(read, Models):
        for name, row in read.models.items():
            if row.source >= len(read.sources):
                yield f"models.{name}.source: {row.source} of {len(read.sources)} sources"
        for alias, name in read.aliases.items():
            if name not in read.models:
                yield f"aliases.{alias}: no model has the id {name!r}"
        for part, names in read.last_parts.items():
            if not read.models.keys() >= {*names}:
                yield f"last_parts.{part}: no model has the id {min({*names} - read.models.keys())!r}"
        for name, (own, base, _) in read.relatives.items():
            if own is None or base is None:
                yield f"relatives.{name}: expected its id and its base"
    elif isinstance(read, Gpus):
        names_of = {product.name for product in read.products}
        if len(names_of) < len(read.products):
            yield "`products`: two entries have one name"
        for product in read.products:
            if not product.memory <= product.memory_high:
                low, high = product.memory, product.memory_high
                yield f"products.{product.name}.memory_high: {high}, less than memory {low}"  # style: quoted
    elif isinstance(read, Flags):
        if read.underscores >= len(read.releases):
            yield f"underscores: {read.underscores} of {len(read.releases)} releases"
        for dest, spans in read.options.items():
            if not all(
                _is_span(span, len(read.releases)) and _is_index(span[2:], len(read.definitions)) for span in spans
            ):
                yield f"options.{dest}: not spans of its releases and definitions"
    elif isinstance(read, Settings):
        groups: dict[str, Spans] = {f"names.{kind}": one for kind, one in read.names.items()}
        groups |= {f"configs.{dest}.strict": one.strict for dest, one in read.configs.items()}
        groups |= {f"configs.{dest}.fields": one.fields for dest, one in read.configs.items()}
        for group, named in {**groups, "bounds": read.bounds, "environment": read.environment}.items():
            for name, spans in named.items():
                if not all(_is_span(span, len(read.releases)) for span in spans):
                    yield f"{group}.{name}: not spans of its releases"


def _is_span(span: list[Any], releases: int) -> bool:
    first, last = span[:2]
    return type(first) is int and type(last) is int and 0 <= first <= last < releases


def _is_index(values: list[Any], count: int) -> bool:
    return len(values) == 1 and type(values[0]) is int and 0 <= values[0] < count
