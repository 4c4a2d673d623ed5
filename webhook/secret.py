"""Keys and tokens in a manifest: whatever is printed shows stars in their place."""

from __future__ import annotations

import re
from collections.abc import Collection

_FORM = re.compile(r"(?<![\w-])(hf_(?=[A-Za-z]*[A-Z0-9])|sk-|nvapi-|gh[pousr]_|glpat-|AKIA(?=[A-Z0-9]{16}))([\w-]{4,})")
"""Hugging Face's, OpenAI's, NVIDIA's, GitHub's, GitLab's and AWS's."""
_GIVEN = re.compile(
    r"((?<![\w-])--(?i:api|hf)[-_](?i:key|token)[=:\s,\"'\\]+"
    r"|(?<![\w-])(?i:[\w-]*api[-_]?key|hf[-_]token)[\"']?\s*[=:]\s*[\"']?"
    r"|(?<![\w-])[A-Z0-9_]*_(?:TOKEN|KEY|SECRET|PASSWORD)[\"']?\s*[=:]\s*[\"']?"
    r"|\b(?i:bearer)\s+)"
    r"([^\s,;\"'\]\\$<{(-][^\s,;\"'\]\\]{3,})"
)
"""What stands behind a name that gives a secret; `$(VAR)`, `<placeholder>` and the next flag are none."""
_HINT = re.compile(r"(?i:key|token|secret|password|bearer)|hf_|sk-|nvapi-|gh[pousr]_|glpat-|AKIA")
"""Without one of these there is no secret to be found: a quick look before the thorough ones."""
_NAME = re.compile(r"_(?:TOKEN|KEY|SECRET|PASSWORD)$")
_WORDS = frozenset({"true", "false", "null", "none", "empty", "dummy", "test", "token", "vllm", "valuefrom"})
"""What people write where a key must be and none is: stars for it would hide other words."""

_HIDDEN = re.compile(r"([a-z]{2,6}[-_])?(redacted|x{3,}|\*{3,}|changeme)", re.IGNORECASE)
"""What stands for a key that somebody has taken out: sk-REDACTED, hf_xxxxxxxx."""


def found(text: str) -> frozenset[str]:
    """The secrets that a text of a manifest gives by a name or by their form."""
    if not _HINT.search(text):
        return frozenset()
    values = {match[2] for match in _GIVEN.finditer(text)} | {match[0] for match in _FORM.finditer(text)}
    return frozenset(one for one in values if one.lower() not in _WORDS and not _HIDDEN.fullmatch(one))


def given(variable: str, value: str) -> bool:
    """The value of an environment variable is a secret: HF_TOKEN's, VLLM_API_KEY's."""
    return _NAME.search(variable) is not None and len(value) >= 4 and value.lower() not in _WORDS and value[0] != "$"


def shows(text: str, known: Collection[str] = ()) -> bool:
    """Whether `masked` may have to change something of the text, or of a line of it."""
    return any(one in text for one in known) or _FORM.search(text) is not None


def masked(text: str, known: Collection[str] = ()) -> str:
    """`text` with stars, as many as there were characters, for everything that has a secret's form and for `known`."""
    for one in sorted((one for one in known if one in text), key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(one)}(?![\w-])", "*" * len(one), text)
    return _FORM.sub(lambda one: one[0] if _HIDDEN.fullmatch(one[0]) else one[1] + "*" * len(one[2]), text)
