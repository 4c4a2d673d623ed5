from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from podfit.base.lazy import regex
from podfit.kube.path import FieldPath
from podfit.rules._flags import certainty, is_since, life, registry_certainty, uncertain
from podfit.rules.command_line import _meant
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule
from podfit.vllm import change
from podfit.vllm.args import settings
from podfit.vllm.gpu import Gpu
from podfit.vllm.memory.v0_fallback import BEFORE_AMPERE
from podfit.vllm.release import Release, is_official

READS_PORT = Release(0, 4, 3)
"""Since then an engine asks VLLM_PORT for a port whenever it starts (vLLM envs.py get_vllm_port)."""
V1_SWITCH = Release(0, 8), Release(0, 11, 0)
"""VLLM_USE_V1 is read as a number in these; the last one has no V0 any more (vLLM 0.11.0 v1/engine/async_llm.py)."""
BACKEND = Release(0, 10, 1), Release(0, 14, 99)
"""vLLM rejects a VLLM_ATTENTION_BACKEND that is not a backend's name (read in vLLM 0.10.1.1 … 0.12
attention/selector.py, 0.13 and 0.14.1 envs.py). Earlier releases choose another backend; later ones ignore the
variable."""
CHOICES = Release(0, 11)
"""From this release on the variable has a list of choices, and `FLASH_ATTN_VLLM_V1` is not in it. 0.11.1 … 0.12 would
cut the suffix off (attention/selector.py), but they check the choices first (vLLM 0.11.0 … 0.14.1 envs.py)."""
ASKED_AT_START = Release(0, 13)
"""From this release on vLLM reads the variable for every model, before only for a model with attention (vLLM 0.13
engine/arg_utils.py, 0.12 attention/selector.py)."""
READ_AT_ONCE = Release(0, 11, 1)
"""Since this release the engine reads all of vLLM's variables while it starts, used or not (v1/engine/core.py
`enable_envs_cache`). Earlier releases read only the variables that they need."""
METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
"""vLLM may write `spawn` in its place: on processors and Intel's GPUs, in a Ray actor, with --numa-bind, under WSL
(vLLM 0.33 utils/system_utils.py `_maybe_force_spawn`, platforms/)."""
LOGGING = "VLLM_CONFIGURE_LOGGING"
"""Read by every release while it is imported (logger.py)."""
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL", "NOTSET")
"""Python's names of levels (logging `_nameToLevel`), to which vLLM adds none."""
LEVELS_SINCE = Release(0, 4, 3)
"""From then on the variable goes into `logging.config.dictConfig` while vLLM is imported (vLLM 0.4.3 … 0.33
logger.py)."""
EXACT_LEVELS = Release(0, 8, 0)
"""Until then as it is written, from 0.8.5 on in capitals (envs.py); what is between was not read."""
SWITCHES = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}
"""A value that people write → the value that vLLM reads."""
MAX_DIGITS = 4300
"""Digits of a number that Python reads (sys.int_info.default_max_str_digits)."""
NUMBER = regex(r"\s*[+-]?\d+(_\d+)*\s*")
"""The texts that Python's int() takes."""


