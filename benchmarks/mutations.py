"""Objects with a few of their values changed, and reviews of them: for fuzzing, and for pairs that hardly differ.

Mutations start from the rules' own examples (`tests/rules`), and draw on each other's values.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

JSONDict = dict[str, Any]
EXAMPLES = Path(__file__).parent.parent / "tests" / "rules"

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 8, 2**31, 2**63, 10**30, 0.5, 1e308, "", " ", "0", "-1", "1e9", "8Gi", "512m", "64gb",
    "\u0663", "\x00", "a\nb", "\x1b[31m", "é" * 99, "x" * 5000, "$(MODEL)", "${A:-b}", "$" * 200, "$(" * 50, "--",
    "-", "--model",
    "--model=", "--no-", "{}", '{"a": ' * 60, "vllm", "serve", "sh", "-c", "vllm serve $MODEL &", "`x`",
    "if true; then vllm serve x; fi", "while :; do :; done",
    [], {}, [[]], [None], {"": ""}, {"name": None}, ["vllm", "serve", "m"], {"nvidia.com/gpu": "1"},
    {"nvidia.com/gpu": -1},
)  # fmt: skip
"""Unexpected values for any place."""


@cache
def corpus() -> tuple[JSONDict, ...]:
    """The objects of the rules' examples."""
    found = []
    for path in sorted(EXAMPLES.glob("*/*.yaml")):
        found += [one for one in yaml.safe_load_all(path.read_text()) if isinstance(one, dict) and one.get("kind")]
    return tuple(json.loads(json.dumps(one, default=str)) for one in found)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (parent, key) in a value."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        one = todo.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            todo.append(one[key])
    return found


def _remove(random: Random, parent: Any, key: Any) -> None:
    del parent[key]


def _odd(random: Random, parent: Any, key: Any) -> None:
    parent[key] = copy.deepcopy(random.choice(ODD))


def _elsewhere(random: Random, parent: Any, key: Any) -> None:
    at = places(random.choice(corpus()))
    other, where = random.choice(at)
    parent[key] = copy.deepcopy(other[where])


def _repeat(random: Random, parent: Any, key: Any) -> None:
    if isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    else:
        parent[f"{key}2"] = copy.deepcopy(parent[key])


def _wrap(random: Random, parent: Any, key: Any) -> None:
    parent[key] = random.choice(([parent[key]], {"name": parent[key]}, str(parent[key])))


def _text(random: Random, parent: Any, key: Any) -> None:
    if isinstance(parent[key], str):
        text, at = parent[key], random.randrange(len(parent[key]) + 1)
        cut = random.randrange(at, len(text) + 1)
        parent[key] = text[:at] + random.choice(("", "-", "$(A)", " ", "\n", "0", "'", '"', text)) + text[cut:]
    else:
        _odd(random, parent, key)


def _number(random: Random, parent: Any, key: Any) -> None:
    if isinstance(parent[key], str) and parent[key].isdigit():
        parent[key] = str(int(parent[key][:18]) * random.choice((0, 2, 3, 1024)) + random.choice((-1, 0, 1)))
    else:
        _text(random, parent, key)


CHANGES: tuple[Callable[[Random, Any, Any], None], ...] = (
    _remove, _odd, _odd, _elsewhere, _repeat, _wrap, _text, _number,
)  # fmt: skip


def mutated(random: Random, obj: JSONDict, most: int = 6) -> JSONDict:
    """A copy with one to `most` changes, of the sort that its kind can still be seen in most cases."""
    changed: JSONDict = copy.deepcopy(obj)
    for _ in range(random.randint(1, most)):
        at = [pair for pair in places(changed) if pair[0] is not changed or random.random() < 0.05]
        if not at:
            break
        random.choice(CHANGES)(random, *random.choice(at))
    return changed


def review(random: Random, obj: JSONDict, old: JSONDict | None = None, uid: str = "fuzz") -> JSONDict:
    """A review that asks for the object; an UPDATE where there is an old one."""
    group, _, version = str(obj.get("apiVersion") or "v1").rpartition("/")
    kind = str(obj.get("kind") or "Pod")
    core = {"Pod": "pods", "Deployment": "deployments", "StatefulSet": "statefulsets", "Job": "jobs"}
    resource = core.get(kind, f"{kind.lower()}s")
    metadata = obj.get("metadata")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": resource},
            "namespace": "chat",
            "name": (metadata.get("name") if isinstance(metadata, dict) else None) or "",
            "operation": "UPDATE" if old is not None else "CREATE",
            "userInfo": {"username": "fuzz"},
            "object": obj,
            "oldObject": old,
            "dryRun": random.random() < 0.1,
        },
    }


def pick(random: Random, pool: Sequence[JSONDict]) -> JSONDict:
    """One of the pool, the newest a little more often."""
    return pool[max(random.randrange(len(pool)), random.randrange(len(pool)))]
