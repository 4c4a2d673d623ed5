from __future__ import annotations

from collections.abc import Iterator, Mapping

from podfit.rules._checkpoint import OVERRIDING, is_scheme_known, method
from podfit.rules._flags import certainty
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule
from podfit.vllm import change
from podfit.vllm.args import settings
from podfit.vllm.gpu.kernels import is_exact
from podfit.vllm.model import Model, by_id
from podfit.vllm.model.name import tells_quantisation
from podfit.vllm.release import Release

FIRST_READ = Release(0, 6, 6)
"""The first release of which `_verify_quantization`, `get_quant_config` and the methods' overrides were read (vLLM
0.6.6, 0.8.5, 0.10.2 … 0.33)."""
CHECKPOINT_FORMAT = {
    "awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "fp8": "fp8",
    "compressed-tensors": "compressed-tensors",
    "bitsandbytes": "bitsandbytes",
}
"""`--quantization` → the `quant_method` of the checkpoints that it loads."""
OTHERS_SINCE = Release(0, 10, 2)
"""The first release in which the rest of these tables was read."""
PLAIN = frozenset({
    "fbgemm_fp8", "fp8_per_block", "fp8_per_tensor", "int8_per_channel_weight_only", "modelopt", "modelopt_fp4",
    "moe_wna16", "mxfp8", "petit_nvfp4", "ptpc_fp8", "quark", "torchao",
})  # fmt: skip
"""Other methods that take no checkpoint of CHECKPOINT_FORMAT, but for those of TAKES."""
TAKES = {"awq": ("moe_wna16",), "gptq": ("moe_wna16",)}
"""Checkpoint → methods of PLAIN that it may be loaded with (moe_wna16.py is_moe_wna16_compatible)."""
MXFP4_UNTIL = Release(0, 20)
"""Before, an MXFP4 checkpoint rejects another method; since then it overrides what is given (0.20 mxfp4.py)."""
ASYMMETRIC = Release(0, 22)
"""Since then GPTQ is loaded by auto_gptq.py, whose TYPE_MAP has symmetric weights alone. Before, `gptq` loads others,
and `gptq_marlin` does not take them (0.10.2 … 0.21 gptq_marlin.py is_gptq_marlin_compatible)."""
NEED_A_FILE: Mapping[str, tuple[Release, Release | None]] = {
    "auto-round": (OTHERS_SINCE, Release(0, 15)),
    "auto_awq": (Release(0, 24), None),
    "auto_gptq": (ASYMMETRIC, None),
    "awq": (FIRST_READ, None),
    "awq_marlin": (FIRST_READ, None),
    "compressed-tensors": (OTHERS_SINCE, None),
    "fbgemm_fp8": (OTHERS_SINCE, None),
    "gptq": (FIRST_READ, None),
    "gptq_marlin": (FIRST_READ, None),
    "hqq": (OTHERS_SINCE, Release(0, 15)),
    "inc": (Release(0, 15), None),
    "modelopt": (OTHERS_SINCE, None),
    "modelopt_fp4": (OTHERS_SINCE, None),
    "modelopt_mixed": (Release(0, 17), None),
    "modelopt_mxfp8": (Release(0, 16), None),
    "moe_wna16": (OTHERS_SINCE, None),
    "online": (Release(0, 20), None),
    "petit_nvfp4": (OTHERS_SINCE, Release(0, 20)),
    "quark": (OTHERS_SINCE, None),
    "torchao": (OTHERS_SINCE, None),
}
"""Methods that can't quantize what is not, from their first release until before the second; None if the newest release
that was read has them. They look for the checkpoint's own config
(`get_config_filenames`), or their class can't be made without one."""
NO_FILE = frozenset({"compressed-tensors", "fbgemm_fp8", "online", "quark", "torchao"})
"""Methods of NEED_A_FILE that look into config.json alone. The others read `quantize_config.json`, `quant_config.json`,
`quantization_config.json` or `hf_quant_config.json` too (vLLM 0.8.5 … 0.33 quantization/*.py, get_config_filenames)."""
DEPRECATED: Mapping[str, tuple[Release, Release | None]] = {
    "auto-round": (Release(0, 14), Release(0, 15)),
    "bitblas": (Release(0, 14), Release(0, 16)),
    "deepspeedfp": (Release(0, 14), Release(0, 15)),
    "experts_int8": (Release(0, 14), Release(0, 20)),
    "fbgemm_fp8": (Release(0, 14), None),
    "fp_quant": (Release(0, 14), None),
    "gptq_bitblas": (Release(0, 14), Release(0, 16)),
    "gptq_marlin_24": (Release(0, 14), Release(0, 16)),
    "hqq": (Release(0, 14), Release(0, 15)),
    "petit_nvfp4": (Release(0, 14), Release(0, 20)),
    "ptpc_fp8": (Release(0, 14), Release(0, 19)),
    "rtn": (Release(0, 14), Release(0, 15)),
    "tpu_int8": (Release(0, 14), Release(0, 23)),
}
"""Method → the first release that rejects it without --allow-deprecated-quantization, and the first that no longer
does; None if the newest that was read does
(quantization/__init__.py DEPRECATED_QUANTIZATION_METHODS)."""
OTHER_FILES = "load_format", "model_loader_extra_config", "quantization_config"
"""With these, what is loaded or how need not be what the catalog knows."""


