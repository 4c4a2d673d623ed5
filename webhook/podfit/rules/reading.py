"""Containers → engines: reads the command, the arguments, the model, the GPUs and the plan of each, in this order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import NamedTuple, TypeVar

from podfit.kube.workload import CachedObject, Container, Workload
from podfit.rules.devices import is_gpu, is_on_processors, vendor_of
from podfit.rules.engine import Engine, Sibling
from podfit.vllm import args, command, gpu, model, release, volumes
from podfit.vllm.args import EngineArgs, Releases
from podfit.vllm.command import Command, WorkLimit, images
from podfit.vllm.facts import Fact, Facts
from podfit.vllm.gpu import Accelerator, Placement
from podfit.vllm.memory import cpu, plan
from podfit.vllm.memory.ledger import HostLedger, MemoryPlan
from podfit.vllm.model import Model
from podfit.vllm.release import Release
from podfit.vllm.volumes import Mount

T = TypeVar("T")
MAX_COMPARED_FLAGS = 64
"""Unknown flags of one object that are compared with the known ones. A comparison takes a millisecond, so that more of
them would delay a review."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Values that the containers of one Pod share."""

    object: CachedObject
    """The object of the Pod template."""
    releases: Releases | None = None
    """The policy's settings about vLLM releases."""
    scripts: WorkLimit | None = None
    """The limit of work on the object's scripts; None: no limit."""
    siblings: list[Sibling] = field(default_factory=list)
    """The engines of the Pod that have been read; `read` adds its own."""


def read(
    workload: Workload, container: Container, facts: Facts, surroundings: Surroundings | None = None
) -> Engine | None:
    """Read one container, and add its engine to `surroundings.siblings`. Return None if it does not run vLLM.

    `surroundings`: those of the other containers of the Pod; None if the container is read alone."""
    surroundings = surroundings or Surroundings(object=CachedObject(workload.object))
    running = command.resolve(workload, container, facts.config_maps, surroundings.scripts, surroundings.object)
    if running is None:
        return None
    engine = _engine(running, workload, container, facts, surroundings)
    surroundings.siblings.append(
        Sibling(
            container=container.name,
            args=engine.args,
            release=engine.release,
            requested=engine.requested,
            port=None if running.branched or running.guessed else engine.port,
            host=engine.args.get("host"),
            model=engine.model,
            env=running.env,
        )
    )
    return engine


def with_leaders(engines: Sequence[Engine]) -> list[Engine]:
    """Return the engines of one object, each joining worker with the engine that it joins, planned on its own GPU.

    The leader is the serving engine whose Pod template is nearest in the object. If several are equally near and
    differ in what they serve, it is unknown."""
    if all(engine.command.entry != "worker" for engine in engines):
        return list(engines)
    leaders = [engine for engine in engines if engine.command.entry != "worker"]
    serving = [engine for engine in leaders if engine.served and engine.model is not None]
    return [_with_leader(engine, serving) if engine.command.entry == "worker" else engine for engine in engines]


def _with_leader(worker: Engine, serving: Sequence[Engine]) -> Engine:
    """The worker with its leader, one of the `serving` engines, planned on the worker's GPU; unchanged if the nearest
    serving engines differ or none exists."""
    common_parts = [_common_parts(worker, engine) for engine in serving]
    most = max(common_parts, default=0)
    nearest = [engine for engine, parts in zip(serving, common_parts, strict=True) if parts == most]
    if not nearest:
        return worker
    leader = nearest[0]
    if any((engine.args.given, engine.model) != (leader.args.given, leader.model) for engine in nearest):
        return worker
    planned = plan.plan(
        leader.args,
        leader.model.value if leader.model else None,
        worker.gpu.value if worker.gpu else None,
        gpu_memory=worker.facts.gpu_memory,
        env=leader.command.env,
        measured_starts=worker.facts.measured,
        warm=volumes.keeps_compiled(worker.mounts, worker.command.env),
        vendor=worker.vendor,
    )
    return replace(worker, leader=leader, plan=replace(worker.plan, verdict=planned.verdict, tell=planned.tell))


def _common_parts(worker: Engine, engine: Engine) -> int:
    """Return the number of equal parts at the start of the two containers' paths.

    The name of a list does not count if the paths have different items of it: two items share nothing more than two
    keys do."""
    parts = worker.container.path.parts
    pairs = zip(parts, engine.container.path.parts, strict=False)
    equal = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    is_in_list = equal < len(parts) and isinstance(parts[equal], int)
    return equal - 1 if is_in_list else equal


def next_server(engine: Engine) -> Engine | None:
    """Return the engine that the script starts when this one has failed; None if it starts no other."""
    if not engine.command.then:
        return None
    first, *others = engine.command.then
    surroundings = Surroundings(object=engine.cached_object, releases=engine.parsers, siblings=[*engine.siblings])
    return _engine(replace(first, then=tuple(others)), engine.workload, engine.container, engine.facts, surroundings)


