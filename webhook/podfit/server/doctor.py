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
"""The API server's metric of calls that failed, with failurePolicy Ignore, so that the object passed."""
REQUEST_COUNTER = "apiserver_admission_webhook_request_total"
"""The API server's metric of all calls of webhooks."""
JSON = Mapping[str, Any]
State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class CheckResult:
    """One line of the report."""

    state: State
    about: str
    """The subject ("replicas")."""
    text: str
    """The observation."""
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
    configurations = {kind: value for kind, value in observed.configurations.items() if isinstance(value, Mapping)}
    has_unseen = any(isinstance(value, Unseen) for value in observed.configurations.values())
    names = _Names(frozenset(hook["name"] for hook in hooks(configurations)), all_known=not has_unseen)
    lines = [*_configurations(observed.configurations)]
    if configurations:
        lines += _switch(configurations, observed.now)
        lines += _bundles(configurations, observed.now)
        lines += _served(observed.served, observed.now)
    if configurations or has_unseen:
        replicas = [*_replicas(observed, configurations)]
        causes = dict.fromkeys(line.about for line in (*lines, *replicas) if line.state == "fail")
        lines += _api_server_results(observed, configurations, names, tuple(causes))
        lines += _fail_open(observed, names)
        lines += replicas
        lines += _callers(observed)
        lines += _mutators(observed.mutators, configurations)
        lines += _policies(observed)
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


def _switch(configurations: Mapping[str, JSON], now: datetime) -> Iterator[CheckResult]:
    """A line for each configuration that `podfit off` has paused, or whose pause is over; "on" if all are on and no
    condition is left. `configurations`: kind → podfit's own object."""
    for kind, configuration in configurations.items():
        state, end = registration.state(configuration, now), registration.ends(configuration)
        until = f"{end:%Y-%m-%d %H:%M} UTC" if end else ""
        if state != "on":
            parts = [f"{kind} is {state}", registration.note(configuration), f"until {until}" if until else ""]
            text = ", ".join(part for part in parts if part)
            yield CheckResult("warn", "switch", text, "podfit on" if state == "off" else "podfit off, or podfit on")
        elif until:
            text = f"{kind} is on: `podfit off --for` ended at {until}"
            yield CheckResult("ok", "switch", text, "podfit on removes its condition")
    # Without `now`, a condition counts as off even if its end is over.
    if all(registration.state(configuration) == "on" for configuration in configurations.values()):
        yield CheckResult("ok", "switch", "on")


_BUNDLE_ADVICE = (
    "podfit writes it within seconds: look at the log of its Pods; with cert-manager at its cainjector's; "
    "with files it is the chart's value certificates.caBundle"
)


def _bundles(configurations: Mapping[str, JSON], now: datetime) -> Iterator[CheckResult]:
    """A line for each webhook without a valid CA bundle; if all are valid, one line on their CAs and their end."""
    bundles = {
        f"{kind}, {hook['name']}": renewal.bundle_of(hook)
        for kind, configuration in configurations.items()
        for hook in hooks({kind: configuration})
    }
    advice = _BUNDLE_ADVICE
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
    if not good or len(good) < len(bundles):  # each problem has its line
        return
    if len(set(good)) > 1:
        advice = "look again in a minute; then at podfit's log"
        yield CheckResult("warn", "caBundle", "not the same in every webhook", advice)
        return
    cas_of_all = good[0]
    last_end = max(certs.not_after(ca) for ca in cas_of_all)
    count = f"{len(cas_of_all)} CA{'' if len(cas_of_all) == 1 else 's'}"
    yield CheckResult("ok", "caBundle", f"{count}, the last one until {last_end:%Y-%m-%d}")


