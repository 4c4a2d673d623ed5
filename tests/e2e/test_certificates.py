"""podfit's own certificates on a real API server: the first, renewals under traffic, and what people do to them."""

from __future__ import annotations

import base64
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Barrier, Event
from typing import Any

import pytest

from podfit.cluster import from_kubeconfig
from podfit.server import certs
from podfit.server.certs.keeper import Keeper
from podfit.server.certs.renewal import RenewalPolicy
from tests.conftest import GOOD_POD
from tests.e2e.controlplane import HOST, READER, Cluster
from tests.e2e.process import DEADLINE, until
from tests.e2e.release import OWN, REGISTRATION, Podfit, make_namespace, make_own_namespace, secret_of
from tests.e2e.user import User
from tests.reviews import deployment, doomed

JSONDict = dict[str, Any]
Install = Callable[..., Podfit]
UserOf = Callable[[Podfit], User]
KINDS = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
FAIL = {"certificates": {"mode": "self"}, "webhooks": {"failurePolicy": "Fail"}}


def configuration(podfit: Podfit, kind: str) -> JSONDict:
    status, answer = podfit.cluster.call("GET", f"{REGISTRATION}/{kind}/{podfit.name}")
    assert status == 200, answer
    assert isinstance(answer, dict)
    return answer


def bundles(podfit: Podfit) -> list[tuple[bytes, ...]]:
    """The CAs of each webhook in both configurations."""
    return [
        certs.split(base64.b64decode(hook["clientConfig"].get("caBundle", "")))
        for kind in KINDS
        for hook in configuration(podfit, kind)["webhooks"]
    ]


def cas(podfit: Podfit) -> tuple[bytes, ...]:
    """The CAs in the Secret, the newest first."""
    return certs.split(base64.b64decode(secret_of(podfit).get("ca.crt", "")))


def leaf(podfit: Podfit) -> bytes:
    return base64.b64decode(secret_of(podfit).get("tls.crt", ""))


def trusted(podfit: Podfit, *ports: int) -> None:
    """A handshake with each replica by each bundle that is live now: what any API server does next."""
    for bundle in set(bundles(podfit)):
        context = ssl.create_default_context(cadata=b"".join(bundle).decode())
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
        for port in ports:
            with socket.create_connection((HOST, port), DEADLINE) as near:
                context.wrap_socket(near, server_hostname=HOST).close()


@dataclass
class Told:
    """What came of traffic."""

    wrong: list[object]
    """What failed."""
    stall: float = 0.0
    """The longest time, in seconds, that a thread of this process had to wait for its turn."""


@contextmanager
def traffic(podfit: Podfit, *ports: int) -> Iterator[Told]:
    """Pods are made without a pause, and replicas are greeted as another API server would, until the block ends."""
    namespace = f"{podfit.name}-traffic"
    make_namespace(podfit.cluster, namespace, podfit.name)
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    done, wrong, asked = Event(), list[object](), list[int]()
    told = Told(wrong)

    def make_pods() -> None:
        while not done.is_set():
            status, answer = podfit.cluster.call("POST", path, GOOD_POD | {"metadata": {"generateName": "chat-"}})
            asked.append(status)
            if status != 201:
                wrong.append(answer)

    def greet() -> None:
        while not done.wait(0.05):
            try:
                trusted(podfit, *ports)
            except OSError as error:
                wrong.append(error)

    def wait() -> None:
        at = time.monotonic()
        while not done.wait(0.05):
            at, before = time.monotonic(), at
            told.stall = max(told.stall, at - before)

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(make_pods), pool.submit(greet), pool.submit(wait)]
        try:
            until("traffic", lambda: len(asked) > 5)
            yield told
            until("more traffic", lambda: len(asked) > 20)
        finally:
            done.set()
    for one in running:
        one.result()


