"""One context of one or more kubeconfig files, merged as kubectl merges them.

`kubernetes.config` merges files too, but differs from client-go (read in 37.0.2, `config/kube_config.py`). The last
`current-context` wins instead of the first, so it connects to another cluster than kubectl. A user's relative
paths start at the cluster's file; an empty file is an error. So the client's loader gets one context from here, with
absolute paths and without empty fields, and turns it into credentials (`podfit.cluster.access`).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from podfit.kube.path import mapping

_FILES = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
    "contexts": (),
}
"""Fields with a path, relative to the kubeconfig."""

_TEXTS = {
    "clusters": ("server", "tls-server-name", "proxy-url", "certificate-authority", "certificate-authority-data"),
    "users": (
        "client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile",
        "username", "password", "as", "as-uid",
    ),
    "contexts": ("cluster", "user", "namespace"),
}  # fmt: skip
"""Fields that are texts (client-go tools/clientcmd/api/v1/types.go)."""
_BASE64 = ("certificate-authority-data", "client-certificate-data", "client-key-data")

Entry = Mapping[str, Any]


class AccessError(OSError):
    """The cluster cannot be used; one line for people."""


@dataclass(frozen=True)
class Context:
    """A context with its cluster and user."""

    name: str
    namespace: str
    cluster: Entry
    user: Entry
    user_name: str
    file: Path
    """The file that the user comes from (the cluster, if the context has no user)."""

    @property
    def is_secure(self) -> bool:
        """True if the connection is TLS."""
        return str(self.cluster["server"]).lower().startswith("https://")

    def __str__(self) -> str:
        user = f', user "{self.user_name}"' if self.user_name else ""
        return f'context "{self.name}"{user}, {self.file}'


def read(paths: Sequence[Path], name: str | None = None) -> Context:
    """The context `name`, by default the current one; raises AccessError.

    The first file that has an entry, or a `current-context`, wins
    (https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files).
    """
    sections: dict[str, dict[str, tuple[Path, Entry]]] = {section: {} for section in _FILES}
    current = ""
    for file in paths:
        config = _load(file)
        current_context = config.get("current-context") or ""
        if not isinstance(current_context, str):
            raise AccessError(f"{file}: current-context is not a text")
        current = current or current_context
        for section, entries in sections.items():
            for text, entry in _entries(file, config, section):
                entries.setdefault(text, (file, entry))
    where, named = ", ".join(map(str, paths)), name or current
    known = ", ".join(f'"{known_name}"' for known_name in sections["contexts"]) or "none"
    if not named:
        raise AccessError(
            f"{where}: current-context is not set (contexts: {known}). Fix: set it, or pass --context NAME"
        )
    if named not in sections["contexts"]:
        raise AccessError(
            f'{where}: context "{named}" does not exist (contexts: {known}). Fix: pass --context with one of them'
        )
    file, context = sections["contexts"][named]
    cluster_file, cluster = _named(sections, file, named, context, "cluster")
    user_file, user = _named(sections, cluster_file, named, context, "user") if context.get("user") else (None, {})
    server = str(cluster.get("server") or "")
    if not server.lower().startswith(("https://", "http://")):
        raise AccessError(
            f'{cluster_file}: cluster "{context["cluster"]}": server is not a valid URL ("{server}", expected '
            "https://HOST:PORT)"
        )
    insecure = cluster.get("insecure-skip-tls-verify", False)
    if not isinstance(insecure, bool):  # any text would be true
        raise AccessError(
            f'{cluster_file}: cluster "{context["cluster"]}": insecure-skip-tls-verify is not a boolean ("{insecure}")'
        )
    return Context(
        named,
        str(context.get("namespace") or "default"),
        cluster,
        user,
        str(context.get("user") or ""),
        user_file or cluster_file,
    )


def _load(file: Path) -> Entry:
    """The contents of a file; raises AccessError without showing its text."""
    try:
        return mapping(yaml.safe_load(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise AccessError(f"{file}: {(error.strerror or 'unreadable').lower()}") from error
    except UnicodeDecodeError as error:
        raise AccessError(f"{file}: not UTF-8 at byte {error.start}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise AccessError(f"{file}{line}: not valid YAML: {getattr(error, 'problem', None) or error}") from error


def _entries(file: Path, config: Entry, section: str) -> Iterator[tuple[str, Entry]]:
    """(name, contents) of each entry of a section, without empty fields and with absolute paths. Raises AccessError for
    a field of another type."""
    section_entries = config.get(section) or []
    if not isinstance(section_entries, list) or not all(
        isinstance(row_entry, Mapping) and "name" in row_entry for row_entry in section_entries
    ):
        raise AccessError(f"{file}: {section} is not a list of entries with a name")
    for candidate in section_entries:
        entry = {key: value for key, value in mapping(candidate.get(section[:-1])).items() if value not in (None, "")}
        about = f'{file}: {section[:-1]} "{candidate["name"]}"'
        for key in _TEXTS[section]:
            if not isinstance(entry.get(key, ""), str):
                raise AccessError(f"{about}: {key} is not a text. Fix: put it in quotes")
        for key in _BASE64:
            if key in entry and not _is_base64(entry[key]):
                raise AccessError(f"{about}: {key} is not base64")
        for key in _FILES[section]:
            if key in entry:
                entry[key] = str(file.absolute().parent / str(entry[key]))
        yield str(candidate["name"]), entry


def _is_base64(text: str) -> bool:
    """True if Go decodes it, to at least one byte."""
    try:
        return bool(b64decode("".join(text.splitlines()), validate=True))
    except ValueError:
        return False


def _named(
    entries: Mapping[str, Mapping[str, tuple[Path, Entry]]], file: Path, name: str, context: Entry, kind: str
) -> tuple[Path, Entry]:
    """File and fields of the cluster or user that a context names; raises AccessError."""
    entry_name = str(context.get(kind) or "")
    if entry_name not in entries[f"{kind}s"]:
        raise AccessError(f'{file}: context "{name}": {kind} "{entry_name}" does not exist')
    return entries[f"{kind}s"][entry_name]
