"""Checks podfit's installation: observations from outside → one line per check, with a suggested fix.

Missing observations are a warning, never a failure: the user may have few permissions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from prometheus_client.parser import text_string_to_metric_families

from podfit.base.data import age
from podfit.kube.path import mapping
from podfit.kube.selector import of_object
from podfit.kube.workload import as_list
from podfit.server import certs, registration
from podfit.server.certs import renewal
from podfit.vllm.release import from_image, known_releases

EXPIRY_WARNING = timedelta(days=14)
"""Time before a certificate's end from which it is reported."""
FAIL_OPEN = "apiserver_admission_webhook_fail_open_count"
REQUEST_COUNTER = "apiserver_admission_webhook_request_total"
JSON = Mapping[str, Any]
State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class CheckResult:
    """One answer."""

    state: State
    about: str
    text: str
    next: str = ""
    """The advice; empty if all is well."""


@dataclass(frozen=True)
class Unseen:
    """Why something could not be looked at, in one line."""

    why: str


@dataclass(frozen=True)
class Served:
    """The answer to a TLS handshake."""

    where: str
    """HOST:PORT"""
    certificate: bytes
    """PEM; empty if no server answered."""
    problem: str
    """Why a client that trusts the caBundle would not go on; empty if it would."""


@dataclass(frozen=True)
class Observed:
    """The cluster, as far as it could be seen."""

    now: datetime
    configurations: Mapping[str, JSON | Unseen | None]
    """Kind → podfit's own object; None: there is none."""
    mutators: tuple[JSON, ...] | Unseen = ()
    """All MutatingWebhookConfigurations."""
    deployment: JSON | Unseen | None = None
    pods: tuple[JSON, ...] | Unseen = ()
    network_policies: tuple[JSON, ...] | Unseen = ()
    """The network policies of podfit's namespace."""
    ready: Mapping[str, tuple[str, ...] | Unseen] = field(default_factory=dict)
    """Pod → the lines of its /readyz, through the API server."""
    served: tuple[Served, ...] = ()
    """A handshake a distinct address and caBundle, for those that can be reached from here."""
    metrics: str | Unseen = ""
    """The API server's, as text."""
    before: str | Unseen = ""
    """The metrics before a Pod was tried."""
    answer: str | Unseen = ""
    """The API server's message about a faulty Pod, as a dry run; empty: it passed."""
    crd: JSON | Unseen | None = None
    policies: tuple[JSON, ...] | Unseen = ()
    version: str = ""
    """The API server's."""
    images: frozenset[str] | Unseen = frozenset()
    """The images of the cluster's running Pods."""

    @property
    def nothing(self) -> bool:
        """True if nothing about podfit could be observed."""
        return isinstance(self.answer, Unseen) and all(
            isinstance(value, Unseen) for value in self.configurations.values()
        )


@dataclass(frozen=True)
class _Names:
    """The names of podfit's own webhooks."""

    known: frozenset[str]
    all_known: bool
    """Every configuration could be seen; otherwise a name that ends as ours do is one of them."""

    def __contains__(self, name: str) -> bool:
        """True if a webhook of podfit has this name, or may have."""
        return name in self.known or (not self.all_known and name.endswith(registration.DOMAIN))


def examine(observed: Observed, mine: str) -> list[CheckResult]:
    """All lines, in the order in which an admin would look; `mine` is this program's version. If there is certainly no
    webhook, only the lines on that, on versions and on facts."""
    entries = {
        kind: configuration
        for kind, configuration in observed.configurations.items()
        if isinstance(configuration, Mapping)
    }
    unseen = any(isinstance(value, Unseen) for value in observed.configurations.values())
    names = _Names(frozenset(hook["name"] for hook in hooks(entries)), not unseen)
    lines = [*_configurations(observed.configurations)]
    if entries:
        lines += [
            *_switch(entries, observed.now),
            *_bundles(entries, observed.now),
            *_served(observed.served, observed.now),
        ]
    if entries or unseen:
        replicas = [*_replicas(observed, entries)]
        causes = dict.fromkeys(line.about for line in (*lines, *replicas) if line.state == "fail")
        lines += [
            *_api_server_results(observed, entries, names, tuple(causes)),
            *_fail_open(observed, names),
            *replicas,
            *_callers(observed),
        ]
        lines += [*_mutators(observed.mutators, entries), *_policies(observed)]
    return [*lines, *_versions(observed, mine), *_facts(observed.images)]


