"""Policies named on a command line: a file, a folder of files, or one that podfit ships, by its name."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import podfit
from podfit.base.near import nearest
from podfit.cli.support import edge, fleet, hub_cache
from podfit.evaluation.policy import Policy, PolicyError, builtin, is_schema
from podfit.evaluation.policy import load as load_texts
from podfit.vllm.facts import Facts

SHIPPED = ("autofix", "default", "observe", "performance-parameters", "safe-parameters", "shared-gpu", "strict")
"""The files of `policies/`, which the wheel has in `podfit/data/policies/`."""
CLUSTER = "cluster"
"""The word of `--policy` for the policy in force in the cluster. `./cluster` is a file or a folder."""
_NAMES = ", ".join(SHIPPED)
_PACKAGE = Path(podfit.__file__).parent
_FOLDERS = _PACKAGE / "data" / "policies", _PACKAGE.parents[1] / "policies"
"""Where the files are: in an installed package, and in a checkout."""


def add_argument(parser: argparse.ArgumentParser, *, cluster: bool = False) -> None:
    """`--policy FILE|DIR|NAME`, several times. `cluster`: also the policy in force in the cluster."""
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar=f"FILE|DIR|NAME{'|cluster' if cluster else ''}",
        help="a policy file, a folder of them, or the name of one of podfit's policies, such as strict. `podfit policy "
        "show` lists the names. Several apply in their order"
        + (
            ". `cluster` is the policy in force in the cluster: the installed podfit's, and the Policy objects"
            if cluster
            else ""
        ),
    )


def in_force(args: argparse.Namespace) -> tuple[Policy, Facts]:
    """The policy of --policy, and the facts of the options, --nodes among them.

    Raises UnusableError, also if the cluster's policy is unknown."""
    facts = hub_cache.added(fleet.added(edge.facts(args), args), args)
    if CLUSTER not in args.policy:
        return load(args.policy), facts
    from podfit.cli.support import cluster_policy  # a check without a cluster need not wait for its client

    return cluster_policy.read(args, files(args.policy)), facts


def load(names: Sequence[str], option: str = "--policy ") -> Policy:
    """The policies over the default; raises UnusableError with each problem's file, line and path.

    `option`: the option before a name on the command line."""
    if not names:
        return builtin()
    if CLUSTER in names:
        raise edge.UnusableError(
            f"{option}{CLUSTER}: only check, diff, explain, fix and scan take the cluster's policy"
        )
    for name in names:
        if not path(name).exists():
            unknown(name, option)
    try:
        return load_texts(texts(names)).at(edge.now())
    except PolicyError as error:
        raise edge.UnusableError(error.problems) from error


def files(names: Sequence[str]) -> list[tuple[str, str]]:
    """Name and text of each file next to the cluster's policy; raises UnusableError as `load`."""
    others = [name for name in names if name != CLUSTER]
    load(others)
    return texts(others)


def unknown(name: str, option: str) -> NoReturn:
    """Raises UnusableError for a name that is neither a file nor a shipped policy. A slash or a dot in it means that it
    is a file's. `option`: the text before the name in the message, empty for a positional argument."""
    near = nearest(name, SHIPPED)
    if "/" in name or "." in name:
        raise edge.UnusableError(f"{option}{name}: no such file or directory", 3)
    hint = f"Did you mean {near[0]}?" if near else f"Allowed: {_NAMES}"
    raise edge.UnusableError(f"{option}{name}: not a shipped policy, and no such file or directory. {hint}")


def shipped_text(name: str) -> str:
    """The YAML of a shipped policy."""
    return edge.read_text(_shipped(name))


def title(name: str) -> str:
    """The first sentence of a shipped policy's comment."""
    comment = " ".join(line[1:].strip() for line in shipped_text(name).splitlines() if line.startswith("#"))
    return comment.partition(". ")[0].rstrip(".")


def path(name: str) -> Path:
    """The file or folder: a path that exists, else a shipped policy of this name."""
    file_path = Path(name)
    return _shipped(name) if name in SHIPPED and not file_path.exists() else file_path


def _shipped(name: str) -> Path:
    """The file of a shipped policy: of the first of _FOLDERS that is there."""
    folder = next((path for path in _FOLDERS if path.is_dir()), _FOLDERS[0])
    return folder / f"{name}.yaml"


def relative_to(folder: Path, name: str) -> str:
    """A name in a file of `folder`: a path relative to it, or the name of a shipped policy if there is no such path."""
    full_path = folder / name
    return name if name in SHIPPED and not full_path.exists() else str(full_path)


def texts(names: Iterable[str]) -> list[tuple[str, str]]:
    """Name and text of each file, those of folders included; a schema in a folder is left out."""
    return [(name, edge.read_text(path)) for name, path in _files(names)]


def _files(names: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """(name for messages, path) of each policy: a folder's YAML files without hidden ones and schemas."""
    for name in names:
        policy_path = path(name)
        if not policy_path.is_dir():
            yield name, policy_path
            continue
        for file in sorted(policy_path.iterdir()):
            is_policy = file.suffix in edge.MANIFEST_SUFFIXES and file.is_file() and not file.name.startswith(".")
            if is_policy and not is_schema(edge.read_text(file)):
                yield str(file), file
