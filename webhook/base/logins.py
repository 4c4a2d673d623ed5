"""Passwords in the command lines of other programs, which no name of a secret announces."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE = r"[^\n\0;|&]{0,200}?"
"""The words between a program and its option; bounded, so that the search is linear."""
_VALUE = r"[\"']?([^\s\0\"'`;|&<>$\\]{1,256})"
_FORMS = (
    ("-u", r"(?<![\w-])-u[=\s,\"'\\]{0,6}[^\s\0\"',:\\]{1,128}:([^\s\0\"'\\]{1,256})"),  # curl -u NAME:PASSWORD
    ("user", r"--(?:proxy-)?user[=\s,\"'\\]{1,6}[^\s\0\"',:\\]{1,128}:([^\s\0\"'\\]{1,256})"),
    ("-p", rf"\b(?:mysql(?:dump|admin|import)?|mariadb)\b{_LINE}\s-p{_VALUE}"),
    ("sshpass", rf"\bsshpass\s{{1,8}}-p\s{{0,8}}{_VALUE}"),
    ("redis-cli", rf"\bredis-cli\b{_LINE}\s(?:-a\s{{1,8}}|--pass\s{{1,8}}){_VALUE}"),
    (
        "login",
        rf"\b(?:docker|podman|nerdctl|registry|oras|crane|skopeo)\s{{1,8}}login\b{_LINE}\s-p[\s=]{{0,8}}{_VALUE}",
    ),
    ("wandb", rf"\bwandb\s{{1,8}}login\s{{1,8}}(?:--\w+\s{{1,8}}){{0,4}}(?!-){_VALUE}"),
    ("password", rf"\blogin\s{{1,8}}\S{{1,128}}\s{{1,8}}password\s{{1,8}}{_VALUE}"),  # .netrc
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
_SEARCHES = tuple([(word, re.compile(form)) for word, form in _FORMS])


def passwords(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of passwords: `curl -u NAME:PASSWORD`, `mysql -pPASSWORD`, `docker login -p PASSWORD` …"""
    for word, form in _SEARCHES:
        if word in text:
            yield from (found.span(1) for found in form.finditer(text) if not found[1].isdecimal())
