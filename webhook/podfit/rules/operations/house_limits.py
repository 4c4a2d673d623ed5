from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, replace
from typing import Literal, NamedTuple, Protocol, TypeVar

from podfit.kube.quantity import human, quantity
from podfit.rules import memory_sizes
from podfit.rules.engine import Engine
from podfit.rules.operations import _house_values as values
from podfit.rules.operations._house_values import Reading
from podfit.rules.rule import Finding, Rule, camel, parameter
from podfit.vllm import change, gpu
from podfit.vllm.change import Suggestion
from podfit.vllm.gpu import Gpu
from podfit.vllm.release import Release, parse

_GPUS = "the GPUs that it is for, such as l4 or a100-80gb; default: all"


@dataclass(frozen=True)
class LengthLimit:
    """The longest context on some GPUs, or on all."""

    value: int = parameter(MISSING, "tokens", ge=1)
    gpus: tuple[str, ...] = parameter((), _GPUS, form="gpu", min_length=1)


@dataclass(frozen=True)
class ShareLimit:
    """The share of GPU memory that vLLM may use on some GPUs, or on all."""

    minimum: float | None = parameter(None, "the least --gpu-memory-utilization", gt=0, le=1)
    maximum: float | None = parameter(None, "the greatest --gpu-memory-utilization", gt=0, le=1)
    gpus: tuple[str, ...] = parameter((), _GPUS, form="gpu", min_length=1)

    def __post_init__(self) -> None:
        """Raises ValueError if it limits nothing, or allows nothing."""
        if self.minimum is None and self.maximum is None:
            raise ValueError("required: minimum, maximum or both")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum:g} is above maximum {self.maximum:g}: nothing is allowed")


@dataclass(frozen=True)
class FactorLimit:
    """The least memory limit on some GPUs, or on all, as a multiple of the certain minimum."""

    value: float = parameter(MISSING, "the factor", ge=1, le=100)
    gpus: tuple[str, ...] = parameter((), _GPUS, form="gpu", min_length=1)


@dataclass(frozen=True)
class ReleaseLimit:
    """The vLLM releases that may run."""

    minimum: str | None = parameter(None, "the oldest release", form="release")
    allowed: tuple[str, ...] = parameter(
        (), "releases; 0.27 is every release of 0.27, 0.27.1 that one alone", form="release", min_length=1
    )

    def __post_init__(self) -> None:
        """Raises ValueError if it limits nothing."""
        if self.minimum is None and not self.allowed:
            raise ValueError("required: minimum, allowed or both")


@dataclass(frozen=True)
class ModelLimit:
    """The models that may be served."""

    allowed: tuple[str, ...] = parameter(
        MISSING, "names as vLLM gets them, with * and ? as wildcards, in any case", form="model", min_length=1
    )


Unknown = Literal["deny", "warn"]


@dataclass(frozen=True)
class WhenUnknown:
    """The mode if a limited value is unknown: deny or warn."""

    max_model_len: Unknown = parameter("warn", "the context length is not known")
    gpu_memory_utilization: Unknown = parameter("warn", "the share of GPU memory is not known")
    releases: Unknown = parameter("warn", "the vLLM release is not known, as of the tag latest")
    models: Unknown = parameter("warn", "the model is not known by name")
    memory_factor: Unknown = parameter("warn", "the memory limit, or the minimum that vLLM needs, is not known")


class _OfGpus(Protocol):
    """A limit for some GPUs, or for all."""

    @property
    def gpus(self) -> tuple[str, ...]: ...


Limit = TypeVar("Limit", bound=_OfGpus)
V = TypeVar("V")


SUBJECTS = {
    "max_model_len": "the context length",
    "gpu_memory_utilization": "the share of GPU memory",
    "releases": "the vLLM release",
    "models": "the model",
    "memory_factor": "the memory limit's distance from the minimum",
}
"""A limited value → its name, for people."""


_UNSEEN = "variables without a value, --config files that podfit does not see, and scripts that add arguments"
UNKNOWN_OBJECTS = {
    "max_model_len": f"{_UNSEEN}; and no --max-model-len, unless a named model and the release of vLLM's image fix it",
    "gpu_memory_utilization": f"{_UNSEEN}; and no --gpu-memory-utilization in an image without a release",
    "releases": "images whose tag names no vLLM release: latest, none, digests, other version numbers. In 249 public "
    "manifests these are 60 % of the images, latest and none 26 %",
    "models": "models in a folder or a bucket, and in variables without a value",
    "memory_factor": "Pods without a memory limit, with a model that is not known, and engines over several Pods",
}
"""A limited value → the objects of which it is not known, for people."""


