"""Which certificates there must be in a cluster: a pure step from what a replica sees to what it has to do.

The Secret is the one truth: the CAs (the newest first), the newest's key, and the leaf that all replicas serve. Every
replica takes the same steps; whoever writes the Secret first wins, and the others read what it wrote.

| what is seen                                                | what is done                                           |
| ----------------------------------------------------------- | ------------------------------------------------------ |
| no CA that can sign, or one past two thirds of its life     | a new CA in front of the old ones; the leaf stays      |
| no leaf that can serve                                      | a leaf of the newest CA, at once                       |
| a leaf past two thirds, for other hosts, or of an older CA  | a leaf of the newest CA, once that CA has been in      |
|                                                             | every live configuration for a minute                  |
| a caBundle without one of the Secret's CAs, or without the  | appended; nothing is taken out but what is `_spent`    |
| CA of what is being served                                  |                                                        |
| the Secret's leaf is another than the served one            | taken over, once its CA has been in every live         |
|                                                             | configuration for a minute; at once if nothing serves  |

What can be done without a write that fails is done: a replica that has nothing serves what the Secret holds, and what
it holds is announced. A CA stays in the bundles while a leaf of it may be served by anybody, however late he reads. A
leaf never outlives its CA.

Dates are held against the API server's clock, since it is the API server who verifies: a replica's own may jump as it
likes. But one answer decides nothing: where the two clocks are far apart, what is there is left as it is until one of
them has come back or the API server has kept to its own for an hour; and nothing is taken out before it has ended by
both.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from webhook.server import certs
from webhook.server.certs import Pair

PAUSE = timedelta(minutes=1)
"""So long every live configuration must have held a CA before a leaf of it serves: API servers follow in seconds."""
CA_LIFETIME, LEAF_LIFETIME = timedelta(days=365), timedelta(days=90)
APART = timedelta(hours=1)
"""So far apart two clocks are two opinions; so long an API server keeps to its own to be believed against ours."""
KEPT = 16
"""So many of our own CAs a bundle holds at most, but for those that were followed by another just now."""
JUST_NOW = 10
"""In PAUSEs: after that everybody who reads the Secret serves a leaf of a later CA."""

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
class Clocks:
    """What time it is."""

    now: datetime
    """The API server's answer."""
    own: datetime
    """This machine's."""
    steady: float
    """Seconds of a clock that only goes on."""

    @property
    def gone(self) -> datetime:
        """What ended before it has ended for sure."""
        return min(self.now, self.own)


@dataclass(frozen=True)
class Replica:
    """What one replica remembers."""

    leaf: Pair | None = None
    """What it serves."""
    issuer: bytes | None = None
    """The CA of that."""
    since: Mapping[bytes, float] = field(default_factory=dict)
    """CA → since when (`Clocks.steady`) it has seen it in every live configuration."""
    kept_to: tuple[float, float] | None = None
    """By how many seconds the API server's clock is before `Clocks.steady`, and since when it is."""


@dataclass(frozen=True)
class Step:
    """What is to be done, the Secret first: what is not stored is announced nowhere."""

    replica: Replica
    secret: Held | None = None
    """To be stored, unless somebody else was faster; then nothing else is done before the next look."""
    bundles: Bundles = field(default_factory=dict)
    """The caBundles that must change, whole, by what is stored already: where a `secret` can't be, they still can."""
    doubt: str = ""
    """Why nothing is issued though it may be time; empty where the API server's clock is believed."""


def step(replica: Replica, held: Held, bundles: Bundles | None, terms: Terms, clocks: Clocks) -> Step:
    """The next step; `bundles` None: a configuration can't be read, so that nothing changes that needs them."""
    replica = replace(
        replica, since=_since(replica, held, bundles, clocks.steady), kept_to=_kept_to(replica.kept_to, clocks)
    )
    doubt = _doubt(replica, clocks) if _stands(replica, clocks) or _stands(_offered(held), clocks) else ""
    wanted = held if doubt else _secret(replica, held, terms, clocks)
    before, must = bundles or {}, [*held.cas, *([replica.issuer] if replica.issuer else [])]
    after = {name: _left((*bundle, *must), replica, held, terms, clocks) for name, bundle in before.items()}
    changed = {name: bundle for name, bundle in after.items() if bundle != before[name]}
    replica = _serve(replica, held, terms, clocks, bool(doubt))
    return Step(replica, wanted if wanted != held else None, changed, doubt)


def trusted(replica: Replica, bundles: Bundles) -> bool:
    """Whether every live configuration holds the CA of what the replica serves."""
    return replica.issuer is not None and all(replica.issuer in bundle for bundle in bundles.values())


def _since(replica: Replica, held: Held, bundles: Bundles | None, clock: float) -> Mapping[bytes, float]:
    """Goes on for the CAs that every configuration holds, begins anew for those that one has lost."""
    if bundles is None:
        return {}
    return {ca: replica.since.get(ca, clock) for ca in held.cas if all(ca in bundle for bundle in bundles.values())}


def _kept_to(before: tuple[float, float] | None, clocks: Clocks) -> tuple[float, float]:
    ahead = clocks.now.timestamp() - clocks.steady
    if before is not None and abs(ahead - before[0]) <= APART.total_seconds():
        return before
    return ahead, clocks.steady


