"""The values that house-limits compares: what is known of each, and why vLLM may use another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Generic, NamedTuple, TypeVar

from podfit.kube.path import FieldPath
from podfit.rules import _flags, memory_sizes
from podfit.rules.engine import NVIDIAS, Engine
from podfit.vllm.memory import doubt
from podfit.vllm.memory.arguments import embeds
from podfit.vllm.memory.host import MODEL_FREE
from podfit.vllm.memory.settings import default_utilization
from podfit.vllm.model import CHANGES_LENGTH, MOUNTS, annotated, derived_max_model_len, hub_id, is_default, is_path
from podfit.vllm.release import Release, known_releases, newer_than_read

V = TypeVar("V")


@dataclass(frozen=True)
class Reading(Generic[V]):
    """A value that the policy limits, as it is known of the container."""

    text: str
    """The value, for people; empty if it is not known."""
    path: FieldPath
    """The field that sets it, or could."""
    value: V | None = None
    """None if it is not known."""
    doubt: str | None = None
    """Why the value is not known, or why vLLM may use another one; None if it is certain."""
    yields_to: tuple[str, ...] = ()
    """Rules that report better why the value is not known."""


def _argument_doubt(engine: Engine, dest: str) -> str | None:
    """Why vLLM may get another value of an argument than the one that is read, or than its default; None if it gets
    this one."""
    args = engine.args
    if args.is_final(dest):
        return None  # nothing later in the command can replace it
    if why := args.unresolved.get(dest) or args.doubtful.get(dest):
        return why
    if args.open:
        return f"vLLM may get more arguments than can be seen here: {args.open}"
    if not engine.command.complete:
        return "vLLM may get more arguments than can be seen here"
    if _flags.spoilt(engine, dest):
        return f"vLLM does not accept --{dest.replace('_', '-')} as it is written"
    return None


def _reason_of_release(engine: Engine) -> str:
    """The doubt about a release that only informs (`Engine.informs`)."""
    return f"vLLM {engine.release} is read from a part of the image's name"


def _default_doubt(engine: Engine) -> str | None:
    """Why a default of vLLM's own may not apply; None if it does."""
    if engine.release is None:
        return "the image names no vLLM release"
    if engine.informs:
        return _reason_of_release(engine)
    if engine.command.own_flags or engine.command.other:
        return f"{engine.command.other or engine.command.program} may have other defaults"
    image = engine.field("image")
    if isinstance(image, str) and NVIDIAS in image:
        return "NVIDIA's build of vLLM may have other defaults"
    return newer_than_read(engine.release) or _flags.uncertain(engine)


UNKNOWN_MEMORY = ("memory-limit-missing", "unknown-model")
"""Rules that report why the minimum of host memory, or the limit, is unknown."""
UNKNOWN_ARGUMENT = (
    "variable-not-expanded",
    "invalid-flag-value",
    "unknown-flag",
    "removed-flag",
    "argument-string-not-split",
)
"""Rules that report why vLLM does not accept an argument."""


def context_length(engine: Engine) -> Reading[int]:
    """The context length in tokens: --max-model-len, else the model's own. Of `--max-model-len auto` it is the model's
    own, the most that vLLM may take. Without a value if the argument or the model's length is unknown."""
    args, path = engine.args, engine.argument("max_model_len")
    given, doubt = args.given.get("max_model_len"), _argument_doubt(engine, "max_model_len")
    if isinstance(given, int) and given > 0:
        return Reading(text=f"--max-model-len {given:,}", path=path, value=given, doubt=doubt)
    if doubt:
        return Reading(text="", path=path, doubt=doubt, yields_to=UNKNOWN_ARGUMENT)
    if engine.model is None:
        doubt = "--max-model-len is not set, and the model is not known"
        return Reading(text="", path=path, doubt=doubt, yields_to=("unknown-model",))
    own = derived_max_model_len(engine.model.value, engine.release, bool(args.get("disable_sliding_window")))
    if not own:
        doubt = "--max-model-len is not set, and the model's own length is not known"
        return Reading(text="", path=path, doubt=doubt, yields_to=("unknown-model",))
    if given is not None:  # -1 or auto: positive numbers have returned above
        text = f"--max-model-len auto, up to {own:,}"
        return Reading(text=text, path=path, value=own, doubt="vLLM takes what fits the GPU")
    text = f"--max-model-len is not set, so the model's default of {own:,} tokens applies"
    return Reading(text=text, path=path, value=own, doubt=_own_length_doubt(engine))


