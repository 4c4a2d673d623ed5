"""Builds webhook/data/architectures.json: which releases of vLLM know a model's architecture.

    python -m scripts.build_architectures VLLM_DIR TRANSFORMERS_DIR

VLLM_DIR holds `<release>/vllm/model_executor/models/registry.py` (in 0.4 `__init__.py`) of some releases,
TRANSFORMERS_DIR `<version>/transformers/models/auto/`, both as in the wheels, with the wheels' dates. Nothing
is imported; the tables in the sources are read.

    "releases": those that were read
    "architectures": {architecture: [the last release read that does not know it, or null; the first that does]}
    "removed": {architecture: [the last release read that serves it, the next that was read]}, of those of which the
        newest says that vLLM served them once (in which release last, it says less exactly: 0.24.0 has Baichuan still)
    "model_types": {model_type: the last release read whose Transformers can't know it, or null}

Transformers serves what vLLM does not name (from 0.7), if it knows the model_type. An image holds no Transformers newer
than itself: a type that the first version after a release's date, and some days, does not have is one that its image
does not know.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from webhook.vllm.release import parse

TARGET = Path(__file__).parent.parent / "webhook" / "data" / "architectures.json"
UNSERVED = ("_SPECULATIVE_DECODING_MODELS", "_PREVIOUSLY_SUPPORTED_MODELS", "_OOT_SUPPORTED_MODELS", "_OOT_MODELS",
            "_ROCM_UNSUPPORTED_MODELS", "_ROCM_PARTIALLY_SUPPORTED_MODELS")  # fmt: skip
"""Tables of the registry that serve nothing by themselves."""
_TYPE = re.compile(r"""["']([\w.-]+)["'],?:?\s*["']\w+Config["']""")


SLACK = 7 * 24 * 3600
"""Seconds after its wheel within which an image may have been built."""


def served(registry: Path) -> Iterator[str]:
    """The architectures of a release's registry."""
    return (key for table, key in _keys(registry) if table not in UNSERVED)


def removed(read: Mapping[str, Path]) -> dict[str, list[str]]:
    """Architecture → [the last release that serves it, the next one]; `read` as `registries` has them."""
    releases, known = list(read), [set(served(path)) for path in read.values()]
    once = sorted({key for table, key in _keys(read[releases[-1]]) if table == "_PREVIOUSLY_SUPPORTED_MODELS"})
    last = {name: [number for number, names in enumerate(known) if name in names][-1:] for name in once}
    return {name: releases[at[0] : at[0] + 2] for name, at in last.items() if at and at[0] + 1 < len(releases)}


def _keys(registry: Path) -> Iterator[tuple[str, str]]:
    """(table, key) of all tables of a registry."""
    for node in ast.parse(registry.read_text()).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        if targets and isinstance(value, ast.Dict):
            for key in value.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield ast.unparse(targets[0]), key.value


def registries(folder: Path) -> Mapping[str, Path]:
    """Release → its registry, oldest first."""
    found = {}
    for release in sorted(
        (path.name for path in folder.iterdir() if parse(path.name)), key=lambda name: parse(name) or 0
    ):
        models = folder / release / "vllm" / "model_executor" / "models"
        found[release] = next(path for name in ("registry.py", "__init__.py") if (path := models / name).is_file())
    return found


def model_types(folder: Path) -> list[tuple[float, set[str]]]:
    """(date, the model types that it knows) of each version of Transformers, oldest first."""
    found = []
    for version in folder.iterdir():
        files = [path for path in (version / "transformers" / "models" / "auto").glob("*.py")
                 if path.name in ("configuration_auto.py", "auto_mappings.py")]  # fmt: skip
        types = {name for path in files for name in _TYPE.findall(path.read_text())}
        found.append((max(path.stat().st_mtime for path in files), types))
    return sorted(found, key=lambda one: one[0])


def build(vllm: Path, transformers: Path) -> dict[str, object]:
    """The whole table."""
    read, versions = registries(vllm), model_types(transformers)
    releases = list(read)
    known = {release: set(served(path)) for release, path in read.items()}
    architectures = {}
    for name in sorted(set().union(*known.values())):
        first = next(number for number, release in enumerate(releases) if name in known[release])
        architectures[name] = [releases[first - 1] if first else None, releases[first]]
    beside = {
        release: next(types for date, types in versions if date >= path.stat().st_mtime + SLACK)
        for release, path in read.items()
    }
    types = {}
    for name in sorted(set().union(*beside.values())):
        without = [release for release in releases if name not in beside[release]]
        types[name] = without[-1] if without else None
    return {"releases": releases, "architectures": architectures, "removed": removed(read), "model_types": types}


def main() -> None:
    """Writes the table, one name a line, so that a diff can be read."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    table = build(Path(sys.argv[1]), Path(sys.argv[2]))
    lines = []
    for key, value in table.items():
        if isinstance(value, dict):
            rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in value.items())
            lines.append(f'"{key}": {{\n{rows}\n}}')
        else:
            lines.append(f'"{key}": {json.dumps(value)}')
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
