"""An exec probe that does what httpGet does: one request to a port of the container's own."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from typing import Any

from podfit.base.lazy import regex
from podfit.kube.workload.template import as_list

_SHELLS = ("sh", "bash", "ash", "dash")
_REDIRECTION = regex(r"\s*[12&]?>>?\s*(/dev/null|&[12])")
_FAILING_FALLBACK = regex(r"\s*\|\|\s*(exit\s+[1-9]\d*|false)\s*;?\s*$")
"""`|| exit 1` at the end of a script: it fails if the request fails, as without."""
_MAX_WORDS, _MAX_CHARACTERS = 64, 1024
"""Words of one request, and characters of each; a probe with more does something else, too."""
_SHELL_SIGNS = frozenset(";&|$`()<>{}\n")
"""Signs by which a shell's script is more than one plain command."""
_OWN_URL = regex(r"(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]):(\d{1,5})(?:[/?].*)?")
"""A URL of the container itself, and its port."""
_OTHER_REQUESTS = regex(r"--?(retry|unix-socket|resolve|connect-to|proxy|next|config|K$|x$)")
"""Flags of curl by which a request that fails is made again, or goes elsewhere."""


def port(probe: Mapping[str, Any]) -> int | None:
    """The port of `curl` or `wget` in an exec probe, if the probe fails whenever that port does not answer.

    None if the probe may succeed otherwise: it has more than one command, a retry, a condition, or a custom
    program."""
    words = _request(probe)
    if not words or posixpath.basename(words[0]) not in ("curl", "wget"):
        return None
    if any(_OTHER_REQUESTS.match(word) for word in words[1:]):
        return None
    urls = [match for word in words[1:] if (match := _OWN_URL.fullmatch(word))]
    return int(urls[0][1]) if len(urls) == 1 else None


def _request(probe: Mapping[str, Any]) -> list[str]:
    """The words of the single command that an exec probe runs, itself or by a shell. Empty without `exec`, for a longer
    script, and for words that are not texts or more than one request has."""
    action = probe.get("exec")
    words = as_list(action.get("command")) if isinstance(action, Mapping) else []
    if not words or len(words) > _MAX_WORDS:
        return []
    if not all(isinstance(word, str) and len(word) <= _MAX_CHARACTERS for word in words):
        return []
    if posixpath.basename(words[0]) not in _SHELLS:
        return words
    is_script = len(words) == 3 and re.fullmatch(r"-[elx]*c", words[1])
    return _words_of_script(words[2]) if is_script else []


def _words_of_script(script: str) -> list[str]:
    """The words of a script that is one plain command, without its redirections and a fallback that fails; empty for
    another script, and for one with an open quote."""
    text = _REDIRECTION.sub("", _FAILING_FALLBACK.sub("", script))
    if not _SHELL_SIGNS.isdisjoint(text.strip()):
        return []
    try:
        return shlex.split(text)
    except ValueError:
        return []