def _own_length_doubt(engine: Engine) -> str | None:
    """Why the model's own context length may be another one; None if it is certain."""
    model = engine.model
    if model is None:
        return "the model is not known"
    if not model.may_deny or not model.value.length_read:
        return f"the length is from {model.source}"
    named = engine.args.model or hub_id(engine.workload.model_uri or "") or ""
    is_named = named.lower() == model.value.id.lower() and not annotated(engine.workload)
    is_of_user = "*" in engine.facts.models  # the user's config.json is used for every model
    if not is_named and not is_of_user:
        return "the object does not name the model that was read"
    for dest in (*CHANGES_LENGTH, "revision", "code_revision", "trust_remote_code"):
        if engine.args.given.get(dest) or dest in engine.args.unresolved:
            return f"--{dest.replace('_', '-')} may change the length"
    if embeds(model.value):
        return "an embedding model's sentence_bert_config.json may set another length"
    return doubt.of_default_length(engine.args, model.value) or _default_doubt(engine)


def gpu_share(engine: Engine) -> Reading[float]:
    """The share of GPU memory that vLLM may use, above 0 and at most 1: --gpu-memory-utilization, else the default of
    the release, or of the newest known one. Without a value if the argument is unknown, or if --kv-cache-memory-bytes
    replaces it."""
    dest = "gpu_memory_utilization"
    path, doubt = engine.argument(dest), _argument_doubt(engine, dest)
    given = engine.args.given.get(dest)
    if engine.args.given.get("kv_cache_memory_bytes"):
        return Reading(text="", path=path, doubt="--kv-cache-memory-bytes is used instead of a share")
    if isinstance(given, int | float) and not isinstance(given, bool):
        return Reading(text=f"--gpu-memory-utilization {given:g}", path=path, value=float(given), doubt=doubt)
    if doubt:
        return Reading(text="", path=path, doubt=doubt, yields_to=UNKNOWN_ARGUMENT)
    share = default_utilization(engine.release or known_releases()[-1])
    text = f"--gpu-memory-utilization is not set, so vLLM's default of {share:g} applies"
    return Reading(text=text, path=path, value=share, doubt=_default_doubt(engine))


def release(engine: Engine) -> Reading[Release]:
    """The vLLM release in the image; without a value if the image names none."""
    image, path = engine.field("image"), engine.at("image")
    image_text = f"image {image!r}" if isinstance(image, str) else "the image"
    release = engine.release
    if release is None:
        problem = "names no vLLM release" if isinstance(image, str) else "is not in the object"
        return Reading(text="", path=path, doubt=f"{image_text} {problem}", yields_to=("unpinned-image",))
    doubt = None
    if engine.informs:
        doubt = _reason_of_release(engine)
    elif "vllm" in engine.command.changes:
        doubt = f"the script installs vLLM {release}, or another one"
    return Reading(text=f"{image_text} has vLLM {release}", path=path, value=release, doubt=doubt)


