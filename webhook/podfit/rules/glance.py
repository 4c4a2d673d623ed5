"""What one glance at an engine shows: enough to know of most rules that they have nothing to say of it."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from podfit.kube.path import mapping
from podfit.rules._flags import TWO_COLONS, comment, has_a_blank, has_a_sign
from podfit.rules.command_line import _combinations, _speculative, _values
from podfit.rules.engine import Engine
from podfit.rules.rule import FACTS, UNREAD_SCRIPT
from podfit.vllm.args import settings
from podfit.vllm.model import remote_code

FACT = {name: attrgetter(name) for name in FACTS}
"""A word of FACTS → what the engine knows of it."""
_ALL = attrgetter(*FACTS)
_NUMBERS = frozenset({"max_model_len", "max_num_seqs"})
"""Arguments that many Pods set; nearly all of their values pass every check, and the others are easily recognized."""
CONFIGURED = (
    frozenset({row.dest for module in (_combinations, _values, _speculative) for row in module.CHECKS}) - _NUMBERS
)
"""The other arguments that some check of vLLM's configuration is about (`conflicting-flags`)."""


def unknown(engine: Engine) -> frozenset[str]:
    """The words of FACTS that nothing is known of."""
    return frozenset([name for name, known in zip(FACTS, _ALL(engine), strict=True) if known is None])


def shown(engine: Engine) -> list[str]:
    """The terms of `Rule.about` that apply to this engine.

    - the object's kind
    - the names of the fields of the Pod, the container, its resources and its limits
    - the names of the given arguments and variables
    - the descriptions below that are true"""
    command, args, spec, requested = engine.command, engine.args, engine.container.spec, engine.requested
    gpus = engine.gpu.value.gpus if engine.gpu else ()
    model, host = engine.model.value if engine.model else None, engine.plan.host
    words = (
        ("a shell", command.shell),
        ("words that are lost", command.lost),
        ("words that are cut off", command.cut_off),
        ("a positional that is ignored", args.unserved),
        ("a file of arguments", args.written.get("config")),
        ("a slip", command.slip),
        ("a blank in a word", has_a_blank(engine)),
        ("a sign in a word", has_a_sign(engine)),
        ("a comment in a word", engine.once(comment)),
        ("a field with two colons", not TWO_COLONS.isdisjoint(spec)),
        ("a second entrypoint", command.repeated),
        (UNREAD_SCRIPT, command.unread),
        ("unknown flags", args.unknown or args.unheard),
        ("conflicts", args.conflicts),
        ("no context length", "max_model_len" not in args.given),
        ("an argument of the configuration", _is_configured(args.given)),
        ("tensor parallelism", args.get("tensor_parallel_size") not in (None, 1)),
        ("a path as model", (args.model or "").startswith("/")),
        ("a config", not settings.config_arguments().isdisjoint(args.given)),
        ("a variable that is checked", not settings.variables().isdisjoint(command.env)),
        ("a quantized checkpoint", model is not None and model.quantization_config),
        ("a model with code", model is not None and remote_code.may_run(model)),
        ("a gated model", model is not None and model.gated),
        ("Gemma 4", model is not None and model.model_type == "gemma4"),
        ("a GPU without bfloat16", [one for one in gpus if one.supports_bf16 is False]),
        ("offloaded memory", host is not None and host.offloaded.likely > 0),
        ("a workload", engine.workload.kind != "Pod"),
        ("vLLM's CPU backend", engine.on_processors),
        ("no known GPU", not gpus or requested is None),
        ("several products", len(gpus) > 1),
        ("MIG", (gpus and gpus[0].mig) or (requested is not None and "/mig-" in requested[0])),
        ("live nodes", engine.placement),
        ("another engine", len(engine.siblings) > 1),
        ("a volume at /dev/shm", engine.shm.mounted),
        ("no memory limit", engine.memory_limit is None),
        ("no startup probe", not mapping(spec.get("startupProbe"))),
        ("annotations", engine.workload.annotations),
    )
    said = [word for word, there in words if there]
    resources = mapping(spec.get("resources"))
    fields = [*engine.workload.spec, *spec, *resources, *mapping(resources.get("limits"))]
    return [*said, engine.workload.kind, *fields, *args.given, *command.env]


def _is_configured(given: Mapping[str, object]) -> bool:
    """Whether a check of vLLM's configuration may reject an argument."""
    if not CONFIGURED.isdisjoint(given):
        return True
    return _combinations.may_exceed_batch(given) or _values.may_be_no_length(given)
