"""Values that vLLM's config classes and registries accept, beyond the checks of its parser, by release
(`data/releases.json`).

Each check returns a `Refusal` (what vLLM rejects) or None. A release that is not in the table is checked against both
of its neighbors, and only what both reject is reported. Nothing is reported of a release older than the table; a newer
one counts as the newest, and nothing of it is certain. If the release is not known, all releases that have the setting
must reject the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, NamedTuple

from podfit.base.data import load
from podfit.vllm.release import Release, neighbours, parse

Span = Sequence[Any]
"""First and last release (indices, both included), and optionally the definition in these releases."""


class Refusal(NamedTuple):
    """A value that vLLM rejects, and the accepted ones."""

    place: str
    """The key in a JSON argument ("pass_config.enable_fusion"); "" for any other argument."""
    value: Any = None
    """None if the key itself is rejected."""
    allowed: tuple[Any, ...] = ()
    """The accepted values or keys, if they are a list."""
    bounds: str | None = None
    """The accepted values, if they are a range: "1 and more"."""
    first: Release | None = None
    """The first release of the table that accepts it, in the run of releases nearest to the given one; None: no
    release does."""
    last: Release | None = None
    """The last release of that run."""
    open: bool = False
    """A plugin may add accepted values."""


@cache
def releases() -> tuple[Release, ...]:
    """The releases whose sources were read, oldest first."""
    return tuple(release for release in map(parse, _table()["releases"]) if release is not None)


def _table() -> Any:
    """The table of accepted values by release, as JSON."""
    return load("releases")["settings"]


NAMED: Mapping[str, Callable[[str], str]] = {
    "quantization": str.lower,
    "load_format": str.lower,
    "config_format": str,
    "distributed_executor_backend": str,
    "kv_cache_dtype": str,
    "mamba_backend": str.upper,
}
"""Arguments that name an entry of a registry → how vLLM normalizes the name before the lookup (vLLM 0.33
config/model.py, load.py, mamba.py)."""


def unknown_name(kind: str, name: str, release: Release | None) -> Refusal | None:
    """The `Refusal` of a name that the release's registry does not have. `kind` is "tool_call_parser",
    "reasoning_parser", "kv_connector", "attention_backend", or an argument (`NAMED`)."""
    names: Mapping[str, Sequence[Span]] = _table()["names"][kind]
    was_read, spans = _registry_was_read(kind), names.get(name, ())

    def refused(number: int) -> Refusal | None:
        """The `Refusal` of the release with this number in the table; None if the release knows the name."""
        if not was_read[number] or _definition_in(spans, number) is not None:
            return None
        return Refusal("", name, _names_in(names, number), None, *_nearest_releases(spans, number))

    return _refused_by_all(release, refused, lambda number: was_read[number])


def _names_in(registry: Mapping[str, Sequence[Span]], number: int) -> tuple[str, ...]:
    """The names of a registry that the release with this number has, in sorted order."""
    return tuple(sorted(name for name, spans in registry.items() if _definition_in(spans, number) is not None))


@cache
def _registry_was_read(kind: str) -> tuple[bool, ...]:
    """Per release: whether its registry of that kind was read."""
    return _have_any(_table()["names"][kind])


def _have_any(spans_of: Mapping[str, Sequence[Span]]) -> tuple[bool, ...]:
    """Per release: whether it has any of the names."""
    return tuple(
        any(_definition_in(spans, number) is not None for spans in spans_of.values())
        for number in range(len(releases()))
    )


def out_of_bounds(dest: str, value: object, release: Release | None) -> Refusal | None:
    """The `Refusal` of a number that a config class gets unchanged and that is outside the bounds of its field."""
    newest: Refusal | None = None
    for bounds in _bounds(dest, release):  # as in `_refused_by_all`
        refusal = _out_of_bounds("", value, bounds)
        if refusal is None:
            return None
        newest = newest or refusal
    return newest


@lru_cache(1024)
def _bounds(dest: str, release: Release | None) -> tuple[Mapping[str, Any] | None, ...]:
    """The bounds of a numeric argument in each release that counts, the newest first."""
    spans = _table()["bounds"].get(dest, ())
    return tuple([_definition_in(spans, number) for number in _counting_releases(release, lambda number: True)])


@cache
def variables() -> frozenset[str]:
    """The environment variables that have choices in some release, or a number as their value."""
    return frozenset(_table()["environment"])


def is_variable(name: str, release: Release | None) -> bool | None:
    """True if vLLM's envs.py has the environment variable; None if that is unknown."""
    return _has(_table()["variables"].get(name, ()), release, _envs_was_read())


