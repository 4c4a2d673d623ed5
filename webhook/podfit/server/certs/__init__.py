"""Certificates: a certificate authority and a serving certificate, for files or for a cluster.

`renewal.next_step` is the whole protocol as a pure function: what a replica remembers and sees → the Secret to store,
the bundles to write, or the leaf to serve. `keeper` takes the step; `serving` provides contexts for handshakes. ECDSA
P-256, which every API server accepts, FIPS builds included. A leaf never outlives its CA.

- No leader: every write is a PUT of the version that was read. A replica without a lease would be the one whose
  certificate expires unnoticed. Polled every ten seconds: three small objects, and a missed event cannot matter.
- A CA leaves a bundle when it has expired, or when its last leaf has. The newest CA alone signs, so the date of the
  next CA is enough to know, and no state is needed. A CA that was lost with the Secret, and CAs beyond the 16 newest,
  are removed early, minutes after each replica has moved on.
- A failed write stops nothing else: the content of the Secret is served and announced.
- `now` is the `Date` of the API server's answer, because it verifies. A difference of an hour counts only after it
  has lasted an hour, and a certificate is removed only if it has expired by both clocks.
- The leaf reaches OpenSSL through a memfd, because `load_cert_chain` reads only files.
- `podfit off` sets a match condition to false. It deletes no webhook, so there is nothing to restore.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

FILE_CA_LIFETIME, FILE_LEAF_LIFETIME = timedelta(days=3650), timedelta(days=365)
"""Lifetimes of the certificates that `podfit certs` writes to files, which nothing renews (`renewal` has the lifetimes
of certificates in a Secret)."""
CA_NAME = "podfit CA"
SKEW = timedelta(minutes=5)
"""How far the clock of a verifying client may be behind ours."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    """Never printed."""


@lru_cache(maxsize=256)
def _loaded(certificate: bytes) -> x509.Certificate:
    """The parsed certificate; raises ValueError if it is not one."""
    return x509.load_pem_x509_certificate(certificate)


def issue_ca(now: datetime, name: str = CA_NAME, lifetime: timedelta = FILE_CA_LIFETIME) -> Pair:
    """A new certificate authority, valid from `now` for `lifetime`, which may sign leaves and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _builder(subject, subject, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def issue_leaf(ca: Pair, hosts: Iterable[str], now: datetime, lifetime: timedelta = FILE_LEAF_LIFETIME) -> Pair:
    """A serving certificate for `hosts` (DNS names, IP addresses), signed by `ca`. It is valid from `now` for
    `lifetime`, but not longer than the CA. Raises ValueError on a bad host, or a CA's key of another type."""
    names = list(dict.fromkeys(hosts))
    issuer, signer = _loaded(ca.certificate), load_pem_private_key(ca.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the CA's key is not an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "podfit")])
    end = min(now + lifetime, issuer.not_valid_after_utc)
    certificate = (
        _builder(subject, issuer.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(name) for name in names]), critical=False)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _pair(certificate, key)


def renew_at(certificate: bytes) -> datetime:
    """When to renew: after two thirds of the time from its issue to its end (docs/security.md)."""
    issued = issued_at(certificate)
    return issued + (not_after(certificate) - issued) * 2 / 3


def issued_at(certificate: bytes) -> datetime:
    """The time at which podfit issued the certificate: SKEW after its first moment (`_builder`)."""
    return _loaded(certificate).not_valid_before_utc + SKEW


def common_name(certificate: bytes) -> str:
    """The certificate's common name; empty if it has none."""
    name_attributes = _loaded(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name_attributes[0].value) if name_attributes else ""


def not_after(certificate: bytes) -> datetime:
    """When the (first) certificate ends; raises ValueError if it is not a certificate."""
    return _loaded(certificate).not_valid_after_utc


def hosts_of(certificate: bytes) -> frozenset[str]:
    """The DNS names and IP addresses that the certificate is for."""
    loaded = _loaded(certificate)
    try:
        names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(str(name.value) for name in names)


def problem(pair: Pair, now: datetime, ca: bytes | None = None) -> str | None:
    """Why the pair can't serve at `now`, or is not signed by the certificate `ca` (None: any CA will do), in one line.
    None if it can."""
    try:
        certificate = _loaded(pair.certificate)
    except ValueError:
        return "the certificate is not PEM"
    try:
        key = load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError):
        return "the private key is not PEM, or has a passphrase"
    if certificate.public_key() != key.public_key():
        return "the private key is not the certificate's"
    if now > certificate.not_valid_after_utc:
        return f"the certificate ended {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if now < certificate.not_valid_before_utc:
        return f"the certificate starts {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    if ca is not None and not signed_by(pair.certificate, ca):
        return "the certificate is not signed by the CA"
    return None


