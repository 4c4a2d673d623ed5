"""When certificates are issued, distributed and served: a pure step from what a replica sees to what it does.

The Secret is the only source: the CAs (the newest first), the newest's key, and the leaf that all replicas serve. Every
replica takes the same steps. The first replica that writes the Secret wins, and the others read what it wrote.

| what is seen                                                | what is done                                           |
| ----------------------------------------------------------- | ------------------------------------------------------ |
| no CA that can sign, or one past two thirds of its life     | a new CA in front of the old ones; the leaf stays      |
| no leaf that can serve                                      | a leaf of the newest CA, at once                       |
| a leaf past two thirds, for other hosts, or of an older CA  | a leaf of the newest CA, once that CA has been in      |
|                                                             | every live configuration for a minute                  |
| a caBundle without one of the Secret's CAs, or without the  | appended; nothing is taken out but `_unused_cas`       |
| CA of what is being served                                  |                                                        |
| the Secret's leaf is another than the served one            | taken over, once its CA has been in every live         |
|                                                             | configuration for a minute; at once if nothing serves  |

If a write fails, a replica still takes the other steps: it serves the Secret's leaf if it has none, and announces the
Secret's CAs. A CA stays in the bundles as long as any replica may serve a leaf of it, even a replica that reads late. A
leaf never outlives its CA.

Dates are compared with the API server's clock, since the API server verifies; a replica's own clock may jump. A single
answer of the API server is not enough. If the two clocks are far apart, everything stays as it is until they agree
again, or until the API server has kept to its own time for an hour. A CA is removed only after it has ended by both
clocks.

Deleting the Secret is how an admin replaces a leaked key: the next Secret contains nothing of the old one. Replicas
that start serve the new leaf; the others take it over after a minute. Then the CAs that the Secret lacks leave the
bundles.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from podfit.server import certs
from podfit.server.certs import Pair

LOOK_INTERVAL = timedelta(minutes=1)
"""How long each webhook configuration must have contained a CA before a leaf of it serves: API servers follow in
seconds."""
RENEWED_CA_LIFETIME, RENEWED_LEAF_LIFETIME = timedelta(days=365), timedelta(days=90)
"""Lifetimes of certificates in a Secret, which are renewed after two thirds of them (`certs.FILE_CA_LIFETIME` is for
certificates in files)."""
MAX_CLOCK_DIFFERENCE = timedelta(hours=1)
"""The largest difference of two clocks that agree. If they differ by more, the API server's clock is used after it has
kept to its own time for this long."""
MAX_CAS = 16
"""The most of our own CAs in a bundle, apart from those that were replaced just now."""
PAUSES_TO_FOLLOW = 10
"""Number of `RenewalPolicy.pause` after which every replica that reads the Secret serves a leaf of a later CA."""

BROKEN = b""
"""Placeholder in a bundle for bytes that are not a certificate, for which an API server rejects the caBundle."""
Bundles = Mapping[str, tuple[bytes, ...]]
"""Each webhook of the live configurations, by any name → the certificates in its caBundle."""


@dataclass(frozen=True)
class RenewalPolicy:
    """Hosts, lifetimes and pause of the certificates that a deployment asks for."""

    hosts: tuple[str, ...]
    ca_lifetime: timedelta = RENEWED_CA_LIFETIME
    leaf_lifetime: timedelta = RENEWED_LEAF_LIFETIME
    pause: timedelta = LOOK_INTERVAL


@dataclass(frozen=True)
class StoredCertificates:
    """The certificates in the Secret, as far as they are readable."""

    cas: tuple[bytes, ...] = ()
    """PEM each, the newest first."""
    ca: Pair | None = None
    """The newest, with its key."""
    leaf: Pair | None = None


@dataclass(frozen=True)
class Clocks:
    """The time, by three clocks."""

    now: datetime
    """The API server's answer."""
    own: datetime
    """This machine's."""
    steady: float
    """Seconds of a clock that only goes on."""

    @property
    def gone(self) -> datetime:
        """The time before which every certificate that ended has certainly ended."""
        return min(self.now, self.own)