def supposing(engine: Engine, supposed: Release, *, suggests: bool = False) -> Engine:
    """Return the engine as if its image contained this release: its arguments are read by that release's parser.

    Its plan stays that of the unknown release, which counts the memory in the way of each release. `suggests`: unknown
    flags are compared with the known ones."""
    running, arguments = engine.command, engine.args
    if running.program == images.SERVE and supposed <= images.LAST_WITH_MODULE and not engine.field("command"):
        running = replace(running, entry="module", program=images.MODULE)  # the image's entrypoint in that release
    if running is engine.command and arguments.read_as == supposed:
        arguments = replace(arguments, release=supposed, releases=())  # read by that parser already
    else:
        arguments = args.parse(
            running, supposed, engine.parsers, suggests=lambda: suggests and _take_flag_comparison(engine.cached_object)
        )
        arguments = replace(arguments, unrecognized=engine.args.unrecognized)  # no release knows them
    its_model = engine.model
    if arguments.given != engine.args.given:
        its_model = model.find(arguments, engine.workload, engine.container, engine.facts)
    return replace(engine, command=running, release=supposed, args=arguments, model=its_model, supposed=True)


def _take_flag_comparison(obj: CachedObject) -> bool:
    """Count one more comparison of flags; False if the object has had its share of them."""
    return obj.take_one_of(MAX_COMPARED_FLAGS, "flags")


class _ImageRelease(NamedTuple):
    """The vLLM release that a container runs."""

    release: Release | None
    """None if it is unknown, or another server runs."""
    vouched: bool = False
    """The policy names it."""
    informs: bool = False
    """It is read from a part of the image's name."""


def _image_release(running: Command, image: object, facts: Facts, releases: Releases | None) -> _ImageRelease:
    """The release, from a vLLM that the command installs, else the policy, the tag, or a part of the image's name."""
    if running.other:
        return _ImageRelease(release=None)  # its version numbers are its own
    if "vllm" in running.changes:
        return _ImageRelease(release=release.parse(running.release) if running.release else None)
    if not isinstance(image, str):
        return _ImageRelease(release=None)
    of_policy = release.release_of_image(image, releases.images) if releases and releases.images else None
    if of_policy is None and facts.assume.registries:
        of_policy = release.in_registry(image, facts.assume.registries)
    if of_policy is not None:
        return _ImageRelease(release=of_policy, vouched=True)
    if (of_tag := release.from_image(image)) is not None:
        return _ImageRelease(release=of_tag)
    within = release.named_within(image)
    return _ImageRelease(release=within, informs=within is not None)


