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
from typing import Any, NamedTuple

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
    """DNS names and IP addresses."""
    ca_lifetime: timedelta = RENEWED_CA_LIFETIME
    leaf_lifetime: timedelta = RENEWED_LEAF_LIFETIME
    pause: timedelta = LOOK_INTERVAL
    """How long each configuration must have contained a CA before a leaf of it serves."""


@dataclass(frozen=True)
class StoredCertificates:
    """The certificates in the Secret, as far as they are readable."""

    cas: tuple[bytes, ...] = ()
    """PEM each, the newest first."""
    ca: Pair | None = None
    """The newest, with its key; None if one of them is missing."""
    leaf: Pair | None = None
    """The certificate that all replicas serve; None if it or its key is missing."""


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


class ClockOffset(NamedTuple):
    """How a replica knows the API server's clock."""

    ahead: float
    """Seconds by which it is ahead of `Clocks.steady`."""
    since: float
    """`Clocks.steady` at the first look with this difference."""


@dataclass(frozen=True)
class CertificateView:
    """The certificates that one replica remembers."""

    leaf: Pair | None = None
    """The certificate and key that it serves; None: it has none from the Secret yet."""
    issuer: bytes | None = None
    """The CA that signed it, PEM; None without a leaf."""
    since: Mapping[bytes, float] = field(default_factory=dict)
    """CA (PEM) → since when (`Clocks.steady`) it has seen it in every live configuration."""
    steady_offset: ClockOffset | None = None
    """None before the first look."""


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
    """The next step of a replica that has read `stored` and `bundles`. `bundles` None: a configuration can't be read,
    so that nothing changes that needs them. The clock is doubted only while a leaf can serve: a server without one must
    get one in any case."""
    replica = replace(
        replica,
        since=_distributed_since(replica, stored, bundles, clocks.steady),
        steady_offset=_steady_offset(replica.steady_offset, clocks),
    )
    has_leaf = _serves_by_either_clock(replica, clocks) or _serves_by_either_clock(_replica_of_stored(stored), clocks)
    doubt = _clock_doubt(replica, clocks) if has_leaf else ""
    certificates = stored if doubt else _wanted_secret(replica, stored, policy, clocks)
    changed: dict[str, tuple[bytes, ...]] = {}
    needed = (*stored.cas, replica.issuer) if replica.issuer else stored.cas
    for webhook, bundle in (bundles or {}).items():
        complete = _cas_to_keep((*bundle, *needed), replica, stored, policy, clocks)
        if complete != bundle:
            changed[webhook] = complete
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
    `clock`: `Clocks.steady`. Empty if a configuration can't be read (`bundles` None)."""
    if bundles is None:
        return {}
    everywhere = [ca for ca in stored.cas if all(ca in bundle for bundle in bundles.values())]
    return {ca: replica.since.get(ca, clock) for ca in everywhere}


def _steady_offset(previous: ClockOffset | None, clocks: Clocks) -> ClockOffset:
    """`CertificateView.steady_offset` after this look: a new one if the API server's clock has jumped."""
    ahead = clocks.now.timestamp() - clocks.steady
    if previous is not None and abs(ahead - previous.ahead) <= MAX_CLOCK_DIFFERENCE.total_seconds():
        return previous
    return ClockOffset(ahead, since=clocks.steady)


def _clock_doubt(replica: CertificateView, clocks: Clocks) -> str:
    """The reason why the API server's date is not believed: this machine's differs, and the API server's changed
    lately. Empty if it is believed."""
    clocks_agree = abs(clocks.now - clocks.own) <= MAX_CLOCK_DIFFERENCE
    since = replica.steady_offset.since if replica.steady_offset else clocks.steady
    has_lasted = clocks.steady - since >= MAX_CLOCK_DIFFERENCE.total_seconds()
    if clocks_agree or has_lasted:
        return ""
    return f"the API server's clock says {clocks.now:%Y-%m-%d %H:%M} UTC, this machine's {clocks.own:%Y-%m-%d %H:%M}"


def _is_distributed(replica: CertificateView, ca: bytes, policy: RenewalPolicy, clocks: Clocks) -> bool:
    """True if the CA has been in every configuration for the policy's pause."""
    return ca in replica.since and clocks.steady - replica.since[ca] >= policy.pause.total_seconds()


def _wanted_secret(
    replica: CertificateView, stored: StoredCertificates, policy: RenewalPolicy, clocks: Clocks
) -> StoredCertificates:
    """The Secret as it must be; equal to the stored one if that is valid. A leaf that can serve is replaced only once
    the CA of the next one has been distributed."""
    now, ca, cas = clocks.now, stored.ca, _cas_to_keep(stored.cas, replica, stored, policy, clocks)
    if ca is None or certs.problem(ca, now) or certs.renew_at(ca.certificate) <= now:
        ca = certs.issue_ca(now, lifetime=policy.ca_lifetime)
        cas = (ca.certificate, *cas)
    leaf = stored.leaf if _can_serve(stored.leaf, cas, now) else None
    is_distributed = _is_distributed(replica, ca.certificate, policy, clocks)
    if leaf is None or (is_distributed and _must_replace_leaf(leaf, ca, policy, now)):
        leaf = certs.issue_leaf(ca, policy.hosts, now, policy.leaf_lifetime)
    return StoredCertificates(cas, ca, leaf)