def is_key(dest: str, path: str, release: Release | None) -> bool | None:
    """True if the class that a JSON argument fills has the key; None if that is unknown."""
    spans = _table()["configs"].get(dest, {}).get("fields", {}).get(path, ())
    return _has(spans, release, _class_was_read(dest))


def _has(spans: Sequence[Span], release: Release | None, was_read: Sequence[bool]) -> bool | None:
    """True if the release has the name with these spans. None if no release has it, if the release was not read, or if
    the neighbors of a release that is not in the table differ."""
    if release is None or not spans:
        return None
    answers = set[bool | None]()
    for number in _table_numbers_around(release):
        answers.add(_definition_in(spans, number) is not None if was_read[number] else None)
    return answers.pop() if len(answers) == 1 else None


@cache
def _envs_was_read() -> tuple[bool, ...]:
    """Per release: whether its envs.py was read."""
    return _have_any(_table()["variables"])


@cache
def _class_was_read(dest: str) -> tuple[bool, ...]:
    """Per release: whether the class of a JSON argument was read."""
    return _have_any(_table()["configs"][dest]["fields"])


def bad_variable(name: str, value: str, release: Release | None) -> Refusal | None:
    """An environment variable whose value is not one of its choices (`env_with_choices`), or is not a number where
    vLLM's envs.py converts it to one."""
    spans: Sequence[Span] = _table()["environment"].get(name, ())
    return _refused_by_all(
        release, lambda number: _bad_number(value, _definition_in(spans, number)), lambda _: bool(spans)
    )


SWITCH = "0 or 1"
_NUMBERS: Mapping[str, str] = {"switch": SWITCH, "int": "a whole number", "float": "a number"}
"""Type of a variable's number in the table → the accepted values, for people."""


def _bad_number(value: str, definition: Mapping[str, Any] | None) -> Refusal | None:
    """A `Refusal` if the text is not a number of the expected type, or not one of the variable's choices."""
    if definition is None or "number" not in definition:
        return _out_of_bounds("", value, definition)
    convert = float if definition["number"] == "float" else int
    try:
        convert(value)
    except ValueError:
        return Refusal("", value, bounds=_NUMBERS[definition["number"]])
    return None


@cache
def argument_that_enables(dest: str) -> str | None:
    """The argument that must be set so that vLLM creates the class with `dest`'s bounds."""
    return next((span[2]["with"] for span in _table()["bounds"].get(dest, ()) if "with" in span[2]), None)


@cache
def bounded() -> frozenset[str]:
    """The arguments that have bounds in some release."""
    return frozenset(_table()["bounds"])


@cache
def config_arguments() -> frozenset[str]:
    """The arguments that fill a config class from JSON."""
    return frozenset(_table()["configs"])


@cache
def typed_keys(dest: str) -> frozenset[str]:
    """The keys of a JSON argument, nested ones too, whose values are a choice, a number or a boolean."""
    fields: Mapping[str, Sequence[Span]] = _table()["configs"].get(dest, {}).get("fields", {})
    typed = [path for path, spans in fields.items() if any(span[2:] and span[2] for span in spans)]
    return frozenset(path.rpartition(".")[2] for path in typed)


@cache
def choices() -> frozenset[str]:
    """The names in vLLM's registries and the choices of its JSON arguments and variables."""
    names = [name for registry in _table()["names"].values() for name in registry]
    spans_of_keys = [spans for config in _table()["configs"].values() for spans in config["fields"].values()]
    definitions = [span[2] for spans in spans_of_keys for span in spans if span[2:]]
    return frozenset([*names, *(str(choice) for known in definitions for choice in known.get("choices", ()))])


