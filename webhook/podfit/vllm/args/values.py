"""Conversion of one value by vLLM's `type=` functions (vLLM engine/arg_utils.py, utils/argparse_utils.py)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from podfit.base import numbers
from podfit.base.lazy import regex
from podfit.vllm.args.flags import Option
from podfit.vllm.release import Release


class InvalidValueError(Exception):
    """A value that vLLM rejects. The text is argparse's."""

    def __init__(self, message: str, complete: bool = False) -> None:
        super().__init__(message)
        self.complete = complete
        """False if argparse puts the prefix `argument --flag: ` before the text."""


class UnreadableValueError(InvalidValueError):
    """A value that is nested too deeply for podfit to read, and that vLLM may accept."""


DEEPEST = 50
"""Most levels of nested lists and objects in JSON that is read."""
TOO_DEEP = "it is nested too deeply to be read"
_HUMAN = regex(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
"""A number with a suffix: decimal if it is in lower case, binary if it is in upper case."""
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}
"""Suffix → power of 1,000 or of 1,024."""


def human_int(text: str) -> int:
    """ "8k" → 8000, "8K" → 8192, "25.6k" → 25600 (vLLM 0.33 utils/argparse_utils.py).

    Raises ValueError if it is not a number, InvalidValueError if vLLM has an error message of its own.
    """
    if text.isdecimal():  # the usual case
        return int(text)
    text = text.strip()
    match = _HUMAN.fullmatch(text)
    if match is None:
        return int(text)
    number, suffix = match.groups()
    power = _POWER[suffix.lower()]
    if suffix.islower():
        return int(float(number) * 10 ** (3 * power))
    if "." in number:
        raise InvalidValueError(
            f"Decimals are not allowed with binary suffixes like {suffix}. "
            f"Did you mean to use {number}{suffix.lower()} instead?"
        )
    return int(number) << 10 * power


def human_int_or_auto(text: str) -> int:
    """Like `human_int`; "auto" is -1, the longest context that fits."""
    return -1 if text.strip().lower() == "auto" else human_int(text)


def key_values(text: str) -> dict[str, int]:
    """ "image=4,video=1" → {"image": 4, "video": 1}: the form of `--limit-mm-per-prompt` before JSON (until 0.9.2).

    Raises InvalidValueError with vLLM's message if it is not of this form.
    """
    entries: dict[str, int] = {}
    for item in text.split(","):
        parts = [part.lower().strip() for part in item.split("=")]
        if len(parts) != 2:
            raise InvalidValueError("Each item should be in the form KEY=VALUE")
        key, value = parts
        try:
            count = int(value)
        except ValueError:
            raise InvalidValueError(f"Failed to parse value of item {key}={value}") from None
        if entries.setdefault(key, count) != count:
            raise InvalidValueError(f"Conflicting values specified for key: {key}")
    return entries


def from_json(text: str) -> Any:
    """`json.loads`; raises ValueError if the text is not JSON, UnreadableValueError if it is nested too deeply."""
    try:
        value = numbers.from_json(text)
    except RecursionError:
        raise UnreadableValueError(TOO_DEEP) from None
    if text.count("[") + text.count("{") > DEEPEST:  # only then it can be nested more deeply
        values = [value]  # of one level after another
        for _ in range(DEEPEST):
            values = [inner for outer in values for inner in _inner_values(outer)]
        if any(isinstance(item, dict | list) for item in values):
            raise UnreadableValueError(TOO_DEEP)
    return value


def _inner_values(value: Any) -> Iterable[Any]:
    """The values of an object or list; none of a scalar."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


_IN_BRACES = regex(r"\s*\{.*\}\s*", re.DOTALL)


def text_or_json(text: str) -> Any:
    """Parsed JSON if the text is in braces, else the text itself."""
    return from_json(text) if _IN_BRACES.fullmatch(text) else text


def json_object(text: str) -> Any:
    """The fields of one of vLLM's config classes; their names are not checked. Raises ValueError for other JSON."""
    value = from_json(text)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