@dataclass(frozen=True)
class CertificateView:
    """The certificates that one replica remembers."""

    leaf: Pair | None = None
    """The certificate and key that it serves."""
    issuer: bytes | None = None
    """The CA of that."""
    since: Mapping[bytes, float] = field(default_factory=dict)
    """CA → since when (`Clocks.steady`) it has seen it in every live configuration."""
    steady_offset: tuple[float, float] | None = None
    """Seconds by which the API server's clock is ahead of `Clocks.steady`, and since when it is."""


@dataclass(frozen=True)
class NextStep:
    """The next step of a replica, the Secret first: a CA is announced nowhere before it is stored."""

    replica: CertificateView
    secret: StoredCertificates | None = None
    """The Secret to store, unless another replica was faster; then nothing else is done before the next look."""
    bundles: Bundles = field(default_factory=dict)
    """The complete caBundles that must change, by the stored Secret: they can be written even if `secret` can't."""
    doubt: str = ""
    """Why nothing is issued although it may be time; empty if the API server's clock is trusted."""


def next_step(
    replica: CertificateView, stored: StoredCertificates, bundles: Bundles | None, policy: RenewalPolicy, clocks: Clocks
) -> NextStep:
    """The next step; `bundles` None: a configuration can't be read, so that nothing changes that needs them. The clock
    is doubted only while a leaf can serve: a server without one must get one in any case."""
    replica = replace(
        replica,
        since=_distributed_since(replica, stored, bundles, clocks.steady),
        steady_offset=_steady_offset(replica.steady_offset, clocks),
    )
    doubt = (
        _clock_doubt(replica, clocks)
        if _serves_by_either_clock(replica, clocks) or _serves_by_either_clock(_replica_of_stored(stored), clocks)
        else ""
    )
    certificates = stored if doubt else _wanted_secret(replica, stored, policy, clocks)
    before, must = bundles or {}, [*stored.cas, *([replica.issuer] if replica.issuer else [])]
    after = {name: _cas_to_keep((*bundle, *must), replica, stored, policy, clocks) for name, bundle in before.items()}
    changed = {name: bundle for name, bundle in after.items() if bundle != before[name]}
    return NextStep(
        replica=_take_stored_leaf(replica, stored, policy, clocks, is_doubtful=bool(doubt)),
        secret=certificates if certificates != stored else None,
        bundles=changed,
        doubt=doubt,
    )


def trusted(replica: CertificateView, bundles: Bundles) -> bool:
    """True if every live configuration holds the CA of what the replica serves."""
    return replica.issuer is not None and all(replica.issuer in bundle for bundle in bundles.values())


def _distributed_since(
    replica: CertificateView, stored: StoredCertificates, bundles: Bundles | None, clock: float
) -> Mapping[bytes, float]:
    """`CertificateView.since` after this look; without a CA that a configuration lacks, so that its time starts again.
    Empty if a configuration can't be read (`bundles` None)."""
    if bundles is None:
        return {}
    return {ca: replica.since.get(ca, clock) for ca in stored.cas if all(ca in bundle for bundle in bundles.values())}


def _steady_offset(previous: tuple[float, float] | None, clocks: Clocks) -> tuple[float, float]:
    """`CertificateView.steady_offset` after this look: a new one if the API server's clock has jumped."""
    ahead = clocks.now.timestamp() - clocks.steady
    if previous is not None and abs(ahead - previous[0]) <= MAX_CLOCK_DIFFERENCE.total_seconds():
        return previous
    return ahead, clocks.steady


def _clock_doubt(replica: CertificateView, clocks: Clocks) -> str:
    """The reason why the API server's date is not believed: this machine's differs, and the API server's changed
    lately. Empty if it is believed."""
    _, since = replica.steady_offset or (0.0, clocks.steady)
    if (
        abs(clocks.now - clocks.own) <= MAX_CLOCK_DIFFERENCE
        or clocks.steady - since >= MAX_CLOCK_DIFFERENCE.total_seconds()
    ):
        return ""
    return f"the API server's clock says {clocks.now:%Y-%m-%d %H:%M} UTC, this machine's {clocks.own:%Y-%m-%d %H:%M}"


def _is_distributed(replica: CertificateView, ca: bytes, policy: RenewalPolicy, clocks: Clocks) -> bool:
    """True if the CA has been in every configuration for the policy's pause."""
    return ca in replica.since and clocks.steady - replica.since[ca] >= policy.pause.total_seconds()