def _served(served: Iterable[Served], now: datetime) -> Iterator[CheckResult]:
    """A line for each address: no answer, a certificate that the webhook's CAs do not verify, one that was not renewed
    in time, or a good one with its end."""
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
    observed: Observed, configurations: Mapping[str, JSON], hook_names: _Names, causes: tuple[str, ...]
) -> Iterator[CheckResult]:
    """One line on whether the API server asks podfit, by its answer to the faulty Pod, and if that passed, by its
    metrics. `causes`: the subjects of lines that fail, which may be the reason; empty: none does."""
    about, answer = "API server", observed.answer
    if isinstance(answer, Unseen):
        text = f"not tried whether it asks podfit: {answer.why}"
        yield CheckResult("warn", about, text, "kubectl apply --dry-run=server -f your-vllm.yaml")
    elif answer:
        yield _denial_result(answer, hook_names)
    elif any(registration.state(item, observed.now) != "on" for item in configurations.values()):
        yield CheckResult("ok", about, "a faulty Pod (a dry run) passed: podfit is off")
    elif _has_increased(observed, FAIL_OPEN, hook_names):
        port = "is the port open from the control plane to podfit's Pods? docs/security.md"
        yield CheckResult("fail", about, "a faulty Pod (a dry run) passed unchecked: it can't reach podfit",
                   f"fix first what fails here: {', '.join(causes)}" if causes else port)  # fmt: skip
    elif _has_increased(observed, REQUEST_COUNTER, hook_names):
        yield CheckResult("ok", about, "it asked podfit about a faulty Pod (a dry run), which the policy allows")
    elif isinstance(observed.before, Unseen) or isinstance(observed.metrics, Unseen):
        yield CheckResult("warn", about, "a faulty Pod (a dry run) passed; whether podfit was asked is unknown",
                   "with the right to get /metrics of the API server this line says more")  # fmt: skip
    else:
        yield CheckResult("warn", about, "it did not ask podfit about a faulty Pod (a dry run)",
                   "does the webhooks' namespaceSelector choose that namespace? --probe-namespace NAME")  # fmt: skip


def _denial_result(answer: str, hook_names: _Names) -> CheckResult:
    """The line on the API server's message that denied the faulty Pod: by podfit, because it can't call podfit, or for
    another reason."""
    about = "API server"
    if any(name in hook_names for name in re.findall(r'admission webhook "([^"]*)" denied', answer)):
        return CheckResult("ok", about, "it asked podfit about a faulty Pod (a dry run), and podfit denied it")
    if any(name in hook_names for name in re.findall(r'failed calling webhook "([^"]*)"', answer)):
        reason = answer.rpartition("failed calling webhook ")[2]
        return CheckResult("fail", about, f"it can't reach podfit: {reason}", "podfit off lets everything pass")
    text = f"the faulty Pod was denied, but not by podfit: {answer}"
    return CheckResult("warn", about, text, "--probe-namespace NAME")


def _has_increased(observed: Observed, family: str, hook_names: _Names) -> bool:
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
    failed = _counts(metrics, FAIL_OPEN, hook_names)
    all_calls = _counts(metrics, REQUEST_COUNTER, hook_names)
    calls = f"of {sum(all_calls.values()):.0f} calls of this API server"
    total = sum(failed.values())
    if not total:
        yield CheckResult("ok", "fail-open", f"no object passed unchecked, {calls}")
        return
    which = ", ".join(f"{name} {count:.0f}" for name, count in sorted(failed.items()) if count)
    start = _start_of_api_server(metrics)
    since = f" since {start:%Y-%m-%d %H:%M} UTC" if start else ""
    text = f"{total:.0f} failed, {calls}{since}, and what they asked about passed: {which}"
    yield CheckResult("ok", "fail-open", text + " (an earlier podfit doctor's tries are among them)",
               "when? ask Prometheus: increase(apiserver_admission_webhook_fail_open_count[1d])")  # fmt: skip


def _start_of_api_server(metrics: str) -> datetime | None:
    """The time at which the API server started; None if its metrics lack it."""
    match = re.search(r"^process_start_time_seconds (\S+)$", metrics, re.MULTILINE)
    return datetime.fromtimestamp(float(match[1]), UTC) if match else None


def _counts(metrics: str, family: str, hook_names: _Names) -> dict[str, float]:
    """Name of a webhook → the sum of a metric's samples, for each of these names that has some.

    `metrics`: in Prometheus' text format, of which only the lines of the metric `family` are parsed."""
    counts: dict[str, float] = {}
    family_text = "\n".join(line for line in metrics.splitlines() if line.startswith(f"{family}{{")) + "\n"
    for metric in text_string_to_metric_families(family_text):
        for sample in metric.samples:
            name = sample.labels.get("name", "")
            if name in hook_names:
                counts[name] = counts.get(name, 0) + sample.value
    return counts


# ── the replicas ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _replicas(observed: Observed, configurations: Mapping[str, JSON]) -> Iterator[CheckResult]:
    """Lines on how many replicas are ready, on what happens without them (`failurePolicy`), and on each replica."""
    fails = sorted({hook["name"] for hook in hooks(configurations) if hook.get("failurePolicy") == "Fail"})
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
    elif configurations:
        yield CheckResult("ok", "failurePolicy", "Ignore: without an answer objects pass")
    for pod, lines in observed.ready.items():
        yield from _replica(pod, lines)