class Violation(NamedTuple):
    """A value that the policy does not allow."""

    allowed: str
    """The values that the policy allows, for people."""
    change: Suggestion | None = None
    """A change that the policy allows; None if there is none."""
    doubt: str | None = None
    """Why it may be allowed here; None if it certainly is not."""


@dataclass(frozen=True)
class HouseLimits(Rule):
    """A limit of the policy is not met: context length, GPU memory share, release, model or memory limit.

    Other policy tools do not read vLLM's arguments. `--max-model-len 40k`, `--max_model_len=40960`,
    `--max-model-le 40960`, a variable, a script and a config file all set one value, and this rule compares that value.
    Without a limit in a policy it reports nothing.

        house-limits:
          mode: deny
          maxModelLen: [{value: 8192, gpus: [l4, t4]}, {value: 32768}]
          gpuMemoryUtilization: {minimum: 0.5, maximum: 0.95}
          releases: {minimum: "0.21", allowed: ["0.27", "0.33.0"]}
          models: {allowed: [Qwen/*, meta-llama/*]}
          memoryFactor: 1.5
          whenUnknown: {releases: deny}

    - `maxModelLen`, `gpuMemoryUtilization` and `memoryFactor` are one value, or a list by GPU. The first entry whose
      `gpus` name the container's GPU applies, or the first without `gpus`. A denial needs a violation on every GPU that
      the container may get; a violation on some of them is a warning.
    - Certain is what the object writes. Of vLLM's own image with a named release, so are defaults: the share of
      GPU memory, and the context length of a named model. A guessed model is at most a warning.
    - `memoryFactor` denies a memory limit below the factor × the certain minimum of host memory, and warns below the
      factor × the estimate.
    - A value that is not known is a warning, unless `whenUnknown` denies it: an unset variable, `latest`, a script that
      adds arguments, a model in a folder. A model in a folder meets `models` if a pattern matches the folder.

    `podfit policy lint` reports what `whenUnknown` denies, and `podfit policy diff OLD NEW --on DIR` which objects.
    """

    plane = "config"
    event = "the policy in force does not allow it"
    threatens = "practice"
    of_vllm = False
    forbids = True

    max_model_len: tuple[LengthLimit, ...] = parameter(
        (), "the longest --max-model-len, in tokens; one value, or a list by GPU", example="32768"
    )
    gpu_memory_utilization: tuple[ShareLimit, ...] = parameter(
        (), "bounds of --gpu-memory-utilization; one object, or a list by GPU", example="{maximum: 0.95}"
    )
    releases: ReleaseLimit | None = parameter(None, "the vLLM releases that may run", example='{minimum: "0.21"}')
    models: ModelLimit | None = parameter(None, "the models that may be served", example="{allowed: [Qwen/*]}")
    memory_factor: tuple[FactorLimit, ...] = parameter(
        (), "the least memory limit, as a multiple of the certain minimum; one value, or a list by GPU", example="1.5"
    )
    when_unknown: WhenUnknown = parameter(
        WhenUnknown(), "deny or warn if a limited value is not known; default: warn", example="{releases: deny}"
    )

    def remarks(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """(path of the field, remark) for each limit of which `whenUnknown` denies an unknown value."""
        for topic, objects in UNKNOWN_OBJECTS.items():
            if self._denies_unknown(topic):
                yield ("whenUnknown", camel(topic)), f"also denies {objects}. `podfit policy diff` shows which objects"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """At most one finding for each limit of the policy."""
        releases, models = self.releases, self.models
        if releases is not None:
            yield from self._check(
                "releases", values.release(engine), lambda release: _other_release(releases, release)
            )
        if engine.command.entry == "worker":
            return  # a worker that joins a leader has no arguments of its own
        if lengths := self.max_model_len:
            yield from self._check(
                "max_model_len",
                values.context_length(engine),
                lambda tokens: _of_gpus(engine, lengths, lambda limit: _too_long(limit, tokens)),
            )
        if (shares := self.gpu_memory_utilization) and not engine.on_processors:
            yield from self._check(
                "gpu_memory_utilization",
                values.gpu_share(engine),
                lambda share: _of_gpus(engine, shares, lambda limit: _other_share(limit, share)),
            )
        if models is not None:
            yield from self._check(
                "models", values.model(engine, models.allowed), lambda names: _other_model(models, names)
            )
        if self.memory_factor:
            yield from self._check_memory(engine, self.memory_factor)

    def _check(self, topic: str, reading: Reading[V], violation: Callable[[V], Violation | None]) -> Iterator[Finding]:
        """The finding that a limited value is unknown, or not allowed; none if it is allowed. `topic`: a key of
        `SUBJECTS`; `violation` returns None for an allowed value."""
        if reading.value is None or (reading.doubt and self._denies_unknown(topic)):
            yield self._unknown(topic, reading)
            return
        violated = violation(reading.value)
        if violated is None:
            return
        doubt = reading.doubt or violated.doubt
        yield Finding(
            path=reading.path,
            message=f"{reading.text}: the policy allows {violated.allowed}",
            certainty="likely" if doubt else "certain",
            uncertain=doubt,
            suggestions=(violated.change,) if violated.change else (),
            topic=topic,
        )

    def _check_memory(self, engine: Engine, limits: Sequence[FactorLimit]) -> Iterator[Finding]:
        """The finding on the memory limit: unknown, below the factor × the certain minimum, or (likely) below the
        factor × the estimate. None if it is at least that."""
        topic, size, host = "memory_factor", engine.memory_limit, engine.plan.host
        minimum, doubt = values.host_minimum(engine)
        if size is None or host is None:
            why = "no memory limit is set" if size is None else doubt
            reading = Reading[int](text="", path=engine.memory_at, doubt=why, yields_to=values.UNKNOWN_MEMORY)
            yield self._unknown(topic, reading)
            return
        text = f"limit {memory_sizes.written(engine, engine.memory_at, size)}"
        reading = Reading(text=text, path=engine.memory_at, value=size)
        below_minimum = _of_gpus(engine, limits, lambda limit: _too_small(limit, size, minimum, "certain minimum"))
        if below_minimum is not None:
            yield from self._check(topic, reading, lambda _: below_minimum)
            return
        need = host.need.likely
        below_estimate = _of_gpus(engine, limits, lambda limit: _too_small(limit, size, need, "estimate"))
        if below_estimate is not None:
            below_estimate = below_estimate._replace(doubt="the estimate is a range")
        # The doubt about the minimum counts only here: it makes the minimum smaller, never too large.
        yield from self._check(topic, replace(reading, doubt=doubt), lambda _: below_estimate)

    def _denies_unknown(self, topic: str) -> bool:
        """True if `whenUnknown` denies an unknown value of the topic."""
        return bool(getattr(self.when_unknown, topic) == "deny")

    def _unknown(self, topic: str, reading: Reading[V]) -> Finding:
        """The finding that a limited value is not known."""
        denies = self._denies_unknown(topic)
        return Finding(
            path=reading.path,
            message=f"{SUBJECTS[topic]} is limited by the policy and not known: {reading.doubt}",
            details=(reading.text,) if reading.text else (),
            certainty="certain" if denies else "possible",
            uncertain=None if denies else "what is not known is denied only with whenUnknown",
            yields_to=() if denies else reading.yields_to,
            topic=topic,
        )


# ── The limits ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_gpus(
    engine: Engine, limits: Sequence[Limit], violation: Callable[[Limit], Violation | None]
) -> Violation | None:
    """The violation on the GPUs that the container may get; None if each of them allows the value.

    It is certain if the limits forbid the value on every GPU, or on each one that the object certainly names."""

    def violations(gpu_limits: Sequence[tuple[str, Limit | None]]) -> list[Violation]:
        """The violation on each GPU whose limit is not met, with the GPU's name in `allowed`."""
        broken = []
        for name, limit in gpu_limits:
            violated = violation(limit) if limit is not None else None
            if violated is not None:
                broken.append(violated._replace(allowed=f"{violated.allowed} on {name}"))
        return broken

    if len(limits) == 1 and not limits[0].gpus:
        return violation(limits[0])
    of_any, of_named = _limits_of_any_gpu(limits), _limits_of_named_gpus(engine, limits)
    broken = violations(of_named or of_any)
    if not broken:
        return None
    certain = len(violations(of_any)) == len(of_any)  # it does not matter which GPU the Pod gets
    if of_named and engine.gpu is not None and engine.gpu.may_deny:
        certain = certain or len(broken) == len(of_named)
    return broken[0]._replace(doubt=None if certain else "the Pod may get a GPU on which it is allowed")


