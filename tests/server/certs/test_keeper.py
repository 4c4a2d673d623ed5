"""The keeper's edge: an API server that is away, forbids, or has a newer write; and what is reported meanwhile."""

from __future__ import annotations

import base64
import logging
import ssl
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from podfit.cluster.access import StatusError
from podfit.server import certs, registration
from podfit.server.certs import renewal
from podfit.server.certs.keeper import Keeper
from podfit.server.certs.renewal import RenewalPolicy
from tests.cluster.script import access

JSONDict = dict[str, Any]
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECRET = "/api/v1/namespaces/podfit-system/secrets/podfit-certificates"
PATHS = tuple(f"{registration.ROOT}/{kind}/podfit" for kind in registration.WEBHOOK_CONFIGURATIONS)
AWAY = ConnectionRefusedError("connection refused")
FORBIDDEN = StatusError(403, 'validatingwebhookconfigurations "podfit" is forbidden')


class APIServer:
    """Objects with versions, in place of a client; `fails` is raised at each request of these paths."""

    def __init__(self) -> None:
        self.now = NOW
        self.objects: dict[str, JSONDict] = {}
        self.fails: dict[str, Exception] = {}
        self.before_write: Callable[[str], None] = lambda path: None

    def put(self, path: str, obj: JSONDict) -> None:
        version = int(self.objects.get(path, {}).get("metadata", {}).get("resourceVersion", 0)) + 1
        self.objects[path] = {**obj, "metadata": {**obj.get("metadata", {}), "resourceVersion": str(version)}}

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[JSONDict, datetime]:
        """As `Client.send`."""
        if error := self.fails.get(path):
            raise error
        if method == "POST":
            assert body is not None
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise StatusError(409, "it exists already", date=self.now)
            self.put(path, dict(body))
        elif method == "PUT":
            assert body is not None
            self.before_write(path)
            if body["metadata"]["resourceVersion"] != self.objects[path]["metadata"]["resourceVersion"]:
                raise StatusError(409, "the object has been modified", date=self.now)
            self.put(path, dict(body))
        if path not in self.objects:
            raise StatusError(404, "not found", date=self.now)
        return deepcopy(self.objects[path]), self.now


def configuration() -> JSONDict:
    return {"metadata": {"name": "podfit"}, "webhooks": [{"name": "pods.podfit.dev", "clientConfig": {"url": "u"}}]}


@pytest.fixture(name="server")
def _server() -> APIServer:
    server = APIServer()
    for path in PATHS:
        server.put(path, configuration())
    return server


@pytest.fixture(name="seconds")
def _seconds() -> list[float]:
    """A clock that stops at its last value."""
    return [0.0]


@pytest.fixture(name="keeper")
def _keeper(server: APIServer, seconds: list[float], monkeypatch: pytest.MonkeyPatch) -> Keeper:
    monkeypatch.setattr("podfit.server.certs.keeper.Client", lambda _: server)
    clock, today = lambda: seconds[-1], lambda: NOW
    return Keeper(access(), "podfit-certificates", "podfit", RenewalPolicy(("a.svc",)), clock=clock, today=today)


def bundle(server: APIServer, path: str) -> bytes:
    return base64.b64decode(server.objects[path]["webhooks"][0]["clientConfig"].get("caBundle", ""))


def served(keeper: Keeper) -> datetime:
    return datetime.fromtimestamp(keeper.not_after(), UTC)


def test_one_look_issues_announces_and_serves(keeper: Keeper, server: APIServer) -> None:
    first = keeper.context()
    assert keeper.problem() == "there is no certificate yet: not looked yet"

    keeper.look()

    assert keeper.problem() is None
    assert served(keeper) == NOW + timedelta(days=90)
    assert keeper.context() is not first
    secret = server.objects[SECRET]
    assert {bundle(server, path) for path in PATHS} == {base64.b64decode(secret["data"]["ca.crt"])}


@pytest.mark.parametrize(
    ("ends", "then"),
    [(timedelta(minutes=-1), False), (timedelta(minutes=1), True), (None, True)],
    ids=["its time is over", "not yet", "it has no end"],
)
def test_it_ends_an_off_that_has_an_end(keeper: Keeper, server: APIServer, ends: timedelta | None, then: bool) -> None:
    until = f"{NOW + ends:%Y-%m-%dT%H:%M:%SZ}" if ends is not None else None
    keeper.look()
    assert keeper.is_off() is False
    for path in PATHS:
        patch = registration.off(server.objects[path], "an urgent change", "2026-06-01T10:00:00Z", until)
        assert patch
        annotations = {key: value for key, value in patch["metadata"]["annotations"].items() if value}
        server.put(path, {**server.objects[path], "metadata": {"name": "podfit", "annotations": annotations}} | {
            "webhooks": patch["webhooks"]
        })  # fmt: skip

    keeper.look()

    assert keeper.is_off() is then
    assert {registration.state(server.objects[path]) == "off" for path in PATHS} == {then}
    assert {bool(registration.note(server.objects[path])) for path in PATHS} == {then}
    assert all(bundle(server, path) for path in PATHS)


def test_a_look_that_finds_all_well_writes_nothing(keeper: Keeper, server: APIServer) -> None:
    keeper.look()
    before = deepcopy(server.objects)

    keeper.look()

    assert server.objects == before


