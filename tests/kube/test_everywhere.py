"""What is in another folder of the same input."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfit.cli.support import edge
from podfit.kube import snapshot
from podfit.report.files import ManifestFile
from podfit.vllm.facts import Facts

POD = """
apiVersion: v1
kind: Pod
metadata: {name: llama, namespace: chat}
spec:
  containers:
  - {name: vllm, image: "vllm/vllm-openai:v0.27.1", envFrom: [{configMapRef: {name: settings}}]}
"""
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: chat, labels: {team: %s}}\n"
NODE = (
    "apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {gpu: %s}}\nstatus: {allocatable: {nvidia.com/gpu: 1}}\n"
)
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: %s}\ndata: {MODEL: %s}\n"


def read(folder: Path, **files: str) -> dict[str, ManifestFile]:
    """Files by their path, `__` for the slash."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sources, errors = edge.read([str(folder)], Facts())
    assert not errors
    return {str(Path(one.name).relative_to(folder)): one for one in sources}


def said(sources: dict[str, ManifestFile]) -> list[str]:
    return [note.message for one in sources.values() for note in one.manifests.notes]


def test_a_cluster_s_objects_count_in_every_folder(tmp_path: Path) -> None:
    sources = read(tmp_path, apps__llama=POD, cluster__ns=NAMESPACE % "a", cluster__node=NODE % ("one", "l4"))
    facts = sources["apps/llama.yaml"].facts

    assert facts.namespaces == {"chat": {"team": "a"}}
    assert [one.name for one in facts.snapshot.nodes or ()] == ["one"]
    assert said(sources) == []


def test_the_same_folder_wins_and_elsewhere_what_differs_is_unknown_and_said(tmp_path: Path) -> None:
    sources = read(
        tmp_path,
        dev__llama=POD, dev__ns=NAMESPACE % "dev", dev__node=NODE % ("one", "l4"),
        prod__llama=POD, prod__ns=NAMESPACE % "prod", prod__node=NODE % ("one", "h100"),
        base__llama=POD,
    )  # fmt: skip

    assert {name: one.facts.namespaces.get("chat") for name, one in sources.items() if "llama" in name} == {
        "base/llama.yaml": None, "dev/llama.yaml": {"team": "dev"}, "prod/llama.yaml": {"team": "prod"},
    }  # fmt: skip
    assert sources["base/llama.yaml"].facts.snapshot.nodes is None
    assert [one.split(" in ")[0] for one in said(sources)] == [
        "Node one is defined differently",
        "Namespace chat is defined differently",
    ]


def test_nodes_beside_a_manifest_are_all_that_it_is_judged_for(tmp_path: Path) -> None:
    sources = read(tmp_path, a__llama=POD, a__node=NODE % ("one", "l4"), b__node=NODE % ("two", "h100"), c__llama=POD)

    assert [one.name for one in sources["a/llama.yaml"].facts.snapshot.nodes or ()] == ["one"]
    assert {one.name for one in sources["c/llama.yaml"].facts.snapshot.nodes or ()} == {"one", "two"}


def test_a_pod_without_a_namespace_takes_no_config_map_of_another_folder_s(tmp_path: Path) -> None:
    sources = read(tmp_path, apps__llama=POD.replace(", namespace: chat", ""), cluster__cm=CONFIG % ("chat", "far"))

    assert "settings" not in sources["apps/llama.yaml"].facts.config_maps


@pytest.mark.parametrize(
    ("files", "model"),
    [
        ({"cluster__cm": CONFIG % ("chat", "elsewhere")}, "elsewhere"),
        ({"cluster__cm": CONFIG % ("batch", "elsewhere")}, None),
        ({"cluster__cm": CONFIG % ("chat", "elsewhere"), "apps__cm": CONFIG % ("chat", "near")}, "near"),
        ({"a__cm": CONFIG % ("chat", "same"), "b__cm": CONFIG % ("chat", "same")}, "same"),
    ],
    ids=["another folder", "another namespace", "the same folder wins", "twice the same"],
)
def test_a_config_map_is_found_by_namespace_and_name(tmp_path: Path, files: dict[str, str], model: str | None) -> None:
    sources = read(tmp_path, apps__llama=POD, **files)
    found = sources["apps/llama.yaml"].facts.config_maps.get("settings")

    assert (found and found["data"]) == (model and {"MODEL": model})
    assert said(sources) == []


def test_a_config_map_that_folders_define_differently_is_unknown_and_said(tmp_path: Path) -> None:
    sources = read(tmp_path, apps__llama=POD, a__cm=CONFIG % ("chat", "one"), b__cm=CONFIG % ("chat", "two"))

    assert "settings" not in sources["apps/llama.yaml"].facts.config_maps
    (note,) = said(sources)
    assert note == (
        f"ConfigMap settings is defined differently in {tmp_path}/a/cm.yaml and {tmp_path}/b/cm.yaml: "
        "it is unknown to files without their own definition"
    )


def test_what_is_farther_away_gives_way() -> None:
    def namespace(name: str, team: str) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}}

    around = snapshot.from_objects([namespace("chat", "far"), namespace("batch", "far")])
    near = snapshot.from_objects([namespace("chat", "near")], around)

    assert {name: kept["labels"]["team"] for (_, name), kept in near.objects["namespaces"].items()} == {
        "chat": "near", "batch": "far",
    }  # fmt: skip
    assert snapshot.from_objects([], around) is around
