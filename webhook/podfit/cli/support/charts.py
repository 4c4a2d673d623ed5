"""Helm charts among the checked files, and above them: what to run to check them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from podfit.kube import helm
from podfit.report.files import ManifestFile

_ABOVE = 8
"""Folders above a file in which its chart is looked for."""


def notes(inputs: Sequence[ManifestFile]) -> list[str]:
    """One note per chart, and one per values file without one."""
    files = []
    for source in inputs:
        documents = source.manifests.documents
        text = documents[0].text if documents else ""
        files.append(helm.ReadFile(source.name, [document.object for document in documents], text))
    parts = [file.name for file in files if any(helm.is_values(file.name, item) for item in file.objects)]
    parts += [note.file for source in inputs for note in source.manifests.notes if note.skips == "helm-template"]
    folders = dict.fromkeys(folder for name in parts for folder in itertools.islice(_charts_above(name), 1))
    return helm.notes(files, folders)


def _charts_above(name: str) -> Iterator[str]:
    for folder in itertools.islice(Path(name).parents, _ABOVE):
        if any((folder / file).is_file() for file in helm.CHART_FILES):
            yield str(folder)
