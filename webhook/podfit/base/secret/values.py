"""Values that are secrets, and the spellings of a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

from podfit.base.lazy import regex
from podfit.base.quotable import canonical
from podfit.base.secret.names import words_of

SCHEME = regex(r"(?:bearer|basic|token|digest|apikey|negotiate)(?:\s|%20|\+)++", re.IGNORECASE)
_NONE = words_of(
    "0 1 true false yes no on off null none nil empty dummy test token vllm auto default valuefrom undefined"
)
"""Values that are written if no key is needed. A mask would hide the same words elsewhere in a text."""
PLACEHOLDER = regex(
    r"\$\([\w./-]*|\$\(\s*(?:[\w.-]+|(?:cat|<)\s+[~/\w.${}\"-]+)\s*\)|\$\{[^}]*\}|\$[A-Z0-9_]+|<[^<>]*>|\{\{.*\}\}|\[?(?:[a-z]{2,6}[-_])?(?:redacted|masked|x{3,}|\*{3,}|"
    r"\.{3,}|…|changeme|change[-_]me|replace[-_]?me|your[-_]\S*)\]?",
    re.IGNORECASE | re.DOTALL,
)
"""`$(HF_TOKEN)`, `<token>`, hf_xxxxxxxx, sk-REDACTED."""
_PATH = regex(r"(?:~|\.{0,2})/(?:[a-z0-9._@-]+/)+[a-z0-9._@-]*|[\w./@-]+\.(?:pem|key|crt|json|txt|token)")
"""The path of a file that contains a secret."""
_WEAK_DIGITS = 6
"""Digits from which a number is masked wherever it appears: a shorter number can be any other number of the text."""
LIKE_WORDS = regex("(?:[A-Za-z][a-z]*)?(?:[-_ ](?:[A-Za-z][a-z]*)?)*")
LOOSE = 8
"""Characters from which a secret is masked inside other words."""


def is_secret(value: str) -> bool:
    """Return whether a value in the place of a secret is one: not empty, a placeholder, a path or a word such as
    "auto"."""
    text = value.strip()
    if not text or text.lower() in _NONE:
        return False
    return PLACEHOLDER.fullmatch(text) is None and _PATH.fullmatch(text) is None


def bare(value: str) -> str:
    """Return the token of `Bearer hf_…`."""
    scheme = SCHEME.match(value)
    return value[scheme.end() :] if scheme else value


def is_weak(value: str) -> bool:
    """Return whether the value is so short that it is masked only after the name of a secret.

    It has at most two characters, three lower-case letters, which may be a word, or fewer than _WEAK_DIGITS digits."""
    if value.isdecimal():
        return len(value) < _WEAK_DIGITS
    return len(value) < 3 or (len(value) == 3 and value.islower() and value.isalpha())


def lowered(text: str) -> str:
    """Return `text` of the same length in lower case. If a letter has another length in lower case (`İ`), only ASCII
    letters are changed, and dashes become underscores, which the callers do not distinguish."""
    lower = text.lower()
    return lower if len(lower) == len(text) else canonical(text).replace("-", "_")


def spellings(secret: str) -> Iterator[str]:
    """Yield the secret as programs, shells, URLs, JSON and YAML write it; some spellings more than once. Letters and
    digits alone have one."""
    yield secret
    if secret.isascii() and secret.isalnum():
        return
    decoded = _PERCENT.sub(lambda match: chr(int(match[1], 16)), secret)
    for meant in {
        secret,
        secret.strip(),
        secret.replace("$$", "$"),
        secret.translate(_QUOTES),
        decoded,
        *_unescaped(secret),
    }:
        yield meant
        for escaped in (json.dumps(meant), json.dumps(meant, ensure_ascii=False), repr(meant), repr(f"'{meant}")):
            yield escaped[1:-1].removeprefix("'")
        yield repr(f"\"{meant}'")[2:-1].removesuffix("'").removesuffix("\\")
        yield from (_percent(meant, _UNRESERVED), _percent(meant, f"{_UNRESERVED}/"))
        yield meant.replace("'", "''")
        yield "".join([text if text.isascii() else f"\\x{ord(text):02x}" for text in meant])
        yield from filter(is_loose, _PARTED.split(meant))


def _unescaped(text: str) -> Iterator[str]:
    """Yield the meaning of a quoted text in JSON and in a shell, up to three levels deep."""
    for _ in range(3):
        if "\\" not in text:
            return
        with suppress(ValueError):
            yield str(json.loads(f'"{text}"', strict=False))
        text = re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
        yield text


_PARTED = regex(r"[\s.=:\"']")
"""Places at which YAML folds a text, vLLM splits `--flag.key=value`, and a shell joins what is quoted."""
_QUOTES = str.maketrans("", "", "\"'\\")
_UNRESERVED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
_PERCENT = regex("%([0-9A-Fa-f]{2})")


def _percent(text: str, safe: str) -> str:
    """Percent-encode `text` as in a URL (RFC 3986)."""
    return "".join(
        [char if char in safe else "".join([f"%{byte:02X}" for byte in char.encode(errors="replace")]) for char in text]
    )


def is_loose(secret: str) -> bool:
    """Return whether the secret is so unlike a word that it is masked inside other words."""
    return len(secret) >= 2 * LOOSE or (len(secret) >= LOOSE and LIKE_WORDS.fullmatch(secret) is None)
