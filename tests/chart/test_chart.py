"""The Helm chart: what it renders holds together, and with the server that it runs."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from podfit.cli import parser
from podfit.cli.doctor import _selector
from podfit.cli.support import edge
from podfit.cli.support.edge import UnusableError
from podfit.cluster.scanning import ALSO_LISTED
from podfit.evaluation.policy import Subject, Terms, builtin, load
from podfit.evaluation.policy.crd import definition
from podfit.evaluation.scan import BETWEEN
from podfit.kube.snapshot import WATCHED_BY_DEFAULT, WATCHED_KINDS
from podfit.kube.workload.controller import BUILT_IN_GROUPS
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.report.policy_report import APIS
from podfit.server import certs, registration
from podfit.server.app import create_app
from podfit.server.doctor import Observed, examine
from podfit.server.metrics import Metrics
from podfit.vllm.facts import Facts
from podfit.vllm.gpu.resource import GPU_RESOURCE
from tests.asgi import Client
from tests.e2e import binaries

JSONDict = dict[str, Any]
CHART = Path(__file__).parents[2] / "charts" / "podfit"
CA = certs.issue_ca(datetime(2026, 1, 1, tzinfo=UTC)).certificate.decode()
KUBERNETES = "1.34"
"""What the chart is rendered for: a helm built without its release's settings believes in 1.20."""


HELM = binaries.tool("helm")
pytestmark = pytest.mark.skipif(
    HELM is None,
    reason="no Helm: put it on PATH, name it in $HELM, or `python -m tests.e2e.binaries helm`",
)


def with_image(values: JSONDict) -> JSONDict:
    """The values with the one that has no default."""
    return {**values, "image": {"repository": "registry.example.com/podfit", **values.get("image", {})}}


def helm(*arguments: str, values: JSONDict | None = None) -> subprocess.CompletedProcess[str]:
    """Runs helm with these values over the chart's own."""
    command = [str(HELM), *arguments, "--values", "-"]
    return subprocess.run(
        command, input=json.dumps(with_image(values or {})), capture_output=True, text=True, check=False
    )


def render(**values: Any) -> list[JSONDict]:
    """The objects that the chart renders with these values, as `kubectl` would get them; rendered once a session."""
    objects: list[JSONDict] = json.loads(_rendered(json.dumps(values)))
    return objects


@cache
def _rendered(values: str) -> str:
    return json.dumps([obj for obj in yaml.load_all(_template(values), yaml.CSafeLoader) if obj])


def _template(values: str) -> str:
    command = ("template", "podfit", str(CHART), "--namespace", "podfit-system", "--kube-version", KUBERNETES)
    done = helm(*command, values=json.loads(values))
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(kubernetes: str = KUBERNETES, **values: Any) -> str:
    """What helm prints for values that it rejects."""
    done = helm("template", "podfit", str(CHART), "--kube-version", kubernetes, values=values)
    assert done.returncode != 0
    return done.stderr


def only(objects: list[JSONDict], kind: str) -> JSONDict:
    (found,) = [obj for obj in objects if obj["kind"] == kind]
    return found


def of_podfit(objects: list[JSONDict]) -> list[JSONDict]:
    """The objects without the ClusterRole that adds to `view`, which no account of podfit has."""
    return [obj for obj in objects if obj["metadata"]["name"] != "podfit-view"]


@pytest.fixture(name="chart", scope="module")
def _chart() -> list[JSONDict]:
    """The chart with its own values."""
    return render()


def pod(objects: list[JSONDict]) -> JSONDict:
    """The server's PodSpec."""
    spec: JSONDict = only(objects, "Deployment")["spec"]["template"]["spec"]
    return spec


def container(objects: list[JSONDict]) -> JSONDict:
    (found,) = pod(objects)["containers"]
    assert isinstance(found, dict)
    return found


def webhooks(objects: list[JSONDict], kind: str | None = None) -> list[JSONDict]:
    """The webhooks of one or both configurations."""
    kinds = [kind] if kind else ["Validating", "Mutating"]
    wanted = {f"{name}WebhookConfiguration" for name in kinds}
    return [hook for obj in objects if obj["kind"] in wanted for hook in obj["webhooks"]]


def configurations(objects: list[JSONDict]) -> list[JSONDict]:
    """Both webhook configurations."""
    return [obj for obj in objects if obj["kind"].endswith("WebhookConfiguration")]


