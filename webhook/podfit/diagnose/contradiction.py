"""The log of a start and a manifest → where they differ. The log is what ran; the manifest may be another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from podfit.diagnose import calibrate
from podfit.diagnose.calibrate import Start
from podfit.kube.patch import Edit, edited
from podfit.kube.quantity import GI
from podfit.kube.workload import JSON
from podfit.rules.engine import Engine
from podfit.vllm import measured

SAME_SHARE = 0.05
"""The memory that PyTorch reports of two GPUs of one name differs by less (ECC, firmware, display); that of two
other GPUs by more (`webhook/podfit/data/gpus.json`)."""


ADDITIONAL = "VLLM_ADDITIONAL_ARGS"
"""The variable whose words KServe's presets for LLMInferenceService append to the command."""
SET_BY_OPERATORS = frozenset(("model", "served_model_name", "host", "port"))
"""Arguments that KServe's runtimes set, whatever the manifest says (KServe
config/runtimes/kserve-huggingfaceserver.yaml: `--model_dir=/mnt/models --model_name={{.Name}}`, port 8080)."""


@dataclass(frozen=True)
class Contradiction:
    """One value that the log and the manifest have differently."""

    name: str
    """ "GPU memory", "vLLM", "model" or a flag."""
    log: str
    manifest: str

    def __str__(self) -> str:
        return f"{self.name}: {self.log} in the log, {self.manifest} in the manifest"


def find(start: Start, engine: Engine) -> Iterator[Contradiction]:
    """Yield each value of a logged start that is not this engine's: the GPU's memory, release, model and arguments.
    Values that are unknown on one side do not contradict each other."""
    total, gpu = start.sizes.get("total"), engine.gpu.value if engine.gpu else None
    if (
        total
        and gpu
        and gpu.gpus
        and all(abs(total - product.memory) > SAME_SHARE * product.memory for product in gpu.gpus)
    ):
        has = min(product.memory for product in gpu.gpus)
        yield Contradiction("GPU memory", _gib(total), f"{_gib(has)} ({gpu.name})")
    if start.release and engine.release and start.release != engine.release:
        yield Contradiction("vLLM", str(start.release), str(engine.release))
    ran, named = start.model, engine.args.model
    if ran and named and is_hub_id(ran) and is_hub_id(named) and ran.lower() != named.lower():
        yield Contradiction("model", ran, named)
    yield from _arguments(start, engine)
    length, used = engine.args.given.get("max_model_len"), start.max_model_len
    if start.given is None and isinstance(length, int) and length > 0 and used and length != used:
        yield Contradiction("--max-model-len", str(used), str(length))


def is_hub_id(name: str) -> bool:
    """`ORG/NAME`: a path says nothing, since an operator or a script may put any model there (KServe: /mnt/models)."""
    return name.count("/") == 1 and not name.startswith(("/", "."))


def _gib(size: int) -> str:
    """A size as vLLM prints it."""
    return f"{size / GI:.2f} GiB"


def _arguments(start: Start, engine: Engine) -> Iterator[Contradiction]:
    """Arguments with other values; none if the log does not list arguments. Only plain values are compared: a log
    prints others as Python sees them. If a controller may add arguments (KServe's ServingRuntime), only those count
    that the manifest gives itself."""
    if start.given is None:
        return
    defaults = engine.args.defaults
    ran, _ = measured.own_arguments(start.given, defaults, {})
    manifest_arguments, _ = measured.own_arguments(engine.args.given, defaults, {})
    dests = ran.keys() & manifest_arguments.keys() if engine.args.open else ran.keys() | manifest_arguments.keys()
    for dest in sorted(dests - (SET_BY_OPERATORS if engine.args.open else frozenset())):
        logged, other = ran.get(dest, defaults.get(dest)), manifest_arguments.get(dest, defaults.get(dest))
        known = dest in defaults and dest not in engine.args.unresolved
        plain = all(value is None or isinstance(value, str | int | float) for value in (logged, other))
        if known and plain and str(logged).lower() != str(other).lower():
            yield Contradiction(f"--{dest.replace('_', '-')}", _value_text(logged), _value_text(other))


def _value_text(value: object) -> str:
    return "not set" if value is None else str(value)


def as_logged(obj: JSON, engine: Engine, start: Start) -> JSON:
    """The manifest with the arguments and the release of the log, if the log lists them and they differ; unchanged for
    a container that the manifest does not have itself."""
    edits = []
    own, argv = engine.container.path, calibrate.argv(start)  # of a predictor, `at("command")` is its storageUri
    if argv is not None and any(_arguments(start, engine)):
        if engine.model is not None and not is_hub_id(str(start.model)):
            argv[2] = engine.model.value.id  # what an operator put at the path that the log names
        edits += [Edit(own / "command", argv), Edit(own / "args", op="remove")]
        env = engine.container.spec.get("env")
        edits += [
            Edit(own.join("env", place, "value"), "")
            for place, item in enumerate(env if isinstance(env, list) else ())
            if isinstance(item, Mapping) and item.get("name") == ADDITIONAL
        ]
    if start.release and start.release != engine.release:
        edits.append(Edit(engine.at("image"), f"vllm/vllm-openai:v{start.release}"))
    changed: JSON = edited(obj, [edits])[0] if edits and not engine.container.synthetic else obj
    return changed
