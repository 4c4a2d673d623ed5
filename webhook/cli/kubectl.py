"""The cluster, asked with kubectl: it knows the user's contexts, and how to sign in."""

from __future__ import annotations

import argparse
import re
from itertools import takewhile

from webhook.cli.edge import UnusableError

NAMED = re.compile(r"(?P<kind>[A-Za-z][A-Za-z0-9.-]*)/(?P<name>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")
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
