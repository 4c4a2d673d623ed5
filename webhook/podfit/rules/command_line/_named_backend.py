"""Findings on the attention backend that a flag, a config or a variable names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from podfit.kube.path import FieldPath
from podfit.rules._flags import BACKEND_VARIABLE, is_since, life, registry_certainty, uncertain, variable_at
from podfit.rules.command_line import _meant
from podfit.rules.devices import with_capability
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding
from podfit.vllm import change
from podfit.vllm.args import settings
from podfit.vllm.model.architectures import generates_text
from podfit.vllm.release import Release

CHOICES = Release(0, 11)
"""From this release on the variable has a list of choices, and `FLASH_ATTN_VLLM_V1` is not in it. 0.11.1 … 0.12 would
cut the suffix off (attention/selector.py), but they check the choices first (vLLM 0.11.0 … 0.14.1 envs.py)."""
ASKED_AT_START = Release(0, 13)
"""From this release on vLLM reads the variable for every model, before only for a model with attention (vLLM 0.13
engine/arg_utils.py, 0.12 attention/selector.py)."""


def unknown(engine: Engine) -> Iterator[Finding]:
    """A finding on an attention backend, of the flag or the variable, that the release does not have; none for an image
    that may have more."""
    release = engine.release
    given = engine.args.given.get("attention_backend")
    if isinstance(given, str) and given.lower() != "auto" and engine.args.is_sure("attention_backend"):
        refusal = settings.unknown_name("attention_backend", given.upper(), release)
        if refusal is not None and (registry_certainty(engine) == "certain" or engine.supposed):
            yield _unknown_backend(
                engine, engine.argument("attention_backend"), f"--attention-backend {given}", refusal
            )
    named = engine.command.env.get("VLLM_ATTENTION_BACKEND")
    if named is None or release is None or not BACKEND_VARIABLE[0] <= release <= BACKEND_VARIABLE[1]:
        return
    word = named.removesuffix("_VLLM_V1") if release < CHOICES else named
    refusal = settings.unknown_name("attention_backend", word, release)
    if refusal is not None and registry_certainty(engine) == "certain" and named not in refusal.allowed:
        yield _unknown_backend(
            engine, variable_at(engine, "VLLM_ATTENTION_BACKEND"), f"VLLM_ATTENTION_BACKEND {named}", refusal
        )


VALIDATES = Release(0, 11, 1)
"""From this release on vLLM checks whether an explicit backend supports the GPU, the dtypes and the model
(platforms/cuda.py get_attn_backend_cls). No release that was read replaces a named backend."""
CAPABILITIES: dict[str, tuple[str, Callable[[tuple[int, int]], bool]]] = {
    "FLASH_ATTN": ("8.0 or more", lambda has: has >= (8, 0)),
    "FLASHMLA": ("9.x or 10.x", lambda has: has[0] in (9, 10)),
    "FLASHMLA_SPARSE": ("9.x or 10.x", lambda has: has[0] in (9, 10)),
    "FLASH_ATTN_MLA": ("9.x", lambda has: has[0] == 9),
    "CUTLASS_MLA": ("10.x", lambda has: has[0] == 10),
    "FLASHINFER_MLA": ("10.x", lambda has: has[0] == 10),
}
"""Backend → the compute capabilities that it has kernels for. `supports_compute_capability` is the same in each of the
29 releases from 0.11.1 to 0.33 (vLLM v1/attention/backends/)."""
SINKS_ON_10 = Release(0, 17)
"""FLASH_ATTN computes attention sinks with FlashAttention 3 on 9.x. From this release on it also does so with
FlashAttention 4, its default on 10.x. Every other GPU gets FlashAttention 2, which has no sinks (vLLM 0.11.1 … 0.16 and
0.17 … 0.33 fa_utils.py get_flash_attn_version, flash_attn_supports_sinks)."""
FP8_VALUES = ("fp8", "fp8_e4m3", "fp8_e5m2")


def of_another_gpu(engine: Engine) -> Iterator[Finding]:
    """A finding on a chosen backend that can't run on any of the GPUs that the Pod may get. None unless each is a GPU
    of NVIDIA's whose compute capability is known."""
    chosen = _chosen_backend(engine)
    gpus = engine.gpu.value.gpus if engine.gpu else ()
    if chosen is None or not gpus:
        return
    if any(gpu.vendor != "nvidia" or gpu.compute_capability is None for gpu in gpus):
        return
    lack = _lack(engine, chosen.name, [gpu.compute_capability for gpu in gpus if gpu.compute_capability is not None])
    if lack is None:
        return
    model = engine.model.value if engine.model else None
    attends = model is not None and model.num_attention_heads and generates_text(model)
    yield Finding(
        path=chosen.path,
        message=f"{chosen.setting} {lack}, and this is {with_capability(gpus)}",
        certainty=registry_certainty(engine) if attends else "likely",
        uncertain=uncertain(engine),
        suggestions=(change.without(chosen.setting.partition(" ")[0], "without {}: vLLM chooses a backend that fits"),),
        rests_on=("gpu", "model"),
    )


