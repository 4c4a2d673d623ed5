"""Kustomize patches in what is read: which files hold them, and what is said of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from podfit.kube import kustomize, manifest
from podfit.kube.manifest import encoding


def unchecked(found: Iterable[tuple[str, int]]) -> tuple[int, list[str]]:
    """How many patches are in the files (name, patches), and a note that says where, and how they are checked."""
    counts = {name: patches for name, patches in found if patches}
    files, count = [*counts], sum(counts.values())
    if not count:
        return 0, []
    what = "1 Kustomize patch is" if count == 1 else f"{count} Kustomize patches are"
    where = f"{files[0]}{f' and {len(files) - 1} more' if len(files) > 1 else ''}"
    why = "a patch is only a part of an object; check the result: podfit check --kustomize DIR"
    return count, [f"{what} not checked ({where}): {why}"]


class Kustomizations:
    """The kustomizations in the folders of files and above them, each read once."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[set[Path], set[Path]]] = {}

    def role(self, file: Path) -> str | None:
        """How a kustomization in the file's folder or above lists it: "patch", "resource", or None if none lists it."""
        file = file.resolve()
        for folder in itertools.islice(file.parents, _ABOVE):
            patches, resources = self._patches_and_resources(folder)
            if file in resources or file in patches:
                return "resource" if file in resources else "patch"
        return None

    def _patches_and_resources(self, folder: Path) -> tuple[set[Path], set[Path]]:
        """Files that the kustomization of a folder names as patches, and as resources."""
        if folder not in self._known:
            patches: set[Path] = set()
            resources: set[Path] = set()
            for name in kustomize.KUSTOMIZATION_FILES:
                with suppress(OSError, UnicodeDecodeError):
                    value = manifest.load(encoding.decode((folder / name).read_bytes()))
                    if isinstance(value, dict):
                        patches |= {(folder / one).resolve() for one in kustomize.patch_files(value)}
                        resources |= {(folder / one).resolve() for one in kustomize.resource_files(value)}
            self._known[folder] = patches, resources
        return self._known[folder]


_ABOVE = 8
"""Folders above a file in which a kustomization is looked for."""


def without_patches(name: str, found: manifest.Manifests, folders: Kustomizations) -> manifest.Manifests:
    """The objects of a file that are whole."""
    role = folders.role(Path(name)) if name != "-" else None
    kept = [
        one for one in found.documents if role == "resource" or (role is None and not kustomize.is_patch(one.object))
    ]
    return replace(found, documents=tuple(kept))