def unknown_keys(dest: str, value: Mapping[str, Any], release: Release | None) -> Iterator[Refusal]:
    """The keys of a JSON argument that its class does not have, if the class rejects unknown keys."""
    config_keys = _table()["configs"].get(dest)
    for above, path, _ in _walk_keys(value) if config_keys else ():
        numbers = _strict(dest, above, release) if above in config_keys["strict"] else ()
        spans = config_keys["fields"].get(path, ())
        if numbers and all(_definition_in(spans, number) is None for number in numbers):
            yield Refusal(path, None, _known_keys(dest, above, numbers[0]), None, *_nearest_releases(spans, numbers[0]))


@lru_cache(1024)
def _strict(dest: str, above: str, release: Release | None) -> tuple[int, ...]:
    """The releases that count, the newest first, if each of them rejects unknown keys."""
    spans: Sequence[Span] = _table()["configs"][dest]["strict"][above]
    numbers = _counting_releases(release, lambda number: _definition_in(spans, number) is not None)
    return numbers if all(_definition_in(spans, number) is not None for number in numbers) else ()


@lru_cache(1024)
def _known_keys(dest: str, above: str, number: int) -> tuple[str, ...]:
    """The keys that the class of one release has."""
    fields, prefix = _table()["configs"][dest]["fields"], f"{above}." if above else ""
    names = (field for field in fields if field.startswith(prefix) and "." not in field.removeprefix(prefix))
    return tuple(text.removeprefix(prefix) for text in names if _definition_in(fields[text], number) is not None)


def bad_values(dest: str, value: Mapping[str, Any], release: Release | None) -> Iterator[Refusal]:
    """The values of a JSON argument that its class rejects: not one of the choices, or out of bounds."""
    config_keys = _table()["configs"].get(dest)
    for _, path, given in _walk_keys(value) if config_keys else ():
        refusal = _bad_value(config_keys["fields"].get(path, ()), path, given, release)
        if refusal is not None:
            yield refusal


def _bad_value(spans: Sequence[Span], path: str, given: object, release: Release | None) -> Refusal | None:
    """A `Refusal` if all releases that count reject the key's value."""
    return _refused_by_all(
        release,
        lambda number: _bad_choice(path, given, _definition_in(spans, number), number),
        lambda number: _definition_in(spans, number) is not None,
    )


def _bad_choice(path: str, given: object, known: Mapping[str, Any] | None, number: int) -> Refusal | None:
    """A `Refusal` if the release with this number rejects the value: not one of the key's names, or out of its
    bounds."""
    registry = known.get("names") if known else None
    if registry is None or known is None or not isinstance(given, str):
        return _out_of_bounds(path, given, known)
    names: Mapping[str, Sequence[Span]] = _table()["names"][registry]
    spans = names.get(given.upper(), ())
    if given.lower() in known["choices"] or _definition_in(spans, number) is not None:
        return None
    return Refusal(path, given, _names_in(names, number), None, *_nearest_releases(spans, number), open=True)


_DEEPEST = 3
"""Dots in the path of a key whose own keys are read; no config class in the table is nested more deeply."""


def _walk_keys(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str, Any]]:
    """(parent path, own path, value) of each key, nested ones too; `above`: the path of `value`. `-` counts as `_`."""
    for written, given in value.items():
        path = f"{above}.{written}".lstrip(".").replace("-", "_")
        yield above, path, given
        if isinstance(given, Mapping) and path.count(".") < _DEEPEST:
            yield from _walk_keys({key: item for key, item in given.items() if item is not None}, path)


def _definition_in(spans: Sequence[Span], release_number: int) -> Mapping[str, Any] | None:
    """The definition of a setting in the release with this index in the table.

    {} if the release has the setting but its definition was not read. None if the release does not have the setting.
    """
    for first, last, *definition in spans:
        if first <= release_number <= last:
            return definition[0] if definition else {}
    return None


