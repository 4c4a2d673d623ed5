"""Helpers of the rules about architectures that this release does not serve."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.rules import _flags
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding
from podfit.vllm import change
from podfit.vllm.change import Suggestion
from podfit.vllm.command.images import repository
from podfit.vllm.model import recipes
from podfit.vllm.release import Release

_PLUGGED = regex(r"ascend|gaudi|hpu|neuron|spyre|rbln|metax|musa|kunlun|tpu|vllm-omni")
"""Builds with a plugin that adds architectures of its own to vLLM's registry."""


def is_looked_up(engine: Engine) -> bool:
    """True if vLLM looks the model's architecture up in its registry: no argument has it look up another one, or in
    Transformers at once."""
    given = engine.args.given
    image = engine.field("image")
    if (isinstance(image, str) and _PLUGGED.search(repository(image))) or _flags.names_plugins(engine):
        return False
    if given.get("hf_overrides") or given.get("hf_config_path"):
        return False
    return given.get("model_impl") in (None, "auto", "vllm")


def trusts_code(engine: Engine) -> bool:
    """True if the checkpoint's own code may run, and bring what vLLM lacks."""
    return bool(engine.args.given.get("trust_remote_code")) or "trust_remote_code" in engine.args.unresolved


def finding(engine: Engine, message: str, *, unserved: bool, instead: Suggestion) -> Finding:
    """The finding that the release has no class for the model's architecture. `instead`: the release to run.

    `unserved`: Transformers does not serve it either; then it is certain in vLLM's own image, else possible."""
    return Finding(
        path=engine.argument("model"),
        message=message,
        certainty=_flags.registry_certainty(engine) if unserved else "possible",
        details=() if unserved else ("Transformers may serve it in vLLM's place",),
        suggestions=(instead,),
        rests_on=("model", "release"),
    )


def older_than_its_recipe(engine: Engine, release: Release) -> Iterator[Finding]:
    """Advice that the release is older than the least that vLLM's recipe of the model names; none without a recipe."""
    name = engine.args.model or ""
    recipe = recipes.of(name)
    if recipe is None or recipe.minimum is None or release >= recipe.minimum:
        return
    yield Finding(
        path=engine.argument("model"),
        message=f"vLLM {release} is older than {recipe.minimum}, for which the recipe of {name} was made",
        certainty="possible",
        suggestions=(change.release(recipe.minimum),),
        rests_on=("release",),
    )
