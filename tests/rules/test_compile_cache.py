"""The cache of torch.compile's results."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.rules.storage.compile_cache import compilation_saved
from podfit.vllm.facts import Facts


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
