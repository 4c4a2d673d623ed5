"""vLLM releases: an image's tag → a release, and their order."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from datetime import date, timedelta
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import NamedTuple

from podfit.base.data import load
from podfit.base.lazy import regex


class Release(NamedTuple):
    """A vLLM release; compares by number (`Release(0, 9) < Release(0, 20)`), also with only the first numbers:
    `release >= (0, 20)`."""

    major: int
    minor: int
    patch: int = 0
    post: int = 0
    fix: int = 0
    """The fourth number, which a few releases have: the 1 of 0.10.1.1."""

    def __str__(self) -> str:
        return (
            f"{self.major}.{self.minor}.{self.patch}"
            + (f".{self.fix}" if self.fix else "")
            + (f".post{self.post}" if self.post else "")
        )


_VERSION = regex(
    r"v?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?(?:\.(\d{1,3}))?(?:[-._]?(?:rc|a|b)\d+)?(?:[-._]?post(\d{1,3}))?"
    r"(?:\.dev\d+)?(?:\+[\w.]+)?",
    re.IGNORECASE,
)


def parse(text: str) -> Release | None:
    """ "v0.27.1", "0.8.5.post1", "0.11.0rc2", "0.20" → Release; None if `text` is not a vLLM version.

    A release candidate or a development build counts as the release that it leads to.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    major, minor, patch, fix, post = (int(number or 0) for number in match.groups())
    return Release(major, minor, patch, post, fix)


# A tag may name the release next to what the image was built for: v0.10.2-cu128, rocm7.0_vllm_0.11.1, v0.11.0-x86_64,
# 0.9.2-ubuntu22.04.
_NAMED = regex(r"(?:^|[-_.])vllm[-_.]?v?(\d+\.\d+(?:\.\d+){1,2}(?:rc\d+)?(?:\.?post\d+)?)(?![0-9a-z.])", re.IGNORECASE)
_LEADING = regex(r"v?(\d+\.\d+\.\d+(?:\.\d+)?(?:\.?rc\d+)?(?:\.post\d+)?)(?:[-_+].*)?", re.IGNORECASE)
_COMMIT = regex(
    r"-g?(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,40}(?![0-9a-z])|rc0(?!\d)"
    r"|(?<![a-z0-9])(?:dev|nightly|main|master|head|trunk|edge|unstable|snapshot|preview|pr-?\d+)(?![a-z])",
    re.IGNORECASE,
)
"""v0.6.1-edb07092, v0.14.0_amd_dev: a build of a commit after (or before) the release. vLLM tags rc0 when the work on a
release begins."""
_OWN_NUMBERS = regex(
    r"(?:^|/)(?:nvcr\.io|registry[\w.]*\.redhat\.io|ai-dynamo)/|(?<![a-z])(?:llm-d|lmcache|rhaiis|dynamo)(?![a-z])",
    re.IGNORECASE,
)
_NOT_VLLM = regex(
    r"production-stack|router|gateway|operator|controller|exporter|proxy|sidecar|benchmark|simulator|-sim$|mock|runtime"
    r"|omni|spyre|gaudi|neuron",
    re.IGNORECASE,
)
_BUILD = (
    r"vllm|cpu|gpu|cuda|cu\d+|rocm|xpu|tpu|hpu|gh200|ascend|arm64|aarch64|amd64|x86|64|release|repo|env|base|dev|fork"
    r"|ubi\d*|rhel\d*|llm|scaler"
)
_ITS_NAME = regex(rf"vllm[-_]?openai|^(?:{_BUILD})(?:[-_.](?:{_BUILD}))*$")
"""Names of images whose tags are vLLM's version numbers: vllm-openai with any additions, or `vllm` and what it was
built for. The image `vllm-chat:0.5.0` is another program. vLLM Ascend's version numbers match vLLM's by its versioning
policy."""


