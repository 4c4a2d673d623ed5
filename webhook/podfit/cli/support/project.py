"""The project file `podfit.yaml`: a repository's own defaults for the options of commands that evaluate."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.base.near import nearest
from podfit.cli.support import edge, fleet, policies
from podfit.kube import manifest
from podfit.kube.path import FieldPath
from podfit.vllm import gpu

if TYPE_CHECKING:
    from podfit.cli.support.project_model import Project

NAME = "podfit.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--config FILE` and `--no-config`."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--config",
        type=Path,
        metavar="FILE|DIR",
        help=f"the project file, or the folder of {NAME}; default: {NAME} here or above, up to the repository's "
        "root or the home directory",
    )
    group.add_argument("--no-config", action="store_true", help="read no project file")


def apply(args: argparse.Namespace, *, with_gpu: bool = True, with_nodes: bool = False) -> Path | None:
    """Fills options that are not given from the project file, and returns its path; None if there is none.

    Paths in it are relative to its folder. `with_gpu`, `with_nodes`: also the GPU, also the nodes. An option for one of
    these two replaces both fields. Raises UnusableError with file, field and reason.
    """
    args.exclude = None
    path = None if args.no_config else _chosen(args.config) if args.config else nearest_file(Path.cwd())
    if path is None:
        return None
    project = _read(path)
    folder = path.parent
    args.policy = args.policy or [policies.relative_to(folder, name) for name in project.policies]
    if not (with_nodes and args.nodes):
        args.gpu = args.gpu or (project.gpu if with_gpu else None)
    if with_nodes and project.nodes and not args.gpu:
        args.nodes = args.nodes or fleet.relative_to(folder, project.nodes)
    args.models = args.models or (folder / project.models if project.models else None)
    if "hf_cache" in args and args.hf_cache is None:
        args.hf_cache = project.hf_cache
    if "baseline" in args:
        args.baseline = args.baseline or (folder / project.baseline if project.baseline else None)
    if "fail_on" in args:
        args.format = args.format or _formats(args, project, path)
        args.fail_on = args.fail_on or project.fail_on
        args.docs_url = args.docs_url or project.docs_url
    args.exclude = _exclude(folder, project.exclude)
    return path


def announce(path: Path | None) -> None:
    """Names the file on standard error."""
    if path is not None:
        edge.tell(f"note: project file {path}")


def _formats(args: argparse.Namespace, project: Project, path: Path) -> list[object] | None:
    """The parsed `formats`, None without any; raises UnusableError with the line of the file."""
    try:
        return [args.formats(output) for output in project.formats] or None
    except argparse.ArgumentTypeError as error:
        read = manifest.read(edge.read_text(path).encode(), str(path))
        line = read.documents[0].line_of(FieldPath(("formats",)))
        raise edge.UnusableError(f"{path}:{line}: formats: {error}") from error


def _chosen(path: Path) -> Path | None:
    """The file of `--config`; of a folder its project file, None if it has none."""
    return _in(path) if path.is_dir() else path


def _in(folder: Path) -> Path | None:
    path = folder / NAME
    return path if path.is_file() and not _is_object(path) else None


def nearest_file(start: Path) -> Path | None:
    """The nearest project file; outside a repository and the home directory only the working directory counts."""
    return next((path for folder in _upwards(start) if (path := _in(folder)) is not None), None)


def _upwards(start: Path) -> Iterator[Path]:
    """The folder and its parents up to the repository's root or the home folder; it alone if neither is above."""
    home = Path.home()
    folders = [start, *start.parents]
    last = next((path for path in folders if (path / ".git").exists() or path == home), start)
    yield from folders[: folders.index(last) + 1]


def _is_object(path: Path) -> bool:
    """A Kubernetes object or a policy with the name of a project file, which is not a project file."""
    documents = manifest.read(path.read_bytes(), str(path)).documents
    return any(key in document.object for document in documents for key in ("apiVersion", "kind", "rules"))


def _read(path: Path) -> Project:
    """The project file, with defaults if it is empty; raises UnusableError with a line for each problem."""
    from pydantic import ValidationError  # only a project file needs it, and a start would wait for it

    from podfit.cli.support.project_model import Project, described

    read = manifest.read(edge.read_text(path).encode(), str(path))
    if read.errors:
        raise edge.UnusableError([str(error) for error in read.errors])
    if len(read.documents) > 1:
        raise edge.UnusableError(f"{path}: expected one document, found {len(read.documents)}")
    if not read.documents:
        return Project()
    (document,) = read.documents
    try:
        project = Project.model_validate(dict(document.object))
        problems = [(FieldPath((field,)), reason) for field, reason in _values(project, path.parent)]
    except ValidationError as error:
        problems = [(FieldPath(detail["loc"]), described(detail)) for detail in error.errors()]
    if problems:
        lines = sorted((document.line_of(place), f"{place}: {reason}") for place, reason in problems)
        raise edge.UnusableError([f"{path}:{line}: {reason}" for line, reason in lines])
    return project


def _values(project: Project, folder: Path) -> Iterator[tuple[str, str]]:
    """The fields whose values their options would reject, each with the reason."""
    if project.gpu is not None:
        try:
            gpu.parse(project.gpu)
        except ValueError as error:
            yield "gpu", f"not a valid GPU ({project.gpu!r}): {error}"
    if project.nodes is not None:
        if project.gpu is not None:
            yield "nodes", "gpu and nodes exclude each other: gpu names a GPU, nodes offers a choice"
        if project.nodes != fleet.CLUSTER and not (folder / project.nodes).is_file():
            yield "nodes", f"no such file ({project.nodes!r})"
    for name in project.policies:
        policy_name = policies.relative_to(folder, name)
        if policy_name not in policies.SHIPPED and not Path(policy_name).exists():
            near = next(iter(nearest(name, policies.SHIPPED)), None)
            yield "policies", f"no such file or directory ({name!r}){f'. Did you mean {near}?' if near else ''}"
        elif policy_name not in policies.SHIPPED and not (Path(policy_name).is_file() or Path(policy_name).is_dir()):
            yield "policies", f"not a regular file ({name!r})"  # a pipe would block the editor
    if project.models is not None and not (folder / project.models).is_dir():
        yield "models", f"no such folder ({project.models!r})"


def _exclude(folder: Path, patterns: list[str]) -> Callable[[str], bool]:
    """True if a found file is excluded: by its path below the project's folder, else below the working directory."""
    roots = (folder.resolve(), Path.cwd())

    def excluded(name: str) -> bool:
        """True if a pattern matches the file's path, or a folder above it, from the root that contains it."""
        path = Path(name).resolve()
        root = next((other_path for other_path in roots if path.is_relative_to(other_path)), None)
        place = (path.relative_to(root) if root else path).as_posix()
        return any(fnmatch(place, pattern) or fnmatch(place, f"{pattern.rstrip('/')}/*") for pattern in patterns)

    return excluded