def hooks(configurations: Mapping[str, JSON]) -> Iterator[JSON]:
    """Every webhook of every configuration."""
    for configuration in configurations.values():
        yield from configuration.get("webhooks") or ()


# ── the configurations ───────────────────────────────────────────────────────────────────────────────────────────────


def _configurations(configurations: Mapping[str, JSON | Unseen | None]) -> Iterator[CheckResult]:
    """A line for each webhook configuration: its webhooks, or that it is absent or can't be read."""
    for kind, configuration in configurations.items():
        validating = kind.startswith("validating")
        about = "validating" if validating else "mutating"
        if isinstance(configuration, Unseen):
            yield CheckResult(
                "warn", about, f"can't be seen: {configuration.why}", f"needed: the right to get and list {kind}"
            )
        elif configuration is not None:
            names = ", ".join(hook["name"] for hook in configuration.get("webhooks") or ())
            yield CheckResult("ok", about, f"{_name(configuration)}: {names}")
        elif validating:
            yield CheckResult(
                "fail", about, "there is none: nothing is checked", "install the chart, or `helm upgrade` it"
            )
        else:
            yield CheckResult("ok", about, "there is none: nothing is patched (webhooks.mutating: false)")


def _switch(entries: Mapping[str, JSON], now: datetime) -> Iterator[CheckResult]:
    """A line for each configuration that `podfit off` has paused, or whose pause is over; "on" if all are on and no
    condition is left."""
    for kind, item in entries.items():
        state, note, end = registration.state(item, now), registration.note(item), registration.ends(item)
        if state != "on":
            text = (
                f"{kind} is {state}"
                + (f", {note}" if note else "")
                + (f", until {end:%Y-%m-%d %H:%M} UTC" if end else "")
            )
            yield CheckResult("warn", "switch", text, "podfit on" if state == "off" else "podfit off, or podfit on")
        elif end:
            text = f"{kind} is on: `podfit off --for` ended at {end:%Y-%m-%d %H:%M} UTC"
            yield CheckResult("ok", "switch", text, "podfit on removes its condition")
    if all(registration.state(value) == "on" for value in entries.values()):
        yield CheckResult("ok", "switch", "on")


def _bundles(entries: Mapping[str, JSON], now: datetime) -> Iterator[CheckResult]:
    """Report if each webhook has a CA bundle, and how long its CAs are valid."""
    bundles = {
        f"{kind}, {hook['name']}": renewal.bundle_of(hook)
        for kind, item in entries.items()
        for hook in hooks({kind: item})
    }
    advice = (
        "podfit writes it within seconds: look at the log of its Pods; with cert-manager at its cainjector's; "
        "with files it is the chart's value certificates.caBundle"
    )
    for where, cas in bundles.items():
        if not cas:
            yield CheckResult("fail", "caBundle", f"{where}: empty, so the API server trusts no server", advice)
        elif cas == (renewal.BROKEN,):
            text = f"{where}: nothing in it is a certificate, so the API server trusts no server"
            yield CheckResult("fail", "caBundle", text, advice)
        elif all(certs.not_after(ca) <= now for ca in cas if ca != renewal.BROKEN):
            yield CheckResult("fail", "caBundle", f"{where}: every CA in it has ended", advice)
        elif renewal.BROKEN in cas:
            yield CheckResult("warn", "caBundle", f"{where}: something in it is not a certificate", advice)
    # The order does not matter: a CA that is appended to an edited bundle has another place in the other bundles.
    good = [frozenset(cas) for cas in bundles.values() if cas and renewal.BROKEN not in cas]
    if good and len(good) == len(bundles):  # else each problem has its line
        several = sorted({len(cas) for cas in good})
        last = max(certs.not_after(ca) for cas in good for ca in cas)
        count = " or ".join(str(number) for number in several)
        if len(set(good)) > 1:
            yield CheckResult(
                "warn", "caBundle", "not the same in every webhook", "look again in a minute; then at podfit's log"
            )
        else:
            yield CheckResult(
                "ok", "caBundle", f"{count} CA{'s' if several != [1] else ''}, the last one until {last:%Y-%m-%d}"
            )


