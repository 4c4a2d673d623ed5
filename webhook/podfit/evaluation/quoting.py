"""The parts of an object that texts about it may quote: names, paths, label values, ports, the words of vLLM's command,
and the variables of vLLM and of its libraries.

They quote nothing of a script, a header, an annotation, another variable or free-form JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from signal import Signals
from typing import Any

from podfit.base.lazy import regex
from podfit.base.quotable import Quotable, words_of
from podfit.base.secret import gives, is_secret
from podfit.kube.companions import config_map_names
from podfit.kube.path import mapping, strings
from podfit.kube.workload import JSON
from podfit.rules.engine import Engine
from podfit.rules.rule import IGNORE
from podfit.vllm.args import settings
from podfit.vllm.args.flags import Option, Parser, builtin
from podfit.vllm.command import Word
from podfit.vllm.model import ANNOTATION as MODEL_ANNOTATION

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NAMES = frozenset({
    "accessModes", "apiGroup", "apiVersion", "claimName", "configMap", "container", "containerName", "cpu",
    "deviceClassName", "divisor", "driver", "effect", "fieldPath", "generateName", "host", "image", "imagePullPolicy",
    "key", "kind", "medium", "memory", "model", "mountPath", "name", "namespace", "namespaces", "operator", "path",
    "port", "priorityClassName", "protocol", "resource", "resourceClaimName", "resourceClaimTemplateName",
    "restartPolicy", "runtime", "runtimeClassName", "schedulerName", "scheme", "secretName", "serviceAccountName",
    "serviceName", "size", "sizeLimit", "storage", "storageClassName", "storageUri", "subPath", "targetPort",
    "terminationMessagePolicy", "topologyKey", "type", "uri", "values", "volumeMode", "volumeName",
    "whenUnsatisfiable", "workingDir",
})  # fmt: skip
"""Fields whose texts are names, paths, kinds, images, models or words of Kubernetes."""
LABELS = frozenset({"labels", "limits", "matchLabels", "nodeSelector", "requests"})
"""Fields with label values or quantities by name."""
CLOSED = frozenset({
    "args", "binaryData", "command", "data", "options", "parameters", "stringData", "volumeAttributes",
})  # fmt: skip
"""Fields of which only the names are quoted."""
VARIABLES = regex(
    r"(?:VLLM|NCCL|CUDA|NVIDIA|HF|HUGGINGFACE|TRANSFORMERS|PYTORCH|TORCH|XDG|RAY|GLOO|OMP|LWS|UCX|TRITON|FLASHINFER)_\w+"
    r"|HOME|TMPDIR|PATH|LD_LIBRARY_PATH|PYTHONPATH|PORT|HOST"
)
"""Variables of vLLM and its libraries."""
_ENUMERATION = regex(r"[A-Z][a-zA-Z]+")
"""A word of Kubernetes, such as RollingUpdate."""
_SIMPLE = regex(
    r"-?\d[\w.,]*|(?:/|\./|~/)?[A-Za-z0-9][\w.-]*(?:/[\w.-]+)+/?|/[\w.-]*|(?:s3|gs|gcs|oss|hf|pvc|oci|modelscope)://[\w./-]+"
)
"""A number, a model's id or a path."""
_FLAG = regex(r"([-‐‑‒–—―−]+[A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_REFERENCE = regex(r"\$\{?([A-Za-z_]\w*)|(?:^|[\s;&|(])([A-Za-z_]\w*)=(?=[^\s=])")
"""The name of a variable in a script."""
GLUED_SECRET = regex(r"--?(?:api[-_]key|hf[-_]token|token|password|secret)s?[^-_s]", re.IGNORECASE)
"""A flag for a secret with the secret right behind it."""
MOST_TEXT = 3 << 20
"""Characters of an object whose words are sorted: as much as an API server takes (k8s.io/apiserver, 3 MiB). The time is
linear: 60 ms for 1 MiB."""
_SIGNALS = tuple([signal.name for signal in Signals])
_PROGRAM = ("vllm", "serve", "exec", "python", "python3", "sh", "bash", "api_server", "openai", "entrypoints")


def quotable(obj: JSON, engines: Sequence[Engine]) -> Quotable | None:
    """The words that may be quoted of an object with these engines, and those that must not be; None if it has more
    text than MOST_TEXT."""
    texts = _Texts(public=[], private=[])
    _walk(obj, texts)
    maps = engines[0].facts.config_maps if engines else {}
    for name in config_map_names(obj) if maps else ():
        data = mapping(mapping(maps.get(name)).get("data"))
        texts.public += map(str, data)
        for key, value in data.items():
            _add(str(value), texts, is_public=is_open_variable(str(key)))
    private = list(chain(texts.private, *map(_command_texts, engines)))
    if sum(map(len, private)) > MOST_TEXT or sum(map(len, texts.public)) > MOST_TEXT:
        return None

    def make_public() -> frozenset[str]:
        """The words that may be quoted; they are needed only for a text that quotes something."""
        for engine in engines:
            _add_engine(engine, obj, texts)
        return words_of(texts.public) | _own_words()

    return Quotable(words_of(private) - _own_words(), make_public)


@dataclass(slots=True)
class _Texts:
    """Texts of an object that may be quoted, and others."""

    public: list[str]
    private: list[str]


@cache
def _own_words() -> frozenset[str]:
    """The flags and choices of all of vLLM's options, the programs that start it, and the signals that end it."""
    table = builtin()
    options = table.parser(table.releases[-1], "serve").spellings.values()
    choices = {str(choice) for option, _ in options for choice in option.choices or ()}
    return words_of(chain(table.spellings, choices, settings.choices(), _PROGRAM, _SIGNALS))


# ── Fields ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _walk(obj: JSON, texts: _Texts) -> None:
    """Add the names and texts of the object, without the words of vLLM's commands. The stack has for each value: the
    field above, its own field, the value, and whether it is in a field of which only the names are quoted."""
    stack: list[tuple[str, str, object, bool]] = [("", "", obj, False)]
    while stack:
        parent, name, value, closed = stack.pop()
        if isinstance(value, str):
            may_show = not closed and (name in NAMES or parent in LABELS or _ENUMERATION.fullmatch(value) is not None)
            if "?" in value:
                value, _, query = value.partition("?")
                texts.private.append(query)
            _add(value, texts, is_public=may_show)
        elif isinstance(value, dict | Mapping):  # to ask an abstract class takes ten times as long
            texts.public += map(str, value)
            if name == "annotations":
                _add_annotations(value, texts)
            elif "name" in value and isinstance(text := value.get("value"), str):
                texts.public.append(str(value["name"]))
                _add(text, texts, is_public=name != "httpHeaders" and is_open_variable(str(value["name"])))
                stack += [(name, str(key), item, closed) for key, item in value.items() if key not in ("name", "value")]
            else:
                stack += [(name, str(key), item, closed or name in CLOSED) for key, item in value.items()]
        elif isinstance(value, list):
            stack += [(parent, name, item, closed) for item in value]


def _add(text: str, texts: _Texts, *, is_public: bool) -> None:
    """Add a text. The names of variables in a private one, which may be a script, are public."""
    (texts.public if is_public else texts.private).append(text)
    if not is_public and ("=" in text or "$" in text):
        texts.public += [item or other for item, other in _REFERENCE.findall(text)]


def _add_annotations(annotations: Mapping[Any, Any], texts: _Texts) -> None:
    """Add the values; of kubectl's last applied object, its texts. Models and accepted rules are public."""
    for name, value in annotations.items():
        if name == LAST_APPLIED:
            with suppress(ValueError, RecursionError):
                _walk(mapping(json.loads(str(value))), texts)
        else:
            is_model = name == MODEL_ANNOTATION and _SIMPLE.fullmatch(str(value)) is not None
            _add(str(value), texts, is_public=is_model or str(name).startswith(IGNORE))


def is_open_variable(name: str) -> bool:
    """Return whether the value of the variable may be quoted."""
    return VARIABLES.fullmatch(name) is not None and not gives(name)


# ── vLLM's command ───────────────────────────────────────────────────────────────────────────────────────────────────


def _command_texts(engine: Engine) -> Iterator[str]:
    """All texts of the container's commands that `_add_engine` sorts."""
    for command in (engine.command, *engine.command.then):
        yield from [word.text for word in command.words]
        yield from command.env.values()
        yield from command.config.values()
    yield from [
        text for text in chain(engine.args.given.values(), engine.args.written.values()) if isinstance(text, str)
    ]


def _add_engine(engine: Engine, obj: JSON, texts: _Texts) -> None:
    """Add the words of the container's commands, its environment, and what is known of it by name."""
    table = builtin()
    release = engine.release if engine.release in table.releases else table.releases[-1]
    parser = table.parser(release, "serve")
    given = {text for field in ("command", "args") for text in _written(engine, field, obj)}
    if not engine.command.shell:
        raw = [Word(text, engine.at(field)) for field in ("command", "args") for text in strings(engine.field(field))]
        _add_words(raw, parser, texts, lambda word: word.text in given, is_sure=not engine.command.guessed)
    for command in (engine.command, *engine.command.then):
        _add_words(
            command.words,
            parser,
            texts,
            lambda word: word.span is not None or word.text in given,
            is_sure=not command.guessed,
        )
        for name, value in command.env.items():
            _add(value, texts, is_public=is_open_variable(name) and _SIMPLE.fullmatch(value) is not None)
        texts.private += command.config.values()
    config = "\n".join(engine.command.config.values())
    for dest, value in chain(engine.args.given.items(), engine.args.written.items()):
        if dest in parser.dests:
            texts.public.append(dest)
        if isinstance(value, str) and dest in parser.dests:
            _add_value(value, _option(f"--{dest}", parser), texts, literal=value in config)
    if engine.gpu is not None:
        texts.public.append(engine.gpu.value.name)
    if engine.model is not None and _SIMPLE.fullmatch(engine.model.value.id):
        texts.public.append(engine.model.value.id)


def _written(engine: Engine, field: str, obj: JSON) -> list[str]:
    """The texts of `command` or `args` that the object has as they are, not filled with a Workflow's parameters."""
    texts, before = strings(engine.field(field)), frozenset(strings(engine.at(field).get(obj)))
    return [text for text in texts if text in before] if any("{{" in text for text in before) else texts


_UNKNOWN = Option("")
"""Stands for an option that no release knows."""


def _add_words(
    all_words: Iterable[Word],
    parser: Parser,
    texts: _Texts,
    is_literal: Callable[[Word], bool],
    *,
    is_sure: bool,
) -> None:
    """Add the words of a command. `is_literal`: the manifest has the word as it is, and not by way of a variable.
    `is_sure`: they are vLLM's; else a word without a flag may be anything of a program that is not known. A word of
    several lines or words may be a command line in one word, whose parts are added, unless it is an option's value."""
    option: Option | None = None
    for word in all_words:
        literal, lines = is_literal(word), word.text.split()
        if len(lines) < 2 or (option or _begun(word.text, parser)) is not None:
            literal &= is_sure or option is not None or _FLAG.fullmatch(word.text) is not None
            literal &= len(lines) < 2 or (word.span is None and word.text.startswith("$("))  # which no shell expands
            option = _add_word(word.text, option, parser, texts, literal=literal)
            continue
        flags = [text for text in lines if _FLAG.fullmatch(text)]
        for text in lines:  # a command line in one word: only what belongs to a flag is a word of vLLM's
            is_value = option is not None or text in flags or flags == lines[:1]
            option = _add_word(text, option, parser, texts, literal=literal and is_value)


def _begun(text: str, parser: Parser) -> Option | None:
    """The option whose JSON the word contains after `=`; None if it is not such a word."""
    flag = _FLAG.fullmatch(text)
    option = _option(flag[1], parser) if flag and flag[2] else None
    return option if option is not None and _is_json(option) else None


def _is_json(option: Option | None) -> bool:
    return option is not None and "json" in (option.type or "")


def _add_word(text: str, option: Option | None, parser: Parser, texts: _Texts, *, literal: bool) -> Option | None:
    """Add one word; return the option whose values the next words are, None if they are of none. `option`: that of this
    word, as returned for the one before."""
    flag = _FLAG.fullmatch(text)
    if flag is None:
        _add_value(text, option, texts, literal=literal)
        if option is None and gives(text.strip(":=")):
            return _UNKNOWN  # `api_key: VALUE`
        return None if option is None or _has_one_value(option) else option
    option = _option(flag[1], parser)
    literal = literal and not (option is _UNKNOWN and GLUED_SECRET.match(flag[1]))
    (texts.public if literal or _is_json(option) else texts.private).append(flag[1])
    if flag[2] is None:
        return option
    _add_value(flag[2], option, texts, literal=literal)
    return option if option is _UNKNOWN or gives(flag[1]) else None


def _option(flag: str, parser: Parser) -> Option:
    """The option of a flag as it is spelled, also of `--config.key`; _UNKNOWN if no option has it."""
    name = flag.replace("_", "-") if flag.startswith("--") else flag
    option, _ = parser.spellings.get(name) or parser.spellings.get(name.partition(".")[0]) or (_UNKNOWN, True)
    return option


def _has_one_value(option: Option) -> bool:
    """Return whether no further word can be a value of the option, or of what its author means by it."""
    return option is not _UNKNOWN and not gives(option.dest) and option.nargs not in ("*", "+")


def _add_value(text: str, option: Option | None, texts: _Texts, *, literal: bool) -> None:
    """Add the value of an option, public unless it may be a secret; a URL without its query."""
    if option is not None and gives(option.dest):
        _add(text, texts, is_public=not is_secret(text))
    elif option is _UNKNOWN:
        _add(text, texts, is_public=False)
    elif _is_json(option) or text.lstrip()[:1] in ("{", "["):
        _add_json(text, _typed_keys(option), texts)
    else:
        url, _, query = text.partition("?") if "://" in text else (text, "", "")
        _add(url, texts, is_public=literal or _SIMPLE.fullmatch(url) is not None)
        texts.private.append(query)


_KEY = regex(r"""["'](\w[\w.-]*)["']\s*:(?:\s*["']([A-Za-z/][\w./-]*)["'])?""")
_CHOICES = frozenset({"kv_connector", "kv_role", "method"})
"""Keys of JSON arguments whose values are names in a registry of vLLM."""
_ADAPTER = frozenset({"name", "path", "base_model_name"})
"""Keys of `--lora-modules`."""


def _typed_keys(option: Option | None) -> frozenset[str]:
    """The keys of a JSON option whose values may be quoted: a choice, a number, a boolean, or the name or path of an
    adapter. Empty without an option."""
    if option is not None and option.dest == "lora_modules":
        return _ADAPTER
    return settings.typed_keys(option.dest) if option else frozenset()


def _add_json(text: str, typed: frozenset[str], texts: _Texts) -> None:
    """Add the keys of JSON, and the values of those that are `typed`."""
    texts.private.append(text)
    for key, value in _KEY.findall(text):
        texts.public += (key, value) if key in typed or key in _CHOICES else (key,)
