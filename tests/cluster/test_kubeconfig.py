"""Which cluster and which user kubeconfigs mean, as kubectl reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cluster.kubeconfig import AccessError, read

SERVER = "https://10.0.0.1:6443"


def config(path: Path, name: str, current: str | None = None, **parts: Any) -> Path:
    """A file whose context, cluster and user all have one name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": SERVER, "certificate-authority": "ca.crt"}}],
        "users": [{"name": name, "user": {"client-key": "keys/a", "tokenFile": "/abs/token", "token": ""}}],
    }
    path.write_text(yaml.safe_dump({**({"current-context": current} if current else {}), **whole, **parts}))
    return path


def test_of_several_files_the_first_that_says_something_wins(tmp_path: Path) -> None:
    one = config(tmp_path / "one" / "config", "a")
    two = config(tmp_path / "two" / "config", "b", current="b")
    three = config(
        tmp_path / "three" / "config", "b", current="a", clusters=[{"name": "b", "cluster": {"server": "https://no"}}]
    )
    (tmp_path / "empty").write_text("")

    found = read([tmp_path / "empty", one, two, three])

    assert (found.name, found.cluster["server"], found.file) == ("b", SERVER, two)
    assert read([one, two, three], "a").file == one
    assert str(found) == f'context "b", user "b", {two}'


def test_paths_start_at_the_file_that_names_them(tmp_path: Path) -> None:
    """The user's files are next to the file with the user, also if the cluster is in another file."""
    cluster = config(tmp_path / "one" / "config", "a", current="a", users=[])
    user = config(tmp_path / "two" / "config", "a", contexts=None, clusters=None)

    found = read([cluster, user])

    assert found.cluster["certificate-authority"] == str(tmp_path / "one" / "ca.crt")
    assert found.user == {"client-key": str(tmp_path / "two" / "keys" / "a"), "tokenFile": "/abs/token"}
    assert found.file == user


def test_a_context_may_have_a_namespace_and_no_user(tmp_path: Path) -> None:
    contexts = [{"name": "x", "context": {"cluster": "a", "namespace": "chat"}}]

    found = read([config(tmp_path / "config", "a", current="x", contexts=contexts)])

    assert (found.namespace, found.user, found.user_name) == ("chat", {}, "")
    assert read([config(tmp_path / "config", "a", current="a")]).namespace == "default"


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({}, 'current-context is not set (contexts: "a"). Fix: set it, or pass --context NAME'),
        (
            {"current": "b"},
            'context "b" does not exist (contexts: "a"). Fix: pass --context with one of them',
        ),
        ({"current": "a", "users": []}, 'context "a": user "a" does not exist'),
        ({"current": "a", "clusters": None}, 'context "a": cluster "a" does not exist'),
        (
            {"current": "a", "clusters": [{"name": "a", "cluster": {"server": "10.0.0.1"}}]},
            'cluster "a": server is not a valid URL ("10.0.0.1", expected https://HOST:PORT)',
        ),
        (
            {"current": "a", "clusters": [{"name": "a", "cluster": None}]},
            'cluster "a": server is not a valid URL ("", expected https://HOST:PORT)',
        ),
        ({"current": "a", "users": {"a": {}}}, "users is not a list of entries with a name"),
        ({"current": "a", "contexts": ["a"]}, "contexts is not a list of entries with a name"),
        (
            {
                "current": "a",
                "clusters": [{"name": "a", "cluster": {"server": SERVER, "insecure-skip-tls-verify": "false"}}],
            },
            'cluster "a": insecure-skip-tls-verify is not a boolean ("false")',
        ),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_field(tmp_path: Path, parts: dict[str, Any], said: str) -> None:
    path = config(tmp_path / "config", "a", **parts)

    with pytest.raises(AccessError) as error:
        read([path])

    assert str(error.value) == f"{path}: {said}"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a: [\n}", ":2: not valid YAML: "),
        (b"\xff\xff", ": not UTF-8 at byte 0"),
        (b"a: " + b"[" * 5000, ": not valid YAML: "),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_told(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(data)

    with pytest.raises(AccessError) as error:
        read([path])

    assert str(error.value).startswith(f"{path}{said}")
    assert "\n" not in str(error.value)


def test_a_file_that_can_t_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=f"{tmp_path}: is a directory"):
        read([tmp_path])
