"""The cache of torch.compile's results."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.rules.engine import Engine
from podfit.rules.storage.compile_cache import compilation_saved
from podfit.vllm.facts import Facts

GIB = 2**30
CLAIM = {"persistentVolumeClaim": {"claimName": "kept"}}


@pytest.mark.parametrize(
    ("mounted", "env", "args", "saves"),
    [
        ("/models", {}, [], True),
        ("/root/.cache/vllm", {}, [], False),
        ("/root/.cache", {}, [], False),
        ("/root/.cache/huggingface", {}, [], True),
        ("/cache", {"VLLM_CACHE_ROOT": "/cache/compiled"}, [], False),
        ("/root/.cache/vllm", {"VLLM_CACHE_ROOT": "/tmp/compiled"}, [], True),
        ("/cache", {"XDG_CACHE_HOME": "/cache"}, [], False),
        ("/home/app", {"HOME": "/home/app"}, [], False),
        ("/models", {}, ["--enforce-eager"], False),
    ],
)
def test_a_volume_for_compiled_code_saves_its_time_unless_it_is_there(
    pod: dict[str, Any], mounted: str, env: dict[str, str], args: list[str], saves: bool
) -> None:
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-L40S"}
    pod["spec"]["volumes"] = [{"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}]
    pod["spec"]["containers"][0] |= {
        "image": "vllm/vllm-openai:v0.27.1",
        "args": ["Qwen/Qwen3-8B", "--max-model-len=8192", *args],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "volumeMounts": [{"name": "kept", "mountPath": mounted}],
    }
    (result,) = lint(pod, builtin(), Facts(), where="check").results

    assert (compilation_saved(result.engine) is not None) == saves


def planned(pod: dict[str, Any], volume: dict[str, Any] | None, *args: str, **env: str) -> Engine:
    """Qwen3-8B on a 4090 with 0.27.1, with a volume at vLLM's cache. Logs printed a peak of 1.18 GiB for a start that
    compiles."""
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}
    pod["spec"]["volumes"] = [] if volume is None else [{"name": "kept", **volume}]
    pod["spec"]["containers"][0] |= {
        "image": "vllm/vllm-openai:v0.27.1",
        "args": ["Qwen/Qwen3-8B", *args],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "volumeMounts": [] if volume is None else [{"name": "kept", "mountPath": "/root/.cache/vllm"}],
    }
    (result,) = lint(pod, builtin(), Facts(), where="check").results
    return result.engine


@pytest.mark.parametrize(
    ("volume", "env", "warm"),
    [
        (None, {}, False),
        (CLAIM, {}, True),
        ({"hostPath": {"path": "/var/cache/vllm"}}, {}, True),
        ({"nfs": {"server": "files", "path": "/"}}, {}, True),
        ({"emptyDir": {}}, {}, False),
        ({"ephemeral": {"volumeClaimTemplate": {}}}, {}, False),
        (CLAIM, {"VLLM_DISABLE_COMPILE_CACHE": "1"}, False),
        (CLAIM, {"VLLM_CACHE_ROOT": "/elsewhere"}, False),
    ],
)
def test_a_persistent_volume_for_the_compile_cache_leaves_more_for_the_kv_cache(
    pod: dict[str, Any], volume: dict[str, Any] | None, env: dict[str, str], warm: bool
) -> None:
    """The range covers the first start and the later ones in both cases; only the likely value differs."""
    ledger = planned(pod, volume, "--max-model-len=8192", **env).plan.gpu
    assert ledger is not None
    peak = ledger.activations
    assert peak.likely / GIB == pytest.approx(0.2 if warm else 1.2, abs=0.05)
    assert peak.low < 0.2 * GIB
    assert peak.high > 1.2 * GIB


@pytest.mark.parametrize(
    ("volume", "sentence"),
    [
        (None, "with a warm compile cache 5.9 GiB would be left: a persistent volume at VLLM_CACHE_ROOT"),
        (CLAIM, "the first start compiles and has 4.9 GiB; later starts load the compiled graphs from the volume"),
    ],
)
def test_the_plan_says_that_the_compile_cache_decides(
    pod: dict[str, Any], volume: dict[str, Any] | None, sentence: str
) -> None:
    assert sentence in planned(pod, volume, "--max-model-len=38000").plan.why
    assert "compile" not in planned(pod, volume, "--max-model-len=40000", "--enforce-eager").plan.why
    assert "compile" not in planned(pod, volume, "--max-model-len=8192").plan.why
