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
    """Lines about patches and templates: one for all that have the same reason. A template's line is where it begins
    to be one."""
    files: dict[str, dict[str, Note]] = {}
    for note in notes:
        files.setdefault(note.message, {}).setdefault(note.file, note)
    lines = []
    for why, of in files.items():
        first = next(iter(of.values()))
        more = f" and {len(of) - 1} more" if len(of) > 1 else ""
        lines.append(str(first) if first.skips == "helm-template" and not more else f"{first.file}{more}: {why}")
    return lines


class Kustomization(NamedTuple):
    """The files that a kustomization names."""

    path: Path
    patches: set[Path]
    resources: set[Path]


class Kustomizations:
    """The kustomizations in the folders of files and above them, each read once."""

    def __init__(self) -> None:
        self._known: dict[Path, list[Kustomization]] = {}

    def role(self, file: Path) -> tuple[str, Path] | None:
        """How a kustomization in the file's folder or above lists it, "patch" or "resource", and the kustomization."""
        file = file.resolve()
        for folder in itertools.islice(file.parents, _ABOVE):
            for kustomization in self._in(folder):
                if file in kustomization.resources or file in kustomization.patches:
                    return "resource" if file in kustomization.resources else "patch", kustomization.path
        return None

    def _in(self, folder: Path) -> list[Kustomization]:
        """The kustomizations of a folder."""
        if folder not in self._known:
            kustomizations = self._known[folder] = []
            for name in kustomize.KUSTOMIZATION_FILES:
                with suppress(OSError, UnicodeDecodeError):
                    value = manifest.load(encoding.decode((folder / name).read_bytes()))
                    if isinstance(value, dict):
                        patches = {(folder / patch_file).resolve() for patch_file in kustomize.patch_files(value)}
                        resources = {
                            (folder / resource_file).resolve() for resource_file in kustomize.resource_files(value)
                        }
                        kustomizations.append(Kustomization(folder / name, patches, resources))
        return self._known[folder]


_ABOVE = 8
"""Folders above a file in which a kustomization is looked for."""


def parted(name: str, manifests: Manifests, folders: Kustomizations) -> tuple[Manifests, list[Note]]:
    """The file with its whole objects only, and for each patch in it why it is one."""
    if Path(name).name in kustomize.KUSTOMIZATION_FILES:
        manifests = manifests._replace(notes=(*manifests.notes, *_image_notes(name, manifests)))
    role, path = (folders.role(Path(name)) if name != "-" else None) or (None, None)
    documents, patches = [], []
    for document in manifests.documents:
        sign = kustomize.sign_of_patch(document.object) if role is None else None
        if role == "patch" and path is not None:
            patches.append(_skip(name, document, f"named in {_from_here(path)}", _from_here(path.parent)))
        elif sign is not None:
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
    text = f"skipped: a Kustomize patch ({why}); check the result: podfit check --kustomize {folder}"
    return Note(name, document.line, text, skips="kustomize-patch")


def _from_here(path: Path) -> Path:
    """The path relative to the working directory, if it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