def ask(podfit: Podfit, before: Podfit, after: Podfit) -> None:
    """The API server asks another replica to mutate, as when a Service has other endpoints."""
    hook = configuration(podfit, KINDS[1])["webhooks"][0]
    url = hook["clientConfig"]["url"].replace(f":{before.port}/", f":{after.port}/")
    changed = {**hook, "clientConfig": {**hook["clientConfig"], "url": url}}
    podfit.cluster.patch(f"{REGISTRATION}/{KINDS[1]}/{podfit.name}", {"webhooks": [changed]})
    probe = f"/api/v1/namespaces/{podfit.name}-probe/pods?dryRun=All"
    until(
        "the API server to ask the replica",
        lambda: (
            podfit.cluster.call("POST", probe, GOOD_POD | {"metadata": {"name": "probe"}})[0] == 201
            and after.reviews(webhook="mutate")
        ),
    )


@pytest.fixture(name="both")
def _both(install: Install) -> Callable[..., tuple[Podfit, Podfit]]:
    """Two replicas; the API server asks the first one to validate and the second one to mutate. Nothing fails open."""

    def both(*arguments: str) -> tuple[Podfit, Podfit]:
        first = install(FAIL, arguments=arguments)
        second = first.beside(first)
        until("the second replica to serve", lambda: "serving the certificate" in second.said(), second.said)
        ask(first, first, second)
        return first, second

    return both


def test_the_first_install_fills_the_secret_and_both_configurations(install: Install, user_of: UserOf) -> None:
    podfit = install({"certificates": {"mode": "self"}})
    user = user_of(podfit)
    user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))

    shown = user.kubectl("apply -f llama-8b.yaml", exits=1)

    assert "admission webhook" in shown
    assert secret_of(podfit).keys() == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert set(bundles(podfit)) == {cas(podfit)}
    assert len(cas(podfit)) == 1
    assert certs.hosts_of(leaf(podfit)) >= {f"{podfit.name}.{OWN}.svc", HOST}
    assert podfit.ready()[0] == 200
    assert "PRIVATE" not in podfit.said()


def test_what_podfit_writes_is_its_own_and_the_rest_stays_its_installers(install: Install) -> None:
    """Two managers of one field are a conflict at the next server-side apply."""
    podfit = install({"certificates": {"mode": "self"}})

    for kind in KINDS:
        for manager in configuration(podfit, kind)["metadata"]["managedFields"]:
            assert ("caBundle" in str(manager["fieldsV1"])) is (manager["manager"] == "podfit")


def test_replicas_that_race_from_an_empty_cluster_make_one_ca(cluster: Cluster) -> None:
    make_own_namespace(cluster)
    role = {"metadata": {"name": "race"}, "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get", "update"]}
    ]}  # fmt: skip
    subject: JSONDict = {"kind": "User", "name": READER, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "race"}
    binding: JSONDict = {"metadata": {"name": "race"}, "roleRef": reference, "subjects": [subject]}
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}"
    assert cluster.call("POST", f"{rbac}/roles", role)[0] == 201
    assert cluster.call("POST", f"{rbac}/rolebindings", binding)[0] == 201
    configurations = {"metadata": {"name": "race"}, "rules": [
        {"apiGroups": ["admissionregistration.k8s.io"], "resources": list(KINDS), "verbs": ["get"]}
    ]}  # fmt: skip
    assert cluster.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", configurations)[0] == 201
    bound = {**binding, "roleRef": {**reference, "kind": "ClusterRole"}}
    assert cluster.call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", bound)[0] == 201
    access = from_kubeconfig(cluster.kubeconfig(OWN, READER))

    for number in range(5):
        keepers = [Keeper(access, f"race-{number}", "race", RenewalPolicy(("a.svc",))) for _ in range(4)]
        together = Barrier(4)

        def look(keeper: Keeper, together: Barrier = together) -> None:
            together.wait()
            keeper.look()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(look, keepers))
        _, stored = cluster.call("GET", f"/api/v1/namespaces/{OWN}/secrets/race-{number}")

        assert {keeper.problem() for keeper in keepers} == {None}
        served = {keeper.not_after() for keeper in keepers}
        assert served == {certs.not_after(base64.b64decode(stored["data"]["tls.crt"])).timestamp()}
        assert len(certs.split(base64.b64decode(stored["data"]["ca.crt"]))) == 1


