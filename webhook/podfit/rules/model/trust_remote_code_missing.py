from __future__ import annotations

from collections.abc import Iterator, Mapping

from podfit.base import data
from podfit.rules import _checkpoint
from podfit.rules._flags import certainty, uncertain
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.model.remote_code import KNOWN_SINCE, OF_CODE_ALONE, OF_VLLM
from podfit.vllm.release import Release

FIRST_READ = Release(0, 8, 5)
"""The first release of which get_config (transformers_utils/config.py) was read."""


class TrustRemoteCodeMissing(Rule):
    """The model has its own config class, and --trust-remote-code is not set.

    If Transformers does not know a model's config class, config.json names the class in `auto_map`. By default vLLM
    does not run such code:

        ValueError: The repository internlm/internlm2_5-7b-chat contains custom code which must be executed to correctly
        load the model. … Please pass the argument `trust_remote_code=True` to allow custom code to be run.

    It denies if the config.json was given for exactly this model and neither Transformers nor vLLM has a class for its
    `model_type`. It warns of other types, which another release of Transformers may know, and of models in the catalog,
    whose repository may have changed since.
    """

    plane = "config"
    event = "vLLM exits before it loads the model"
    mode = "deny"
    needs = ("model", "release", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if the config.json was given and its type was looked up."""
        args, release = engine.args, engine.release
        if engine.model is None or release is None or release < FIRST_READ:
            return
        config = engine.model.value.config
        classes, kind = config.get("auto_map"), engine.model.value.model_type
        if args.given.get("trust_remote_code") or "trust_remote_code" in args.unresolved:
            return
        brought = isinstance(classes, Mapping) and "AutoConfig" in classes
        known = brought and kind in OF_CODE_ALONE and _checkpoint.is_the_known(engine) and not args.open
        unlisted = brought and kind not in OF_VLLM and kind not in data.rows("model_defaults")
        older = kind in KNOWN_SINCE and release < KNOWN_SINCE[kind]
        if kind not in OF_CODE_ALONE and not unlisted and not older:
            return
        yield Finding(
            path=engine.argument("model"),
            message=f"{engine.model.value.id} brings the code of its config class ({kind}), and --trust-remote-code is "
            "not set",
            certainty=certainty(engine) if known else "likely",
            uncertain=uncertain(engine) if known else _doubt(kind, brought=brought),
            suggestions=("--trust-remote-code, after a look at the repository's code",),
        )


def _doubt(kind: str | None, *, brought: bool) -> str:
    """Why the finding may not apply. `brought`: the files are in the Pod."""
    return f"Transformers may know the type {kind}" if brought else "the repository may have changed"
