"""How KServe passes arguments to vLLM.

KServe 0.17: config/llmisvcconfig/*.yaml (the presets of LLMInferenceService),
python/huggingfaceserver/huggingfaceserver/__main__.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podfit.kube.workload.kserve import hub_name
from podfit.vllm.command.word import Value, after, known, literal, mystery, origin_of, text_of

_LONGEST, _BEGINNING = 1 << 14, 64
"""Characters of VLLM_ADDITIONAL_ARGS that are read, and those that are kept of a longer text. Choices."""
MOUNT = "/mnt/models"
"""The folder to which KServe's storage initializer downloads the model."""


def additional(env: Mapping[str, Value]) -> list[Value]:
    """Arguments in VLLM_ADDITIONAL_ARGS, which presets of LLMInferenceService `eval`; an unknown word if unreadable."""
    value = env.get("VLLM_ADDITIONAL_ARGS")
    if value is None:
        return []
    text = known(value)
    if text is None:
        return [value]
    if len(text) > _LONGEST:
        return [mystery(text[:_BEGINNING], "VLLM_ADDITIONAL_ARGS is too long to be read", value[0].path)]
    import shlex  # here, because few commands need it

    try:
        return [literal(word, value[0].path) for word in shlex.split(text)]
    except ValueError:
        return [mystery(text, "the quotes in VLLM_ADDITIONAL_ARGS do not match", value[0].path)]


def substitute(words: Sequence[Value], uri: str | None) -> list[Value]:
    """Replace `/mnt/models` by the Hugging Face id that `uri` names (`hf://OWNER/MODEL[:REVISION]`), if any."""
    model = hub_name(uri)
    if model is None:
        return list(words)
    replaced = []
    for word in words:
        text = known(word) or ""
        flag = "--model=" if text.startswith("--model=") else ""
        is_mount = text.removeprefix(flag).rstrip("/") == MOUNT
        replaced.append(literal(flag + model, word[0].path) if is_mount else word)
    return replaced


def huggingface(words: Sequence[Value], env: Mapping[str, Value], uri: str | None) -> list[Value] | None:
    """huggingfaceserver's arguments, with the model as a vLLM argument; None if its own back end serves, not vLLM.
    `uri`: where KServe downloads the model from, to `MOUNT`; None if it downloads none."""
    own: dict[str, Value] = {}  # name → value of the arguments that vLLM does not have
    arguments: list[Value] = []
    remaining = iter(words)
    for word in remaining:
        flag, equals, _ = text_of(word).partition("=")
        name = flag[2:].replace("-", "_") if flag.startswith("--") else ""
        if name == "disable_vllm":
            return None
        if name not in ("model_id", "model_dir", "backend"):
            arguments.append(word)
        elif equals:
            own[name] = after(word, len(flag) + 1)
        elif (value := next(remaining, None)) is not None:
            own[name] = value
    if "backend" in own and known(own["backend"]) == "huggingface":
        return None
    model = own.get("model_id") or env.get("MODEL_ID") or own.get("model_dir")
    if model is None and uri is not None:
        model = literal(MOUNT)
    if not model:
        return arguments
    return substitute([literal("--model", origin_of(model)), model, *arguments], uri)