def _served(served: Iterable[Served], now: datetime) -> Iterator[CheckResult]:
    """Report if each address has a certificate that the webhook's CAs verify, and how long it is valid."""
    for answer in served:
        if not answer.certificate:
            yield CheckResult(
                "fail",
                "certificate",
                f"{answer.where}: {answer.problem}",
                "is a replica running, and may you reach it?",
            )
            continue
        ends = certs.not_after(answer.certificate)
        if answer.problem:
            advice = "podfit's log says why; until then the API server's calls fail"
            yield CheckResult("fail", "certificate", f"{answer.where}: {answer.problem}", advice)
        elif ends - now < EXPIRY_WARNING and certs.renew_at(answer.certificate) < now:
            left = max(ends - now, timedelta())
            yield CheckResult("warn", "certificate", f"{answer.where}: it ends in {_span(left)}, and was not renewed",
                       "look at the log of podfit's Pods, or at cert-manager's Certificate")  # fmt: skip
        else:
            yield CheckResult(
                "ok", "certificate", f"{answer.where}: trusted by the caBundle, until {ends:%Y-%m-%d %H:%M} UTC"
            )


# ── the API server ───────────────────────────────────────────────────────────────────────────────────────────────────


def _api_server_results(
    observed: Observed, entries: Mapping[str, JSON], hook_names: _Names, causes: tuple[str, ...]
) -> Iterator[CheckResult]:
    """A line on whether the API server asks podfit, by its answer to the faulty Pod, and if that passed, by its
    metrics. `causes`: what else fails, which may be the reason."""
    about, advice = "API server", "podfit off lets everything pass"
    if isinstance(observed.answer, Unseen):
        text = f"not tried whether it asks podfit: {observed.answer.why}"
        yield CheckResult("warn", about, text, "kubectl apply --dry-run=server -f your-vllm.yaml")
    elif any(name in hook_names for name in re.findall(r'admission webhook "([^"]*)" denied', observed.answer)):
        yield CheckResult("ok", about, "it asked podfit about a faulty Pod (a dry run), and podfit denied it")
    elif any(name in hook_names for name in re.findall(r'failed calling webhook "([^"]*)"', observed.answer)):
        yield CheckResult(
            "fail", about, f"it can't reach podfit: {observed.answer.rpartition('failed calling webhook ')[2]}", advice
        )
    elif observed.answer:
        yield CheckResult(
            "warn", about, f"the faulty Pod was denied, but not by podfit: {observed.answer}", "--probe-namespace NAME"
        )
    elif any(registration.state(value, observed.now) != "on" for value in entries.values()):
        yield CheckResult("ok", about, "a faulty Pod (a dry run) passed: podfit is off")
    elif _more(observed, FAIL_OPEN, hook_names):
        port = "is the port open from the control plane to podfit's Pods? docs/security.md"
        yield CheckResult("fail", about, "a faulty Pod (a dry run) passed unchecked: it can't reach podfit",
                   f"fix first what fails here: {', '.join(causes)}" if causes else port)  # fmt: skip
    elif _more(observed, REQUEST_COUNTER, hook_names):
        yield CheckResult("ok", about, "it asked podfit about a faulty Pod (a dry run), which the policy allows")
    elif isinstance(observed.before, Unseen) or isinstance(observed.metrics, Unseen):
        yield CheckResult("warn", about, "a faulty Pod (a dry run) passed; whether podfit was asked is unknown",
                   "with the right to get /metrics of the API server this line says more")  # fmt: skip
    else:
        yield CheckResult("warn", about, "it did not ask podfit about a faulty Pod (a dry run)",
                   "does the webhooks' namespaceSelector choose that namespace? --probe-namespace NAME")  # fmt: skip