class InvalidEnvironment(Rule):
    """vLLM rejects the value of one of its environment variables.

    vLLM reads its variables as strictly as its flags, but later. `VLLM_PORT` is a number; with the address of a Service
    in it, vLLM ends with

        ValueError: VLLM_PORT 'tcp://10.0.0.7:8000' appears to be a URI. This may be caused by a Kubernetes service
        discovery issue

    `VLLM_USE_V1` is 0 or 1, not `false`; v0.11.0 still knows the variable, but has no V0:

        ValueError: invalid literal for int() with base 10: 'false'
        ValueError: Using V1 AsyncLLMEngine, but envs.VLLM_USE_V1=False. This should not happen.

    Before v0.10.2 the V1 engine needs compute capability 8.0; without the variable vLLM takes V0 on older GPUs, with
    `VLLM_USE_V1=1` it ends:

        NotImplementedError: VLLM_USE_V1=1 is not supported with Compute Capability < 8.0.

    `VLLM_ATTENTION_BACKEND` (from v0.10.1 until v0.14) and `--attention-backend` (since v0.13) name a backend that the
    release has; most releases rename some:

        ValueError: Invalid attention backend: 'FLASHATTN'. Valid backends are: ['FLASH_ATTN', 'TRITON_ATTN', …
        ValueError: Unknown attention backend: 'XFORMERS'. Valid options are: FLASH_ATTN, FLASH_ATTN_DIFFKV, …

    Since v0.11 some variables have choices, many are numbers, and most switches are 0 or 1; since v0.11.1 the engine
    reads all of them while it starts:

        ValueError: Invalid value 'spwan' for VLLM_WORKER_MULTIPROC_METHOD. Valid options: ['spawn', 'fork'].
        ValueError: invalid literal for int() with base 10: 'true'

    `VLLM_LOGGING_LEVEL` is one of Python's levels, and `VLLM_CONFIGURE_LOGGING` 0 or 1; both are read while vLLM is
    imported:

        ValueError: Unknown level: 'VERBOSE'

    From v0.11.1 on vLLM uses the named backend or none. It ends if the backend has no kernels for the GPU, or cannot
    read the KV cache's dtype there (for FLASH_ATTN, an FP8 cache on Ampere and Ada). It also ends with FLASH_ATTN and
    gpt-oss, except on compute capability 9.x and, from v0.17 on, 10.x: FLASH_ATTN computes the model's attention sinks
    only there.

        ValueError: Selected backend AttentionBackendEnum.FLASH_ATTN is not valid for this configuration. Reason:
        ['compute capability not supported']
    """

    plane = "config"
    event = "vLLM exits at import or before it loads the model"
    by_release = True
    of_parser = True
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image."""
        if engine.command.entry == "worker" or engine.command.own_flags:
            return
        yield from _port(engine)
        yield from _port_of_server(engine)
        yield from _v1(engine)
        yield from _disallowed_values(engine)
        yield from _logging_level(engine)
        yield from _backend(engine)
        yield from _backend_of_another_gpu(engine)
        yield from _gfx_version(engine)


def _port(engine: Engine) -> Iterator[Finding]:
    """VLLM_PORT that is not a number."""
    port = engine.command.env.get("VLLM_PORT")
    if port is not None and not NUMBER.fullmatch(port):
        yield Finding(
            path=_entry(engine, "VLLM_PORT"),
            certainty=_certain_if(engine, is_since(engine, READS_PORT)),
            message=f"VLLM_PORT is {port!r}: vLLM wants a number",
            suggestions=(change.leave_out(": --port is the server's"),),
        )


def _port_of_server(engine: Engine) -> Iterator[Finding]:
    """VLLM_PORT that is the port of the API server, too."""
    port = engine.command.env.get("VLLM_PORT", "")
    if NUMBER.fullmatch(port) and engine.served and len(port) < 6 and int(port) == engine.port:
        yield Finding(
            path=_entry(engine, "VLLM_PORT"),
            certainty="possible",
            message=f"VLLM_PORT is {port}, the server's own port: vLLM's processes look for a free port from there on",
            details=("newer releases take the next free port, older ones may end with `address already in use`",),
            suggestions=(change.leave_out(": --port is the server's"),),
        )


def _gfx_version(engine: Engine) -> Iterator[Finding]:
    """Another GPU's architecture is pretended to vLLM's ROCm image, whose kernels are built for listed ones."""
    given, image = engine.command.env.get("HSA_OVERRIDE_GFX_VERSION"), engine.field("image")
    if given and isinstance(image, str) and is_official(image) and "rocm" in image:
        yield Finding(
            path=_entry(engine, "HSA_OVERRIDE_GFX_VERSION"),
            certainty="possible",
            message=f"HSA_OVERRIDE_GFX_VERSION is {given!r}: ROCm takes the GPU for another one, and kernels may fail",
            suggestions=(change.leave_out(": vLLM's ROCm image has kernels for the GPUs that it lists"),),
        )


def _v1(engine: Engine) -> Iterator[Finding]:
    """VLLM_USE_V1 that is not a number, or 0 in the first release without V0."""
    given, release = engine.command.env.get("VLLM_USE_V1"), engine.release
    if given is None or release is None or not V1_SWITCH[0] <= release <= V1_SWITCH[1]:
        return
    if not NUMBER.fullmatch(given) or len(given) > MAX_DIGITS:
        yield Finding(
            path=_entry(engine, "VLLM_USE_V1"),
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            message=f"VLLM_USE_V1 is {given!r}: vLLM {release} wants 0 or 1",
            suggestions=(change.value("1"), change.value("0")) if release < V1_SWITCH[1] else (change.leave_out(),),
        )
    elif int(given) == 0 and release == V1_SWITCH[1]:
        yield Finding(
            path=_entry(engine, "VLLM_USE_V1"),
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            message=f"VLLM_USE_V1 is 0, and vLLM {release} has no V0: it does not start",
            suggestions=(change.leave_out(), "vLLM 0.10.2, the last with V0"),
        )
    elif int(given) == 1 and release < BEFORE_AMPERE:
        yield from _v1_before_ampere(engine, release)


def _v1_before_ampere(engine: Engine, release: Release) -> Iterator[Finding]:
    """V1 is demanded on GPUs that it does not run on (vLLM 0.8.0 … 0.10.1 engine/arg_utils.py _raise_or_fallback)."""
    gpus = engine.gpu.value.gpus if engine.gpu else ()
    if not gpus or any(gpu.vendor != "nvidia" or (gpu.compute_capability or (8, 0)) >= (8, 0) for gpu in gpus):
        return
    yield Finding(
        path=_entry(engine, "VLLM_USE_V1"),
        certainty=certainty(engine),
        uncertain=uncertain(engine),
        message=f"VLLM_USE_V1 is 1, and V1 of vLLM {release} needs compute capability 8.0 or higher; this is "
        f"{with_capability(gpus)}",
        suggestions=(change.leave_out(": vLLM takes V0"), change.release("0.10.2")),
        rests_on=("gpu",),
    )


def _disallowed_values(engine: Engine) -> Iterator[Finding]:
    """Variables whose value the release does not allow."""
    release = engine.release
    for name in sorted(settings.variables().intersection(engine.command.env)):
        given = engine.command.env[name]
        bad = settings.bad_variable(name, given, release) if release is not None else None
        if bad is None or "$" in given:
            continue
        switch = bad.bounds == settings.SWITCH
        near = SWITCHES.get(given.strip().lower()) if switch else _meant.name(given, bad.allowed)
        replaced = name == METHOD and (
            engine.on_processors or engine.spans_pods or engine.vendor != "nvidia" or "numa" in engine.raw_command
        )
        at_once = is_since(engine, READ_AT_ONCE) and "RAY" not in name and _has_an_engine(engine)
        read = (at_once or name in (METHOD, LOGGING)) and not replaced
        yield Finding(
            path=_entry(engine, name),
            certainty=_certain_if(engine, read),
            unknown_name=bad.bounds is None and bad.first is None,
            uncertain=uncertain(engine) or (None if read else f"vLLM may not read {name}, or replace it"),
            message=f"{name} is {given!r}: vLLM {release} takes {bad.bounds or ' or '.join(map(str, bad.allowed))}"
            + (f"; did you mean {near}?" if near else ""),
            suggestions=tuple(change.value(str(item)) for item in ((near,) if near else bad.allowed[:3]))
            or (change.leave_out(),),
        )


def _has_an_engine(engine: Engine) -> bool:
    """True if surely more than the API server runs here: with --data-parallel-size-local 0 its engines are in other
    Pods."""
    local = "data_parallel_size_local"
    return engine.args.given.get(local) != 0 and local not in engine.args.unresolved


def _logging_level(engine: Engine) -> Iterator[Finding]:
    """The finding if VLLM_LOGGING_LEVEL is not a level of Python's `logging` and this release passes it on."""
    env, release = engine.command.env, engine.release
    given = env.get("VLLM_LOGGING_LEVEL")
    if given is None or "$" in given or release is None or release < LEVELS_SINCE:
        return
    if "VLLM_LOGGING_CONFIG_PATH" in env or env.get(LOGGING, "1").strip() == "0":
        return  # a configuration of one's own, or none
    word = given.upper() if release > EXACT_LEVELS else given
    if word in LOG_LEVELS:
        return
    near = given.upper() if given.upper() in LOG_LEVELS else _meant.name(given.upper(), tuple(LOG_LEVELS))
    yield Finding(
        path=_entry(engine, "VLLM_LOGGING_LEVEL"),
        certainty=certainty(engine),
        uncertain=uncertain(engine),
        message=f"VLLM_LOGGING_LEVEL is {given!r}: vLLM {release} takes {', '.join(LOG_LEVELS)}"
        + (f"; did you mean {near}?" if near else ""),
        suggestions=(change.value(near),) if near else ('"DEBUG", which is the most that it says',),
    )