def _must_replace_leaf(leaf: Pair, ca: Pair, policy: RenewalPolicy, now: datetime) -> bool:
    """True if `ca` must issue a new leaf: this one is for other hosts, of another CA, or past two thirds of its life,
    unless it ends with the CA."""
    is_for_other_hosts = certs.hosts_of(leaf.certificate) != frozenset(policy.hosts)
    if is_for_other_hosts or not certs.signed_by(leaf.certificate, ca.certificate):
        return True
    # A leaf that ends with its CA can't be renewed by it for longer: the next CA comes first.
    ends_with_ca = certs.not_after(leaf.certificate) >= certs.not_after(ca.certificate)
    return certs.renew_at(leaf.certificate) <= now and not ends_with_ca


def _take_stored_leaf(
    replica: CertificateView, stored: StoredCertificates, policy: RenewalPolicy, clocks: Clocks, *, is_doubtful: bool
) -> CertificateView:
    """The replica, serving the Secret's leaf if it may, else unchanged. The leaf must be valid, and its CA distributed,
    unless the replica has no valid leaf. `is_doubtful`: the API server's date is not believed; then a leaf that is
    valid by either clock stays."""
    offered = _replica_of_stored(stored)
    if offered.issuer is None or offered.leaf == replica.leaf:  # nothing to take, or served already
        return replica
    if is_doubtful:
        may_take = _serves_by_either_clock(offered, clocks) and not _serves_by_either_clock(replica, clocks)
    else:
        is_valid = _can_serve(offered.leaf, (offered.issuer,), clocks.now)
        has_valid = replica.issuer is not None and _can_serve(replica.leaf, (replica.issuer,), clocks.now)
        may_take = is_valid and (not has_valid or _is_distributed(replica, offered.issuer, policy, clocks))
    return replace(replica, leaf=offered.leaf, issuer=offered.issuer) if may_take else replica


def _replica_of_stored(stored: StoredCertificates) -> CertificateView:
    """A replica that serves the leaf of the Secret."""
    return CertificateView(stored.leaf, _issuer_of_leaf(stored))


def _serves_by_either_clock(replica: CertificateView, clocks: Clocks) -> bool:
    """True if the leaf that it serves is valid by one clock at least."""
    issuer = (replica.issuer,) if replica.issuer else ()
    return any(_can_serve(replica.leaf, issuer, at) for at in (clocks.now, clocks.own))


def _issuer_of_leaf(stored: StoredCertificates) -> bytes | None:
    """The CA of the Secret's leaf; None without a leaf, or if none of the Secret's CAs has signed it."""
    if stored.leaf is None:
        return None
    issuers = [ca for ca in stored.cas if certs.signed_by(stored.leaf.certificate, ca)]
    return issuers[0] if issuers else None


def _can_serve(leaf: Pair | None, cas: Iterable[bytes], now: datetime) -> bool:
    """True if the leaf is valid now and signed by one of the CAs that has not expired; False without a leaf."""
    return leaf is not None and any(certs.problem(leaf, now, ca) is None and not _has_expired(ca, now) for ca in cas)


def _has_expired(certificate: bytes, now: datetime) -> bool:
    """True if the certificate ended before `now`."""
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
    ours = [ca for ca in cas if certs.common_name(ca) == certs.CA_NAME]
    newest_first = sorted(ours, key=certs.issued_at, reverse=True)
    unused = set[bytes]()
    for number, (later, ca) in enumerate(pairwise(newest_first), 2):  # the newest is number 1, and always used
        # The time since every replica has followed the CA that came after this one.
        age = clocks.gone - certs.issued_at(later) - policy.pause * PAUSES_TO_FOLLOW
        if age > policy.leaf_lifetime or (number > MAX_CAS and age > timedelta()):
            unused.add(ca)
    return unused


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
    """The CAs in a webhook's caBundle, PEM each, with BROKEN at the end if something else is in it, or one is in it
    twice; empty without a caBundle."""
    try:
        bundle = base64.b64decode((hook.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except ValueError:
        return (BROKEN,)
    cas = certs.split(bundle)
    has_other_blocks = bundle.count(b"-----BEGIN") > len(cas)
    has_only_other_text = bool(bundle) and not cas
    return (*cas, BROKEN) if has_other_blocks or has_only_other_text else cas


# ── the Secret's form ────────────────────────────────────────────────────────────────────────────────────────────────


def read_secret(data: Mapping[str, str]) -> StoredCertificates:
    """The certificates in a Secret's `data` (base64), without those that can't be read. `ca.key` is the key of the
    first CA in `ca.crt`."""
    cas = certs.split(_decoded(data.get("ca.crt")))
    leaves = certs.split(_decoded(data.get("tls.crt")))
    ca = _pair(cas, _decoded(data.get("ca.key")))
    leaf = _pair(leaves, _decoded(data.get("tls.key")))
    return StoredCertificates(cas, ca, leaf)


def secret_data(stored: StoredCertificates) -> dict[str, str]:
    """The Secret's `data` with the certificates in base64, as `read_secret` reads it."""
    ca, leaf = stored.ca, stored.leaf
    data = {"ca.crt": b"".join(stored.cas)}
    if ca is not None:
        data["ca.key"] = ca.key
    if leaf is not None:
        data |= {"tls.crt": leaf.certificate, "tls.key": leaf.key}
    return {name: base64.b64encode(content).decode() for name, content in data.items()}


def _pair(certificates: tuple[bytes, ...], key: bytes) -> Pair | None:
    """The pair of the first certificate and the key; None if there is none, or if they do not belong together. Dates
    are not checked here."""
    if not certificates or not certs.belongs(certificates[0], key):
        return None
    return Pair(certificates[0], key)


def _decoded(text: str | None) -> bytes:
    """The bytes of a base64 text; empty if it is absent or not valid."""
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""