def _lack(engine: Engine, backend: str, capabilities: Sequence[tuple[int, int]]) -> str | None:
    """The reason, after the backend's name, why the backend can't run this model on any GPU of these compute
    capabilities (major, minor). None if it can on one, or if that is unknown."""
    if backend not in CAPABILITIES:
        return None
    needed, runs_on = CAPABILITIES[backend]
    if not any(map(runs_on, capabilities)):
        return f"needs compute capability {needed}"
    if backend != "FLASH_ATTN":
        return None
    dtype, skipped = engine.args.given.get("kv_cache_dtype"), "kv_cache_dtype_skip_layers"
    of_all_layers = skipped not in engine.args.given and skipped not in engine.args.unresolved
    if dtype in FP8_VALUES and of_all_layers and all(major == 8 for major, _ in capabilities):
        return f"reads no {dtype} KV cache before compute capability 9.0"
    if engine.model is None or engine.model.value.model_type != "gpt_oss":
        return None  # gpt-oss has attention sinks
    majors = (9, 10) if is_since(engine, SINKS_ON_10) else (9,)
    if any(major in majors for major, _ in capabilities):
        return None
    return f"computes attention sinks on compute capability {' and '.join(f'{major}.x' for major in majors)} only"


class ChosenBackend(NamedTuple):
    """The attention backend that a setting chooses."""

    name: str
    setting: str
    """The flag or variable, and its value."""
    path: FieldPath


def _chosen_backend(engine: Engine) -> ChosenBackend | None:
    """The chosen attention backend.

    None if no backend is chosen, if two settings choose one, or if this release may use another backend."""
    release, given = engine.release, engine.args.given.get("attention_backend")
    if release is None or release < VALIDATES or engine.args.open:
        return None
    if {"attention_backend", "attention_config"} & engine.args.unresolved.keys():
        return None
    variable = engine.command.env.get("VLLM_ATTENTION_BACKEND") if release <= BACKEND_VARIABLE[1] else None
    if (config := engine.args.given.get("attention_config")) is not None:
        inside = config.get("backend") if isinstance(config, dict) and config.keys() <= {"backend"} else None
        if not isinstance(inside, str) or given is not None or variable is not None:
            return None
        path = engine.argument("attention_config")
        return ChosenBackend(inside.upper(), f"--attention-config backend {inside}", path)
    if isinstance(given, str) and variable is None:
        return ChosenBackend(given.upper(), f"--attention-backend {given}", engine.argument("attention_backend"))
    if given is None and variable is not None:
        name = "VLLM_ATTENTION_BACKEND"
        return ChosenBackend(variable, f"{name} {variable}", variable_at(engine, name))
    return None


def _unknown_backend(engine: Engine, path: FieldPath, what: str, refusal: settings.Refusal) -> Finding:
    """A finding about an attention backend that the release does not have. `what`: flag or variable, and its value."""
    flag, _, given = what.partition(" ")
    bare = given.removesuffix("_VLLM_V1")
    near = bare if bare in refusal.allowed else _meant.name(given, refusal.allowed)
    attends = is_since(engine, ASKED_AT_START)
    if engine.model is not None and engine.model.may_deny and engine.model.value.num_attention_heads:
        attends = True  # without attention, older releases do not look
    return Finding(
        path=path,
        certainty="certain" if attends else "likely",
        unknown_name=refusal.first is None,
        message=f"{what}: vLLM {engine.release} has no such attention backend{life(refusal, engine.release)}"
        + (f"; did you mean {near}?" if near else ""),
        details=(f"it has {', '.join(refusal.allowed)}",),
        suggestions=(change.flags(f"{flag} {near}") if flag.startswith("--") else f"{flag} {near}",) if near else (),
    )
