from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from podfit.rules._checkpoint import OVERRIDING, is_certain, method
from podfit.rules._flags import certainty
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.release import Release

DTYPE_ALIASES = {
    "half": "float16", "float16": "float16", "bfloat16": "bfloat16", "float": "float32", "float32": "float32",
}  # fmt: skip
"""`--dtype` → the dtype that is meant."""


class RefusedDtype(NamedTuple):
    """The dtypes that a quantization method rejects, in the releases that were read."""

    dtypes: frozenset[str]
    since: Release
    until: Release | None = None
    """The first release of which that is not true any more; None if it is true of the newest that was read."""


_WIDE = frozenset({"float32"})
REFUSED = {
    "awq": RefusedDtype(_WIDE, Release(0, 4, 1)),
    "gptq": RefusedDtype(_WIDE, Release(0, 4, 1)),
    "fp8": RefusedDtype(_WIDE, Release(0, 4, 2)),
    "compressed-tensors": RefusedDtype(_WIDE, Release(0, 4, 3), Release(0, 10, 1)),
    "fbgemm_fp8": RefusedDtype(_WIDE, Release(0, 5, 4)),
    "modelopt": RefusedDtype(_WIDE, Release(0, 6, 2)),
    "mxfp4": RefusedDtype(_WIDE | {"float16"}, Release(0, 10, 1)),
}
"""A checkpoint's `quant_method` → what none of the classes that may serve it has in `get_supported_act_dtypes`
(vLLM 0.4.1 … 0.33 model_executor/layers/quantization; its Marlin, MoE and other variants among them)."""
AS_NAMED = Release(0, 22)
"""Before it, `--quantization awq` and `gptq` keep the faster kernel for the same format off (`awq_marlin.py` and
`gptq_marlin.py` `override_quantization_method`), and theirs compute in float16 alone (`AWQConfig`, `GPTQConfig`). So
do asymmetric weights (`"sym": false`), which `gptq_marlin.py` does not take."""


class QuantizationLacksDtype(Rule):
    """The model's quantization can't be computed in the given dtype.

    A quantized layer's inputs and outputs stay in 16 bits, and each method supports only some of the 16-bit dtypes.
    vLLM compares the dtype before it loads a weight:

        ValueError: torch.float16 is not supported for quantization method mxfp4. Supported dtypes: [torch.bfloat16]

    gpt-oss (MXFP4) supports only bfloat16, so a GPU without it (a T4, a V100) can't serve it. Hardly any method
    supports float32. AWQ and GPTQ support bfloat16 if vLLM chooses the kernel. Before v0.22 they support only float16
    if `--quantization awq` or `gptq` chooses the kernel. Without `--dtype`, vLLM uses the checkpoint's dtype.
    """

    plane = "config"
    event = "vLLM exits before it loads the model"
    by_release = True
    mode = "deny"
    needs = ("model", "release", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if the checkpoint's own config names the method, in NVIDIA's backend."""
        args, model, release = engine.args, engine.model, engine.release
        given = args.given.get("dtype")
        dtype = DTYPE_ALIASES.get(given) if isinstance(given, str) else None
        if dtype is None or model is None or release is None or {"dtype", "quantization"} & args.unresolved.keys():
            return
        used, named = method(engine), args.given.get("quantization")
        if used == "mxfp4" and named not in (None, used):
            return  # another kernel may take it: humming does
        refused = REFUSED.get(used)
        if refused is None or release < refused.since or (refused.until is not None and release >= refused.until):
            return
        asymmetric = used == "gptq" and (model.value.quantization_config or {}).get("sym") is False
        own = used in ("awq", "gptq") and (named == used or (named is None and asymmetric)) and release < AS_NAMED
        if dtype not in refused.dtypes and not (own and dtype == "bfloat16"):
            return
        known = is_certain(engine) and engine.vendor == "nvidia" and not engine.on_processors
        known = known and not (model.value.model_type or "").startswith(OVERRIDING)
        yield Finding(
            path=engine.argument("dtype"),
            message=f"--dtype {given}: {model.value.id} is quantized with {used}, which vLLM {release} does not "
            f"compute in {dtype}" + (f" {_why(named)}" if own else ""),
            certainty=certainty(engine) if known else "likely",
            uncertain=None if known else "vLLM may find another quantization in the checkpoint than podfit knows of",
            suggestions=(change.flags("--dtype half") if own else change.leave_out(),),
        )


def _why(named: object) -> str:
    """Why the slower kernels are used, which compute in float16 alone."""
    return f"if --quantization {named} disables faster kernels" if named else "because its weights are asymmetric"
