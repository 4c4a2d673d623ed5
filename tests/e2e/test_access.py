"""Ways to a real API server that need no kubectl: each kind of credential, proxies, and a renewal in a long run."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cluster.access import Client, from_kubeconfig
from tests.cluster.server import proxy
from tests.cluster.test_credentials import client_pair
from tests.conftest import GOOD_POD
from tests.e2e.controlplane import ADMIN, HOST, Cluster
from tests.e2e.process import DEADLINE
from tests.e2e.release import SOURCES
from tests.e2e.user import User
from tests.reviews import deployment, doomed

JSONDict = dict[str, Any]


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home without a proxy, whose temporary folder stays empty."""
    (tmp_path / "tmp").mkdir()
    for name in ("HTTPS_PROXY", "NO_PROXY", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    assert list((tmp_path / "tmp").iterdir()) == []


def kubeconfig(cluster: Cluster, path: Path, user: JSONDict, **fields: str) -> Path:
    """One context, whose user is `user`."""
    config = yaml.safe_load(cluster.kubeconfig().read_text())
    config["users"][0]["user"] = user
    config["clusters"][0]["cluster"] |= fields
    path.write_text(yaml.safe_dump(config))
    return path


def podfit(folder: Path, kubeconfigs: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`podfit WORDS` without kubectl."""
    env = {**os.environ, "PATH": "/usr/bin:/bin", "KUBECONFIG": kubeconfigs, "PYTHONPATH": SOURCES}
    env |= {"HOME": str(folder), "TMPDIR": str(folder / "tmp")}
    return subprocess.run(
        [sys.executable, "-m", "podfit.cli", *words], env=env, cwd=folder, capture_output=True, text=True, check=False,
        timeout=4 * DEADLINE,
    )  # fmt: skip


def user_info(client: Client) -> JSONDict:
    """The user as the API server sees it."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer, _ = client.send("POST", path, {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"})
    return dict(answer["status"]["userInfo"])


def who(client: Client) -> str:
    """Its name."""
    return str(user_info(client)["username"])


