"""The functions of vLLM by which podfit's memory arithmetic was written, and how they differ between two releases."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from scripts.facts.table import ROOT

MEMORY_PATH = (
    ("config/cache.py", ""),
    ("config/model.py", "dtype|head|layer|length|max_model_len|post_init|size|verify"),
    ("config/parallel.py", "args|config|defaults|post_init|size"),
    ("config/scheduler.py", ""),
    ("config/speculative.py", ""),
    ("config/vllm.py", "cudagraph|max_num|model_runner|post_init"),
    ("engine/arg_utils.py", "default|create_engine_config"),
    ("envs.py", "VLLM_"),
    ("model_executor/layers/**/*.py", "get_kv_cache_spec"),
    ("model_executor/layers/mamba/mamba_utils.py", "shape|dtype"),
    ("model_executor/models/**/*.py", "get_kv_cache_spec"),
    ("models/**/*.py", "get_kv_cache_spec"),
    ("platforms/c*.py", "check_and_update_config|memory"),
    ("utils/mem_*.py", ""),
    ("v1/attention/backends/mla/*.py", "block_size|kv_cache|memory|shape|workspace"),
    ("v1/core/kv_cache_*.py", "block|config|group|length|max_model_len|memory|size|spec"),
    ("v1/kv_cache_interface.py", ""),
    ("v1/worker/cpu_worker.py", "init_device|memory"),
    ("v1/worker/gpu_worker.py", "init_device|memory|initialize_from_config|warm_up"),
    ("v1/worker/gpu*/**/*.py", "alloc|capture|dummy_run|kv_cache|memory|profile"),
    ("v1/worker/gpu_model_runner.py", "capture|dummy_run|kv_cache|profile"),
    ("v1/worker/utils.py", "memory"),
)
"""(modules, a pattern for the names of their functions; empty: all). Of envs.py, the variables that podfit reads."""
PODFIT = ROOT / "webhook" / "podfit"


def functions(sources: Path) -> dict[str, str]:
    """`module Class.function` → its code without comments and docstrings; `sources` is the folder `vllm`."""
    found = {}
    for modules, pattern in MEMORY_PATH:
        for path in sorted(sources.glob(modules)):
            place, text = path.relative_to(sources).as_posix(), path.read_text()
            if not re.search(pattern, text):
                continue
            tree = ast.parse(text)
            for name, node in _functions(tree, ""):
                if re.search(pattern, name):
                    found[f"{place} {name}"] = _code(node)
            found |= {f"{place} {name}": code for name, code in _variables(tree) if name in _words(PODFIT)}
    return found


def _variables(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each variable of envs.py, with the code that reads it."""
    for one in tree.body:
        if not isinstance(one, ast.AnnAssign) or ast.unparse(one.target) != "environment_variables":
            continue
        for key, code in zip(one.value.keys, one.value.values, strict=True) if isinstance(one.value, ast.Dict) else ():
            if isinstance(key, ast.Constant):
                yield str(key.value), ast.unparse(code)


@cache
def _words(folder: Path) -> frozenset[str]:
    """The words of the modules in a folder of podfit."""
    return frozenset(word for path in folder.rglob("*.py") for word in re.findall(r"\w+", path.read_text("utf-8")))


def is_cited(function: str) -> bool:
    """A comment or a docstring of podfit's memory ledgers names the function, as `module Class.function`."""
    name = function.rpartition(" ")[2].rpartition(".")[2]
    return "_" in name.strip("_") and not name.startswith("__") and name in _words(PODFIT / "vllm" / "memory")


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