def test_an_api_server_that_is_away_is_told_once_and_nothing_changes(
    keeper: Keeper, server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    keeper.look()
    context = keeper.context()
    server.fails = {SECRET: AWAY}
    server.now += timedelta(days=400)

    for _ in range(3):
        keeper.look()

    assert keeper.context() is context
    assert keeper.problem() is None, "it is trusted, and gets requests"
    assert keeper.worry() == "the certificate can't be looked after: connection refused"
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
    server.fails, server.now = {}, NOW
    keeper.look()
    assert keeper.worry() is None
    assert caplog.messages[-1] == "the certificate is looked after"


def test_a_missing_right_is_told_and_the_certificate_is_made_all_the_same(keeper: Keeper, server: APIServer) -> None:
    server.fails = {PATHS[0]: FORBIDDEN}

    keeper.look()

    assert keeper.problem() == (
        "the webhook configurations do not hold the certificate's CA: "
        '403: validatingwebhookconfigurations "podfit" is forbidden'
    )
    assert SECRET in server.objects


def test_without_configurations_it_is_ready_and_fills_them_when_they_come(keeper: Keeper, server: APIServer) -> None:
    """As at an install, which makes them last, and after a user has deleted them."""
    for path in PATHS:
        del server.objects[path]
    keeper.look()
    assert keeper.problem() is None

    for path in PATHS:
        server.put(path, configuration())
    keeper.look()

    assert all(bundle(server, path) for path in PATHS)
    assert keeper.problem() is None


def test_who_comes_second_takes_what_the_first_has_written(keeper: Keeper, server: APIServer) -> None:
    server.put(SECRET, {"metadata": {"name": "podfit-certificates"}, "type": "Opaque"})

    def faster(path: str) -> None:
        server.before_write = lambda path: None
        assert path == SECRET
        other.look()

    other = Keeper(access(), "podfit-certificates", "podfit", RenewalPolicy(("a.svc",)))
    server.before_write = faster
    keeper.look()

    assert keeper.problem() is other.problem() is None
    assert served(keeper) == served(other)
    assert len(certs.split(bundle(server, PATHS[0]))) == 1


def test_whoever_always_is_faster_ends_a_look(keeper: Keeper, server: APIServer) -> None:
    server.put(SECRET, {"metadata": {"name": "podfit-certificates"}})
    server.before_write = lambda path: server.put(path, server.objects[path])

    keeper.look()

    problem = keeper.problem() or ""
    assert problem.startswith("there is no certificate yet: another client keeps changing")


def test_a_secret_that_is_made_anew_is_the_release_s_whatever_that_is_called(keeper: Keeper, server: APIServer) -> None:
    labels = {"app.kubernetes.io/name": "judge", "app.kubernetes.io/instance": "mine"}
    for path in PATHS:
        one = configuration()
        server.put(path, one | {"metadata": {"name": "podfit", "labels": labels | {"helm.sh/chart": "podfit-1"}}})

    keeper.look()

    assert server.objects[SECRET]["metadata"]["labels"] == labels


def test_nothing_else_of_what_is_written_changes(keeper: Keeper, server: APIServer) -> None:
    hook = {"name": "x", "clientConfig": {"service": {"name": "s"}}, "rules": [{"a": 1}], "aFieldOfTheFuture": True}
    server.put(PATHS[0], {"metadata": {"name": "podfit", "annotations": {"b": "c"}}, "webhooks": [hook]})

    keeper.look()

    (written,) = server.objects[PATHS[0]]["webhooks"]
    written["clientConfig"].pop("caBundle")
    assert written == hook
    assert server.objects[PATHS[0]]["metadata"]["annotations"] == {"b": "c"}


@pytest.mark.parametrize("error", [StatusError(403, "no right"), StatusError(500, "etcdserver: mvcc: no space")])
def test_a_fresh_replica_serves_and_is_ready_while_the_secret_can_t_be_written(
    keeper: Keeper, server: APIServer, error: StatusError
) -> None:
    """The CA is past two thirds of its life, the certificate was renewed lately, and a configuration is new."""
    issued = NOW - timedelta(days=250)
    ca = certs.issue_ca(issued, lifetime=timedelta(days=365))
    leaf = certs.issue_leaf(ca, ["a.svc"], NOW - timedelta(days=10), timedelta(days=90))
    server.put(
        SECRET,
        {
            "metadata": {"name": "s"},
            "data": renewal.secret_data(renewal.StoredCertificates((ca.certificate,), ca, leaf)),
        },
    )

    def no_writes(path: str) -> None:
        if path == SECRET:
            raise error

    server.before_write = no_writes
    keeper.look()  # it announces
    keeper.look()  # and finds that it did

    assert (keeper.problem(), keeper.not_after()) == (None, certs.not_after(leaf.certificate).timestamp())
    assert keeper.worry() == f"the certificate can't be looked after: {error}"
    assert {bundle(server, path) for path in PATHS} == {ca.certificate}


def test_a_date_of_its_own_is_told_and_changes_nothing(keeper: Keeper, server: APIServer) -> None:
    keeper.look()
    before = deepcopy(server.objects)
    server.now += timedelta(days=400)

    keeper.look()

    assert server.objects == before
    assert keeper.problem() is None
    assert keeper.worry() == (
        "the certificate can't be looked after: the API server's clock says 2027-07-06 12:00 UTC, "
        "this machine's 2026-06-01 12:00"
    )


def test_an_error_of_ours_is_told_without_its_text(
    keeper: Keeper, server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("-----BEGIN PRIVATE KEY-----")

    monkeypatch.setattr("podfit.server.certs.keeper.renewal.next_step", broken)

    keeper.look()

    assert keeper.problem() == "there is no certificate yet: internal error: KeyError"


def test_before_there_is_a_certificate_a_handshake_works(keeper: Keeper) -> None:
    """So that probes are answered, and /readyz can say why."""
    assert keeper.context().minimum_version == ssl.TLSVersion.TLSv1_2
    assert keeper.not_after() == 0.0
