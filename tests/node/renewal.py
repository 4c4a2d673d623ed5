"""A second release of podfit, whose certificate reaches two thirds of the chart's lifetime while other tests run.

No test disturbs its replica. A stream of its own counts what is lost meanwhile.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from podfit.server import certs
from podfit.server.certs.renewal import StoredCertificates, read_secret, secret_data
from tests.e2e.process import until
from tests.node.admin import ENFORCED, Admin, guide
from tests.node.stream import Stream, streaming

RELEASE = OWN = "second"
"""The release's name and namespace."""
NAMESPACE = "kube-node-lease"
"""One that the other release excludes."""
LIFETIME, CA_LIFETIME = timedelta(days=90), timedelta(days=365)
"""The chart's `certificates.lifetime` and `certificates.caLifetime`."""
SOON = timedelta(seconds=110)
"""Until the certificate is due. It serves after at most 85 s: its CA must be trusted for a minute, and a replica looks
at least every 12.5 s."""
PAUSE = 0.2
"""Seconds between two Pods of a connection: the other stream needs the processors."""
SECRET = f"/api/v1/namespaces/{OWN}/secrets/{RELEASE}-podfit-certificates"
INSTALL = (
    f" --namespace {OWN} --set {ENFORCED} --set webhooks.timeoutSeconds=10 --set replicaCount=1"
    " --set watch.policies=false"
    " --set webhooks.excludedNamespaces={}"
    f" --set webhooks.namespaceSelector.matchLabels.kubernetes\\\\.io/metadata\\\\.name={NAMESPACE}"
)


@dataclass(frozen=True)
class Renewal:
    """The Secret before and after, and the decisions meanwhile."""

    before: StoredCertificates
    after: StoredCertificates
    stream: Stream


def renewed(admin: Admin) -> Renewal:
    """Installs the release with an old certificate, waits until it serves that one and then another, and removes it
    with its webhook configurations."""
    install = guide("helm install").replace("helm install podfit", f"helm install {RELEASE}")
    admin.types(install.replace(" --namespace podfit-system", INSTALL))
    try:
        renewal = _renewal(admin)
        assert admin.configurations(RELEASE)
    finally:
        admin.types(f"helm uninstall {RELEASE} --namespace {OWN}")
    assert admin.configurations(RELEASE) == []
    return renewal


def _renewal(admin: Admin) -> Renewal:
    until("its own certificate to be trusted", lambda: admin.denies(NAMESPACE), admin.describe)
    before = _old_certificates()
    admin.cluster.patch(SECRET, {"data": secret_data(before)})
    with streaming(admin.cluster, NAMESPACE, PAUSE) as stream:
        until("it to serve the old certificate", lambda: _served(admin) == _leaf(before), seconds=150)
        until("it to serve another one", lambda: _served(admin) != _leaf(before), seconds=150)
        after = read_secret(admin.cluster.call("GET", SECRET)[1]["data"])
        served, rest = _served(admin), stream.seen.total()
        until("ten more decisions", lambda: stream.seen.total() >= rest + 10)
    assert served == _leaf(after)
    return Renewal(before, after, stream)


def _old_certificates() -> StoredCertificates:
    host, issued = f"{RELEASE}-podfit.{OWN}.svc", datetime.now(UTC) - LIFETIME * 2 / 3 + SOON
    ca = certs.issue_ca(issued - timedelta(days=1), lifetime=CA_LIFETIME)
    leaf = certs.issue_leaf(ca, [host, f"{host}.cluster.local"], issued, LIFETIME)
    return StoredCertificates((ca.certificate,), ca, leaf)


def _leaf(held: StoredCertificates) -> bytes:
    assert held.leaf
    return held.leaf.certificate


def _served(admin: Admin) -> bytes:
    """What its replica shows."""
    (pod,) = admin.cluster.call("GET", f"/api/v1/namespaces/{OWN}/pods")[1]["items"]
    (found,) = certs.split(ssl.get_server_certificate((pod["status"]["podIP"], 8443)).encode())
    return found