VARIANTS: dict[str, JSONDict] = {
    "default": {},
    "cert-manager": {"certificates": {"mode": "cert-manager"}},
    "an issuer of the cluster": {
        "certificates": {"mode": "cert-manager", "issuerRef": {"kind": "ClusterIssuer", "name": "ca"}}
    },
    "a Secret of one's own": {"certificates": {"mode": "files", "secret": "mine", "caBundle": CA}},
    "a closed network": {
        "networkPolicy": {
            "from": [{"ipBlock": {"cidr": "10.0.0.0/28"}}],
            "egress": [{"ports": [{"port": 443}, {"port": 53, "protocol": "UDP"}]}],
        }
    },
    "one replica and no frills": {
        "replicaCount": 1,
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "webhooks": {"mutating": False},
        "watch": dict.fromkeys((kind.name for kind in WATCHED_KINDS), False),
    },
    "models on a volume": {"modelsVolume": {"configMap": {"name": "our-models"}}},
    "upgraded with --reuse-values": {"facts": {"image": "", "pullPolicy": "IfNotPresent"}},
    "all that is optional": {
        "port": 10250,
        "service": {"port": 8443},
        "hostNetwork": True,
        "threads": 8,
        "certificates": {"lifetime": "12h", "caLifetime": "3d", "clientCA": "front-proxy"},
        "models": {"my-org/my-model": '{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32}'},
        "policy": {"spec": {"mutate": {"workloads": True}}},
        "webhooks": {"failurePolicy": "Fail", "namespaceSelector": {"matchLabels": {"podfit": "on"}}},
        "image": {"digest": "sha256:" + "0" * 64},
        "imagePullSecrets": [{"name": "registry"}],
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "serviceAccount": {"name": "other", "annotations": {"e": "f"}},
        "monitoring": {
            "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "15s"},
            "dashboard": {"enabled": True},
        },
    },
}


@pytest.mark.parametrize(
    "facts", [{"image": "registry.example.com/facts@sha256:" + "0" * 64}, {"pullPolicy": "Always"}]
)
def test_values_of_facts_fail_with_what_replaces_them(facts: dict[str, str]) -> None:
    assert "For newer facts set image.tag or image.digest to a newer podfit" in refused(facts=facts)


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_lint_has_nothing_to_say(variant: str) -> None:
    done = helm("lint", str(CHART), "--strict", "--quiet", "--kube-version", KUBERNETES, values=VARIANTS[variant])

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_server_takes_its_arguments_and_finds_its_files(variant: str) -> None:
    objects = render(**VARIANTS[variant])
    server = container(objects)

    args = parser().parse_args(server["args"])

    mounts = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod(objects)["volumes"]}
    assert args.command == "serve"
    if args.certificate_secret:
        assert args.certificate_secret == only(objects, "Secret")["metadata"]["name"]
        assert {args.webhook_configurations} == {obj["metadata"]["name"] for obj in configurations(objects)}
        assert f"{only(objects, 'Service')['metadata']['name']}.podfit-system.svc" in args.host
    else:
        assert {str(args.cert.parent), str(args.key.parent)} == {mounts["tls"]}
    assert (str(args.client_ca.parent) if args.client_ca else None) == mounts.get("client-ca")
    assert [str(Path(name).parent) for name in args.policy] == [mounts["policy"]]
    assert (str(args.models) if args.models else None) == mounts.get("models")
    assert args.bind == f":{server['ports'][0]['containerPort']}"


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_api_server_finds_the_server(variant: str) -> None:
    """Webhook → Service → container port, and every path is one that the server answers."""
    objects = render(**VARIANTS[variant])
    service, server = only(objects, "Service"), container(objects)
    (port,) = service["spec"]["ports"]
    asked = Client(create_app(builtin(), Facts(), Metrics("", "", "")))

    for hook in webhooks(objects):
        client = hook["clientConfig"]["service"]
        assert (client["name"], client["namespace"]) == (service["metadata"]["name"], service["metadata"]["namespace"])
        assert client["port"] == port["port"]
        assert asked.post(client["path"], content_type=None).status_code == 415, "it is there, and asks for JSON"
    assert port["targetPort"] in [named["name"] for named in server["ports"]]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        get = server[probe]["httpGet"]
        assert asked.get(get["path"]).status_code == 200
        assert (get["port"], get["scheme"]) == (port["targetPort"], "HTTPS")


def test_podfit_off_finds_the_configurations_and_the_doctor_the_replicas_under_any_name() -> None:
    objects = render(nameOverride="judge", fullnameOverride="the-judge")

    assert all(registration.is_ours(obj) for obj in configurations(objects))
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    (chosen,) = parse_qs(_selector(only(objects, "Deployment")))["labelSelector"]
    assert dict(word.split("=") for word in chosen.split(",")).items() <= labels.items()


def test_podfit_alone_writes_its_secret_and_the_ca_bundle(chart: list[JSONDict]) -> None:
    """What the chart does not render, no upgrade takes away; what it renders empty, an uninstall does."""
    assert "data" not in only(chart, "Secret")
    assert all("caBundle" not in hook["clientConfig"] for hook in webhooks(chart))
    assert not any("annotations" in obj["metadata"] for obj in configurations(chart))
    assert "tls" not in {volume["name"] for volume in pod(chart)["volumes"]}