def _limits_of_named_gpus(engine: Engine, limits: Sequence[Limit]) -> list[tuple[str, Limit | None]]:
    """(name of the GPU, its limit) for each GPU that the object or its nodes name; empty if none is named.

    The limit is the first one for the GPU; None if no limit is for it."""
    if engine.on_processors:
        of_all = next((limit for limit in limits if not limit.gpus), None)
        return [("processors", of_all)]
    gpus = engine.gpu.value.gpus if engine.gpu is not None else ()
    return [(product.name, next((limit for limit in limits if _is_for(limit, product)), None)) for product in gpus]


def _limits_of_any_gpu(limits: Sequence[Limit]) -> list[tuple[str, Limit | None]]:
    """(names of GPUs, their limit) for each limit that can apply to a GPU: all up to the first one for every GPU.

    If each limit is for some GPUs, the last pair is for the others, which have no limit (None)."""
    of_any: list[tuple[str, Limit | None]] = []
    for limit in limits:
        if not limit.gpus:
            return [*of_any, ("any other GPU", limit)]
        of_any.append((" or ".join(limit.gpus), limit))
    return [*of_any, ("any other GPU", None)]


def _is_for(gpu_limit: _OfGpus, model: Gpu) -> bool:
    """True if the limit is for the GPU: for all, by its name, or by the name of the GPU that it is a slice of."""
    if not gpu_limit.gpus:
        return True
    names = {product.name for text in gpu_limit.gpus for product in gpu.by_name(text)}
    return model.name in names or gpu.whole_name(model.name) in names


