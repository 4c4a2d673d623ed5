"""Each way in which a kubeconfig's user shows who he is, against a real server over TLS."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from podfit.cluster.access import Client, from_kubeconfig
from podfit.cluster.kubeconfig import AccessError
from tests.cluster.server import HOST, Asked, Server, proxy, serving
from tests.e2e.process import until

JSONDict = dict[str, Any]
PLUGIN = "client.authentication.k8s.io/v1"
EXEC = {"apiVersion": PLUGIN, "command": "true", "interactiveMode": "Never"}
NOW = datetime.now(UTC)


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, clients=True) as server:
        server.answers["/a"] = {}
        yield server


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All temporary files are gone at the end, and no environment variable has an effect."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("TMPDIR", str(place))
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    yield
    assert list(place.iterdir()) == []


def ask(server: Server, path: Path, times: int = 1, **options: Any) -> list[Asked]:
    """What the server is asked by a client of this kubeconfig."""
    with closing(Client(from_kubeconfig(path, plugins=True, **options))) as client:
        for _ in range(times):
            client.get("/a", {})
    return server.asked[-times:]


def told(path: Path, **options: Any) -> str:
    """Why this kubeconfig can't be used."""
    with pytest.raises(AccessError) as error:
        from_kubeconfig(path, plugins=True, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# ── credentials in the file, or in a file next to it ─────────────────────────────────────────────────────────────────


def test_a_token(server: Server) -> None:
    assert ask(server, server.kubeconfig({"token": "secret"}))[0].token == "Bearer secret"


def test_nobody(server: Server) -> None:
    (asked,) = ask(server, server.kubeconfig())

    assert (asked.token, asked.certificate) == (None, None)


def test_a_name_and_a_password(server: Server) -> None:
    (asked,) = ask(server, server.kubeconfig({"username": "ann", "password": "p:w"}))

    assert asked.token == f"Basic {base64.b64encode(b'ann:p:w').decode()}"


def test_a_file_with_a_token_is_read_at_every_request(server: Server) -> None:
    token = server.folder / "token"
    token.write_text("first\n")
    with closing(Client(from_kubeconfig(server.kubeconfig({"tokenFile": "token"})))) as client:
        client.get("/a", {})
        token.write_text("second\n")
        client.get("/a", {})

    assert [one.token for one in server.asked] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("token", ["hf\nsecret", "hf…secret"])
def test_a_token_that_no_header_may_have_is_told_and_never_shown(server: Server, token: str) -> None:
    (server.folder / "token").write_text(token)
    for user in ({"token": token}, {"tokenFile": "token"}):
        with pytest.raises(AccessError, match="the token has a character that no header may have") as error:
            ask(server, server.kubeconfig(user))
        assert "secret" not in str(error.value)


def client_pair(folder: Path, name: str, password: bytes | None = None) -> tuple[bytes, bytes]:
    """Certificate and key of a client, of the CA in a folder."""
    ca = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(hours=1))
        .sign(signer, hashes.SHA256())
    )
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    return made.public_bytes(serialization.Encoding.PEM), pem


def data(server: Server, name: str, password: bytes | None = None) -> JSONDict:
    """A user's certificate in the kubeconfig itself."""
    words = ("client-certificate-data", "client-key-data")
    return {
        word: base64.b64encode(pem).decode()
        for word, pem in zip(words, client_pair(server.folder, name, password), strict=True)
    }


def test_a_certificate_in_files(server: Server) -> None:
    for name, pem in zip(("ann.crt", "ann.key"), client_pair(server.folder, "ann"), strict=True):
        (server.folder / name).write_bytes(pem)

    assert (
        ask(server, server.kubeconfig({"client-certificate": "ann.crt", "client-key": "ann.key"}))[0].certificate
        == "ann"
    )


def test_a_certificate_in_the_kubeconfig_leaves_no_key_behind(server: Server) -> None:
    ca = base64.b64encode((server.folder / "ca.crt").read_bytes()).decode()
    path = server.kubeconfig(data(server, "ann"), certificate_authority="", certificate_authority_data=ca)

    with closing(Client(from_kubeconfig(path))) as client:
        assert list(Path(tempfile.gettempdir()).iterdir()) == [], "not even while it is used"
        client.get("/a", {})

    assert server.asked[0].certificate == "ann"


