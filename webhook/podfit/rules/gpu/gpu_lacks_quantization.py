from __future__ import annotations

from collections.abc import Iterator

from podfit.rules._flags import certainty
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.gpu import kernels


class GpuLacksQuantization(Rule):
    """This release of vLLM has no kernel for the model's quantization on this GPU.

    Each quantization method asks for a least compute capability, and vLLM compares it before it loads a weight:

        ValueError: The quantization method awq is not supported for the current GPU. Minimum capability: 75. Current
        capability: 70.

    The minimum changes with the release. FP8 weights needed 8.9 at first, 8.0 from v0.5.4 (through Marlin, as 16-bit
    arithmetic) and 7.5 from v0.14. GPTQ needs 6.0, AWQ 7.5 (a V100 has 7.0), and MXFP4 (gpt-oss) 8.0. A newer GPU, a
    newer release or another copy of the model helps.
    """

    plane = "gpu"
    event = "vLLM exits before it loads the model"
    by_release = True
    mode = "deny"
    needs = ("model", "gpu", "release", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if the checkpoint's own config names the method and every GPU is too old for it; likely if one GPU is
        new enough. None if the method, or the capability that it needs, is unknown."""
        if engine.model is None or engine.gpu is None or engine.release is None:
            return
        known_method = kernels.method(engine.model.value, engine.args.quantization)
        if known_method is None:
            return
        method, is_certain = known_method
        least = kernels.least_capability(method, engine.release)
        if least is None:
            return
        gpus = engine.gpu.value.gpus
        # A GPU of unknown compute capability counts as new enough.
        old = [gpu for gpu in gpus if gpu.vendor == "nvidia" and (gpu.compute_capability or least) < least]
        if not old:
            return
        lowest = min(gpu.compute_capability or least for gpu in old)
        newer = kernels.first_release(method, lowest)
        yield Finding(
            path=engine.argument("quantization") if "quantization" in engine.args.given else engine.argument("model"),
            message=f"{method} needs compute capability {_dotted(least)} in vLLM {engine.release}; "
            f"{' or '.join(gpu.name for gpu in old)} has {_dotted(lowest)}",
            certainty=certainty(engine) if len(old) == len(gpus) and is_certain else "likely",
            suggestions=(
                *((change.release(newer),) if newer and newer > engine.release else ()),
                f"a GPU of compute capability {_dotted(least)} or higher, such as {_EXAMPLES[least[0]]}",
            ),
        )


def _dotted(capability: tuple[int, int]) -> str:
    """A compute capability for people: (9, 0) as "9.0"."""
    return "{}.{}".format(*capability)


_EXAMPLES = {6: "a T4", 7: "a T4", 8: "an L4", 9: "an H100", 10: "a B200"}
"""Major version of a required compute capability → a GPU that has each of its minor versions; the L4 has 8.9."""