def _wanted_secret(
    replica: CertificateView, stored: StoredCertificates, policy: RenewalPolicy, clocks: Clocks
) -> StoredCertificates:
    """The Secret as it must be; equal to the stored one if that is valid."""
    now, ca, cas = clocks.now, stored.ca, _cas_to_keep(stored.cas, replica, stored, policy, clocks)
    if ca is None or certs.problem(ca, now) or certs.renew_at(ca.certificate) <= now:
        ca = certs.issue_ca(now, lifetime=policy.ca_lifetime)
        cas = (ca.certificate, *cas)
    leaf = stored.leaf if _can_serve(stored.leaf, cas, now) else None
    if leaf is None or (
        _is_distributed(replica, ca.certificate, policy, clocks) and _must_replace_leaf(leaf, ca, policy, now)
    ):
        leaf = certs.issue_leaf(ca, policy.hosts, now, policy.leaf_lifetime)
    return StoredCertificates(cas, ca, leaf)


def _must_replace_leaf(leaf: Pair, ca: Pair, policy: RenewalPolicy, now: datetime) -> bool:
    """True if `ca` must issue a new leaf: this one is for other hosts, of another CA, or past two thirds of its life,
    unless it ends with the CA."""
    return (
        certs.hosts_of(leaf.certificate) != frozenset(policy.hosts)
        or not certs.signed_by(leaf.certificate, ca.certificate)
        # A leaf that ends with its CA can't be renewed by it for longer: the next CA comes first.
        or (
            certs.renew_at(leaf.certificate) <= now
            and certs.not_after(leaf.certificate) < certs.not_after(ca.certificate)
        )
    )


def _take_stored_leaf(
    replica: CertificateView, stored: StoredCertificates, policy: RenewalPolicy, clocks: Clocks, *, is_doubtful: bool
) -> CertificateView:
    """The replica, serving the Secret's leaf if it may: a valid one, whose CA is distributed or in whose place it has
    no valid leaf. `is_doubtful`: the date is; then only in place of a leaf that is not valid by either clock."""
    offered = _replica_of_stored(stored)
    if offered.issuer is None or offered.leaf == replica.leaf:  # nothing to take, or served already
        return replica
    if is_doubtful:
        may = _serves_by_either_clock(offered, clocks) and not _serves_by_either_clock(replica, clocks)
    else:
        nothing = replica.issuer is None or not _can_serve(replica.leaf, (replica.issuer,), clocks.now)
        good = _can_serve(offered.leaf, (offered.issuer,), clocks.now)
        may = good and (nothing or _is_distributed(replica, offered.issuer, policy, clocks))
    return replace(replica, leaf=offered.leaf, issuer=offered.issuer) if may else replica


def _replica_of_stored(stored: StoredCertificates) -> CertificateView:
    """A replica that serves the leaf of the Secret."""
    return CertificateView(stored.leaf, _issuer_of_leaf(stored))


def _serves_by_either_clock(replica: CertificateView, clocks: Clocks) -> bool:
    """True if the leaf that it serves is valid by one clock at least."""
    issuer = (replica.issuer,) if replica.issuer else ()
    return any(_can_serve(replica.leaf, issuer, at) for at in (clocks.now, clocks.own))


def _issuer_of_leaf(stored: StoredCertificates) -> bytes | None:
    """The CA of the Secret's leaf; None without a leaf, or if none of the Secret's CAs has signed it."""
    leaf = stored.leaf
    return next((ca for ca in stored.cas if leaf and certs.signed_by(leaf.certificate, ca)), None)


def _can_serve(leaf: Pair | None, cas: Iterable[bytes], now: datetime) -> bool:
    """True if the leaf is valid now and signed by one of the CAs that has not expired."""
    return leaf is not None and any(certs.problem(leaf, now, ca) is None and not _has_expired(ca, now) for ca in cas)


def _has_expired(certificate: bytes, now: datetime) -> bool:
    return certs.not_after(certificate) < now


# ── what is taken out ────────────────────────────────────────────────────────────────────────────────────────────────