@lru_cache(maxsize=256)
def signed_by(certificate: bytes, ca: bytes) -> bool:
    """True if `ca` has signed it; False if one of them is not a certificate."""
    try:
        _loaded(certificate).verify_directly_issued_by(_loaded(ca))
    except Exception:  # ValueError, TypeError and InvalidSignature all say the same
        return False
    return True


def belongs(certificate: bytes, key: bytes) -> bool:
    """True if the private key is the certificate's; False if one of them can't be read."""
    try:
        loaded = load_pem_private_key(key, password=None)
        return _loaded(certificate).public_key() == loaded.public_key()
    except (ValueError, TypeError):
        return False


def split(bundle: bytes) -> tuple[bytes, ...]:
    """Each certificate of a PEM bundle once, in order, encoded again so that equal certificates are equal bytes. A
    block that is not a certificate is left out."""
    certificates = []
    for block in _BLOCK.findall(bundle):
        try:
            certificates.append(_loaded(block).public_bytes(Encoding.PEM))
        except ValueError:
            continue
    return tuple(dict.fromkeys(certificates))


_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def write(folder: Path, hosts: Iterable[str], now: datetime | None = None) -> tuple[Path, ...]:
    """Writes `ca.crt`, `ca.key`, `tls.crt` and `tls.key` into `folder`; returns the files that it wrote.

    Valid files are kept. A certificate is issued again if it is missing or broken, past two thirds of its lifetime, or
    for other hosts. `now`: None is the present time. Raises ValueError on a bad host, OSError if the folder can't be
    used.
    """
    now, names = now or datetime.now(UTC), list(dict.fromkeys(hosts))
    folder.mkdir(parents=True, exist_ok=True)
    written: tuple[Path, ...] = ()
    ca = _read(folder, "ca")
    if ca is None or problem(ca, now) or renew_at(ca.certificate) <= now:
        ca = issue_ca(now)
        written += _write(folder, "ca", ca)
    leaf = _read(folder, "tls")
    if (
        leaf is None
        or problem(leaf, now, ca.certificate)
        or renew_at(leaf.certificate) <= now
        or hosts_of(leaf.certificate) != frozenset(names)
    ):
        written += _write(folder, "tls", issue_leaf(ca, names, now))
    return written


def _read(folder: Path, name: str) -> Pair | None:
    """The PEM texts of NAME.crt and NAME.key in a folder; None if either is absent."""
    try:
        return Pair((folder / f"{name}.crt").read_bytes(), (folder / f"{name}.key").read_bytes())
    except FileNotFoundError:
        return None


def _write(folder: Path, name: str, pair: Pair) -> tuple[Path, ...]:
    """Write NAME.key and NAME.crt, each completely or not at all, and return the paths of certificate and key. A server
    that reads between the two writes keeps the pair it has. Raises OSError."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    for path, data, mode in ((key, pair.key, 0o600), (certificate, pair.certificate, 0o644)):
        temporary = path.with_name(path.name + ".new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        temporary.replace(path)
    return certificate, key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    """A certificate to sign, with a random serial number, valid from SKEW before `start`."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before((start - SKEW).astimezone(UTC))
        .not_valid_after(end.astimezone(UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """The key usage of a CA (`signs_certificates`), or of a server."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(name: str) -> x509.GeneralName:
    """The subject alternative name of an IP address or a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    """Both as PEM; the key is not encrypted."""
    return Pair(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
