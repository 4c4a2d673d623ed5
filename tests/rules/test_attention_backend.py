"""An attention backend that is named and that the GPU, or the KV cache's dtype there, rules out; a model for which the
GPU has none."""

from __future__ import annotations

import pytest

from podfit.evaluation.lint import lint
from podfit.evaluation.policy import builtin
from podfit.kube import manifest
from podfit.vllm.facts import Facts

T4, L4, A100, H100 = "Tesla-T4", "NVIDIA-L4", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: vllm}}
spec:
  nodeSelector: {{nvidia.com/gpu.product: {gpu}}}
  containers:
  - name: vllm
    image: {image}
    args: [{model}, --max-model-len, '2048'{flags}]
    env: [{env}]
    resources: {{limits: {{nvidia.com/gpu: 1, memory: 64Gi}}}}
"""


def judged(
    gpu: str,
    tag: str,
    flags: str = "",
    env: str = "",
    model: str = "Qwen/Qwen3-4B",
    image: str = "vllm/vllm-openai",
    rule: str = "invalid-environment",
) -> str | None:
    """The mode of what is found about the backend, None where nothing is."""
    words = "".join(f", '{word}'" for word in flags.split())
    name, _, value = env.rpartition("=")
    given = f"{{name: {name or 'VLLM_ATTENTION_BACKEND'}, value: '{value}'}}" if env else ""
    text = POD.format(gpu=gpu, image=f"{image}:{tag}", flags=words, env=given, model=model)
    (document,) = manifest.read(text, "x.yaml").documents
    report = lint(document.object, builtin(), Facts(), where="check")
    assert not report.errors
    return next((one.mode for one in report.findings if one.rule == rule), None)


@pytest.mark.parametrize(
    ("gpu", "tag", "flags", "env", "wanted"),
    [
        (T4, "v0.24.0", "--attention-backend FLASH_ATTN", "", "deny"),
        (T4, "v0.24.0", "--attention-backend flash_attn", "", "deny"),
        (T4, "v0.11.2", "", "FLASH_ATTN", "deny"),
        (T4, "v0.11.2", "", "FLASH_ATTN_VLLM_V1", "deny"),
        (H100, "v0.10.2", "", "FLASH_ATTN_VLLM_V1", None),
        (H100, "v0.11.1", "", "FLASH_ATTN_VLLM_V1", "deny"),
        (H100, "v0.11.2", "", "TRITON_ATTN_VLLM_V1", "deny"),
        (H100, "v0.12.0", "", "FLASH_ATTN_VLLM_V1", "deny"),
        (H100, "v0.12.0", "", "FLASH_ATTN", None),
        (T4, "v0.24.0", "--attention-backend TRITON_ATTN", "", None),
        (T4, "v0.24.0", "", "", None),
        (T4, "v0.24.0", "--attention-config.backend FLASH_ATTN", "", "deny"),
        (T4, "v0.24.0", "--attention-config.backend auto", "", None),
        (T4, "v0.24.0", "--attention-config.backend TRITON_ATTN", "", None),
        (H100, "v0.24.0", "--attention-config.backend FLASH_ATTN", "", None),
        (L4, "v0.24.0", "--attention-backend FLASH_ATTN", "", None),
        (T4, "v0.11.0", "", "FLASH_ATTN", None),  # it takes another by itself
        (T4, "v0.16.0", "", "FLASH_ATTN", None),  # vLLM no longer reads the variable
        (T4, "v0.34.0", "--attention-backend FLASH_ATTN", "", "warn"),
        (T4, "latest", "--attention-backend FLASH_ATTN", "", "warn"),
        (T4, "v0.24.0", "--attention-backend $BACKEND", "", None),
        (A100, "v0.24.0", "--attention-backend FLASH_ATTN --kv-cache-dtype fp8", "", "deny"),
        (L4, "v0.11.2", "--kv-cache-dtype fp8", "FLASH_ATTN", "deny"),
        (H100, "v0.24.0", "--attention-backend FLASH_ATTN --kv-cache-dtype fp8", "", None),
        (A100, "v0.24.0", "--attention-backend FLASHINFER --kv-cache-dtype fp8", "", None),
        (A100, "v0.24.0", "--attention-backend FLASH_ATTN --kv-cache-dtype auto", "", None),
        (A100, "v0.24.0", "--kv-cache-dtype fp8", "", None),
    ],
)
def test_what_a_gpu_rules_out(gpu: str, tag: str, flags: str, env: str, wanted: str | None) -> None:
    assert judged(gpu, tag, flags, env) == wanted


@pytest.mark.parametrize(
    ("tag", "flags", "wanted"),
    [
        ("v0.20.0", "--attention-backend FLASH_ATTN --attention-config.backend FLASHINFER", "deny"),
        ("v0.33.0", "--attention-backend FLASH_ATTN --attention-config.backend FLASH_ATTN", "deny"),
        ("v0.20.0", "--attention-backend FLASH_ATTN --attention-config.backend auto", None),
        ("v0.20.0", "--attention-backend FLASH_ATTN --attention-config.flash_attn_version 2", None),
        ("v0.20.0", "--attention-config.backend FLASHINFER", None),
        ("v0.20.0", "--attention-backend FLASH_ATTN --attention-config.backend $BACKEND", None),
        ("v0.34.0", "--attention-backend FLASH_ATTN --attention-config.backend FLASHINFER", "warn"),
    ],
)
def test_a_backend_that_is_named_twice(tag: str, flags: str, wanted: str | None) -> None:
    assert judged(H100, tag, flags, rule="conflicting-flags") == wanted


@pytest.mark.parametrize(
    ("gpu", "backend", "wanted"),
    [
        (A100, "FLASHMLA", "deny"),
        (H100, "FLASHMLA", None),
        (A100, "FLASH_ATTN_MLA", "deny"),
        (H100, "FLASH_ATTN_MLA", None),
        (H100, "CUTLASS_MLA", "deny"),
        ("NVIDIA-B200", "CUTLASS_MLA", None),
        ("NVIDIA-B200", "FLASHMLA", None),
        (A100, "TRITON_MLA", None),
    ],
)
def test_backends_of_deepseeks_attention(gpu: str, backend: str, wanted: str | None) -> None:
    model = "deepseek-ai/DeepSeek-V2-Lite-Chat"
    assert judged(gpu, "v0.24.0", f"--attention-backend {backend}", model=model) == wanted


@pytest.mark.parametrize(
    ("gpu", "tag", "wanted"),
    [
        (L4, "v0.24.0", "deny"),
        (H100, "v0.13.0", None),
        (H100, "v0.24.0", None),
        ("NVIDIA-B200", "v0.16.0", "deny"),
        ("NVIDIA-B200", "v0.17.0", None),
        ("NVIDIA-GeForce-RTX-5090", "v0.16.0", "deny"),
        ("NVIDIA-GeForce-RTX-5090", "v0.33.0", "deny"),
    ],
)
def test_attention_sinks_of_gpt_oss(gpu: str, tag: str, wanted: str | None) -> None:
    assert judged(gpu, tag, "--attention-backend FLASH_ATTN", model="openai/gpt-oss-20b") == wanted
    assert judged(gpu, tag, "--attention-backend TRITON_ATTN", model="openai/gpt-oss-20b") is None


def test_a_fork_or_a_model_that_nobody_knows_is_not_denied() -> None:
    flags = "--attention-backend FLASH_ATTN"
    assert judged(T4, "v0.24.0", flags, image="acme/vllm-openai") == "warn"
    assert judged(T4, "v0.24.0", flags, model="acme/nobody-knows") == "warn"


LITE, V32, B200, RTX = "deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-ai/DeepSeek-V3.2", "NVIDIA-B200", "NVIDIA-L40S"
BLACKWELL = "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"


@pytest.mark.parametrize(
    ("model", "gpu", "tag", "flags", "wanted"),
    [
        (V32, A100, "v0.24.0", "", "deny"),
        (V32, A100, "v0.11.2", "", "deny"),
        (V32, RTX, "v0.33.0", "", "deny"),
        (V32, H100, "v0.24.0", "", None),
        (V32, B200, "v0.33.0", "", None),
        (V32, BLACKWELL, "v0.23.0", "", "deny"),
        (V32, BLACKWELL, "v0.24.0", "", None),
        (V32, A100, "v0.11.0", "", None),  # it takes the sparse backend unasked, and fails otherwise
        (V32, A100, "v0.34.0", "", "warn"),
        (V32, A100, "latest", "", "warn"),
        (V32, A100, "v0.24.0", "--attention-backend TRITON_MLA", None),
        (V32, A100, "v0.24.0", "--hf-overrides {}", "warn"),
        (V32, A100, "v0.24.0", "--model-impl transformers", None),
        ("zai-org/GLM-5-FP8", A100, "v0.24.0", "", "deny"),
        ("deepseek-ai/DeepSeek-V3", A100, "v0.24.0", "", None),
        (LITE, A100, "v0.13.0", "--kv-cache-dtype fp8", "deny"),
        (LITE, RTX, "v0.17.1", "--kv-cache-dtype fp8_e4m3", "deny"),
        (LITE, H100, "v0.13.0", "--kv-cache-dtype fp8", None),
        (LITE, A100, "v0.13.0", "--kv-cache-dtype auto", None),
        (LITE, A100, "v0.13.0", "", None),
        (LITE, RTX, "v0.18.0", "--kv-cache-dtype fp8", None),
        (LITE, A100, "v0.18.0", "--kv-cache-dtype fp8", "warn"),  # the kernel, not the selector
        (LITE, A100, "v0.26.0", "--kv-cache-dtype fp8", "deny"),
        (LITE, H100, "v0.24.0", "--kv-cache-dtype fp8_e5m2", "deny"),
        ("Qwen/Qwen3-4B", A100, "v0.13.0", "--kv-cache-dtype fp8", None),
        ("Qwen/Qwen3-4B", T4, "v0.24.0", "--kv-cache-dtype fp8_e5m2", "deny"),
        ("Qwen/Qwen3-4B", T4, "v0.23.0", "--kv-cache-dtype fp8", None),
        ("Qwen/Qwen3-4B", A100, "v0.33.0", "--kv-cache-dtype fp8", None),
        ("openai/gpt-oss-20b", A100, "v0.24.0", "--kv-cache-dtype fp8", "deny"),
        ("openai/gpt-oss-20b", L4, "v0.24.0", "--kv-cache-dtype fp8", None),
        ("openai/gpt-oss-20b", A100, "v0.23.0", "--kv-cache-dtype fp8", None),
        ("microsoft/Phi-3-mini-4k-instruct", A100, "v0.24.0", "--kv-cache-dtype fp8", "warn"),
        ("microsoft/Phi-3-mini-4k-instruct", L4, "v0.24.0", "--kv-cache-dtype fp8", None),
        ("Qwen/Qwen3-4B", H100, "v0.27.1", "--kv-cache-dtype nvfp4", "deny"),
        ("Qwen/Qwen3-4B", B200, "v0.27.1", "--kv-cache-dtype nvfp4", None),
        ("Qwen/Qwen3-4B", H100, "v0.32.0", "--kv-cache-dtype nvfp4", None),
        ("acme/nobody-knows", A100, "v0.13.0", "--kv-cache-dtype fp8", None),
    ],
)
def test_where_no_backend_is_left(model: str, gpu: str, tag: str, flags: str, wanted: str | None) -> None:
    assert judged(gpu, tag, flags, model=model, rule="no-attention-backend") == wanted


def test_without_latent_attention_another_list_is_asked() -> None:
    flags = "--kv-cache-dtype fp8"
    assert judged(A100, "v0.13.0", flags, "VLLM_MLA_DISABLE=1", LITE, rule="no-attention-backend") is None
    assert judged(A100, "v0.13.0", flags, "OTHER=1", LITE, rule="no-attention-backend") == "deny"


def test_a_fork_may_have_a_backend_of_its_own() -> None:
    flags = "--kv-cache-dtype fp8"
    assert judged(A100, "v0.13.0", flags, "", LITE, "acme/vllm-openai", "no-attention-backend") == "warn"
    assert judged(A100, "v0.13.0", flags, "VLLM_PLUGINS=acme", LITE, rule="no-attention-backend") == "warn"