def model(engine: Engine, allowed: Sequence[str]) -> Reading[tuple[str, ...]]:
    """The names of the served model, of which the policy has to allow one. `allowed`: the policy's patterns.

    They are the model's id on the hub and the name that the object has. Of a folder or a bucket whose path the policy
    does not allow, it is the id of the model that is probably there. Without a value if neither is known."""
    path, doubt = engine.argument("model"), _argument_doubt(engine, "model")
    known = engine.model.value.id if engine.model else None
    named = _model_name(engine)
    if named is None:
        return _unnamed_model(engine, known, doubt)
    if hub := hub_id(named):
        return Reading(text=f"model {hub!r}", path=path, value=(hub, named), doubt=doubt)
    if not is_path(named) or is_allowed((named,), allowed):
        return Reading(text=f"model {named!r}", path=path, value=(named,), doubt=doubt)
    doubt = doubt or "which model is in a folder or a bucket is not in the object"
    if known is None:
        return Reading(text="", path=path, doubt=doubt, yields_to=("unknown-model",))
    return Reading(text=f"model {named!r}, which may be {known!r}", path=path, value=(known,), doubt=doubt)


def _model_name(engine: Engine) -> str | None:
    """The model as the object names it: vLLM's argument, or the URI of the model that an operator mounts there. None if
    it names none, or its argument is unknown."""
    named, uri = engine.args.model, engine.workload.model_uri
    if named is None:
        return uri if "model" not in engine.args.unresolved else None
    return uri if uri and MOUNTS.fullmatch(named) else named


def _unnamed_model(engine: Engine, known: str | None, doubt: str | None) -> Reading[tuple[str, ...]]:
    """`model` of an object that names none. `known`: the id of the model from elsewhere, such as vLLM's default or an
    annotation; `doubt`: why vLLM's argument is unknown. Both may be None."""
    path = engine.argument("model")
    if known is None:
        rules = ("unknown-model", *UNKNOWN_ARGUMENT)
        return Reading(text="", path=path, doubt=doubt or "the object names no model", yields_to=rules)
    if doubt is None and is_default(engine.model):
        doubt = _default_doubt(engine)
        return Reading(text=f"model {known!r}, vLLM's default", path=path, value=(known,), doubt=doubt)
    doubt = doubt or "the object does not name it to vLLM"
    return Reading(text=f"model {known!r}", path=path, value=(known,), doubt=doubt)


def is_allowed(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """True if a pattern matches one of the names, in any case."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in names for pattern in patterns)


class HostMinimum(NamedTuple):
    """The host memory that the container certainly needs."""

    size: int
    """Bytes; 0 if nothing is certain."""
    doubt: str | None = None
    """Why the need may be larger than `size`, for people; None if `size` is the minimum of the ledger."""


def host_minimum(engine: Engine) -> HostMinimum:
    """The certain minimum: of the whole ledger, or of the lines that follow from the arguments alone if the model or
    its plan is in doubt."""
    host, model = engine.plan.host, engine.model
    if memory_sizes.elsewhere(engine):
        doubt = "the engine spans several Pods, and which of its processes run in this one is not known"
        return HostMinimum(size=0, doubt=doubt)
    if host is None:
        doubt = "the model is not known" if model is None else "podfit does not compute the memory of this engine"
        return HostMinimum(size=0, doubt=doubt)
    if hidden := _hidden_need(engine):
        return HostMinimum(size=0, doubt=hidden)
    floor = host.need.floor
    if engine.vendor == "amd":
        floor -= host.offloaded.floor  # pinned memory is the driver's there, as in `memory_sizes.certainty`
    of_arguments = min(sum(line.floor for name, line in host.lines if name in MODEL_FREE), floor)
    if engine.doubt:
        return HostMinimum(size=of_arguments, doubt=engine.doubt)
    if model is None:
        return HostMinimum(size=of_arguments, doubt="the model is not known")
    if not model.may_deny:
        return HostMinimum(size=of_arguments, doubt=f"the model is from {model.source}")
    return HostMinimum(size=floor)


def _hidden_need(engine: Engine) -> str | None:
    """Why no part of the need is certain, for people: the GPU, the arguments or the release; None if a part is."""
    if engine.gpu is not None and any(gpu.unified_memory for gpu in engine.gpu.value.gpus):
        return "the GPU shares its memory with the host"
    if why := engine.args.open or newer_than_read(engine.release) or engine.unseen:
        return why
    if not engine.command.complete:
        return "the manifest does not show every argument"
    return _reason_of_release(engine) if engine.informs else None