def test_podfit_may_write_its_own_secret_and_its_own_configurations_and_no_other(chart: list[JSONDict]) -> None:
    written = [
        (resource, rule.get("resourceNames"), rule["verbs"])
        for kind in ("ClusterRole", "Role")
        for rule in only(of_podfit(chart), kind)["rules"]
        for resource in rule["resources"]
        if set(rule["verbs"]) - {"list", "watch"} and resource != "policies/status"
    ]

    assert written == [
        ("validatingwebhookconfigurations", ["podfit"], ["get", "update"]),
        ("mutatingwebhookconfigurations", ["podfit"], ["get", "update"]),
        ("secrets", ["podfit-certificates"], ["get", "update"]),
        ("secrets", None, ["create"]),
    ]
    objects = render(certificates={"mode": "cert-manager"})
    asked = [
        name
        for kind in ("ClusterRole", "Role")
        for rule in only(of_podfit(objects), kind)["rules"]
        for name in rule["resources"]
    ]
    assert not [name for name in asked if name == "secrets" or name.endswith("webhookconfigurations")]


def test_with_cert_manager_the_injector_alone_owns_the_ca_bundle() -> None:
    objects = render(certificates={"mode": "cert-manager"})
    certificate = only(objects, "Certificate")
    (volume,) = [volume for volume in pod(objects)["volumes"] if volume["name"] == "tls"]

    assert not [obj for obj in objects if obj["kind"] == "Secret"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    assert "podfit.podfit-system.svc" in certificate["spec"]["dnsNames"]
    assert all("caBundle" not in hook["clientConfig"] for hook in webhooks(objects))
    injected = f"podfit-system/{certificate['metadata']['name']}"
    for obj in objects:
        if obj["kind"].endswith("WebhookConfiguration"):
            assert obj["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": injected}


def test_the_policy_in_the_config_map_loads(chart: list[JSONDict]) -> None:
    policy = {"spec": {"rules": {"unpinned-image": {"mode": "deny"}}, "enforce": {"ownedPods": "deny"}}}
    default = load([("policy.yaml", only(chart, "ConfigMap")["data"]["policy.yaml"])])
    changed = load([("policy.yaml", only(render(policy=policy), "ConfigMap")["data"]["policy.yaml"])])

    assert default.base == replace(builtin().base, at_most="audit")
    assert changed.base.settings["unpinned-image"].mode == "deny"
    assert changed.base.owned_pods == "deny"


def test_the_charts_policy_only_observes_until_it_is_told_to_enforce(chart: list[JSONDict]) -> None:
    """As Kyverno's and Gatekeeper's charts, which install no policy: an installation denies and patches nothing."""
    terms = effective_terms(chart)
    enforced = effective_terms(render(policy={"spec": {"enforce": {"mode": "deny"}}}))
    chat = {"spec": {"match": {"namespaces": ["chat"]}, "enforce": {"mode": "deny"}, "order": 10}}
    raised = effective_terms(chart, {**CHAT_POLICY, **chat})
    first = {"metadata": {"name": "a"}, "spec": {"enforce": {"mode": "deny"}}}
    lowest = effective_terms(chart, {**CHAT_POLICY, **first})

    assert {terms.mode(rule) for rule in terms.settings} == {"audit"}
    assert not [rule for rule, one in terms.settings.items() if one.fix is True], "the webhook patches nothing"
    assert enforced == raised == lowest == builtin().of(POD), "the lowest layer, whatever a Policy object is called"


def test_the_config_map_with_the_policy_says_what_is_over_it(chart: list[JSONDict]) -> None:
    """By its label, commands find the policy in force."""
    labels = [only(one, "ConfigMap")["metadata"]["labels"] for one in (chart, render(watch={"policies": False}))]

    assert [one["podfit.dev/policy"] for one in labels] == ["with-policy-objects", "alone"]


CHAT_POLICY: JSONDict = {"apiVersion": "podfit.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "deny-chat"}}
POD = Subject("Pod", "", "chat", {})


def effective_terms(objects: list[JSONDict], *policies: JSONDict) -> Terms:
    """The terms of a Pod in the namespace chat, with the chart's policy and Policy objects over it."""
    texts = [only(objects, "ConfigMap")["data"]["policy.yaml"], *(yaml.safe_dump(one) for one in policies)]
    return load([(f"{number}.yaml", text) for number, text in enumerate(texts)]).of(POD)


def test_a_changed_policy_restarts_the_servers() -> None:
    def checksum(objects: list[JSONDict]) -> str:
        return str(only(objects, "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    assert checksum(render()) == checksum(render())
    assert checksum(render()) != checksum(render(policy={"spec": {"rules": {"unpinned-image": {"mode": "deny"}}}}))


def test_the_api_server_is_never_kept_waiting_and_passes_objects_when_podfit_is_away(chart: list[JSONDict]) -> None:
    for hook in webhooks(chart):
        assert hook["failurePolicy"] == "Ignore"
        assert hook["timeoutSeconds"] == 3
        assert hook["sideEffects"] == "None"
        assert hook["admissionReviewVersions"] == ["v1"]
        assert hook.get("matchConditions") or hook["name"] == "policies.podfit.dev"
        (names,) = hook["namespaceSelector"]["matchExpressions"]
        assert names["key"] == "kubernetes.io/metadata.name"
        assert names["operator"] == "NotIn"
        assert {"kube-system", "podfit-system"} <= set(names["values"])


def test_a_policy_object_passes_when_podfit_is_away_whatever_else_is_refused() -> None:
    hooks = webhooks(render(webhooks={"failurePolicy": "Fail"}), "Validating")

    assert {hook["name"]: hook["failurePolicy"] for hook in hooks}["policies.podfit.dev"] == "Ignore"


def test_the_custom_resource_comes_with_its_switch_and_stays(chart: list[JSONDict]) -> None:
    """Its removal deletes every Policy object of the cluster: Helm, Argo CD and Flux keep one that is not rendered."""
    crd = only(chart, "CustomResourceDefinition")
    off = render(watch={"policies": False})

    assert crd["metadata"]["name"] == "policies.podfit.dev"
    assert crd["metadata"]["labels"]["app.kubernetes.io/name"] == "podfit"
    assert crd["metadata"]["annotations"] == {
        "helm.sh/resource-policy": "keep",
        "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
        "kustomize.toolkit.fluxcd.io/prune": "disabled",
    }
    assert crd["spec"] == definition()["spec"]
    assert not [obj for obj in off if obj["kind"] == "CustomResourceDefinition"]
    assert "policies.podfit.dev" not in {hook["name"] for hook in webhooks(off)}


def test_no_rule_matches_more_than_it_must(chart: list[JSONDict]) -> None:
    for hook in webhooks(chart):
        for rule in hook["rules"]:
            assert "*" not in rule["apiGroups"]
            assert not any("*" in resource for resource in rule["resources"])
            assert {resource.partition("/")[2] for resource in rule["resources"]} <= {"", "resize"}
            assert set(rule["operations"]) <= {"CREATE", "UPDATE"}


def literal(chart: list[JSONDict], hook: str, condition: str, before: str) -> set[str]:
    """The list of texts that follows `before` in a condition of a webhook."""
    (found,) = [one for one in webhooks(chart, "Validating") if one["name"] == hook]
    (expression,) = [one["expression"] for one in found["matchConditions"] if one["name"] == condition]
    rest = expression.partition(before)[2]
    return set(json.loads(rest[: rest.index("]") + 1]))


def test_the_conditions_believe_the_controllers_that_the_server_believes(chart: list[JSONDict]) -> None:
    for hook in ("workloads.podfit.dev", "serving.podfit.dev"):
        assert literal(chart, hook, "has-no-controller", '.split("/")[0] in') == BUILT_IN_GROUPS


def test_the_conditions_know_the_vendors_that_the_server_knows(chart: list[JSONDict]) -> None:
    """Each alternative of the table's pattern begins with a vendor's domain."""
    vendors = {one.replace("\\", "") for one in re.findall(r"(?:^|\|)([a-z][\w.\\-]*)/", GPU_RESOURCE.pattern)}

    assert len(vendors) > 20
    for hook in ("workloads.podfit.dev", "pods.podfit.dev"):
        assert literal(chart, hook, "has-vllm", 'name.split("/")[0] in') == vendors


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, "warn"),
        ({"networkPolicy": {"enabled": False}}, "warn"),
        ({"networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/28"}}]}}, "ok"),
        ({"networkPolicy": {"from": [{"ipBlock": {"cidr": "10.0.0.0/28"}}]}, "hostNetwork": True}, "warn"),
        ({"certificates": {"clientCA": "front-proxy"}}, "ok"),
    ],
    ids=["by default", "without a policy", "some peers", "the host network", "a client CA"],
)
def test_the_doctor_tells_who_can_call_what_the_chart_installs(values: JSONDict, state: str) -> None:
    objects = render(**values)
    seen = Observed(
        now=datetime.now(UTC),
        configurations={
            kind: {"metadata": {"name": "podfit"}, "webhooks": []} for kind in registration.WEBHOOK_CONFIGURATIONS
        },
        deployment=only(objects, "Deployment"),
        network_policies=tuple(obj for obj in objects if obj["kind"] == "NetworkPolicy"),
    )

    (line,) = [line for line in examine(seen, "0.1.0") if line.about == "callers"]

    assert line.state == state
    assert ("every Pod can call podfit" in line.text) == (state == "warn")


