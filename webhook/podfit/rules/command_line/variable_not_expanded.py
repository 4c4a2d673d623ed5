from __future__ import annotations

from collections.abc import Iterator

from podfit.base.lazy import regex
from podfit.base.near import nearest
from podfit.kube.workload.kserve_runtime import RUNTIMES
from podfit.rules._flags import certainty, parser, registry_certainty, uncertain
from podfit.rules.command_line.invalid_flag_value import PLUGGED
from podfit.rules.engine import Engine
from podfit.rules.rule import Certainty, Finding, Rule, lines
from podfit.vllm.args.values import InvalidValueError, convert
from podfit.vllm.command.word import UNDEFINED, UNEXPANDED, Word

_SHELLS = regex(r"\$\{(?P<braced>[A-Za-z_]\w*)[^{}]*\}|(?<![\w$])\$(?P<bare>[A-Za-z_]\w*)")
_KUBERNETES = regex(r"\$\((?P<name>[^()]*)\)")
_NAME = regex(r"[A-Za-z_][\w.-]*")
_OF_SERVICES = regex(r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_\w+)")
"""The variables that the kubelet adds for every Service of the namespace (kubernetes pkg/kubelet/envvars)."""
_LONGEST, _MANY = 253, 256
"""Characters of a variable's name (k8s.io/apimachinery IsEnvVarName and DNS names); variables that are compared with
it."""
_DIRECT = regex(r"(.*/)?(vllm|python[\d.]*)")
"""Programs that hand their arguments on as they are, unlike a wrapper, which may bring a shell."""
_OWN = ("", "apps", "batch")
"""API groups whose controllers do so too; KubeRay, for one, writes a script of a container's words."""