def _replica(pod: str, readyz: tuple[str, ...] | Unseen) -> Iterator[CheckResult]:
    """A line for each problem in the answer of a Pod's /readyz; if there is none, that it is ready. Its first line is
    "ok" if the Pod may get reviews."""
    if isinstance(readyz, Unseen):
        yield CheckResult("warn", "replica", f"{pod}: the API server can't ask its /readyz: {readyz.why}")
        return
    if readyz[:1] != ("ok",):
        yield CheckResult("fail", "replica", f"{pod}: not ready: {' '.join(readyz)}", f"kubectl logs {pod}")
        return
    problems = [line for line in readyz[1:] if _PROBLEM.search(line)]
    for problem in problems:
        yield CheckResult("warn", "replica", f"{pod}: {problem}")
    if not problems:
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
    containers = [mapping(item) for item in as_list(spec.get("containers"))]
    args = [str(argument) for container in containers for argument in as_list(container.get("args"))]
    if any(argument.startswith("--client-ca") for argument in args):
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
    ports = [mapping(port) for container in containers for port in as_list(container.get("ports"))]
    yield _network_policy_result(observed.network_policies, labels, ports)


def _network_policy_result(policies: Iterable[JSON], labels: Mapping[str, str], ports: list[JSON]) -> CheckResult:
    """The line on whether NetworkPolicies limit the callers of Pods with these labels and container ports. They allow
    the union of all peers, so one rule for every peer, or no policy at all, allows every Pod."""
    about = "callers"
    applied = [policy for policy in policies if _applies(mapping(policy.get("spec")), labels)]
    peers = 0
    why = "" if applied else "no NetworkPolicy selects its Pods"
    for policy in applied:
        for rule in _rules(policy, ports):
            peers += len(as_list(rule.get("from")))
            if _is_open(rule) and not why:
                why = f"NetworkPolicy {_name(policy)} allows every peer"
    if why:
        advice = f"set networkPolicy.from or certificates.clientCA: {_WHO}"
        return CheckResult("warn", about, f"every Pod can call podfit: {why}", advice)
    names = ", ".join(_name(policy) for policy in applied)
    text = f"{peers} peer{'' if peers == 1 else 's'} of NetworkPolicy {names}, if the network plugin enforces it"
    return CheckResult("ok", about, text)


_WHO = "docs/security.md, Callers"
"""The section that an advice refers to."""


def _applies(spec: JSON, labels: Mapping[str, str]) -> bool:
    """True if a NetworkPolicy with this `spec` limits what reaches Pods with these labels. False if its selector is not
    valid, or can't be evaluated."""
    types = as_list(spec.get("policyTypes") or ["Ingress"])  # the API's default, if it has no rule of egress
    if "Ingress" not in types:
        return False
    selector = of_object(mapping(spec.get("podSelector")))
    return selector is not None and bool(selector.selects(labels))


def _rules(policy: JSON, ports: Iterable[JSON]) -> Iterator[JSON]:
    """A NetworkPolicy's rules of ingress to one of these ports of a container; a rule without ports is for all."""
    for rule in as_list(mapping(policy.get("spec")).get("ingress")):
        rule_ports = [mapping(item) for item in as_list(mapping(rule).get("ports"))]
        if not rule_ports or any(_covers(rule_port, port) for port in ports for rule_port in rule_ports):
            yield mapping(rule)


def _covers(rule_port: JSON, container_port: JSON) -> bool:
    """True if a NetworkPolicy's port, by name or number or as a range, covers the container's TCP port. One without a
    port covers all; one of another protocol covers none."""
    first, number = rule_port.get("port"), container_port.get("containerPort")
    if rule_port.get("protocol", "TCP") != "TCP":
        return False
    if first is None:
        return True
    if not isinstance(first, int) or not isinstance(number, int):
        return bool(first == container_port.get("name"))
    return first <= number <= int(rule_port.get("endPort") or first)


def _is_open(rule: JSON) -> bool:
    """True if a rule of ingress allows every Pod."""
    peers = [mapping(item) for item in as_list(rule.get("from"))]
    return not peers or any(_admits_all_peers(peer) for peer in peers)


def _admits_all_peers(peer: JSON) -> bool:
    """True if a peer of a NetworkPolicy admits all addresses, or all Pods of the cluster."""
    if "ipBlock" in peer:
        return str(mapping(peer["ipBlock"]).get("cidr")).endswith("/0")
    return peer.get("namespaceSelector") == {} and not peer.get("podSelector")


