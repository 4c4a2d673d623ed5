from __future__ import annotations

from collections.abc import Iterator

from podfit.rules.engine import Engine
from podfit.rules.model import _architecture
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.model import architectures


class ModelNewerThanRelease(Rule):
    """The model's architecture is newer than this vLLM release.

    Each release knows the architectures of its time. A newer one is rejected before anything loads, by Transformers or
    by vLLM:

        ValueError: The checkpoint you are trying to load has model type `qwen3_5` but Transformers does not recognize
        this architecture.
        ValueError: Model architectures ['Qwen3_5ForConditionalGeneration'] are not supported for now.

    From 0.7 vLLM leaves unknown architectures to the Transformers library of its image. If that library may be new
    enough, or if the checkpoint brings trusted code, this is a warning: the model may run, but slower.

    If the architecture is not known, the least release of vLLM's recipe for the model is advice.
    """

    plane = "config"
    event = "vLLM exits: the architecture is not supported"
    mode = "deny"
    needs = ("model", "release", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image, if neither vLLM's registry nor a Transformers of its time has it."""
        if engine.model is None or engine.release is None:
            return
        model, release = engine.model.value, engine.release
        known = architectures.architecture_of(model)
        if not _architecture.is_looked_up(engine):
            return
        if known is None:
            yield from _architecture.older_than_its_recipe(engine, release)
        if known is None or release > known.missing:
            return
        yield _architecture.finding(
            engine,
            f"vLLM {release} does not know {known.name}, the architecture of {model.id}: "
            f"it came after {known.missing}, and {known.first} has it",
            unserved=architectures.is_unserved(model, release, remote_code=_architecture.trusts_code(engine)),
            instead=change.release(known.first),
        )