def test_a_key_with_a_password_is_told_and_asks_nobody(server: Server) -> None:
    said = told(server.kubeconfig(data(server, "ann", b"secret")))

    assert "client-certificate and client-key: " in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_between_leaves_no_key_behind(server: Server, number: int) -> None:
    """It comes while the key is in a file."""
    code = (
        "import os, pathlib, signal, sys, tempfile\n"
        "from podfit.cluster import access, configuration\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # which a shell's background job ignores
        "load = configuration.load_kube_config_from_dict\n"
        "def slow(*args, **kwargs):\n"
        "    load(*args, **kwargs)\n"
        "    (folder,) = pathlib.Path(tempfile.gettempdir()).iterdir()\n"
        "    print(oct(folder.stat().st_mode), len(list(folder.iterdir())), flush=True)\n"
        f"    os.kill(os.getpid(), {int(number)})\n"
        "configuration.load_kube_config_from_dict = slow\n"
        "access.from_kubeconfig(pathlib.Path(sys.argv[1]))\n"
        "print('not ended')\n"
    )
    path = server.kubeconfig(data(server, "ann"))

    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == -number
    assert done.stdout == "0o40700 2\n", done.stderr


def test_another_name_in_the_servers_certificate(server: Server) -> None:
    """`tls-server-name`: the address is one that the certificate does not know."""
    url = server.url.replace("127.0.0.1", "127.0.0.2")
    with ExitStack() as stack:
        near = stack.enter_context(proxy(server.port))
        behind: JSONDict = {"server": url, "proxy_url": f"http://127.0.0.1:{near.port}"}
        with pytest.raises(OSError, match="certificate is not valid for"):
            ask(server, server.kubeconfig({"token": "t"}, **behind))

        assert ask(server, server.kubeconfig({"token": "t"}, **behind, tls_server_name=HOST))[0].token == "Bearer t"


def test_a_server_that_need_not_be_verified_is_used_without_a_word(server: Server) -> None:
    path = server.kubeconfig({"token": "t"}, certificate_authority="", insecure_skip_tls_verify=True)

    with warnings.catch_warnings(record=True) as said:
        assert ask(server, path)[0].token == "Bearer t"
    assert said == []


def test_who_acts_as_somebody_else_is_asked_for_as_that_one(server: Server) -> None:
    extra = {"scopes": ["s", "t"], "example.com/id": ["i"]}
    user = {"token": "t", "as": "Zoë", "as-uid": "7", "as-groups": ["g", "h"], "as-user-extra": extra}

    (asked,) = ask(server, server.kubeconfig(user))

    assert [(name, value) for name, value in asked.headers.items() if name.startswith("Impersonate-")] == [
        ("Impersonate-User", "Zoë".encode().decode("latin-1")),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "g"),
        ("Impersonate-Group", "h"),
        ("Impersonate-Extra-example.com%2Fid", "i"),
        ("Impersonate-Extra-scopes", "s"),
        ("Impersonate-Extra-scopes", "t"),
    ]
    for groups in ("g", ["g", 1]):
        assert told(server.kubeconfig({**user, "as-groups": groups})).endswith(
            "Impersonate-Group is not a list of texts"
        )


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"tokenFile": "none"}, "none: no such file or directory"),
        ({"client-certificate": "none.crt", "client-key": "none.key"}, "File does not exist: "),
        ({"client-certificate-data": base64.b64encode(b"x").decode()}, "client-certificate and client-key: "),
        ({"as": "a\r\nX: 1"}, "Impersonate-User has a character that no header may have"),
        ({"exec": {**EXEC, "args": "text"}}, "exec: args is not a list of texts"),
        ({"exec": {**EXEC, "env": {"A": "b"}}}, "exec: env is not a list of entries with a name"),
        ({"exec": {**EXEC, "env": [{"name": "A=B", "value": "c"}]}}, "it can't be started: "),
        ({"auth-provider": {"name": "gcp"}}, 'auth-provider "gcp" is not supported (Kubernetes removed it in 1.26)'),
    ],
)
def test_credentials_that_can_t_be_used_are_told_with_user_and_file(server: Server, user: JSONDict, said: str) -> None:
    path = server.kubeconfig(user)

    assert told(path).startswith(f'context "here", user "u", {path}: ')
    assert said in told(path)


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ({"client-certificate-data": "@@"}, "client-certificate-data is not base64"),
        ({"username": 1}, "username is not a text. Fix: put it in quotes"),
        ({"tokenFile": 5}, "tokenFile is not a text. Fix: put it in quotes"),
    ],
)
def test_a_field_of_another_type_is_told_with_its_place(server: Server, user: JSONDict, said: str) -> None:
    path = server.kubeconfig(user)

    assert told(path) == f'{path}: user "u": {said}'


