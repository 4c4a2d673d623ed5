from __future__ import annotations

from collections.abc import Iterator

from podfit.rules._flags import certainty, is_since
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.memory.dtype import READ_SINCE, lacks_half


class ModelLacksDtype(Rule):
    """The model can't be served in float16.

    The activations of some families overflow float16, and vLLM does not serve them in it:

        ValueError: The model type 'gemma3' does not support float16. Reason: Numerical instability. Please use bfloat16
        or float32 instead.

    A GPU without bfloat16 (a T4, a V100) is left with float32, which takes twice the memory.
    """

    plane = "config"
    event = "vLLM exits before it loads the model"
    mode = "deny"
    needs = ("model", "vllm_args")

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain from the oldest release whose table was read."""
        given = engine.args.given.get("dtype")
        if engine.model is None or "dtype" in engine.args.unresolved or given not in ("half", "float16"):
            return
        if not lacks_half(engine.model.value, engine.release):
            return
        known = is_since(engine, READ_SINCE)
        yield Finding(
            path=engine.argument("dtype"),
            message=f"--dtype {given}: vLLM does not serve the model type {engine.model.value.model_type!r} in float16",
            certainty=certainty(engine) if known else "likely",
            suggestions=(
                "--dtype bfloat16 on a GPU of compute capability 8.0 or higher",
                change.flags("--dtype float32"),
            ),
        )
