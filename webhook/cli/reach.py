"""The way to a cluster for commands that read much of one: the Pod's own account, or whatever kubectl uses.

kubectl signs in: it knows contexts, several kubeconfigs, `exec` plugins, OIDC, proxies. `kubectl proxy` lends that to
one client over a socket that only this user can open, and refuses what does not read; one program a run, where
`kubectl get --raw` would sign in anew for every page.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from webhook.cli.edge import UnusableError

if TYPE_CHECKING:
    import subprocess
    from typing import IO

    from webhook.cluster.access import Client

_WAIT = 15.0
"""Seconds until `kubectl proxy` listens."""


@contextmanager
def client(args: argparse.Namespace, *, writes: bool = False) -> Iterator[Client]:
    """A client of the cluster that the user means; raises UnusableError (exit 3) where there is no way to one."""
    from webhook.cluster import AccessError, from_kubeconfig, in_cluster
    from webhook.cluster.access import Client

    kubeconfig = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")  # noqa: PTH111 - never raises
    files = [Path(one) for one in kubeconfig.split(os.pathsep) if one and Path(one).is_file()]
    there = bool(files)
    try:
        access = None if there or args.context else in_cluster()
        if access is None and there and _kubectl() is None:
            if len(files) > 1:
                shown = ", ".join(str(one) for one in files)
                raise AccessError(
                    f"KUBECONFIG names several files, which kubectl would merge, and there is none: {shown}"
                )
            access = from_kubeconfig(files[0], args.context)
    except AccessError as error:
        raise UnusableError(f"the cluster can't be reached: {error}", 3) from error
    if access is not None:
        made = Client(access)
        try:
            yield made
        finally:
            made.close()
    elif there or args.context:
        with _proxied(args.context, writes) as made:
            yield made
    else:
        raise UnusableError(
            f"no cluster to read: this is no Pod, and there is no kubeconfig ({kubeconfig}); see `kubectl config view`",
            3,
        )


def _kubectl() -> str | None:
    from shutil import which

    return which("kubectl")


@contextmanager
def _proxied(context: str | None, writes: bool) -> Iterator[Client]:
    import subprocess
    from tempfile import TemporaryDirectory

    from webhook.cluster.access import Access, Client

    program = _kubectl()
    if program is None:
        raise UnusableError("there is no kubectl to ask a cluster with", 3)
    with TemporaryDirectory(prefix="podfit-") as folder:  # for this user alone
        place = Path(folder) / "s"
        refused = "POST,PUT,CONNECT" if writes else "POST,PUT,PATCH,DELETE,CONNECT"
        words = [*(["--context", context] if context else []), "proxy", f"--unix-socket={place}"]
        with (
            (Path(folder) / "log").open("w+") as log,
            subprocess.Popen(
                [program, *words, f"--reject-methods={refused}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            ) as process,
        ):
            try:
                _await(process, place, log)
                access = Access("http://localhost", "", socket=place)
                made = Client(access)
                yield made
                made.close()
            finally:
                process.terminate()


def _await(process: subprocess.Popen[bytes], place: Path, log: IO[str]) -> None:
    """Waits until the proxy listens; raises UnusableError with kubectl's own words where it ends instead."""
    import time

    end = time.monotonic() + _WAIT
    while not place.exists():
        if process.poll() is not None or time.monotonic() > end:
            log.seek(0)
            said = [line for line in log.read().splitlines() if line.strip()]
            raise UnusableError(f"kubectl proxy: {said[-1] if said else 'does not listen'}", 3)
        time.sleep(0.02)
