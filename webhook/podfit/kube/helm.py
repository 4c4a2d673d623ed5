"""Helm's charts and values files among other files, which are not Kubernetes objects."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podfit.base.lazy import regex

CHART_FILES = ("Chart.yaml", "Chart.yml")
MAX_VALUES_FILES = 4
"""Values files that a note names. A choice: it stays one line."""
_VALUES_NAME = regex(r"(^|.*[._-])values([._-].*)?\.ya?ml", re.IGNORECASE)
_VALUES_KEYS = frozenset({"servingEngineSpec", "modelArtifacts", "modelSpec"})
"""Top-level keys of the values of charts for vLLM (vllm-project/production-stack, llm-d-modelservice)."""
_OF_VLLM = regex(r"(?<![a-z])vllm(?![a-z])|servingEngineSpec|modelArtifacts|llm-d", re.IGNORECASE)


def is_chart(name: str, obj: Mapping[str, Any]) -> bool:
    """True if the file is the description of a chart."""
    return posixpath.basename(name) in CHART_FILES and "kind" not in obj


def is_values(name: str, obj: Mapping[str, Any]) -> bool:
    """True if the file has values for a chart."""
    if "kind" in obj and "apiVersion" in obj:
        return False
    return _VALUES_NAME.fullmatch(posixpath.basename(name)) is not None or not _VALUES_KEYS.isdisjoint(obj)


def names_vllm(text: str) -> bool:
    """True if the text of a values file has to do with vLLM."""
    return _OF_VLLM.search(text) is not None


@dataclass
class Chart:
    """A chart, and the files with values in its folder."""

    folder: str
    names_vllm: bool = False
    """True if a text in its folder has to do with vLLM."""
    values: list[str] = field(default_factory=list)
    """The names of the values files in its folder."""

    def note(self, more: int = 0) -> str:
        """One line: that it is not rendered, and the command that checks it, with values files other than the chart's
        own. `more`: number of other charts that this note is for, too."""
        files = [name for name in self.values if posixpath.basename(name) not in ("values.yaml", "values.yml")]
        command = f"podfit check --helm {self.folder}"
        if files:
            command += f" --values {files[0]}"
        if more:
            return f"{self.folder} and {more} more: Helm charts, which are not rendered here: {command}"
        also = ""
        if len(files) > 1:
            rest = " …" if len(files) > MAX_VALUES_FILES else ""
            also = f" (or {', '.join(files[1:MAX_VALUES_FILES])}{rest})"
        return f"{self.folder}: a Helm chart, which is not rendered here: {command}{also}"


class ReadFile(NamedTuple):
    """A file of the input."""

    name: str
    objects: Sequence[Mapping[str, Any]]
    text: str


def notes(files: Iterable[ReadFile], folders: Iterable[str] = ()) -> list[str]:
    """One note per chart and per values file without a chart, if they name vLLM; and one for all other charts, on the
    first of them. A chart in the folder of another one has no note of its own. `folders`: charts that are known
    besides those in `files`."""
    files = list(files)
    chart_folders = set(folders)
    for file in files:
        if len(file.objects) == 1 and is_chart(file.name, file.objects[0]):
            chart_folders.add(posixpath.dirname(file.name) or ".")
    outermost = [folder for folder in sorted(chart_folders) if _innermost(folder, chart_folders - {folder}) is None]
    charts = {folder: Chart(folder) for folder in outermost}
    notes_on_values = []
    for file in files:
        chart = charts.get(_innermost(file.name, charts) or "")
        has_values = bool(file.objects) and all(is_values(file.name, item) for item in file.objects)
        if chart is not None:
            chart.names_vllm = chart.names_vllm or names_vllm(file.text)
            if has_values:
                chart.values.append(file.name)
        elif has_values and names_vllm(file.text):
            command = f"podfit check --helm CHART --values {file.name}"
            notes_on_values.append(f"{file.name}: values for a Helm chart, which is not rendered here: {command}")
    with_vllm = [chart for chart in charts.values() if chart.names_vllm]
    without_vllm = [chart for chart in charts.values() if not chart.names_vllm]
    chart_notes = [chart.note() for chart in with_vllm]
    if without_vllm:
        chart_notes.append(without_vllm[0].note(more=len(without_vllm) - 1))
    return [*chart_notes, *notes_on_values]


def _innermost(name: str, folders: Iterable[str]) -> str | None:
    """The innermost of the folders that the file or folder is in; None if it is in none of them."""
    outer = [folder for folder in folders if folder == "." or name.startswith(folder.rstrip("/") + "/")]
    return max(outer, key=len, default=None)
