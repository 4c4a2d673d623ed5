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
from typing import Any, NamedTuple

import yaml

from podfit.kube.path import mapping

_FILES = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
    "contexts": (),
}
"""Section → fields of its entries with a path, relative to the kubeconfig."""

_TEXTS = {
    "clusters": ("server", "tls-server-name", "proxy-url", "certificate-authority", "certificate-authority-data"),
    "users": (
        "client-certificate", "client-certificate-data", "client-key", "client-key-data", "token", "tokenFile",
        "username", "password", "as", "as-uid",
    ),
    "contexts": ("cluster", "user", "namespace"),
}  # fmt: skip
"""Section → fields of its entries that are texts (client-go tools/clientcmd/api/v1/types.go)."""
_BASE64 = ("certificate-authority-data", "client-certificate-data", "client-key-data")
"""Fields in base64, of clusters and users."""

Entry = Mapping[str, Any]
"""The fields of a cluster, user or context, or of an entire file."""


class _FileEntry(NamedTuple):
    """An entry of a kubeconfig, and the file that has it."""

    file: Path
    entry: Entry


@dataclass(frozen=True)
class _Merged:
    """Several kubeconfigs as one."""

    current: str
    """The name of the current context; empty if no file sets it."""
    sections: dict[str, dict[str, _FileEntry]]
    """Section ("clusters", "users", "contexts") → name → entry."""


class AccessError(OSError):
    """The cluster cannot be used; one line for people."""


@dataclass(frozen=True)
class Context:
    """A context with its cluster and user."""

    name: str
    namespace: str
    cluster: Entry
    user: Entry
    """Empty if the context has no user."""
    user_name: str
    """Empty if the context has no user."""
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
    """The context `name` (None: the current one) of the merged files; raises AccessError if it can't be used."""
    merged = _merge(paths)
    context_name = name or merged.current
    contexts = merged.sections["contexts"]
    where = ", ".join(map(str, paths))
    known = ", ".join(f'"{known_name}"' for known_name in contexts) or "none"
    if not context_name:
        raise AccessError(
            f"{where}: current-context is not set (contexts: {known}). Fix: set it, or pass --context NAME"
        )
    if context_name not in contexts:
        raise AccessError(
            f'{where}: context "{context_name}" does not exist (contexts: {known}). Fix: pass --context with one of '
            "them"
        )
    file, context = contexts[context_name]
    cluster = _named(merged, file, context_name, context, "cluster")
    _check_cluster(cluster, str(context.get("cluster")))
    has_user = bool(context.get("user"))
    user = _named(merged, cluster.file, context_name, context, "user") if has_user else _FileEntry(cluster.file, {})
    return Context(
        name=context_name,
        namespace=str(context.get("namespace") or "default"),
        cluster=cluster.entry,
        user=user.entry,
        user_name=str(context.get("user") or ""),
        file=user.file,
    )


def _merge(paths: Sequence[Path]) -> _Merged:
    """The entries of all files. The first file that has an entry, or a `current-context`, wins
    (https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/#merging-kubeconfig-files).
    Raises AccessError."""
    sections: dict[str, dict[str, _FileEntry]] = {section: {} for section in _FILES}
    current = ""
    for file in paths:
        config = _load(file)
        current_of_file = config.get("current-context") or ""
        if not isinstance(current_of_file, str):
            raise AccessError(f"{file}: current-context is not a text")
        current = current or current_of_file
        for section, entries in sections.items():
            for name, entry in _entries(file, config, section):
                entries.setdefault(name, _FileEntry(file, entry))
    return _Merged(current, sections)


def _check_cluster(cluster: _FileEntry, name: str) -> None:
    """Raises AccessError if the cluster's URL or its insecure-skip-tls-verify is not valid."""
    about = f'{cluster.file}: cluster "{name}"'
    server = str(cluster.entry.get("server") or "")
    if not server.lower().startswith(("https://", "http://")):
        raise AccessError(f'{about}: server is not a valid URL ("{server}", expected https://HOST:PORT)')
    insecure = cluster.entry.get("insecure-skip-tls-verify", False)
    if not isinstance(insecure, bool):  # any text would be true
        raise AccessError(f'{about}: insecure-skip-tls-verify is not a boolean ("{insecure}")')


def _load(file: Path) -> Entry:
    """The contents of a file, empty if it is not a mapping; raises AccessError without showing its text."""
    try:
        return mapping(yaml.safe_load(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise AccessError(f"{file}: {(error.strerror or 'unreadable').lower()}") from error
    except UnicodeDecodeError as error:
        raise AccessError(f"{file}: not UTF-8 at byte {error.start}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)  # errors of syntax have it, with the line counted from 0
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise AccessError(f"{file}{line}: not valid YAML: {problem}") from error


def _entries(file: Path, config: Entry, section: str) -> Iterator[tuple[str, Entry]]:
    """(name, contents) of each entry of a section, without empty fields and with absolute paths. Raises AccessError for
    a field of another type.

    An entry has its contents under the section's singular: `clusters: [{name: a, cluster: {server: …}}]`."""
    items = config.get(section) or []
    if not isinstance(items, list) or not all(isinstance(item, Mapping) and "name" in item for item in items):
        raise AccessError(f"{file}: {section} is not a list of entries with a name")
    singular = section.removesuffix("s")
    for item in items:
        entry = {key: value for key, value in mapping(item.get(singular)).items() if value not in (None, "")}
        about = f'{file}: {singular} "{item["name"]}"'
        for key in _TEXTS[section]:
            if not isinstance(entry.get(key, ""), str):
                raise AccessError(f"{about}: {key} is not a text. Fix: put it in quotes")
        for key in _BASE64:
            if key in entry and not _is_base64(entry[key]):
                raise AccessError(f"{about}: {key} is not base64")
        for key in _FILES[section]:
            if key in entry:
                entry[key] = str(file.absolute().parent / str(entry[key]))
        yield str(item["name"]), entry


def _is_base64(text: str) -> bool:
    """True if the text is base64 of at least one byte, as Go decodes it: line breaks are ignored, other characters
    outside of the alphabet are errors."""
    try:
        return bool(b64decode("".join(text.splitlines()), validate=True))
    except ValueError:
        return False


def _named(merged: _Merged, file: Path, context_name: str, context: Entry, kind: str) -> _FileEntry:
    """The cluster or user (`kind`: "cluster" or "user") that a context names; raises AccessError, as a problem of
    `file`, if there is none."""
    entry_name = str(context.get(kind) or "")
    entries = merged.sections[f"{kind}s"]
    if entry_name not in entries:
        raise AccessError(f'{file}: context "{context_name}": {kind} "{entry_name}" does not exist')
    return entries[entry_name]
