"""Input of all commands: reading files, policies and the facts given on the command line."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from podfit.base.lazy import regex
from podfit.base.secret import FORMS
from podfit.cli.support import patches as kustomized
from podfit.cli.support import terminal
from podfit.kube import companions, manifest, workload
from podfit.kube.companions import Companions
from podfit.kube.everywhere import Everywhere, PlacedObject
from podfit.kube.manifest import encoding
from podfit.kube.workload import JSON
from podfit.report.files import ManifestFile
from podfit.vllm import gpu
from podfit.vllm import measured as prints
from podfit.vllm.facts import Facts, GivenModel
from podfit.vllm.gpu import Accelerator
from podfit.vllm.model import given

MANIFEST_SUFFIXES = (".yaml", ".yml", ".json")
_OURS = regex(r"apiVersion|\bkind\b")
"""A key that the text of every Kubernetes object has."""


class UnusableError(Exception):
    """Something the user gave can't be used: printed without a traceback, with this exit code."""

    def __init__(self, lines: str | Sequence[str], code: int = 2) -> None:
        self.lines = [lines] if isinstance(lines, str) else list(lines)
        self.code = code
        super().__init__("; ".join(self.lines))


class Examples(argparse.HelpFormatter):
    """Wraps the description, and leaves the examples' lines as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples"):
            return "".join(f"{indent}{line}\n" for line in text.splitlines())
        return super()._fill_text(text, width, indent)


def examples(*lines: str) -> str:
    """A parser's epilog; `Examples` shows it."""
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


def tell(line: str) -> None:
    """Print a line on standard error, without secrets and control characters, and of bounded length."""
    print(terminal.message(FORMS.line(line)), file=sys.stderr, flush=True)


def yaml_text(obj: object) -> str:
    """A manifest that podfit makes, as YAML: texts of several lines as blocks."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None),
    )
    return str(yaml.dump(obj, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 20))


def add_show_secrets(parser: argparse.ArgumentParser) -> None:
    """Register `--show-secrets`."""
    parser.add_argument(
        "--show-secrets",
        action="store_true",
        help="print keys, tokens and passwords as in the input instead of stars, for output that stays on this machine",
    )


def add_gpu(parser: argparse.ArgumentParser) -> None:
    """Register `--gpu NAME[:COUNT]`."""
    parser.add_argument(
        "--gpu",
        metavar="NAME[:COUNT]",
        help="the GPU where the manifest names none: a label (NVIDIA-A100-SXM4-80GB), what nvidia-smi prints "
        '("Tesla T4") or short (l4, h100, mi300x); or several, as in l4,h100',
    )


def now() -> datetime:
    """The clock: what exceptions expire by."""
    return datetime.now(UTC)


def read_bytes(path: Path) -> bytes:
    """The file's content; raises UnusableError (exit 3) if it can't be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnusableError(f"{path}: {reason(error)}", 3) from error


def read_text(path: Path) -> str:
    """The file's text; raises UnusableError (exit 3) if it can't be read."""
    try:
        return encoding.decode(read_bytes(path)).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UnusableError(f"{path}: {reason(error)}", 3) from error


def read_input(name: str) -> str:
    """The text of a file, or of standard input (`-`)."""
    return sys.stdin.read() if name == "-" else read_text(Path(name))


def reason(error: Exception) -> str:
    """Return why a file can't be read or written, in a few words."""
    if isinstance(error, UnicodeDecodeError):
        return f"not {error.encoding.upper()} at byte {error.start}"
    return (getattr(error, "strerror", None) or type(error).__name__).lower()


def accelerator(text: str | None) -> Accelerator | None:
    """`NAME[:COUNT]` → the accelerators of a container; raises UnusableError if no GPU has that name."""
    if text is None:
        return None
    try:
        return gpu.parse(text)
    except ValueError as error:
        raise UnusableError(f"--gpu {text}: {error}") from error


def write_text(path: Path, content: str | Iterable[str]) -> None:
    """Writes a report, whole or piece by piece; raises UnusableError (exit 3) if that fails."""
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines([content] if isinstance(content, str) else content)
    except OSError as error:
        raise UnusableError(f"{path}: can't be written: {reason(error)}", 3) from error