def _backend(engine: Engine) -> Iterator[Finding]:
    """An attention backend, of the flag or the variable, that the release does not have."""
    release = engine.release
    given = engine.args.given.get("attention_backend")
    if isinstance(given, str) and given.lower() != "auto" and engine.args.is_sure("attention_backend"):
        refusal = settings.unknown_name("attention_backend", given.upper(), release)
        if refusal is not None and (registry_certainty(engine) == "certain" or engine.supposed):
            yield _unknown_backend(
                engine, engine.argument("attention_backend"), f"--attention-backend {given}", refusal
            )
    named = engine.command.env.get("VLLM_ATTENTION_BACKEND")
    if named is None or release is None or not BACKEND[0] <= release <= BACKEND[1]:
        return
    word = named.removesuffix("_VLLM_V1") if release < CHOICES else named
    refusal = settings.unknown_name("attention_backend", word, release)
    if refusal is not None and registry_certainty(engine) == "certain" and named not in refusal.allowed:
        yield _unknown_backend(
            engine, _entry(engine, "VLLM_ATTENTION_BACKEND"), f"VLLM_ATTENTION_BACKEND {named}", refusal
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
_GENERATES = ("ForCausalLM", "ForConditionalGeneration")


def _backend_of_another_gpu(engine: Engine) -> Iterator[Finding]:
    """The named backend can't run on any of the GPUs that the Pod may get."""
    named = _chosen_backend(engine)
    if named is None or named[0] not in CAPABILITIES or engine.gpu is None:
        return
    (name, written, path), gpus = named, engine.gpu.value.gpus
    model = engine.model.value if engine.model else None
    if not gpus or any(gpu.vendor != "nvidia" or gpu.compute_capability is None for gpu in gpus):
        return
    has = [gpu.compute_capability for gpu in gpus if gpu.compute_capability is not None]
    wants, runs = CAPABILITIES[name]
    dtype = engine.args.given.get("kv_cache_dtype")
    skipped = "kv_cache_dtype_skip_layers"
    cache = dtype in FP8_VALUES and skipped not in engine.args.given and skipped not in engine.args.unresolved
    products = with_capability(gpus)
    if not any(map(runs, has)):
        message = f"{written} needs compute capability {wants}, and this is {products}"
    elif name == "FLASH_ATTN" and cache and all(major == 8 for major, _ in has):
        message = f"{written} reads no {dtype} KV cache before compute capability 9.0, and this is {products}"
    elif name == "FLASH_ATTN" and model is not None and model.model_type == "gpt_oss":
        majors = (9, 10) if is_since(engine, SINKS_ON_10) else (9,)
        if any(major in majors for major, _ in has):
            return
        where = " and ".join(f"{major}.x" for major in majors)
        message = f"{written} computes attention sinks on compute capability {where} only, and this is {products}"
    else:
        return
    attends = (
        model is not None
        and model.num_attention_heads
        and any(architecture.endswith(_GENERATES) for architecture in model.architectures)
    )
    yield Finding(
        path=path,
        message=message,
        certainty=registry_certainty(engine) if attends else "likely",
        uncertain=uncertain(engine),
        suggestions=(change.without(written.partition(" ")[0], "without {}: vLLM chooses a backend that fits"),),
        rests_on=("gpu", "model"),
    )


def with_capability(gpus: Iterable[Gpu]) -> str:
    """ "Tesla T4 (7.5) or NVIDIA L4 (8.9)"."""
    return " or ".join(f"{gpu.name} ({'.'.join(map(str, gpu.compute_capability or ()))})" for gpu in gpus)


def _chosen_backend(engine: Engine) -> tuple[str, str, FieldPath] | None:
    """The chosen attention backend, the text that chooses it, and the path of that text.

    None if no backend is chosen, if two settings choose one, or if this release may use another backend."""
    release, given = engine.release, engine.args.given.get("attention_backend")
    if release is None or release < VALIDATES or engine.args.open:
        return None
    if {"attention_backend", "attention_config"} & engine.args.unresolved.keys():
        return None
    variable = engine.command.env.get("VLLM_ATTENTION_BACKEND") if release <= BACKEND[1] else None
    if (config := engine.args.given.get("attention_config")) is not None:
        inside = config.get("backend") if isinstance(config, dict) and config.keys() <= {"backend"} else None
        if not isinstance(inside, str) or given is not None or variable is not None:
            return None
        return inside.upper(), f"--attention-config backend {inside}", engine.argument("attention_config")
    if isinstance(given, str) and variable is None:
        return given.upper(), f"--attention-backend {given}", engine.argument("attention_backend")
    if given is None and variable is not None:
        return variable, f"VLLM_ATTENTION_BACKEND {variable}", _entry(engine, "VLLM_ATTENTION_BACKEND")
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


def _certain_if(engine: Engine, known: bool) -> Certainty:
    """The rule's certainty if vLLM is known to read the variable."""
    return certainty(engine) if known else "likely"


def _entry(engine: Engine, name: str) -> FieldPath:
    """Where a variable is set: the entry of `env`, else the command."""
    value = engine.field("env")
    for number, entry in enumerate(value if isinstance(value, list) else ()):
        if isinstance(entry, dict) and entry.get("name") == name:
            return engine.at("env", number, "value") if "value" in entry else engine.at("env", number)
    return engine.command.path
