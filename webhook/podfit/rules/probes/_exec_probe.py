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
_NOWHERE = regex(r"\s*[12&]?>>?\s*(/dev/null|&[12])")
_FAILS_TOO = regex(r"\s*\|\|\s*(exit\s+[1-9]\d*|false)\s*;?\s*$")
_MANY, _LONGEST = 64, 1024
"""Words of one request, and characters of each; a probe with more does something else, too."""
_OF_A_SHELL = frozenset(";&|$`()<>{}\n")
_OWN = regex(r"(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]):(\d{1,5})(?:[/?].*)?")
_OTHERWISE = regex(r"--?(retry|unix-socket|resolve|connect-to|proxy|next|config|K$|x$)")
"""Flags of curl by which a request that fails is made again, or goes elsewhere."""


def port(probe: Mapping[str, Any]) -> int | None:
    """The port of `curl` or `wget` in an exec probe, if the probe fails whenever that port does not answer.

    None if the probe may succeed otherwise: it has more than one command, a retry, a condition, or a custom
    program."""
    action = probe.get("exec")
    words = as_list(action.get("command")) if isinstance(action, Mapping) else []
    if not words or len(words) > _MANY or not all(isinstance(word, str) and len(word) <= _LONGEST for word in words):
        return None
    if posixpath.basename(words[0]) in _SHELLS:
        if len(words) != 3 or not re.fullmatch(r"-[elx]*c", words[1]):
            return None
        text = _NOWHERE.sub("", _FAILS_TOO.sub("", words[2]))
        if not _OF_A_SHELL.isdisjoint(text.strip()):
            return None
        try:
            words = shlex.split(text)
        except ValueError:
            return None
    if not words or posixpath.basename(words[0]) not in ("curl", "wget"):
        return None
    if any(_OTHERWISE.match(word) for word in words[1:]):
        return None
    matches = [match for word in words[1:] if (match := _OWN.fullmatch(word))]
    return int(matches[0][1]) if len(matches) == 1 else None
