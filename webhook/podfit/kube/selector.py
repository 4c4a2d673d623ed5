"""Label selectors with Kubernetes' own semantics (k8s.io/apimachinery pkg/apis/meta/v1 LabelSelectorAsSelector)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

from podfit.base.lazy import regex
from podfit.kube.path import mapping

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]
_OPERATORS: Mapping[str, Operator] = {get_argument: get_argument for get_argument in get_args(Operator)}

_NAME = regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""The name of a label key, or a label value that is not empty: 63 characters at most."""
_DOMAIN = regex(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""The prefix of a label key, a DNS name."""
MAX_DOMAIN_LENGTH = 253
"""Characters of a DNS name (RFC 1123)."""


class Requirement(NamedTuple):
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str], *, is_complete: bool = True) -> bool | None:
        """True if labels fulfil it; None if that depends on labels that are not known (`is_complete` is False)."""
        value = labels.get(self.key)
        if value is None and not is_complete:
            return None
        if self.operator == "In":
            return value is not None and value in self.values
        if self.operator == "NotIn":
            return value is None or value not in self.values
        return (value is not None) is (self.operator == "Exists")


class Selector(NamedTuple):
    """All of these conditions; none at all selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str], *, is_complete: bool = True) -> bool | None:
        """True if it selects an object with these labels; None if that depends on labels that are not known.
        `is_complete`: the object has no other labels than these."""
        return all_known(requirement.holds(labels, is_complete=is_complete) for requirement in self.requirements)


def of_object(obj: Mapping[str, Any]) -> Selector | None:
    """`matchLabels` and `matchExpressions` as an object has them; None if one of them can't be read.

    An API server rejects an invalid selector (for example with an unknown operator), so it selects nothing.
    """
    requirements = [
        Requirement(str(key), "In", (str(value),)) for key, value in mapping(obj.get("matchLabels")).items()
    ]
    expressions = obj.get("matchExpressions")
    for item in expressions if isinstance(expressions, list) else ():
        operator = _OPERATORS.get(str(mapping(item).get("operator")))
        if operator is None:
            return None
        values = mapping(item).get("values")
        names = tuple(str(value) for value in values) if isinstance(values, list) else ()
        requirements.append(Requirement(str(mapping(item).get("key")), operator, names))
    return Selector(tuple(requirements))


_TERM = regex(
    r"\s*(?:(?P<not>!\s*)?(?P<key>[\w./-]+)"
    r"(?:\s*(?P<sign>!=|==?)\s*(?P<value>[\w.-]*)|\s+(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
)


def parse(text: str) -> Selector:
    """Parse a label selector of kubectl's `-l`: `app=llama,tier!=test,stage in (a, b),!canary`. Raises ValueError.

    k8s.io/apimachinery pkg/labels Parse, without `>` and `<`.
    """
    requirements, place = [], 0
    while place < len(text):
        match = _TERM.match(text, place)
        requirement = _requirement(match) if match else None
        if match is None or requirement is None:
            raise ValueError(f"no label selector from {text[place:].strip()!r} on: expected `key=value`, `key!=value`, "
                             "`key in (a,b)`, `key notin (a,b)`, `key` or `!key`, with commas between")  # fmt: skip
        requirements.append(requirement)
        place = match.end()
    return Selector(tuple(requirements))


def _requirement(match: re.Match[str]) -> Requirement | None:
    """The condition of a match of `_TERM`; None if it is not valid: `!key=value`, or an invalid key."""
    operator_text = match["sign"] or match["word"]  # None for `key` and `!key`
    if key_problem(match["key"]) or (match["not"] and operator_text):
        return None
    if operator_text is None:
        return Requirement(match["key"], "DoesNotExist" if match["not"] else "Exists")
    values = match["values"].split(",") if match["word"] else [match["value"]]
    operator: Operator = "NotIn" if operator_text in ("!=", "notin") else "In"
    return Requirement(match["key"], operator, tuple(value.strip() for value in values))


def all_known(answers: Iterable[bool | None]) -> bool | None:
    """The conjunction of answers that may be unknown (None): one False decides."""
    unknown = False
    for answer in answers:
        if answer is False:
            return False
        unknown = unknown or answer is None
    return None if unknown else True


def key_problem(key: str) -> str | None:
    """Why the label key is invalid (k8s.io/apimachinery pkg/util/validation IsQualifiedName); None if it is valid."""
    domain, slash, name = key.rpartition("/")
    is_domain = 0 < len(domain) <= MAX_DOMAIN_LENGTH and _DOMAIN.fullmatch(domain) is not None
    if slash and not is_domain:
        return f"{key!r} is not a valid label key: {domain!r} before the slash is not a DNS name in lower case"
    if not _NAME.fullmatch(name):
        return (
            f"{key!r} is not a valid label key: 1 to 63 letters, digits, -, _ and ., with a letter or digit at each end"
        )
    return None


def value_problem(value: str) -> str | None:
    """Why the label value is invalid (IsValidLabelValue); None if it is valid."""
    if value and not _NAME.fullmatch(value):
        return f"{value!r} is not a valid label value: up to 63 letters, digits, -, _, .; a letter or digit at each end"
    return None
