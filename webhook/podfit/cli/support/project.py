"""The project file `podfit.yaml`: a repository's own defaults for the options of commands that evaluate."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
    path = _project_file(args)
    if path is None:
        return None
    project = _read(path)
    folder = path.parent
    args.policy = args.policy or [policies.relative_to(folder, name) for name in project.policies]
    nodes_are_given = with_nodes and args.nodes
    if with_gpu and not nodes_are_given:
        args.gpu = args.gpu or project.gpu
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


def _project_file(args: argparse.Namespace) -> Path | None:
    """The project file that the command reads: `--config`'s, else the nearest one. None with `--no-config`, if there is
    none, or if the folder of `--config` has none."""
    if args.no_config:
        return None
    if args.config is None:
        return nearest_file(Path.cwd())
    return _in(args.config) if args.config.is_dir() else Path(args.config)


def announce(path: Path | None) -> None:
    """Print a note with the project file's path on standard error; nothing for None."""
    if path is not None:
        edge.tell(f"note: project file {path}")


def _formats(args: argparse.Namespace, project: Project, path: Path) -> list[object] | None:
    """The outputs of the project's `formats`, as `--format` parses them; None if it sets none. Raises UnusableError
    with the line of the file."""
    try:
        return [args.formats(output) for output in project.formats] or None
    except argparse.ArgumentTypeError as error:
        read = manifest.read(edge.read_text(path).encode(), str(path))
        line = read.documents[0].line_of(FieldPath(("formats",)))
        raise edge.UnusableError(f"{path}:{line}: formats: {error}") from error


def _in(folder: Path) -> Path | None:
    """The project file directly in a folder; None if it has none."""
    path = folder / NAME
    return path if path.is_file() and not _is_object(path) else None


def nearest_file(start: Path) -> Path | None:
    """The nearest project file; outside a repository and the home directory only the working directory counts."""
    for folder in _upwards(start):
        if (path := _in(folder)) is not None:
            return path
    return None


def _upwards(start: Path) -> Iterator[Path]:
    """The folder and its parents up to the repository's root or the home folder; it alone if neither is above."""
    home = Path.home()
    folders = [start, *start.parents]
    topmost = next((folder for folder in folders if (folder / ".git").exists() or folder == home), start)
    yield from folders[: folders.index(topmost) + 1]


def _is_object(path: Path) -> bool:
    """True if the file only has the name of a project file: it is a Kubernetes object or a policy."""
    documents = manifest.read(path.read_bytes(), str(path)).documents
    return any(not {"apiVersion", "kind", "rules"}.isdisjoint(document.object) for document in documents)


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
        problems = list(_value_problems(project, path.parent))
    except ValidationError as error:
        problems = [_Problem(FieldPath(detail["loc"]), described(detail)) for detail in error.errors()]
    if problems:
        lines = sorted((document.line_of(problem.field), str(problem)) for problem in problems)
        raise edge.UnusableError([f"{path}:{line}: {problem}" for line, problem in lines])
    return project


class _Problem(NamedTuple):
    """A field of a project file that can't be used."""

    field: FieldPath
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


def _value_problems(project: Project, folder: Path) -> Iterator[_Problem]:
    """The fields whose values their options would reject. `folder`: that of the project file."""
    if project.gpu is not None:
        try:
            gpu.parse(project.gpu)
        except ValueError as error:
            yield _Problem(FieldPath(("gpu",)), f"not a valid GPU ({project.gpu!r}): {error}")
    if project.nodes is not None:
        field = FieldPath(("nodes",))
        if project.gpu is not None:
            yield _Problem(field, "gpu and nodes exclude each other: gpu names a GPU, nodes offers a choice")
        if project.nodes != fleet.CLUSTER and not (folder / project.nodes).is_file():
            yield _Problem(field, f"no such file ({project.nodes!r})")
    for name in project.policies:
        if reason := _policy_problem(name, folder):
            yield _Problem(FieldPath(("policies",)), reason)
    if project.models is not None and not (folder / project.models).is_dir():
        yield _Problem(FieldPath(("models",)), f"no such folder ({project.models!r})")


def _policy_problem(name: str, folder: Path) -> str | None:
    """The reason why a policy of a project file can't be read; None if it is shipped, or a file or a folder."""
    policy = policies.relative_to(folder, name)
    if policy in policies.SHIPPED or Path(policy).is_file() or Path(policy).is_dir():
        return None
    if Path(policy).exists():
        return f"not a regular file ({name!r})"  # a pipe would block the editor
    near = next(iter(nearest(name, policies.SHIPPED)), None)
    hint = f". Did you mean {near}?" if near else ""
    return f"no such file or directory ({name!r}){hint}"


def _exclude(folder: Path, patterns: list[str]) -> Callable[[str], bool]:
    """A predicate for the name of a found file: True if the project file excludes it. Patterns match its path below the
    project's folder, else below the working directory, else the absolute one."""
    roots = (folder.resolve(), Path.cwd())

    def excluded(name: str) -> bool:
        """True if a pattern matches the file's path, or a folder above it, from the root that contains it."""
        path = Path(name).resolve()
        root = next((root for root in roots if path.is_relative_to(root)), None)
        relative = (path.relative_to(root) if root else path).as_posix()
        return any(fnmatch(relative, pattern) or fnmatch(relative, f"{pattern.rstrip('/')}/*") for pattern in patterns)

    return excluded
