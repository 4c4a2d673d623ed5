"""Helm's charts and values files among other files, which are not Kubernetes objects."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podfit.base.lazy import regex

CHART_FILES = ("Chart.yaml", "Chart.yml")
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
    """A text in its folder has to do with vLLM."""
    values: list[str] = field(default_factory=list)

    def note(self, more: int = 0) -> str:
        """One line: that it is not rendered, and the command that checks it. `more`: charts with the same note."""
        others = [name for name in self.values if posixpath.basename(name) not in ("values.yaml", "values.yml")]
        command = f"podfit check --helm {self.folder}{f' --values {others[0]}' if others else ''}"
        also = f" (or {', '.join(others[1:4])}{' …' if len(others) > 4 else ''})" if len(others) > 1 else ""
        if more:
            return f"{self.folder} and {more} more: Helm charts, which are not rendered here: {command}"
        return f"{self.folder}: a Helm chart, which is not rendered here: {command}{also}"


def notes(files: Iterable[tuple[str, Sequence[Mapping[str, Any]], str]], folders: Iterable[str] = ()) -> list[str]:
    """One note per chart and per values file without a chart, if they name vLLM; and one for all other charts, on the
    first of them.

    `files`: name, objects and text of each. `folders`: charts that are known besides."""
    items = list(files)
    names = {
        posixpath.dirname(name) or "." for name, objects, _ in items if len(objects) == 1 and is_chart(name, objects[0])
    }
    names |= set(folders)
    charts = {folder: Chart(folder) for folder in sorted(names) if _innermost(folder, names - {folder}) is None}
    lone = []
    for name, objects, text in items:
        chart = charts.get(_innermost(name, charts) or "")
        has_values = bool(objects) and all(is_values(name, item) for item in objects)
        if chart is not None:
            chart.names_vllm = chart.names_vllm or names_vllm(text)
            chart.values += [name] if has_values else []
        elif has_values and names_vllm(text):
            command = f"podfit check --helm CHART --values {name}"
            lone.append(f"{name}: values for a Helm chart, which is not rendered here: {command}")
    own = [value for value in charts.values() if value.names_vllm]
    rest = [value for value in charts.values() if not value.names_vllm]
    return [
        *(nearest.note() for nearest in own),
        *(nearest.note(len(rest) - 1) for nearest in rest[:1]),
        *lone,
    ]


def _innermost(name: str, folders: Iterable[str]) -> str | None:
    """The innermost folder that the file or folder is in."""
    return max(
        [folder for folder in folders if folder == "." or name.startswith(folder.rstrip("/") + "/")],
        key=len,
        default=None,
    )
