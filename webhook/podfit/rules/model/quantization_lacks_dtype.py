from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from podfit.rules._checkpoint import OVERRIDING, is_certain, method
from podfit.rules._flags import certainty
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.model import Model
from podfit.vllm.release import Release

DTYPE_ALIASES = {
    "half": "float16", "float16": "float16", "bfloat16": "bfloat16", "float": "float32", "float32": "float32",
}  # fmt: skip
"""`--dtype` → the dtype that is meant."""


class RefusedDtype(NamedTuple):
    """The dtypes that a quantization method rejects, in the releases that were read."""

    dtypes: frozenset[str]
    """A subset of float16, bfloat16 and float32."""
    since: Release
    """The first release that has the method, or the first that was read."""
    until: Release | None = None
    """The first release of which that is not true any more; None if it is true of the newest that was read."""


_WIDE = frozenset({"float32"})
"""The only dtype that most methods reject: 32 bits."""
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
        of_checkpoint, named = method(engine), args.given.get("quantization")
        if of_checkpoint == "mxfp4" and named not in (None, of_checkpoint):
            return  # another kernel may take it: humming does
        refused = REFUSED.get(of_checkpoint)
        if refused is None or release < refused.since or (refused.until is not None and release >= refused.until):
            return
        is_slow = _has_slow_kernel(of_checkpoint, named, model.value, release)
        if dtype not in refused.dtypes and not (is_slow and dtype == "bfloat16"):
            return
        is_known = is_certain(engine) and engine.vendor == "nvidia" and not engine.on_processors
        if (model.value.model_type or "").startswith(OVERRIDING):
            is_known = False  # vLLM replaces the method of such a model
        yield Finding(
            path=engine.argument("dtype"),
            message=f"--dtype {given}: {model.value.id} is quantized with {of_checkpoint}, which vLLM {release} does "
            f"not compute in {dtype}" + (f" {_why(named)}" if is_slow else ""),
            certainty=certainty(engine) if is_known else "likely",
            uncertain=None if is_known else "vLLM may find another quantization in the checkpoint than podfit knows of",
            suggestions=(change.flags("--dtype half") if is_slow else change.leave_out(),),
        )


def _has_slow_kernel(of_checkpoint: str, named: object, model: Model, release: Release) -> bool:
    """True if the kernel serves the checkpoint that computes in float16 alone (`AS_NAMED`). `named`: the value of
    --quantization; None if it is not given."""
    if of_checkpoint not in ("awq", "gptq") or release >= AS_NAMED:
        return False
    is_asymmetric = of_checkpoint == "gptq" and (model.quantization_config or {}).get("sym") is False
    return named == of_checkpoint or (named is None and is_asymmetric)


def _why(named: object) -> str:
    """Why the slower kernels are used, which compute in float16 alone."""
    return f"if --quantization {named} disables faster kernels" if named else "because its weights are asymmetric"
