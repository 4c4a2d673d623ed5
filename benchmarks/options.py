"""Every option of every release, read at least once: `python -m benchmarks.options [SOURCE_DIR]`.

SOURCE_DIR is what `scripts/build_flags.py` reads: one `<release>.json` per release, its parser's options. Each
spelling of an option gets a value that its recorded type accepts. podfit must read it as that type does,
which is written down here a second time. Without SOURCE_DIR the packaged table replaces the record, which
proves less: that nothing in it is unreadable.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podfit.kube.path import FieldPath
from podfit.vllm import args, release
from podfit.vllm.args.flags import builtin
from podfit.vllm.command import Command, Word
from podfit.vllm.release import Release

PLACE = FieldPath(("args",))
JSON = '{"a": 1}'
SAMPLES: Mapping[str, tuple[tuple[str, Any], ...]] = {
    "str": (("abc", "abc"),),
    "parse_reasoning_parser": (("abc", "abc"),),
    "int": (("3", 3), ("-1", -1)),
    "float": (("0.5", 0.5), ("2", 2.0)),
    "bool": (("x", True),),
    "human_int": (("8k", 8000), ("8K", 8192), ("25.6k", 25600), ("7", 7)),
    "human_int_or_auto": (("auto", -1), ("2M", 2 << 20)),
    "json": ((JSON, {"a": 1}),),
    "str_or_json": ((JSON, {"a": 1}), ("abc", "abc")),
    "kvs": (("image=2", {"image": 2}),),
    "PoolerConfig.from_json": ((JSON, {"a": 1}),),
    "KVTransferConfig.from_cli": ((JSON, {"a": 1}),),
    "CompilationConfig.from_cli": ((JSON, {"a": 1}), ("3", {"level": 3})),
}
OF_DEST: Mapping[str, tuple[tuple[str, Any], ...]] = {
    "device_ids": (("0,1", [0, 1]),),
    "compilation_config": ((JSON, {"a": 1}),),
    "kv_transfer_config": ((JSON, {"a": 1}),),
    "kv_events_config": ((JSON, {"a": 1}),),
    "override_neuron_config": ((JSON, {"a": 1}),),
    "reasoning_effort_map": (('{"a": "b"}', {"a": "b"}),),
    "lora_modules": (("a=b", {"name": "a", "path": "b"}),),
    "prompt_adapters": (("a=b", {"name": "a", "path": "b"}),),
}
"""Options whose `type=` has no name, whose action makes objects, or whose values are looked at."""
_CHECKED = ("reasoning_effort_map",)


def samples(option: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Texts that the option takes, and what each of them is."""
    kind = str(option["type"] or "str")
    if kind.startswith("optional["):
        kind = kind.removeprefix("optional[").removesuffix("]")
        if not option["choices"] and option["dest"] not in OF_DEST:
            yield "None", None
    if option["choices"]:
        # "None" among the choices can't be chosen: `optional[…]` makes None of it, and that is none of them.
        yield from ((str(choice), choice) for choice in option["choices"] if choice not in (None, "None"))
    elif option["dest"] in OF_DEST and (
        kind == "<lambda>" or option["action"] != "_StoreAction" or option["dest"] in _CHECKED
    ):
        yield from OF_DEST[option["dest"]]
    elif kind == "<lambda>":
        yield "some-name", "some_name"
    else:
        yield from SAMPLES["json" if kind.startswith("json[") else kind]


def lines(option: Mapping[str, Any]) -> Iterator[tuple[list[str], Any]]:
    """Command lines with the option in them, and the value it has then."""
    if not option["flags"]:
        if option["nargs"] in (None, "?"):
            yield ["org/model"], "org/model"
        return
    for flag in option["flags"]:
        if option["nargs"] == 0:
            yield [flag], option["const"] if option["action"] == "_StoreConstAction" else True
            continue
        if option["nargs"] == "?":
            yield [flag], True if option["action"] == "StoreBoolean" else option["const"]
        if option["action"] == "StoreBoolean":
            yield from (([flag, text], text == "true") for text in ("true", "false"))
            continue
        for text, value in samples(option):
            several = option["nargs"] == "+"
            if option["action"] == "_AppendAction":
                yield [flag, text], [*(option["default"] or ()), value]
                continue
            if flag != "-O":  # whose glued value is a level (FlexibleArgumentParser.parse_args)
                yield [f"{flag}={text}"], [value] if several else value
            if several and value is not None:
                yield [flag, text, text], [value, value]
            elif not text.startswith("-") or text == "-1":
                yield [flag, text], [value] if several else value
    for flag in option["negative_flags"]:
        yield [flag], False


def read(line: list[str], entry: str, one: Release) -> args.EngineArgs:
    """What this release makes of the line."""
    before = ["m"] if entry == "serve" and line != ["org/model"] else []
    words = tuple(Word(text, PLACE / n) for n, text in enumerate([*before, *line]))
    return args.parse(Command(entry, words, PLACE), one)


def recorded(source: Path | None) -> Iterator[tuple[Release, list[dict[str, Any]]]]:
    """The options of each release."""
    for one in builtin().releases:
        if source is not None:
            yield one, json.loads((source / f"{one}.json").read_text())["options"]
            continue
        empty: dict[str, Any] = {
            "flags": [],
            "negative": [],
            "nargs": None,
            "const": None,
            "type": None,
            "choices": None,
        }
        yield one, [
            {
                **empty, "default": None, "action": "_StoreAction", **row, "dest": dest,
                "negative_flags": list(row.get("negative", ())),
                "entrypoints": [row["only"]] if "only" in row else ["serve", "module"],
            }
            for dest, row in builtin().rows(one).items()
        ]  # fmt: skip


def main() -> int:
    """Prints a line a release; 1 where anything is read wrong."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    wrong: list[str] = []
    everything = 0
    print("release       options  spellings  lines read  wrong")
    for one, options in recorded(source):
        count = bad = spellings = 0
        for option in options:
            spellings += len(option["flags"]) + len(option["negative_flags"]) or 1
            entries = {entry.partition("(")[0] for entry in option["entrypoints"]}
            for line, wanted in lines(option):
                for entry in sorted(entries & {"serve", "module"}):
                    if entry == "serve" and line[0].startswith("--model"):
                        continue  # the positional wins
                    found = read(line, entry, one)
                    dest = "model" if option["dest"] == "model_tag" else option["dest"]
                    refused = [flag.flag for flag in found.unknown] + [error.message for error in found.errors]
                    accepted = _needs_more(line, entry, one) or not refused
                    count += 1
                    if not accepted or (not refused and found.given.get(dest) != wanted):
                        bad += 1
                        wrong.append(
                            f"{one} {entry} {' '.join(line)}: {refused or found.given.get(dest)!r}, not {wanted!r}"
                        )
        everything += count
        print(f"{one!s:12} {len(options):8} {spellings:10} {count:11} {bad:6}")
    print("\n".join(wrong[:40]))
    print(f"{everything} lines in {len(builtin().releases)} releases, {len(wrong)} read wrong")
    return int(bool(wrong))


def _needs_more(line: list[str], entry: str, one: Release) -> bool:
    """Rejected for what the line lacks: a flag that this one needs, or the model in its place."""
    text = line[0]
    if one >= release.Release(0, 11, 1) and text in (
        "--enable-auto-tool-choice", "--enable-log-outputs", "--data-parallel-multi-port-external-lb", "-dpm",
    ):  # fmt: skip
        return True
    return text.partition("=")[0] in ("--help", "-h", "--config")


if __name__ == "__main__":
    sys.exit(main())