class VariableNotExpanded(Rule):
    """A reference to a variable reaches vLLM unchanged.

    Kubernetes expands only `$(NAME)` in `command` and `args`, and only names in the container's `env` or `envFrom`.
    `$NAME` and `${NAME}` are shell syntax; without a shell (`sh -c`) nothing expands them. vLLM then gets the dollar
    sign:

        vllm: error: argument --max-model-len: invalid human_readable_int_or_auto value: '$LEN'

    If the argument accepts text, vLLM for example looks for a model called `${MODEL}`. Write `$(NAME)`, with NAME in
    `env`. In files another tool may still fill it in (envsubst, Flux, Kustomize), so `podfit check` only warns. At the
    API server no tool does so any more.
    """

    plane = "config"
    event = "vLLM gets the variable's name in place of its value, and exits"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if vLLM's own parser rejects the text itself. `$(NAME)` never is: the kubelet also knows
        variables of Services, of device plugins, and of webhooks that change the Pod later."""
        if engine.command.shell:
            return
        for word in engine.command.words:
            if word.unknown is None:
                continue
            if word.unknown.endswith(UNEXPANDED):
                yield from _of_a_shell(engine, word)
            elif word.unknown.endswith(UNDEFINED):
                yield from _undefined(engine, word)


def _of_a_shell(engine: Engine, word: Word) -> Iterator[Finding]:
    """The finding for a `$NAME` that only a shell would expand; none for JSON keys and names that envsubst fills."""
    match = _SHELLS.search(word.text)
    if match is None:
        return
    name = match["braced"] or match["bare"]
    if name in engine.workload.unfilled:  # a file for envsubst
        return
    why = _refused(engine, word)
    defined = name in engine.declared
    is_all = match[0] in (word.text, word.text.partition("=")[2])
    if not (why or defined or is_all or match["braced"]):  # `{"$schema": …}`
        return
    simple = match[0] in (f"${name}", f"${{{name}}}")
    yield _finding(
        engine,
        word,
        f"{_gets(engine, word)}: no shell runs here, and Kubernetes expands $(NAME) alone",
        why,
        word.text.replace(match[0], f"$({name})") if defined and simple else None,
        sure=True,
    )


def _undefined(engine: Engine, word: Word) -> Iterator[Finding]:
    """A `$(NAME)` or `$(command)` that Kubernetes leaves as it is."""
    match = _KUBERNETES.search(word.text)
    if match is None or len(match["name"]) > _LONGEST or _OF_SERVICES.fullmatch(match["name"]):
        return
    name = match["name"]
    if _by_kserve(engine, name):
        return
    if _NAME.fullmatch(name) is None:  # `$(nproc --all)`
        message = f"{_gets(engine, word)}: no shell runs here that would run {name!r}"
        yield _finding(engine, word, message, _refused(engine, word), None, sure=True)
        return
    declared = engine.declared if len(engine.declared) <= _MANY else ()
    near = nearest(name, sorted(declared), cutoff=0.75)
    message = f"{_gets(engine, word)}: this container's env has no {name}"
    instead = word.text.replace(match[0], f"$({near[0]})") if near else None
    yield _finding(engine, word, message, _refused(engine, word), instead, sure=False)


_OF_KSERVE = frozenset({
    "PIPELINE_PARALLEL_SIZE", "TENSOR_PARALLEL_SIZE", "RAY_NODE_COUNT", "REQUEST_GPU_COUNT", "HEAD_SVC", "MODEL_NAME",
    "ISVC_NAME", "POD_NAMESPACE", "POD_NAME",
})  # fmt: skip
"""Variables that KServe sets in the containers of a multi-node runtime (kserve pkg/constants/constants.go, and
pkg/controller/v1beta1/inferenceservice/components/predictor.go)."""


def _by_kserve(engine: Engine, name: str) -> bool:
    """True if KServe or OME sets the variable; and an InferenceService adds what it likes to its runtime's
    containers."""
    group, kind = str(engine.workload.object.get("apiVersion") or "").rpartition("/")[0], engine.workload.kind
    return group in ("serving.kserve.io", "ome.io") and (kind in RUNTIMES or name in _OF_KSERVE)


def _finding(
    engine: Engine, word: Word, message: str, refused: tuple[str, str] | None, instead: str | None, *, sure: bool
) -> Finding:
    """The finding. `refused`: from `_refused`; `sure`: nothing can expand the word later; `instead`: the right word."""
    known: Certainty = "likely"
    if refused and sure and _is_direct(engine):
        known = registry_certainty(engine) if refused[0] in PLUGGED else certainty(engine)
    why = uncertain(engine) if sure else "the kubelet, a plugin or a webhook may still bring it"
    ends = f"vLLM{f' {engine.release}' if engine.release else ''} ends with exit code 2 before it loads anything"
    return Finding(
        path=word.path,
        message=message,
        details=lines(refused[1], ends) if refused else (),
        certainty=known,
        uncertain=why if refused else None,
        fillable="envsubst, Flux or Kustomize may still put a value there",
        suggestions=(instead,) if instead else (),
    )


def _gets(engine: Engine, word: Word) -> str:
    """ "--max-model-len gets the literal text '$LEN'"."""
    flag, equals, value = word.text.partition("=")
    if equals and flag.startswith("--"):
        return f"{flag} gets the literal text {value!r}"
    dest = _dest(engine, word)
    who = "vLLM" if dest is None else f"--{dest.replace('_', '-')}"
    return f"{who} gets the literal text {word.text!r}"


def _dest(engine: Engine, word: Word) -> str | None:
    """The argument whose value the word is; None if it is not one."""
    args, texts = engine.args, (word.text, word.text.partition("=")[2])
    for dest in args.unresolved:
        if args.places.get(dest) == word.path and args.written.get(dest) in texts:
            return dest
    return None


def _refused(engine: Engine, word: Word) -> tuple[str, str] | None:
    """The argument, and what the release's parser says of the unexpanded text; None if it takes it."""
    dest, known = _dest(engine, word), parser(engine)
    if dest is None or known is None:
        return None
    option, _ = known.spellings.get(f"--{dest.replace('_', '-')}", (None, False))
    if option is None:
        return None
    try:
        convert(option, str(engine.args.written[dest]), known.release)
    except InvalidValueError as error:
        return dest, str(error) if error.complete else f"argument {option.name}: {error}"
    return None


def _is_direct(engine: Engine) -> bool:
    """True if nothing is between Kubernetes and vLLM that might expand it after all."""
    group = str(engine.workload.object.get("apiVersion") or "").rpartition("/")[0]
    command = engine.field("command")
    first = command[0] if isinstance(command, list) and command else "vllm"
    own = engine.command.program.startswith("vllm") and not engine.command.own_flags
    return group in _OWN and own and isinstance(first, str) and _DIRECT.fullmatch(first) is not None