def test_credentials_are_not_sent_without_tls(server: Server, tmp_path: Path) -> None:
    """Neither are they made: the plugin would leave a file."""
    made = tmp_path / "made"
    users: tuple[JSONDict, ...] = (
        {"token": "secret", "as": "ann"}, {"tokenFile": "token"},
        {"exec": {**EXEC, "command": "touch", "args": [str(made)]}},
    )  # fmt: skip
    (tmp_path / "token").write_text("secret")
    for user in users:
        access = from_kubeconfig(server.kubeconfig(user, server="http://127.0.0.1:1"), plugins=True)
        assert access.configuration.api_key == {}
        assert access.token_file is None
    assert not made.exists()


def test_a_token_file_comes_before_a_token(server: Server) -> None:
    (server.folder / "token").write_text("newer\n")

    assert ask(server, server.kubeconfig({"token": "older", "tokenFile": "token"}))[0].token == "Bearer newer"


def test_an_empty_token_file_is_told(server: Server) -> None:
    (server.folder / "token").write_text("\n")

    with pytest.raises(AccessError, match="token is empty"):
        ask(server, server.kubeconfig({"tokenFile": "token"}))


@pytest.mark.parametrize("url", ["http://user:S3cret/pw@127.0.0.1:1", "ftp://127.0.0.1:1", "http://[::1", "http://"])
def test_a_proxy_that_is_none_is_told_without_its_password(server: Server, url: str) -> None:
    said = told(server.kubeconfig({"token": "t"}, proxy_url=url))

    assert "proxy-url is not a URL of a proxy" in said
    assert "S3cret" not in said


def test_a_ca_that_is_none_is_told(server: Server) -> None:
    (server.folder / "ca.crt").write_text("nothing")
    path = server.kubeconfig()

    assert told(path) == f'context "here", user "u", {path}: certificate-authority: no certificate or crl found'


