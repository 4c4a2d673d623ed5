"""Passwords in the command lines of other programs, and secrets that a shell hands on by a pipe, a file or `read`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache

from podfit.base.lazy import regex

_LINE = r"[^\n\0;|&]{0,200}?"
"""The words between a program and its option; bounded, so that the search is linear."""
_VALUE = r"[\"']?([^\s\0\"'`;|&<>$\\]{1,256})"
_FORMS = (
    ("-u", r"-u(?<![\w-]-u)[=\s,\"'\\]{0,6}[^\s\0\"',:\\]{1,128}:([^\s\0\"'\\]{1,256})"),  # curl -u NAME:PASSWORD
    ("user", r"--(?:proxy-)?user[=\s,\"'\\]{1,6}[^\s\0\"',:\\]{1,128}:([^\s\0\"'\\]{1,256})"),
    ("mysql", rf"\bmysql(?:dump|admin|import)?\b{_LINE}\s-p{_VALUE}"),
    ("mariadb", rf"\bmariadb\b{_LINE}\s-p{_VALUE}"),
    ("sshpass", rf"\bsshpass\s{{1,8}}-p\s{{0,8}}{_VALUE}"),
    ("redis-cli", rf"\bredis-cli\b{_LINE}\s(?:-a\s{{1,8}}|--pass\s{{1,8}}){_VALUE}"),
    (
        "login",
        rf"\b(?:docker|podman|nerdctl|registry|oras|crane|skopeo)\s{{1,8}}login\b{_LINE}\s-p[\s=]{{0,8}}{_VALUE}",
    ),
    ("wandb", rf"\bwandb\s{{1,8}}login\s{{1,8}}(?:--\w+\s{{1,8}}){{0,4}}(?!-){_VALUE}"),
    ("password", rf"\blogin\s{{1,8}}\S{{1,128}}\s{{1,8}}password\s{{1,8}}{_VALUE}"),  # .netrc
    ("vault", rf"\bvault\s{{1,8}}login\s{{1,8}}(?!-|\w{{1,32}}=){_VALUE}"),
    ("authtoken", rf"\badd-authtoken\s{{1,8}}{_VALUE}"),  # ngrok config
    ("mc ", rf"\bmc\s{{1,8}}alias\s{{1,8}}set(?:\s{{1,8}}\S{{1,128}}){{3}}\s{{1,8}}{_VALUE}"),
    ("az ", rf"\baz\s{{1,8}}login\b{_LINE}\s-p\s{{1,8}}{_VALUE}"),
    ("openssl", rf"\bopenssl\b{_LINE}\s-k\s{{1,8}}{_VALUE}"),
    ("pass:", rf"\s-pass(?:in|out)?\s{{1,8}}pass:{_VALUE}"),  # openssl
    ("zip", rf"\b(?:un)?zip\b{_LINE}\s-P\s{{0,8}}{_VALUE}"),
    ("login(", r"\blogin\(\s{0,8}\\{0,4}[\"']([^\s\0\"'\\]{1,256})"),  # huggingface_hub
    ("aws_", rf"\baws_(?:secret_access_key|session_token)\s{{1,8}}{_VALUE}"),  # aws configure set
    (
        "-stdin",
        rf"\b(?:echo|printf)\s{{1,8}}(?:-n\s{{1,8}}|[\"']?%s\S{{0,4}}\s{{1,8}})?{_VALUE}[\"']?\s{{0,8}}\|{_LINE}-stdin\b",
    ),
    (
        "token",
        rf"\b(?:echo|printf)\s{{1,8}}(?:-n\s{{1,8}}|[\"']?%s\S{{0,4}}\s{{1,8}})?{_VALUE}[\"']?\s{{0,8}}(?:>{{1,2}}|\|\s{{0,8}}tee)\s{{0,8}}\S{{0,128}}[/._]token\b",
    ),
    (
        "printf",
        rf"\bprintf\s{{1,8}}-v\s{{1,8}}\w{{0,64}}(?i:key|token|secret|pass)\w{{0,16}}\s{{1,8}}(?:[\"']{{0,4}}%\S{{1,8}}\s{{1,8}})?[\"']?{_VALUE}",
    ),
)
"""(word, expression): a text without the word has no match. Group 1 of the expression is the password."""
_search = cache(re.compile)
"""Most texts contain none of the words, so that a run of `podfit check` compiles few of the expressions."""


def passwords(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of passwords: `curl -u NAME:PASSWORD`, `mysql -pPASSWORD`, `docker login -p PASSWORD` … A
    number is not one: it is rather a port or a user id (`-u 1000:1000`)."""
    for word, form in _FORMS:
        if word not in text:
            continue
        for match in _search(form).finditer(text):
            if not match[1].isdecimal():
                yield match.span(1)


