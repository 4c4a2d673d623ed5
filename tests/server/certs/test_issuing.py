"""Certificates: what they may be used for, when they are renewed, and who trusts them."""

from __future__ import annotations

import socket
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from podfit.cli import main
from podfit.server import certs
from podfit.server.certs import Pair

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def load(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def test_a_ca_may_sign_leaves_and_nothing_else() -> None:
    ca = load(certs.issue_ca(NOW))

    constraints = ca.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = ca.extensions.get_extension_for_class(x509.KeyUsage)

    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    assert usage.value.key_cert_sign
    assert not usage.value.digital_signature


def test_a_leaf_serves_its_hosts_and_signs_nothing() -> None:
    ca = certs.issue_ca(NOW)
    leaf = load(certs.issue_leaf(ca, ["podfit.podfit-system.svc", "127.0.0.1", "::1"], NOW))

    assert leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    key = leaf.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1), "what every API server takes"
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["podfit.podfit-system.svc", "127.0.0.1", "::1"]
    assert ExtendedKeyUsageOID.SERVER_AUTH in leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    leaf.verify_directly_issued_by(load(ca))


def test_a_leaf_never_outlives_its_ca() -> None:
    ca = certs.issue_ca(NOW, lifetime=10 * DAY)

    assert load(certs.issue_leaf(ca, ["a"], NOW)).not_valid_after_utc == NOW + 10 * DAY


def test_a_certificate_is_renewed_after_two_thirds_of_its_life() -> None:
    ca = certs.issue_ca(NOW, lifetime=90 * DAY)

    assert abs(certs.renew_at(ca.certificate) - (NOW + 60 * DAY)) < timedelta(minutes=5)


def test_what_is_wrong_with_a_pair_is_told() -> None:
    ca, other = certs.issue_ca(NOW), certs.issue_ca(NOW)
    leaf = certs.issue_leaf(ca, ["a"], NOW)

    assert certs.problem(leaf, NOW, ca.certificate) is None
    assert certs.problem(leaf, NOW, other.certificate) == "the certificate is not signed by the CA"
    assert certs.problem(leaf, NOW + 366 * DAY) == "the certificate ended 2027-06-01 12:00 UTC"
    assert certs.problem(leaf, NOW - DAY) == "the certificate starts 2026-06-01 11:55 UTC"
    assert certs.problem(Pair(leaf.certificate, ca.key), NOW) == "the private key is not the certificate's"
    assert certs.problem(Pair(b"", leaf.key), NOW) == "the certificate is not PEM"
    assert certs.problem(Pair(leaf.certificate, b""), NOW) == "the private key is not PEM, or has a passphrase"


FILES = ("ca.crt", "ca.key", "tls.crt", "tls.key")


def test_a_first_write_makes_all_four_files_and_keeps_the_keys_private(tmp_path: Path) -> None:
    folder = tmp_path / "new"

    written = certs.write(folder, ["localhost"], NOW)

    assert sorted(path.name for path in written) == sorted(path.name for path in folder.iterdir()) == list(FILES)
    assert {name: stat.S_IMODE((folder / name).stat().st_mode) for name in FILES if name.endswith(".key")} == {
        "ca.key": 0o600,
        "tls.key": 0o600,
    }


def _nothing(folder: Path) -> None:
    """Leaves all as it is."""


def _lose(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _spoil(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(b"spoilt")

    return spoil


RENEWALS: list[tuple[str, Callable[[Path], None], list[str], timedelta, list[str]]] = [
    ("nothing changed", _nothing, ["localhost"], DAY, []),
    ("other hosts", _nothing, ["localhost", "::1"], DAY, ["tls.crt", "tls.key"]),
    ("the leaf is past two thirds", _nothing, ["localhost"], 250 * DAY, ["tls.crt", "tls.key"]),
    ("the CA is past two thirds", _nothing, ["localhost"], 2500 * DAY, list(FILES)),
    ("the leaf's key is lost", _lose("tls.key"), ["localhost"], DAY, ["tls.crt", "tls.key"]),
    ("the leaf is spoilt", _spoil("tls.crt"), ["localhost"], DAY, ["tls.crt", "tls.key"]),
    ("the CA is lost", _lose("ca.crt"), ["localhost"], DAY, list(FILES)),
    ("the CA's key is spoilt", _spoil("ca.key"), ["localhost"], DAY, list(FILES)),
]


@pytest.mark.parametrize(
    ("change", "hosts", "later", "expected"), [row[1:] for row in RENEWALS], ids=[row[0] for row in RENEWALS]
)
def test_only_what_must_be_is_issued_anew(
    change: Callable[[Path], None], hosts: list[str], later: timedelta, expected: list[str], tmp_path: Path
) -> None:
    certs.write(tmp_path, ["localhost"], NOW)
    change(tmp_path)

    written = certs.write(tmp_path, hosts, NOW + later)

    assert sorted(path.name for path in written) == expected
    leaf = Pair((tmp_path / "tls.crt").read_bytes(), (tmp_path / "tls.key").read_bytes())
    assert certs.problem(leaf, NOW + later, (tmp_path / "ca.crt").read_bytes()) is None
    assert certs.hosts_of(leaf.certificate) == set(hosts)


def handshake(serving: Path, trusted: Path, host: str) -> None:
    """One TLS handshake in this process; raises SSLError where the client does not trust the server."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(serving / "tls.crt", serving / "tls.key")
    client = ssl.create_default_context(cafile=str(trusted / "ca.crt"))
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    near, far = socket.socketpair()

    def serve() -> None:
        try:
            server.wrap_socket(far, server_side=True).close()
        except OSError:
            far.close()

    thread = Thread(target=serve)
    thread.start()
    try:
        client.wrap_socket(near, server_hostname=host).close()
    finally:
        near.close()
        thread.join()
        far.close()


@pytest.mark.parametrize("host", ["podfit.ns.svc", "127.0.0.1"])
def test_a_strict_client_trusts_the_leaf_for_its_hosts(host: str, tmp_path: Path) -> None:
    certs.write(tmp_path, ["podfit.ns.svc", "127.0.0.1"])

    handshake(tmp_path, tmp_path, host)


def test_a_client_trusts_neither_another_host_nor_another_ca(tmp_path: Path) -> None:
    certs.write(tmp_path / "one", ["localhost"])
    certs.write(tmp_path / "two", ["localhost"])

    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(tmp_path / "one", tmp_path / "one", "example.com")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path / "one", tmp_path / "two", "localhost")


def test_the_command_writes_once_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["certs", "--dir", str(tmp_path), "--host", "localhost", "--host", "127.0.0.1"]

    assert main(command) == 0
    first = capsys.readouterr().out.splitlines()
    assert main(command) == 0
    second = capsys.readouterr().out.splitlines()

    assert len(first) == 5
    assert second == first[-1:]
    assert second[0].startswith(f"{tmp_path / 'tls.crt'}: for localhost, 127.0.0.1, until ")


def test_the_command_tells_a_bad_host_and_a_bad_folder_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    assert main(["certs", "--dir", str(tmp_path / "certs"), "--host", "höst"]) == 2
    assert main(["certs", "--dir", str(tmp_path / "file")]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 2
