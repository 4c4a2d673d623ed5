"""Writes the options of the vLLM that is installed here as JSON: `podfit releases script` prints this file.

It runs inside an image of vLLM, so it imports nothing but the standard library and vLLM itself, and speaks the oldest
Python that vLLM runs on. `podfit releases add` reads what it writes.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import importlib
import json
import sys
from typing import Any

NAMES = {
    "loads": "json",
    "union_dict_and_str": "str_or_json",
    "human_readable_int": "human_int",
    "human_readable_int_or_auto": "human_int_or_auto",
    "nullable_kvs": "kvs",
}
"""vLLM's own functions for `type=` → what podfit calls them."""


def type_of(function: Any) -> Any:
    """How podfit calls a `type=`; vLLM wraps some in others (engine/arg_utils.py parse_type, optional_type)."""
    if function is None:
        return None
    name = getattr(function, "__name__", type(function).__name__)
    if name in ("_parse_type", "_optional_type"):
        inner = type_of(next(cell.cell_contents for cell in function.__closure__ if callable(cell.cell_contents)))
        return inner if name == "_parse_type" else f"optional[{inner}]"
    if name == "parse_dataclass":
        return f"json[{function.__defaults__[0].__name__}]"
    return NAMES.get(name, name)


def plain(value: Any) -> Any:
    """The value for JSON, None if JSON can't represent it."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return None


def option_rows(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """One row per option of an argparse parser, as `podfit releases add` reads it: its flags, dest, type, default."""
    items = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        # 0.33 hides some from the action, which the parser still takes (argparse_utils.py _register_action)
        spellings = [text for text, owner in parser._option_string_actions.items() if owner is action]
        negatable = action.nargs == 0 and any(spelling.startswith("--no-") for spelling in spellings)
        verb = {"--enable-": "--disable-", "--disable-": "--enable-"}
        other = next((new for old, new in verb.items() if spellings[:1] and spellings[0].startswith(old)), "--no-")
        negative = [spelling for spelling in spellings if spelling.startswith(("--no-", other))] if negatable else []
        items.append(
            {
                "flags": [spelling for spelling in spellings if spelling not in negative],
                "negative_flags": negative,
                "dest": action.dest,
                "nargs": action.nargs,
                "const": None
                if type(action).__name__ in ("_StoreTrueAction", "_StoreFalseAction")
                else plain(action.const),
                "type": type_of(action.type),
                "choices": None if action.choices is None else plain(list(action.choices)),
                "default": plain(action.default),
                "action": type(action).__name__,
                "deprecated": bool(getattr(action, "deprecated", False)),
                "entrypoints": ["serve", "module"],
            }
        )
    return items


def first_module(*names: str) -> Any:
    """The first of these modules that the release has; raises ImportError if it has none."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(error.name or "?"):
                raise
    return importlib.import_module(names[-1])


def main() -> None:
    """The parser of `vllm serve`, on standard output; what vLLM logs while it is imported goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        utils = first_module("vllm.utils.argparse_utils", "vllm.utils")  # the second before 0.11.1
        arguments = first_module(
            "vllm.entrypoints.common.cli_args",  # since 0.33
            "vllm.entrypoints.launchers.cli_args",  # since 0.29
            "vllm.entrypoints.openai.cli_args",
        )
        value = arguments.make_arg_parser(utils.FlexibleArgumentParser())
        version = importlib.import_module("vllm").__version__
    json.dump({"version": version, "options": option_rows(value)}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