_SOURCE = regex(
    r"(?:\b(?:echo|printf)\s(?:\s{0,8}-[neE]{1,3}\s)?(?:\s{0,8}[\"']?%[sb]\S{0,4}\s)?|<<<)\s{0,8}"
    r"(?:\"(?P<double>[^\"\0\n]{1,512})\"|'(?P<single>[^'\0\n]{1,512})'|(?P<bare>[^\s\0\"'`;|&<>$()\\]{1,256}))"
    r"|<<-?\s{0,4}[\"'\\]?(?P<tag>\w{1,32})[\"']?(?P<after>[^\n\0]{0,200})\n\s{0,16}(?P<line>[^\n\0]{1,512})"
)
"""A text that a command gets: `echo TEXT |`, `printf %s TEXT >`, `<<< TEXT`, the first line of a here-document."""
_SUBSTITUTED = regex(r"([\w.-]{1,80})(?:\+?=|\s)[\"']?(?:\$\(|`)\s{0,8}(?:cat\s{0,8})?\Z")
"""The beginning of a command substitution at the end of a text; group 1 is the variable or flag that gets its
output."""
_BEFORE = regex(r"[^;&|\n\0]{0,200}\Z")
"""The beginning of the last command of a text."""
_TO = regex(r"[^;&\n\0]{0,200}")
"""The rest of a command and of its pipe."""
_READS = regex(r"\b(?:read|mapfile|readarray)\s([^|<>]{1,200})")
"""Commands that read into variables; group 1 has their names."""
_WRITES = regex(r"(?:>{1,2}|\btee\s(?:-a\s)?)\s{0,8}[\"']?([^\s|<>\"']{1,200})")
"""Redirections into a file; group 1 is its path."""
_NEAR = 200
"""Maximum distance, in characters, of what announces a secret."""
_HINT = regex("key|token|secret|pass|auth|cred|pw|pat|jwt|login|stdin", re.IGNORECASE)
_LOGS_IN = regex(r"\blogin\b|-stdin\b")


def handed_on(text: str, is_secret_name: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of texts that a shell gives to a variable, a file or a login for secrets. `is_secret_name`:
    returns True if a name is that of a secret."""
    if "<<" not in text and "echo" not in text and "printf" not in text:  # as most texts
        return
    hints = [hit.start() for hit in _HINT.finditer(text)]
    for match in _SOURCE.finditer(text):
        begin, end = match.span()
        index = bisect_left(hints, begin - _NEAR)
        if index == len(hints) or hints[index] > end + _NEAR:  # no hint is near
            continue
        before = text[max(0, begin - _NEAR) : begin]
        substituted = _SUBSTITUTED.search(before)  # NAME=$(echo TEXT
        if substituted is not None and is_secret_name(substituted[1]):
            yield match.span(match.lastgroup or 0)
            continue
        command = match["after"] or _rest_of_command(text, end)
        if text[begin] == "<":  # the command is before the text, too
            start = _BEFORE.search(before)
            command = f"{start[0] if start else ''} {command}"
        if _takes_secret(command, is_secret_name):
            yield match.span(match.lastgroup or 0)


def _rest_of_command(text: str, at: int) -> str:
    """Return the rest of the command and of its pipe from a place on."""
    rest = _TO.match(text, at)
    return rest[0] if rest else ""


def _takes_secret(command: str, is_secret_name: Callable[[str], bool]) -> bool:
    """Return whether the command reads its input into a variable, a file or a login for secrets."""
    if _LOGS_IN.search(command):
        return True
    for match in _READS.finditer(command):
        if any(is_secret_name(variable) or variable == "KEY" for variable in match[1].split()):
            return True
    for match in _WRITES.finditer(command):
        file = match[1].rpartition("/")[2]
        stem = file.partition(".")[0]  # empty for a hidden file
        if is_secret_name(stem or file):
            return True
    return False
