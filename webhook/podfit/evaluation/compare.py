"""Two reports of one workload → what changes between them: the upgrade question, and a merge request's.

Nothing is evaluated here; both sides are, by the same rules, and the differences are read off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from podfit.evaluation.lint import GradedFinding
from podfit.evaluation.pairs import Placed, Side, pairs
from podfit.kube.quantity import left
from podfit.rules.engine import Engine
from podfit.vllm.args.idle import has_effect
from podfit.vllm.args.settings import config_arguments, is_key, is_variable
from podfit.vllm.memory import cuda_graphs, plan
from podfit.vllm.memory.estimate import Estimate
from podfit.vllm.memory.ledger import MemoryPlan
from podfit.vllm.memory.lines import AMOUNTS
from podfit.vllm.release import Release, is_read

__all__ = ["ContainerComparison", "Difference", "EstimateChange", "Placed", "Side", "State", "compare", "settings_of"]

State = Literal["changed", "unchanged", "added", "removed"]
_NOTABLE = {
    "gpu_memory_utilization": attrgetter("budget.utilization"),
    "max_model_len": attrgetter("budget.max_model_len"),
    "max_num_seqs": attrgetter("settings.batch.max_num_seqs"),
    "max_num_batched_tokens": attrgetter("settings.batch.max_num_batched_tokens"),
    "enforce_eager": attrgetter("settings.eager"),
    "kv_cache_dtype": attrgetter("settings.types.kv_cache_dtype"),
    "block_size": attrgetter("settings.attention.block_size"),
    "enable_prefix_caching": attrgetter("settings.attention.prefix_caching"),
}
"""vLLM's argument → its place in `memory.settings.ResolvedArguments`."""


class Difference(NamedTuple):
    """A value, before and after; None: there is none, or it is not known."""

    name: str
    before: Any
    after: Any
    given: bool = False
    """The author wrote it, before or after; else a release decides."""

    @property
    def same(self) -> bool:
        """True if both sides have the same value."""
        return bool(self.before == self.after)


class EstimateChange(NamedTuple):
    """A ledger's line, before and after."""

    name: str
    before: Estimate | None
    after: Estimate | None

    @property
    def same(self) -> bool:
        """The likely amount is the same as it is shown, rounded."""
        before, after = (left(side.likely) if side else None for side in (self.before, self.after))
        return before == after


