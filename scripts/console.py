"""Console blocks of pages: the files of a page are written, its commands run, and what they print goes into the page.

`make docs` writes the output, `make lint` fails if it differs, and `make package` runs the tutorial's commands with the
installed wheel. `kubectl apply` needs a cluster: tests/e2e/test_tutorial.py types the tutorial's. A block with any
other command of kubectl stays as it is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = (TUTORIAL, ROOT / "docs" / "models.md", ROOT / "docs" / "policies.md")
"""Pages whose output is generated; what others show needs a cluster."""
_BLOCK = re.compile(r"(?P<before>[^\n]*\n\n)```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVED = re.compile(r"`([\w.-]+)`[^`]*:\n\n$")
"""The line above a file's block: it ends with the name and a colon."""
_CLUSTER = re.compile(r"kubectl (?!apply -f \w[\w.-]*$)")


def rendered(page: str, apply: Callable[[Path], str] | None = None) -> str:
    """The page with what this environment's podfit prints; `apply` applies a file (default: the webhook's function)."""
    return _typed(page, Path(sys.executable).parent, apply or _applied)


def differences(page: str, programs: Path) -> Iterator[str]:
    """Each command of the page whose output with the podfit in `programs` is not the page's; kubectl is left out."""
    there = _typed(page, programs, None)
    for expected, block in zip(_BLOCK.finditer(page), _BLOCK.finditer(there), strict=True):
        if expected["body"] != block["body"]:
            yield f"the tutorial's block\n{expected['body']}is printed as\n{block['body']}"


def _typed(page: str, programs: Path, apply: Callable[[Path], str] | None) -> str:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for shipped in ("examples", "policies"):
            (folder / shipped).symlink_to(ROOT / shipped)

        def block(match: re.Match[str]) -> str:
            saved = _SAVED.search(match["before"])
            if saved:
                (folder / saved[1]).write_text(match["body"])
            lines = _commands(match["body"])
            kubectl = any(_CLUSTER.search(line) or (apply is None and "kubectl" in line) for line in lines)
            if match["language"] != "console" or kubectl:
                return match[0]
            body = "".join(f"$ {line}\n{_output(line, folder, programs, apply)}" for line in lines)
            return match[0].replace(match["body"], body)

        return _BLOCK.sub(block, page)


def _commands(body: str) -> list[str]:
    return [line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")]


def _output(line: str, folder: Path, programs: Path, apply: Callable[[Path], str] | None) -> str:
    if line.startswith("kubectl apply -f "):
        return "" if apply is None else apply(folder / line.removeprefix("kubectl apply -f "))
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.stdout


def _applied(path: Path) -> str:
    """What kubectl prints of one Deployment of the tutorial, behind podfit's webhook with the default policy."""
    import yaml

    from podfit.evaluation import review
    from podfit.evaluation.policy import builtin
    from podfit.vllm.facts import Facts

    read = yaml.safe_load(path.read_text())
    name, kind = read["metadata"]["name"], {"group": "apps", "version": "v1", "kind": read["kind"]}
    request = {
        "uid": name,
        "kind": kind,
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "name": name,
        "namespace": read["metadata"]["namespace"],
        "operation": "CREATE",
        "object": read,
    }
    sent = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    response = review.validate(review.parse(json.dumps(sent).encode()), builtin(), Facts())["response"]
    warnings = "".join(f"Warning: {line}\n" for line in response.get("warnings", ()))
    if response["allowed"]:
        return f"{warnings}deployment.apps/{name} created\n"
    return (
        f'{warnings}Error from server (Forbidden): error when creating "{path.name}": admission webhook '
        f'"workloads.podfit.dev" denied the request: {response["status"]["message"]}\n'
    )
