"""`architectures` in webhook/podfit/data/releases.json: which releases of vLLM know a model's architecture.

    "releases": those that were read
    "architectures": {architecture: [the last release read that does not know it, or null; the first that does]}
    "removed": {architecture: [the last release read that serves it, the next that was read]}, of those of which the
        newest says that vLLM served them once (the last release is less exact: 0.24.0 still has Baichuan)
    "model_types": {model_type: the last release read whose Transformers can't know it, or null}

Transformers serves what vLLM does not name (from 0.7), if it knows the model_type. No image has a Transformers newer
than itself. So a type that is not in the first version some days after a release's date is unknown to its
image.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podfit.vllm.release import Release
from scripts.facts.table import Extract

PREVIOUSLY = "_PREVIOUSLY_SUPPORTED_MODELS"
"""The registry's table of what vLLM served once."""
UNSERVED = ("_SPECULATIVE_DECODING_MODELS", PREVIOUSLY, "_OOT_SUPPORTED_MODELS", "_OOT_MODELS",
            "_ROCM_UNSUPPORTED_MODELS", "_ROCM_PARTIALLY_SUPPORTED_MODELS")  # fmt: skip
"""Tables of the registry that serve nothing by themselves."""
_TYPE = re.compile(r"""["']([\w.-]+)["'],?:?\s*["']\w+Config["']""")


def read(sources: Path) -> dict[str, Any]:
    """The architectures that the sources of a release (its folder `vllm`) serve, and those they say it served once."""
    models = sources / "model_executor" / "models"
    registry = next(path for name in ("registry.py", "__init__.py") if (path := models / name).is_file())
    keys = [*_keys(registry)]
    return {
        "architectures": sorted({key for table, key in keys if table not in UNSERVED}),
        "previously_supported": sorted({key for table, key in keys if table == PREVIOUSLY}),
    }


def model_types(transformers: Path) -> list[str]:
    """The types that a version of Transformers (its folder `transformers`) knows."""
    auto = transformers / "models" / "auto"
    files = [path for name in ("configuration_auto.py", "auto_mappings.py") if (path := auto / name).is_file()]
    return sorted({name for path in files for name in _TYPE.findall(path.read_text(encoding="utf-8"))})


def _keys(registry: Path) -> Iterator[tuple[str, str]]:
    """(table, key) of all tables of a registry."""
    for node in ast.parse(registry.read_text(encoding="utf-8")).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        if targets and isinstance(value, ast.Dict):
            for key in value.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield ast.unparse(targets[0]), key.value


def build(extracts: Mapping[Release, Extract]) -> dict[str, Any]:
    """The whole table."""
    read = {str(release): extract for release, extract in extracts.items() if "architectures" in extract}
    releases = list(read)
    known = [{*extract["architectures"]} for extract in read.values()]
    types = [{*extract["model_types"]} for extract in read.values()]
    architectures = {}
    for name in sorted(set().union(*known)):
        first = next(number for number, names in enumerate(known) if name in names)
        architectures[name] = [releases[first - 1] if first else None, releases[first]]
    removed = {}
    for name in read[releases[-1]]["previously_supported"]:
        last = max((number for number, names in enumerate(known) if name in names), default=None)
        if last is not None and last + 1 < len(releases):
            removed[name] = releases[last : last + 2]
    return {
        "releases": releases,
        "architectures": architectures,
        "removed": removed,
        "model_types": {
            name: next((one for one, names in zip(releases[::-1], types[::-1], strict=True) if name not in names), None)
            for name in sorted(set().union(*types))
        },
    }


def text(table: Mapping[str, Any]) -> str:
    """The file: a line for each name."""
    lines = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
            lines.append(f'"{key}": {{\n{rows}\n}}')
        else:
            lines.append(f'"{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"
