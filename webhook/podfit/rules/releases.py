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
"""Words of all readings of one command: a long one is read by fewer releases."""
MAX_READINGS_PER_OBJECT = 512
"""Older releases that the commands of one object are read by; a reading takes half a millisecond."""
_SUBJECT = regex(r"--[A-Za-z][\w-]*|\b[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+\b")
"""The argument or the variable that a message is about: the first that it names."""


PLUGINS = ("habana.ai/", "aws.amazon.com/", "huawei.com/")
"""Accelerators whose images have a fork or a plugin of vLLM, with options and releases of its own."""


class Span(NamedTuple):
    """The releases that report a finding: the newest, and those before it without a gap."""

    oldest: Release
    is_complete: bool
    """Every release that was read reports it."""
    recent: bool
    """Every release of the last twelve months reports it."""


def newest(engine: Engine) -> Engine:
    """The engine with the newest release that was read, if its release is not known; else the engine."""
    if engine.release is not None or engine.vllm_args is None:
        return engine
    return _as_of(engine, read_releases()[0])


def checker(engine: Engine) -> Callable[[Rule], Iterator[Finding]]:
    """A function that returns what a rule reports about the engine, whichever release its image contains."""
    if engine.release is not None or engine.vllm_args is None:
        return methodcaller("check", engine)
    return partial(_check_releases, engine)


def _check_releases(engine: Engine, rule: Rule) -> Iterator[Finding]:
    """The rule's findings. If they depend on the release, those of `_likely_there`; none for a fork of vLLM."""
    if not rule.by_release:
        return rule.check(engine)
    if engine.requested is not None and engine.requested[0].startswith(PLUGINS):
        return iter(())
    return _likely_there(engine, rule)


def _likely_there(engine: Engine, rule: Rule) -> Iterator[Finding]:
    """The findings of the newest release, without advice that the release near to the image does not have."""
    image = engine.field("image")
    close = nearest_read(near(image)) if isinstance(image, str) else None
    for newest_finding in rule.check(newest(engine)):
        finding = _finding(newest_finding, _span(rule, engine, newest_finding), engine)
        absent = close is not None and _subject(newest_finding) not in _subjects(rule, engine, close)
        if finding.certainty != "possible" or not absent:
            yield finding


def nearest_read(release: Release | None) -> Release | None:
    """The newest release that was read and is not newer than this one."""
    return next(
        (read_release for read_release in read_releases() if release is not None and read_release <= release), None
    )


def _candidates(engine: Engine) -> Sequence[Release]:
    """The releases that the command is read by, newest first."""
    releases = read_releases()
    return releases[:: max(1, len(engine.command.words) * len(releases) // MAX_WORDS_PER_COMMAND)]


def _span(rule: Rule, engine: Engine, finding: Finding) -> Span:
    """The releases that report the finding."""
    subject, first, *older = _subject(finding), *engine.once(_candidates)
    reporting = [first]
    for release in older:
        if subject not in _subjects(rule, engine, release):
            break
        reporting.append(release)
    recent = last_year().intersection((first, *older))
    return Span(reporting[-1], len(reporting) == 1 + len(older), recent.issubset(reporting))


def _subject(finding: Finding) -> str:
    """How a finding is recognized in another release, whose message differs: what it is about, else its place."""
    named = _SUBJECT.search(finding.message)
    return named[0] if named else str(finding.path)


def _subjects(rule: Rule, engine: Engine, release: Release) -> frozenset[str]:
    """The subjects of the rule's findings in a release; none if the object has been read by too many."""
    known, key = engine.once(_readings).subjects, (rule.id(), release)
    if key not in known:
        allowed = engine.cached_object.take_one_of(MAX_READINGS_PER_OBJECT, "releases")
        known[key] = frozenset(map(_subject, rule.check(_as_of(engine, release))) if allowed else ())
    return known[key]


MINORS_BEHIND = 2
"""How far behind the newest release the proposed one is, if it can be: its first faults are then found and fixed."""


def proposed(engine: Engine) -> Release:
    """The release whose image is proposed instead of one that names none.

    It is the newest of which podfit reports no failure here, two minors behind the newest if that is one. Its CUDA is
    no newer than the drivers of the nodes, if these are known."""
    cuda = engine.once(_cuda_of_drivers)
    releases = [release for release in read_releases() if cuda is None or cuda >= 13 or release < CUDA_13]
    settled = (releases[0].major, releases[0].minor - MINORS_BEHIND)
    usual = next((release for release in releases if release[:2] <= settled), releases[0])
    flags = frozenset(engine.args.releases)
    likely = [release for release in releases if not flags or release in flags]
    return next((release for release in dict.fromkeys((usual, *likely)) if _starts(engine, release)), usual)


def _starts(engine: Engine, release: Release) -> bool:
    """True if no rule that depends on the release reports a failure there, and no memory is too small."""
    if shm_mounts.is_refused(engine, release):
        return False
    if release in engine.once(_readings).engines or engine.cached_object.take_one_of(
        MAX_READINGS_PER_OBJECT, "releases"
    ):
        as_of = _as_of(engine, release)
    else:
        return False
    try:
        if any(finding.certainty != "possible" for rule in _rules() for finding in rule.check(as_of)):
            return False
    except Exception:  # a rule's, which is an error of its own where its findings are reported
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
    """The oldest of the newest CUDA versions that the drivers of the nodes run; None if no node says it."""
    sorts = engine.facts.snapshot.alike(driver.LABELS)
    return min((cuda for sort in sorts if (cuda := driver.cuda_major(sort.node.labels)) is not None), default=None)


class _Readings(NamedTuple):
    """The engine as each release reads it."""

    engines: dict[Release, Engine]
    subjects: dict[tuple[str, Release], frozenset[str]]
    """Rule and release → what the rule reports there."""


def _readings(engine: Engine) -> _Readings:
    return _Readings({}, {})


def _as_of(engine: Engine, release: Release) -> Engine:
    """The engine as if its image contained the release; read once."""
    engines = engine.once(_readings).engines
    if release not in engines:
        engines[release] = supposing(engine, release, suggests=release == read_releases()[0])
    return engines[release]


def _finding(finding: Finding, span: Span, engine: Engine) -> Finding:
    """The newest release's finding, as certain as the releases that report it make it."""
    if finding.certainty == "possible" and not finding.unknown_name:
        return finding  # no release rejects it
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