def test_leaf_and_ca_are_renewed_under_traffic_and_nothing_fails(
    both: Callable[..., tuple[Podfit, Podfit]],
) -> None:
    """A certificate has a third of its life to be renewed in. Where the machine itself stood still for a part of that,
    the same is tried with longer lives; what fails while it did not is a failure."""
    for times in (1, 2, 4):
        lives = f"--certificate-lifetime={9 * times}s", f"--ca-lifetime={20 * times}s"
        told = _renewed(*both(*lives, "--ca-pause=2s"))
        if not told.wrong or told.stall < times / 2:
            break

    assert told.wrong == []


def _renewed(first: Podfit, second: Podfit) -> Told:
    """Traffic until both replicas serve the second renewal, of another CA."""
    (begun, *_), seen = cas(first), set[bytes]()

    def rotated() -> bool:
        seen.add(leaf(first))
        newest = cas(first)[0]
        return newest != begun and certs.signed_by(leaf(first), newest) and len(seen) >= 3

    with traffic(first, first.port, second.port) as told:
        for _ in range(2):  # DEADLINE each
            if _within(rotated):
                break
        assert rotated()
        until(
            "both replicas to serve it", lambda: all(f"{_ends(leaf(first))}" in one.said() for one in (first, second))
        )
    for one in (first, second):
        one.gone()
    return told


def test_a_leaked_key_is_replaced_under_traffic_and_nothing_fails(
    both: Callable[..., tuple[Podfit, Podfit]],
) -> None:
    """The steps of docs/security.md: the Secret is deleted, and the replicas are restarted one by one."""
    first, second = both("--ca-pause=2s")
    (old,), leaked = cas(first), leaf(first)

    with traffic(first, first.port) as told:
        first.cluster.call("DELETE", f"/api/v1/namespaces/{OWN}/secrets/{first.secret}")
        until("another certificate", lambda: leaf(first) not in (b"", leaked))
        (new,) = cas(first)
        assert certs.signed_by(leaf(first), new)
        third = first.beside(first)
        until("the new replica to serve", lambda: "serving the certificate" in third.said(), third.said)
        until("the new replica to be ready", lambda: third.ready()[0] == 200)
        assert served(third) == leaf(first)
        ask(first, second, third)
        second.gone()
        until("the old replica to serve it, too", lambda: served(first) == leaf(first))
        until("the old CA to leave the bundles", lambda: set(bundles(first)) == {(new,)})
        trusted(first, first.port, third.port)

    assert told.wrong == []
    assert old not in cas(first)


def served(podfit: Podfit) -> bytes:
    """The certificate that a replica presents."""
    return ssl.get_server_certificate((HOST, podfit.port)).encode()


def test_a_spoilt_secret_is_mended_and_nothing_fails(both: Callable[..., tuple[Podfit, Podfit]]) -> None:
    first, second = both("--ca-pause=1s")
    spoilt = base64.b64encode(b"spoilt").decode()

    with traffic(first, first.port, second.port) as told:
        path = f"/api/v1/namespaces/{OWN}/secrets/{first.secret}"
        first.cluster.patch(path, {"data": {"ca.key": spoilt, "tls.crt": spoilt}})
        until("it to be mended", lambda: certs.split(leaf(first)) and certs.signed_by(leaf(first), cas(first)[0]))

    assert told.wrong == []


def test_a_configuration_edited_by_hand_gets_the_ca_added(install: Install, user_of: UserOf) -> None:
    podfit = install({"certificates": {"mode": "self"}}, arguments=("--ca-pause=1s",))
    (own,) = cas(podfit)
    another = certs.issue_ca(certs.not_after(own) - timedelta(days=300), "somebody else's").certificate
    hooks = configuration(podfit, KINDS[0])["webhooks"]
    for hook in hooks:
        hook["clientConfig"]["caBundle"] = base64.b64encode(another).decode()

    podfit.cluster.patch(f"{REGISTRATION}/{KINDS[0]}/{podfit.name}", {"webhooks": hooks})
    until("the CA to be there again", lambda: all(own in bundle for bundle in bundles(podfit)))

    assert set(bundles(podfit)) == {(another, own), (own,)}
    trusted(podfit, podfit.port)


def _within(probe: Callable[[], bool]) -> bool:
    try:
        return until("it", probe)
    except TimeoutError:
        return False


def _ends(certificate: bytes) -> str:
    return f"{certs.not_after(certificate):%Y-%m-%dT%H:%M:%SZ}"