def _cas_to_keep(
    cas: Iterable[bytes], replica: CertificateView, stored: StoredCertificates, policy: RenewalPolicy, clocks: Clocks
) -> tuple[bytes, ...]:
    """Each CA once, without BROKEN, those that have ended, and those of which no replica serves a leaf any more. The
    CAs of the replica's leaf and of the Secret stay."""
    used = {replica.issuer, _issuer_of_leaf(stored), stored.ca.certificate if stored.ca else None}
    live = [ca for ca in dict.fromkeys(cas) if ca != BROKEN and not _has_expired(ca, clocks.gone)]
    spent = (_unused_cas(live, policy, clocks) | _lost_cas(live, stored, policy, clocks)) - used
    return tuple(ca for ca in live if ca not in spent)


def _unused_cas(cas: Iterable[bytes], policy: RenewalPolicy, clocks: Clocks) -> set[bytes]:
    """Our own CAs of which no replica serves a leaf any more.

    Only the newest CA signs, so the last leaf of a CA is older than the CA after it. Each loss of the CA's key creates
    a CA. If the key is lost again and again, only the `MAX_CAS` newest stay. A replica could serve a leaf of an older
    one only if it took that leaf over `MAX_CAS` losses ago.
    """
    ours = sorted((ca for ca in cas if certs.common_name(ca) == certs.CA_NAME), key=certs.issued_at, reverse=True)
    certificates = set[bytes]()
    for number, (later, ca) in enumerate(pairwise(ours), 2):
        age = clocks.gone - certs.issued_at(later) - policy.pause * PAUSES_TO_FOLLOW
        if age > policy.leaf_lifetime or (number > MAX_CAS and age > timedelta()):
            certificates.add(ca)
    return certificates


def _lost_cas(cas: Iterable[bytes], stored: StoredCertificates, policy: RenewalPolicy, clocks: Clocks) -> set[bytes]:
    """Our own CAs that were lost with a Secret, which every replica has stopped to serve since. Empty while the Secret
    has no CA, or one so new that a replica may not follow it yet.

    A CA that is newer than the Secret's is not lost: the Secret is an old one that an admin restored."""
    if stored.ca is None:
        return set()
    issued = certs.issued_at(stored.ca.certificate)
    if clocks.gone - issued <= policy.pause * PAUSES_TO_FOLLOW:
        return set()
    ours = (ca for ca in cas if ca not in stored.cas and certs.common_name(ca) == certs.CA_NAME)
    return {ca for ca in ours if certs.issued_at(ca) < issued}


# ── a webhook's form ─────────────────────────────────────────────────────────────────────────────────────────────────


def bundle_of(hook: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The CAs in a webhook's caBundle, with BROKEN at the end if something else is in it; empty without a caBundle."""
    try:
        bundle = base64.b64decode((hook.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except ValueError:
        return (BROKEN,)
    items = certs.split(bundle)
    all_are_certificates = len(items) >= bundle.count(b"-----BEGIN") and bool(items) == bool(bundle)
    return items if all_are_certificates else (*items, BROKEN)


# ── the Secret's form ────────────────────────────────────────────────────────────────────────────────────────────────


def read_secret(data: Mapping[str, str]) -> StoredCertificates:
    """A Secret's `data` (base64); what can't be read is not there."""
    ca_crt, ca_key, tls_crt, tls_key = (_decoded(data.get(name)) for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"))
    cas = certs.split(ca_crt)
    leaf = certs.split(tls_crt)[:1]
    return StoredCertificates(cas, _pair(cas[:1], ca_key), _pair(leaf, tls_key))


def secret_data(stored: StoredCertificates) -> dict[str, str]:
    """The Secret's `data` with the certificates in base64."""
    ca, leaf = stored.ca, stored.leaf
    entries = {"ca.crt": b"".join(stored.cas)}
    if ca is not None:
        entries["ca.key"] = ca.key
    if leaf is not None:
        entries |= {"tls.crt": leaf.certificate, "tls.key": leaf.key}
    return {name: base64.b64encode(value).decode() for name, value in entries.items()}


def _pair(certificate: tuple[bytes, ...], key: bytes) -> Pair | None:
    """The pair of the first certificate and the key; None if there is none, or if they do not belong together. Dates
    are not checked here."""
    if not certificate or not certs.belongs(certificate[0], key):
        return None
    return Pair(certificate[0], key)


def _decoded(text: str | None) -> bytes:
    """The bytes of a base64 text; empty if it is absent or not valid."""
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""
