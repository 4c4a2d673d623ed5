"""What is new, gone or changed in a vLLM release, and what of it a person must read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podfit.vllm.args.taught import options_difference
from scripts.facts import memory_path
from scripts.facts.table import ROOT, Extract, compact

TABLES = {
    "bounds": "bounds of arguments",
    "environment": "variables with choices or a number",
    "minimum_capability": "quantization methods: least compute capability",
    "defaults_by_device": "defaults by device",
    "constants": "constants of the KV cache",
}
LISTS = {
    "architectures": "architectures",
    "previously_supported": "architectures that are no longer served",
    "model_types": "model types that Transformers knows",
    "metrics": "metrics",
    "variables": "environment variables",
}
IN_CODE = {
    "minimum_capability": "webhook/podfit/vllm/gpu/kernels.py",
    "defaults_by_device": "webhook/podfit/vllm/memory/settings.py",
    "constants": "webhook/podfit/vllm/memory/",
    "metrics": "tests/monitoring/vllm_metrics.json",
}
"""Parts of an extract that podfit has in code too, which a person must change there."""


def review(old: Extract, new: Extract, changed: Mapping[str, str], stand_ins: list[str]) -> str:
    """The text; `changed`: the functions of the memory path that differ, with their diffs."""
    gone, fresh = options_difference(new["options"], old["options"])
    lines = [f"# vLLM {new['release']}, compared with {old['release']}", "", "## Options", ""]
    lines += [f"- gone: `{dest}`{_uses(dest)}" for dest in gone]
    lines += [f"- new: `{dest}`: `{compact(row)}`" for dest, row in fresh.items() if dest not in old["options"]]
    lines += _changes(old["options"], fresh)
    for kind in sorted({*old["names"], *new["names"]}):
        lines += _list(f"names: {kind}", old["names"].get(kind, ()), new["names"].get(kind, ()))
    lines += _table("fields of config classes", _fields(old), _fields(new))
    for key, title in TABLES.items():
        lines += _table(title, old.get(key), new.get(key))
    for key, title in LISTS.items():
        lines += _list(title, old.get(key), new.get(key))
    lines += ["", "## To be read by a person", ""]
    lines += [f"- [ ] {line}" for line in _to_read(old, new, fresh, stand_ins)]
    cited = {name: memory_path.is_cited(name) for name in changed}
    for name in sorted(changed, key=lambda name: not cited[name]):
        lines.append(f"- [ ] `{name}` changed" + (", which webhook/podfit/vllm/memory cites" if cited[name] else ""))
    lines += ["", "Everything else above is in the tables as it is: `make facts`, `make docs`, `make test`."]
    return "\n".join(lines) + "\n"


def _changes(old: Mapping[str, Any], fresh: Mapping[str, Any]) -> list[str]:
    """A line for each change, with all options that have it."""
    alike: dict[str, list[str]] = {}
    for dest, row in fresh.items():
        before = old.get(dest, row)
        for key in sorted(key for key in {**before, **row} if before.get(key) != row.get(key)):
            values = (before.get(key), row.get(key))
            if all(isinstance(value, list) for value in values):
                new, gone = ([one for one in a if one not in b] for a, b in (values[::-1], values))
                said = f"{key}: new `{compact(new)}`, gone `{compact(gone)}`"
            else:
                said = f"{key}: `{compact(values[0])}` → `{compact(values[1])}`"
            alike.setdefault(said, []).append(f"`{dest}`{_uses(dest)}")
    return [
        f"- changed: {said}: " + (", ".join(dests) if len(dests) < 9 else f"{len(dests)} options such as {dests[0]}")
        for said, dests in alike.items()
    ]


def _to_read(old: Extract, new: Extract, fresh: Mapping[str, Any], stand_ins: list[str]) -> Iterator[str]:
    """What podfit does not understand by itself, apart from the memory path."""
    types = {str(row.get("type")) for row in old["options"].values()}
    actions = {row.get("action") for row in old["options"].values()}
    for dest, row in fresh.items():
        kind = str(row.get("type"))
        if dest not in old["options"] and kind == "<lambda>":
            yield f"`{dest}`: its type is a function without a name: webhook/podfit/vllm/args/values.py"
        elif kind not in types and "json[" not in kind:
            yield f"`{dest}`: no option before has the type `{kind}`: webhook/podfit/vllm/args/values.py"
        if row.get("action") not in actions:
            yield f"`{dest}`: no option before has the action `{row['action']}`: webhook/podfit/vllm/args/grammar.py"
    if old["underscores"] != new["underscores"]:
        yield "`--some_flag` for `--some-flag`: webhook/podfit/vllm/args/grammar.py"
    for key, place in IN_CODE.items():
        if old.get(key) != new.get(key):
            yield f"{(TABLES | LISTS)[key]} differ: {place}"
    methods = (set(one["names"].get("quantization", ())) for one in (new, old))
    for method in sorted(set.difference(*methods)):
        files = "webhook/podfit/vllm/model/schemes.py, webhook/podfit/vllm/memory/quantisation.py"
        yield f"quantization method `{method}`: {files}"
    for line in stand_ins:
        yield f"the parser was built with a {line}"


def _fields(extract: Extract) -> dict[str, Any]:
    return {
        f"{dest}.{path}": known
        for dest, config in extract["configs"].items()
        for path, known in config["fields"].items()
    } | {
        f"{dest}.{path}: others are refused": True for dest, one in extract["configs"].items() for path in one["strict"]
    }


def _list(title: str, old: Any, new: Any) -> list[str]:
    """The names that are new or gone."""
    if old is None or new is None:
        return ["", f"## {title}", "", "- not read in both releases"]
    fresh, gone = sorted({*new} - {*old}), sorted({*old} - {*new})
    lines = [
        f"- {word}: {', '.join(f'`{one}`' for one in names)}"
        for word, names in (("new", fresh), ("gone", gone))
        if names
    ]
    return ["", f"## {title}", "", *lines] if lines else []


def _table(title: str, old: Any, new: Any) -> list[str]:
    """The entries that are new, gone or changed."""
    if old is None or new is None:
        return ["", f"## {title}", "", "- not read in both releases"]
    lines = [f"- new: `{key}` {_said(new[key])}".rstrip() for key in new if key not in old]
    lines += [f"- gone: `{key}`" for key in old if key not in new]
    lines += [
        f"- changed: `{key}` {_said(old[key])} → {_said(new[key])}"
        for key in new
        if key in old and old[key] != new[key]
    ]
    return ["", f"## {title}", "", *lines] if lines else []


def _said(value: Any) -> str:
    return "" if value in ({}, True) else f"`{compact(value)}`"


def _uses(dest: str) -> str:
    """Where podfit's own code names an option."""
    places = [
        path.relative_to(ROOT).as_posix()
        for path in sorted(Path(ROOT / "webhook" / "podfit").rglob("*.py"))
        if f'"{dest}"' in (text := path.read_text(encoding="utf-8")) or f"args.{dest}" in text
    ]
    return f" (named in {', '.join(places)})" if places else ""
