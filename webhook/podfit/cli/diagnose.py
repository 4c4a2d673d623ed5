"""`podfit diagnose`: what a Pod died of, from its log, its Events and its status."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from podfit.base.lazy import regex
from podfit.cli.support import edge, policies, project, terminal, user_cluster
from podfit.diagnose import Diagnosis, diagnose, events, is_object, of_objects, of_pod
from podfit.kube import manifest as kube_manifest
from podfit.kube import workload

if TYPE_CHECKING:
    from podfit.cluster.access import Client

FORMATS = ("text", "json")
MAX_INPUT_BYTES = 64 << 20
"""Bytes of one input; of a longer log the end, where it died, is read."""
_POD = regex(
    r"(?:(?P<kind>pods?|po|deploy(?:ments?)?|sts|statefulsets?|jobs?|rs|replicasets?|ds|"
    r"daemonsets?)/)?(?P<name>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)"
)
_LOST = "unable to retrieve container logs for "
"""The text that the kubelet writes, with status 200, in place of the log of a container that it has removed (Kubernetes
1.36 pkg/kubelet/kuberuntime/kuberuntime_container.go, GetContainerLogs)."""
_FILE_ENDS = (".log", ".txt", ".json", ".jsonl", ".yaml", ".yml", ".out", ".gz", ".md", ".err")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "diagnose",
        help="find why a Pod failed, from its log, events and status",
        description="Shows why a vLLM Pod failed: the first cause, not its consequences. Reads logs, "
        "`kubectl get events`, `kubectl describe pod`, Pods and Events as JSON or YAML, or the cluster. "
        "A log may be the output of kubectl (--timestamps, --prefix), stern, docker, journalctl, a "
        "container runtime or Loki. Of a log longer than 64 MiB the end is read.",
        epilog="examples: kubectl logs --previous vllm-0 | podfit diagnose -\n"
        "          podfit diagnose vllm-0 -n prod\n"
        "          podfit diagnose crash.log events.txt deployment.yaml",
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="FILE|POD|-",
        help="a log or events, a Pod (or deploy/NAME …), - for standard input; with a log also its manifest",
    )
    parser.add_argument(
        "--manifest", metavar="FILE", help="the Pod or its workload, for its plan and the changes that help"
    )
    parser.add_argument(
        "-c", "--container", metavar="NAME", help="of the Pod in the cluster; default: all, those that failed first"
    )
    user_cluster.add_arguments(parser)
    edge.add_gpu(parser)
    edge.add_models(parser)
    policies.add_argument(parser)
    edge.add_show_secrets(parser)
    project.add_arguments(parser)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show all of the evidence, the plan, other findings and changes"
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")


def run(args: argparse.Namespace) -> int:
    """Prints the diagnosis; returns 0 also if it found a cause, since that is a result; 3 if an input can't be read."""
    from podfit.report import diagnosis, paint, text

    project.announce(project.apply(args))
    policy, facts = policies.load(args.policy), edge.facts(args)
    inputs, manifest = _parted(args)
    pod = edge.read_workload(manifest) if manifest else None
    cases, code = [], 0
    for name in inputs:
        try:
            items = list(_diagnoses(name, args))
        except edge.UnusableError as error:
            for line in error.lines:
                edge.tell(f"error: {line}")
            code = max(code, error.code)
            continue
        cases += [diagnosis.case(name, item, pod, policy, facts) for item in items]
    if args.format == "json":
        terminal.write(json.dumps({"results": [diagnosis.tree(case) for case in cases]}, indent=1, default=str))
    else:
        width = text.readable(terminal.width())
        texts = (diagnosis.text(case, verbose=args.verbose, width=width) for case in cases)
        terminal.show("\n".join(texts), paint.highlighted)
    return code


def _parted(args: argparse.Namespace) -> tuple[list[str], str | None]:
    """The inputs to diagnose and the manifest: that of --manifest, else a manifest among several inputs. Raises
    UnusableError if there is more than one."""
    items = [name for name in args.inputs if len(args.inputs) > 1 and _is_manifest(name)]
    manifests = [*([args.manifest] if args.manifest else []), *items]
    if len(manifests) > 1:
        raise edge.UnusableError(
            f"{len(manifests)} manifests: {', '.join(manifests)}. Fix: give one, and the logs of its Pod"
        )
    return [name for name in args.inputs if name not in items], manifests[0] if manifests else None


