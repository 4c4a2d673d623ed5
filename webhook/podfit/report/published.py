"""An object as it may be published: an allow-list. Every text that is not listed is `…`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from podfit.base.lazy import regex
from podfit.evaluation.quoting import GLUED_SECRET
from podfit.kube.path import mapping
from podfit.kube.workload import JSON
from podfit.vllm.args.flags import Option, builtin

HIDDEN = "…"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NAMES = frozenset({
    "accessModes", "apiGroup", "apiVersion", "claimName", "configMap", "container", "containerName", "cpu",
    "deviceClassName", "divisor", "effect", "fieldPath", "generateName", "image", "imagePullPolicy", "key", "kind",
    "medium", "memory", "model", "mountPath", "name", "namespace", "operator", "path", "port", "priorityClassName",
    "protocol", "resource", "restartPolicy", "runtimeClassName", "schedulerName", "scheme", "secretName",
    "serviceAccountName", "serviceName", "size", "sizeLimit", "storage", "storageClassName", "targetPort",
    "terminationMessagePolicy", "topologyKey", "type", "volumeMode", "whenUnsatisfiable",
})  # fmt: skip
"""Fields whose texts are names, paths, kinds, images, models or words of Kubernetes."""
LISTS = frozenset({"accessModes"})
LABELS = frozenset({"labels", "limits", "matchLabels", "nodeSelector", "requests"})
"""Fields with label values or quantities by name."""
VARIABLES = regex(r"(?:VLLM|NCCL|CUDA|HF_HUB|PYTORCH)_\w+|TRANSFORMERS_OFFLINE")
"""Variables of vLLM and its libraries: their values are shown if they are numbers or booleans."""
SECRET = regex(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL", re.IGNORECASE)
PROGRAM = frozenset({
    "-c", "-lc", "-m", "--", "/bin/bash", "/bin/sh", "bash", "exec", "python", "python3", "serve", "sh", "vllm",
    "vllm.entrypoints.openai.api_server",
})  # fmt: skip
NUMBER = regex(r"-?\d+(?:\.\d+)?(?:e-?\d+)?[kKmMgGtT]?i?|auto")
BOOLEAN = regex(r"true|false", re.IGNORECASE)
SIMPLE_COMMAND = regex(r"[\w./=:,@%+-]+(?:[ \t]+[\w./=:,@%+-]+)+")
"""A script of one command without quotes, variables and operators."""
FLAG = regex(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
MODEL = regex(r"[A-Za-z][\w.-]*/[\w.-]+")
MODEL_DESTS = frozenset({"hf_config_path", "model", "model_tag", "speculative_model", "tokenizer"})
NUMERIC = regex(r"int|float")


def published(obj: JSON) -> dict[str, Any]:
    """The object with `…` for every text that is not allowed; numbers, field names and its shape stay."""
    return {str(name): _value(str(name), value) for name, value in obj.items()}


def _value(field: str, value: object, parent: str = "") -> Any:
    """A value with each text hidden that is neither a name nor a label; its field decides."""
    if isinstance(value, str):
        return value.partition("?")[0] if field in NAMES or parent in LABELS else HIDDEN
    if isinstance(value, Mapping):
        if field in ("data", "stringData", "binaryData", "annotations"):
            return {str(name): HIDDEN for name in value if name != LAST_APPLIED}
        return {str(name): _value(str(name), item, field) for name, item in value.items() if name != "managedFields"}
    if isinstance(value, list):
        if field in ("args", "command"):
            return [_script(word) or text for word, text in zip(value, _words(value), strict=True)]
        if field == "env":
            return [_variable(item) for item in value]
        return [_value(field if field in LISTS else "", item, field) for item in value]
    return value


def _variable(entry: object) -> Any:
    """An environment variable. Its value stays if it is a number or a boolean of vLLM's, and not a secret."""
    variable = mapping(entry)
    name, text = str(variable.get("name")), variable.get("value")
    entries = {str(key): _value(str(key), item, "env") for key, item in variable.items()}
    if isinstance(text, str) and VARIABLES.fullmatch(name) and not SECRET.search(name):
        entries["value"] = text if NUMBER.fullmatch(text) or BOOLEAN.fullmatch(text) else HIDDEN
    return entries


def _script(word: object) -> str | None:
    """The script with its words as `_words` shows them; None if the word is not a script of one simple command."""
    text = re.sub(r"\\\n", " ", word).strip() if isinstance(word, str) else ""
    return " ".join(_words(text.split())) if SIMPLE_COMMAND.fullmatch(text) else None


def _words(words: Sequence[object]) -> Iterator[str]:
    """The words of a command: programs, flags, and the values of vLLM's options that are numbers, choices or models."""
    option: Option | None = None
    follows = True
    """The next word may be the model: the first one, or the one after `serve`."""
    for word in map(str, words):
        flag = FLAG.fullmatch(word)
        if word in PROGRAM:
            yield word
            option, follows = None, word in ("serve", "vllm.entrypoints.openai.api_server")
        elif flag and not re.search(r"\s", flag[1]):
            option = _option(flag[1])
            name = HIDDEN if option is None and GLUED_SECRET.match(flag[1]) else flag[1]
            yield name if flag[2] is None else f"{name}={flag[2] if _may_show(flag[2], option) else HIDDEN}"
            option, follows = (option if flag[2] is None else None), False
        else:
            model = follows and MODEL.fullmatch(word)
            yield word if model or _may_show(word, option) else HIDDEN
            option, follows = None, False


def _option(flag: str) -> Option | None:
    """The option of the newest release that has this flag."""
    name = flag.replace("_", "-") if flag.startswith("--") else flag
    table = builtin()
    for release in (table.releases[-1], *reversed(table.releases)):
        if option := table.parser(release, "serve").spellings.get(name):
            return option[0]
    return None


def _may_show(text: str, option: Option | None) -> bool:
    """True if an option's value may be published: a model, a choice, a boolean or a number."""
    if option is None:
        return False
    if option.dest in MODEL_DESTS:
        return MODEL.fullmatch(text) is not None
    if option.choices and text in map(str, chain(option.choices)):
        return True
    if BOOLEAN.fullmatch(text):
        return True
    return bool(NUMERIC.search(option.type or "")) and NUMBER.fullmatch(text) is not None
