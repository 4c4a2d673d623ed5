from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.base.near import nearest
from podfit.base.printable import shortened
from podfit.rules import _checkpoint
from podfit.rules._flags import (
    certainty,
    explained,
    from_json,
    in_file,
    is_since,
    life,
    named,
    parser,
    parser_near,
    registry_certainty,
    spellings,
    substitute,
    uncertain,
    unsplit,
    value_certainty,
)
from podfit.rules.command_line import _meant
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule, lines
from podfit.vllm import change
from podfit.vllm.args import ArgumentError, settings
from podfit.vllm.args.flags import builtin
from podfit.vllm.args.values import InvalidValueError, convert
from podfit.vllm.change import Change, Suggestion
from podfit.vllm.release import Release


class InvalidFlagValue(Rule):
    """vLLM's parser rejects an argument.

    A value of the wrong type, a word that belongs to no flag, a missing value: the parser ends with exit code 2
    before it loads anything, for example

        vllm: error: argument --max-num-seqs: invalid int value: '1k'

    A number or a JSON value may pass the parser and be rejected by the class that it fills, a moment later:

        pydantic_core._pydantic_core.ValidationError: 1 validation error for LoRAConfig
        max_loras
          Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]
        1 validation error for SpeculativeConfig
        method
          Input should be 'ngram', 'medusa', … [type=literal_error, input_value='eagle4', input_type=str]
        ValueError: Unsupported connector type: NixlConector

        KeyError: 'PIECEWISE_AND_FULL'
        ValueError: Unknown attention backend: 'XFORMERS'. Valid options are: FLASH_ATTN, …

    Since the parser has no list of them, `--quantization`, `--load-format`, `--kv-cache-dtype`, `--config-format`,
    `--mamba-backend` and `--distributed-executor-backend` are looked up by name when the engine is configured. A plugin
    may have added to these, so that nothing is certain if one is installed:

        Unknown quantization method: gptq_marlim. Must be one of ['awq', 'gptq_marlin', …
        ValueError: Load format `runai-streamer` is not supported
        ValueError: not enough values to unpack (expected 2, got 1)

    Of a script with a quote that is never closed, a shell runs nothing:

        bash: -c: line 1: unexpected EOF while looking for matching `"'

    A `--port` above 65535 passes the parser and fails a moment later: `OverflowError: bind(): port must be 0-65535.`
    """

    plane = "config"
    event = "vLLM exits before it loads the model"
    by_release = True
    of_parser = True
    mode = "deny"
    needs = ("vllm_args",)

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain in vLLM's own image: read with that release's own grammar."""
        yield from _slip(engine)
        if engine.command.unclosed is not None:
            yield _unclosed(engine, engine.command.unclosed)
            return
        model, given = engine.args.model, engine.args.given
        if model is not None and _NOT_OF_AN_ID.search(model):
            yield from _model_id(engine, model)
        if refused := _out_of_bounds(engine):
            yield from _out_of_bounds_findings(engine, refused)
        if not settings.config_arguments().isdisjoint(given):
            yield from _json(engine)
        if not REGISTERED.keys().isdisjoint(given):
            yield from _registered(engine)
        if engine.args.errors:
            yield from _refused(engine)
        yield from _port(engine)


class Replacement(NamedTuple):
    """Words of the command to replace, and the words that were probably meant."""

    first: int
    """The index of the first word to replace."""
    number: int
    """Words to replace."""
    words: tuple[str, ...]


def _refused(engine: Engine) -> Iterator[Finding]:
    """The findings on words that the parser rejects, except those whose cause another finding reports."""
    refused = {error.index for error in engine.args.errors}
    for error in engine.args.errors:
        is_value = _is_value_of(engine, error.index)
        if error.index in explained(engine) or (is_value and error.index - 1 in refused):
            continue
        at = error.index - 1 if is_value else error.index  # the module takes such a flag for its positional
        flag = _flag_meant(engine, at)
        yield _misspelt_flag(engine, error, at, flag) if flag else _refused_value(engine, error)


def _misspelt_flag(engine: Engine, error: ArgumentError, at: int, flag: str) -> Finding:
    """The finding on the word with the index `at`, which was meant to be `flag`."""
    return Finding(
        path=engine.command.words[at].path,
        certainty=certainty(engine),
        uncertain=uncertain(engine),
        message=error.message + in_file(engine, error.index),
        details=("vLLM knows the flag with two hyphens, and no blank in its name",),
        suggestions=(flag,),
        fix=substitute(engine, at, 1, flag),
    )


def _refused_value(engine: Engine, error: ArgumentError) -> Finding:
    """The finding on a rejected value, with what was probably meant: a switch, a list, or another value."""
    switch = _switch(engine, error)
    replacement = switch or _as_list(engine, error)
    meant = change.quoted_flag(*replacement.words) if replacement else _instead(engine, error)
    names, parsers = _meant.tool_parsers(error.message, engine.release)
    suggestions: tuple[Suggestion, ...] = (meant,) if meant else parsers or _positional(engine, error)
    if switch:
        suggestions = (f"{switch.words[0]}: a switch takes no value",)
    return Finding(
        path=error.path,
        certainty=_refusal_certainty(engine, error),
        unknown_name=_meant.is_choice(error.message) and not _is_a_choice(engine, error),
        uncertain=uncertain(engine),
        message=error.message + in_file(engine, error.index),
        details=lines(
            *names,
            f"vLLM {engine.release or ''} ends with exit code 2 before it loads anything",
            _by_helm(engine, error),
        ),
        suggestions=suggestions,
        fix=substitute(engine, replacement.first, replacement.number, *replacement.words) if replacement else (),
    )


def _positional(engine: Engine, error: ArgumentError) -> tuple[str, ...]:
    """The suggestion to give the model without --model, as `vllm serve` takes it. Empty unless the error is about the
    positional model and the command has --model."""
    if _ASKS_FOR_POSITIONAL.search(error.message) is None:
        return ()
    texts = [word.text for word in engine.command.words]
    behind = [text for flag, text in pairwise(texts) if flag == "--model"]
    joined = [text.removeprefix("--model=") for text in texts if text.startswith("--model=")]
    return tuple([f"`vllm serve {shortened(model)} …`, without --model" for model in (*behind, *joined)][:1])


_ASKS_FOR_POSITIONAL = regex(r"\bpositional argument\b|arguments are required: model_tag$")
"""Errors of `vllm serve --model NAME` (vLLM 0.5.4 … 0.33)."""


def _slip(engine: Engine) -> Iterator[Finding]:
    """A finding on a wrong word before vLLM's arguments; none for an unsplit item, which argument-string-not-split
    reports."""
    slip = engine.command.slip
    if slip is not None and not slip.unsplit:
        yield Finding(
            path=slip.path or engine.command.path,
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            message=slip.why,
            suggestions=(" ".join(slip.instead),),
        )


def _unclosed(engine: Engine, line: str) -> Finding:
    """A script that no shell reads to its end."""
    return Finding(
        path=engine.command.script_path or engine.command.path,
        certainty="likely",
        message=f"a quote in {line!r} is never closed: the shell rejects the whole script",
        details=("bash: unexpected EOF while looking for matching quote",),
    )


def _port(engine: Engine) -> Iterator[Finding]:
    """A finding on a TCP port that no socket has; none if the server answers on a Unix socket, or not at all."""
    port = engine.args.given.get("port")
    if isinstance(port, int) and not 0 <= port < 1 << 16 and engine.served and not engine.args.get("uds"):
        yield Finding(
            path=engine.argument("port"),
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            message=f"argument --port: {port} is not a valid port (1 … 65535)",
            suggestions=(change.flags("--port 8000"),),
        )


def _refusal_certainty(engine: Engine, error: ArgumentError) -> Certainty:
    """How sure it is that the parser of the image rejects the value too: a newer one may have more choices."""
    if _meant.is_choice(error.message):
        known = value_certainty(engine)
        return known if error.dest in PLUGGED or known == "possible" else certainty(engine)
    return registry_certainty(engine) if error.dest in PLUGGED else certainty(engine)


def _is_a_choice(engine: Engine, error: ArgumentError) -> bool:
    """True if a release takes the rejected value, or what was probably meant by it is known."""
    value = engine.args.written.get(error.dest) if error.dest else None
    return _meant.choice(error.message) is not None or value in builtin().choices(error.dest or "")


PLUGGED = frozenset({"quantization", "reasoning_parser", "tool_call_parser"})
"""Arguments whose choices plugins have added to before vLLM parses (vLLM 0.4.2 … 0.33 engine/arg_utils.py,
`AsyncEngineArgs.add_cli_args`: `load_general_plugins()`)."""


class Range(NamedTuple):
    """The bounds of a number, in a field that the table of bounds lacks: its value is computed, or checked by code."""

    first: Release
    least: float | None
    most: float | None
    bounds: str


RANGES: Mapping[str, Range] = {
    "cpu_offload_gb": Range(Release(0, 8, 5), 0, None, "0 and more"),
    "max_num_batched_tokens": Range(Release(0, 11), 1, None, "1 and more"),
    "optimization_level": Range(Release(0, 12), 0, 3, "0 … 3"),
    "tensor_parallel_size": Range(Release(0, 8, 5), 1, None, "1 and more"),
}
"""vLLM 0.8.5 … 0.33 config/cache.py, config/scheduler.py, config/vllm.py `OptimizationLevel`, config/model.py
verify_with_parallel_config (heads modulo tensor_parallel_size)."""
ELSEWHERE = ("gpu_memory_utilization",)
"""Arguments that have a rule of their own."""


def _out_of_bounds(engine: Engine) -> dict[str, settings.Refusal]:
    """The numbers that their class rejects, by argument. Those of `ELSEWHERE` and of a class that is not in use are
    left out."""
    given, release = engine.args.given, engine.release
    refused = {}
    for dest in sorted(settings.bounded().intersection(given) - RANGES.keys()):
        if dest in ELSEWHERE or not _is_switched_on(engine, settings.argument_that_enables(dest)):
            continue
        refusal = settings.out_of_bounds(dest, given[dest], release)
        if refusal is not None:
            refused[dest] = refusal
    for dest in sorted(RANGES.keys() & given.keys()):
        known, value = RANGES[dest], _number(given[dest])
        if value is None or release is None or release < known.first:
            continue
        if (known.least is not None and value < known.least) or (known.most is not None and value > known.most):
            refused[dest] = settings.Refusal("", value, bounds=known.bounds)
    return refused


def _number(value: object) -> float | None:
    """A number, also as a text of digits (`-O4`); None for other values."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:  # no bound has more digits
        return int(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _out_of_bounds_findings(engine: Engine, refused: Mapping[str, settings.Refusal]) -> Iterator[Finding]:
    """One finding per number outside of its bounds."""
    for dest, refusal in refused.items():
        yield Finding(
            path=engine.argument(dest),
            certainty=certainty(engine),
            uncertain=uncertain(engine),
            message=f"--{dest.replace('_', '-')} {refusal.value:g}: {named(engine)} takes {refusal.bounds}",
            details=("vLLM ends with a validation error before it loads anything",),
        )


def _is_switched_on(engine: Engine, switch: str | None) -> bool:
    """True if vLLM fills the class at all: its `switch` (None: it has none) is given."""
    return switch is None or bool(engine.args.given.get(switch))


_FEW = 6
"""Values that a message lists; a detail lists more."""


def _json(engine: Engine) -> Iterator[Finding]:
    """Findings on values inside of a JSON argument, which its class checks, and on an unknown KV connector, unless
    kv_connector_module_path brings its class."""
    for dest, value in engine.once(from_json):
        for bad in settings.bad_values(dest, value, engine.release):
            allowed_text = ", ".join(map(str, bad.allowed))
            near = _meant.name(bad.value, bad.allowed) if isinstance(bad.value, str) else None
            few = bad.bounds or (f"one of {allowed_text}" if len(bad.allowed) <= _FEW else "another")
            yield Finding(
                path=engine.argument(dest),
                certainty=value_certainty(engine) if bad.open else certainty(engine),
                unknown_name=not bad.bounds and bad.first is None,
                uncertain=uncertain(engine),
                message=f"--{dest.replace('_', '-')}: {bad.place} is {bad.value!r}, and {named(engine)} takes {few}"
                f"{life(bad, engine.release)}{f'; did you mean {near}?' if near else ''}",
                details=lines(
                    f"it takes {allowed_text}" if len(bad.allowed) > _FEW else None,
                    "vLLM ends with a validation error before it loads anything",
                ),
                suggestions=(f"{bad.place}: {near}",) if near else (),
            )
    transfer = engine.args.given.get("kv_transfer_config")
    sure = engine.args.is_sure("kv_transfer_config")
    if sure and isinstance(transfer, Mapping) and not transfer.get("kv_connector_module_path"):
        yield from _connector(engine, transfer.get("kv_connector"))


REGISTERED = {
    "quantization": "method",
    "load_format": "format",
    "config_format": "format",
    "distributed_executor_backend": "backend",
    "kv_cache_dtype": "dtype",
    "mamba_backend": "backend",
}
"""Arguments that name something of a registry, and what to call it."""


def _registered(engine: Engine) -> Iterator[Finding]:
    """Findings on names that are not in a registry. Certain in vLLM's own image, where nothing shows a plugin that may
    have added to the registry."""
    given = engine.args.given
    for dest in REGISTERED:
        name = given.get(dest)
        if isinstance(name, str) and name and engine.args.is_sure(dest):
            yield from _not_registered(engine, dest, name)


GGUF_UNTIL = Release(0, 24)
"""Before, vLLM sets both arguments of a GGUF file itself (vLLM 0.10.1.1 … 0.23 engine/arg_utils.py,
`create_model_config`)."""
BITSANDBYTES_UNTIL = Release(0, 28)
"""Before, vLLM sets the load format of bitsandbytes itself (vLLM 0.10.1.1 … 0.27.1 engine/arg_utils.py,
`create_load_config`, `create_engine_config`)."""
_GGUF = regex(r"gguf|^[\w.-]+/[\w.-]+:\w", re.IGNORECASE)
"""A file, a repository of files, or one file of a repository: `unsloth/Qwen3-8B-GGUF:Q4_K_M`."""
MARLIN = "marlin"
"""No method of its own since 0.10.2, and one that AWQ and GPTQ checkpoints take for theirs (vLLM 0.4.3 … 0.33
gptq_marlin.py, awq_marlin.py, auto_gptq.py, auto_awq.py, `override_quantization_method`)."""
OVERRIDING = ("modelopt", "mxfp4", "gpt_oss_mxfp4", "auto-round", _checkpoint.OVERRIDING)
"""Methods, and a family, that take whatever is given for their own (vLLM 0.10 … 0.33 modelopt.py, 0.20 … mxfp4.py,
0.15.1 … inc.py, 0.20 … models/deepseek_v4)."""
FAITHFUL = frozenset({"", "fp8", "compressed-tensors"})
"""Methods of checkpoints that no other method takes for its own on any platform; "": none."""
FAITHFUL_ON_CUDA = frozenset({"awq", "gptq"})
"""Methods of checkpoints that no other method takes for its own on NVIDIA's GPUs: the CPU's and Intel's methods
(ipex_quant.py, cpu_wna16.py) take whatever is given."""


def _looked_up(engine: Engine, dest: str, name: str) -> Certainty | None:
    """The certainty that vLLM looks for just this name in the registry of `dest`; None if it puts another in its place
    before it looks."""
    known, release = registry_certainty(engine), engine.release
    if dest not in ("quantization", "load_format"):
        return known
    if (release is None or release < GGUF_UNTIL) and _GGUF.search(engine.args.model or ""):
        return None
    if dest == "quantization":
        return _looked_up_method(engine, name)
    if is_since(engine, BITSANDBYTES_UNTIL):
        return known
    if "bitsandbytes" in (_checkpoint.method(engine), engine.args.quantization):
        return None
    return known if _checkpoint.is_certain(engine) and engine.args.is_sure("quantization") else "likely"


def _looked_up_method(engine: Engine, name: str) -> Certainty | None:
    """`_looked_up` of a quantization method: None if the checkpoint's own method takes any other for its own."""
    has = _checkpoint.method(engine)
    family = (engine.model.value.model_type or "") if engine.model else ""
    marlin = has in FAITHFUL_ON_CUDA and name.lower() == MARLIN
    if marlin or has.startswith(OVERRIDING) or family.startswith(OVERRIDING):
        return None
    faithful = has in FAITHFUL or has == name.lower() or (has in FAITHFUL_ON_CUDA and _on_cuda(engine))
    return registry_certainty(engine) if _checkpoint.is_certain(engine) and faithful else "likely"


def _on_cuda(engine: Engine) -> bool:
    """True if the container requests GPUs of NVIDIA's."""
    return engine.requested is not None and engine.requested[0].startswith("nvidia.com/")


def _not_registered(engine: Engine, dest: str, name: str) -> Iterator[Finding]:
    """A finding on a name that is not in the registry of the release. None for a name that another image or a custom
    class may bring, or that vLLM replaces before it looks (`_looked_up`)."""
    spelt = settings.NAMED[dest](name)
    refusal = settings.unknown_name(dest, spelt, engine.release)
    if refusal is None or (dest == "distributed_executor_backend" and "." in name):  # a custom class
        return
    known = _looked_up(engine, dest, name)
    if known is None:
        return
    near = [name.lower()] if name.lower() in refusal.allowed else nearest(spelt, refusal.allowed, cutoff=0.8)
    if near or known == "certain" or engine.supposed:  # builds of others bring their own
        flag = f"--{dest.replace('_', '-')}"
        yield Finding(
            path=engine.argument(dest),
            certainty="possible" if value_certainty(engine) == "possible" else known,
            unknown_name=refusal.first is None,
            uncertain=uncertain(engine),
            message=f"{flag} {name}: {named(engine)} has no such {REGISTERED[dest]}{life(refusal, engine.release)}"
            f"{f'; did you mean {near[0]}?' if near else ''}",
            details=(f"it has {', '.join(refusal.allowed)}", f"without a plugin that adds it, vLLM rejects {name!r}"),
            suggestions=(change.flags(f"{flag} {near[0]}"),) if near else (),
        )


V1_ALONE = Release(0, 11)
"""Since then there is one registry of connectors; before, V0 and V1 had one each."""


def _connector(engine: Engine, name: object) -> Iterator[Finding]:
    """A finding on a KV connector that the release does not have; none before `V1_ALONE`, and in an image that may have
    more."""
    if not isinstance(name, str) or not name or engine.release is None or engine.release < V1_ALONE:
        return
    refusal = settings.unknown_name("kv_connector", name, engine.release)
    if refusal is not None and (registry_certainty(engine) == "certain" or engine.supposed):  # others bring their own
        yield Finding(
            path=engine.argument("kv_transfer_config"),
            unknown_name=refusal.first is None,
            message=f"--kv-transfer-config: vLLM {engine.release} has no connector {name!r}"
            f"{life(refusal, engine.release)}",
            details=(f"it has {', '.join(refusal.allowed)}", "ValueError: Unsupported connector type"),
        )


_FOLDER = regex(r"[/.~]|\w+://")
_NOT_OF_AN_ID = regex(r"['\"\s]")


def _model_id(engine: Engine, model: str) -> Iterator[Finding]:
    """A finding on a name that no hub and hardly a folder has: quotes that no shell has removed, blanks, `$(MODEL)` as
    it is.

    huggingface_hub utils/_validators.py validate_repo_id; vLLM 0.33 transformers_utils/config.py get_config: "Invalid
    repository ID or local directory specified".
    """
    if _FOLDER.match(model) or engine.command.own_flags:
        return  # a folder's name may have any character, and a wrapper reads the model itself
    has_blank = len(f"|{model}|".split()) > 1
    if not has_blank and "'" not in model and '"' not in model:
        return
    if any(word.text in (model, f"--model={model}") for word in unsplit(engine).values()):
        return  # argument-string-not-split reports the word
    what = "blanks" if has_blank else "quotes"
    clean = re.sub(r"['\"\s]", "", model)
    yield Finding(
        path=engine.argument("model"),
        certainty=certainty(engine) if model.strip("'\" \t\r\n") != model else "likely",  # a folder may have a blank
        message=f"{model!r} is not a valid model ID: {what} are part of it"
        + ("" if engine.command.shell else ", since no shell removes them"),
        suggestions=(clean,) if re.sub(r"['\"]", "", model).strip() == clean else (),
    )


def _instead(engine: Engine, error: ArgumentError) -> Change | None:
    """A flag with the value that was probably meant; None if nothing is near."""
    if error.dest is None:
        return None
    if (near := _meant.choice(error.message)) is not None:
        return change.flags(f"--{error.dest.replace('_', '-')} {near}")
    text = engine.args.written.get(error.dest)
    if (meant := _meant.number(text)) is not None and _takes(engine, error.dest, meant):
        return change.flags(f"--{error.dest.replace('_', '-')} {meant}")
    written = _meant.as_json(error.dest, text, engine.release)
    return change.flags(f"--{error.dest.replace('_', '-')} '{written}'") if written and "'" not in written else None


_SEPARATORS = regex(r"[,;\s]+")


def _as_list(engine: Engine, error: ArgumentError) -> Replacement | None:
    """The flag with a word for each value, in place of a list in one word: `1,2,4` or `[1, 2, 4]`. None if the flag
    takes no list of such values."""
    words, known = engine.command.words, parser_near(engine)
    if error.dest is None or known is None or not 0 <= error.index < len(words):
        return None
    flag, text = _halves(words[error.index].text)
    first, count = (error.index if flag else error.index - 1), 1
    if not text or not flag:  # the flag and its value are two words
        if first < 0 or first + 1 >= len(words):
            return None
        count, flag, text = 2, words[first].text, words[first + 1].text
    if not flag.startswith("--"):
        return None
    option, _ = known.spellings.get(flag.replace("_", "-"), (None, False))
    items = [piece for piece in _SEPARATORS.split(text.strip(" []()'\"")) if piece]
    if option is None or option.nargs not in ("+", "*") or len(items) < 2 or len(items) > _MOST_ITEMS:
        return None
    try:
        for item in items:
            convert(option, item, known.release)
    except InvalidValueError:
        return None
    return Replacement(first, count, (flag, *items))


def _halves(word: str) -> tuple[str, str]:
    """The flag and the value after its equals sign: ("--flag", "") for a flag alone, ("", word) for a value alone."""
    flag, _, value = word.partition("=")
    return (flag, value) if word.startswith("--") else ("", word)


_MOST_ITEMS = 64
"""Values of a list that a suggestion writes out."""
_DASHED = regex(r"[-\u2010-\u2015\u2212]{1,2}(?P<flag>[A-Za-z][\w.-]*)(?P<value>=.*)?", re.DOTALL)
"""A flag as word processors write it: `—max-model-len`, `–port=8000`."""


def _flag_meant(engine: Engine, index: int) -> str | None:
    """The flag that a word with another dash, or with blanks around it, was meant to be. None for other words, and if
    the release has no such flag."""
    words = engine.command.words
    text = words[index].text if 0 <= index < len(words) else ""
    match = _DASHED.fullmatch(text.strip())
    if match is None or (text.isascii() and text == text.strip()):
        return None
    flag = f"--{match['flag']}"
    return f"{flag}{match['value'] or ''}" if flag.replace("_", "-") in spellings(engine) else None


def _is_value_of(engine: Engine, index: int) -> bool:
    """True if the word is a value whose flag, the word before it, is misspelt: the finding on the flag explains
    both."""
    words = engine.command.words
    alone = 0 < index < len(words) and not words[index].text.startswith("-") and "=" not in words[index - 1].text
    return alone and _flag_meant(engine, index - 1) is not None


def _takes(engine: Engine, dest: str, text: str) -> bool:
    """True if the release's parser takes the text for this argument, and makes a number of it."""
    known = parser(engine)
    option, _ = known.spellings.get(f"--{dest.replace('_', '-')}", (None, False)) if known else (None, False)
    if option is None or known is None:
        return False
    try:
        return isinstance(convert(option, text, known.release), int | float)
    except InvalidValueError:
        return False


_OF_HELM = regex(r"\d(\.\d+)?e\+\d\d")
"""The form in which Go prints a large number from YAML or JSON."""


def _by_helm(engine: Engine, error: ArgumentError) -> str | None:
    """The explanation for an integer that Helm printed as "3.2768e+04"; None for other values."""
    text = engine.args.written.get(error.dest) if error.dest else None
    if isinstance(text, str) and _OF_HELM.fullmatch(text):
        return "so Helm prints a large number of values.yaml, unless the template says `| int`"
    return None


def _switch(engine: Engine, error: ArgumentError) -> Replacement | None:
    """The flag that is meant, in place of `--enable-x=true` or `--enable-x true`. None for other errors, and if the
    release has no `--no-enable-x` for false."""
    words = engine.command.words
    if not 0 <= error.index < len(words):
        return None
    first, count, text = error.index, 1, words[error.index].text
    if not text.startswith("--") and first > 0:
        first, count, text = first - 1, 2, f"{words[first - 1].text}={text}"
    flag, _, value = text.partition("=")
    if not flag.startswith("--") or flag.startswith("--no-") or value.lower() not in ("true", "false"):
        return None
    default = engine.args.defaults.get(flag.removeprefix("--").replace("-", "_"))
    if default is not None and not isinstance(default, bool):
        return None
    if value.lower() == "true":
        return Replacement(first, count, (flag,))
    negated = f"--no-{flag.removeprefix('--')}"
    known = engine.release is not None and negated in spellings(engine)
    return Replacement(first, count, (negated,)) if known else None
