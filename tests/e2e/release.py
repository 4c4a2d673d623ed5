"""podfit as the chart installs it, with two differences: the server runs on this machine, so the API server gets its
URL instead of a Service; and it enforces. Rules, conditions, timeouts and arguments are the chart's own."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from podfit.server import certs
from tests.conftest import GOOD_POD
from tests.e2e.controlplane import HOST, READER, Cluster, fetch
from tests.e2e.process import kill, start, tail, until

JSONDict = dict[str, Any]
ROOT = Path(__file__).parents[2]
SOURCES = f"{ROOT / 'webhook'}{os.pathsep}{ROOT}"
"""The Python path of what runs as a process: this checkout, whatever is installed."""
OWN = "podfit-system"
LABEL = "podfit"
"""A namespace's label: which release evaluates it."""
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@dataclass(frozen=True)
class Podfit:
    """A running server that the API server asks."""

    name: str
    cluster: Cluster
    process: subprocess.Popen[bytes]
    port: int
    log: Path
    webhooks: tuple[JSONDict, ...]
    """The two configurations, as they are registered."""
    beside: Callable[[Podfit], Podfit]
    """Starts another replica, which the API server does not ask; it ends with this one."""
    secret: str = ""
    """Where it keeps its certificates, if it does so itself."""

    @property
    def ca(self) -> Path:
        """The CAs that it is trusted by now."""
        path = self.log.parent / "tls" / "ca.crt"
        if self.secret:
            path.write_bytes(base64.b64decode(secret_of(self)["ca.crt"]))
        return path

    def reviews(self, **labels: str) -> int:
        """How many reviews with these labels (webhook, operation, kind, decision, dry_run) the server has answered."""
        return self._sum("podfit_reviews_total", labels)

    def findings(self, **labels: str) -> int:
        """How many findings with these labels (rule, mode) the validating webhook has had."""
        return self._sum("podfit_findings_total", labels)

    def _sum(self, name: str, labels: dict[str, str]) -> int:
        status, text = fetch(f"https://{HOST}:{self.port}/metrics", self.ca)
        assert status == 200, text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        assert any(sample.name.startswith("podfit_") for sample in samples)
        return int(sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items()))

    def ready(self) -> tuple[int, list[str]]:
        """What /readyz answers: status and lines."""
        try:
            status, text = fetch(f"https://{HOST}:{self.port}/readyz", self.ca)
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read().decode()
        return status, text.splitlines()

    def said(self, since: int = 0) -> str:
        """The server's log lines, from that place on."""
        return self.log.read_bytes()[since:].decode(errors="replace")

    def gone(self) -> None:
        """Ends the server; the API server still knows its webhooks."""
        kill(self.process)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The server takes connections and answers nothing, until the block ends."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.process.pid, signal.SIGCONT)


def secret_of(podfit: Podfit) -> dict[str, str]:
    """What the Secret with its certificates holds; nothing where there is none."""
    status, answer = podfit.cluster.call("GET", f"/api/v1/namespaces/{OWN}/secrets/{podfit.secret}")
    return (answer.get("data") or {}) if status == 200 else {}


def fetch_ready(podfit: Podfit) -> str:
    """What /readyz says, ready or not."""
    return "\n".join(podfit.ready()[1])


