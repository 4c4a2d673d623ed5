"""One comment on a pull request with what it changes: the GitHub Action's second step.

Compares the base with the checkout as `podfit diff` does, and makes, updates or leaves alone the one comment that has
the marker and the token's own author. Without changes, a comment of before says so, and none is made. A token that
can't write (forks, Dependabot) leaves the text in the step summary. The program needs nothing but Python and podfit.

Usage: comment.py BASE FILE…, in the checkout, with the variables of a runner and TOKEN.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from podfit import cli
from podfit.base.printable import one_line
from podfit.cli import diff
from podfit.cli.support import edge
from podfit.evaluation.compare import ContainerComparison
from podfit.kube import kustomize, manifest
from podfit.kube.manifest import encoding
from podfit.report import comparison
from podfit.report.markdown import code

MARKER = "<!-- podfit diff -->"
MAX_BYTES = 60_000
"""GitHub rejects a comment of more than 65,536 characters."""
NOTHING = "podfit: this pull request changes nothing about vLLM containers any more."
PAGES, PER_PAGE = 30, 100
"""Comments that are looked through."""


def main() -> int:
    """0 also if no comment can be written: the step reports, and never fails a pull request by itself."""
    base, *names = sys.argv[1:]
    text = changes(base, names)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if text and summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(text)
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event.get("pull_request", {}).get("number")
    if not isinstance(number, int):
        return 0
    try:
        publish(number, text)
    except (OSError, http.client.HTTPException, ValueError) as error:  # also an answer that is cut off, or no JSON
        reason = f"{error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        print(f"::notice::podfit: the comment can't be written ({reason}); the step summary has it")
    return 0


def changes(base: str, names: Sequence[str]) -> str:
    """What changes, as Markdown of bounded length; "" if nothing does."""
    inside = [*dict.fromkeys(name for name in map(inside_checkout, names) if name is not None)]
    old = diff.Folder(present([str(Path(base) / name) for name in inside]), base)
    new = diff.Folder(present(inside), ".")
    try:
        args = cli.parser(["diff"]).parse_args(["diff", "--config", base, os.devnull, os.devnull])
        compared = diff.compared_folders(args, old, new)
    except edge.UnusableError as error:  # such as a podfit.yaml of the base branch that is not valid
        print("".join(f"::warning::podfit: {one_line(line)}\n" for line in error.lines), end="")
        return "podfit: the pull request can't be compared with the base branch; the log has the reason.\n"
    known = [change for change in compared.changes if not is_doubtful(change, compared.unread)]
    unread = [file for file in sorted(compared.unread) if not same_file(Path(base) / file, Path(file))]
    blocks = [*replaced_images(base, inside)]
    blocks += [f"podfit: {code(file)} can't be compared with the base branch.\n" for file in unread]
    if any(change.state != "unchanged" for change in known):
        blocks.append(comparison.render_markdown(known))
    return bounded("\n".join(blocks))


def replaced_images(base: str, names: Sequence[str]) -> Iterator[str]:
    """A line per kustomization that puts another image of vLLM into its resources than in the base: only rendered
    manifests have it."""
    for file in edge.files(present(names)):
        if Path(file).name in kustomize.KUSTOMIZATION_FILES:
            before, images = images_of(Path(base) / file), images_of(Path(file))
            if images and images != before:
                shown = ", ".join(map(code, images))
                yield (
                    f"podfit: {code(file)} now puts {shown} into its resources. Only what `kustomize build` prints for "
                    "both branches shows what that changes: compare it with `podfit diff`.\n"
                )


def images_of(path: Path) -> tuple[str, ...]:
    """The images of vLLM that a kustomization sets; none if it can't be read."""
    try:
        tree = manifest.load(encoding.decode(path.read_bytes()))
    except (OSError, ValueError, yaml.YAMLError):
        return ()
    return kustomize.replaced_images(tree) if isinstance(tree, dict) else ()


def inside_checkout(name: str) -> str | None:
    """The name relative to the checkout, which is the working directory; None if it is outside."""
    for path, folder in ((name, Path.cwd()), (os.path.realpath(name), Path.cwd().resolve())):
        relative = os.path.relpath(path, folder)
        if relative != os.pardir and not relative.startswith(os.pardir + os.sep):
            return relative
    print(f"::notice::podfit: {one_line(name)} is outside of the checkout, and is not compared")
    return None


def present(names: Sequence[str]) -> list[str]:
    """The files, folders and patterns where a manifest is."""
    return [name for name in names if has_manifest(name)]


def has_manifest(name: str) -> bool:
    """A file, folder or pattern stands for a file that is there."""
    try:
        return any(Path(file).exists() for file in edge.files([name]))
    except edge.UnusableError:
        return False


def is_doubtful(change: ContainerComparison, unread: Collection[str]) -> bool:
    """A container that is on one side only, since its file can't be read on the other one."""
    return change.state in ("added", "removed") and change.side.file in unread


def same_file(before: Path, after: Path) -> bool:
    """The pull request leaves the file as it is."""
    try:
        return before.read_bytes() == after.read_bytes()
    except OSError:
        return False


def bounded(text: str) -> str:
    """The text, cut at the end of a line if it is too long for a comment."""
    data = text.encode(errors="replace")
    if len(data) <= MAX_BYTES:
        return text
    kept = data[:MAX_BYTES].decode(errors="ignore").rpartition("\n")[0]
    return f"{kept}\n\n… and more: `podfit diff` shows all of it.\n"


def publish(number: int, text: str) -> None:
    """Make or update the comment."""
    own = find(number)
    if own is None and not text:
        return
    body = {"body": f"{MARKER}\n{text or NOTHING}"}
    if own is None:
        request("POST", f"issues/{number}/comments", body)
    elif own["body"] != body["body"]:
        request("PATCH", f"issues/comments/{own['id']}", body)


def find(number: int) -> dict[str, Any] | None:
    """The comment that this Action made: it begins with the marker, and a bot wrote it. Anyone can write a marker."""
    for page in range(1, PAGES + 1):
        found = request("GET", f"issues/{number}/comments?per_page={PER_PAGE}&page={page}")
        for one in found:
            author = one.get("user") or {}
            if str(one.get("body")).startswith(MARKER) and author.get("login") == os.environ["AUTHOR"]:
                return dict(one)
        if len(found) < PER_PAGE:
            return None
    return None


def request(method: str, path: str, body: dict[str, str] | None = None) -> Any:
    """One request to the repository's API."""
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    made = urllib.request.Request(  # noqa: S310 - the runner's own API
        url,
        json.dumps(body).encode() if body is not None else None,
        {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Content-Type": "application/json",
            "User-Agent": "podfit",
        },
        method=method,
    )
    with urllib.request.urlopen(made, timeout=30) as answer:  # noqa: S310
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
