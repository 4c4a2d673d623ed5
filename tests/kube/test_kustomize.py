"""Kustomize patches: a part of an object is neither evaluated nor repaired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from podfit.cli import main
from podfit.kube import kustomize

WHOLE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec:
  selector: {matchLabels: {app: vllm}}
  template:
    metadata: {labels: {app: vllm}}
    spec:
      containers:
      - {name: vllm, image: "vllm/vllm-openai:v0.27.1", args: [Qwen/Qwen3-8B], resources: {limits: {memory: 25Gi}}}
"""


def _changed(**changes: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {**yaml.safe_load(WHOLE), **changes}
    return obj


def _spec(selector: bool = True, container: dict[str, Any] | None = None) -> dict[str, Any]:
    template = {"spec": {"containers": [container or {"name": "vllm", "image": "vllm/vllm-openai:v0.27.1"}]}}
    return {**({"selector": {"matchLabels": {"app": "x"}}} if selector else {}), "template": template}


@pytest.mark.parametrize(
    ("obj", "patch"),
    [
        (_changed(), False),
        (_changed(spec=_spec(selector=False)), True),
        (_changed(spec=_spec(container={"name": "vllm", "args": ["m"]})), True),
        (_changed(kind="StatefulSet", spec=_spec(selector=False)), True),
        (_changed(apiVersion="extensions/v1beta1", spec=_spec(selector=False)), False),
        ({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "vllm"}]}}, True),
        ({"apiVersion": "batch/v1", "kind": "Job", "spec": _spec(selector=False)}, False),
        ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "$patch": "delete"}, True),
        (_changed(spec={**_spec(), "template": {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}}), True),
        ({"op": "replace", "path": "/spec/replicas", "value": 2}, True),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, False),
        (
            {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": _spec(selector=False)},
            False,
        ),
        (
            {
                "apiVersion": "serving.kserve.io/v1beta1",
                "kind": "InferenceService",
                "spec": {"predictor": {"containers": [{"name": "kserve-container", "args": ["m"]}]}},
            },
            False,
        ),
    ],
)
def test_what_can_not_be_whole(obj: dict[str, Any], patch: bool) -> None:
    assert (kustomize.sign_of_patch(obj) is not None) is patch


def _kustomized(folder: Path) -> None:
    (folder / "base").mkdir()
    overlay = folder / "overlay"
    (overlay / "patches").mkdir(parents=True)
    (folder / "base" / "kustomization.yaml").write_text("resources: [bare.yaml]\ncommonLabels: {app: vllm}\n")
    bare = {**yaml.safe_load(WHOLE), "spec": _spec(selector=False)}  # commonLabels make the selector
    (folder / "base" / "bare.yaml").write_text(yaml.safe_dump(bare))
    listed = {"patches": [{"path": "patches/memory.yaml"}], "patchesStrategicMerge": ["whole.yaml"]}
    (overlay / "kustomization.yml").write_text(yaml.safe_dump({"resources": ["../base"], **listed}))
    (overlay / "patches" / "memory.yaml").write_text(WHOLE)
    (overlay / "whole.yaml").write_text(WHOLE)
    (overlay / "unlisted.yaml").write_text(yaml.safe_dump([{"op": "add", "path": "/spec/replicas", "value": 2}]))


def test_a_kustomization_says_which_files_are_patches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _kustomized(tmp_path)
    assert main(["check", "--format", "json", str(tmp_path)]) == 0

    out = capsys.readouterr()
    results = json.loads(out.out)["results"]
    assert {Path(one["file"]).name for one in results} == {"bare.yaml"}
    folder = tmp_path / "overlay"
    why = f"named in {folder}/kustomization.yml); check the result: podfit check --kustomize {folder}\n"
    assert f"note: {folder}/patches/memory.yaml and 1 more: skipped: a Kustomize patch ({why}" in out.err
    named = (
        f"skipped: a Kustomize patch (named in {folder}/kustomization.yml); check the result: podfit check --kustomize"
    )
    assert f"note: {folder}/patches/memory.yaml and 1 more: {named} {folder}\n" in out.err
    assert f"note: {folder}/unlisted.yaml: skipped: a Kustomize patch (an operation of a JSON patch)" in out.err


def test_patches_are_counted_as_not_checked_and_stay_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _kustomized(tmp_path)
    before = {path: path.read_text() for path in (tmp_path / "overlay").rglob("*.y*ml")}
    assert main(["check", str(tmp_path)]) == 0
    assert "; 3 files skipped in whole or in part (kustomize-patch 3)" in capsys.readouterr().out
    assert main(["fix", "--write", str(tmp_path)]) == 0
    assert "skipped: a Kustomize patch" in capsys.readouterr().err
    assert {path: path.read_text() for path in before} == before


def test_one_placeholder_does_not_hide_the_other_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: hf}\nstringData:\n  token: {{HF_TOKEN}}\n"
    (tmp_path / "all.yaml").write_text(f"{secret}---{WHOLE.replace('Qwen3-8B', 'Qwen3-8B, --max-modle-len=5')}")

    assert main(["check", "--format", "json", str(tmp_path)]) == 1
    out = capsys.readouterr()
    assert [one["container"] for one in json.loads(out.out)["results"]] == ["vllm"]
    assert "all.yaml:5: skipped: a Helm template" in out.err


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ([{"name": "vllm/vllm-openai", "newTag": "v0.18.0"}], ("vllm/vllm-openai:v0.18.0",)),
        ([{"name": "app", "newName": "r.io/vllm", "digest": "sha256:ab"}], ("r.io/vllm@sha256:ab",)),
        ([{"name": "redis", "newTag": "8"}], ()),
        (["vllm"], ()),
        ("vllm", ()),
        (None, ()),
    ],
)
def test_the_images_that_a_kustomization_replaces(images: object, expected: tuple[str, ...]) -> None:
    assert kustomize.replaced_images({"images": images}) == expected


def test_check_notes_that_the_image_is_another_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kustomization.yaml").write_text("images: [{name: vllm/vllm-openai, newTag: v0.18.0}]\n")

    main(["check", str(tmp_path)])

    err = capsys.readouterr().err
    assert "puts vllm/vllm-openai:v0.18.0 into its resources, which are checked here with their own image" in err
    assert f"podfit check --kustomize {tmp_path}" in err