def render(helm: str, name: str, label: str, values: JSONDict) -> list[JSONDict]:
    """The chart's objects, for the namespaces with that label."""
    values = {"image": {"repository": "registry.example.com/podfit"}, **deepcopy(values)}
    values.setdefault("webhooks", {})["namespaceSelector"] = {"matchLabels": {LABEL: label}}
    bundle = "-----BEGIN CERTIFICATE-----\nofTheRelease\n-----END CERTIFICATE-----\n"  # the server's comes with its URL
    spec = values.setdefault("policy", {}).setdefault("spec", {})
    spec["enforce"] = {"mode": "deny", **spec.get("enforce", {})}
    values.setdefault("certificates", {"mode": "files", "secret": f"{name}-tls", "caBundle": bundle})
    command = [helm, "template", name, str(ROOT / "charts" / "podfit"), "--namespace", OWN]
    command += ["--kube-version", "1.34", "--values", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"$ {shlex.join(command)}\n{done.stderr}"
    return [obj for obj in yaml.safe_load_all(done.stdout) if obj]


@contextmanager
def installed(
    cluster: Cluster,
    name: str,
    values: JSONDict | None = None,
    change: Callable[[JSONDict], None] = lambda webhook: None,
    program: tuple[str, ...] = ("-m", "podfit.cli"),
    label: str | None = None,
    reads: bool = False,
    arguments: tuple[str, ...] = (),
) -> Iterator[Podfit]:
    """Runs a server and registers its webhooks until the block ends.

    `values` are the chart's; `change` is called with each webhook before it is registered; `program` is what Python
    runs as the server; `label` selects the namespaces (default: the release's name). `reads`: the server reads the
    cluster, with the rights that the chart gives it, and evaluates Policy objects. (Of all servers of a session, only
    such a one does: no label keeps a webhook from objects without a namespace.) `arguments` come after the chart's.
    The certificate is a file's, unless `values` have certificates.mode self.
    """
    label = label or name
    objects = render(cluster.helm, name, label, values or {})
    folder = cluster.root / name
    (folder / "tls").mkdir(parents=True)
    certs.write(folder / "tls", [HOST])
    with ExitStack() as stack:
        kept = [obj for obj in objects if obj["kind"] == "Secret"]
        rights = [*arguments, *(_grant(cluster, name, objects) if reads or kept else [])]
        rights += [*([] if reads or not kept else ["--watch=none"]), *([f"--host={HOST}"] if kept else [])]
        process, log = serve(objects, folder, program, rights)
        stack.callback(kill, process)
        port = until("podfit to serve", lambda: port_of(process, log), lambda: tail(log))
        webhooks = tuple(obj for obj in objects if obj["kind"].endswith("WebhookConfiguration"))
        for configuration in webhooks:
            if not reads:
                configuration["webhooks"] = [
                    hook for hook in configuration["webhooks"] if hook["name"] != "policies.podfit.dev"
                ]
            _to_url(configuration, port, None if kept else (folder / "tls" / "ca.crt").read_bytes())
            for webhook in configuration["webhooks"]:
                change(webhook)
            path = f"{REGISTRATION}/{configuration['kind'].lower()}s"
            status, answer = cluster.call("POST", path, configuration)
            assert status == 201, answer
            stack.callback(cluster.call, "DELETE", f"{path}/{configuration['metadata']['name']}")

        def beside(first: Podfit) -> Podfit:
            name = f"replica-{len(list(folder.glob('replica-*')))}.log"
            process, log = serve(objects, folder, program, rights, name)
            stack.callback(kill, process)
            port = until("the replica to serve", lambda: port_of(process, log), lambda: tail(log))
            return replace(first, process=process, port=port, log=log)

        secret = kept[0]["metadata"]["name"] if kept else ""
        podfit = Podfit(name, cluster, process, port, log, webhooks, beside, secret)
        if kept:
            until("podfit to keep its certificates", lambda: secret_of(podfit).get("tls.crt"), lambda: tail(log))
            until("podfit to serve its certificate", lambda: "serving the certificate" in podfit.said(), podfit.said)
        if reads:  # it enforces nothing before it has read the Policy objects
            until("podfit to be ready", lambda: podfit.ready()[0] == 200, lambda: "\n".join(podfit.ready()[1]))
        make_namespace(cluster, f"{name}-probe", label)
        until("the API server to ask podfit", lambda: is_asked(podfit), lambda: tail(log))
        yield podfit


def make_namespace(cluster: Cluster, name: str, release: str) -> None:
    """A namespace that a release evaluates, with what a Pod needs in it."""
    metadata = {"name": name, "labels": {LABEL: release}}
    status, answer = cluster.call("POST", "/api/v1/namespaces", {"metadata": metadata})
    assert status == 201, answer
    # The controller manager makes it, too, but later, and an API server rejects Pods until it is there.
    account = {"metadata": {"name": "default"}}
    status, answer = cluster.call("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
    assert status in (201, 409), answer


def _grant(cluster: Cluster, name: str, objects: list[JSONDict]) -> list[str]:
    """The chart's CRD and roles, for a user instead of a service account; the server's arguments to be that user."""
    kinds = {
        "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/roles",
        "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/rolebindings",
        "Secret": f"/api/v1/namespaces/{OWN}/secrets",
    }
    make_own_namespace(cluster)
    for obj in objects:
        if path := kinds.get(obj["kind"]):
            if "subjects" in obj:
                obj["subjects"] = [{"kind": "User", "name": READER, "apiGroup": "rbac.authorization.k8s.io"}]
            status, answer = cluster.call("POST", path, obj)
            assert status in (201, 409), answer
    policies = "/apis/podfit.dev/v1alpha1/policies"
    until("the API server to know Policy objects", lambda: cluster.call("GET", policies)[0] == 200)
    return [f"--kubeconfig={cluster.kubeconfig(OWN, READER)}"]


def make_own_namespace(cluster: Cluster) -> None:
    """The namespace for which the chart is rendered."""
    status, answer = cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": OWN}})
    assert status in (201, 409), answer


def serve(
    objects: list[JSONDict],
    folder: Path,
    program: tuple[str, ...],
    more: Sequence[str] = (),
    name: str = "podfit.log",
) -> tuple[subprocess.Popen[bytes], Path]:
    """The server with the chart's arguments; what they name of the Pod's files lies in `folder`."""
    for obj in objects:
        if obj["kind"] == "ConfigMap":
            part = folder / obj["metadata"]["name"].rpartition("-")[2]
            part.mkdir(exist_ok=True)
            for file, text in obj["data"].items():
                (part / file).write_text(text)
    (deployment,) = [obj for obj in objects if obj["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [word.replace("/etc/podfit/", f"{folder}/") for word in container["args"]]
    arguments = [f"--bind={HOST}:0" if word.startswith("--bind=") else word for word in arguments]
    arguments += more
    log = folder / name
    env = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": SOURCES}
    return start([sys.executable, *program, *arguments], log, env), log


def port_of(process: subprocess.Popen[bytes], log: Path) -> int | None:
    """The port on which the server listens; None until it does."""
    if process.poll() is not None:
        raise RuntimeError(f"podfit ended\n{tail(log)}")
    serves = re.search(r"serving on https://127\.0\.0\.1:(\d+)", log.read_text())
    return int(serves[1]) if serves else None


def _to_url(configuration: JSONDict, port: int, ca: bytes | None) -> None:
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {"url": f"https://{HOST}:{port}{path}"}
        if ca is not None:
            webhook["clientConfig"]["caBundle"] = base64.b64encode(ca).decode()


def is_asked(podfit: Podfit) -> bool:
    """Whether the API server follows the configurations already: it does so a moment after they were registered."""
    path = f"/api/v1/namespaces/{podfit.name}-probe/pods?dryRun=All"
    podfit.cluster.call("POST", path, GOOD_POD | {"metadata": {"name": "probe"}})
    wanted = {
        "mutate" if configuration["kind"].startswith("Mutating") else "validate" for configuration in podfit.webhooks
    }
    return all(podfit.reviews(webhook=webhook) for webhook in wanted)
