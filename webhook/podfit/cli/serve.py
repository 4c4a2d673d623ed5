"""`podfit serve`: the webhook server in the foreground, gunicorn with one worker process.

There is one process, so that there is one cache and one metrics registry; scale by replicas. The server reads and warms
everything before the port opens, so each client that gets a connection gets an answer under the whole policy.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podfit import __version__
from podfit.cli.support import certificate, edge, policies
from podfit.cli.support.edge import UnusableError
from podfit.kube.snapshot import WATCHED_BY_DEFAULT, WATCHED_KINDS

if TYPE_CHECKING:
    from podfit.cluster import Access, Cluster
    from podfit.evaluation.policy import Policy
    from podfit.server.accesslog import AccessLog
    from podfit.server.certs.serving import Application, Serving
    from podfit.server.lines import Lines
    from podfit.server.live import Live
    from podfit.server.readiness import Readiness, SelfCall
    from podfit.vllm.facts import Facts

POLICIES = "policies"
BIND = "127.0.0.1:8443"
DRAIN = 10
"""Seconds; the chart's `preStopSeconds` and 5 more: as long as an API server may still use a connection that it has."""
FLUSH = 2.0
"""Seconds that the last lines of the access log may take at the end, and those on standard error."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "serve",
        help="run the admission webhook server",
        description="Runs the webhook server in the foreground: POST /validate and /mutate, GET /healthz, /readyz and "
        "/metrics, all over TLS. SIGTERM answers what has been asked and exits 0.",
        epilog=edge.examples("podfit serve --policy /etc/podfit/policies", "podfit serve --bind 127.0.0.1:8443"),
    )
    parser.add_argument(
        "--bind",
        default=BIND,
        metavar="HOST:PORT",
        help=f"default: {BIND}; :PORT is every interface, port 0 any free one",
    )
    policies.add_argument(parser)
    edge.add_models(parser)
    parser.add_argument(
        "--threads",
        type=_threads,
        default=4,
        metavar="N",
        help="threads for reviews with a script, which take longer than others (default: 4)",
    )
    parser.add_argument(
        "--drain",
        type=_seconds,
        default=DRAIN,
        metavar="SECONDS",
        help=f"after SIGTERM, how long clients may use the connections that they have (default: {DRAIN})",
    )
    parser.add_argument("--no-access-log", action="store_true", help="no line of JSON a review on standard output")
    parser.add_argument(
        "--watch",
        type=_kinds,
        metavar="KIND,…",
        help=f"what is read of the cluster, in the background "
        f"(default: {','.join(WATCHED_BY_DEFAULT)}; none: nothing). In a Pod "
        "without a token of its account there is no cluster",
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="the cluster to read, where it is not the one that this runs in"
    )
    certificate.add_arguments(parser)


def _kinds(text: str) -> tuple[str, ...]:
    """`KIND,…` → the watched kinds, none for "none"; raises ArgumentTypeError for an unknown one."""
    known = [kind.name for kind in WATCHED_KINDS]
    names = () if text in ("none", "") else tuple(text.split(","))
    if wrong := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(known)}, none")
    return names


def _threads(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 256):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 256")
    return int(text)


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 600):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 600")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM; exit 2 or 3 with one line if the policy, the certificate or the address is unusable."""
    from podfit.server.accesslog import AccessLog
    from podfit.server.lines import Lines

    facts = edge.webhook_facts(args)
    policy = policies.load(args.policy)
    access = _access(args.kubeconfig)
    serving = certificate.serving(args, access)
    cluster = _cluster(args.watch, access)
    live = _live(args.policy, cluster)
    warm(policy, facts)
    ready, answers = _readiness(live, serving, cluster)
    # Without a buffer: a thread that waits for the reader of the log would hold the buffer's lock at the process's end.
    lines = AccessLog(None if args.no_access_log or sys.stdout is None else FileIO(1, "w", closefd=False))
    log_lines = Lines(FileIO(os.devnull if sys.stderr is None else 2, "w", closefd=sys.stderr is None), "log")
    app = application(live, facts, serving, ready, lines, log_lines, cluster, args.threads)
    if args.client_ca:
        from podfit.server.certs.serving import KnownClients

        app = KnownClients(app)
    listener = listen(args.bind)
    address = listener.getsockname()[:2]

    from podfit.server import log, memory
    from podfit.server.app import PEOPLE_THREADS
    from podfit.server.edge import worker

    def begin() -> None:
        """Start the threads in the worker process. The memory limit depends on their number."""
        memory.bound(args.threads + 1 + PEOPLE_THREADS + (0 if cluster is None else len(cluster.watched)))
        gc.collect()
        gc.freeze()  # tables and rules live as long as the process: looking through them took 40 ms each time
        live.start()
        if cluster is not None:
            cluster.start()
        serving.start()
        answers.start(*address)

    log.to(log_lines)
    hooks = {"post_worker_init": lambda _: begin(), "worker_exit": lambda _, __: lines.close(FLUSH)}
    try:
        return worker.serve(app, serving, listener, ready.drain, args.drain, **hooks)
    finally:
        log_lines.close(FLUSH)


