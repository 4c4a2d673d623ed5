"""The cluster that the user means: `--context` and KUBECONFIG, or in a Pod its account; and objects named KIND/NAME.

Only what a command adds to `podfit.cluster.access`: options, the choice of files, and errors as one line with exit 3.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.base.lazy import regex
from podfit.cli.support.edge import MANIFEST_SUFFIXES, UnusableError

if TYPE_CHECKING:
    from podfit.cluster.access import Client

_NAMED = regex(r"[A-Za-z][A-Za-z0-9.-]*/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
"""`deploy/llama`, `inferenceservices.serving.kserve.io/llama`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register `--namespace` and `--context`."""
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="namespace for cluster lookups; default for manifests that set none"
    )
    add_context(parser)


def add_context(parser: argparse.ArgumentParser) -> None:
    """`--context`."""
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig; default: the current one")


@contextmanager
def client(args: argparse.Namespace) -> Iterator[Client]:
    """A client of the cluster that the user means; raises UnusableError (exit 3) if there is none."""
    from podfit.cluster.access import Client, from_kubeconfig, in_cluster

    kubeconfig = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")  # noqa: PTH111 - never raises
    files = [Path(text) for text in kubeconfig.split(os.pathsep) if text and not _is_absent(text)]
    with errors_reported("the cluster can't be reached"):
        access = None if files or args.context else in_cluster()
        if files:
            access = from_kubeconfig(files, args.context, plugins=True)
        if access is None:
            raise UnusableError(
                f"no cluster: this is not a Pod with an account, and no kubeconfig exists ({kubeconfig}). "
                "Fix: set KUBECONFIG",
                3,
            )
        new_client = Client(access)
    try:
        yield new_client
    finally:
        new_client.close()


def _is_absent(file: str) -> bool:
    """Nothing has this name. A file that may not be read is there: without it, another cluster would be meant."""
    try:
        os.stat(file)  # noqa: PTH116 - a Path raises ValueError earlier
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


@contextmanager
def errors_reported(about: str) -> Iterator[None]:
    """Raises an error of the API server, or of the way to it, as UnusableError (exit 3) in one line."""
    from podfit.base.printable import one_line
    from podfit.cluster.access import StatusError, UnreachableError

    try:
        yield
    except (StatusError, OSError, ValueError) as error:
        fix = ". Fix: check the network, or choose another context"
        hint = fix if isinstance(error, UnreachableError) else ""
        raise UnusableError(f"{about}: {one_line(str(error)).rstrip('.')}{hint}", 3) from error


def names_object(name: str) -> bool:
    """True if an argument names an object of the cluster: `deploy/llama`, where there is no such file."""
    return _NAMED.fullmatch(name) is not None and not name.endswith(MANIFEST_SUFFIXES) and not Path(name).exists()


def manifests(args: argparse.Namespace, names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Each `KIND/NAME` with its object as JSON (in YAML an argument "1e3" could become a number); raises
    UnusableError."""
    if not names:
        return []
    from podfit.cluster import objects

    items = []
    with client(args) as api:
        for name in names:
            kind, _, named = name.partition("/")
            with errors_reported(f"{name}: no such file or folder here; in the cluster"):
                obj = objects.get(api, kind, named, args.namespace)
            items.append((name, json.dumps(obj, indent=2, ensure_ascii=False).encode()))
    return items
