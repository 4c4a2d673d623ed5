from __future__ import annotations

import re
from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.rules import _checkpoint
from podfit.rules._flags import is_since, registry_certainty, uncertain
from podfit.rules.engine import Engine
from podfit.rules.model import _architecture
from podfit.rules.rule import Certainty, Finding, Rule
from podfit.vllm import change
from podfit.vllm.model import architectures
from podfit.vllm.release import Release

WITHOUT_BITSANDBYTES = Release(0, 28)
"""The first release without the method (vLLM 0.28 … 0.33 model_executor/layers/quantization/__init__.py). The last
release with it is 0.27.1."""
WITHOUT_GGUF = Release(0, 24)
"""The first release without GGUF files (vLLM 0.24 … 0.33 model_executor/model_loader/__init__.py). The last release
that reads them is 0.23."""
GGUF = regex(r"/.*\.gguf|[\w.-]+/[\w.-]*gguf:\w+", re.IGNORECASE)
"""A file, or one file of a repository: `unsloth/Qwen3-8B-GGUF:Q4_K_M`. No folder and no repository on the Hub is called
so."""


class ModelOlderThanRelease(Rule):
    """This vLLM release no longer serves the model's architecture, or the format of its checkpoint.

    Every few releases vLLM drops architectures that are hardly in use (QWen of 2023, Baichuan, InternLM,
    MPT, MiniMax-M1 …), and ends before anything loads (models/registry.py, _raise_for_unsupported):

        ValueError: Model architecture QWenLMHeadModel was supported in vLLM until v0.23.0, and is not supported
        anymore. Please use an older version of vLLM if you want to use this model architecture.

    If the Transformers library of the image knows the model, or if the checkpoint brings trusted code, this is a
    warning: the model may run, but slower. An older image serves it.

    Two formats went into plugins, which vLLM's own image does not have: GGUF files with v0.24, checkpoints quantized by
    bitsandbytes with v0.28.

        ValueError: Invalid repository ID or local directory specified: 'unsloth/Qwen3-8B-GGUF:Q4_K_M'.
        ValueError: Unknown quantization method: bitsandbytes. Must be one of ['awq', 'fp8', …
    """

    plane = "config"
    event = "vLLM exits: the architecture is not supported"
    by_release = True
    mode = "deny"
    needs = ("release", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image, if Transformers has no such model either."""
        release = engine.release
        if release is not None and release >= WITHOUT_GGUF:
            yield from _gguf(engine)
            yield from _bitsandbytes(engine)
        if engine.model is None or release is None:
            return
        model = engine.model.value
        removed = architectures.removed_architecture(model, release)
        if removed is None or not _architecture.is_looked_up(engine):
            return
        yield _architecture.finding(
            engine,
            f"vLLM {release} no longer serves {removed.name}, the architecture of {model.id}: "
            f"{removed.last} does, {removed.gone} does not",
            unserved=architectures.is_removed(model, release, remote_code=_architecture.trusts_code(engine)),
            instead=change.release(removed.last, "vLLM {}"),
        )


def _gguf(engine: Engine) -> Iterator[Finding]:
    """A finding on a GGUF file, which is not a folder with a config.json; none before `WITHOUT_GGUF`, and for a model
    of unknown name."""
    name = engine.args.model
    if name is None or not is_since(engine, WITHOUT_GGUF):
        return
    if not engine.args.is_sure("model") or not GGUF.fullmatch(name):
        return
    yield Finding(
        path=engine.argument("model"),
        message=f"{name} is a GGUF file: vLLM {engine.release} reads none, 0.23.0 does, 0.24.0 does not",
        certainty=_certainty(engine),
        uncertain=uncertain(engine),
        suggestions=(
            change.release("0.23.0", "vLLM {}"),
            "a copy of the model in safetensors",
            "an image with vllm-gguf-plugin",
        ),
        rests_on=("release",),
    )


def _bitsandbytes(engine: Engine) -> Iterator[Finding]:
    """A finding on a checkpoint that bitsandbytes quantized. Its name is enough where it is a cataloged one: no other
    program writes what is called bnb. None before `WITHOUT_BITSANDBYTES`, and if --quantization is or may be given."""
    if engine.model is None or not is_since(engine, WITHOUT_BITSANDBYTES) or "quantization" in engine.args.given:
        return
    if _checkpoint.method(engine) != "bitsandbytes" or "quantization" in engine.args.unresolved:
        return
    yield Finding(
        path=engine.argument("model"),
        message=f"{engine.model.value.id} is quantized with bitsandbytes: vLLM {engine.release} does not know the "
        "method, 0.27.1 does, 0.28.0 does not",
        certainty=_certainty(engine),
        uncertain=uncertain(engine),
        suggestions=(
            change.release("0.27.1", "vLLM {}"),
            "the model in another format",
            "an image with vllm-bnb-plugin",
        ),
        rests_on=("model", "release"),
    )


def _certainty(engine: Engine) -> Certainty:
    """The certainty of a finding on the checkpoint's format: likely if another config.json may be read."""
    return registry_certainty(engine) if _checkpoint.is_the_known(engine) else "likely"