Images = tuple[tuple[str, Release], ...]
"""Pattern of an image (`*` and `?` as in a shell) → the release in it; the first match counts."""


def release_of_image(image: str, images: Images) -> Release | None:
    """The release that a list of images gives for this image, by the image's name without a digest."""
    name = image.strip().partition("@")[0]
    return next((release for pattern, release in images if _matches(name, pattern)), None)


def _matches(name: str, pattern: str) -> bool:
    """True if the name matches the pattern. `fnmatchcase` compiles each pattern, so the text between wildcards is
    searched first."""
    literal_parts = () if "[" in pattern else pattern.replace("?", "*").split("*")
    return all(part in name for part in literal_parts) and fnmatchcase(name, pattern)


def in_registry(image: str, repositories: Sequence[str]) -> Release | None:
    """The release of vLLM's own image under another name: the tag is vLLM's if the repository is one of these. None for
    other repositories, and for tags that vLLM does not publish."""
    name, _, tag = image.strip().partition("@")[0].rpartition(":")
    return _from_tag(f"vllm/vllm-openai:{tag}") if name in repositories and _PUBLISHED.fullmatch(tag) else None


def from_image(image: str) -> Release | None:
    """The release that an image's tag names; None for `latest`, for digests alone, and for other version schemes.

    A tag is vLLM's own version if the repository is `vllm-openai` (or a mirror or build of it), or if the tag has
    `vllm` before the number (rocm/vllm). Others have version numbers of their own: NVIDIA (25.09-py3), Red Hat (rhaiis
    3.2.1), llm-d, LMCache, KServe, and images of other programs (router, operator). `data/releases.json` has the
    vLLM releases that they state.
    """
    return _from_image(image) if len(image) <= LONGEST else None


def named_within(image: str) -> Release | None:
    """The release that a part of an image's name probably says, where `from_image` reads none: it may inform, not deny.

    `…/vllm-openai:lmcache-v0.8.5-20250418` is a build on 0.8.5, `acme/ray-2.41.0-vllm0.7.0:prod` one on 0.7.0. A build
    of a commit is newer or older than the release that its tag names."""
    return _named_within(image.strip().partition("@")[0]) if len(image) <= LONGEST else None


@lru_cache(256)
def _named_within(name: str) -> Release | None:
    """`named_within` of a name without digest; None for builds of a commit, and if several numbers are possible."""
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        head, tag = name, ""
    last = head.rpartition("/")[2]
    if _NOT_VLLM.search(last) or _COMMIT.search(tag):
        return None
    named = _NAMED.search(tag) or _NAMED.search(last)
    unnamed = _WITHIN.findall(tag) if _is_vllms(head) else []
    numbers = set(unnamed) if named is None else {named[1]}
    release = parse(numbers.pop()) if len(numbers) == 1 else None
    is_vllms_number = release is not None and Release(0, 4) <= release < Release(1, 0)  # as in `_from_tag`
    return release if is_vllms_number else None


def near(image: str) -> Release | None:
    """The release that an image of unknown release is probably near to: its tag names the one before a commit, or the
    day of the build. It may only silence advice about other releases. None if the tag has neither."""
    tag = image.strip().partition("@")[0].rpartition("/")[2].partition(":")[2] if len(image) <= LONGEST else ""
    before = _BEFORE_A_COMMIT.match(tag)
    if before is not None:
        return parse(before[1])
    day = _DAY.search(tag)
    if day is None:
        return None
    built, dates = "-".join(day.groups()), load("releases")["dates"]  # days as YYYY-MM-DD
    return next((release for release in read_releases() if dates[str(release)] <= built), None)


_BEFORE_A_COMMIT = regex(r"v?(0\.\d{1,2}\.\d{1,2})(?=[-_.+])")
_DAY = regex(r"(?<!\d)(20[2-3]\d)-?([01]\d)-?([0-3]\d)(?!\d)")
_WITHIN = regex(r"(?<![^-_.])v?(0\.\d{1,2}\.\d{1,2}(?:\.post\d+)?)(?![^-_])")
"""A number of the form of vLLM's between dashes of a tag."""


