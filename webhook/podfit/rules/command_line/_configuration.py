"""Combinations of arguments that vLLM rejects while it builds its configuration: one row per check of vLLM's.

A row is evaluated only if its argument is given. It names the releases that have the check and the check's place in
vLLM; every release from 0.8.5 on was read. Arguments that are not given have vLLM's defaults for this release and GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from podfit.base.lazy import cached_property
from podfit.rules import _checkpoint
from podfit.rules._flags import certainty, uncertain
from podfit.rules.engine import PARALLEL, Engine
from podfit.rules.rule import Finding
from podfit.vllm.change import Suggestion
from podfit.vllm.gpu import Gpu
from podfit.vllm.memory import plan, resolved, settings
from podfit.vllm.memory.parallel import Parallel
from podfit.vllm.memory.settings import ResolvedArguments, Settings
from podfit.vllm.model import Model
from podfit.vllm.release import Release, is_read, neighbours

ENCODER_ARCHITECTURES = ("Bert", "Roberta", "XLMRoberta")
"""How the names of the classes of encoders begin (vLLM models/bert.py, roberta.py): none is a text generator, and none
supports pipeline stages."""


class UnresolvedError(Exception):
    """A check asks for an argument whose value can't be known."""


@dataclass(frozen=True)
class VllmConfig:
    """The configuration that vLLM builds of an engine's arguments on one GPU that the engine may get: the input of a
    check."""

    engine: Engine
    args: Mapping[str, Any]
    """The arguments that are given."""
    model: Model
    release: Release
    gpu: Gpu | None
    """None if no GPU is known."""

    @cached_property
    def resolved(self) -> ResolvedArguments:
        """The arguments as the release resolves them on the GPU."""
        memory = self.engine.facts.gpu_memory or (self.gpu.memory if self.gpu else 0)
        return settings.resolve(self.engine.args, self.model, self.gpu, memory, self.release, self.engine.command.env)

    @property
    def settings(self) -> Settings:
        """The resolved arguments without those of the budget."""
        return self.resolved.settings

    @cached_property
    def _values(self) -> Mapping[str, Any]:
        """Argument → the value that vLLM will use; None if unknown."""
        known = self.gpu is not None or self.engine.facts.gpu_memory is not None
        return resolved.values(self.resolved, self.engine.args, self.model, self.gpu, known=known)

    @property
    def dtype(self) -> str | None:
        """The dtype that vLLM computes in, None if unknown."""
        return self._values["dtype"]  # type: ignore[no-any-return]

    @property
    def prefix_caching(self) -> bool | None:
        """Prefix caching is on; None if unknown."""
        return self._values["enable_prefix_caching"]  # type: ignore[no-any-return]

    def number(self, dest: str, default: int = 1) -> int:
        """A whole number that is given, else the default. Raises UnresolvedError if only the script knows it."""
        if dest in self.engine.args.unresolved:
            raise UnresolvedError(dest)
        value = self.args.get(dest)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    @property
    def in_vllm(self) -> bool:
        """True if the model runs in vLLM's own implementation."""
        return self.args.get("model_impl") in (None, "auto", "vllm")

    @property
    def parallel(self) -> Parallel:
        """The numbers of ranks. Raises UnresolvedError if only the script knows one."""
        if not PARALLEL.isdisjoint(self.engine.args.unresolved):
            raise UnresolvedError(*PARALLEL.intersection(self.engine.args.unresolved))
        return self.settings.parallel

    @property
    def experts(self) -> int:
        """Ranks that share the routed experts."""
        return self.parallel.experts


