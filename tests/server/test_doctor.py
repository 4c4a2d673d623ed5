"""`podfit doctor`: what was seen → lines. Each case differs in one thing from a cluster in which all is well."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest

from podfit.cli import doctor as command
from podfit.cli.off import find
from podfit.cli.support.edge import UnusableError
from podfit.cluster.access import StatusError
from podfit.server import certs, registration
from podfit.server.doctor import FAIL_OPEN, JSON, CheckResult, Observed, Served, Unseen, examine

if TYPE_CHECKING:
    from podfit.cluster.access import Client

JSONDict = dict[str, Any]
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
CA = certs.issue_ca(NOW)
LEAF = certs.issue_leaf(CA, ["podfit.podfit-system.svc"], NOW, timedelta(days=90))
VALIDATING, MUTATING = registration.WEBHOOK_CONFIGURATIONS
DENIED = '403: admission webhook "pods.podfit.dev" denied the request: vLLM would not start'


def configuration(*cas: bytes, **hook: object) -> JSONDict:
    bundle = base64.b64encode(b"".join(cas)).decode()
    service = {"name": "podfit", "namespace": "podfit-system", "port": 443}
    one = {"name": "pods.podfit.dev", "clientConfig": {"service": service, "caBundle": bundle}, **hook}
    return {"metadata": {"name": "podfit"}, "webhooks": [{"failurePolicy": "Ignore", **one}]}


def mutator(name: str, **rule: object) -> JSONDict:
    rules = [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"], **rule}]
    return {"metadata": {"name": name}, "webhooks": [{"name": f"{name}.example.com", "rules": rules}]}


OURS = {"app.kubernetes.io/name": "podfit"}
"""Labels of podfit's Pods."""


def deployment(
    replicas: int = 2, ready: int = 2, version: str = "0.1.0", image: str = "r:5000/podfit@sha256:1",
    args: tuple[str, ...] = (), **spec_of_pod: object,
) -> JSONDict:  # fmt: skip
    labels = {"app.kubernetes.io/version": version}
    ports = [{"name": "https", "containerPort": 8443}]
    server = {"name": "podfit", "image": image, "args": ["serve", *args], "ports": ports}
    containers = [{"name": "proxy", "image": "p:9.9"}, server]
    template = {"metadata": {"labels": OURS}, "spec": {"containers": containers, **spec_of_pod}}
    spec = {"replicas": replicas, "template": template}
    return {"metadata": {"labels": labels}, "spec": spec, "status": {"readyReplicas": ready}}


def network_policy(*rules: JSONDict, selects: JSONDict = OURS, **spec: object) -> JSONDict:
    """One that selects podfit's Pods."""
    selector = {"matchLabels": selects}
    return {"metadata": {"name": "podfit"}, "spec": {"podSelector": selector, "ingress": list(rules), **spec}}


MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
APISERVER = {"ipBlock": {"cidr": "10.0.0.0/28"}}
PORT = [{"protocol": "TCP", "port": 8443}]


def counted(number: int) -> str:
    began = "process_start_time_seconds 1.7803008e+09\n"
    return f'{began}# TYPE {FAIL_OPEN} counter\n{FAIL_OPEN}{{name="pods.podfit.dev",type="validating"}} {number}\n'


def policy(name: str, status: str | None, message: str = "in use") -> JSONDict:
    conditions = [{"type": "Accepted", "status": status, "message": message}] if status else []
    return {"metadata": {"name": name}, "status": {"conditions": conditions}}


BOTH = {kind: configuration(CA.certificate) for kind in registration.WEBHOOK_CONFIGURATIONS}
WELL = Observed(
    now=NOW,
    configurations=BOTH,
    mutators=(mutator("podfit"),),
    deployment=deployment(),
    network_policies=(network_policy({"ports": PORT, "from": [APISERVER, MONITORING]}),),
    ready={"podfit-a": ("ok", "policy 1234: 2 policies")},
    served=(Served("podfit.podfit-system.svc:443", LEAF.certificate, ""),),
    metrics=counted(0),
    before=counted(0),
    answer=DENIED,
    crd={},
    policies=(policy("chat", "True"),),
    version="v1.34.1",
)


