"""Rule trust-remote-code-missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.base import data
from webhook.rules import _checkpoint
from webhook.rules._flags import certainty, uncertain
from webhook.rules.engine import Engine
from webhook.rules.rule import Finding, Rule
from webhook.vllm.release import Release

READ_FROM_UNTIL = Release(0, 8, 5), Release(0, 34)
"""From the first until before the second: transformers_utils/config.py get_config."""
OF_VLLM = frozenset({
    "afmoe", "arctic", "bagel", "chatglm", "cohere2", "dbrx", "deepseek_vl_v2", "deepseek_v3", "deepseek_v32", "eagle",
    "exaone", "exaone4", "h2ovl_chat", "hunyuan_vl", "internvl_chat", "isaac", "jais", "kimi_k2", "kimi_k25",
    "kimi_linear", "kimi_vl", "mlp_speculator", "medusa", "midashenglm", "minimax_text_01", "minimax_vl_01", "mllama",
    "moondream3", "mpt", "nemotron", "olmo3", "openvla", "ovis", "qwen3_next", "RefinedWeb", "RefinedWebModel",
    "skywork_chat", "solar", "speculators", "step3_text", "step3_vl", "step3p5", "tarsier2", "telechat", "ultravox",
    "umm",
})  # fmt: skip
"""Types whose config class vLLM brings in some release (_CONFIG_REGISTRY), or maps to another."""
OF_CODE_ALONE = frozenset({"internlm2"})
"""Types that neither Transformers 4.56 … 5.20 nor vLLM 0.11 … 0.33 knows."""


class TrustRemoteCodeMissing(Rule):
    """The model's config class is code of its own, and --trust-remote-code is not set.

    A config.json names the class of a config that Transformers does not know in `auto_map`. vLLM does not run such code
    unasked:

        ValueError: The repository internlm/internlm2_5-7b-chat contains custom code which must be executed to correctly
        load the model. … Please pass the argument `trust_remote_code=True` to allow custom code to be run.

    It denies if the config.json was given for exactly this model and neither Transformers nor vLLM has a class for its
    `model_type`. Of other types it warns, for another release of Transformers may know them.
    """

    plane = "config"
    mode = "deny"
    needs = ("model", "release")
    about = ("a model with code",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain of the types that were looked up."""
        args, release = engine.args, engine.release
        if engine.model is None or release is None or not READ_FROM_UNTIL[0] <= release < READ_FROM_UNTIL[1]:
            return
        config = engine.model.value.config
        classes, kind = config.get("auto_map"), str(config.get("model_type"))
        if not isinstance(classes, Mapping) or "AutoConfig" not in classes or args.given.get("trust_remote_code"):
            return
        if kind in OF_VLLM or kind in data.rows("model_defaults") or "trust_remote_code" in args.unresolved:
            return
        known = kind in OF_CODE_ALONE and _checkpoint.is_the_known(engine) and not args.open
        yield Finding(
            path=engine.argument("model"),
            message=f"{engine.model.value.id} brings the code of its config class ({kind}), and --trust-remote-code is "
            "not set",
            certainty=certainty(engine) if known else "likely",
            uncertain=uncertain(engine) if known else f"Transformers may know the type {kind}",
            suggestions=("--trust-remote-code, after a look at the repository's code",),
        )
