"""Rule invalid-environment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from webhook.args import settings
from webhook.engine import Engine
from webhook.path import FieldPath
from webhook.release import Release
from webhook.rule import Certainty, Finding, Rule
from webhook.rules import _meant
from webhook.rules._flags import certainty, life, registry_certainty, uncertain

READS_PORT = Release(0, 4, 3)
"""Since then an engine asks VLLM_PORT for a port whenever it starts (vLLM envs.py get_vllm_port)."""
V1_SWITCH = Release(0, 8), Release(0, 11, 0)
"""VLLM_USE_V1 is read as a number in these; the last one has no V0 any more (vLLM 0.11.0 v1/engine/async_llm.py)."""
BACKEND = Release(0, 10, 1), Release(0, 14, 99)
"""VLLM_ATTENTION_BACKEND is refused where it names none (read in vLLM 0.10.1.1 … 0.12 attention/selector.py, 0.13 and
0.14.1 envs.py); before, vLLM chooses another, after, nobody reads it."""
WITH_SUFFIX = Release(0, 13)
"""Until then `FLASH_ATTN_VLLM_V1` is `FLASH_ATTN` (vLLM 0.11.1, 0.12 attention/selector.py)"""
CHOICES = Release(0, 11), Release(0, 11, 1)
"""From the first until before the second the variable has choices, without the suffix (vLLM 0.11.0 envs.py)."""
NUMBER = re.compile(r"\s*[+-]?\d+(_\d+)*\s*")
"""What Python's int() takes."""


class InvalidEnvironment(Rule):
    """An environment variable of vLLM's holds what vLLM refuses.

    vLLM reads its variables as strictly as its flags, if later. `VLLM_PORT` is a number; with the address of a Service
    in it, vLLM ends with

        ValueError: VLLM_PORT 'tcp://10.0.0.7:8000' appears to be a URI. This may be caused by a Kubernetes service
        discovery issue

    `VLLM_USE_V1` is 0 or 1, not `false`; v0.11.0 knows the variable still, but has no V0:

        ValueError: invalid literal for int() with base 10: 'false'
        ValueError: Using V1 AsyncLLMEngine, but envs.VLLM_USE_V1=False. This should not happen.

    `VLLM_ATTENTION_BACKEND` (from v0.10.1 until v0.14) and `--attention-backend` (since v0.13) name a backend that the
    release has; most releases rename some:

        ValueError: Invalid attention backend: 'FLASHATTN'. Valid backends are: ['FLASH_ATTN', 'TRITON_ATTN', …
        ValueError: Unknown attention backend: 'XFORMERS'. Valid options are: FLASH_ATTN, FLASH_ATTN_DIFFKV, …
    """

    plane = "config"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image."""
        if engine.command.entry == "worker" or engine.command.own_flags:
            return
        yield from _port(engine)
        yield from _v1(engine)
        yield from _backend(engine)


def _port(engine: Engine) -> Iterator[Finding]:
    port = engine.command.env.get("VLLM_PORT")
    if port is not None and not NUMBER.fullmatch(port):
        yield Finding(
            path=_entry(engine, "VLLM_PORT"),
            certainty=_for(engine, engine.release is not None and engine.release >= READS_PORT),
            message=f"VLLM_PORT is {port!r}: vLLM wants a number",
            suggestions=("leave it out: --port is the server's",),
        )


def _v1(engine: Engine) -> Iterator[Finding]:
    given, release = engine.command.env.get("VLLM_USE_V1"), engine.release
    if given is None or release is None or not V1_SWITCH[0] <= release <= V1_SWITCH[1]:
        return
    if not NUMBER.fullmatch(given):
        yield Finding(
            path=_entry(engine, "VLLM_USE_V1"),
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            message=f"VLLM_USE_V1 is {given!r}: vLLM {release} wants 0 or 1",
            suggestions=('"1"', '"0"') if release < V1_SWITCH[1] else ("leave it out",),
        )
    elif int(given) == 0 and release == V1_SWITCH[1]:
        yield Finding(
            path=_entry(engine, "VLLM_USE_V1"),
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            message=f"VLLM_USE_V1 is 0, and vLLM {release} has no V0: it refuses to start",
            suggestions=("leave it out", "vLLM 0.10.2, the last with V0"),
        )


def _backend(engine: Engine) -> Iterator[Finding]:
    release = engine.release
    given = engine.args.given.get("attention_backend")
    if isinstance(given, str) and given.lower() != "auto" and engine.args.is_sure("attention_backend"):
        found = settings.unknown_name("attention_backend", given.upper(), release)
        if found is not None and registry_certainty(engine) == "certain":
            yield _unknown(engine, engine.argument("attention_backend"), f"--attention-backend {given}", found)
    named = engine.command.env.get("VLLM_ATTENTION_BACKEND")
    if named is None or release is None or not BACKEND[0] <= release <= BACKEND[1]:
        return
    cut = release < WITH_SUFFIX and not CHOICES[0] <= release < CHOICES[1]
    word = named.removesuffix("_VLLM_V1") if cut else named
    found = settings.unknown_name("attention_backend", word, release)
    if found is not None and registry_certainty(engine) == "certain" and named not in found.allowed:
        yield _unknown(engine, _entry(engine, "VLLM_ATTENTION_BACKEND"), f"VLLM_ATTENTION_BACKEND {named}", found)


def _unknown(engine: Engine, path: FieldPath, what: str, found: settings.Refusal) -> Finding:
    flag, _, given = what.partition(" ")
    near = _meant.name(given, found.allowed)
    attends = engine.release is not None and engine.release >= WITH_SUFFIX
    if engine.model is not None and engine.model.may_deny and engine.model.value.num_attention_heads:
        attends = True  # without attention, older releases do not look
    return Finding(
        path=path,
        certainty="certain" if attends else "likely",
        message=f"{what}: vLLM {engine.release} has no such attention backend{life(found, engine.release)}"
        + (f"; did you mean {near}?" if near else ""),
        details=(f"it has {', '.join(found.allowed)}",),
        suggestions=(f"{flag} {near}",) if near else (),
    )


def _for(engine: Engine, known: bool) -> Certainty:
    return certainty(engine) if known else "likely"


def _entry(engine: Engine, name: str) -> FieldPath:
    """Where a variable is set: the entry of `env`, else the command."""
    listed = engine.field("env")
    for number, entry in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(entry, dict) and entry.get("name") == name:
            return engine.at("env", number, "value") if "value" in entry else engine.at("env", number)
    return engine.command.path