def _doubt(replica: Replica, clocks: Clocks) -> str:
    """Why the API server's answer is not taken for the time: nobody else says so, and it said otherwise lately."""
    _, since = replica.kept_to or (0.0, clocks.steady)
    if abs(clocks.now - clocks.own) <= APART or clocks.steady - since >= APART.total_seconds():
        return ""
    return f"the API server's clock says {clocks.now:%Y-%m-%d %H:%M} UTC, this machine's {clocks.own:%Y-%m-%d %H:%M}"


def _settled(replica: Replica, ca: bytes, terms: Terms, clocks: Clocks) -> bool:
    return ca in replica.since and clocks.steady - replica.since[ca] >= terms.pause.total_seconds()


def _secret(replica: Replica, held: Held, terms: Terms, clocks: Clocks) -> Held:
    """The Secret as it must be; equal to `held` where that is good."""
    now, ca, cas = clocks.now, held.ca, _left(held.cas, replica, held, terms, clocks)
    if ca is None or certs.problem(ca, now) or certs.renew_at(ca.certificate) <= now:
        ca = certs.issue_ca(now, lifetime=terms.ca_lifetime)
        cas = (ca.certificate, *cas)
    leaf = held.leaf if _serves(held.leaf, cas, now) else None
    if leaf is None and replica.issuer and _serves(replica.leaf, (replica.issuer,), now):  # the Secret was lost
        leaf, cas = replica.leaf, tuple(dict.fromkeys((*cas, replica.issuer)))
    if leaf is None or (_settled(replica, ca.certificate, terms, clocks) and _due(leaf, ca, terms, now)):
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


def _serve(replica: Replica, held: Held, terms: Terms, clocks: Clocks, doubt: bool) -> Replica:
    """Takes the Secret's leaf over where it may; whoever doubts the date, only for nothing."""
    offered = _offered(held)
    if offered.issuer is None or offered.leaf == replica.leaf:
        return replica
    if doubt:
        may = _stands(offered, clocks) and not _stands(replica, clocks)
    else:
        nothing = replica.issuer is None or not _serves(replica.leaf, (replica.issuer,), clocks.now)
        good = _serves(offered.leaf, (offered.issuer,), clocks.now)
        may = good and (nothing or _settled(replica, offered.issuer, terms, clocks))
    return replace(replica, leaf=offered.leaf, issuer=offered.issuer) if may else replica


def _offered(held: Held) -> Replica:
    """Who serves what the Secret holds."""
    return Replica(held.leaf, _issuer(held))


def _stands(replica: Replica, clocks: Clocks) -> bool:
    """Whether what it serves is good by one clock at least."""
    issuer = (replica.issuer,) if replica.issuer else ()
    return any(_serves(replica.leaf, issuer, at) for at in (clocks.now, clocks.own))


def _issuer(held: Held) -> bytes | None:
    """The CA of the Secret's leaf."""
    leaf = held.leaf
    return next((ca for ca in held.cas if leaf and certs.signed_by(leaf.certificate, ca)), None)


def _serves(leaf: Pair | None, cas: Iterable[bytes], now: datetime) -> bool:
    return leaf is not None and any(certs.problem(leaf, now, ca) is None and not _ended(ca, now) for ca in cas)


def _ended(certificate: bytes, now: datetime) -> bool:
    return certs.not_after(certificate) < now


# ── what is taken out ────────────────────────────────────────────────────────────────────────────────────────────────


def _left(cas: Iterable[bytes], replica: Replica, held: Held, terms: Terms, clocks: Clocks) -> tuple[bytes, ...]:
    """Each CA once, without those that have ended and those that are spent."""
    used = {replica.issuer, _issuer(held), held.ca.certificate if held.ca else None}
    live = [ca for ca in dict.fromkeys(cas) if ca != BROKEN and not _ended(ca, clocks.gone)]
    spent = _spent(live, terms, clocks) - used
    return tuple(ca for ca in live if ca not in spent)


def _spent(cas: Iterable[bytes], terms: Terms, clocks: Clocks) -> set[bytes]:
    """Our own CAs of which nobody serves a leaf any more.

    The newest CA alone signs, so that the last leaf of one is older than the CA after it. A loss of the Secret makes
    a CA each time: where it is lost all the time, the KEPT newest stay and those are given up that a replica could only
    serve by a leaf which it took over so many losses ago.
    """
    ours = sorted((ca for ca in cas if certs.common_name(ca) == certs.CA_NAME), key=certs.issued_at, reverse=True)
    found = set[bytes]()
    for number, (later, ca) in enumerate(pairwise(ours), 2):
        age = clocks.gone - certs.issued_at(later) - terms.pause * JUST_NOW
        if age > terms.leaf_lifetime or (number > KEPT and age > timedelta()):
            found.add(ca)
    return found


# ── a webhook's form ─────────────────────────────────────────────────────────────────────────────────────────────────


def bundle_of(hook: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The CAs in a webhook's caBundle, BROKEN at the end where something else is in it."""
    try:
        bundle = base64.b64decode((hook.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except ValueError:
        return (BROKEN,)
    found = certs.split(bundle)
    return found if len(found) >= bundle.count(b"-----BEGIN") and bool(found) == bool(bundle) else (*found, BROKEN)


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