def lines(seen: Observed) -> list[CheckResult]:
    return examine(seen, "0.1.0")


def test_all_is_well() -> None:
    assert {line.state for line in lines(WELL)} == {"ok"}
    assert [line.about for line in lines(WELL)] == [
        "validating", "mutating", "switch", "caBundle", "certificate", "API server", "fail-open", "replicas",
        "failurePolicy", "replica", "callers", "other mutators", "policies", "versions", "facts",
    ]  # fmt: skip


def test_images_newer_than_the_facts_are_named() -> None:
    images = frozenset(
        {"vllm/vllm-openai:v0.33.0", "nginx:1.29", "vllm/vllm-openai:v0.99.1", "vllm/vllm-openai:latest"}
    )

    (told,) = [line for line in lines(replace(WELL, images=images)) if line.about == "facts"]

    assert told.state == "warn"
    assert told.text == (
        "vllm/vllm-openai:v0.99.1 holds vLLM 0.99.1, the newest release known is 0.33.0: its flags are not checked"
    )


class Pods:
    """An API server with two pages of running Pods."""

    def get(self, path: str, query: Mapping[str, str]) -> JSONDict:
        """One page."""
        assert (path, query["fieldSelector"]) == ("/api/v1/pods", "status.phase=Running")
        first = "continue" not in query
        image = "vllm/vllm-openai:v0.33.0" if first else "nginx:1.29"
        pod = {"metadata": {"uid": image}, "spec": {"containers": [{"name": "a", "image": image}]}}
        return {"items": [pod], "metadata": {"continue": "2"} if first else {}}


def test_the_images_are_those_of_running_pods() -> None:
    assert command._images(cast("Client", Pods())) == {"vllm/vllm-openai:v0.33.0", "nginx:1.29"}


def fails(**hook: object) -> dict[str, JSONDict | None]:
    return {**BOTH, VALIDATING: configuration(CA.certificate, failurePolicy="Fail", **hook)}


SPOILT = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
OTHER = certs.issue_ca(NOW).certificate
OFF = [registration.condition(None)]
OVER = f"{NOW - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"


def ended(until: str, conditions: list[dict[str, str]] | None = None) -> JSONDict:
    """A configuration that is off until then. `conditions`: those of an earlier podfit, which had no end."""
    made = configuration(CA.certificate, matchConditions=conditions or [registration.condition(until)])
    return {**made, "metadata": {**made["metadata"], "annotations": {registration.OFF_UNTIL_ANNOTATION: until}}}


