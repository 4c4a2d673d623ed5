"""The values that house-limits compares: what is known of each, and why vLLM may use another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

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
    value: V | None = None
    doubt: str | None = None
    """Why the value is not known, or why vLLM may use another one; None if it is certain."""
    yields_to: tuple[str, ...] = ()
    """Rules that report better why the value is not known."""


def _argument_doubt(engine: Engine, dest: str) -> str | None:
    """Why vLLM may get another value of an argument than the one that is read, or than its default; None if it gets
    this one."""
    args = engine.args
    if args.is_final(dest):
        return None
    if why := args.unresolved.get(dest) or args.doubtful.get(dest):
        return why
    if args.open or not engine.command.complete:
        return f"vLLM may get more arguments than can be seen here{f': {args.open}' if args.open else ''}"
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
_SPOILT = ("variable-not-expanded", "invalid-flag-value", "unknown-flag", "removed-flag", "argument-string-not-split")
"""Rules that report why vLLM does not accept an argument."""


def context_length(engine: Engine) -> Reading[int]:
    """The context length in tokens: as given, else the model's own. Without a value if the argument or the model's
    length is unknown."""
    args, path = engine.args, engine.argument("max_model_len")
    given, doubt = args.given.get("max_model_len"), _argument_doubt(engine, "max_model_len")
    if isinstance(given, int) and given > 0:
        return Reading(f"--max-model-len {given:,}", path, given, doubt)
    if doubt:
        return Reading("", path, None, doubt, _SPOILT)
    own = engine.model and derived_max_model_len(
        engine.model.value, engine.release, bool(args.get("disable_sliding_window"))
    )
    if not own:
        why = "the model is not known" if engine.model is None else "the model's own length is not known"
        return Reading("", path, None, f"--max-model-len is not set, and {why}", ("unknown-model",))
    if given is not None:
        return Reading(f"--max-model-len auto, up to {own:,}", path, own, "vLLM takes what fits the GPU")
    text = f"--max-model-len is not set, so the model's default of {own:,} tokens applies"
    return Reading(text, path, own, _own_length_doubt(engine))


def _own_length_doubt(engine: Engine) -> str | None:
    """Why the model's own context length may be another one; None if it is certain."""
    model = engine.model
    if model is None or not model.may_deny or not model.value.length_read:
        return f"the length is from {model.source}" if model else "the model is not known"
    named = engine.args.model or hub_id(engine.workload.model_uri or "") or ""
    given = "*" in engine.facts.models
    if not given and (annotated(engine.workload) or named.lower() != model.value.id.lower()):
        return "the object does not name the model that was read"
    changing = (*CHANGES_LENGTH, "revision", "code_revision", "trust_remote_code")
    changes = next((dest for dest in changing if engine.args.given.get(dest) or dest in engine.args.unresolved), None)
    if changes:
        return f"--{changes.replace('_', '-')} may change the length"
    if embeds(model.value):
        return "an embedding model's sentence_bert_config.json may set another length"
    return doubt.of_default_length(engine.args, model.value) or _default_doubt(engine)


def gpu_share(engine: Engine) -> Reading[float]:
    """The share of GPU memory that vLLM may use: as given, else the release's default. Without a value if the argument
    is unknown, or if --kv-cache-memory-bytes replaces it."""
    dest = "gpu_memory_utilization"
    path, why = engine.argument(dest), _argument_doubt(engine, dest)
    given = engine.args.given.get(dest)
    if engine.args.given.get("kv_cache_memory_bytes"):
        return Reading("", path, None, "--kv-cache-memory-bytes is used instead of a share")
    if isinstance(given, int | float) and not isinstance(given, bool):
        return Reading(f"--gpu-memory-utilization {given:g}", path, float(given), why)
    if why:
        return Reading("", path, None, why, _SPOILT)
    share = default_utilization(engine.release or known_releases()[-1])
    text = f"--gpu-memory-utilization is not set, so vLLM's default of {share:g} applies"
    return Reading(text, path, share, _default_doubt(engine))


def release(engine: Engine) -> Reading[Release]:
    """The vLLM release in the image; without a value if the image names none."""
    image, path = engine.field("image"), engine.at("image")
    text = f"image {image!r}" if isinstance(image, str) else "the image"
    release = engine.release
    if release is None:
        named = "names no vLLM release" if isinstance(image, str) else "is not in the object"
        return Reading("", path, None, f"{text} {named}", ("unpinned-image",))
    doubt = None
    if engine.informs:
        doubt = _reason_of_release(engine)
    elif "vllm" in engine.command.changes:
        doubt = f"the script installs vLLM {release}, or another one"
    return Reading(f"{text} has vLLM {release}", path, release, doubt)


def model(engine: Engine, allowed: Sequence[str]) -> Reading[tuple[str, ...]]:
    """The names of the served model, one of which must be allowed: as the object writes it, and what it stands for."""
    path, why = engine.argument("model"), _argument_doubt(engine, "model")
    known = engine.model.value.id if engine.model else None
    named = engine.args.model
    if (named is None and "model" not in engine.args.unresolved) or (named and MOUNTS.fullmatch(named)):
        named = engine.workload.model_uri or named  # the operator mounts it there
    if named is None:
        if known is None:
            return Reading("", path, None, why or "the object names no model", ("unknown-model", *_SPOILT))
        if why is None and is_default(engine.model):
            return Reading(f"model {known!r}, vLLM's default", path, (known,), _default_doubt(engine))
        return Reading(f"model {known!r}", path, (known,), why or "the object does not name it to vLLM")
    if hub := hub_id(named):
        return Reading(f"model {hub!r}", path, (hub, named), why)
    if not is_path(named) or is_allowed((named,), allowed):
        return Reading(f"model {named!r}", path, (named,), why)
    why = why or "which model is in a folder or a bucket is not in the object"
    if known is None:
        return Reading("", path, None, why, ("unknown-model",))
    return Reading(f"model {named!r}, which may be {known!r}", path, (known,), why)


def is_allowed(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """True if a pattern matches one of the names, in any case."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in names for pattern in patterns)


def host_minimum(engine: Engine) -> tuple[int, str | None]:
    """The certain minimum of host memory in bytes, and why it is not the whole minimum of the ledger; None if it is."""
    host, model = engine.plan.host, engine.model
    if memory_sizes.elsewhere(engine):
        return 0, "the engine spans several Pods, and which of its processes run in this one is not known"
    if host is None:
        return 0, "the model is not known" if model is None else "podfit does not compute the memory of this engine"
    if engine.gpu is not None and any(gpu.unified_memory for gpu in engine.gpu.value.gpus):
        return 0, "the GPU shares its memory with the host"
    floor = host.need.floor
    if engine.vendor == "amd":
        floor -= host.offloaded.floor  # as in `memory_sizes.certainty`
    of_arguments = min(sum(line.floor for name, line in host.lines if name in MODEL_FREE), floor)
    why = engine.args.open or newer_than_read(engine.release) or engine.unseen
    if why or not engine.command.complete:
        return 0, why or "the manifest does not show every argument"
    if engine.informs:
        return 0, _reason_of_release(engine)
    if engine.doubt:
        return of_arguments, engine.doubt
    if model is None or not model.may_deny:
        return of_arguments, f"the model is from {model.source}" if model else "the model is not known"
    return floor, None
