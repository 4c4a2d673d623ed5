"""A certificate with the chart's own lifetime is renewed after two thirds of it, and no decision is lost.

It runs before test_install.py, where `podfit doctor` expects a single release.
"""

from __future__ import annotations

from concurrent.futures import Future

import yaml

from benchmarks.cluster import BAD, GOOD
from podfit.server import certs
from tests.e2e.release import ROOT
from tests.node.renewal import CA_LIFETIME, LIFETIME, Renewal


def test_a_certificate_is_renewed_when_it_is_due(renewal: Future[Renewal]) -> None:
    values = yaml.safe_load((ROOT / "charts/podfit/values.yaml").read_text())["certificates"]
    assert (values["lifetime"], values["caLifetime"]) == (f"{LIFETIME.days}d", f"{CA_LIFETIME.days}d")

    done = renewal.result()

    assert done.before.leaf
    assert done.after.leaf
    before, after = done.before.leaf.certificate, done.after.leaf.certificate
    assert done.after.cas == done.before.cas
    assert certs.issued_at(after) >= certs.issued_at(before) + LIFETIME * 2 / 3
    assert certs.not_after(after) - certs.issued_at(after) == LIFETIME
    assert set(done.stream.seen) == {GOOD, BAD}, done.stream
