"""Rules for an image whose release is not known: each is evaluated for the releases that the image may contain.

The newest release that was read comes first: what it accepts is not reported. What it rejects is read by older
releases, newest first, until one accepts it. A finding is `likely` if no release accepts it, or if the image is
replaced with every release (`latest`) and none of the last twelve months accepts it. Else it is advice, which names
the releases. None is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from operator import methodcaller
from typing import NamedTuple

from podfit.base.lazy import regex
from podfit.rules import all_rules
from podfit.rules.engine import Engine
from podfit.rules.host_memory import shm_mounts
from podfit.rules.reading import supposing
from podfit.rules.rule import Finding, Rule
from podfit.vllm.gpu import driver
from podfit.vllm.memory import plan
from podfit.vllm.release import CUDA_13, Release, last_year, near, read_releases

MAX_WORDS_PER_COMMAND = 1 << 13
"""Words of all readings of one command, so that a review stays fast: a long one is read by fewer releases."""
MAX_READINGS_PER_OBJECT = 512
"""Readings of the commands of one object by older releases: a quarter of a second, as each takes half a millisecond."""
_SUBJECT = regex(r"--[A-Za-z][\w-]*|\b[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+\b")
"""The argument or the variable that a message is about: the first that it names."""


PLUGINS = ("habana.ai/", "aws.amazon.com/", "huawei.com/")
"""Accelerators whose images have a fork or a plugin of vLLM, with options and releases of its own."""


class Span(NamedTuple):
    """The releases that report a finding: the newest, and those before it without a gap."""

    oldest: Release
    """The oldest of them."""
    is_complete: bool
    """Every release that was read reports it."""
    recent: bool
    """Every release of the last twelve months reports it."""


def newest(engine: Engine) -> Engine:
    """The engine as the newest release that was read reads it, if its release is unknown; else the engine itself."""
    if engine.release is not None or engine.vllm_args is None:
        return engine
    return _as_of(engine, read_releases()[0])


def checker(engine: Engine) -> Callable[[Rule], Iterator[Finding]]:
    """A function from a rule to its findings on the engine. If the engine's release is unknown, they are those of the
    releases that the image may contain (`_check_releases`)."""
    if engine.release is not None or engine.vllm_args is None:
        return methodcaller("check", engine)
    return partial(_check_releases, engine)


def _check_releases(engine: Engine, rule: Rule) -> Iterator[Finding]:
    """The rule's findings. If they depend on the release, those of `_of_unknown_release`; none for a fork of vLLM."""
    if not rule.by_release:
        return rule.check(engine)
    if engine.requested is not None and engine.requested[0].startswith(PLUGINS):
        return iter(())
    return _of_unknown_release(engine, rule)


def _of_unknown_release(engine: Engine, rule: Rule) -> Iterator[Finding]:
    """The findings of the newest release, as certain as the older ones make them (`_finding`). Left out is advice that
    does not apply to the release that the image's name suggests, if it suggests one."""
    image = engine.field("image")
    suggested = nearest_read(near(image)) if isinstance(image, str) else None
    for newest_finding in rule.check(newest(engine)):
        finding = _finding(newest_finding, _span(rule, engine, newest_finding), engine)
        is_absent = suggested is not None and _subject(newest_finding) not in _subjects(rule, engine, suggested)
        if finding.certainty != "possible" or not is_absent:
            yield finding


def nearest_read(release: Release | None) -> Release | None:
    """The newest release that was read and is not newer than this one; None if there is none."""
    if release is None:
        return None
    return next((read_release for read_release in read_releases() if read_release <= release), None)


def _candidates(engine: Engine) -> Sequence[Release]:
    """The releases that the command is read by, newest first: every one, or every second, third … of a long command, as
    `MAX_WORDS_PER_COMMAND` allows."""
    releases = read_releases()
    step = len(engine.command.words) * len(releases) // MAX_WORDS_PER_COMMAND
    return releases[:: max(1, step)]


def _span(rule: Rule, engine: Engine, finding: Finding) -> Span:
    """The candidates that report a finding of the newest one, up to the first that does not."""
    subject = _subject(finding)
    newest_candidate, *older = engine.once(_candidates)
    reporting = [newest_candidate]
    for release in older:
        if subject not in _subjects(rule, engine, release):
            break
        reporting.append(release)
    recent = last_year().intersection((newest_candidate, *older))
    return Span(
        oldest=reporting[-1],
        is_complete=len(reporting) == 1 + len(older),
        recent=recent.issubset(reporting),
    )


def _subject(finding: Finding) -> str:
    """The text by which a finding is recognized in another release, whose message may differ: the first argument or
    variable that it names, else its path."""
    named = _SUBJECT.search(finding.message)
    return named[0] if named else str(finding.path)