def _more(observed: Observed, family: str, hook_names: _Names) -> bool:
    """True if the API server has counted more of a metric than before the Pod was tried; False if it is unknown."""
    if isinstance(observed.before, Unseen) or isinstance(observed.metrics, Unseen):
        return False
    return _counts(observed.metrics, family, hook_names) != _counts(observed.before, family, hook_names)


def _fail_open(observed: Observed, hook_names: _Names) -> Iterator[CheckResult]:
    """A line on how often objects passed unchecked, which is never a failure.

    The API server counts since its start, without times, and `_api_server_results` reports what fails now. The Pod
    that is tried here is not counted."""
    metrics = observed.before
    if isinstance(metrics, Unseen):
        yield CheckResult("warn", "fail-open", f"not known how often objects passed unchecked: {metrics.why}",
                   "ask Prometheus: increase(apiserver_admission_webhook_fail_open_count[1d])")  # fmt: skip
        return
    opened = _counts(metrics, FAIL_OPEN, hook_names)
    entries = _counts(metrics, REQUEST_COUNTER, hook_names)
    calls = f"of {sum(entries.values()):.0f} calls of this API server"
    if total := sum(opened.values()):
        which = ", ".join(f"{name} {count:.0f}" for name, count in sorted(opened.items()) if count)
        since = f" since {began:%Y-%m-%d %H:%M} UTC" if (began := _began(metrics)) else ""
        text = f"{total:.0f} failed, {calls}{since}, and what they asked about passed: {which}"
        yield CheckResult("ok", "fail-open", text + " (an earlier podfit doctor's tries are among them)",
                   "when? ask Prometheus: increase(apiserver_admission_webhook_fail_open_count[1d])")  # fmt: skip
    else:
        yield CheckResult("ok", "fail-open", f"no object passed unchecked, {calls}")


def _began(metrics: str) -> datetime | None:
    """The time at which the API server started; None if its metrics lack it."""
    match = re.search(r"^process_start_time_seconds (\S+)$", metrics, re.MULTILINE)
    return datetime.fromtimestamp(float(match[1]), UTC) if match else None


def _counts(metrics: str, family: str, hook_names: _Names) -> dict[str, float]:
    """Name of a webhook → the sum of a metric's samples, for each of these names that has some."""
    entries: dict[str, float] = {}
    family_text = "\n".join(line for line in metrics.splitlines() if line.startswith(f"{family}{{")) + "\n"
    for metric in text_string_to_metric_families(family_text):
        for sample in metric.samples:
            if (name := sample.labels.get("name", "")) in hook_names:
                entries[name] = entries.get(name, 0) + sample.value
    return entries