def test_no_object_is_judged_by_two_webhooks(chart: list[JSONDict]) -> None:
    """An API server shows the user only the first denial that it gets."""
    for kind in ("Validating", "Mutating"):
        matched = [
            (group, resource)
            for hook in webhooks(chart, kind)
            for rule in hook["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        ]
        assert len(matched) == len(set(matched))


UNSENT = {("argoproj.io", "workflows")}
"""Each step that their controller writes into the object would be a review; what they are made of is sent."""


def test_every_kind_that_podfit_reads_is_sent(chart: list[JSONDict]) -> None:
    sent = {
        (group, resource)
        for hook in webhooks(chart, "Validating")
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    read = {(group, f"{kind.lower()}s") for group, kind in WORKLOAD_KINDS if group != "extensions"}  # gone since 1.16

    assert read - UNSENT | {("", "pods/resize"), ("podfit.dev", "policies")} == sent


def test_only_pods_are_patched_unless_the_policy_says_so(chart: list[JSONDict]) -> None:
    everything = render(policy={"spec": {"mutate": {"workloads": True}}})

    (pods,) = webhooks(chart, "Mutating")
    assert pods["rules"][0]["resources"] == ["pods"]
    assert pods["rules"][0]["operations"] == ["CREATE"]
    assert pods["reinvocationPolicy"] == "IfNeeded"
    assert {hook["name"] for hook in webhooks(everything, "Mutating")} == {
        "pods.podfit.dev", "workloads.podfit.dev", "serving.podfit.dev",
    }  # fmt: skip
    assert not webhooks(render(webhooks={"mutating": False}), "Mutating")


def test_the_pod_is_restricted_and_can_do_nothing_in_the_cluster(chart: list[JSONDict]) -> None:
    spec, server = pod(chart), container(chart)

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert server["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def rights(objects: list[JSONDict], kind: str) -> dict[tuple[str, str], list[str]]:
    """(API group, resource) → verbs, of all roles of a kind; what the certificate needs is not among them."""
    return {
        (group, resource): rule["verbs"]
        for obj in objects
        if obj["kind"] == kind
        for rule in obj["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if "resourceNames" not in rule and resource != "secrets"
    }


def test_the_rights_are_those_of_what_is_watched_by_default(chart: list[JSONDict]) -> None:
    wanted = {(kind.group, kind.name): kind for kind in WATCHED_KINDS if kind.name in WATCHED_BY_DEFAULT}
    whole, own = rights(chart, "ClusterRole"), rights(chart, "Role")

    assert whole.pop(("podfit.dev", "policies/status")) == ["get", "patch"]
    assert whole.keys() | own.keys() == wanted.keys()
    assert own.keys() == {key for key, kind in wanted.items() if kind.own_namespace}
    assert all(verbs == ["list", "watch"] for verbs in (*whole.values(), *own.values()))
    assert pod(chart)["automountServiceAccountToken"] is True
    (watched,) = [word for word in container(chart)["args"] if word.startswith("--watch=")]
    assert set(watched.removeprefix("--watch=").split(",")) == set(WATCHED_BY_DEFAULT)


def test_the_table_in_the_documentation_is_what_the_chart_grants() -> None:
    page = (CHART.parents[1] / "docs" / "security.md").read_text()
    text = page.partition("## Rights")[2].partition("\n## ")[0]
    rows = {cells[0].strip(" `"): [cell.strip() for cell in cells] for cells in (
        line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")
    )}  # fmt: skip

    assert rows.keys() == {kind.name for kind in WATCHED_KINDS}
    for kind in WATCHED_KINDS:
        assert rows[kind.name][2:4] == ["on" if kind.name in WATCHED_BY_DEFAULT else "off", "list, watch"]
        assert (rows[kind.name][4] == "the release's namespace") is kind.own_namespace


@pytest.mark.parametrize("name", [kind.name for kind in WATCHED_KINDS])
def test_each_kind_has_its_own_switch(name: str) -> None:
    objects = render(
        watch={kind.name: kind.name == name for kind in WATCHED_KINDS}, certificates={"mode": "cert-manager"}
    )
    (kind,) = [kind for kind in WATCHED_KINDS if kind.name == name]

    granted = {**rights(objects, "ClusterRole"), **rights(objects, "Role")}
    granted.pop(("podfit.dev", "policies/status"), None)
    assert granted.keys() == {(kind.group, name)}
    assert f"--watch={name}" in container(objects)["args"]
    bound = [obj["roleRef"]["kind"] for obj in objects if obj["kind"].endswith("RoleBinding")]
    assert bound == ["Role" if kind.own_namespace else "ClusterRole"]


def test_a_server_that_watches_nothing_has_no_rights_and_no_token() -> None:
    objects = render(watch={kind.name: False for kind in WATCHED_KINDS}, certificates={"mode": "cert-manager"})

    assert pod(objects)["automountServiceAccountToken"] is False
    assert not [obj for obj in objects if "Role" in obj["kind"]]
    assert "--watch=none" in container(objects)["args"]


def test_a_roll_out_or_a_drain_never_leaves_nobody_to_answer(chart: list[JSONDict]) -> None:
    spec = only(chart, "Deployment")["spec"]

    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert only(chart, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert container(chart)["lifecycle"]["preStop"]["sleep"]["seconds"] == 5
    assert "--drain=10" in container(chart)["args"]
    assert pod(chart)["terminationGracePeriodSeconds"] >= 5 + 10 + 10, "preStop, --drain, then the last answers"
    assert pod(chart)["topologySpreadConstraints"]


def test_without_an_image_nothing_is_rendered_and_one_sentence_says_why() -> None:
    told = refused(image={"repository": ""})

    assert "image.repository is not set: set it to the repository that podfit's image was pushed to, such as" in told
    assert len([line for line in told.splitlines() if "image" in line]) == 1


def test_openshift_may_set_the_user_and_the_group() -> None:
    """restricted-v2 denies a Pod that names a user outside of the namespace's range."""
    given = {"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}}
    objects = render(scan={"cronJob": {"enabled": True}}, **given)

    specs = [obj["spec"] for obj in objects if obj["kind"] in ("Deployment", "Job")]
    specs += [obj["spec"]["jobTemplate"]["spec"] for obj in objects if obj["kind"] == "CronJob"]
    contexts = [spec["template"]["spec"]["securityContext"] for spec in specs]
    assert len(contexts) == 3
    for context in contexts:
        assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_values_of_an_earlier_chart_keep_the_security_contexts(chart: list[JSONDict]) -> None:
    """`helm upgrade --reuse-values` gives no default for a value that the earlier chart did not have."""
    earlier = render(podSecurityContext=None, securityContext=None, revisionHistoryLimit=None)

    assert pod(earlier)["securityContext"] == pod(chart)["securityContext"]
    assert container(earlier)["securityContext"] == container(chart)["securityContext"]


def test_the_values_of_the_pods_and_the_service_are_rendered() -> None:
    zone = {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    own = {**zone, "labelSelector": {"matchLabels": {"a": "b"}}}
    objects = render(
        revisionHistoryLimit=0,
        service={"annotations": {"example.com/team": "platform"}},
        extraEnv=[{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        topologySpreadConstraints=[zone, own],
        priorityClassName="system-cluster-critical",
        securityContext={"privileged": False},
    )

    assert only(objects, "Deployment")["spec"]["revisionHistoryLimit"] == 0
    assert only(objects, "Service")["metadata"]["annotations"] == {"example.com/team": "platform"}
    assert container(objects)["env"] == [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]
    assert container(objects)["securityContext"]["privileged"] is False
    assert pod(objects)["priorityClassName"] == "system-cluster-critical"
    labels = only(objects, "Deployment")["spec"]["selector"]
    assert pod(objects)["topologySpreadConstraints"] == [{**zone, "labelSelector": labels}, own]
    assert "topologySpreadConstraints" not in pod(render(topologySpreadConstraints=[]))


def test_who_may_view_the_cluster_may_read_policies_and_no_role_adds_to_edit(chart: list[JSONDict]) -> None:
    added = {
        obj["metadata"]["name"]: obj["rules"]
        for obj in chart
        if obj["kind"] == "ClusterRole" and "aggregate-to" in json.dumps(obj["metadata"]["labels"])
    }

    assert added == {
        "podfit-view": [{"apiGroups": ["podfit.dev"], "resources": ["policies"], "verbs": ["get", "list", "watch"]}]
    }
    assert "aggregate-to-edit" not in json.dumps(chart)
    assert not [obj for obj in render(watch={"policies": False}) if obj["metadata"]["name"] == "podfit-view"]


def test_unsafe_values_are_refused_with_the_reason() -> None:
    assert "with one replica" in refused(replicaCount=1, webhooks={"failurePolicy": "Fail"})
    assert "certificates.secret is needed" in refused(certificates={"mode": "files", "caBundle": CA})
    assert "certificates.caBundle is needed" in refused(certificates={"mode": "files", "secret": "a"})
    assert "replicas" in refused(replicas=3)
    assert "timeoutSeconds" in refused(webhooks={"timeoutSeconds": 30})


NO_START: list[tuple[JSONDict, str]] = [
    ({"models": {"a/b": "bar"}}, 'models "a/b": not JSON: invalid character'),
    ({"models": {"a/b": "[1]"}}, 'models "a/b": not JSON: json: cannot unmarshal array'),
    ({"models": {"a/b": '{"rope_theta": 1}'}}, 'models "a/b": no config.json of a model: none of num_hidden_layers'),
    ({"certificates": {"lifetime": "400d"}}, "lifetime 400d must be shorter than certificates.caLifetime 365d"),
    ({"certificates": {"lifetime": "48h", "caLifetime": "2d"}}, "certificates.lifetime 48h must be shorter"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "why"), NO_START, ids=[next(iter(values)) for values, _ in NO_START])
def test_values_with_which_the_server_would_not_start_are_refused(values: JSONDict, why: str, tmp_path: Path) -> None:
    """By the chart; the server's own words are the same thing, hours later in the log of a Pod."""
    assert why in refused(**values)

    for name, text in values.get("models", {}).items():
        (tmp_path / f"{name.replace('/', '--')}.json").write_text(text)
        with pytest.raises(UnusableError, match=r"not JSON|expected a JSON object|no config\.json of a model"):
            edge.models(tmp_path)


def test_a_config_json_that_the_server_reads_is_taken(tmp_path: Path) -> None:
    """Python's words for numbers without an end included, which some models' own files have."""
    texts = {
        "a/b": '{"time_step_limit": [0.0, Infinity], "x": NaN, "y": -Infinity, "model_type": "nemotron_h"}',
        "a/c": '{"text_config": {"hidden_size": 64}, "s": "an Infinity War"}',
        "a/d": '{"Error": "its own word", "n_layer": 2}',
    }

    data = next(obj["data"] for obj in render(models=texts) if obj["metadata"]["name"] == "podfit-models")

    for name, text in data.items():
        (tmp_path / name).write_text(text)
    assert set(edge.models(tmp_path)) == set(texts)
    assert data["a--b.json"].strip() == texts["a/b"]


@pytest.mark.parametrize("bundle", ["abc", base64.b64encode(CA.encode()).decode(), "-----BEGIN CERTIFICATE-----"])
def test_a_bundle_that_is_no_pem_is_refused(bundle: str) -> None:
    said = refused(certificates={"mode": "files", "secret": "mine", "caBundle": bundle})

    assert f'certificates.caBundle "{bundle[:40]}": not PEM; expected the text of the CA' in said


@pytest.mark.parametrize(
    "issuer", [{"nmae": "ca"}, {"kind": "ClusterIssuer"}, {"name": ""}, {"name": "ca", "kin": "Issuer"}]
)
def test_an_issuer_that_cert_manager_would_not_find_is_refused(issuer: JSONDict) -> None:
    assert "issuerRef" in refused(certificates={"mode": "cert-manager", "issuerRef": issuer})


def test_every_value_has_a_schema_and_every_schema_a_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    assert set(values) == set(schema["properties"]) - {"global", "facts"}  # `facts` fails with what replaces it
    for name, part in schema["properties"].items():
        if part.get("additionalProperties") is False:
            assert set(values[name]) == set(part["properties"])


def test_the_operators_get_the_files_in_monitoring() -> None:
    objects = render(**VARIANTS["all that is optional"])
    (dashboard,) = [obj for obj in objects if obj["metadata"]["labels"].get("grafana_dashboard")]

    assert only(objects, "PrometheusRule")["spec"] == yaml.safe_load((CHART / "monitoring" / "alerts.yaml").read_text())
    assert dashboard["data"] == {"podfit.json": (CHART / "monitoring" / "dashboard.json").read_text()}


def test_a_service_monitor_finds_the_service_and_trusts_its_certificate() -> None:
    objects = render(monitoring={"serviceMonitor": {"enabled": True}})
    spec, service = only(objects, "ServiceMonitor")["spec"], only(objects, "Service")

    assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert spec["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert spec["endpoints"][0]["tlsConfig"]["serverName"] == f"{service['metadata']['name']}.podfit-system.svc"
    assert spec["endpoints"][0]["tlsConfig"]["ca"]["secret"]["name"] == only(objects, "Secret")["metadata"]["name"]


# ── The scanner ──────────────────────────────────────────────────────────────────────────────────────────────────────

SCANNING = {
    "scan": {"cronJob": {"enabled": True}, "exporter": {"enabled": True}},
    "monitoring": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "models": {"my-org/my-model": '{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32}'},
}


def scanners(objects: list[JSONDict]) -> dict[str, JSONDict]:
    """Kind → everything of the scanner's, of which there is one each."""
    return {obj["kind"]: obj for obj in objects if obj["metadata"]["name"] == "podfit-scan"}


def test_nothing_scans_by_default(chart: list[JSONDict]) -> None:
    assert not scanners(chart)


def test_helm_has_nothing_to_say_of_the_scanner() -> None:
    done = helm("lint", str(CHART), "--strict", "--quiet", "--kube-version", KUBERNETES, values=SCANNING)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["CronJob", "Deployment"])
def test_the_scanner_takes_its_arguments_and_finds_its_files(kind: str) -> None:
    found = scanners(render(**SCANNING))
    spec = found[kind]["spec"]
    its = (spec["jobTemplate"]["spec"] if kind == "CronJob" else spec)["template"]["spec"]
    (inside,) = its["containers"]

    args = parser().parse_args(inside["args"])

    mounts = {mount["name"]: mount["mountPath"] for mount in inside["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in its["volumes"]}
    assert [str(Path(name).parent) for name in args.policy] == [mounts["policy"]]
    assert str(args.models) == mounts["models"]
    assert args.write_reports is (kind == "CronJob")
    assert args.fail_on == (None if kind == "CronJob" else "denied"), "a finding is no failed Job"
    assert its["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    assert its["automountServiceAccountToken"] is True


def test_a_scrape_finds_the_exporter_and_a_review_does_not() -> None:
    objects = render(**SCANNING)
    found = scanners(objects)
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    server = next(obj for obj in objects if obj["kind"] == "Service" and obj["metadata"]["name"] == "podfit")
    budget = only(objects, "PodDisruptionBudget")
    job = found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]

    assert found["Service"]["spec"]["selector"].items() <= labels.items()
    assert not found["Service"]["spec"]["selector"].items() <= job.items()
    assert found["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items() <= (
        found["Service"]["metadata"]["labels"].items()
    )
    for selector in (server["spec"]["selector"], budget["spec"]["selector"]["matchLabels"]):
        assert not selector.items() <= labels.items()
        assert not selector.items() <= job.items()
    (port,) = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]["ports"]
    args = parser().parse_args(found["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"])
    assert args.serve[1] == port["containerPort"] == found["Service"]["spec"]["ports"][0]["port"]


def test_the_scanner_may_list_what_a_scan_lists_and_write_reports_alone() -> None:
    objects = render(**SCANNING)
    (role,) = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("ClusterRole", "podfit-scan")]
    granted = {
        (group, resource): rule["verbs"]
        for rule in role["rules"] for group in rule["apiGroups"] for resource in rule["resources"]
    }  # fmt: skip
    wanted = {(group, kind) for group, kind in (*WORKLOAD_KINDS, *ALSO_LISTED, *BETWEEN) if group != "extensions"}
    wanted |= {(kind.group, kind.kind) for kind in WATCHED_KINDS if not (kind.own_namespace or kind.aside)}
    lists = {(group, resource) for (group, resource), verbs in granted.items() if verbs == ["list"]}
    writes = {group for (group, _), verbs in granted.items() if verbs != ["list"]}

    assert lists == {(group, plural(kind)) for group, kind in wanted}
    assert writes == {api.group for api in APIS}
    assert not [one for one in granted if one[1] in ("secrets", "configmaps", "*")]


def plural(kind: str) -> str:
    """As its CRD names it."""
    if kind == "StorageClass":
        return "storageclasses"
    return f"{kind.lower()[:-1]}ies" if kind.endswith("Policy") else f"{kind.lower()}{'es' if kind[-1] == 's' else 's'}"


def test_without_reports_the_scanner_writes_nothing() -> None:
    objects = render(scan={"cronJob": {"enabled": True, "reports": False}, "configMaps": True})
    (role,) = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("ClusterRole", "podfit-scan")]

    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "get"}
    job = scanners(objects)["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
    assert "--write-reports" not in job["args"]


@pytest.mark.parametrize("on", [False, True])
def test_the_exporter_creates_events_only_if_it_is_to(on: bool) -> None:
    objects = render(scan={"exporter": {"enabled": True, "events": on}})
    (role,) = [obj for obj in objects if (obj["kind"], obj["metadata"]["name"]) == ("ClusterRole", "podfit-scan")]
    writes = [rule for rule in role["rules"] if rule["verbs"] != ["list"]]
    args = scanners(objects)["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]

    assert writes == ([{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}] if on else [])
    assert parser().parse_args(args).write_events is on


@pytest.mark.parametrize(
    "scan", [{"cronJob": {"schedule": "hourly"}}, {"exporter": {"everyMinutes": 0}}, {"cronjob": {}}]
)
def test_mistakes_in_the_scanners_values_are_refused(scan: JSONDict) -> None:
    assert "scan" in refused(scan=scan)


def test_only_the_servers_port_is_open_and_helm_test_may_reach_it() -> None:
    plain, closed = render(), render(**VARIANTS["a closed network"])
    policy, restricted = only(plain, "NetworkPolicy")["spec"], only(closed, "NetworkPolicy")["spec"]
    labels = only(plain, "Deployment")["spec"]["template"]["metadata"]["labels"]
    job = only(plain, "Job")["spec"]["template"]["metadata"]["labels"]

    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": container(plain)["ports"][0]["containerPort"]}]}
    ]
    assert (policy["policyTypes"], restricted["policyTypes"]) == (["Ingress"], ["Ingress", "Egress"])
    assert restricted["ingress"][0]["from"][1]["podSelector"]["matchLabels"].items() <= job.items()
    assert not only(plain, "Service")["spec"]["selector"].items() <= job.items(), "it is no replica"
    assert "NetworkPolicy" not in {obj["kind"] for obj in render(hostNetwork=True)}, "it would have no effect"


@pytest.mark.parametrize("variant", VARIANTS)
def test_helm_test_asks_the_service_under_the_ca_that_the_api_server_trusts(variant: str) -> None:
    objects = render(**VARIANTS[variant])
    job, service = only(objects, "Job"), only(objects, "Service")
    (asking,) = job["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one.get("value") or one["valueFrom"]["secretKeyRef"]["key"] for one in asking["env"]}

    assert job["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert asking["image"] == container(objects)["image"], "no image of somebody else's"
    assert env["HOST"] == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert env["PORT"] == str(service["spec"]["ports"][0]["port"])
    bundles = {hook["clientConfig"].get("caBundle") for hook in webhooks(objects)}
    assert env["CA"] == "ca.crt" if bundles == {None} else {base64.b64encode(env["CA"].encode()).decode()} == bundles


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_rendered_twice_is_the_same(variant: str) -> None:
    """GitOps tools render again and again, and roll out what differs."""
    values = json.dumps(VARIANTS[variant])

    assert _template(values) == _template(values)


def test_no_hook_runs_at_installs_upgrades_and_uninstalls_and_no_certificate_is_made_in_templates(
    chart: list[JSONDict],
) -> None:
    hooks = [obj["metadata"].get("annotations", {}).get("helm.sh/hook") for obj in chart]
    templates = "".join(path.read_text() for path in (CHART / "templates").rglob("*.*"))

    assert set(hooks) == {None, "test"}
    assert not [name for name in ("genCA", "genSelfSignedCert", "genSignedCert", "lookup ") if name in templates]