UNSEEN = Unseen("403: forbidden")
CASES: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("nothing is installed", {"configurations": dict.fromkeys(registration.WEBHOOK_CONFIGURATIONS)},
     "fail", "validating", "there is none: nothing is checked"),
    ("nothing is patched", {"configurations": {**BOTH, MUTATING: None}},
     "ok", "mutating", "there is none: nothing is patched (webhooks.mutating: false)"),
    ("it is off", {"configurations": {**BOTH, VALIDATING: configuration(CA.certificate, matchConditions=OFF)}},
     "warn", "switch", "validatingwebhookconfigurations is off"),
    ("it was off for a time, which is over", {"configurations": {**BOTH, VALIDATING: ended(OVER)}},
     "ok", "switch", f"{VALIDATING} is on: `podfit off --for` ended at {NOW - timedelta(hours=1):%Y-%m-%d %H:%M} UTC"),
    ("the time of an off without an end is not over", {"configurations": {**BOTH, VALIDATING: ended(OVER, OFF)}},
     "warn", "switch", f"{VALIDATING} is off, until {NOW - timedelta(hours=1):%Y-%m-%d %H:%M} UTC"),
    ("a caBundle is empty", {"configurations": {**BOTH, MUTATING: configuration()}},
     "fail", "caBundle", f"{MUTATING}, pods.podfit.dev: empty, so the API server trusts no server"),
    ("a caBundle is nonsense", {"configurations": {**BOTH, MUTATING: configuration(b"abc")}},
     "fail", "caBundle",
     f"{MUTATING}, pods.podfit.dev: nothing in it is a certificate, so the API server trusts no server"),
    ("part of a caBundle is nonsense", {"configurations": {**BOTH, MUTATING: configuration(CA.certificate, SPOILT)}},
     "warn", "caBundle", f"{MUTATING}, pods.podfit.dev: something in it is not a certificate"),
    ("the bundles hold the same in another order", {"configurations": {
        VALIDATING: configuration(OTHER, CA.certificate), MUTATING: configuration(CA.certificate, OTHER)}},
     "ok", "caBundle", f"2 CAs, the last one until {NOW + certs.FILE_CA_LIFETIME:%Y-%m-%d}"),
    ("every CA has ended", {"now": NOW + timedelta(days=4000)},
     "fail", "caBundle", f"{VALIDATING}, pods.podfit.dev: every CA in it has ended"),
    ("the bundles differ", {"configurations": {**BOTH, MUTATING: configuration(CA.certificate, OTHER)}},
     "warn", "caBundle", "not the same in every webhook"),
    ("nobody answers", {"served": (Served("a:443", b"", "no TLS handshake: Connection refused"),)},
     "fail", "certificate", "a:443: no TLS handshake: Connection refused"),
    ("the pair does not fit", {"served": (Served("a:443", LEAF.certificate, "the caBundle does not verify it"),)},
     "fail", "certificate", "a:443: the caBundle does not verify it"),
    ("it ends soon", {"now": NOW + timedelta(days=85)},
     "warn", "certificate", "podfit.podfit-system.svc:443: it ends in 5 days, and was not renewed"),
    ("a dry run is forbidden", {"answer": UNSEEN},
     "warn", "API server", "not tried whether it asks podfit: 403: forbidden"),
    ("the API server can't reach it", {"answer": '500: Internal: failed calling webhook "pods.podfit.dev": timeout'},
     "fail", "API server", "it can't reach podfit: \"pods.podfit.dev\": timeout"),
    ("it can't, and lets pass", {"answer": "", "metrics": counted(1)},
     "fail", "API server", "a faulty Pod (a dry run) passed unchecked: it can't reach podfit"),
    ("it passes, and nobody sees why", {"answer": "", "metrics": UNSEEN, "before": UNSEEN},
     "warn", "API server", "a faulty Pod (a dry run) passed; whether podfit was asked is unknown"),
    ("it did not ask", {"answer": ""}, "warn", "API server", "it did not ask podfit about a faulty Pod (a dry run)"),
    ("somebody else refuses", {"answer": '403: admission webhook "x" denied the request: no'},
     "warn", "API server",
     'the faulty Pod was denied, but not by podfit: 403: admission webhook "x" denied the request: no'),
    ("calls have failed once", {"metrics": counted(3), "before": counted(3)},
     "ok", "fail-open",
     "3 failed, of 0 calls of this API server since 2026-06-01 08:00 UTC, and what they asked about passed: "
     "pods.podfit.dev 3 (an earlier podfit doctor's tries are among them)"),
    ("its own Pod alone has failed open", {"answer": "", "metrics": counted(2)},
     "ok", "fail-open", "no object passed unchecked, of 0 calls of this API server"),
    ("no metrics", {"metrics": UNSEEN, "before": UNSEEN},
     "warn", "fail-open", "not known how often objects passed unchecked: 403: forbidden"),
    ("no replica is ready", {"deployment": deployment(2, 0)}, "fail", "replicas", "0 of 2 ready"),
    ("one is not", {"deployment": deployment(2, 1)}, "warn", "replicas", "1 of 2 ready"),
    ("Fail with one replica", {"configurations": fails(), "deployment": deployment(1, 1)},
     "fail", "failurePolicy", "Fail with 1 replica: pods.podfit.dev"),
    ("Fail", {"configurations": fails()},
     "ok", "failurePolicy", "Fail (pods.podfit.dev): without an answer objects are rejected"),
    ("a replica is not ready", {"ready": {"a": ('{"error": "no certificate"}',)}},
     "fail", "replica", 'a: not ready: {"error": "no certificate"}'),
    ("a replica tells of its certificate", {"ready": {"a": ("ok", "the certificate can't be looked after: 403")}},
     "warn", "replica", "a: the certificate can't be looked after: 403"),
    *((f"every Pod can call it: {name}", {"network_policies": policies}, "warn", "callers",
       f"every Pod can call podfit: {said}") for name, policies, said in (
        ("the chart's default", (network_policy({"ports": PORT}),), "NetworkPolicy podfit allows every peer"),
        ("no policy", (), "no NetworkPolicy selects its Pods"),
        ("another's policy", (network_policy(selects={"app": "chat"}),), "no NetworkPolicy selects its Pods"),
        ("egress only", (network_policy(policyTypes=["Egress"]),), "no NetworkPolicy selects its Pods"),
        ("every namespace", (network_policy({"from": [APISERVER, {"namespaceSelector": {}}]}),),
         "NetworkPolicy podfit allows every peer"),
        ("every address", (network_policy({"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}),),
         "NetworkPolicy podfit allows every peer"),
        ("a second policy", (network_policy({"from": [APISERVER]}), network_policy({"ports": [
            {"port": 8000, "endPort": 9000}]})), "NetworkPolicy podfit allows every peer"),
        ("a port's name", (network_policy({"ports": [{"port": "https"}]}),), "NetworkPolicy podfit allows every peer"),
    )),
    ("every Pod can call what is in the host's network", {"deployment": deployment(hostNetwork=True)},
     "warn", "callers", "every Pod can call podfit: it is in the host network, to which no NetworkPolicy applies"),
    ("nobody sees who can call it", {"network_policies": UNSEEN},
     "warn", "callers", "not known whether a NetworkPolicy limits who can call podfit: 403: forbidden"),
    ("only those with a certificate can", {"network_policies": (), "deployment": deployment(args=("--client-ca=a",))},
     "ok", "callers", "clients that show a certificate of the CA in certificates.clientCA"),
    ("only some peers can", {"network_policies": (network_policy(
        {"ports": PORT, "from": [APISERVER, {"namespaceSelector": {}, "podSelector": {"matchLabels": {"a": "b"}}}]},
        {"ports": [{"port": 9000}]}, {"ports": [{"port": 8443, "protocol": "UDP"}]}),)},
     "ok", "callers", "2 peers of NetworkPolicy podfit, if the network plugin enforces it"),
    ("others come later", {"mutators": (mutator("podfit"), mutator("sidecars"))},
     "ok", "other mutators",
     "Pods are changed by sidecars, too; after podfit: sidecars, so that podfit is asked again "
     "(reinvocationPolicy: IfNeeded)"),
    ("others change something else", {"mutators": (mutator("jobs", apiGroups=["batch"], resources=["jobs"]),)},
     "ok", "other mutators", "no other webhook changes Pods"),
    ("a policy is broken", {"policies": (policy("chat", "False", "not taken over: rules.x: no such rule"),)},
     "fail", "policies", "chat: not taken over: rules.x: no such rule"),
    ("a policy was never seen", {"policies": (policy("chat", None),)},
     "warn", "policies", "chat: no replica has accepted it"),
    ("one policy", {"policies": (policy("chat", "True"),)}, "ok", "policies", "1 Policy object in use"),
    ("two policies", {"policies": (policy("a", "True"), policy("b", "True"))},
     "ok", "policies", "2 Policy objects in use"),
    ("the CRD is seconds old", {"policies": Unseen("429: storage is (re)initializing")},
     "warn", "policies", "the API server has not yet made ready what serves Policy objects"),
    ("no CRD", {"crd": None}, "ok", "policies", "there is no CRD policies.podfit.dev: the policy is the chart's alone"),
    ("the CRD is gone", {"crd": None, "deployment": deployment(args=("--watch=nodes,policies",))},
     "fail", "policies", "there is no CRD policies.podfit.dev: podfit enforces nothing"),
    ("the CRD is gone, and the Deployment can't be read", {"crd": None, "deployment": UNSEEN},
     "warn", "policies", "there is no CRD policies.podfit.dev: podfit enforces nothing if watch.policies is true"),
    ("no CRD is wanted", {"crd": None, "deployment": deployment(args=("--watch=nodes",))},
     "ok", "policies", "there is no CRD policies.podfit.dev: the policy is the chart's alone"),
    ("another version", {"deployment": deployment(version="0.0.9")},
     "warn", "versions", "podfit 0.1.0 here, 0.0.9 in the cluster; Kubernetes v1.34.1"),
    ("another image", {"deployment": deployment(image="r:5000/podfit:v0.2.0@sha256:1")},
     "warn", "versions", "podfit 0.1.0 here, 0.2.0 in the cluster; Kubernetes v1.34.1"),
    ("a tag that is no version", {"deployment": deployment(image="r:5000/podfit:main")},
     "ok", "versions", "podfit 0.1.0 here, 0.1.0 in the cluster; Kubernetes v1.34.1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "state", "about", "said"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_what_is_wrong_is_told_with_what_to_do(change: Mapping[str, Any], state: str, about: str, said: str) -> None:
    found = lines(replace(WELL, **change))

    line = next(line for line in found if (line.state, line.about, line.text) == (state, about, said))
    assert bool(line.next) or state == "ok" or about == "replica"
    also = {"certificate"} if "now" in change else {"API server"} if change.get("answer") == "" else set()
    assert {one.about for one in found if one.state == "fail"} <= ({about} if state == "fail" else set()) | also


def test_a_call_that_fails_is_no_question_of_ports_where_the_cause_is_told() -> None:
    passed = replace(WELL, answer="", metrics=counted(1))

    def advice(**change: Any) -> str:
        return next(line.next for line in lines(replace(passed, **change)) if line.about == "API server")

    assert advice().startswith("is the port open")
    assert advice(configurations={**BOTH, MUTATING: configuration()}) == "fix first what fails here: caBundle"
    assert advice(deployment=deployment(2, 0), served=(Served("a:443", b"", "refused"),)) == (
        "fix first what fails here: certificate, replicas"
    )


def test_who_may_not_see_the_configurations_still_learns_whether_podfit_answers() -> None:
    hidden: dict[str, JSON | Unseen | None] = dict.fromkeys(registration.WEBHOOK_CONFIGURATIONS, UNSEEN)
    told = lines(replace(WELL, configurations=hidden))

    assert [(line.state, line.text) for line in told[:2]] == [("warn", "can't be seen: 403: forbidden")] * 2
    assert all(line.next for line in told[:2])
    assert {line.about for line in told} == {line.about for line in lines(WELL)} - {
        "switch", "caBundle", "certificate", "failurePolicy",
    }  # fmt: skip
    assert (
        CheckResult("ok", "API server", "it asked podfit about a faulty Pod (a dry run), and podfit denied it") in told
    )
    assert not replace(WELL, configurations=hidden).nothing
    assert replace(WELL, configurations=hidden, answer=UNSEEN).nothing
    assert not replace(WELL, configurations={**BOTH, MUTATING: UNSEEN}, answer=UNSEEN).nothing


class Releases:
    """Two kinds of configurations, and what else a cluster has of them."""

    def __init__(self, *mine: str) -> None:
        self.mine = mine

    def get(self, path: str, query: Mapping[str, str]) -> JSONDict:
        items = [configuration() | {"metadata": {"name": one, "labels": {}}} for one in self.mine]
        return {"items": [*items, mutator("sidecars"), {"metadata": {"name": "empty"}}]}


class Refusing(Releases):
    """Who may list no configuration, but get the one of a name."""

    def get(self, path: str, query: Mapping[str, str]) -> JSONDict:
        raise StatusError(403, "forbidden")

    def get_unreduced(self, path: str) -> JSONDict:
        if not path.endswith("/judge"):
            raise StatusError(404, "there is none")
        return configuration()


def test_who_may_not_list_the_configurations_may_name_his() -> None:
    def seen(name: str | None) -> list[JSON | Unseen | None]:
        return list(command._own(cast("Client", Refusing()), name).values())

    assert seen(None) == [UNSEEN, UNSEEN]
    assert seen("judge") == [configuration(), configuration()]
    assert seen("nobody") == [None, None]


def test_whoever_may_see_nothing_gets_warnings_and_no_failure() -> None:
    blind = Observed(
        NOW, BOTH, UNSEEN, UNSEEN, UNSEEN, UNSEEN, {}, (), UNSEEN, UNSEEN, UNSEEN, UNSEEN, UNSEEN
    )  # fmt: skip

    assert "fail" not in {line.state for line in lines(blind)}
    assert sum(line.state == "warn" for line in lines(blind)) == 5


def test_podfit_s_own_configurations_are_found_by_their_webhooks_names_whatever_the_release_is_called() -> None:
    client = cast("Client", Releases("judge"))

    assert find(client, None) == [f"{registration.ROOT}/{kind}/judge" for kind in registration.WEBHOOK_CONFIGURATIONS]
    assert find(client, "sidecars") == [
        f"{registration.ROOT}/{kind}/sidecars" for kind in registration.WEBHOOK_CONFIGURATIONS
    ]
    with pytest.raises(UnusableError, match="there are several: a, b; say which with --name"):
        find(cast("Client", Releases("a", "b")), None)


def test_replicas_are_those_of_the_deployment() -> None:
    seen = {"spec": {"selector": {"matchLabels": {"app.kubernetes.io/name": "judge", "b": "c"}}}}

    assert command._selector(seen) == "labelSelector=app.kubernetes.io%2Fname%3Djudge%2Cb%3Dc"
    assert command._selector(UNSEEN) == "labelSelector=app.kubernetes.io%2Fname%3Dpodfit"


def test_on_a_terminal_it_is_told_what_is_being_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command._progress("replicas")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    command._progress("certificates")
    command._progress("")

    assert capsys.readouterr() == ("", "\r\033[Klooking at certificates …\r\033[K")


def test_the_lines_are_told_as_text_and_as_json() -> None:
    told = [
        CheckResult("ok", "switch", "on"),
        CheckResult("fail", "API server", "it can't reach\npodfit", "podfit off"),
    ]

    assert command._text(told, colour=False) == (
        "ok    switch      on\n"
        "fail  API server  it can't reach podfit\n"
        "                  → podfit off\n"
        "\n1 ok, 0 warnings, 1 failure\n"
    )
    assert "\033[31mfail\033[0m" in command._text(told, colour=True)
    assert json.loads(command._json(told, ok=False)) == {
        "ok": False,
        "checks": [
            {"state": "ok", "about": "switch", "said": "on", "next": ""},
            {"state": "fail", "about": "API server", "said": "it can't reach\npodfit", "next": "podfit off"},
        ],
    }


def test_off_and_on_leave_everything_else_as_it_was() -> None:
    before: JSONDict = {
        "metadata": {"name": "podfit", "resourceVersion": "7"},
        "webhooks": [{"name": "a", "matchConditions": [{"name": "has-vllm", "expression": "true"}], "x": 1}],
    }

    off = registration.off(before, "a false alarm", "now")
    assert off
    switched = {**before, "metadata": {**before["metadata"], **off["metadata"]}, "webhooks": off["webhooks"]}

    assert (registration.state(before), registration.state(switched)) == ("on", "off")
    assert registration.note(switched) == "since now: a false alarm"
    assert registration.on(switched) == {
        "metadata": {
            "resourceVersion": "7",
            "annotations": {registration.OFF_ANNOTATION: None, registration.OFF_UNTIL_ANNOTATION: None},
        },
        "webhooks": before["webhooks"],
    }  # fmt: skip
    assert registration.on(before) is None
    assert registration.switched_on(switched) == {**before, "metadata": {**before["metadata"], "annotations": {}}}


@pytest.mark.parametrize(
    ("until", "then", "ends"),
    [
        (None, "2026-11-28T12:00:00Z", datetime(2026, 11, 28, 12, tzinfo=UTC)),
        ("2026-11-28T12:00:00Z", "2026-11-28T14:00:00Z", datetime(2026, 11, 28, 14, tzinfo=UTC)),
        ("2026-11-28T12:00:00Z", None, None),
        ("soon", "2026-11-28T12:00:00", None),
    ],
    ids=["given later", "later", "without an end", "no time with a zone"],
)
def test_an_end_may_be_changed_later(until: str | None, then: str | None, ends: datetime | None) -> None:
    annotations = {registration.OFF_ANNOTATION: "since 1: ticket 17"}
    annotations |= {registration.OFF_UNTIL_ANNOTATION: until} if until else {}
    before = {"metadata": {"annotations": annotations}, "webhooks": [{"name": "a", "matchConditions": OFF}]}

    changed = registration.off(before, "", "2", then)

    assert changed
    assert changed["metadata"]["annotations"] == {
        registration.OFF_ANNOTATION: "since 1: ticket 17", registration.OFF_UNTIL_ANNOTATION: then,
    }  # fmt: skip
    assert registration.ends(changed) == ends
    assert registration.off(changed, "", "3", then) is None


def test_an_off_whose_end_has_passed_begins_again() -> None:
    """Without a reason, the one of before is not taken over."""
    annotations = {registration.OFF_ANNOTATION: "since 1: ticket 17", registration.OFF_UNTIL_ANNOTATION: OVER}
    hooks = [{"name": "a", "matchConditions": [registration.condition(OVER)]}]

    changed = registration.off({"metadata": {"annotations": annotations}, "webhooks": hooks}, "", "2", None, NOW)

    assert changed
    assert changed["metadata"]["annotations"][registration.OFF_ANNOTATION] == "since 2: no reason given"
    assert changed["webhooks"] == [{"name": "a", "matchConditions": OFF}]


@pytest.mark.parametrize(
    ("note", "reason", "then"),
    [
        ("since 1: no reason given", "ticket 17", "since 1: ticket 17"),
        ("since 1: ticket 16", "ticket 17", "since 1: ticket 17"),
        ("since 1: ticket 17", "ticket 17", None),
        ("since 1: ticket 17", "", None),
        (None, "ticket 17", "since 2: ticket 17"),
        (None, "", None),
    ],
)
def test_a_reason_may_be_given_later(note: str | None, reason: str, then: str | None) -> None:
    """Who switches off in a hurry says why when he has the time."""
    annotations = {registration.OFF_ANNOTATION: note} if note else {}
    hooks = [{"name": "a", "matchConditions": OFF}]

    changed = registration.off({"metadata": {"annotations": annotations}, "webhooks": hooks}, reason, "2")

    assert (changed and changed["metadata"]["annotations"][registration.OFF_ANNOTATION]) == then
    assert changed is None or changed["webhooks"] == hooks