# ── the replicas ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _replicas(observed: Observed, entries: Mapping[str, JSON]) -> Iterator[CheckResult]:
    """Report if replicas are ready, what each says in /readyz, and what happens without them."""
    fails = sorted({hook["name"] for hook in hooks(entries) if hook.get("failurePolicy") == "Fail"})
    deployment = observed.deployment
    if isinstance(deployment, Unseen):
        yield CheckResult("warn", "replicas", f"can't be seen: {deployment.why}")
    elif deployment is not None:
        replicas = int((deployment.get("spec") or {}).get("replicas", 1))
        ready = int((deployment.get("status") or {}).get("readyReplicas") or 0)
        text = f"{ready} of {replicas} ready"
        if ready == 0:
            yield CheckResult("fail", "replicas", text, "kubectl describe, and the log of podfit's Pods")
        elif ready < replicas:
            yield CheckResult("warn", "replicas", text, "kubectl describe, and the log of podfit's Pods")
        else:
            yield CheckResult("ok", "replicas", text)
        if fails and replicas < 2:
            yield CheckResult("fail", "failurePolicy", f"Fail with {replicas} replica: {', '.join(fails)}",
                       "its restart stops every vLLM workload: replicaCount: 2, or Ignore")  # fmt: skip
    if fails:
        yield CheckResult("ok", "failurePolicy", f"Fail ({', '.join(fails)}): without an answer objects are rejected")
    elif entries:
        yield CheckResult("ok", "failurePolicy", "Ignore: without an answer objects pass")
    for pod, body in observed.ready.items():
        if isinstance(body, Unseen):
            yield CheckResult("warn", "replica", f"{pod}: the API server can't ask its /readyz: {body.why}")
        elif body[:1] != ("ok",):
            yield CheckResult("fail", "replica", f"{pod}: not ready: {' '.join(body)}", f"kubectl logs {pod}")
        elif problems := [line for line in body[1:] if _PROBLEM.search(line)]:
            for problem in problems:
                yield CheckResult("warn", "replica", f"{pod}: {problem}")
        else:
            yield CheckResult("ok", "replica", f"{pod}: ready")


_PROBLEM = re.compile(r"certificate|last good state|not seen|stale|expired|failed")
"""A word of a line of /readyz that reports a problem of a replica that is ready."""


def _callers(observed: Observed) -> Iterator[CheckResult]:
    """A line on the callers that can send reviews: the API server must, and every other caller costs processor time.
    In order: a client certificate limits them, the host network allows all, a NetworkPolicy may limit them."""
    about = "callers"
    if not isinstance(observed.deployment, Mapping):
        return  # `_replicas` reports it
    template = mapping(mapping(observed.deployment.get("spec")).get("template"))
    spec = mapping(template.get("spec"))
    ours = [mapping(item) for item in as_list(spec.get("containers"))]
    if any(str(word).startswith("--client-ca") for item in ours for word in as_list(item.get("args"))):
        yield CheckResult("ok", about, "clients that show a certificate of the CA in certificates.clientCA")
        return
    if spec.get("hostNetwork"):
        text = "every Pod can call podfit: it is in the host network, to which no NetworkPolicy applies"
        yield CheckResult("warn", about, text, f"set certificates.clientCA: {_WHO}")
        return
    if isinstance(observed.network_policies, Unseen):
        text = f"not known whether a NetworkPolicy limits who can call podfit: {observed.network_policies.why}"
        yield CheckResult("warn", about, text, "needed: the right to list networkpolicies in podfit's namespace")
        return
    labels = mapping(mapping(template.get("metadata")).get("labels"))
    ports = [mapping(port) for item in ours for port in as_list(item.get("ports"))]
    applied = [
        network_policy
        for network_policy in observed.network_policies
        if _applies(mapping(network_policy.get("spec")), labels)
    ]
    rules = [(_name(item), rule) for item in applied for rule in _rules(item, ports)]
    open_to_all = [name for name, rule in rules if _is_open(rule)]
    if open_to_all or not applied:
        why = f"NetworkPolicy {open_to_all[0]} allows every peer" if applied else "no NetworkPolicy selects its Pods"
        advice = f"set networkPolicy.from or certificates.clientCA: {_WHO}"
        yield CheckResult("warn", about, f"every Pod can call podfit: {why}", advice)
    else:
        peers = sum(len(as_list(rule.get("from"))) for _, rule in rules)
        names = ", ".join(_name(item) for item in applied)
        text = f"{peers} peer{'' if peers == 1 else 's'} of NetworkPolicy {names}, if the network plugin enforces it"
        yield CheckResult("ok", about, text)


_WHO = "docs/security.md, Callers"
"""The section that an advice refers to."""


def _applies(spec: JSON, labels: Mapping[str, str]) -> bool:
    """True if a NetworkPolicy limits what reaches Pods with these labels."""
    selector = of_object(mapping(spec.get("podSelector")))
    return "Ingress" in as_list(spec.get("policyTypes") or ["Ingress"]) and bool(selector and selector.selects(labels))


