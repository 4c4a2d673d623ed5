"""The vLLM containers of an object, read within a limit of work per object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, NamedTuple

from podfit.base.secret import UNMASKED, Secrets
from podfit.evaluation.lint.results import RuleError
from podfit.evaluation.policy import Policy
from podfit.evaluation.quoting import quotable
from podfit.kube import workload
from podfit.kube.path import mapping
from podfit.kube.workload import JSON, CachedObject, Container, Workload
from podfit.kube.workload.kserve_runtime import with_runtimes
from podfit.rules import reading
from podfit.rules.engine import Engine
from podfit.rules.reading import Surroundings
from podfit.vllm.command import ALL_WORK, WorkLimit
from podfit.vllm.facts import Assumed, Facts

MAX_WORK_PER_OBJECT = 32_768
"""Work on the containers of one object: 512 with vLLM (a Ray cluster has a group for each), or 8,192 without. No object
that runs has more."""
MIN_WORK_PER_ENGINE, MIN_WORK_PER_CONTAINER = 64, 4
"""Work on a container with vLLM, and without."""
WORK_PER_WORD = 2
"""Work on a word of vLLM's command."""
UNKNOWN_RELEASE, REJECTED_VALUES = 12, 48
"""Factors of the work on a word if the release is not known, since the parsers of many releases may read it; and if
they reject its values."""
STEPS_PER_WORK = 8
"""Steps of a script (`WorkLimit`) that are one unit of work."""
FREE_LAYERS, LAYERS_PER_WORK = 128, 2
"""Layers of a model that cost nothing, and how many of the others are one unit of work."""
UNKNOWN_GENERATION = 4
"""Factor of the work on the layers if the release is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Containers:
    """The vLLM containers of an object."""

    object: JSON
    assumed: Assumed
    engines: Sequence[Engine]
    errors: Sequence[RuleError]
    secrets: Secrets
    unread: str | None
    """A note on containers that may run vLLM and are not read, for people."""


def read_containers(obj: JSON, assumed: Assumed, policy: Policy, facts: Facts) -> Containers:
    """Read the vLLM containers of the object. What fails in here is in `Containers.errors`."""
    reader = _Reader(policy, facts if assumed == facts.assume else replace(facts, assume=assumed))
    unread = reader.read(obj)
    read = reader.ordered_engines()
    secrets = Secrets.of(obj, *map(_texts_of_command, read))
    secrets = UNMASKED if facts.show_secrets else replace(secrets, make_quotable=lambda: quotable(obj, read))
    return Containers(object=obj, assumed=assumed, engines=read, errors=reader.errors, secrets=secrets, unread=unread)


class _Pod(NamedTuple):
    """A Pod template of the object."""

    workload: Workload
    surroundings: Surroundings
    positions: list[int]
    """The positions in the object of the containers whose engines are `surroundings.siblings`."""


@dataclass(slots=True)
class _Reader:
    """The state of reading one object."""

    policy: Policy
    facts: Facts
    scripts: WorkLimit = field(default_factory=lambda: WorkLimit(ALL_WORK))
    work_left: int = MAX_WORK_PER_OBJECT
    engines: dict[int, Engine] = field(default_factory=dict)
    """The position of a container in the object → its engine."""
    errors: list[RuleError] = field(default_factory=list)

    def read(self, obj: JSON) -> str | None:
        """Read the containers of the object, those with devices first: the others must not use up the work.

        Return a note on what is not read, for people; None if all is, or if the object's workloads cannot be read."""
        try:
            workloads = with_runtimes(workload.find(obj, self.policy.kinds), self.facts.companions.serving_runtime)
        except Exception as error:
            self.errors.append(RuleError.of("workload", error))
            return None
        objects = {id(obj): CachedObject(obj, workloads)}
        pods = [self._pod(pod, objects.setdefault(id(pod.object), CachedObject(pod.object))) for pod in workloads]
        containers = [(pod, container) for pod in pods for container in pod.workload.containers]
        order = sorted(range(len(containers)), key=lambda position: not _needs_device(containers[position][1]))
        skipped = 0
        for position in order:
            if self.work_left <= 0:
                skipped += 1
            else:
                self._read_container(position, *containers[position])
        for pod in pods:
            siblings = pod.surroundings.siblings
            in_order = sorted(zip(pod.positions, siblings, strict=True), key=itemgetter(0))
            siblings[:] = [sibling for _, sibling in in_order]
        if skipped:
            return f"{skipped} of {len(containers)} containers are not evaluated: the object has too many"
        return next((pod.unevaluated for pod in workloads if pod.unevaluated), None)

    def _pod(self, pod: Workload, obj: CachedObject) -> _Pod:
        """A Pod template before its containers are read. `obj`: the object that has it, maybe a serving runtime."""
        return _Pod(pod, Surroundings(object=obj, releases=self.policy.releases, scripts=self.scripts), positions=[])

    def _read_container(self, position: int, pod: _Pod, container: Container) -> None:
        """Read one container's engine, and charge its work. After an error in podfit the container has no engine."""
        steps = self.scripts.spent
        try:
            engine = reading.read(pod.workload, container, self.facts, pod.surroundings)
        except Exception as error:
            self.errors.append(RuleError.of("engine", error))
            self.work_left -= MIN_WORK_PER_ENGINE
            return
        self.work_left -= (self.scripts.spent - steps) // STEPS_PER_WORK
        self.work_left -= MIN_WORK_PER_CONTAINER if engine is None else _work(engine)
        if engine is not None:
            self.errors += [RuleError.of(stage, error) for stage, error in engine.errors]
            self.engines[position] = engine
            pod.positions.append(position)

    def ordered_engines(self) -> Sequence[Engine]:
        """The engines in the order of their containers, each worker with its leader's model."""
        in_order = [self.engines[position] for position in sorted(self.engines)]
        try:
            return reading.with_leaders(in_order)
        except Exception as error:  # podfit's: then a worker has no model
            self.errors.append(RuleError.of("leader", error))
            return in_order


def _work(engine: Engine) -> int:
    """Return the work on a container with vLLM, in units of MAX_WORK_PER_OBJECT, with the servers that start after the
    first has failed."""
    per_word, generations = WORK_PER_WORD, 1
    if engine.release is None:
        per_word *= REJECTED_VALUES if engine.args.errors else UNKNOWN_RELEASE
        generations = UNKNOWN_GENERATION
    layers = engine.model.value.described_layers if engine.model is not None else 0
    of_layers = max(0, layers - FREE_LAYERS) // LAYERS_PER_WORK * generations
    commands = (engine.command, *engine.command.then)
    return of_layers + sum([MIN_WORK_PER_ENGINE + per_word * len(command.words) for command in commands])


def _needs_device(container: Container) -> bool:
    """Return whether the container claims a device, or requests a resource of a device plugin."""
    resources = mapping(container.spec.get("resources"))
    return bool(resources.get("claims")) or any("/" in str(name) for name in mapping(resources.get("limits")))


def _texts_of_command(engine: Engine) -> list[Any]:
    """Return the parts of a container's command that can contain secrets. These are words and variables after expansion
    by a shell and by Kubernetes, and arguments by name, also by the name that a misspelled one probably means."""
    args = engine.args
    misspelled = {
        flag.suggestion: args.written.get(flag.flag.lstrip("-").replace("-", "_"))
        for flag in (*args.unknown, *args.unrecognized)
    }
    words = [word.text for word in engine.command.words]
    return [words, engine.command.env, args.given, args.written, misspelled]