@dataclass(frozen=True)
class ContainerComparison:
    """One container, as it was and as it would be."""

    before: Side | None
    after: Side | None
    is_one_of_many: bool = False
    """Several objects have this kind, namespace and name, as overlays do: only their files differ."""

    @property
    def side(self) -> Side:
        """The newer of the two."""
        side = self.after or self.before
        assert side is not None  # noqa: S101  one of them is there
        return side

    @cached_property
    def state(self) -> State:
        """ "unchanged": nothing that podfit looks at, or only the number of a release whose sources were read."""
        if self.before is None or self.after is None:
            return "removed" if self.after is None else "added"
        _release, *other_facts = self.facts
        values = (*other_facts, *self.settings, *self.defaults, *self.flags)
        amounts = (*self.gpu, *self.host)
        has_changed = (
            self.has_unread_release
            or not all(value.same for value in values)
            or not all(amount.same for amount in amounts)
            or any((self.appeared, self.gone, self.lost_flags, self.gained_flags))
            or any((self.lost_variables, self.gained_variables))
        )
        return "changed" if has_changed else "unchanged"

    @property
    def has_unread_release(self) -> bool:
        """True if the release changes, and podfit has not read the sources of both; False if a side has no
        container."""
        if self.before is None or self.after is None:
            return False
        releases = {self.before.engine.release, self.after.engine.release}
        has_changed = len(releases) > 1
        return has_changed and not all(release is not None and is_read(release) for release in releases)

    @cached_property
    def facts(self) -> tuple[Difference, ...]:
        """Release, model, accelerator, decision."""
        return (
            _difference("vLLM", self, lambda engine: str(engine.release or "unknown")),
            _difference("model", self, lambda engine: engine.model.value.id if engine.model else engine.args.model),
            _difference("accelerator", self, _accelerator_name),
            _difference("verdict", self, lambda engine: engine.plan.verdict),
        )

    @cached_property
    def settings(self) -> tuple[Difference, ...]:
        """The settings of the ledgers that differ, as each release derives them, without the arguments in `flags`.
        Empty if a side has none (`settings_of`)."""
        before = settings_of(self.before.engine) if self.before else {}
        after = settings_of(self.after.engine) if self.after else {}
        if not before or not after:
            return ()
        flag_names = {difference.name for difference in self.flags}
        names = [name for name in {**before, **after} if name not in flag_names]
        differences = [Difference(name, before.get(name), after.get(name)) for name in names]
        return tuple(difference for difference in differences if not difference.same)

    @cached_property
    def flags(self) -> tuple[Difference, ...]:
        """The arguments of the command lines that differ, sorted by name; None is the value of an absent one."""
        before = _written_arguments(self.before.engine) if self.before else {}
        after = _written_arguments(self.after.engine) if self.after else {}
        names = [name for name in sorted({**before, **after}) if not _same(before.get(name, ""), after.get(name, ""))]
        return tuple(Difference(self._masked(name), before.get(name), after.get(name), given=True) for name in names)

    def _masked(self, name: str) -> str:
        """The name of an argument, masked: a blank that is not a space can hold a flag and its value together."""
        for side in (self.before, self.after):
            name = side.report.secrets.masked(name) if side else name
        return name

    @cached_property
    def defaults(self) -> tuple[Difference, ...]:
        """Parser defaults that differ between the releases, of options that are not set, that both know and that the
        command uses."""
        if self.before is None or self.after is None:
            return ()
        old, new = self.before.engine.args, self.after.engine.args
        given = {**old.given, **new.given}
        setting_names = {difference.name for difference in self.settings}
        names = old.defaults.keys() & new.defaults.keys() - given.keys() - setting_names
        differences = [Difference(name, old.defaults[name], new.defaults[name]) for name in sorted(names)]
        return tuple(
            difference
            for difference in differences
            if not difference.same and has_effect(difference.name, difference.before, difference.after, given)
        )

    @cached_property
    def new_flags(self) -> tuple[str, ...]:
        """Options that only the newer release's parser has."""
        if self.before is None or self.after is None:
            return ()
        return tuple(sorted(set(self.after.engine.args.defaults) - set(self.before.engine.args.defaults)))

    @cached_property
    def dropped_flags(self) -> tuple[str, ...]:
        """Options that only the older release's parser has."""
        if self.before is None or self.after is None:
            return ()
        return tuple(sorted(set(self.before.engine.args.defaults) - set(self.after.engine.args.defaults)))

    @cached_property
    def gained_flags(self) -> tuple[str, ...]:
        """Arguments on the command line that only the newer release knows, and keys of JSON arguments."""
        names = [name for name in self._written_names if name in self.new_flags]
        return (*names, *self._keys_of_one(before=False))

    @cached_property
    def lost_flags(self) -> tuple[str, ...]:
        """Arguments on the command line that only the older release knows, and keys of JSON arguments."""
        names = [name for name in self._written_names if name in self.dropped_flags]
        return (*names, *self._keys_of_one(before=True))

    @cached_property
    def lost_variables(self) -> tuple[str, ...]:
        """Environment variables of the container that only the older release reads."""
        return self._variables_of_one(before=True)

    @cached_property
    def gained_variables(self) -> tuple[str, ...]:
        """Environment variables of the container that only the newer release reads."""
        return self._variables_of_one(before=False)

    def _variables_of_one(self, *, before: bool) -> tuple[str, ...]:
        """Environment variables of the container that only the older (`before`) or only the newer release reads."""
        names = sorted(self.after.engine.command.env) if self.after else []
        return tuple(name for name in names if self._is_of_one(partial(is_variable, name), before=before))

    def _keys_of_one(self, *, before: bool) -> tuple[str, ...]:
        """The given keys of JSON arguments that only the older (`before`) or only the newer release knows:
        `compilation_config.use_inductor`, as in vLLM's dotted form."""
        given = self.after.engine.args.given if self.after else {}
        keys = [(dest, key) for dest in sorted(config_arguments() & given.keys()) for key in _keys(given[dest])]
        return tuple(
            f"{dest}.{key}" for dest, key in keys if self._is_of_one(partial(is_key, dest, key), before=before)
        )

    def _is_of_one(self, has: Callable[[Release | None], bool | None], *, before: bool) -> bool:
        """True if only the older (`before`), or only the newer release has something, as the function `has` says of
        each. False if it is unknown of one of them (None), or if a side has no container."""
        if self.before is None or self.after is None:
            return False
        in_old, in_new = has(self.before.engine.release), has(self.after.engine.release)
        if in_old is None or in_new is None:
            return False
        return in_old and not in_new if before else in_new and not in_old

    @property
    def _written_names(self) -> list[str]:
        """The names of the newer side's arguments as they are written; empty without one."""
        return sorted(_written_arguments(self.after.engine)) if self.after else []

    @cached_property
    def gpu(self) -> tuple[EstimateChange, ...]:
        """The GPU's ledger, line by line; empty where neither side has one."""
        before = self.before.engine.plan.gpu if self.before else None
        after = self.after.engine.plan.gpu if self.after else None
        if not before and not after:
            return ()
        return tuple(
            EstimateChange(name, before.amount(name) if before else None, after.amount(name) if after else None)
            for name in AMOUNTS
        )

    @cached_property
    def host(self) -> tuple[EstimateChange, ...]:
        """The host's ledger, line by line, its sums, and /dev/shm; empty if neither side has one."""
        before = _host_lines(self.before.engine.plan) if self.before else {}
        after = _host_lines(self.after.engine.plan) if self.after else {}
        return tuple(EstimateChange(name, before.get(name), after.get(name)) for name in {**before, **after})

    @cached_property
    def numbers(self) -> tuple[Difference, ...]:
        """The plans' results on both sides, also if they are equal: tokens, requests, tokens, seconds. A value is None
        if there is no plan for it."""
        return (
            _difference("kv_cache_tokens", self, lambda engine: _tokens(engine.plan)),
            _difference("max_concurrency", self, lambda engine: engine.plan.gpu and engine.plan.gpu.max_concurrency),
            _difference("longest_request", self, lambda engine: engine.plan.gpu and engine.plan.gpu.longest_request),
            _difference(
                "startup_seconds", self, lambda engine: engine.plan.startup and round(engine.plan.startup.likely)
            ),
        )

    @cached_property
    def appeared(self) -> tuple[GradedFinding, ...]:
        """Findings that only the newer side has, or that became a denial."""
        if self.after is None:
            return ()
        before = self.before.findings if self.before else ()
        known = {(finding.would, _identity(finding)) for finding in before}  # with the mode: it may be a denial now
        return tuple(finding for finding in self.after.findings if (finding.would, _identity(finding)) not in known)

    @cached_property
    def gone(self) -> tuple[GradedFinding, ...]:
        """Findings that only the older side has."""
        if self.before is None:
            return ()
        after = self.after.findings if self.after else ()
        remaining = {_identity(finding) for finding in after}
        return tuple(finding for finding in self.before.findings if _identity(finding) not in remaining)

    @property
    def newly_denied(self) -> tuple[GradedFinding, ...]:
        """The findings that would deny, and did not before."""
        return tuple(finding for finding in self.appeared if finding.mode == "deny")

    @property
    def would_newly_deny(self) -> tuple[GradedFinding, ...]:
        """The findings that only `enforce.mode` keeps from denying, and that would not have denied before."""
        return tuple(finding for finding in self.appeared if finding.heading == "would_deny")


