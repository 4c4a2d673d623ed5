"""The cluster, asked with kubectl: it knows the user's contexts, and how to sign in."""

from __future__ import annotations

import argparse
import json
import re
from itertools import takewhile
from pathlib import Path
from typing import Any

from webhook.cli.edge import SUFFIXES, UnusableError

_NAMED = re.compile(r"[A-Za-z][A-Za-z0-9.-]*/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""`deploy/llama`, `inferenceservices.serving.kserve.io/llama`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--namespace` and `--context`."""
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="of what is asked for in the cluster, and of manifests that name none"
    )
    parser.add_argument("--context", metavar="NAME", help="kubectl's context")


def run(args: argparse.Namespace, *words: str) -> bytes:
    """What kubectl prints; raises UnusableError (exit 3) with its own words."""
    import subprocess  # a start that asks no cluster need not wait for it
    from shutil import which

    program = which("kubectl")
    if program is None:
        raise UnusableError(f"{'/'.join(words[1:3])}: there is no kubectl to ask a cluster with", 3)
    asked = f"kubectl {' '.join(takewhile(lambda word: not word.startswith('-'), words))}"
    context = ["--context", args.context] if args.context else []
    namespace = ["-n", args.namespace] if args.namespace else []
    try:
        done = subprocess.run([program, *context, *namespace, *words], capture_output=True, check=False, timeout=60)
    except subprocess.TimeoutExpired as error:
        raise UnusableError(f"{asked}: no answer within 60 s", 3) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise UnusableError(f"{asked}: {said[-1]}", 3)
    return done.stdout


def names_object(name: str) -> bool:
    """Whether an argument names an object of the cluster: `deploy/llama`, where there is no such file."""
    return _NAMED.fullmatch(name) is not None and not name.endswith(SUFFIXES) and not Path(name).exists()


def manifest(args: argparse.Namespace, name: str) -> bytes:
    """The YAML of an object by its `KIND/NAME`; raises UnusableError, as `run`."""
    kind, _, named = name.partition("/")
    return run(args, "get", kind, named, "-o", "yaml")


def get(args: argparse.Namespace, kind: str, name: str) -> dict[str, Any]:
    """An object; empty where kubectl prints none. Raises UnusableError, as `run`."""
    found = json.loads(run(args, "get", kind, name, "-o", "json"))
    return found if isinstance(found, dict) else {}


def pods(args: argparse.Namespace, workload: dict[str, Any]) -> list[dict[str, Any]]:
    """A workload's Pods, one at least; raises UnusableError (exit 3) where none can be found."""
    labels = workload.get("spec", {}).get("selector", {}).get("matchLabels") or {}
    if not labels:
        raise UnusableError(f"{workload.get('kind')} has no selector by labels: name one of its Pods", 3)
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    found: list[dict[str, Any]] = json.loads(run(args, "get", "pods", "-l", selector, "-o", "json")).get("items", [])
    if not found:
        raise UnusableError(f"no Pod has the labels {selector}", 3)
    return found


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether all containers of a Pod are."""
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return bool(statuses) and all(one.get("ready") for one in statuses)
