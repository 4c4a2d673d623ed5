"""Keys and tokens in a manifest: whatever is printed shows stars in their place."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

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
_STARTS = re.compile(r"hf_|sk-|nvapi-|gh[pousr]_|glpat-|AKIA")
_ENDS = ("_TOKEN", "_KEY", "_SECRET", "_PASSWORD")
_SAYS = ("api-key", "api_key", "apikey", "api-token", "api_token", "hf-key", "hf_key", "hf-token", "hf_token", "bearer")
_NAMES = ("key", "token", "secret", "password", "bearer")
"""Quick looks before the thorough ones: nothing is of `_FORM` without one of `_STARTS`, and of `_GIVEN` without one of
`_ENDS` or, in any case, of `_SAYS`, each of which has one of `_NAMES` in it."""
_WORDS = frozenset({"true", "false", "null", "none", "empty", "dummy", "test", "token", "vllm", "valuefrom"})
"""What people write where a key must be and none is: stars for it would hide other words."""

_HIDDEN = re.compile(r"([a-z]{2,6}[-_])?(redacted|x{3,}|\*{3,}|changeme)", re.IGNORECASE)
"""What stands for a key that somebody has taken out: sk-REDACTED, hf_xxxxxxxx."""


def found(text: str) -> frozenset[str]:
    """The secrets that a text of a manifest gives by a name or by their form."""
    lower = text.lower()
    values = set[str]()
    if _any(_NAMES, lower) and (_any(_ENDS, text) or _any(_SAYS, lower)):
        values |= {match[2] for match in _GIVEN.finditer(text)}
    if has_form(text):
        values |= {match[0] for match in _FORM.finditer(text)}
    return frozenset([one for one in values if one.lower() not in _WORDS and not _HIDDEN.fullmatch(one)])


def given(variables: Iterable[tuple[int, str, object]]) -> frozenset[str]:
    """Those values of environment variables (`Engine.variables`) that are secrets: HF_TOKEN's, VLLM_API_KEY's."""
    values = [str(value) for _, name, value in variables if name.endswith(_ENDS)]
    return frozenset([one for one in values if len(one) >= 4 and one.lower() not in _WORDS and one[0] != "$"])


def has_form(text: str) -> bool:
    """Something in the text begins as a known sort of key or token does."""
    return _STARTS.search(text) is not None


def _any(words: Iterable[str], text: str) -> bool:
    for word in words:  # noqa: SIM110 - a generator takes as long as all the words
        if word in text:
            return True
    return False


def shows(text: str, known: Collection[str] = ()) -> bool:
    """Whether `masked` may have to change something of the text, or of a line of it."""
    return _any(known, text) or (has_form(text) and _FORM.search(text) is not None)


def masked(text: str, known: Collection[str] = ()) -> str:
    """`text` with stars, as many as there were characters, for everything that has a secret's form and for `known`."""
    for one in sorted((one for one in known if one in text), key=len, reverse=True):
        text = re.sub(rf"(?<![\w-]){re.escape(one)}(?![\w-])", "*" * len(one), text)
    if not has_form(text):
        return text
    return _FORM.sub(lambda one: one[0] if _HIDDEN.fullmatch(one[0]) else one[1] + "*" * len(one[2]), text)
