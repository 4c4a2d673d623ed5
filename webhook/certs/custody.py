"""Which certificates there must be in a cluster: a pure step from what a replica sees to what it has to do.

The Secret is the one truth: the CAs (the newest first), the newest's key, and the leaf that all replicas serve. Every
replica takes the same steps; whoever writes the Secret first wins, and the others read what it wrote.

| what is seen                                                | what is done                                           |
| ----------------------------------------------------------- | ------------------------------------------------------ |
| no CA that can sign, or one past two thirds of its life     | a new CA in front of the old ones; the leaf stays      |
| no leaf that can serve                                      | a leaf of the newest CA, at once                       |
| a leaf past two thirds, for other hosts, or of an older CA  | a leaf of the newest CA, once that CA has been in      |
|                                                             | every live configuration for a minute                  |
| a caBundle without one of the Secret's CAs, or without the  | appended; nothing is taken out but what has ended      |
| CA of what is being served                                  |                                                        |
| the Secret's leaf is another than the served one            | taken over, once its CA has been in every live         |
|                                                             | configuration for a minute; at once if nothing serves  |

A CA stays in the bundles until it ends. A leaf never outlives its CA, so that no replica, however late it reads, serves
what is no longer trusted. `now` is the API server's clock, since it is the API server who verifies: a replica's own may
jump as it likes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from webhook import certs
from webhook.certs import Pair

PAUSE = timedelta(minutes=1)
"""So long every live configuration must have held a CA before a leaf of it serves: API servers follow in seconds."""
CA_LIFETIME, LEAF_LIFETIME = timedelta(days=365), timedelta(days=90)

BROKEN = b""
"""Stands in a bundle for what is no certificate: API servers refuse a caBundle for it."""
Bundles = Mapping[str, tuple[bytes, ...]]
"""Each webhook of the live configurations, by any name → the certificates in its caBundle."""


@dataclass(frozen=True)
class Terms:
    """What is wanted."""

    hosts: tuple[str, ...]
    ca_lifetime: timedelta = CA_LIFETIME
    leaf_lifetime: timedelta = LEAF_LIFETIME
    pause: timedelta = PAUSE


@dataclass(frozen=True)
class Held:
    """What the Secret holds, as far as it is readable."""

    cas: tuple[bytes, ...] = ()
    """PEM each, the newest first."""
    ca: Pair | None = None
    """The newest, with its key."""
    leaf: Pair | None = None


@dataclass(frozen=True)
class Replica:
    """What one replica remembers."""

    leaf: Pair | None = None
    """What it serves."""
    issuer: bytes | None = None
    """The CA of that."""
    since: Mapping[bytes, float] = field(default_factory=dict)
    """CA → since when (seconds of a clock that only goes on) it has seen it in every live configuration."""


@dataclass(frozen=True)
class Step:
    """What is to be done, the Secret first: what is not stored is announced nowhere."""

    replica: Replica
    secret: Held | None = None
    """To be stored, unless somebody else was faster; then nothing else is done before the next look."""
    bundles: Bundles = field(default_factory=dict)
    """The caBundles that must change, whole."""


def step(replica: Replica, held: Held, bundles: Bundles | None, terms: Terms, now: datetime, clock: float) -> Step:
    """The next step; `bundles` None: a configuration can't be read, so that nothing changes that needs them."""
    replica = replace(replica, since=_since(replica, held, bundles, clock))
    wanted = _secret(replica, held, terms, now, clock)
    if wanted != held:
        return Step(replica, secret=wanted)
    if bundles is None:
        return Step(_serve(replica, held, terms, now, clock))
    must = [*held.cas, *([replica.issuer] if replica.issuer else [])]
    after = {name: _bundle(bundle, must, now) for name, bundle in bundles.items()}
    if changed := {name: bundle for name, bundle in after.items() if bundle != bundles[name]}:
        return Step(replica, bundles=changed)
    return Step(_serve(replica, held, terms, now, clock))


def trusted(replica: Replica, bundles: Bundles) -> bool:
    """Whether every live configuration holds the CA of what the replica serves."""
    return replica.issuer is not None and all(replica.issuer in bundle for bundle in bundles.values())