def _too_long(length_limit: LengthLimit, tokens: int) -> Violation | None:
    """The violation by a context length of `tokens`; None if the limit allows it."""
    if tokens <= length_limit.value:
        return None
    return Violation(f"at most {length_limit.value:,} tokens", change.flags(f"--max-model-len {length_limit.value}"))


def _other_share(share_limit: ShareLimit, share: float) -> Violation | None:
    """The violation by a share of GPU memory, above 0 and at most 1; None if the limit allows it."""
    if share_limit.maximum is not None and share > share_limit.maximum:
        return Violation(
            f"at most {share_limit.maximum:g}", change.flags(f"--gpu-memory-utilization {share_limit.maximum:g}")
        )
    if share_limit.minimum is not None and share < share_limit.minimum:
        return Violation(
            f"at least {share_limit.minimum:g}", change.flags(f"--gpu-memory-utilization {share_limit.minimum:g}")
        )
    return None


def _too_small(factor_limit: FactorLimit, size: int, need: int, what: str) -> Violation | None:
    """The violation by a memory limit of `size` bytes, if vLLM needs `need` bytes; None if the limit allows it. `what`:
    the name of that need, for people."""
    least = int(factor_limit.value * need)
    if size >= least:
        return None
    allowed = f"{human(least)} and more, {factor_limit.value:g} × the {what} of {human(need)}"
    advised = quantity(memory_sizes.rounded(least))
    return Violation(allowed=allowed, change=f"resources.limits.memory: {advised}")


def _other_release(release_limit: ReleaseLimit, release: Release) -> Violation | None:
    """The violation by a release; None if the limit allows it."""
    oldest = parse(release_limit.minimum) if release_limit.minimum is not None else None
    if oldest is not None and release < oldest:
        return Violation(f"vLLM {release_limit.minimum} and newer")
    if not release_limit.allowed or any(_is_release(text, release) for text in release_limit.allowed):
        return None
    return Violation(f"vLLM {', '.join(release_limit.allowed)}")


def _is_release(text: str, release: Release) -> bool:
    """True if the text names the release: "0.27.1" is that one alone, "0.27" every patch release of 0.27. False for a
    text that is not a release."""
    named = parse(text)
    if named is None:
        return False
    has_two_numbers = text.count(".") == 1
    return release[:2] == named[:2] if has_two_numbers else release == named


def _other_model(model_limit: ModelLimit, names: Sequence[str]) -> Violation | None:
    """The violation by a model; None if the limit allows one of its names."""
    if values.is_allowed(names, model_limit.allowed):
        return None
    return Violation(", ".join(model_limit.allowed))