def _is_vllms(repository: str) -> bool:
    """True if the repository is vLLM's, or one of builds of it whose tags have vLLM's numbers."""
    last = repository.rpartition("/")[2].lower()
    return "vllm" in last and _ITS_NAME.search(last) is not None and not _OWN_NUMBERS.search(repository)


def pulls_newest(image: str) -> bool:
    """True if the image is vLLM's, or a build of it, without a tag or as `latest`: it is replaced with every
    release."""
    if len(image) > LONGEST or "@" in image:
        return False
    head, colon, tag = image.strip().rpartition(":")
    if not colon or "/" in tag:
        head, tag = image.strip(), "latest"
    last = head.rpartition("/")[2].lower()
    return tag.partition("-")[0] == "latest" and not _NOT_VLLM.search(last) and _is_vllms(head)


LONGEST = 512
"""Characters of an image; none is longer with its registry, tag and digest."""


@lru_cache(256)  # a cluster has a few images
def _from_image(image: str) -> Release | None:
    """The release of an image that another vendor numbers, else the one in its tag; None if neither names one."""
    return release_of_image(image, _vendors()) or _from_tag(image)


@cache
def _vendors() -> Images:
    """(pattern of an image, its vLLM release) for images whose tags have numbers of their own."""
    rows = ((row["image"], parse(row["release"])) for row in load("releases")["images"])
    return tuple((pattern, release) for pattern, release in rows if release is not None)


def _from_tag(image: str) -> Release | None:
    """The release in the tag of an image of vLLM; None if the image is not vLLM's or the number is another
    program's."""
    name = image.strip().partition("@")[0]
    head, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        return None
    last = head.rpartition("/")[2].lower()
    if _NOT_VLLM.search(last) or _COMMIT.search(tag):
        return None
    match = _NAMED.search(tag) or (_LEADING.fullmatch(tag) if _is_vllms(head) else None)
    release = match and parse(match[1])
    # vLLM's releases are 0.x so far: 25.09 and 3.2.1 are numbers of other programs, unless the image is vLLM's own. So
    # is a private vllm:v0.1.0, because images of releases before 0.4 are no longer built.
    oldest = Release(0, 1) if "vllm-openai" in last else Release(0, 4)
    if not release or not (oldest <= release < Release(1, 0) or is_official(name)):
        return None
    return release


@cache
def known_releases() -> tuple[Release, ...]:
    """The releases whose parser is in the table (`data/releases.json`, `flags`), oldest first."""
    releases = (parse(name) for name in load("releases")["flags"]["releases"])
    return tuple(release for release in releases if release is not None)


@cache
def newest_read() -> Release:
    """The newest release of which every item of the checklist is ticked (`facts/read.json`).

    Raises ValueError if the facts do not name a release."""
    release = parse(load("releases")["read"])
    if release is None:
        raise ValueError(f"releases.json: read: not a vLLM release ({load('releases')['read']!r})")
    return release


def is_read(release: Release) -> bool:
    """True if the release is not newer than what was read. A patch of a minor release that was read counts as read."""
    return release[:2] <= newest_read()[:2]


@cache
def read_releases() -> tuple[Release, ...]:
    """The releases of the table that were read, newest first."""
    return tuple(release for release in reversed(known_releases()) if is_read(release))


@cache
def last_year() -> frozenset[Release]:
    """The releases that were read and that appeared in the 365 days up to the newest of them, that one too.

    The days are counted back from its own day and not from today, since podfit's answers do not depend on a clock."""
    days = {release: date.fromisoformat(load("releases")["dates"][str(release)]) for release in read_releases()}
    newest = max(days.values())
    return frozenset(release for release, day in days.items() if newest - day <= timedelta(days=365))