def compare(placed_objects: Sequence[Placed], new: Sequence[Placed]) -> list[ContainerComparison]:
    """Compare each vLLM container of both sides: those of the new side in its order, then those that are gone."""
    return [ContainerComparison(*pair) for pair in pairs(placed_objects, new)]


def _difference(name: str, change: ContainerComparison, of: Any) -> Difference:
    """The values that the function `of` reads from the engines of both sides; None for a side without a container."""
    before = of(change.before.engine) if change.before else None
    after = of(change.after.engine) if change.after else None
    return Difference(name, before, after)


def _accelerator_name(engine: Engine) -> str | None:
    """The GPU and its count, for people: "2 × NVIDIA L4"; None if the GPU is unknown."""
    if engine.gpu is None:
        return None
    accelerator = engine.gpu.value
    return f"{accelerator.count} × {accelerator.name}" if accelerator.count else accelerator.name


def settings_of(engine: Engine) -> dict[str, Any]:
    """The settings that the release derives from the arguments, by name. Empty if model or GPU is unknown, or if the
    planner cannot resolve the arguments."""
    if engine.model is None or engine.gpu is None:
        return {}
    release_plan = plan.judge(
        engine.args, engine.model.value, engine.gpu.value, gpu_memory=engine.facts.gpu_memory, env=engine.command.env
    )
    resolved = release_plan.resolved
    if resolved is None:
        return {}
    values = {name: read(resolved) for name, read in _NOTABLE.items()}
    values["engine_generation"] = "V1" if resolved.settings.v1 else "V0"
    if resolved.settings.eager:
        values["cuda_graphs"] = "none"
    else:
        values["cuda_graphs"] = f"{'inside' if cuda_graphs.charged(resolved.settings) else 'outside'} the budget"
    return values


def _keys(value: object) -> list[str]:
    """The top-level keys of a JSON argument, sorted; empty if its value is not an object."""
    return sorted(str(key) for key in value) if isinstance(value, Mapping) else []


def _same(before: object, after: object) -> bool:
    """Return whether two values are the same as text or as numbers. The value of a flag that one release does not know
    is text there."""
    if str(before) == str(after):
        return True
    if isinstance(before, bool) or isinstance(after, bool):
        return False
    try:
        return float(str(before)) == float(str(after))
    except ValueError:
        return False


def _written_arguments(engine: Engine) -> dict[str, Any]:
    """The arguments as they are given, without the model."""
    return {name: value for name, value in {**engine.args.given, **engine.args.written}.items() if name != "model"}


def _host_lines(planned: MemoryPlan) -> dict[str, Estimate]:
    """The lines and sums of the host ledger by name; empty without one."""
    if planned.host is None:
        return {}
    host = planned.host
    return {**dict(host.lines), "steady": host.steady, "peak": host.peak, "/dev/shm": host.shm}


def _tokens(planned: MemoryPlan) -> int | None:
    """The likely number of tokens in the KV cache; None without a plan of it."""
    if planned.gpu is None or not planned.gpu.kv_cache_tokens:
        return None
    _, likely, _ = planned.gpu.kv_cache_tokens
    return likely


def _identity(finding: GradedFinding) -> tuple[str, str]:
    """(rule, field) by which a finding is recognized on the other side, the same if numbers and indices change. The
    first flag that its message names is added to the field, since all arguments are in one field."""
    field = re.sub(r"\[\d+\]", "[]", str(finding.field_path))
    flag = re.search(r"--[a-z][\w-]*", finding.finding.message)
    return finding.rule, f"{field} {flag[0] if flag else ''}"
