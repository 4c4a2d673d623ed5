"""The words of a policy that have a form: a type for each, with what is said of one that does not have it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from podfit.base import near
from podfit.base.lazy import regex
from podfit.kube import quantity, selector
from podfit.kube.workload.table import WORKLOAD_KINDS
from podfit.rules import all_rules
from podfit.rules.rule import Fix
from podfit.vllm import gpu, release

_DNS = regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PATTERN = regex(r"[a-z0-9*?]([-a-z0-9*?]{0,61}[a-z0-9*?])?")
_KIND = regex(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9]([-a-z0-9.]*[a-z0-9])?)?")
_REPOSITORY = regex(r"[a-z0-9]([-a-z0-9._]*[a-z0-9])?(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_MODELS = regex(r"[\w.*?/:@~-]+", re.ASCII)
_PODS = regex(r"([A-Za-z_][\w-]*|\*)(\.([A-Za-z_][\w-]*|\*))*")
_DAY = regex(r"\d{4}-\d{2}-\d{2}")
_MOMENT = regex(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,6})?([Zz]|[+-]\d{2}:\d{2})")


def nearest(word: str, words: Iterable[str]) -> str:
    """ "; did you mean 'deny'?", or nothing."""
    close = near.nearest(word, words)
    return f"; did you mean {close[0]!r}?" if close else ""


def _validator(problem: Callable[[str], str | None]) -> AfterValidator:
    """A validator that rejects a text for which `problem` returns a message."""

    def check(text: str) -> str:
        """The text; raises ValueError with the problem."""
        if problem_text := problem(text):
            raise ValueError(problem_text)
        return text

    return AfterValidator(check)


def expiry_time(text: str) -> datetime | None:
    """The instant from which it no longer holds: the end of a day (UTC), or an RFC 3339 time; None where it is none."""
    try:
        if _DAY.fullmatch(text):
            return datetime.combine(date.fromisoformat(text) + timedelta(days=1), time(), UTC)
        return datetime.fromisoformat(text.upper()) if _MOMENT.fullmatch(text) else None
    except (ValueError, OverflowError):  # the 30th of February
        return None


def _form(parse: Callable[[str], object], form: str) -> AfterValidator:
    """A validator that rejects a text for which `parse` returns None. `form`: what is expected, for people."""
    return _validator(lambda word: None if parse(word) else f"{word!r} is not {form}")


def _rule_problem(word: str) -> str | None:
    return None if word == "*" or word in all_rules() else f"{word!r} is not a rule{nearest(word, all_rules())}"


def _kind_problem(word: str) -> str | None:
    """The problem of a word of `kinds`; None if podfit knows the kind, or if its group is not in podfit's table (a
    custom resource)."""
    if not _KIND.fullmatch(word):
        return f"{word!r} is not a kind: Deployment, or with the API group LeaderWorkerSet.leaderworkerset.x-k8s.io"
    kind, _, group = word.partition(".")
    known = {kind for _, kind in WORKLOAD_KINDS}
    if kind in known or (group and group not in {group for group, _ in WORKLOAD_KINDS}):
        return None
    return f"podfit does not check the kind {word!r}{nearest(kind, known)}"


def _own_kind_problem(word: str) -> str | None:
    """Why a text is not a kind that a policy may add; None where it is one."""
    kind, _, group = word.partition(".")
    if not group or not _KIND.fullmatch(word):
        return f"{word!r} is not a kind with its API group, such as Model.serving.example.com"
    return f"podfit knows {word} already" if (group, kind) in WORKLOAD_KINDS else None


def _gpu_problem(word: str) -> str | None:
    """Why a text names no GPU; None where it names one."""
    try:
        gpu.parse(word)
    except ValueError as error:
        return str(error)
    return None


def _gpu_model_problem(word: str) -> str | None:
    """Why a text names no GPU model; None where it names one or several."""
    if gpu.by_name(word):
        return None
    near = gpu.nearest(word)
    hint = f"; did you mean {', '.join(near)}?" if near else " such as l4, a100-80gb or NVIDIA-H100-80GB-HBM3"
    return f"no GPU is known by the name {word!r}{hint}"


def _validate_rate(value: int | str) -> int | str:
    """A quantity of bytes per second; raises ValueError where it is none, or not positive."""
    try:
        rate = quantity.parse(value)
    except quantity.QuantityError as error:
        raise ValueError(f"{error}, bytes a second") from None
    if rate <= 0:
        raise ValueError("must be more than 0 bytes a second")
    return value


def _no_number(value: object) -> object:
    """The value; raises ValueError for a number, since to Python, and so to pydantic, 1 is true."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f"expected true, false, 'certain' or 'manual', got {value}")
    return value


RuleId = Annotated[str, _validator(_rule_problem)]
"""A rule's id; "*" is every rule."""
Name = Annotated[str, _form(_DNS.fullmatch, "a name: lower-case letters, digits, - and . (a DNS name)")]
Namespace = Annotated[
    str, _form(_PATTERN.fullmatch, "a namespace: lower-case letters, digits and -, with * and ? as wildcards")
]
"""With wildcards."""
Kind = Annotated[str, _validator(_kind_problem)]
"""One that podfit evaluates, or of a group that it does not know."""
OwnKind = Annotated[str, _validator(_own_kind_problem)]
"""One that podfit does not know, with its group."""
Pods = Annotated[str, _form(_PODS.fullmatch, "a path such as spec.roles.*.template.spec")]
"""Where an object has a Pod template."""
LabelKey = Annotated[str, _validator(selector.key_problem)]
LabelValue = Annotated[str, _validator(selector.value_problem)]
Version = Annotated[str, _form(release.parse, "a vLLM release such as 0.27.1")]
"""A release of vLLM."""
Repository = Annotated[
    str,
    _form(_REPOSITORY.fullmatch, "an image repository such as registry.example.com/ml/vllm, without tag and digest"),
]
Accelerator = Annotated[str, _validator(_gpu_problem)]
GpuModel = Annotated[str, _validator(_gpu_model_problem)]
"""A GPU without a count."""
Models = Annotated[str, _form(_MODELS.fullmatch, "a model such as Qwen/Qwen3-8B, or a pattern: Qwen/*")]
"""Models by their names, with wildcards."""
Expiry = Annotated[str, _form(expiry_time, "a date such as 2026-12-31 or a time such as 2026-12-31T18:00:00Z")]
Rate = Annotated[int | str, AfterValidator(_validate_rate)]
"""Bytes a second."""
Text = Annotated[str, _validator(lambda text: None if text.strip() else "must say something")]
Repaired = Annotated[Fix, BeforeValidator(_no_number)]
"""The commands and webhooks of podfit that apply a rule's edits."""