def _globbed(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Patterns (`**/*.yaml`, quoted so that the shell leaves them) replaced by what they match, each with whether it is
    from one; raises UnusableError if that is nothing."""
    for name in names:
        if not any(sign in name for sign in "*?[") or Path(name).exists():
            yield name, False
            continue
        try:
            file_names = sorted(str(match) for match in _matches(Path(name)) if match.is_file())
        except ValueError as error:
            raise UnusableError(f"{name}: {str(error).lower()}") from error
        if not file_names:
            raise UnusableError(f"{name}: no file matches")
        yield from ((text, True) for text in file_names)


def _matches(path: Path) -> Iterator[Path]:
    """Manifests by name in the folder, or else matches of the pattern, files or not; raises ValueError."""
    if path.is_dir():
        return (
            match
            for match in path.rglob("*")
            if match.suffix in MANIFEST_SUFFIXES and not _hidden(match.relative_to(path))
        )
    return (Path(path.anchor) if path.is_absolute() else Path()).glob(str(path.relative_to(path.anchor)))


def links_to_no_file(names: Sequence[str]) -> Iterator[str]:
    """The links in the given folders and of the given patterns that lead to no regular file: `files` lacks them."""
    for path in (Path(name) for name in names if Path(name).is_dir() or not Path(name).exists()):
        yield from sorted(str(link) for link in _matches(path) if link.is_symlink() and not link.is_file())


def files(names: Sequence[str]) -> Iterator[str]:
    """The names given, folders and patterns replaced by the manifests in them; raises UnusableError if there is no
    such place."""
    return (name for name, _ in _files(names))


def trees(names: Sequence[str]) -> list[Path]:
    """The folders in which files are looked for: those given, and those in which the given patterns begin."""
    paths = [Path(name) for name in names if name != "-" and Path(name).is_dir()]
    patterns = [Path(name) for name in names if any(sign in name for sign in "*?[") and not Path(name).exists()]
    for pattern in patterns:
        parts = itertools.takewhile(lambda part: not any(sign in part for sign in "*?["), pattern.parts)
        paths.append(Path(*parts))
    return paths


def names_any(name: str, names: Iterable[str]) -> bool:
    """A file, folder or pattern of a command line stands for one of these files."""
    return not {*files([name])}.isdisjoint(names)


def _files(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """(file, it was never named itself, but is in a folder or matches a pattern), each file once."""
    places: dict[str, tuple[str, bool]] = {}
    for name, met in _walked(names):
        place = name if name == "-" else os.path.abspath(name)  # noqa: PTH100 - `a/../b` is `b`; no link is followed
        first, was_met = places.get(place, (name, True))
        places[place] = first, was_met and met
    yield from places.values()


def _walked(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """(file, it is in a folder or matches a pattern), several times if the names overlap."""
    for name, met in _globbed(names):
        path = Path(name)
        if name != "-" and path.is_dir():
            matches = [str(file) for file in sorted(_matches(path)) if file.is_file()]
            if not matches:
                raise UnusableError(f"{name}: no file in it ends in {', '.join(MANIFEST_SUFFIXES)}")
            yield from ((text, True) for text in matches)
        else:
            yield name, met


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def read_manifests(name: str, *, met: bool = False) -> manifest.Manifests:
    """The objects in a file or on standard input; a file that can't be read is an error in the result.

    `met`: the file comes from a folder or a pattern, not from a name that the user gave. Such a file is noted and left
    out if it is not valid YAML or JSON (tsconfig.json has comments) and has no terms of a manifest.
    """
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        return manifest.Manifests(documents=(), errors=(manifest.ReadError(name, None, reason(error)),))
    if name == "-" and not data.strip():  # `helm template … | podfit check -`, and helm failed
        empty = manifest.ReadError("<stdin>", None, "standard input is empty")
        return manifest.Manifests(documents=(), errors=(empty,))
    manifests = manifest.read(data, "<stdin>" if name == "-" else name)
    if met and manifests.errors and not manifests.documents and not _OURS.search(encoding.decode(data, "replace")):
        why = manifests.errors[0]
        skipped = f"skipped: no manifest: {why.message}"
        return manifest.Manifests((), (), (manifest.Note(why.file, why.line, skipped, skips="not-a-manifest"),))
    return manifests


def log_text(data: bytes) -> str:
    """The text of a log; bytes that are not valid UTF-8 are replaced."""
    return encoding.decode(data, "replace")


def read_workload(name: str) -> JSON:
    """The first Pod or workload of what `--manifest` names; raises UnusableError if there is none."""
    manifests = read_manifests(name)
    if manifests.errors:
        raise UnusableError([str(error) for error in manifests.errors], 3)
    for document in manifests.documents:
        if workload.find(document.object):
            return document.object
    raise UnusableError(f"--manifest {name}: no Pod or workload in it", 3)


def read(
    names: Sequence[str],
    known: Facts,
    pairs: Sequence[tuple[str, bytes]] = (),
    excluded: Callable[[str], bool] | None = None,
) -> tuple[list[ManifestFile], list[str]]:
    """Every file of `names` and of `pairs` (name, contents), and the problems in labeled ConfigMaps.

    Folders are replaced by the manifests in them. All files are read before the first is checked: a claim, an
    autoscaler or a model may be in another file, and a node in another folder.
    """
    files = [
        (name, met) for name, met in _files(names) if not (met and (_is_project(name) or (excluded and excluded(name))))
    ]
    items = [(name, read_manifests(name, met=met)) for name, met in files]
    folders = kustomized.Kustomizations()
    parted = [(name, *kustomized.parted(name, parsed, folders)) for name, parsed in items]
    inputs = [(name, parsed) for name, parsed, _ in parted]
    inputs += [(name, manifest.read(data, name)) for name, data in pairs]
    patches = {name: notes for name, _, notes in parted}
    known, errors = with_config_maps(known, [document for _, parsed in inputs for document in parsed.documents])
    directories: dict[Path, list[JSON]] = {}
    for name, manifests in inputs:
        directories.setdefault(Path(name).parent, []).extend(document.object for document in manifests.documents)
    releases = {
        path: Companions(tuple(held)) for path, held in directories.items() if companions.can_be_one_release(held)
    }
    everywhere = Everywhere(
        [
            PlacedObject(name, _folder(name), document.object)
            for name, manifests in inputs
            for document in manifests.documents
        ]
    )
    sources = []
    for name, manifests in inputs:
        file_companions = releases.get(Path(name).parent) if name != "-" else None
        objects = tuple(document.object for document in manifests.documents)
        file_companions = replace(file_companions or Companions(objects), around=everywhere.snapshot)
        maps, texts = everywhere.config_maps(_folder(name), objects, file_companions.config_maps)
        notes = (*manifests.notes, *(manifest.Note(name, None, text) for text in texts))
        facts = replace(known, companions=file_companions, config_maps=maps)
        sources.append(ManifestFile(name, manifests._replace(notes=notes), facts, patches.get(name, ())))
    if sources and everywhere.contradictions:
        first = sources[0]
        notes = tuple(manifest.Note("input", None, contradiction) for contradiction in everywhere.contradictions)
        sources[0] = first._replace(manifests=first.manifests._replace(notes=(*first.manifests.notes, *notes)))
    return sources, errors


def _is_project(name: str) -> bool:
    """The project file, which holds no objects."""
    return Path(name).name == "podfit.yaml" and not _OURS.search(encoding.decode(Path(name).read_bytes(), "replace"))


def _folder(name: str) -> str:
    return str(Path(name).parent)


def add_models(parser: argparse.ArgumentParser) -> None:
    """Register `--models DIR`."""
    parser.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="models that the catalog does not know: DIR/ORG--NAME.json or DIR/ORG/NAME/config.json, with the "
        "safetensors index in the same folder (docs/models.md)",
    )


def models(folder: Path) -> dict[str, GivenModel]:
    """Name → model, of a folder, a checkpoint or a mounted ConfigMap; raises UnusableError with what is unreadable."""
    if not folder.is_dir():
        raise UnusableError(f"--models {folder}: no such folder", 3)
    try:
        os.scandir(folder).close()  # a pattern finds nothing in a folder that can't be read, and says nothing
    except OSError as error:
        raise UnusableError(f"--models {folder}: {reason(error)}", 3) from error
    entries = {}
    for path in sorted(folder.rglob("*.json")):
        place = path.relative_to(folder)
        if _hidden(place) or not path.is_file():  # a mounted ConfigMap's own bookkeeping
            continue
        if given.is_read(place.as_posix(), beside_config=(path.parent / given.CONFIG).exists()):
            entries[place.as_posix()] = read_text(path)
    given_models, errors = given.read(entries, str(folder), (str(folder), folder.resolve().name))
    if errors:
        raise UnusableError(errors, 3)
    return given_models


def facts(args: argparse.Namespace) -> Facts:
    """The facts given on the command line over the built-in ones."""
    folder = getattr(args, "models", None)
    local_facts = Facts(
        gpu=accelerator(getattr(args, "gpu", None)),
        plans_table=True,
        show_secrets=getattr(args, "show_secrets", False),
    )
    return replace(local_facts, models=models(folder), given_measured=measured(folder)) if folder else local_facts


def webhook_facts(args: argparse.Namespace) -> Facts:
    """The facts of a webhook, as `facts` reads them; while an API server waits, no container is planned for every GPU
    of the table."""
    return replace(facts(args), plans_table=False)


def measured(folder: Path) -> tuple[prints.MeasuredStart, ...]:
    """The measured starts in the folder's `*.measured.json`; raises UnusableError with the unreadable files."""
    measured_starts: tuple[prints.MeasuredStart, ...] = ()
    errors: list[str] = []
    for path in sorted(folder.rglob(f"*{prints.ENDING}")):
        if not _hidden(path.relative_to(folder)):
            rows, problems = prints.read(read_text(path), str(path))
            measured_starts, errors = measured_starts + rows, errors + problems
    if errors:
        raise UnusableError(errors, 3)
    return measured_starts


def with_config_maps(known: Facts, documents: Iterable[manifest.Document]) -> tuple[Facts, list[str]]:
    """The facts with the models and measurements of labeled ConfigMaps among the documents, and errors in these."""
    entries: dict[str, GivenModel] = {}
    printed: tuple[prints.MeasuredStart, ...] = ()
    errors: list[str] = []
    for document in documents:
        taught, problems = given.of_config_map(document.object)
        entries.update(taught)
        printed += prints.of_config_map(document.object)[0]
        errors += problems
    if entries or printed:
        models = given.joined(known.models, entries)
        known = replace(known, models=models, given_measured=(*printed, *known.given_measured))
    return known, errors
