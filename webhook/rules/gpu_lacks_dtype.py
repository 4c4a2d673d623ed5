"""Rule gpu-lacks-dtype."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine import Engine
from webhook.rule import Finding, Rule


class GpuLacksDtype(Rule):
    """The GPU can't compute in the dtype that is asked for.

    bfloat16 needs compute capability 8.0 (Ampere); a T4 has 7.5, a V100 7.0:

        ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has
        compute capability 7.5. You can use float16 instead by explicitly setting the `dtype` flag in CLI …
    """

    plane = "gpu"
    mode = "deny"
    needs = ("gpu",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain where the dtype is given; `auto` falls back by itself in newer releases."""
        if engine.gpu is None or engine.args.given.get("dtype") != "bfloat16":
            return
        gpus = engine.gpu.value.gpus
        if not gpus or not all(gpu.vendor == "nvidia" and gpu.supports_bf16 is False for gpu in gpus):
            return
        capability = ".".join(map(str, gpus[0].compute_capability or ()))
        yield Finding(
            path=engine.argument("dtype"),
            message=f"--dtype bfloat16 needs compute capability 8.0; {engine.gpu.value.name} has "
            f"{capability or 'less'}",
            suggestions=("--dtype half",),
        )