_STRING = regex(r'("(?:[^"\\]|\\.)*")')
_HUMAN_IN_JSON = regex(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")


def human_json_object(text: str) -> Any:
    """Like `json_object`, with unquoted numbers such as 80m and 16K (vLLM 0.33 engine/arg_utils.py)."""
    parts = _STRING.split(text)  # strings are at odd indices, because the pattern has a group
    parts[::2] = [_HUMAN_IN_JSON.sub(_human_digits, part, _MOST_HUMAN) for part in parts[::2]]
    return json_object("".join(parts))


_MOST_HUMAN = 99
"""Such numbers that are read between two strings. A choice, far above any config of vLLM."""


def _human_digits(number: re.Match[str]) -> str:
    """The digits of a number such as 80m."""
    return str(human_int(number[0]))


def config_class(text: str) -> Any:
    """`from_cli` of 0.6.6–0.9.0: an object in JSON or as a Python literal; raises ValueError if it is neither."""
    try:
        return json_object(text)
    except ValueError:
        try:
            value = ast.literal_eval(text)
        except (MemoryError, RecursionError):
            raise UnreadableValueError(TOO_DEEP) from None
        except (SyntaxError, TypeError):
            raise ValueError("no literal") from None
        if not isinstance(value, dict):
            raise ValueError("not an object") from None
        return value


def level_or_config(text: str) -> Any:
    """A compilation config, or only its level (vLLM 0.6.6 … 0.9.1 config.py, `CompilationConfig.from_cli`).

    Later parsers rewrite a bare level after `-O` only, before argparse sees it."""
    return {"level": int(text)} if text in ("0", "1", "2", "3") else config_class(text)


def device_ids(text: str) -> list[int | str]:
    """ "0,1" → [0, 1]; names of MIG slices are kept as text."""
    return [int(item) if item.strip().isdecimal() else item.strip() for item in text.split(",")]


def backend_name(text: str) -> str:
    """vLLM names backends with underscores and accepts dashes (vLLM 0.33 engine/arg_utils.py)."""
    return text.lower().replace("-", "_")


def name_or_none(text: str) -> str:
    """ "none" in any case disables the parser (vLLM 0.33 engine/arg_utils.py, parse_reasoning_parser)."""
    return "" if text.lower() == "none" else text


Convert = Callable[[str], Any]
"""Returns the typed value of a text; raises ValueError or OverflowError if it has none."""


class _Conversion(NamedTuple):
    """The conversion of an option's text."""

    convert: Convert
    type_name: str
    """The type as vLLM's messages name it."""


_TYPES: dict[str, tuple[Convert, str]] = {
    "str": (str, "str"),
    "parse_reasoning_parser": (name_or_none, "str"),
    "int": (int, "int"),
    "float": (float, "float"),
    "bool": (bool, "bool"),
    "human_int": (human_int, "human_readable_int"),
    "human_int_or_auto": (human_int_or_auto, "human_readable_int_or_auto"),
    "json": (from_json, "loads"),
    "str_or_json": (text_or_json, "union_dict_and_str"),
    "kvs": (key_values, "nullable_kvs"),
    "PoolerConfig.from_json": (json_object, "from_json"),
    "KVTransferConfig.from_cli": (config_class, "from_cli"),
    "CompilationConfig.from_cli": (level_or_config, "from_cli"),
}
"""Type of an option in the table → its conversion, and the type's name in messages."""
_LAMBDAS: dict[str, Convert] = {
    "compilation_config": level_or_config,
    "kv_transfer_config": config_class,
    "kv_events_config": config_class,
    "override_neuron_config": from_json,
    "device_ids": device_ids,
}
"""dest → conversion of options whose `type=` is an unnamed function; for all others it is `backend_name`."""

_COMMA_LISTS_FROM, _COMMA_LISTS_UNTIL = Release(0, 8, 5), Release(0, 10)
"""The engine's JSON options also accept `key=value,key=value` from the first release until before the second."""
_ON_ONE_LINE = regex(r"\{.*\}\n?")
"""A text that vLLM reads as JSON there; text with another line break is `key=value` (vLLM 0.9.2 engine/arg_utils.py,
parse_type)."""
_OF_THE_SERVER = frozenset({"allowed_origins", "allowed_methods", "allowed_headers"})
"""Options of the API server: JSON only, in every release (vLLM 0.9.2 entrypoints/openai/cli_args.py)."""
_BARE_LEVEL_UNTIL = Release(0, 9, 2)
"""Before this release, `--compilation-config` accepts a bare level (`level_or_config`)."""
_HUMAN_JSON = Release(0, 17)
"""0.33 accepts `{"cpu_bytes_to_use": 80m}`. The first release that does is not known; this one is early enough that
podfit reports no value that vLLM may accept."""


class _Converter(NamedTuple):
    """The reading of an option's text."""

    conversion: _Conversion
    optional: bool
    """True if an empty text and "None" mean None."""


@lru_cache(4096)  # bounded by the options and releases of the table
def _converter(dest: str, name: str, release: Release) -> _Converter:
    """The converter of the option `dest` with the type `name`, which may be `optional[TYPE]`."""
    if name.startswith("optional["):
        inner = name.removeprefix("optional[").removesuffix("]")
        return _Converter(_conversion(dest, inner, release), optional=True)
    return _Converter(_conversion(dest, name, release), optional=False)


def _conversion(dest: str, name: str, release: Release) -> _Conversion:
    """The conversion for the type `name`, as argparse names it. A type that is not in the table is a text."""
    if name == "<lambda>":
        return _Conversion(_LAMBDAS.get(dest, backend_name), "<lambda>")
    if name.startswith("json["):
        is_level_or_config = dest == "compilation_config" and release < _BARE_LEVEL_UNTIL
        read_config = json_object if release < _HUMAN_JSON else human_json_object
        type_name = name.removeprefix("json[").removesuffix("]")
        return _Conversion(level_or_config if is_level_or_config else read_config, type_name)
    if name == "json" and dest not in _OF_THE_SERVER and _COMMA_LISTS_FROM <= release < _COMMA_LISTS_UNTIL:
        return _Conversion(_json_or_key_values, "loads")
    return _Conversion(*_TYPES.get(name, (str, name)))


def _json_or_key_values(text: str) -> Any:
    """JSON, or `key=value,key=value`."""
    return from_json(text) if _ON_ONE_LINE.fullmatch(text) else key_values(text)


def convert(option: Option, text: str, release: Release) -> Any:
    """The typed value, checked against the choices; raises InvalidValueError with the message of the release."""
    (function, type_name), optional = _converter(option.dest, option.type or "str", release)
    try:
        value = None if optional and text in ("", "None") else function(text)
    except (ValueError, OverflowError):
        if optional or (option.type or "").startswith("json"):  # vLLM's own functions catch the error
            raise InvalidValueError(f"Value {text} cannot be converted to {type_name}.") from None
        raise InvalidValueError(f"invalid {type_name} value: {text!r}") from None
    if type(value) is int:
        value = numbers.bounded(value)
    if option.choices is not None and value not in option.choices:
        choices = ", ".join(map(repr, option.choices))
        raise InvalidValueError(f"invalid choice: {value!r} (choose from {choices})")
    return value
