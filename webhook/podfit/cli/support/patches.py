"""Kustomize patches among the objects of files: why each is one, and how it is checked."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from podfit.base.printable import one_line
from podfit.kube import kustomize, manifest
from podfit.kube.manifest import Document, Manifests, Note, encoding


def notes(notes: Iterable[Note]) -> list[str]:
    """Lines about patches and templates: one for all files that have the same reason. Only that of a single Helm
    template has a line number: where it begins to be one."""
    by_reason: dict[str, dict[str, Note]] = {}
    for note in notes:
        by_reason.setdefault(note.message, {}).setdefault(note.file, note)
    lines = []
    for why, notes_by_file in by_reason.items():
        first = next(iter(notes_by_file.values()))
        others = len(notes_by_file) - 1
        if others:
            lines.append(f"{first.file} and {others} more: {why}")
        else:
            lines.append(str(first) if first.skips == "helm-template" else f"{first.file}: {why}")
    return lines


class Kustomization(NamedTuple):
    """The files that a kustomization names."""

    path: Path
    patches: set[Path]
    resources: set[Path]


class Role(NamedTuple):
    """A file's role in a kustomization."""

    kustomization: Path
    is_patch: bool
    """False: it is a resource."""


class Kustomizations:
    """The kustomizations in the folders of files and above them, each read once."""

    def __init__(self) -> None:
        self._known: dict[Path, list[Kustomization]] = {}

    def role(self, file: Path) -> Role | None:
        """The role of a file in the nearest kustomization that lists it, in its folder or above; None if none does."""
        file = file.resolve()
        for folder in itertools.islice(file.parents, _ABOVE):
            for kustomization in self._in(folder):
                if file in kustomization.resources:
                    return Role(kustomization.path, is_patch=False)
                if file in kustomization.patches:
                    return Role(kustomization.path, is_patch=True)
        return None

    def _in(self, folder: Path) -> list[Kustomization]:
        """The kustomizations of a folder, without those that can't be read."""
        if folder not in self._known:
            kustomizations = self._known[folder] = []
            for name in kustomize.KUSTOMIZATION_FILES:
                with suppress(OSError, UnicodeDecodeError):
                    value = manifest.load(encoding.decode((folder / name).read_bytes()))
                    if isinstance(value, dict):
                        patches = {(folder / file).resolve() for file in kustomize.patch_files(value)}
                        resources = {(folder / file).resolve() for file in kustomize.resource_files(value)}
                        kustomizations.append(Kustomization(folder / name, patches, resources))
        return self._known[folder]


_ABOVE = 8
"""Folders from a file upwards in which a kustomization is looked for. A choice: deeper trees are rare, and each folder
is a few reads."""


def parted(name: str, manifests: Manifests, folders: Kustomizations) -> tuple[Manifests, list[Note]]:
    """The file with its whole objects only, and a note for each patch in it: why it is one. A kustomization that names
    the file decides, else the signs of a patch in each object."""
    if Path(name).name in kustomize.KUSTOMIZATION_FILES:
        manifests = manifests._replace(notes=(*manifests.notes, *_image_notes(name, manifests)))
    role = folders.role(Path(name)) if name != "-" else None
    documents, patches = [], []
    for document in manifests.documents:
        if role is not None and role.is_patch:
            why = f"named in {_from_here(role.kustomization)}"
            patches.append(_skip(name, document, why, _from_here(role.kustomization.parent)))
        elif role is None and (sign := kustomize.sign_of_patch(document.object)) is not None:
            patches.append(_skip(name, document, sign, "DIR"))
        else:
            documents.append(document)
    return manifests._replace(documents=tuple(documents)), patches


def _image_notes(name: str, kustomization: Manifests) -> Iterator[Note]:
    """A note if the manifests get another image than they have: podfit does not render them unasked."""
    for document in kustomization.documents:
        if images := kustomize.replaced_images(document.object):
            text = (
                f"puts {', '.join(map(one_line, images))} into its resources, which are checked here with their own "
                f"image; check the result: podfit check --kustomize {_from_here(Path(name).parent)}"
            )
            yield Note(name, document.line, text)


def _skip(name: str, document: Document, why: str, folder: object) -> Note:
    """The note on a patch. `folder`: that of its kustomization; "DIR" if it is unknown."""
    text = f"skipped: a Kustomize patch ({why}); check the result: podfit check --kustomize {folder}"
    return Note(name, document.line, text, skips="kustomize-patch")


def _from_here(path: Path) -> Path:
    """The path relative to the working directory, if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