def token(cluster: Cluster, account: str) -> str:
    """A token of a service account of its own, for ten minutes."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    cluster.call("POST", accounts, {"metadata": {"name": account}})
    status, answer = cluster.call("POST", f"{accounts}/{account}/token", {"spec": {"expirationSeconds": 600}})
    assert status == 201, answer
    return str(answer["status"]["token"])


def plugin(folder: Path, script: str) -> JSONDict:
    """A user who signs in by a script next to the kubeconfig."""
    (folder / "plugin").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "plugin").chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin"}}


def printed(**status: str) -> str:
    """A script that prints an ExecCredential."""
    said = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"printf %s {shlex.quote(json.dumps(said))}"


def test_of_two_kubeconfigs_each_context_is_there(cluster: Cluster, folder: Path) -> None:
    """The first has the context, the second the cluster and the user."""
    whole = yaml.safe_load(cluster.kubeconfig().read_text())
    first = {key: whole[key] for key in ("contexts", "current-context")}
    second = {key: whole[key] for key in ("clusters", "users")} | {"current-context": "another"}
    (folder / "first").write_text(yaml.safe_dump(first))
    (folder / "second").write_text(yaml.safe_dump(second))

    done = podfit(folder, f"{folder}/first:{folder}/none:{folder}/second", "scan", "--fail-on", "never")

    assert done.returncode == 0, done.stderr


def test_a_token_file_that_is_rotated(cluster: Cluster, folder: Path) -> None:
    (folder / "token").write_text(token(cluster, "one") + "\n")
    with closing(Client(from_kubeconfig(kubeconfig(cluster, folder / "config", {"tokenFile": "token"})))) as client:
        before = who(client)
        (folder / "token").write_text(token(cluster, "two") + "\n")

        assert (before, who(client)) == (
            "system:serviceaccount:default:one", "system:serviceaccount:default:two",
        )  # fmt: skip


def test_a_client_certificate(cluster: Cluster, folder: Path) -> None:
    for name, pem in zip(("ann.crt", "ann.key"), client_pair(cluster.root, "ann"), strict=True):
        (folder / name).write_bytes(pem)
    user = {"client-certificate": "ann.crt", "client-key": "ann.key"}
    with closing(Client(from_kubeconfig(kubeconfig(cluster, folder / "config", user)))) as client:
        assert who(client) == "ann"


def test_a_program_signs_in_again_in_a_long_run(cluster: Cluster, folder: Path) -> None:
    """First as one account for a moment, then as another one, then with a certificate."""
    names = ("clientCertificateData", "clientKeyData")
    pair = dict(zip(names, (pem.decode() for pem in client_pair(cluster.root, "ann")), strict=True))
    past = "2026-01-01T00:00:00Z"
    answers = [
        printed(token=token(cluster, "one"), expirationTimestamp=past),
        printed(token=token(cluster, "two"), expirationTimestamp=past),
        printed(**pair),
    ]
    cases = "".join(f"{number}) {answer};; " for number, answer in enumerate(answers))
    script = f"runs=$(wc -l < {folder}/runs); echo >> {folder}/runs; case $runs in {cases}esac"
    (folder / "runs").write_text("")
    path = kubeconfig(cluster, folder / "config", plugin(folder, script))

    with closing(Client(from_kubeconfig(path, plugins=True))) as client:
        said = [who(client) for _ in range(3)]

    assert said == ["system:serviceaccount:default:two", "ann", "ann"]


def test_a_proxy_and_another_name_in_the_certificate(cluster: Cluster, folder: Path) -> None:
    with proxy(cluster.port) as near:
        fields = {"server": "https://api.example:6443", "tls-server-name": "kubernetes.default.svc"}
        fields["proxy-url"] = f"http://{HOST}:{near.port}"
        done = podfit(
            folder, str(kubeconfig(cluster, folder / "config", {"token": ADMIN}, **fields)), "scan", "--fail-on=never"
        )

    assert done.returncode == 0, done.stderr
    assert {target for target, _ in near.asked} == {"api.example:6443"}


def test_who_acts_as_another_user_has_that_ones_rights(cluster: Cluster, folder: Path) -> None:
    path = kubeconfig(cluster, folder / "config", {"token": ADMIN, "as": "view", "as-groups": ["team", "others"]})
    with closing(Client(from_kubeconfig(path))) as client:
        found = user_info(client)
    assert found["username"] == "view"
    assert {"team", "others"} <= set(found["groups"])

    done = podfit(folder, str(path), "off")

    assert done.returncode == 3
    assert 'User "view" cannot list resource "validatingwebhookconfigurations"' in done.stderr


@pytest.mark.parametrize("words", [("scan",), ("doctor",), ("off",), ("on",), ("check", "deploy/a"), ("diagnose", "a")])
def test_a_program_that_fails_is_one_line_of_every_command(
    cluster: Cluster, folder: Path, words: tuple[str, ...]
) -> None:
    path = kubeconfig(cluster, folder / "config", plugin(folder, "echo 'no session' >&2; exit 1"))

    done = podfit(folder, str(path), *words)

    assert done.returncode == 3
    assert done.stderr == (
        f'error: the cluster can\'t be reached: context "podfit", user "{ADMIN}", {path}: sign-in program "./plugin": '
        "exit code 1: no session. Fix: sign in with it once by hand\n"
    )


def test_a_token_that_is_not_known_is_told(cluster: Cluster, folder: Path) -> None:
    path = kubeconfig(cluster, folder / "config", {"token": "nobody's"})

    done = podfit(folder, str(path), "scan")

    assert done.returncode == 3
    assert "401: Unauthorized" in done.stderr
    assert f'(context "podfit", user "{ADMIN}", {path}). Fix: renew these credentials' in done.stderr


def test_kinds_are_found_as_kubectl_finds_them(user: User, folder: Path) -> None:
    with user.before_podfit():
        user.write("llama-8b.yaml", deployment(doomed(GOOD_POD)))
        user.kubectl("apply -f llama-8b.yaml")
    config = str(user.cluster.kubeconfig(user.namespace))

    for word in ("deploy", "deployment", "deployments.apps", "Deployment.v1.apps"):
        done = podfit(folder, config, "check", f"{word}/llama-8b")
        assert "unknown-flag" in done.stdout, done.stderr
    explained = podfit(folder, config, "explain", "deploy/llama-8b")
    assert explained.returncode == 0, explained.stderr
    done = podfit(folder, config, "diagnose", "deploy/llama-8b")
    assert done.returncode == 0, done.stderr
    assert podfit(folder, config, "check", "nonsense/llama-8b").stderr == (
        "error: nonsense/llama-8b: no such file or folder here; in the cluster: this cluster has no kind 'nonsense'\n"
    )