def _engine(
    running: Command, workload: Workload, container: Container, facts: Facts, surroundings: Surroundings
) -> Engine:
    """Read everything else about a container with the command `running`: arguments, model, devices, volumes and plan,
    each of which needs those before it."""
    obj, releases = surroundings.object, surroundings.releases
    image = container.spec.get("image")
    of_image = _image_release(running, image, facts, releases)
    errors: list[tuple[str, Exception]] = []
    arguments = _stage(
        "arguments",
        errors,
        lambda: args.parse(running, of_image.release, releases, suggests=lambda: _take_flag_comparison(obj)),
        EngineArgs(of_image.release, open="podfit could not read the arguments"),
    )
    source = _Source(
        running=running, workload=workload, container=container, facts=facts, arguments=arguments, errors=errors
    )
    its_model = _stage("model", errors, lambda: model.find(arguments, workload, container, facts), None)
    devices = _devices(source)
    mounts = volumes.mounts(workload, container)
    planned = _plan(source, its_model, devices, mounts)
    engine = Engine(
        workload=workload,
        container=container,
        command=running,
        release=of_image.release,
        vouched=of_image.vouched,
        args=arguments,
        model=its_model,
        gpu=devices.gpu,
        requested=devices.requested,
        plan=planned,
        facts=facts,
        placement=devices.placement,
        mounts=mounts,
        siblings=surroundings.siblings,
        cached_object=obj,
        errors=tuple(errors),
        parsers=releases,
        informs=of_image.informs,
    )
    return _with_known_plan(engine, on_processors=devices.on_processors)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A container whose command and arguments are read."""

    running: Command
    workload: Workload
    container: Container
    facts: Facts
    arguments: EngineArgs
    errors: list[tuple[str, Exception]]
    """The stages of reading that failed; each further stage adds its own."""


class _Devices(NamedTuple):
    """The devices that a container requests or may get."""

    requested: tuple[str, int | None] | None
    """As `Engine.requested`."""
    placement: Placement | None
    """As `Engine.placement`."""
    on_processors: bool
    """vLLM runs on processors, without GPUs."""
    gpu: Fact[Accelerator] | None
    """As `Engine.gpu`."""


def _devices(source: _Source) -> _Devices:
    """Find the devices of a container. The stage "gpu" may fail."""
    workload, container, facts = source.workload, source.container, source.facts
    image, env = container.spec.get("image"), source.running.env
    placement = gpu.find_placement(
        workload, container, facts.snapshot, adds_tolerations=facts.assume.extended_resource_toleration
    )
    request = gpu.device_request(workload, container, facts.snapshot)
    requested = request.resource_and_count
    on_processors = is_on_processors(image, requested, source.arguments, env)
    build = gpu.maker.of_build(image, env, source.arguments.given.get("device"))
    accelerator = _stage(
        "gpu",
        source.errors,
        lambda: None if on_processors else gpu.find(workload, container, facts, placement, request, build),
        None,
    )
    return _Devices(requested=requested, placement=placement, on_processors=on_processors, gpu=accelerator)


def _plan(source: _Source, its_model: Fact[Model] | None, devices: _Devices, mounts: tuple[Mount, ...]) -> MemoryPlan:
    """Plan the memory and the start of a container. The stage "plan" may fail; its memory is then not computed."""
    facts, env = source.facts, source.running.env
    files = volumes.files(
        source.workload,
        source.container,
        source.arguments,
        env,
        facts.assume.download_bandwidth,
        mounts,
        partial(facts.companions.is_new_claim, source.workload),
    )
    if facts.assume.disk_bandwidth:
        files = files._replace(disk_rate=facts.assume.disk_bandwidth)
    image = source.container.spec.get("image")
    return _stage(
        "plan",
        source.errors,
        lambda: plan.plan(
            source.arguments,
            its_model.value if its_model else None,
            devices.gpu.value if devices.gpu else None,
            gpu_memory=facts.gpu_memory,
            env=env,
            checkpoint_source=files,
            measured_starts=facts.measured,
            kv_cache_memory=facts.kv_cache_memory,
            warm=volumes.keeps_compiled(mounts, env),
            vendor="" if devices.on_processors else vendor_of(devices.requested, image),
        ),
        _no_plan("an error in podfit: the memory is not computed"),
    )


def _with_known_plan(engine: Engine, *, on_processors: bool) -> Engine:
    """Return the engine without the parts of its plan that are unknown of its program and its devices.

    No part is known of another server. On processors the start-up time is unknown, on other devices than GPUs the host
    memory, too."""
    planned = engine.plan
    if engine.command.other:
        return replace(engine, plan=_no_plan(f"{engine.command.other} is another server, whose memory is not computed"))
    if on_processors:
        return replace(engine, plan=replace(planned, host=_host_ledger_on_processors(engine), startup=None))
    if _is_on_gpus(engine) and not model.is_default(engine.model):
        return engine
    # The author did not choose vLLM's default model: for such an engine it is enough whether it fits the GPU.
    return replace(engine, plan=replace(planned, host=None, startup=None))


def _no_plan(reason: str) -> MemoryPlan:
    """Return a plan without ledgers; `reason`: why, for people."""
    return MemoryPlan(verdict="unsure", tell=lambda: reason, gpu=None, host=None, startup=None)


def _stage(name: str, errors: list[tuple[str, Exception]], compute: Callable[[], T], fallback: T) -> T:
    """Return the result of one stage of reading. A bug in it is kept in `errors`, and the rules that do not need it
    still run."""
    try:
        return compute()
    except Exception as error:
        errors.append((name, error))
        return fallback


def _host_ledger_on_processors(engine: Engine) -> HostLedger | None:
    """Return the host ledger of the CPU backend; None if the model or its host memory is unknown."""
    if engine.plan.host is None or engine.model is None:
        return None
    return cpu.ledger(
        engine.plan.host, engine.args, engine.model.value, engine.release, engine.command.env,
        certain=engine.model.may_deny,
    )  # fmt: skip


def _is_on_gpus(engine: Engine) -> bool:
    """True if a GPU is requested or known, or something speaks for one: a claim, an operator that adds the resources,
    or vLLM's own image.

    Processes, memory and start-up time are known of vLLM on GPUs. The runtime of a TPU, a Gaudi or a Neuron core
    compiles for half an hour and has other processes."""
    if engine.requested is not None:
        return is_gpu(engine.requested[0])
    if any(variable in engine.command.env for variable in gpu.maker.JAX):
        return False
    if engine.gpu is not None or engine.field("resources", "claims"):
        return True
    if "resources" in engine.workload.completes and not engine.field("resources", "limits"):
        return True
    image = engine.container.spec.get("image")
    return isinstance(image, str) and release.is_official(image)
