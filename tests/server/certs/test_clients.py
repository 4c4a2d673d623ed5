"""--client-ca: who may ask for a review, over real TLS."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from podfit.server import certs
from podfit.server.certs.keeper import Keeper
from podfit.server.certs.renewal import RenewalPolicy
from podfit.server.certs.serving import CertificateFiles
from tests.cluster.script import access
from tests.conftest import GOOD_POD
from tests.reviews import admission_review

NOW = datetime.now(UTC)


@pytest.fixture(name="port", scope="module")
def _port(folder: Path) -> Iterator[int]:
    """A server that answers reviews to clients of a CA alone."""
    tls = [
        "--cert",
        str(folder / "tls.crt"),
        "--key",
        str(folder / "tls.key"),
        "--client-ca",
        str(folder / "client.ca"),
    ]
    command = [sys.executable, "-m", "podfit.cli", "serve", "--bind", "127.0.0.1:0", *tls]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            first = process.stderr.readline()
            serves = re.search(r"serving on https://127\.0\.0\.1:(\d+)", first)
            assert serves, first
            yield int(serves[1])
        finally:
            process.kill()


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates: the server's, a known client's, and a stranger's."""
    folder = tmp_path_factory.mktemp("clients")
    certs.write(folder, ["127.0.0.1"])
    for name in ("client", "stranger"):
        ca = certs.issue_ca(NOW, name)
        (folder / f"{name}.ca").write_bytes(ca.certificate)
        (folder / f"{name}.pem").write_bytes(client_certificate(ca))
    return folder


def client_certificate(ca: certs.Pair) -> bytes:
    """A certificate for clients, and its key."""
    issuer, signer = x509.load_pem_x509_certificate(ca.certificate), load_pem_private_key(ca.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - certs.SKEW)
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM) + private


def ask(port: int, folder: Path, method: str, path: str, client: str | None) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    if client:
        context.load_cert_chain(folder / f"{client}.pem")
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    try:
        body = json.dumps(admission_review(GOOD_POD)) if method == "POST" else None
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_known_client_gets_an_answer(port: int, folder: Path) -> None:
    status, said = ask(port, folder, "POST", "/validate", "client")

    assert status == 200
    assert "allowed" in json.loads(said)["response"]


def test_a_client_without_a_certificate_gets_none(port: int, folder: Path) -> None:
    assert ask(port, folder, "POST", "/validate", None) == (403, '{"error": "no client certificate of --client-ca"}\n')


def test_probes_and_metrics_need_no_certificate(port: int, folder: Path) -> None:
    assert {ask(port, folder, "GET", path, None)[0] for path in ("/healthz", "/metrics")} == {200}


def test_another_ca_of_clients_serves_without_a_restart_and_a_bad_one_never(tmp_path: Path) -> None:
    """Its file holds what it holds at a handshake, whether the server's certificate is kept or a file."""
    first, second = certs.issue_ca(NOW, "first"), certs.issue_ca(NOW, "second")
    file = tmp_path / "clients.crt"
    certs.write(tmp_path, ["localhost"])
    file.write_bytes(first.certificate)
    kept = Keeper(access(), "s", "podfit", RenewalPolicy(("localhost",)), file)
    for serving in (CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key", file), kept):
        for holds, known in (
            (first.certificate, "first"),
            (second.certificate, "second"),
            (b"", "second"),
            (b"-----BEGIN CERTIFICATE-----\n", "second"),
            (first.certificate + second.certificate, "first second"),
        ):
            file.write_bytes(holds)
            found = serving.context().get_ca_certs(binary_form=True)
            names = sorted(certs.common_name(ssl.DER_cert_to_PEM_cert(ca).encode()) for ca in found)
            assert " ".join(names) == known
        file.unlink()
        assert len(serving.context().get_ca_certs()) == 2
        file.write_bytes(first.certificate)


def test_a_client_of_another_ca_is_refused_in_the_handshake(port: int, folder: Path) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask(port, folder, "POST", "/validate", "stranger")