class Check(NamedTuple):
    """One check of vLLM's."""

    dest: str
    """The argument that it rejects; evaluated only if this is given."""
    first: Release
    before: Release | None
    """The first release that rejects it, and the first one that does not; None if the newest that was read does."""
    refusal: Callable[[VllmConfig], str | None]
    """The problem, None if there is none."""
    changes: tuple[Suggestion, ...]
    of_model: bool = False
    """It rests on the model's config.json."""
    of_gpu: bool = False
    """It rests on defaults that depend on the GPU."""
    variables: tuple[str, ...] = ()
    """Variables of the environment that change the answer."""
    unknown: Callable[[VllmConfig], str | None] | None = None
    """Returns what is still unknown but necessary for the check, None if nothing is."""


def number(engine: Engine, dest: str) -> int | None:
    """A whole number that is given; None if it is not, since a default may be changed by what else is given."""
    value = engine.args.given.get(dest)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def findings(engine: Engine, checks: Sequence[Check]) -> Iterator[Finding]:
    """The findings on values that vLLM's configuration rejects on every GPU that the container may get.

    None if the release or the model is unknown, and from a check that needs an unknown GPU or an argument of unknown
    value."""
    given, release = engine.args.given, engine.release
    if release is None or engine.model is None:
        return
    items = [check for check in checks if _applies(check, release)]
    if not items or engine.command.own_flags:
        return  # a wrapper around vLLM may change the arguments
    gpus = plan.gpus_of(engine.gpu.value if engine.gpu else None, engine.facts.gpu_memory)
    configs = [
        VllmConfig(engine=engine, args=given, model=engine.model.value, release=release, gpu=gpu)
        for gpu in gpus or (None,)
    ]
    for check in items:
        if check.of_gpu and not gpus:
            continue
        try:
            refusals = [check.refusal(vllm_config) for vllm_config in configs]
        except UnresolvedError:
            continue
        if None in refusals:
            continue
        unknown = check.unknown(configs[0]) if check.unknown else None
        doubt = unknown or _doubt(engine, check)
        yield Finding(
            path=engine.argument(check.dest),
            message=str(refusals[0]),
            certainty="likely" if doubt else "certain",
            uncertain=doubt,
            rests_on=(("model",) if check.of_model else ()) + (("gpu",) if check.of_gpu else ()),
            suggestions=check.changes,
        )


def _applies(check: Check, release: Release) -> bool:
    """True if the release has the check."""
    return check.first <= release and (check.before is None or release < check.before)


def _doubt(engine: Engine, check: Check) -> str | None:
    """Why it is not certain that vLLM sees these values; None if it is certain."""
    if engine.args.open:
        return f"there may be more arguments: {engine.args.open}"
    if engine.args.unresolved:
        dest, why = next(iter(engine.args.unresolved.items()))
        return f"--{dest.replace('_', '-')} can't be known: {why}"
    if not engine.args.is_sure(check.dest):
        return f"--{check.dest.replace('_', '-')} may be filled in"
    if engine.release is not None and is_read(engine.release) and not _is_checked(check, engine.release):
        return f"vLLM {engine.release} may lack the check"
    if check.of_model and not _checkpoint.is_the_known(engine):
        return "another config.json may be read than the one that is known"
    if engine.vendor != "nvidia" or engine.on_processors:
        return "vLLM was read for NVIDIA's GPUs"
    unseen = next((name for name in check.variables if _is_unseen(engine, name)), None)
    if unseen is not None:
        return f"{unseen} may be set to what can't be seen here"
    return uncertain(engine) if certainty(engine) != "certain" else None


def _is_checked(check: Check, release: Release) -> bool:
    """True if the releases that were read on both sides of this one have the check. A patch after the newest may lack
    it, as 0.11.1 lacked five of 0.11.0."""
    return all(near is not None and _applies(check, near) for near in neighbours(release))


def _is_unseen(engine: Engine, variable: str) -> bool:
    """True if the environment may hold the variable, with a value that the manifest does not show."""
    if variable in engine.command.env:
        return False
    elsewhere = variable in engine.declared or bool(engine.command.decided & {variable, "*"})
    return elsewhere or bool(engine.field("envFrom"))