def _nearest_releases(spans: Sequence[Span], number: int) -> tuple[Release | None, Release | None]:
    """(first, last) of the releases before `number` that have it, else of the nearest run after it; else None twice."""
    before = [(first, last) for first, last, *_ in spans if last < number]
    after = [(first, last) for first, last, *_ in spans if first > number]
    if before:
        _, newest = max(before)
        oldest, _ = min(before)
        return releases()[oldest], releases()[newest]
    if after:
        first, last = min(after)
        return releases()[first], releases()[last]
    return None, None


def _out_of_bounds(place: str, value: object, definition: Mapping[str, Any] | None) -> Refusal | None:
    """A `Refusal` if the value is not one of the choices, has another type, or is out of bounds by the definition."""
    if not definition or value is None:
        return None
    if "choices" in definition:
        fold = definition.get("fold")
        accepted = {_normalized(item, fold) for item in definition["choices"]}
        is_comparable = isinstance(value, str | int) and not isinstance(value, bool)
        if not is_comparable or not accepted or _normalized(value, fold) in accepted:
            return None
        names = [item for item in definition["choices"] if fold is None or isinstance(item, str)]
        return Refusal(place, value, tuple(names))
    if (kind := definition.get("type")) is not None and not _pydantic_accepts(value, kind):
        return Refusal(place, value, bounds=_KINDS[kind])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    least, above, most, below = definition.get("ge"), definition.get("gt"), definition.get("le"), definition.get("lt")
    is_too_low = (least is not None and not value >= least) or (above is not None and not value > above)
    is_too_high = (most is not None and not value <= most) or (below is not None and not value < below)
    if not is_too_low and not is_too_high:
        return None
    low = {"{} and more": least} if least is not None else {"more than {}": above}
    high = {"at most {}": most} if most is not None else {"less than {}": below}
    bounds = [text.format(bound) for text, bound in {**low, **high}.items() if bound is not None]
    return Refusal(place, value, bounds=", ".join(bounds))


_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}
_TRUTH = frozenset(("0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"))
"""Texts that pydantic reads as a boolean, in any case."""


def _pydantic_accepts(value: object, kind: str) -> bool:
    """True if pydantic converts the value to that type: it reads texts as numbers, and 2.0 as a whole number.

    A text with `$` counts as valid: it may be expanded before vLLM sees it.
    """
    if isinstance(value, str) and "$" in value:
        return True
    if kind == "bool":
        return value.lower() in _TRUTH if isinstance(value, str) else value in (0, 1)
    if isinstance(value, str):
        with suppress(ValueError):
            float(value.replace("_", ""))
            return True
        return False
    return isinstance(value, int) or (isinstance(value, float) and (kind == "float" or value.is_integer()))


def _normalized(value: object, fold: str | None) -> object:
    """A text as vLLM compares it: in lower case, and with `_` instead of `-` if `fold` is "dash"."""
    if fold is None or not isinstance(value, str):
        return value
    return value.lower().replace("-", "_") if fold == "dash" else value.lower()


@lru_cache(256)
def _table_numbers_around(release: Release) -> tuple[int, ...]:
    """The release, or its two neighbors in the table, the newer one first. The newest, if the release is newer than
    the table; empty if it is older."""
    table = releases()
    lower, upper = neighbours(release, table)
    if lower is None:
        return ()
    if upper is None or upper == lower:
        return (table.index(lower),)
    return (table.index(upper), table.index(lower))


def _refused_by_all(
    release: Release | None, refused: Callable[[int], Refusal | None], accepts: Callable[[int], bool]
) -> Refusal | None:
    """The newest release's `Refusal`, if every release that counts rejects the value; else None. `refused`: the one of
    the release with a number. `accepts`: as in `_counting_releases`."""
    newest: Refusal | None = None
    for number in _counting_releases(release, accepts):  # newest first: usually it accepts the value
        refusal = refused(number)
        if refusal is None:
            return None
        newest = newest or refusal
    return newest


def _counting_releases(release: Release | None, accepts: Callable[[int], bool]) -> tuple[int, ...]:
    """The numbers of the releases that count, newest first: those around `release`, else all that `accepts`."""
    return _table_numbers_around(release) if release else tuple(filter(accepts, reversed(range(len(releases())))))