CUDA_13 = Release(0, 20)
"""From this release on the image has CUDA 13 (vLLM docker/Dockerfile)."""


CUDA_12_TAGS = CUDA_13, Release(0, 31)
"""The releases of which `vllm/vllm-openai:v…-cu129` was seen in use: public files have the tag of nearly each one from
0.20.0 to 0.31.0, read in November 2026. Whether a newer release has one is unknown."""
CUDA_TAG = regex(r"-cu(\d{2})\d(?=-|$)")
"""The tag of an image for another CUDA than the release's usual one: v0.27.1-cu129, v0.18.0-cu130-ubuntu2404."""


def cuda_of_image(image: str) -> int | None:
    """The major version of CUDA in vLLM's own image; None for another image, or if it is unknown."""
    name, _, tag = image.strip().partition("@")[0].rpartition(":")
    if not is_official(image) or not name.endswith("/vllm-openai"):
        return None
    if suffix := CUDA_TAG.search(tag):
        return int(suffix[1])
    release = from_image(image)
    if release is None or not is_read(release):
        return None
    return 13 if release >= CUDA_13 else 12


def with_cuda_12(image: str) -> str | None:
    """vLLM's own image of the same release with CUDA 12; None for another image, or if it is not known to exist."""
    release, (first, last) = from_image(image), CUDA_12_TAGS
    if release is None or not first <= release <= last or cuda_of_image(image) is None:  # None: not vLLM's own image
        return None
    name, _, _ = image.strip().partition("@")[0].rpartition(":")
    return f"{name}:v{release}-cu129"


def newer_than_read(release: Release | None) -> str | None:
    """The sentence for people about a release that is newer than what was read; None for others."""
    if release is None or is_read(release):
        return None
    return f"vLLM {release} is newer than podfit's facts ({newest_read()})"


class Neighbours(NamedTuple):
    """The releases of a table around a release."""

    lower: Release | None
    """None: the release is older than the table."""
    upper: Release | None
    """None: the release is newer than the table."""


def neighbours(release: Release, table: Sequence[Release] | None = None) -> Neighbours:
    """The releases of the table around `release`: the same one twice if the table has it. `table`: oldest first; None
    for the releases whose parser is known.

    A post release adds no flags, so it counts as the one in the table. A patch release may (0.11.1 and 0.17.1 did), so
    it is a release of its own. The lower one is None before the table's first release, the upper one after its last.
    """
    table, same = table or known_releases(), release[:3]
    at = bisect_left(table, same)  # the first of the table that begins with these numbers, or comes after them
    if at < len(table) and table[at][:3] == same:
        return Neighbours(table[at], table[at])
    return Neighbours(table[at - 1] if at else None, table[at] if at < len(table) else None)


_PUBLISHED = regex(r"latest|nightly|v?\d+\.\d+\.\d+(\.\d+)?(\.post\d+)?(-(cu\d+|x86_64|aarch64|arm64|ubuntu[\d.]+))*")
"""Tags as vLLM publishes them. A release candidate, or a tag with another suffix, may have other flags."""
_OFFICIAL = regex(r"(?:^|/)vllm/vllm-openai(?:-(?:cpu|rocm|xpu|tpu))?$", re.IGNORECASE)


def is_official(image: str) -> bool:
    """True if the image is vLLM's own build or a mirror of it (`…/vllm/vllm-openai:TAG`), with the release's flags.

    Other projects build on vLLM with the same numbers and add flags of their own (AIBrix' vllm-openai, vLLM-Omni).
    """
    return len(image) <= LONGEST and _is_official(image)


@lru_cache(256)
def _is_official(image: str) -> bool:
    """True if name and tag are those of vLLM's own images; a digest is ignored."""
    name, _, tag = image.strip().partition("@")[0].rpartition(":")
    return _OFFICIAL.search(name) is not None and _PUBLISHED.fullmatch(tag) is not None