def _mutators(mutators: tuple[JSON, ...] | Unseen, configurations: Mapping[str, JSON]) -> Iterator[CheckResult]:
    """A line on other mutating webhooks that change Pods, and on those that API servers call after podfit's: they call
    webhooks in the order of the configurations' names."""
    if isinstance(mutators, Unseen):
        yield CheckResult("warn", "other mutators", f"can't be seen: {mutators.why}")
        return
    ours = {_name(item) for kind, item in configurations.items() if kind.startswith("mutating")}
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
    for hook in configuration.get("webhooks") or ():
        for rule in hook.get("rules") or ():
            for_pods = {"pods", "*", "*/*", "pods/*"} & set(rule.get("resources") or ())
            of_core_group = {"", "*"} & set(rule.get("apiGroups") or ())
            on_create = {"CREATE", "*"} & set(rule.get("operations") or ())
            if for_pods and of_core_group and on_create:
                return True
    return False


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
    problems = [result for policy in observed.policies if (result := _policy_problem(policy)) is not None]
    yield from problems or [CheckResult("ok", "policies", _policy_count(len(observed.policies)))]


def _policy_problem(policy: JSON) -> CheckResult | None:
    """The line on a Policy object that is not in force; None if it is, by its condition Accepted."""
    conditions = (policy.get("status") or {}).get("conditions") or ()
    accepted = next((condition for condition in conditions if condition.get("type") == "Accepted"), None)
    if accepted is None:
        return CheckResult("warn", "policies", f"{_name(policy)}: no replica has accepted it", "are replicas ready?")
    if accepted.get("status") != "True":
        text = f"{_name(policy)}: {accepted.get('message')}"
        return CheckResult("fail", "policies", text, "fix it; the last good state applies")
    return None


def _watches_policies(deployment: object) -> bool:
    """True if the server's arguments ask for Policy objects: `--watch=nodes,policies`."""
    template = mapping(mapping(mapping(deployment).get("spec")).get("template"))
    containers = as_list(mapping(template.get("spec")).get("containers"))
    args = [str(argument) for container in containers for argument in as_list(mapping(container).get("args"))]
    watches = [argument.removeprefix("--watch=") for argument in args if argument.startswith("--watch=")]
    return any("policies" in kinds.split(",") for kinds in watches)


def _policy_count(number: int) -> str:
    """How many Policy objects are valid, in words."""
    return f"{number or 'no'} Policy object{'s' if number != 1 else ''}{' in use' if number else ''}"


def _versions(observed: Observed, mine: str) -> Iterator[CheckResult]:
    """A line on the versions of this command (`mine`), the installation and Kubernetes; a warning if the first two are
    known to differ. The installation's is that of the image, else that of the chart's label."""
    deployment = observed.deployment if isinstance(observed.deployment, Mapping) else {}
    label = _nested(deployment, "metadata", "labels").get("app.kubernetes.io/version")
    installed = _tag(deployment) or label or "not known"
    text = f"podfit {mine} here, {installed} in the cluster; Kubernetes {observed.version or 'not known'}"
    if installed in (mine, "not known"):
        yield CheckResult("ok", "versions", text)
    else:
        yield CheckResult("warn", "versions", text, "use the same: findings may differ")


def _facts(images: frozenset[str] | Unseen) -> Iterator[CheckResult]:
    """A line for each image with a vLLM that is newer than the facts of this podfit; if there is none, one on the age
    of the facts. Images without a known release do not count."""
    if isinstance(images, Unseen):
        yield CheckResult("warn", "facts", f"images can't be seen: {images.why}", "needed: the right to list Pods")
        return
    newest_known = known_releases()[-1]
    has_newer = False
    for image in sorted(images):
        release = from_image(image)
        if release is None or release <= newest_known:
            continue
        has_newer = True
        text = f"{image} holds vLLM {release}, the newest release known is {newest_known}: its flags are not checked"
        yield CheckResult("warn", "facts", text, "a newer podfit, or podfit releases add (docs/releases.md)")
    if not has_newer:
        yield CheckResult("ok", "facts", age())


def _tag(deployment: JSON) -> str:
    """The version in the tag of the container `podfit`'s image, which may be another than the chart's own. Empty if the
    tag is not a version, or there is no such container."""
    containers = _nested(deployment, "spec", "template", "spec").get("containers") or ()
    images = [str(container.get("image")) for container in containers if container.get("name") == "podfit"]
    match = re.search(r":v?(\d+\.[\w.+-]+)(?:@|$)", images[0]) if images else None  # a digest may follow
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