class QuantizationMismatch(Rule):
    """--quantization names another method than the checkpoint was quantized with.

    vLLM reads the method from the checkpoint's own config.json; the flag is not necessary. A given flag must agree, or
    name a faster kernel for the same format (`awq_marlin` for AWQ, `gptq_marlin` for GPTQ):

        ValueError: Quantization method specified in the model config (compressed-tensors) does not match the
        quantization method specified in the `quantization` argument (awq).

    `awq` and `gptq` do not quantize a model while it loads, as `fp8` and `bitsandbytes` do. For a checkpoint in 16 bits
    vLLM ends with one of

        ValueError: Cannot find the config file for awq
        TypeError: CompressedTensorsConfig.__init__() missing 3 required positional arguments: …

    Since v0.14 some methods are deprecated, and need `--allow-deprecated-quantization`. GPTQ checkpoints with
    asymmetric weights (`"sym": false`) are not loaded by v0.22 and newer:

        ValueError: Unsupported quantization config: bits=4, sym=False
    """

    plane = "config"
    event = "vLLM exits before it loads the model"
    mode = "deny"
    needs = ("model", "release", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if the checkpoint's own config.json is known, in NVIDIA's backend."""
        given, model, release = engine.args.given.get("quantization"), engine.model, engine.release
        if model is None or release is None or release < FIRST_READ:
            return
        if "quantization" in engine.args.unresolved:
            return
        has, name = method(engine), given.lower() if isinstance(given, str) else None
        config = model.value.quantization_config
        if has == "gptq" and config and config.get("sym") is False and name in (None, "gptq", "gptq_marlin"):
            yield from _asymmetric_gptq(engine, model.value, name, release)
        if not isinstance(given, str) or name is None:
            return
        if config and _differ(name, has, release):
            if (model.value.model_type or "").startswith(OVERRIDING):
                return
            yield Finding(
                path=engine.argument("quantization"),
                certainty="possible"  # the method was read from words of an id
                if model.value.scheme_guessed
                else _certainty(engine, exact=is_exact(model.value)),
                message=f"--quantization {given}, but {model.value.id} is quantized with {has}",
                details=("without --quantization vLLM takes the checkpoint's own method",),
                suggestions=(change.leave_out(), change.quoted_flag("--quantization", has)),
            )
        elif not config and _is_within(NEED_A_FILE, name, release):
            of_format = (
                (f"a copy of the model in {CHECKPOINT_FORMAT[name].upper()}",) if name in CHECKPOINT_FORMAT else ()
            )
            yield Finding(
                path=engine.argument("quantization"),
                certainty=_certainty(engine, exact=_has_no_other_file(model.value, name)),
                message=f"--quantization {given}, but {model.value.id} is not quantized: {name} does not quantize "
                "while it loads",
                suggestions=(change.leave_out(), *of_format, change.flags("--quantization fp8")),
            )
        elif _is_within(DEPRECATED, name, release) and not engine.args.given.get("allow_deprecated_quantization"):
            yield Finding(
                path=engine.argument("quantization"),
                certainty=_certainty(engine, exact=not engine.args.open),
                message=f"--quantization {given} is deprecated in vLLM {release}",
                suggestions=(change.flags("--allow-deprecated-quantization"), change.leave_out()),
            )


def _has_no_other_file(model: Model, method_name: str) -> bool:
    """True if only config.json can describe the quantization method.

    A model outside the catalog may have another file for it. Only the methods of NO_FILE do not look for such a
    file."""
    return (by_id(model.id) is not None or method_name in NO_FILE) and not tells_quantisation(model.id)


def _is_within(spans: Mapping[str, tuple[Release, Release | None]], method_name: str, release: Release) -> bool:
    """True if the release is within the span of the method: from the first release until before the second. False for
    other methods."""
    span = spans.get(method_name)
    return span is not None and span[0] <= release and (span[1] is None or release < span[1])


def _differ(method_name: str, has: str, release: Release) -> bool:
    """True if vLLM rejects the method for such a checkpoint."""
    if has == "mxfp4":
        return method_name in CHECKPOINT_FORMAT and OTHERS_SINCE <= release < MXFP4_UNTIL
    if has not in CHECKPOINT_FORMAT.values():
        return False
    if method_name in CHECKPOINT_FORMAT:
        return CHECKPOINT_FORMAT[method_name] != has
    if method_name not in PLAIN or method_name in TAKES.get(has, ()) or release < OTHERS_SINCE:
        return False
    return settings.unknown_name("quantization", method_name, release) is None


def _asymmetric_gptq(engine: Engine, model: Model, method_name: str | None, release: Release) -> Iterator[Finding]:
    """The finding on a GPTQ checkpoint with `"sym": false`, which this release or method rejects."""
    if release >= ASYMMETRIC:
        yield Finding(
            path=engine.argument("quantization" if method_name else "model"),
            certainty="likely",
            uncertain="another kernel package may load it",
            message=f"vLLM {release} loads GPTQ with symmetric weights alone, and {model.id} has sym: false",
            suggestions=("vLLM 0.21", "a checkpoint with symmetric weights"),
        )
    elif method_name == "gptq_marlin" and release >= OTHERS_SINCE:
        yield Finding(
            path=engine.argument("quantization"),
            certainty=_certainty(engine, exact=is_exact(model)),
            message=f"--quantization gptq_marlin needs symmetric weights, and {model.id} has sym: false",
            suggestions=(change.leave_out(), change.flags("--quantization gptq")),
        )


def _certainty(engine: Engine, exact: bool) -> Certainty:
    """Certain only for a known checkpoint on NVIDIA GPUs that no other file changes; only possible if the scheme is a
    guess from the model's name."""
    if engine.model is not None and engine.model.value.scheme_guessed:
        return "possible"
    other = any(text in engine.args.given or text in engine.args.unresolved for text in OTHER_FILES)
    nvidias = engine.vendor == "nvidia" and not engine.on_processors
    return certainty(engine) if exact and nvidias and not other and is_scheme_known(engine) else "likely"