def _since(replica: Replica, held: Held, bundles: Bundles | None, clock: float) -> Mapping[bytes, float]:
    """Goes on for the CAs that every configuration holds, begins anew for those that one has lost."""
    if bundles is None:
        return {}
    return {ca: replica.since.get(ca, clock) for ca in held.cas if all(ca in bundle for bundle in bundles.values())}


def _settled(replica: Replica, ca: bytes, terms: Terms, clock: float) -> bool:
    return ca in replica.since and clock - replica.since[ca] >= terms.pause.total_seconds()


def _secret(replica: Replica, held: Held, terms: Terms, now: datetime, clock: float) -> Held:
    """The Secret as it must be; equal to `held` where that is good."""
    ca, cas = held.ca, tuple(one for one in held.cas if not _ended(one, now))
    if ca is None or certs.problem(ca, now) or certs.renew_at(ca.certificate) <= now:
        ca = certs.issue_ca(now, lifetime=terms.ca_lifetime)
        cas = (ca.certificate, *cas)
    leaf = held.leaf if _serves(held.leaf, cas, now) else None
    if leaf is None and replica.issuer and _serves(replica.leaf, (replica.issuer,), now):  # the Secret was lost
        leaf, cas = replica.leaf, tuple(dict.fromkeys((*cas, replica.issuer)))
    if leaf is None or (_settled(replica, ca.certificate, terms, clock) and _due(leaf, ca, terms, now)):
        leaf = certs.issue_leaf(ca, terms.hosts, now, terms.leaf_lifetime)
    return Held(cas, ca, leaf)


def _due(leaf: Pair, ca: Pair, terms: Terms, now: datetime) -> bool:
    return (
        certs.hosts_of(leaf.certificate) != frozenset(terms.hosts)
        or not certs.signed_by(leaf.certificate, ca.certificate)
        # A leaf that ends with its CA can't be renewed by it for longer: the next CA comes first.
        or (
            certs.renew_at(leaf.certificate) <= now
            and certs.not_after(leaf.certificate) < certs.not_after(ca.certificate)
        )
    )


def _serve(replica: Replica, held: Held, terms: Terms, now: datetime, clock: float) -> Replica:
    """Takes the Secret's leaf over where it may."""
    if held.leaf is None or held.leaf == replica.leaf:
        return replica
    issuer = next((ca for ca in held.cas if certs.signed_by(held.leaf.certificate, ca)), None)
    if issuer is None:
        return replica
    nothing = replica.issuer is None or not _serves(replica.leaf, (replica.issuer,), now)
    if nothing or _settled(replica, issuer, terms, clock):
        return replace(replica, leaf=held.leaf, issuer=issuer)
    return replica


def _serves(leaf: Pair | None, cas: Iterable[bytes], now: datetime) -> bool:
    return leaf is not None and any(certs.problem(leaf, now, ca) is None and not _ended(ca, now) for ca in cas)


def _bundle(bundle: tuple[bytes, ...], must: Iterable[bytes], now: datetime) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(ca for ca in (*bundle, *must) if ca != BROKEN and not _ended(ca, now)))


def _ended(certificate: bytes, now: datetime) -> bool:
    return certs.not_after(certificate) < now


# ── the Secret's form ────────────────────────────────────────────────────────────────────────────────────────────────


def read(data: Mapping[str, str]) -> Held:
    """A Secret's `data` (base64); what can't be read is not there."""
    ca_crt, ca_key, tls_crt, tls_key = (_decoded(data.get(name)) for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"))
    cas = certs.split(ca_crt)
    leaf = certs.split(tls_crt)[:1]
    return Held(cas, _pair(cas[:1], ca_key), _pair(leaf, tls_key))


def write(held: Held) -> dict[str, str]:
    """The Secret's `data`."""
    ca, leaf = held.ca, held.leaf
    found = {"ca.crt": b"".join(held.cas)}
    if ca is not None:
        found["ca.key"] = ca.key
    if leaf is not None:
        found |= {"tls.crt": leaf.certificate, "tls.key": leaf.key}
    return {name: base64.b64encode(value).decode() for name, value in found.items()}


def _pair(certificate: tuple[bytes, ...], key: bytes) -> Pair | None:
    """The pair, where certificate and key belong together: dates are not asked here."""
    if not certificate or not certs.belongs(certificate[0], key):
        return None
    return Pair(certificate[0], key)


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""