def _rules(policy: JSON, ports: Iterable[JSON]) -> Iterator[JSON]:
    """A NetworkPolicy's rules of ingress to one of these ports of a container."""
    for rule in as_list(mapping(policy.get("spec")).get("ingress")):
        items = [mapping(item) for item in as_list(mapping(rule).get("ports"))]
        if not items or any(_is_in(port, item) for port in ports for item in items):
            yield mapping(rule)


def _is_in(port: JSON, value: JSON) -> bool:
    """True if a NetworkPolicy's port, by name or number or as a range, covers the container's TCP port. One without a
    port covers all; one of another protocol covers none."""
    first, number = value.get("port"), port.get("containerPort")
    if value.get("protocol", "TCP") != "TCP":
        return False
    if not isinstance(first, int) or not isinstance(number, int):
        return first is None or first == port.get("name")
    return first <= number <= int(value.get("endPort") or first)


def _is_open(rule: JSON) -> bool:
    """True if a rule of ingress allows every Pod."""
    peers = [mapping(item) for item in as_list(rule.get("from"))]
    return not peers or any(_admits_all_peers(peer) for peer in peers)


def _admits_all_peers(peer: JSON) -> bool:
    """True if a peer of a NetworkPolicy admits all addresses, or all Pods of the cluster."""
    if "ipBlock" in peer:
        return str(mapping(peer["ipBlock"]).get("cidr")).endswith("/0")
    return peer.get("namespaceSelector") == {} and not peer.get("podSelector")


def _mutators(mutators: tuple[JSON, ...] | Unseen, entries: Mapping[str, JSON]) -> Iterator[CheckResult]:
    """A line on other mutating webhooks that change Pods, and those that API servers call after podfit's, by name."""
    if isinstance(mutators, Unseen):
        yield CheckResult("warn", "other mutators", f"can't be seen: {mutators.why}")
        return
    ours = {_name(item) for kind, item in entries.items() if kind.startswith("mutating")}
    others = sorted(_name(mutator) for mutator in mutators if _name(mutator) not in ours and _mutates_pods(mutator))
    if not others:
        yield CheckResult("ok", "other mutators", "no other webhook changes Pods")
        return
    after = [name for name in others if ours and name > min(ours)]
    text = f"Pods are changed by {', '.join(others)}, too"
    if after:
        text += f"; after podfit: {', '.join(after)}, so that podfit is asked again (reinvocationPolicy: IfNeeded)"
    yield CheckResult("ok", "other mutators", text)


def _mutates_pods(configuration: JSON) -> bool:
    """True if a webhook of the configuration is called when a Pod is created."""
    return any(
        {"pods", "*", "*/*", "pods/*"} & set(rule.get("resources") or ())
        and {"", "*"} & set(rule.get("apiGroups") or ())
        and {"CREATE", "*"} & set(rule.get("operations") or ())
        for hook in configuration.get("webhooks") or ()
        for rule in hook.get("rules") or ()
    )


# ── policies, versions ───────────────────────────────────────────────────────────────────────────────────────────────


