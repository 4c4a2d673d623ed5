"""What is remembered follows the facts in use: nothing that reads tables is remembered for all sets together."""

from __future__ import annotations

import subprocess
import sys

CODE = '''
import functools, importlib, pkgutil, sys
from pathlib import Path
from podfit.base import data

running, wrong = [], set()
plain = functools.lru_cache

def traced(size, function):
    name = f"{function.__module__}.{function.__qualname__}"
    def run(*args, **kwargs):
        running.append(name)
        try:
            return function(*args, **kwargs)
        finally:
            running.pop()
    return functools.update_wrapper(plain(size)(functools.update_wrapper(run, function)), function)

def lru_cache(maxsize=128, typed=False):
    return traced(128, maxsize) if callable(maxsize) else lambda function: traced(maxsize, function)

class Used:
    """Stands for the variable that says which set is in use."""
    def __init__(self, real): self.real = real
    def get(self, default):
        wrong.update(running)
        return self.real.get(default)
    def set(self, value): return self.real.set(value)
    def reset(self, token): self.real.reset(token)

functools.lru_cache, functools.cache = lru_cache, lambda function: traced(None, function)
data._USED = Used(data._USED)
running.append("an import")
import podfit
for module in pkgutil.walk_packages(podfit.__path__, "podfit."):
    if "__main__" not in module.name:
        importlib.import_module(module.name)
running.clear()

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import manifest
from podfit.vllm.facts import Facts

judged = 0
for path in sorted(Path("tests/rules").glob("*/*.yaml")):
    for document in manifest.read(path.read_bytes(), path.name).documents:
        lint(document.object, builtin(), Facts(), where="check")
        judged += 1
print(judged, *sorted(wrong))
'''


def test_what_reads_tables_is_remembered_for_each_set_of_them() -> None:
    root = __file__.rpartition("/tests/")[0]
    done = subprocess.run([sys.executable, "-c", CODE], cwd=root, capture_output=True, text=True, check=True)
    judged, *wrong = done.stdout.split()

    assert int(judged) > 200
    assert not wrong, "use podfit.base.data.remembered"