def _is_manifest(name: str) -> bool:
    """A file with a Pod or workload, and without signs of a failure: no status of a Pod, no Event."""
    if name == "-" or not Path(name).is_file() or not is_object(text := _read(Path(name))):
        return False
    objects = [document.object for document in kube_manifest.read(text.encode(), name).documents]
    has_status = any(
        item.get("kind") == "Event" or (item.get("kind") == "Pod" and item.get("status")) for item in objects
    )
    failed = any(diagnosis.cause or diagnosis.evidence for diagnosis in of_objects(objects)) if objects else True
    return not has_status and not failed and any(workload.find(item) for item in objects)


def _diagnoses(name: str, args: argparse.Namespace) -> Iterator[Diagnosis]:
    """The diagnoses of one argument: standard input, a log file, or a Pod of the cluster. Raises UnusableError."""
    path = Path(name)
    if name == "-":
        yield from diagnose(edge.log_text(_end(sys.stdin.buffer)))
    elif path.is_dir():
        raise edge.UnusableError(f"{name}: a folder; name the files, or a Pod as pod/{path.name}", 3)
    elif path.exists() or name.endswith(_FILE_ENDS) or (match := _POD.fullmatch(name)) is None:
        yield from diagnose(_read(path))
    else:
        yield _live(match["kind"] or "pod", match["name"], args)


def _end(stream: BinaryIO) -> bytes:
    """The last bytes of a stream, whose length is not known before."""
    end = b""
    while block := stream.read(MAX_INPUT_BYTES):
        end = (end + block)[-MAX_INPUT_BYTES:]
    return end


def _read(path: Path) -> str:
    """The text of a log, at most its last MAX_INPUT_BYTES; raises UnusableError (exit 3) if it can't be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_INPUT_BYTES))
            return edge.log_text(file.read())
    except OSError as error:
        raise edge.UnusableError(f"{path}: {(error.strerror or 'unreadable').lower()}", 3) from error


def _live(kind: str, name: str, args: argparse.Namespace) -> Diagnosis:
    """Asks the cluster, with the caller's own rights."""
    from podfit.cluster import objects

    with user_cluster.client(args) as client, user_cluster.errors_reported(f"{kind}/{name}"):
        entries = objects.get(client, kind, name, args.namespace)
        pod = entries if entries.get("kind") == "Pod" else max(objects.pods(client, entries), key=_trouble)
        items = [event for obj in _events(client, pod) if (event := events.from_object(obj))]
        logs = list(_logs(client, pod, _containers(args, pod)))
    return of_pod(pod, logs, items, entries)


def _events(client: Client, pod: dict[str, Any]) -> list[dict[str, Any]]:
    """The Events of a Pod; none, with a note, if the caller may not read them."""
    from podfit.cluster import objects
    from podfit.cluster.access import StatusError

    try:
        return objects.events(client, pod)
    except StatusError as error:
        edge.tell(f"note: the Events are not read: {error}")
        return []


def _trouble(pod: dict[str, Any]) -> tuple[bool, int]:
    """(not ready, number of restarts) of a Pod: of a workload's Pods, the one with the most is looked at."""
    from podfit.cluster.objects import is_ready

    statuses = pod.get("status", {}).get("containerStatuses") or []
    return not is_ready(pod), sum(status.get("restartCount", 0) for status in statuses)


def _containers(args: argparse.Namespace, pod: dict[str, Any]) -> list[str]:
    """The containers whose logs are read: the one that the arguments name, else all, those that failed first."""
    if args.container:
        return [args.container]
    status = pod.get("status", {})
    statuses = [item for key in ("initContainerStatuses", "containerStatuses") for item in status.get(key) or []]
    failed = [
        state["name"] for state in statuses if state.get("restartCount") or "terminated" in (state.get("state") or {})
    ]
    return [*dict.fromkeys((*failed, *(state["name"] for state in statuses)))]


def _logs(client: Client, pod: dict[str, Any], containers: Sequence[str]) -> Iterator[str]:
    """The log of each container's run before this one, then of this one; a note if the caller may not read them."""
    from podfit.cluster import objects
    from podfit.cluster.access import StatusError

    for container in containers:
        for previous in (True, False):
            try:
                text = objects.log(client, pod, container, MAX_INPUT_BYTES, previous=previous)
            except StatusError as error:
                if error.code in (401, 403):
                    edge.tell(f"note: the logs are not read: {error}")
                    return
                continue  # no run before this one, or the container waits to be started
            except OSError:
                continue
            if text and not text.startswith(_LOST):
                yield text
