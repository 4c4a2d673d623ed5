"""The functions of vLLM by which podfit's memory arithmetic was written, and how they differ between two releases."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from pathlib import Path

MEMORY_PATH = (
    ("config/cache.py", ""),
    ("config/vllm.py", "cudagraph|max_num|post_init"),
    ("engine/arg_utils.py", "default|create_engine_config"),
    ("model_executor/layers/mamba/mamba_utils.py", "shape|dtype"),
    ("platforms/c*.py", "check_and_update_config|memory"),
    ("utils/mem_*.py", ""),
    ("v1/core/kv_cache_*.py", "block|config|group|length|max_model_len|memory|size|spec"),
    ("v1/kv_cache_interface.py", ""),
    ("v1/worker/cpu_worker.py", "init_device|memory"),
    ("v1/worker/gpu_worker.py", "init_device|memory|initialize_from_config|warm_up"),
    ("v1/worker/gpu*/**/model_runner.py", "capture|dummy_run|kv_cache|profile"),
    ("v1/worker/gpu_model_runner.py", "capture|dummy_run|kv_cache|profile"),
    ("v1/worker/utils.py", "memory"),
)
"""(modules, a pattern for the names of their functions; empty: all)."""


def functions(sources: Path) -> dict[str, str]:
    """`module Class.function` → its code without comments and docstrings; `sources` is the folder `vllm`."""
    found = {}
    for modules, pattern in MEMORY_PATH:
        for path in sorted(sources.glob(modules)):
            place = path.relative_to(sources).as_posix()
            for name, node in _functions(ast.parse(path.read_text()), ""):
                if re.search(pattern, name):
                    found[f"{place} {name}"] = _code(node)
    return found


def _functions(owner: ast.Module | ast.ClassDef, above: str) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """The functions and methods of a module; of a class its fields too."""
    for one in owner.body:
        if isinstance(one, ast.FunctionDef):
            yield f"{above}{one.name}", one
        elif isinstance(one, ast.ClassDef):
            yield from _functions(one, f"{above}{one.name}.")
            fields = [field for field in one.body if isinstance(field, ast.AnnAssign)]
            if fields:
                yield f"{above}{one.name}", ast.ClassDef(one.name, one.bases, one.keywords, [*fields], [])


def _code(node: ast.FunctionDef | ast.ClassDef) -> str:
    if isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
        node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(node))


def difference(old: Path, new: Path) -> dict[str, str]:
    """`module function` → a unified diff, of those that are new, gone or changed."""
    before, after = functions(old), functions(new)
    found = {}
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            lines = (before.get(name, "").splitlines(), after.get(name, "").splitlines())
            found[name] = "\n".join(difflib.unified_diff(*lines, lineterm="", n=2))
    return found
