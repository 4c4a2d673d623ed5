"""The way to a cluster: whose words are told where there is none. What works is tried in tests/e2e/test_scan.py."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from webhook.cli import reach
from webhook.cli.edge import UnusableError

CONFIG = (
    "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],\n"
    'clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: USER}]}\n'
)


@pytest.fixture(name="kubeconfig")
def _kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    path.write_text(CONFIG.replace("USER", "{token: x}"))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return path


def refused(context: str | None = None) -> str:
    """What is said where there is no way."""
    with pytest.raises(UnusableError) as caught, reach.client(argparse.Namespace(context=context)):
        pass
    assert caught.value.code == 3
    return str(caught.value)


def test_no_kubeconfig_and_no_pod(kubeconfig: Path) -> None:
    kubeconfig.unlink()

    assert refused().startswith("no cluster to read: this is no Pod, and there is no kubeconfig (")


def test_without_kubectl_a_token_will_do(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with reach.client(argparse.Namespace(context=None)) as client:
        assert client.namespace == "default"
    kubeconfig.write_text(CONFIG.replace("USER", "{exec: {command: aws}}"))
    assert "signs in by exec" in refused()
    assert refused("b").endswith("names no server with https")


def test_without_kubectl_of_several_kubeconfigs_one_must_be_there(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("KUBECONFIG", f"{kubeconfig.parent / 'none'}:{kubeconfig}")
    with reach.client(argparse.Namespace(context=None)) as client:
        assert client.namespace == "default"

    monkeypatch.setenv("KUBECONFIG", f"{kubeconfig}:{kubeconfig}")
    assert refused() == (
        "the cluster can't be reached: KUBECONFIG names several files, which kubectl would merge, and there is none: "
        f"{kubeconfig}, {kubeconfig}"
    )


def kubectl(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubectl that does as the script says."""
    program = folder / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


@pytest.mark.usefixtures("kubeconfig")
def test_kubectls_own_words_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl(tmp_path, 'echo "error: context \\"b\\" does not exist" >&2; exit 1', monkeypatch)

    assert refused("b") == 'kubectl proxy: error: context "b" does not exist'


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize("writes", [False, True])
def test_the_proxy_refuses_what_does_not_read_and_ends_with_the_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    kubectl(
        tmp_path,
        f'echo "$@" > {tmp_path}/said; echo $$ > {tmp_path}/pid\n'
        'for word in "$@"; do case $word in --unix-socket=*) touch "${word#--unix-socket=}";; esac; done\n'
        "exec sleep 60",
        monkeypatch,
    )

    with reach.client(argparse.Namespace(context="b"), writes=writes):
        said = (tmp_path / "said").read_text().split()
        pid = int((tmp_path / "pid").read_text())

    assert said[:3] == ["--context", "b", "proxy"]
    refuses = next(word for word in said if word.startswith("--reject-methods=")).partition("=")[2].split(",")
    assert {"POST", "PUT"} <= set(refuses)
    assert ("PATCH" in refuses) is not writes
    assert not Path(f"/proc/{pid}").exists()
