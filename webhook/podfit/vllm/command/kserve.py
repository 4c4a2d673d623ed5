"""How KServe passes arguments to vLLM.

KServe 0.17: config/llmisvcconfig/*.yaml (the presets of LLMInferenceService),
python/huggingfaceserver/huggingfaceserver/__main__.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podfit.kube.workload.kserve import hub_name
from podfit.vllm.command.word import Value, after, known, literal, mystery, origin_of, text_of

_LONGEST = 1 << 14
"""Characters of VLLM_ADDITIONAL_ARGS that are read."""
MOUNT = "/mnt/models"
"""The folder to which KServe's storage initializer downloads the model."""


def additional(env: Mapping[str, Value]) -> list[Value]:
    """Arguments in VLLM_ADDITIONAL_ARGS, which the presets of LLMInferenceService insert by `eval`."""
    value = env.get("VLLM_ADDITIONAL_ARGS")
    if value is None:
        return []
    text = known(value)
    if text is None:
        return [value]
    if len(text) > _LONGEST:
        return [mystery(text[:64], "VLLM_ADDITIONAL_ARGS is too long to be read", value[0].path)]
    import shlex  # here, because few commands need it

    try:
        return [literal(word, value[0].path) for word in shlex.split(text)]
    except ValueError:
        return [mystery(text, "the quotes in VLLM_ADDITIONAL_ARGS do not match", value[0].path)]


def substitute(words: Sequence[Value], uri: str | None) -> list[Value]:
    """Replace `/mnt/models` by the Hugging Face id that KServe downloads to it (`hf://OWNER/MODEL[:REVISION]`); for
    other stores it stays a path."""
    model = hub_name(uri)
    if model is None:
        return list(words)
    replaced = []
    for word in words:
        text = known(word) or ""
        flag = "--model=" if text.startswith("--model=") else ""
        same = text.removeprefix(flag).rstrip("/") == MOUNT
        replaced.append(literal(flag + model, word[0].path) if same else word)
    return replaced


def huggingface(words: Sequence[Value], env: Mapping[str, Value], uri: str | None) -> list[Value] | None:
    """huggingfaceserver's arguments, with the model as a vLLM argument; None if its own back end serves, not vLLM."""
    given: dict[str, Value] = {}
    rest: list[Value] = []
    index = 0
    while index < len(words):
        word = words[index]
        flag, equals, _ = text_of(word).partition("=")
        name = flag[2:].replace("-", "_") if flag.startswith("--") else ""
        index += 1
        if name == "disable_vllm":
            return None
        if name not in ("model_id", "model_dir", "backend"):
            rest.append(word)
        elif equals:
            given[name] = after(word, len(flag) + 1)
        elif index < len(words):
            given[name] = words[index]
            index += 1
    if "backend" in given and known(given["backend"]) == "huggingface":
        return None
    model = given.get("model_id") or env.get("MODEL_ID") or given.get("model_dir")
    if model is None and uri is not None:
        model = literal(MOUNT)
    return substitute([literal("--model", origin_of(model)), model, *rest], uri) if model else rest