# ── proxies ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_clusters_own_proxy_with_its_password_whatever_no_proxy_says(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with proxy(server.port) as near:
        url = f"http://ann:p%40w@127.0.0.1:{near.port}"
        asked = ask(server, server.kubeconfig({"token": "t"}, server=f"https://{HOST}:6443", proxy_url=url))

    assert asked[0].token == "Bearer t"
    assert near.asked == [(f"{HOST}:6443", f"Basic {base64.b64encode(b'ann:p@w').decode()}")]


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_the_environments_proxy(server: Server, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    with proxy(server.port) as near:
        monkeypatch.setenv("HTTPS_PROXY", f"{scheme}127.0.0.1:{near.port}")
        ask(server, server.kubeconfig({"token": "t"}, server=f"https://{HOST}:6443"))
        monkeypatch.setenv("NO_PROXY", "example")
        with pytest.raises(OSError, match=f"https://{HOST}:6443 "):
            ask(server, server.kubeconfig({"token": "t"}, server=f"https://{HOST}:6443"))
        monkeypatch.delenv("NO_PROXY")
        ask(server, server.kubeconfig({"token": "t"}))

    assert [target for target, _ in near.asked] == [f"{HOST}:6443"], "this machine is reached without it"


def test_all_proxy_is_not_for_kubectl_and_not_for_podfit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(server.port) as near:
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{near.port}")
        with pytest.raises(OSError, match=f"https://{HOST}:6443 "):
            ask(server, server.kubeconfig({"token": "t"}, server=f"https://{HOST}:6443"))

    assert near.asked == []


def test_a_socks_proxy_resolves_the_name(server: Server) -> None:
    with proxy(server.port, socks=True) as near:
        url = f"socks5://127.0.0.1:{near.port}"
        ask(server, server.kubeconfig({"token": "t"}, server=f"https://{HOST}:6443", proxy_url=url))

    assert near.asked == [(f"{HOST}:6443", None)]


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_that_is_away_is_told_without_its_password(server: Server, scheme: str) -> None:
    path = server.kubeconfig(server=f"https://{HOST}:6443", proxy_url=f"{scheme}://ann:pw@127.0.0.1:1")

    with pytest.raises(OSError, match=r"\): the proxy: connection refused$") as error:
        ask(server, path)
    assert "pw" not in str(error.value)


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def plugin(server: Server, script: str, **more: Any) -> JSONDict:
    """A user who signs in by a script next to the kubeconfig."""
    (server.folder / "plugin").write_text(f"#!/bin/sh\n{script}\n")
    (server.folder / "plugin").chmod(0o755)
    return {"exec": {"apiVersion": PLUGIN, "command": "./plugin", **more}}


def answer(**status: str) -> str:
    """A script that prints an ExecCredential."""
    said = json.dumps({"apiVersion": PLUGIN, "kind": "ExecCredential", "status": status})
    (quoted,) = (said.replace("'", "'\\''"),)
    return f"printf '%s' '{quoted}'"


def test_a_programs_token_is_asked_for_once(server: Server) -> None:
    count = f"echo >> {server.folder}/runs; "

    asked = ask(server, server.kubeconfig(plugin(server, count + answer(token="made"))), times=3)

    assert {one.token for one in asked} == {"Bearer made"}
    assert len((server.folder / "runs").read_text()) == 1


def test_a_programs_token_is_renewed_when_it_ends(server: Server) -> None:
    runs = server.folder / "runs"
    soon, later = (f"{NOW + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.123456789Z}" for seconds in (1, 3600))
    script = f"if [ -e {runs} ]; then {answer(token='second', expirationTimestamp=later)}; "
    script += f"else {answer(token='first', expirationTimestamp=soon)}; fi; echo >> {runs}"

    asked = ask(server, server.kubeconfig(plugin(server, script)), times=3)

    assert [one.token for one in asked] == ["Bearer second"] * 3
    assert len(runs.read_text()) == 2


def test_a_programs_certificate_is_renewed_when_it_ends(server: Server) -> None:
    runs, words = server.folder / "runs", ("clientCertificateData", "clientKeyData")
    pairs = [[pem.decode() for pem in client_pair(server.folder, name)] for name in ("ann", "bob")]
    first, second = (dict(zip(words, pair, strict=True)) for pair in pairs)
    script = f"if [ -e {runs} ]; then {answer(**second)}; "
    script += f"else {answer(**first, expirationTimestamp='2026-01-01T00:00:00Z')}; fi; echo >> {runs}"

    assert [one.certificate for one in ask(server, server.kubeconfig(plugin(server, script)), times=2)] == ["bob"] * 2


def test_a_program_gets_what_kubectl_gives_it_and_no_standard_input(server: Server) -> None:
    told_file = server.folder / "told"
    script = f'cat; printf "%s|%s|%s" "$1" "$REGION" "$KUBERNETES_EXEC_INFO" > {told_file}; pwd >> {told_file}; '
    user = plugin(
        server,
        script + answer(token="t"),
        args=["get"],
        env=[{"name": "REGION", "value": "x"}],
        provideClusterInfo=True,
    )
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    read, write = os.pipe()
    before = os.dup(0)
    os.dup2(read, 0)
    try:
        ask(server, server.kubeconfig(user, extensions=[extension]))
    finally:
        os.dup2(before, 0)
        for one in (read, write, before):
            os.close(one)

    argument, region, rest = told_file.read_text().split("|")
    info, _, where = rest.rpartition("}")
    assert (argument, region, where.strip()) == ("get", "x", str(Path.cwd()))
    assert json.loads(f"{info}}}") == {
        "apiVersion": PLUGIN,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": server.url,
                "certificate-authority-data": base64.b64encode((server.folder / "ca.crt").read_bytes()).decode(),
                "config": {"audience": "a"},
            },
        },
    }