def _live(files: Sequence[str], cluster: Cluster | None) -> Live:
    """The policies of the files and, if Policy objects are watched, of the cluster."""
    from podfit.server.live import Live

    paths = [policies.path(name) for name in files]
    if cluster is None or POLICIES not in cluster.watched:
        return Live(paths)
    from podfit.server.acceptance import Acceptance

    def objects() -> dict[str, Mapping[str, Any]] | None:
        """Name → Policy object of the cluster. None while it is not known: it was never read, or is too large."""
        snapshot = cluster.snapshot()
        entries = snapshot.objects.get(POLICIES)
        if entries is None or snapshot.unknown.get(POLICIES):
            return None
        return {name: obj for (_, name), obj in entries.items()}

    return Live(paths, objects, Acceptance(cluster.access).tell, lambda: cluster.serves(POLICIES))


def _access(kubeconfig: Path | None) -> Access | None:
    """The way to the cluster; None if there is none. Then the Kubernetes client, a third of the time and the memory
    of a start, is not imported."""
    if kubeconfig is None and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    from podfit import cluster

    try:
        return cluster.from_kubeconfig(kubeconfig) if kubeconfig else cluster.in_cluster()
    except cluster.AccessError as error:
        raise UnusableError(f"--kubeconfig {error}" if kubeconfig else str(error), 3) from error


def _cluster(names: tuple[str, ...] | None, access: Access | None) -> Cluster | None:
    """The kinds to watch; None if there is no cluster, or if no kind is wanted."""
    watched = WATCHED_BY_DEFAULT if names is None else names
    if access is None or not watched:
        return None
    from podfit import cluster

    return cluster.Cluster(access, watched)


def _readiness(live: Live, serving: Serving, cluster: Cluster | None) -> tuple[Readiness, SelfCall]:
    """The conditions of the first review, and the one of them that must be started."""
    from podfit.server.readiness import Readiness, SelfCall

    answers = SelfCall()
    ready = Readiness(serving.problem, lambda: _unseen(live, cluster), answers)
    ready.tell(serving.worry)
    return ready, answers


def application(
    live: Live,
    facts: Facts,
    serving: Serving,
    ready: Readiness,
    access: AccessLog,
    lines: Lines,
    cluster: Cluster | None = None,
    threads: int = 4,
) -> Application:
    """The ASGI application with its metrics."""

    from podfit.server.app import create_app
    from podfit.server.metrics import Metrics

    metrics = Metrics(__version__, live.policy.version, facts.version)
    metrics.watch_certificate(serving.not_after)
    metrics.watch_switch(serving.is_off)
    metrics.watch_policy(live)
    metrics.watch_facts()
    metrics.watch_log(lines)
    if cluster is not None:
        metrics.watch_cluster(cluster.status)
    metrics.watch_readiness(ready)
    return create_app(live, facts, metrics, ready, cluster, access, threads)


def _unseen(live: Live, cluster: Cluster | None) -> str | None:
    """Why the server is not ready for decisions yet: Policy objects may be less strict than the default policy.

    The server does not wait for them if the API server does not have the resource, or forbids reading it: then it
    enforces nothing (`Live.unknown`)."""
    if cluster is None or POLICIES not in cluster.watched or live.objects_seen:
        return None
    refused = any(status.kind == POLICIES and status.problem for status in cluster.status())
    return None if refused else "the cluster's Policy objects are not known yet"


def warm(policy: Policy, facts: Facts) -> None:
    """Checks two Pods, so that every table, rule and module is loaded before the first request.

    The command of the second is a script with a misspelled value. Without this, a review that is ended in the middle of
    an import (`deadline.DeadlineWatch`) could leave the module's lock locked forever."""
    from podfit.evaluation.lint import lint
    from podfit.kube.patch import apply

    apply({}, ())
    arguments = ["--model", "Qwen/Qwen2.5-7B-Instruct", "--max-model-len", "8192"]
    script = "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-length 8192 --dtype bfloat61"
    for how in ({"args": arguments}, {"command": ["sh", "-c", script]}):
        container = {
            "name": "vllm",
            "image": "vllm/vllm-openai:v0.11.0",
            **how,
            "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi"}},
        }
        spec = {"containers": [container], "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}}
        lint({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "warm"}, "spec": spec}, policy, facts)


def listen(bind: str) -> socket.socket:
    """A listening socket for `HOST:PORT`, `[IPv6]:PORT` or `:PORT` (every interface, IPv6 too where there is any)."""
    host, _, port = bind.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536 and ":" in bind):
        raise UnusableError(f"--bind {bind}: expected HOST:PORT, such as {BIND}")
    host = host.removeprefix("[").removesuffix("]")
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    address = (host, int(port))
    try:
        try:
            return socket.create_server(address, family=family, backlog=1024, dualstack_ipv6=both)
        except OSError:
            if not both:
                raise
            return socket.create_server(address, backlog=1024)  # IPv6 is there, but switched off
    except OSError as error:
        raise UnusableError(f"--bind {bind}: {_reason_of(error)}", 3) from error


def _reason_of(error: OSError) -> str:
    """ "address already in use", without the errno and the address that Python adds."""
    return os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error.strerror or error).lower()
