"""What the rules about architectures that this release does not serve share."""

from __future__ import annotations

from webhook.rules import _flags
from webhook.rules.engine import Engine
from webhook.rules.rule import Finding


def is_looked_up(engine: Engine) -> bool:
    """vLLM looks the model's architecture up in its registry: no argument has it look up another one, or in
    Transformers at once."""
    given = engine.args.given
    if given.get("hf_overrides") or given.get("hf_config_path"):
        return False
    return given.get("model_impl") in (None, "auto", "vllm")


def trusts_code(engine: Engine) -> bool:
    """The checkpoint's own code may run, and bring what vLLM lacks."""
    return bool(engine.args.given.get("trust_remote_code")) or "trust_remote_code" in engine.args.unresolved


def finding(engine: Engine, message: str, *, unserved: bool, instead: str) -> Finding:
    """Certain in vLLM's own image where nothing else serves the architecture (`unserved`); `instead`: what to run."""
    return Finding(
        path=engine.argument("model"),
        message=message,
        certainty=_flags.registry_certainty(engine) if unserved else "likely",
        details=() if unserved else ("Transformers may serve it in vLLM's place",),
        suggestions=(instead,),
        rests_on=("model", "release"),
    )
