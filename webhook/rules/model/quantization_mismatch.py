"""Rule quantization-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.rules._checkpoint import OVERRIDING, is_the_known, method
from webhook.rules._flags import certainty
from webhook.rules.engine import Engine
from webhook.rules.rule import Certainty, Finding, Rule
from webhook.vllm.gpu.kernels import is_exact
from webhook.vllm.model.name import tells_quantisation
from webhook.vllm.release import Release

FORMATS = {
    "awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "fp8": "fp8",
    "compressed-tensors": "compressed-tensors",
    "bitsandbytes": "bitsandbytes",
}
"""`--quantization` → the `quant_method` of the checkpoints that it loads. Of the others, some stand for several
checkpoints (moe_wna16, humming), and some checkpoints override whatever is given (modelopt, mxfp4, auto-round)."""
READ = Release(0, 6, 6), Release(0, 34)
"""From the first until before the second, `_verify_quantization`, `get_quant_config` and the methods' overrides were
read (vLLM 0.6.6, 0.8.5, 0.10.2, 0.17.1, 0.20.2, 0.24, 0.27.1, 0.33)."""
NEED_A_FILE = ("awq", "awq_marlin", "gptq", "gptq_marlin")
"""Methods that can't quantise what is not: they look for the checkpoint's own config (`get_config_filenames`)."""
OTHER_FILES = "load_format", "model_loader_extra_config"
"""With these, what is loaded or how need not be what the catalogue knows."""


class QuantizationMismatch(Rule):
    """--quantization names another method than the checkpoint was quantised with.

    vLLM reads the method from the checkpoint's own config.json; the flag need not be given. Where it is, it must agree,
    or be a faster kernel for the same format (`awq_marlin` for AWQ, `gptq_marlin` for GPTQ):

        ValueError: Quantization method specified in the model config (compressed-tensors) does not match the
        quantization method specified in the `quantization` argument (awq).

    `awq` and `gptq` do not quantise a model while it loads, as `fp8` and `bitsandbytes` do. For a checkpoint in 16 bits
    vLLM ends with

        ValueError: Cannot find the config file for awq
    """

    plane = "config"
    mode = "deny"
    needs = ("model", "release")
    about = ("quantization",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain where the checkpoint's own config.json is known, in NVIDIA's backend."""
        given, model = engine.args.given.get("quantization"), engine.model
        if model is None or engine.release is None or not READ[0] <= engine.release < READ[1]:
            return
        if (
            not isinstance(given, str)
            or (asked := given.lower()) not in FORMATS
            or "quantization" in engine.args.unresolved
        ):
            return
        config = model.value.quantization_config
        has = method(engine)
        if config and has in FORMATS.values() and has != FORMATS[asked]:
            if (model.value.model_type or "").startswith(OVERRIDING):
                return
            yield Finding(
                path=engine.argument("quantization"),
                certainty=_certainty(engine, exact=is_exact(model.value)),
                message=f"--quantization {given}, but {model.value.id} is quantised with {has}",
                details=("without --quantization vLLM takes the checkpoint's own method",),
                suggestions=("leave it out", f"--quantization {has}"),
            )
        elif not config and asked in NEED_A_FILE:
            yield Finding(
                path=engine.argument("quantization"),
                certainty=_certainty(engine, exact=not tells_quantisation(model.value.id)),
                message=f"--quantization {given}, but {model.value.id} is not quantised: {asked} does not quantise "
                "while it loads",
                suggestions=("leave it out", f"a copy of the model in {FORMATS[asked].upper()}", "--quantization fp8"),
            )


def _certainty(engine: Engine, exact: bool) -> Certainty:
    other = any(one in engine.args.given or one in engine.args.unresolved for one in OTHER_FILES)
    nvidias = engine.vendor == "nvidia" and not engine.on_processors
    return certainty(engine) if exact and nvidias and not other and is_the_known(engine) else "likely"
