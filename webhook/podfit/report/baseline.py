"""The baseline of `podfit check`: the findings that were known when it was written are accepted."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from podfit.report.checked import Accepted, Checked, Item

VERSION = 2
"""The format version of a baseline. Version 1 did not distinguish two findings of one rule in a container's `args` or
`env`."""


def content(items: Iterable[Item]) -> dict[str, Any]:
    """The content of the file of `--write-baseline`: the findings that are accepted from now on, in an order that diffs
    well."""
    kept = [item for item in items if item.accepted is None or item.accepted.by == "baseline"]
    rows = [
        {
            "fingerprint": item.fingerprint,
            "rule": item.finding.rule,
            "file": item.file,
            "object": item.object,
            "container": item.result.engine.container.name,
            "path": str(item.finding.field_path),
        }
        for item in kept
    ]
    rows.sort(key=lambda row: (row["file"], row["object"], row["rule"], row["path"]))
    return {"version": VERSION, "findings": rows}


class WithBaseline(NamedTuple):
    """A run with the findings of a baseline accepted."""

    checked: Checked
    gone: int
    """How many findings of the baseline are no longer in the files that were read."""


def with_baseline(checked: Checked, known: Mapping[str, object]) -> WithBaseline:
    """Accept the findings of a baseline, each as often as the baseline has it. `known`: the content of its file. Raises
    ValueError if it is not a baseline."""
    version = known.get("version")
    rows = known.get("findings") if version in (1, VERSION) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) and row.get("fingerprint") for row in rows):
        raise ValueError(f"not a baseline: expected version 1 or {VERSION} and findings with fingerprints")
    left = Counter(str(row["fingerprint"]) for row in rows)

    def accept(item: Item) -> Item:
        """The item, accepted if the baseline has its fingerprint more often than items before it. Counts it."""
        if item.accepted is not None:
            return item
        fingerprint = item.fingerprint_1 if version == 1 else item.fingerprint
        if not left[fingerprint]:
            return item
        left[fingerprint] -= 1
        return item._replace(accepted=Accepted("baseline", "known before"))

    containers = tuple(
        container._replace(items=tuple(accept(item) for item in container.items)) for container in checked.containers
    )
    read = {posixpath.normpath(file) for file in checked.files}
    in_read_files = Counter(str(row["fingerprint"]) for row in rows if posixpath.normpath(str(row.get("file"))) in read)
    gone = left & in_read_files  # the smaller number of the two: not found, and of a file that was read
    return WithBaseline(checked._replace(containers=containers), gone.total())