def _subjects(rule: Rule, engine: Engine, release: Release) -> frozenset[str]:
    """The subjects of the rule's findings in a release; none if the object has had its share of readings."""
    known, key = engine.once(_readings).subjects, (rule.id(), release)
    if key not in known:
        if engine.cached_object.take_one_of(MAX_READINGS_PER_OBJECT, "releases"):
            known[key] = frozenset(map(_subject, rule.check(_as_of(engine, release))))
        else:
            known[key] = frozenset()
    return known[key]


MINORS_BEHIND = 2
"""Minor versions by which the proposed release is older than the newest, if it can be: the first faults of such a
release are found and fixed (podfit's choice)."""


def proposed(engine: Engine) -> Release:
    """The release whose image is proposed instead of one that names none.

    It is the newest of which podfit reports no failure here, two minors behind the newest if that is one. Its CUDA is
    no newer than the drivers of the nodes, if these are known."""
    cuda = engine.once(_cuda_of_drivers)
    releases = [release for release in read_releases() if cuda is None or cuda >= 13 or release < CUDA_13]
    settled = (releases[0].major, releases[0].minor - MINORS_BEHIND)  # (major, minor) of the usual one, at most
    usual = next((release for release in releases if release[:2] <= settled), releases[0])
    with_flags = frozenset(engine.args.releases)  # the releases that have all of the command's flags; empty: none
    likely = [release for release in releases if not with_flags or release in with_flags]
    for release in dict.fromkeys((usual, *likely)):
        if _starts(engine, release):
            return release
    return usual


def _starts(engine: Engine, release: Release) -> bool:
    """True if no rule that depends on the release reports a failure there, and no memory is too small. False if the
    object has had its share of readings."""
    if shm_mounts.is_refused(engine, release):
        return False
    was_read = release in engine.once(_readings).engines
    if not was_read and not engine.cached_object.take_one_of(MAX_READINGS_PER_OBJECT, "releases"):
        return False
    as_of = _as_of(engine, release)
    try:
        if any(finding.certainty != "possible" for rule in _rules() for finding in rule.check(as_of)):
            return False
    except Exception:  # a bug in a rule, which is reported where the rule's findings are
        return False
    if as_of.plan.verdict == "fits" or as_of.model is None or as_of.gpu is None:
        return True
    release_plan = plan.judge(as_of.args, as_of.model.value, as_of.gpu.value, env=as_of.command.env)
    return release_plan.verdict != "does-not-fit"


@cache
def _rules() -> Sequence[Rule]:
    """The rules that depend on the release, with their defaults, and the rule for a model that is newer than it.

    An image of unknown release may be newer too, but the proposed one is known."""
    return tuple(rule() for name, rule in all_rules().items() if rule.by_release or name == "model-newer-than-release")


def _cuda_of_drivers(engine: Engine) -> int | None:
    """The newest major version of CUDA that the drivers of all nodes run; None if no node's labels name it."""
    alike_nodes = engine.facts.snapshot.alike(driver.LABELS)
    versions = [driver.cuda_major(nodes.node.labels) for nodes in alike_nodes]
    return min([cuda for cuda in versions if cuda is not None], default=None)


class _Readings(NamedTuple):
    """The results of reading an engine by several releases, each computed once."""

    engines: dict[Release, Engine]
    """Release → the engine as that release reads it."""
    subjects: dict[tuple[str, Release], frozenset[str]]
    """(rule id, release) → the subjects of the rule's findings there."""


def _readings(engine: Engine) -> _Readings:
    """The engine's cache of readings, empty at first (`Engine.once` keeps it)."""
    return _Readings(engines={}, subjects={})


def _as_of(engine: Engine, release: Release) -> Engine:
    """The engine as if its image contained the release; read once."""
    engines = engine.once(_readings).engines
    if release not in engines:
        engines[release] = supposing(engine, release, suggests=release == read_releases()[0])
    return engines[release]


def _finding(finding: Finding, span: Span, engine: Engine) -> Finding:
    """The newest release's finding, as certain as the releases of `span`, which report it, make it.

    It is likely if all releases reject the command, or all of the last year and the image is replaced with each
    release. Else, and for an unknown name, it is possible and has no fix."""
    if finding.certainty == "possible" and not finding.unknown_name:
        return finding  # no release rejects the command
    rejected = span.is_complete or (engine.pulls_newest and span.recent)
    likely = rejected and not finding.unknown_name
    which = "every vLLM release that is known rejects it" if span.is_complete else f"rejected since vLLM {span.oldest}"
    newer = (f"vLLM is newer than {read_releases()[0]}, or this is a typo",) if finding.unknown_name else ()
    return finding._replace(
        certainty="likely" if likely else "possible",
        uncertain=f"the image names no release; {which}",
        details=(*finding.details, *newer, which),
        fix=finding.fix if likely else (),
    )
