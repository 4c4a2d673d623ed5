"""Model types whose config class is Python code in the model's repository, which vLLM runs only with
`--trust-remote-code`."""

from __future__ import annotations

from podfit.vllm.release import Release

OF_VLLM = frozenset({
    "afmoe", "arctic", "bagel", "chatglm", "cohere2", "dbrx", "deepseek_vl_v2", "deepseek_v3", "deepseek_v32", "eagle",
    "exaone", "exaone4", "h2ovl_chat", "hunyuan_vl", "internvl_chat", "isaac", "jais", "kimi_k2", "kimi_k25",
    "kimi_linear", "kimi_vl", "mlp_speculator", "medusa", "midashenglm", "minimax_text_01", "minimax_vl_01", "mllama",
    "moondream3", "mpt", "nemotron", "olmo3", "openvla", "ovis", "qwen3_next", "RefinedWeb", "RefinedWebModel",
    "skywork_chat", "solar", "speculators", "step3_text", "step3_vl", "step3p5", "tarsier2", "telechat", "ultravox",
    "umm",
})  # fmt: skip
"""Types whose config class is part of vLLM in some release (_CONFIG_REGISTRY), or that vLLM maps to another type."""
OF_CODE_ALONE = frozenset({
    "aquila", "baichuan", "bailing_moe", "deepseek", "grinmoe", "internlm", "internlm2", "interns1", "mimo", "minicpm",
    "minicpmv", "minimax_m1", "molmo", "nemotron-nas", "orion", "phi3_v", "phi3small", "phi4mm", "qwen",
})  # fmt: skip
"""Types of published models that are neither in Transformers (4.49.0, 4.51.3, 4.53.3, 4.57.6, 5.5.4 and 5.23.0,
models/auto) nor in vLLM (0.8 … 0.33, _CONFIG_REGISTRY)."""

KNOWN_SINCE = {"deepseek_v2": Release(0, 10, 1), "minimax_m2": Release(0, 19)}
"""Types of published models with such code → the first release in whose image Transformers knows the type. Transformers
4.55.4 and 5.5.4 do; 4.53.3 (vLLM 0.10.0) and 4.57.6 (vLLM 0.18.1) do not (models/auto)."""
