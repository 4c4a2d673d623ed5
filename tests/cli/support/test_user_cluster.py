"""The way to the user's cluster, and what is printed if there is none. Each credential is tried in tests/cluster."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from podfit.cli.support import user_cluster
from podfit.cli.support.edge import UnusableError

CONFIG = (
    "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],\n"
    'clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {token: x}}]}\n'
)


@pytest.fixture(name="kubeconfig")
def _kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    path.write_text(CONFIG)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return path


def refused(context: str | None = None) -> str:
    """What is said where there is no way."""
    with pytest.raises(UnusableError) as caught, user_cluster.client(argparse.Namespace(context=context)):
        pass
    assert caught.value.code == 3
    return str(caught.value)


def test_no_kubeconfig_and_no_pod(kubeconfig: Path) -> None:
    kubeconfig.unlink()

    assert refused() == (
        f"no cluster: this is not a Pod with an account, and no kubeconfig exists ({kubeconfig}). Fix: set KUBECONFIG"
    )


def test_a_kubeconfig_will_do(kubeconfig: Path) -> None:
    with user_cluster.client(argparse.Namespace(context=None)) as client:
        assert (client.namespace, client.in_pod) == ("default", False)

    assert refused("b") == (
        f'the cluster can\'t be reached: {kubeconfig}: context "b" does not exist (contexts: "a"). '
        "Fix: pass --context with one of them"
    )


def test_of_several_kubeconfigs_one_must_be_there(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = kubeconfig.parent / "other"
    other.write_text(CONFIG.replace("name: a", "name: b").replace("current-context: a", "current-context: b"))
    monkeypatch.setenv("KUBECONFIG", f"{kubeconfig.parent / 'none'}:{other}:{kubeconfig}")

    for context in (None, "a", "b"):
        with user_cluster.client(argparse.Namespace(context=context)) as client:
            assert client.namespace == "default"
    assert '(contexts: "b", "a")' in refused("c")


@pytest.mark.usefixtures("kubeconfig")
def test_who_does_not_answer_is_named_with_what_to_do() -> None:
    with (
        pytest.raises(UnusableError) as caught,
        user_cluster.client(argparse.Namespace(context=None)) as client,
        user_cluster.errors_reported("the cluster can't be read"),
    ):
        client.get("/version", {})

    assert str(caught.value).startswith('the cluster can\'t be read: http://127.0.0.1:1 (context "a", user "u", ')
    assert str(caught.value).endswith("): connection refused. Fix: check the network, or choose another context")
