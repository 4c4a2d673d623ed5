"""`--helm CHART` and `-k DIR`: manifests that other programs make of a chart or a folder."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from podfit.base.lazy import regex
from podfit.base.secret import FORMS, Secrets
from podfit.cli.support import edge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--helm CHART` and `-k DIR`, rendered by the programs that the machine has."""
    parser.add_argument("--helm", metavar="CHART", help="check what `helm template` makes of a chart")
    parser.add_argument("--values", "-f", action="append", default=[], metavar="FILE", help="of --helm")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of --helm")
    parser.add_argument("--kustomize", "-k", metavar="DIR", help="check what `kustomize build` makes of a folder")


def manifests(args: argparse.Namespace) -> list[tuple[str, bytes]]:
    """The manifests that helm and kustomize print, under the names `helm template CHART` and `kustomize build DIR`;
    raises UnusableError with their own words."""
    items: list[tuple[str, bytes]] = []
    if not (args.helm or args.values or args.set or args.kustomize):
        return items
    from shutil import which

    if args.helm:
        words = ["helm", "template", "podfit", args.helm]
        for file in args.values:
            words += ["--values", file]
        for setting in args.set:
            words += ["--set", setting]
        items.append((f"helm template {args.helm}", _output(words)))
    elif args.values or args.set:
        raise edge.UnusableError("--values and --set belong to --helm CHART")
    if args.kustomize:
        tools = (["kustomize", "build"], ["kubectl", "kustomize"])
        tool = next((words for words in tools if which(words[0])), tools[0])  # the first for its error if none is there
        items.append((f"kustomize build {args.kustomize}", _output([*tool, args.kustomize])))
    return items


def _output(words: Sequence[str]) -> bytes:
    """The standard output of a program; raises UnusableError (exit 3) with its error text, without secrets."""
    import subprocess  # a start that renders nothing need not wait for it
    from shutil import which

    program = which(words[0])
    if program is None:
        raise edge.UnusableError(
            f"{words[0]} is not installed; render elsewhere and pipe it: {words[0]} … | podfit check -", 3
        )
    done = subprocess.run([program, *words[1:]], capture_output=True, check=False)
    if done.returncode:
        error_lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        if not error_lines:
            raise edge.UnusableError(f"{words[0]} failed", 3)
        command = Secrets.of(words).masked(" ".join(words))
        raise edge.UnusableError([f"{command}: {FORMS.masked(_plain(line), quoted=True)}" for line in error_lines], 3)
    return done.stdout


_LOGGED = regex(r'[EWIF]\d{4} [\d:.]+ +\d+ \S+\] .*?\berr="(?P<error>(?:[^"\\]|\\.)*)"')
"""A line of Kubernetes' logger (klog): `E1121 23:50:54.561837    3741 run.go:72] "command failed" err="…"`."""


def _plain(line: str) -> str:
    """A line of a program; of one from Kubernetes' logger its error alone, without the escapes in its quotes."""
    logged = _LOGGED.match(line.strip())
    return re.sub(r"\\(.)", r"\1", logged["error"]) if logged else line.strip()
