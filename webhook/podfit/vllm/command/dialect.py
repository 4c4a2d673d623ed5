"""Constructs of bash that other shells do not have: `sh` is dash in Debian's and Ubuntu's images, bash in Red Hat's."""

from __future__ import annotations

import re

from podfit.base.lazy import regex

_QUOTED = regex(r"'[^']*+(?:'|\Z)|\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)", re.DOTALL)
_BEGINS = r"(?:^|[\s;&|(!]|\$\()"
_SYNTAX = regex(
    rf"{_BEGINS}(?P<test>\[\[)(?=\s)|{_BEGINS}(?P<arithmetic>\(\()|(?P<here><<<)|(?P<ansi>\$'')|(?P<process>[<>]\()"
    r"|\w(?P<append>\+=)|\w(?P<array>=\()|(?P<both>&>)"
    r"|(?P<operator>\$\(\([^()\n]{0,80}?(?:\+\+|--|\*\*|\d#))|(?P<old>\$\[)"
    r"|(?P<pipefail>\bpipefail\b)|\[\s[^\]\n]{0,80}?\s(?P<equal>==)\s"
    rf"|{_BEGINS}(?P<command>source|let|declare|typeset|shopt|mapfile|readarray|function)\s"
)
_EXPANSION = regex(r"\$\{(?:![A-Za-z_]|[A-Za-z_]\w{0,64}(?:\[|:\s*-?\s?[\d$]|/|\^|,|@))")
_BRACES = regex(r"(?<!\$)\{((?:\$\{[^{}]{0,64}+\}|[^{}\s]){0,256}+)\}")
_HIDDEN = regex(r"'[^']*+(?:'|\Z)|\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|\\.", re.DOTALL)


def has_braces(word: str) -> bool:
    """True if bash expands a word to several: `{a,b}`, `{1..3}` (bash(1), Brace Expansion)."""
    return any("," in match[1] or ".." in match[1] for match in _BRACES.finditer(_HIDDEN.sub("", word)))


def bash_only(script: str) -> str | None:
    """The first construct of a script that POSIX shells reject or read in another way; None if there is none."""
    expansion = _EXPANSION.search(script)
    if expansion is not None:
        return f"{expansion[0]}…}}"
    match = _SYNTAX.search(_QUOTED.sub("''", script))
    if match is not None and match.lastgroup:
        return match[match.lastgroup]
    return "{…,…}" if has_braces(script) else None


def doubt(script: str, shell: str) -> str | None:
    """Why the shell that runs the script may read it in another way, for people; None if bash runs it."""
    if shell == "bash":
        return None
    construct = bash_only(script)
    return f"{construct} is read by bash, and {shell or 'sh'} may be another shell" if construct else None
