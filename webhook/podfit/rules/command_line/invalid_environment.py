from __future__ import annotations

from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.rules._flags import certainty, is_since, uncertain, variable_at
from podfit.rules.command_line import _meant, _named_backend
from podfit.rules.devices import with_capability
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm import change
from podfit.vllm.args import settings
from podfit.vllm.memory.v0_fallback import BEFORE_AMPERE
from podfit.vllm.release import Release, is_official

READS_PORT = Release(0, 4, 3)
"""Since then an engine asks VLLM_PORT for a port whenever it starts (vLLM envs.py get_vllm_port)."""
V1_SWITCH = Release(0, 8), Release(0, 11, 0)
"""VLLM_USE_V1 is read as a number in these; the last one has no V0 any more (vLLM 0.11.0 v1/engine/async_llm.py)."""
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
        yield from _named_backend.unknown(engine)
        yield from _named_backend.of_another_gpu(engine)
        yield from _gfx_version(engine)


def _port(engine: Engine) -> Iterator[Finding]:
    """VLLM_PORT that is not a number."""
    port = engine.command.env.get("VLLM_PORT")
    if port is not None and not NUMBER.fullmatch(port):
        yield Finding(
            path=variable_at(engine, "VLLM_PORT"),
            certainty=certainty(engine) if is_since(engine, READS_PORT) else "likely",
            message=f"VLLM_PORT is {port!r}: vLLM wants a number",
            suggestions=(change.leave_out(": --port is the server's"),),
        )


def _port_of_server(engine: Engine) -> Iterator[Finding]:
    """VLLM_PORT that is the port of the API server, too."""
    port = engine.command.env.get("VLLM_PORT", "")
    if NUMBER.fullmatch(port) and engine.served and len(port) < 6 and int(port) == engine.port:
        yield Finding(
            path=variable_at(engine, "VLLM_PORT"),
            certainty="possible",
            message=f"VLLM_PORT is {port}, the server's own port: vLLM's processes look for a free port from there on",
            details=("newer releases take the next free port, older ones may end with `address already in use`",),
            suggestions=(change.leave_out(": --port is the server's"),),
        )


def _gfx_version(engine: Engine) -> Iterator[Finding]:
    """A finding on a variable that pretends another GPU's architecture to vLLM's ROCm image, whose kernels are built
    for listed ones."""
    given, image = engine.command.env.get("HSA_OVERRIDE_GFX_VERSION"), engine.field("image")
    if given and isinstance(image, str) and is_official(image) and "rocm" in image:
        yield Finding(
            path=variable_at(engine, "HSA_OVERRIDE_GFX_VERSION"),
            certainty="possible",
            message=f"HSA_OVERRIDE_GFX_VERSION is {given!r}: ROCm takes the GPU for another one, and kernels may fail",
            suggestions=(change.leave_out(": vLLM's ROCm image has kernels for the GPUs that it lists"),),
        )


def _v1(engine: Engine) -> Iterator[Finding]:
    """A finding on VLLM_USE_V1 that is not a number, 0 in the first release without V0, or 1 on a GPU that V1 does not
    run on. None in releases that do not read it."""
    given, release = engine.command.env.get("VLLM_USE_V1"), engine.release
    if given is None or release is None or not V1_SWITCH[0] <= release <= V1_SWITCH[1]:
        return
    if not NUMBER.fullmatch(given) or len(given) > MAX_DIGITS:
        yield Finding(
            path=variable_at(engine, "VLLM_USE_V1"),
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            message=f"VLLM_USE_V1 is {given!r}: vLLM {release} wants 0 or 1",
            suggestions=(change.value("1"), change.value("0")) if release < V1_SWITCH[1] else (change.leave_out(),),
        )
    elif int(given) == 0 and release == V1_SWITCH[1]:
        yield Finding(
            path=variable_at(engine, "VLLM_USE_V1"),
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
        path=variable_at(engine, "VLLM_USE_V1"),
        certainty=certainty(engine),
        uncertain=uncertain(engine),
        message=f"VLLM_USE_V1 is 1, and V1 of vLLM {release} needs compute capability 8.0 or higher; this is "
        f"{with_capability(gpus)}",
        suggestions=(change.leave_out(": vLLM takes V0"), change.release("0.10.2")),
        rests_on=("gpu",),
    )


def _disallowed_values(engine: Engine) -> Iterator[Finding]:
    """Findings on variables whose value the release does not allow; none for a value with an unexpanded `$`."""
    release = engine.release
    for name in sorted(settings.variables().intersection(engine.command.env)):
        given = engine.command.env[name]
        bad = settings.bad_variable(name, given, release) if release is not None else None
        if bad is None or "$" in given:
            continue
        is_switch = bad.bounds == settings.SWITCH
        near = SWITCHES.get(given.strip().lower()) if is_switch else _meant.name(given, bad.allowed)
        is_read = _is_read(engine, name)
        yield Finding(
            path=variable_at(engine, name),
            certainty=certainty(engine) if is_read else "likely",
            unknown_name=bad.bounds is None and bad.first is None,
            uncertain=uncertain(engine) or (None if is_read else f"vLLM may not read {name}, or replace it"),
            message=f"{name} is {given!r}: vLLM {release} takes {bad.bounds or ' or '.join(map(str, bad.allowed))}"
            + (f"; did you mean {near}?" if near else ""),
            suggestions=tuple(change.value(str(item)) for item in ((near,) if near else bad.allowed[:3]))
            or (change.leave_out(),),
        )


def _is_read(engine: Engine, name: str) -> bool:
    """True if vLLM certainly reads the variable while it starts, and does not write another value in its place before
    (`METHOD`)."""
    if name == METHOD:
        may_replace = engine.on_processors or engine.spans_pods or engine.vendor != "nvidia"
        return not may_replace and "numa" not in engine.raw_command
    at_once = is_since(engine, READ_AT_ONCE) and "RAY" not in name and _has_an_engine(engine)
    return at_once or name == LOGGING


def _has_an_engine(engine: Engine) -> bool:
    """True if surely more than the API server runs here: with --data-parallel-size-local 0 its engines are in other
    Pods."""
    local = "data_parallel_size_local"
    return engine.args.given.get(local) != 0 and local not in engine.args.unresolved


def _logging_level(engine: Engine) -> Iterator[Finding]:
    """The finding if VLLM_LOGGING_LEVEL is not a level of Python's `logging` and this release passes it on; none with
    an unexpanded `$`."""
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
        path=variable_at(engine, "VLLM_LOGGING_LEVEL"),
        certainty=certainty(engine),
        uncertain=uncertain(engine),
        message=f"VLLM_LOGGING_LEVEL is {given!r}: vLLM {release} takes {', '.join(LOG_LEVELS)}"
        + (f"; did you mean {near}?" if near else ""),
        suggestions=(change.value(near),) if near else ('"DEBUG", which is the most that it says',),
    )
