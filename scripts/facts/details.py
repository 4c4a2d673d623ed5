"""What the sources of a release say that podfit has in code, or needs for a review: read, not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.facts.config_classes import trees

METRICS = ("v1/metrics", "engine/metrics.py")
CONSTANTS = ("config/cache.py", "utils/mem_constants.py", "v1/core/kv_cache_*.py", "v1/kv_cache_interface.py")
"""Modules whose numbers decide the KV cache."""
SERVER = "OPENAI_API_SERVER"
"""The usage context of `vllm serve`, whose default counts."""


def read(sources: Path) -> dict[str, Any]:
    """Capabilities, metrics, variables, defaults and constants; `sources` is the folder `vllm`."""
    return {
        "minimum_capability": dict(sorted(minimum_capability(sources))),
        "metrics": metrics(sources),
        "variables": variables(sources),
        "defaults_by_device": dict(defaults_by_device(sources)),
        "constants": dict(constants(sources)),
    }


def minimum_capability(sources: Path) -> Iterator[tuple[str, int]]:
    """Quantization method → the least compute capability that it asks for, as vLLM writes it (7.5 is 75)."""
    for tree in trees(sources / "model_executor" / "layers" / "quantization"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                said = {one.name: _returned(one) for one in node.body if isinstance(one, ast.FunctionDef)}
                name, least = said.get("get_name"), said.get("get_min_capability")
                if isinstance(name, str) and isinstance(least, int):
                    yield name, least


def _returned(function: ast.FunctionDef) -> object:
    values = (one.value for one in function.body if isinstance(one, ast.Return))
    value = next(values, None)
    return value.value if isinstance(value, ast.Constant) else None


def metrics(sources: Path) -> list[str]:
    """The names of the metrics that the server exports."""
    found = set()
    for place in METRICS:
        path = sources / place
        for tree in trees(path) if path.is_dir() else [ast.parse(path.read_text())] if path.is_file() else ():
            texts = (one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and type(one.value) is str)
            found |= {text for text in texts if re.fullmatch(r"vllm:\w+", text)}
    return sorted(found)


def variables(sources: Path) -> list[str]:
    """The environment variables that envs.py reads."""
    file = sources / "envs.py"
    for node in ast.parse(file.read_text()).body if file.is_file() else ():
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "environment_variables":
            keys = node.value.keys if isinstance(node.value, ast.Dict) else []
            return sorted(str(key.value) for key in keys if isinstance(key, ast.Constant))
    return []


def defaults_by_device(sources: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The condition on the device → max_num_batched_tokens and max_num_seqs of a server."""
    tree = ast.parse((sources / "engine" / "arg_utils.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "get_batch_defaults":
            yield from _branches(node.body, "")


def _branches(body: list[ast.stmt], condition: str) -> Iterator[tuple[str, dict[str, str]]]:
    said = {}
    for one in body:
        if isinstance(one, ast.If):
            test = ast.unparse(one.test)
            yield from _branches(one.body, f"{condition} and {test}".removeprefix(" and "))
            yield from _branches(one.orelse, f"{condition} and not ({test})".removeprefix(" and "))
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Dict):
            for key, value in zip(one.value.keys, one.value.values, strict=True):
                if key is not None and ast.unparse(key).endswith(SERVER):
                    said[ast.unparse(one.targets[0]).removeprefix("default_")] = ast.unparse(value)
    if said:
        yield condition, said


def constants(sources: Path) -> Iterator[tuple[str, str]]:
    """`module NAME` → the number of a module or class."""
    for pattern in CONSTANTS:
        for path in sorted(sources.glob(pattern)):
            tree = ast.parse(path.read_text())
            owners: list[ast.Module | ast.ClassDef] = [
                tree,
                *(one for one in tree.body if isinstance(one, ast.ClassDef)),
            ]
            for owner in owners:
                for one in owner.body:
                    if not isinstance(one, ast.Assign | ast.AnnAssign) or one.value is None:
                        continue
                    if not _is_number(one.value):
                        continue
                    target = one.target if isinstance(one, ast.AnnAssign) else one.targets[0]
                    prefix = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
                    place = path.relative_to(sources).as_posix()
                    yield f"{place} {prefix}{ast.unparse(target)}", ast.unparse(one.value)


def _is_number(value: ast.expr) -> bool:
    """A number, or arithmetic on numbers."""
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)