def _policies(observed: Observed) -> Iterator[CheckResult]:
    """A line for each Policy object that no replica has accepted; their number if all are. Without their CRD, a line on
    what that means for the policies in force."""
    if isinstance(observed.crd, Unseen):
        yield CheckResult("warn", "policies", f"can't be seen: {observed.crd.why}")
        return
    if observed.crd is None:
        text, fix = "there is no CRD policies.podfit.dev", "helm upgrade makes it again; or set watch.policies to false"
        if not isinstance(observed.deployment, Mapping):
            yield CheckResult("warn", "policies", f"{text}: podfit enforces nothing if watch.policies is true", fix)
        elif _watches_policies(observed.deployment):
            yield CheckResult("fail", "policies", f"{text}: podfit enforces nothing", fix)
        else:
            yield CheckResult("ok", "policies", f"{text}: the policy is the chart's alone")
        return
    if isinstance(observed.policies, Unseen):
        if observed.policies.why.startswith("429:"):  # a CRD's first seconds
            text = "the API server has not yet made ready what serves Policy objects"
            yield CheckResult("warn", "policies", text, "look again in a minute")
        else:
            yield CheckResult("warn", "policies", f"can't be seen: {observed.policies.why}")
        return
    bad = 0
    for policy in observed.policies:
        conditions = (policy.get("status") or {}).get("conditions") or ()
        accepted = next((condition for condition in conditions if condition.get("type") == "Accepted"), None)
        if accepted is None:
            bad += 1
            yield CheckResult("warn", "policies", f"{_name(policy)}: no replica has accepted it", "are replicas ready?")
        elif accepted.get("status") != "True":
            bad += 1
            yield CheckResult(
                "fail", "policies", f"{_name(policy)}: {accepted.get('message')}", "fix it; the last good state applies"
            )
    if not bad:
        yield CheckResult("ok", "policies", _policy_count(len(observed.policies)))


def _watches_policies(deployment: object) -> bool:
    """True if the server's arguments ask for Policy objects."""
    template = mapping(mapping(mapping(deployment).get("spec")).get("template"))
    return any(
        str(word).startswith("--watch=") and "policies" in str(word).removeprefix("--watch=").split(",")
        for container in as_list(mapping(template.get("spec")).get("containers"))
        for word in as_list(mapping(container).get("args"))
    )


def _policy_count(number: int) -> str:
    """How many Policy objects are valid, in words."""
    return f"{number or 'no'} Policy object{'s' if number != 1 else ''}{' in use' if number else ''}"


def _versions(observed: Observed, mine: str) -> Iterator[CheckResult]:
    """The versions of this command, the installation and Kubernetes."""
    deployment = observed.deployment if isinstance(observed.deployment, Mapping) else {}
    label = _nested(deployment, "metadata", "labels").get("app.kubernetes.io/version")  # what the chart was made for
    installed = _tag(deployment) or label or "not known"
    text = f"podfit {mine} here, {installed} in the cluster; Kubernetes {observed.version or 'not known'}"
    differs = installed not in (mine, "not known")
    yield CheckResult(
        "warn" if differs else "ok", "versions", text, "use the same: findings may differ" if differs else ""
    )


def _facts(images: frozenset[str] | Unseen) -> Iterator[CheckResult]:
    """Report if the cluster runs a vLLM that is newer than the facts of this podfit."""
    if isinstance(images, Unseen):
        yield CheckResult("warn", "facts", f"images can't be seen: {images.why}", "needed: the right to list Pods")
        return
    last = known_releases()[-1]
    newer = {image: release for image in sorted(images) if (release := from_image(image)) and release > last}
    for image, release in newer.items():
        text = f"{image} holds vLLM {release}, the newest release known is {last}: its flags are not checked"
        yield CheckResult("warn", "facts", text, "a newer podfit, or podfit releases add (docs/releases.md)")
    if not newer:
        yield CheckResult("ok", "facts", age())


def _tag(deployment: JSON) -> str:
    """The version in the tag of the image that runs, which may be another than the chart's own; empty if the tag is
    not a version."""
    containers = _nested(deployment, "spec", "template", "spec").get("containers") or ()
    image = next((str(container.get("image")) for container in containers if container.get("name") == "podfit"), "")
    match = re.search(r":v?(\d+\.[\w.+-]+)(?:@|$)", image)
    return match[1] if match else ""


def _nested(obj: JSON, *names: str) -> JSON:
    """A nested object; empty if a level is missing."""
    for name in names:
        obj = obj.get(name) or {}
    return obj


def _name(obj: JSON) -> str:
    """The object's name; "None" without one, which no object of a cluster is."""
    return str((obj.get("metadata") or {}).get("name"))


def _span(left: timedelta) -> str:
    """A time for people, in days, or in hours if it is less than a day."""
    return f"{left.days} days" if left.days else f"{left.seconds // 3600} hours"