def test_a_program_that_hangs_is_ended_with_all_that_it_started(server: Server) -> None:
    pids = server.folder / "pids"
    path = server.kubeconfig(plugin(server, f"sleep 600 & echo $$ $! > {pids}; wait"))

    assert told(path, patience=3.0) == (
        f'context "here", user "u", {path}: sign-in program "./plugin": no answer within 3 s. '
        "Fix: sign in with it once by hand"
    )
    until("the program's own program to end", lambda: not alive(pids))


def alive(pids: Path) -> list[str]:
    """Those of the processes that run; one that ended and was not waited for by its parent does not."""
    found = []
    for pid in pids.read_text().split():
        with suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(pid)
    return found


@pytest.mark.parametrize(
    ("script", "more", "said"),
    [
        (
            "echo one >&2; echo 'no session' >&2; exit 7",
            {},
            "exit code 7: no session. Fix: sign in with it once by hand",
        ),
        ("exit 1", {}, "exit code 1. Fix: sign in with it once by hand"),
        ("echo hello", {}, f"its output is not a valid {PLUGIN} ExecCredential: Expecting value"),
        ("echo '[]'", {}, f"its output is not a valid {PLUGIN} ExecCredential: it is a None None"),
        (answer(), {}, "it has neither a token nor a client certificate with its key"),
        (answer(clientCertificateData="x"), {}, "it has neither a token nor a client certificate with its key"),
        (answer(token="t", expirationTimestamp="soon"), {}, "Invalid isoformat string: 'soon'"),
        ("", {"command": "no-such-program"}, "no such file or directory. Fix: install it, or correct the path"),
        (
            "",
            {"command": "no-such", "installHint": "brew\n install it"},
            "no such file or directory. Fix: brew install it",
        ),
        (
            answer(token="t"),
            {"interactiveMode": "Always"},
            "needs standard input (interactiveMode: Always), which podfit",
        ),
    ],
)
def test_a_program_that_fails_is_told_in_one_line(server: Server, script: str, more: JSONDict, said: str) -> None:
    path = server.kubeconfig(plugin(server, script, **more))

    assert told(path).startswith(f'context "here", user "u", {path}: sign-in program "')
    assert said in told(path)


def test_what_a_program_lacks_in_the_kubeconfig_is_told(server: Server) -> None:
    assert told(server.kubeconfig({"exec": {"command": "x"}})).endswith("exec: command and apiVersion are required")


def test_a_token_beside_a_program_wins(server: Server) -> None:
    assert ask(server, server.kubeconfig({**plugin(server, "exit 1"), "token": "t"}))[0].token == "Bearer t"


def test_a_server_runs_no_program(server: Server) -> None:
    path = server.kubeconfig(plugin(server, f"touch {server.folder}/ran; {answer(token='t')}"))

    with pytest.raises(AccessError, match="signs in by exec, which a server does not run"):
        from_kubeconfig(path)
    assert not (server.folder / "ran").exists()


# ── OpenID Connect ───────────────────────────────────────────────────────────────────────────────────────────────────


def jwt(ends: datetime) -> str:
    """A token without a signature, which is not ours to verify."""
    parts: tuple[JSONDict, ...] = ({"alg": "none"}, {"exp": int(ends.timestamp()), "jti": "x" * 7}, {})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


def oidc(token: str) -> JSONDict:
    """A user of a provider."""
    return {"auth-provider": {"name": "oidc", "config": {"client-id": "kubectl", "id-token": token}}}


def test_an_id_token_that_holds_is_sent(server: Server) -> None:
    token = jwt(NOW + timedelta(hours=1))

    assert ask(server, server.kubeconfig(oidc(token)))[0].token == f"Bearer {token}"


@pytest.mark.parametrize(
    "token",
    ["", "a=b", "a.b.c", jwt(NOW - timedelta(hours=1)), jwt(NOW)],
    ids=["none", "no-token", "no-json", "long-ago", "now"],  # the processes of one run have to agree on them
)
def test_a_token_that_has_ended_is_renewed_by_kubectl(server: Server, token: str) -> None:
    path = server.kubeconfig(oidc(token))

    assert told(path) == (
        f'context "here", user "u", {path}: OpenID Connect: there is no valid id-token. Fix: run kubectl get ns, which '
        "renews it, or sign in again with the program that wrote it"
    )
    assert server.asked == []
