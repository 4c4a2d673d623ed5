"""`podfit doctor`: is podfit well in its cluster, and if not, what to do next."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from podfit import __version__
from podfit.base.printable import one_line
from podfit.cli import off
from podfit.cli.support import terminal, user_cluster
from podfit.cli.support.edge import UnusableError
from podfit.evaluation.subject import PROBE_POD
from podfit.server import registration

if TYPE_CHECKING:
    from podfit.cluster.access import Client
    from podfit.server.doctor import CheckResult, Observed, Served, Unseen

T = TypeVar("T")
JSON = Mapping[str, Any]
COLOURS = {"ok": "32", "warn": "33", "fail": "31"}
CONNECT_TIMEOUT = 5.0
"""Seconds that a handshake may take."""
MAX_ANSWER_BYTES = 64 << 20
MAX_PAGES = 20
"""Pages that are read to see the images of running Pods; a page has 250 Pods."""
DOOMED: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": PROBE_POD},
    "spec": {
        "containers": [
            {
                "name": "vllm",
                "image": "vllm/vllm-openai:v0.11.0",
                "args": ["--model", "facebook/opt-125m", "--no-flag-of-vllm"],
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ]
    },
}
"""A Pod that every policy that denies anything denies (unknown-flag)."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "doctor",
        help="check the installation in the cluster, and suggest fixes",
        description="Checks podfit from outside, with your permissions, and changes nothing. Checks webhook "
        "configurations, certificates, replicas, policies and versions. Sends a faulty Pod as a dry run to see if the "
        "API server reaches podfit. Counts objects that passed unchecked. Lists clients that can call podfit, and "
        "other webhooks that change Pods.",
        epilog="examples: podfit doctor\n"
        "          podfit doctor -n podfit-system --format json\n"
        "exit codes: 0 no check fails (warnings allowed, also for objects that you may not read). 1 a check fails.\n"
        "            2 usage. 3 the cluster can't be reached, or you may read nothing of podfit.",
    )
    off.add_arguments(parser)
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="of podfit; default: that of the Service in its configurations"
    )
    parser.add_argument(
        "--probe-namespace", default="default", metavar="NAME", help="where the dry run is tried (default: default)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(args: argparse.Namespace) -> int:
    """Returns 0, 1 if a check fails, 3 if the user may read nothing of podfit."""
    from podfit.server import doctor

    with user_cluster.client(args) as client:
        try:
            observed = observe(client, args, _progress)
        finally:
            _progress("")
    lines = doctor.examine(observed, __version__)
    code = 1 if any(line.state == "fail" for line in lines) else 3 if observed.nothing else 0
    print(_json(lines, code == 0) if args.format == "json" else _text(lines, terminal.colors()), end="")
    return code


def _progress(at: str) -> None:
    """One line of a terminal, written over and in the end taken away."""
    if sys.stderr.isatty():
        print(f"\r\033[Klooking at {at} …" if at else "\r\033[K", end="", file=sys.stderr, flush=True)


def _text(lines: list[CheckResult], colour: bool) -> str:
    """A line for each check, with its remedy below, and a line with their counts."""
    width = max(len(line.about) for line in lines)
    texts = []
    for line in lines:
        word = f"{line.state:<4}"
        word = f"\033[{COLOURS[line.state]}m{word}\033[0m" if colour else word
        texts.append(f"{word}  {line.about:<{width}}  {one_line(line.text)}")
        if line.next:
            texts.append(f"{'':{width + 6}}  → {one_line(line.next)}")
    count = {state: sum(line.state == state for line in lines) for state in COLOURS}
    words = [f"{number} {word}{'' if number == 1 or word == 'ok' else 's'}" for word, number in zip(
        ("ok", "warning", "failure"), count.values(), strict=True
    )]  # fmt: skip
    texts.append(f"\n{', '.join(words)}")
    return "\n".join(texts) + "\n"


def _json(lines: list[CheckResult], ok: bool) -> str:
    return json.dumps({"ok": ok, "checks": [_tree(line) for line in lines]}, indent=2, ensure_ascii=False) + "\n"


def _tree(line: CheckResult) -> dict[str, object]:
    """Return a check as JSON has it: its text is `said`."""
    return {"said" if name == "text" else name: value for name, value in asdict(line).items()}


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def observe(client: Client, args: argparse.Namespace, tell: Callable[[str], None]) -> Observed:
    """Everything that can be seen of an installation; raises UnusableError if the API server can't be reached. What
    must not be read is `Unseen`. `tell` gets the progress: a request that hangs takes seconds. The metrics are read
    before and after the dry run, which they count."""
    from podfit.server import doctor

    tell("webhook configurations")
    own = _own(client, args.name)
    entries = {kind: configuration for kind, configuration in own.items() if isinstance(configuration, Mapping)}
    hooks = list(doctor.hooks(entries))
    service: JSON = next((hook["clientConfig"]["service"] for hook in hooks if "service" in hook["clientConfig"]), {})
    namespace = args.namespace or service.get("namespace")
    name = args.name or next((value["metadata"]["name"] for value in entries.values()), "podfit")
    unseen = any(isinstance(value, doctor.Unseen) for value in own.values())
    pods: tuple[JSON, ...] | Unseen = ()
    network_policies: tuple[JSON, ...] | Unseen = ()
    deployment: JSON | Unseen | None = doctor.Unseen("in which namespace? -n NAMESPACE") if unseen else None
    if namespace:
        where = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        deployment = _none_if_missing(_or_unseen(lambda: client.get_unreduced(where)))
        pods_path = f"/api/v1/namespaces/{namespace}/pods?{_selector(deployment)}"
        pods = _or_unseen(lambda: tuple(client.get_unreduced(pods_path)["items"]))
        limits = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
        network_policies = _or_unseen(lambda: tuple(client.get_unreduced(limits)["items"]))
    before = _or_unseen(lambda: client.text("/metrics", {}, MAX_ANSWER_BYTES))
    tell("a dry run of a faulty Pod")
    answer = _dry_run_answer(client, args.probe_namespace) if entries or unseen else ""
    tell("replicas and certificates")
    group = "/apis/podfit.dev/v1alpha1/policies"
    crd = _or_unseen(
        lambda: client.get_unreduced("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/policies.podfit.dev")
    )
    return doctor.Observed(
        now=datetime.now(UTC),
        configurations=own,
        mutators=_or_unseen(
            lambda: tuple(
                client.get_unreduced(f"{registration.ROOT}/{registration.WEBHOOK_CONFIGURATIONS[1]}")["items"]
            )
        ),
        deployment=deployment,
        pods=pods,
        network_policies=network_policies,
        ready=_ready(client, namespace, pods) if not isinstance(pods, doctor.Unseen) else {},
        served=_served(hooks),
        metrics=_or_unseen(lambda: client.text("/metrics", {}, MAX_ANSWER_BYTES)),
        before=before,
        answer=answer,
        crd=_none_if_missing(crd),
        policies=_or_unseen(lambda: tuple(client.get_unreduced(group)["items"])) if isinstance(crd, Mapping) else (),
        version=_version(client),
        images=_or_unseen(lambda: _images(client)),
    )


def _own(client: Client, name: str | None) -> dict[str, JSON | Unseen | None]:
    """Kind → podfit's own configuration, or Unseen if the API server forbids reading it.

    Raises UnusableError if the API server does not answer, or if there are configurations of several releases."""
    from podfit.cluster.access import StatusError
    from podfit.server.doctor import Unseen

    paths: list[str] = []
    own: dict[str, JSON | Unseen | None] = dict.fromkeys(registration.WEBHOOK_CONFIGURATIONS)
    for kind in registration.WEBHOOK_CONFIGURATIONS:
        try:
            paths += off.configuration_paths(client, kind, name)
        except StatusError as error:
            own[kind] = Unseen(one_line(str(error)))
            if name:  # who may not list them may still get the one
                paths.append(f"{registration.ROOT}/{kind}/{name}")
        except OSError as error:
            raise UnusableError(f"{kind} can't be listed: {error}", 3) from error
    for path in off.of_one_release(paths):
        own[path.split("/")[-2]] = _none_if_missing(_or_unseen(partial(client.get_unreduced, path)))
    return own


def _or_unseen(look: Callable[[], T]) -> T | Unseen:
    """The result of `look`, or why it could not be had."""
    from podfit.cluster.access import StatusError
    from podfit.server.doctor import Unseen

    try:
        return look()
    except (StatusError, OSError, ValueError, KeyError) as error:
        return Unseen(one_line(str(error)))


def _none_if_missing(observation: T | Unseen) -> T | Unseen | None:
    from podfit.server.doctor import Unseen

    return None if isinstance(observation, Unseen) and observation.why.startswith("404:") else observation


def _selector(deployment: JSON | Unseen | None) -> str:
    """The label selector of the Deployment's Pods; the chart's name if the Deployment can't be read."""
    from urllib.parse import urlencode

    entries = deployment if isinstance(deployment, Mapping) else {}
    labels = ((entries.get("spec") or {}).get("selector") or {}).get("matchLabels") or {
        "app.kubernetes.io/name": "podfit"
    }
    return urlencode({"labelSelector": ",".join(f"{key}={value}" for key, value in labels.items())})


def _version(client: Client) -> str:
    version = _or_unseen(lambda: client.get_unreduced("/version")["gitVersion"])
    return version if isinstance(version, str) else ""


def _images(client: Client) -> frozenset[str]:
    """The images of running Pods, of as many as `MAX_PAGES` hold."""
    from podfit.cluster.listing import pages

    items = pages(client, "/api/v1/pods", {"fieldSelector": "status.phase=Running"})
    return frozenset(
        str(container.get("image"))
        for page in islice(items, MAX_PAGES)
        for pod in page
        for container in pod["spec"]["containers"]
    )


def _ready(client: Client, namespace: str | None, pods: tuple[JSON, ...]) -> dict[str, tuple[str, ...] | Unseen]:
    """Each running replica's /readyz, through the API server, which has to reach it for reviews, too."""
    entries: dict[str, tuple[str, ...] | Unseen] = {}
    for pod in pods:
        name = pod["metadata"]["name"]
        ports = [
            port
            for item in pod["spec"]["containers"]
            for port in item.get("ports") or ()
            if port.get("name") == "https"
        ]
        if not ports or (pod.get("status") or {}).get("phase") != "Running":
            continue
        path = f"/api/v1/namespaces/{namespace}/pods/https:{name}:{ports[0]['containerPort']}/proxy/readyz"

        def look(path: str = path) -> tuple[str, ...]:
            return tuple(client.text(path, {}, MAX_ANSWER_BYTES).splitlines())

        entries[name] = _or_unseen(look)
    return entries


def _dry_run_answer(client: Client, namespace: str) -> str | Unseen:
    """Applies a faulty Pod as a dry run; returns the API server's message, empty if the Pod passes."""
    from podfit.cluster.access import StatusError
    from podfit.server.doctor import Unseen

    try:
        client.apply(f"/api/v1/namespaces/{namespace}/pods/{PROBE_POD}", DOOMED, dry_run="All")
    except StatusError as error:
        text = str(error)
        return text if "webhook" in text else Unseen(one_line(text))
    except OSError as error:
        return Unseen(one_line(str(error)))
    return ""


def _served(hooks: list[JSON]) -> tuple[Served, ...]:
    """Handshakes with every address that this machine can reach; a Service's name resolves in the cluster alone."""
    import socket

    from podfit.server.certs import renewal

    entries: dict[tuple[str, int, frozenset[bytes]], Served] = {}
    for hook in hooks:
        client = hook["clientConfig"]
        if url := client.get("url"):
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or 443
        else:
            service = client["service"]
            host, port = f"{service['name']}.{service['namespace']}.svc", int(service.get("port", 443))
            try:
                socket.getaddrinfo(host, port)
            except OSError:
                continue
        cas = frozenset(renewal.bundle_of(hook)) - {renewal.BROKEN}
        if cas and (host, port, cas) not in entries:
            entries[host, port, cas] = _handshake(host, port, cas)
    return tuple(entries.values())


def _handshake(host: str, port: int, cas: frozenset[bytes]) -> Served:
    """The certificate of an address, and why the webhook's CAs do not verify it."""
    import socket
    import ssl

    from podfit.cluster.configuration import in_words
    from podfit.server.doctor import Served

    where, problem, certificate = f"{host}:{port}", "", b""
    strict = ssl.create_default_context(cadata=b"".join(cas).decode())
    lenient = ssl.create_default_context()
    lenient.check_hostname, lenient.verify_mode = False, ssl.CERT_NONE  # only to see what is served
    for context in (lenient, strict):
        try:
            with (
                socket.create_connection((host, port), CONNECT_TIMEOUT) as near,
                context.wrap_socket(near, server_hostname=host) as tls,
            ):
                der = tls.getpeercert(binary_form=True)
                with suppress(ValueError):
                    certificate = ssl.DER_cert_to_PEM_cert(der or b"").encode()
        except ssl.SSLCertVerificationError as error:
            problem = f"the caBundle does not verify its certificate: {error.verify_message}"
        except OSError as error:
            return Served(where, b"", f"no TLS handshake: {in_words(error)}")
    return Served(where, certificate, problem)
