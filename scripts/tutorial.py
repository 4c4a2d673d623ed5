"""docs/tutorial.md: its files are written, its commands run, and what they print is compared with the page.

`make docs` writes the output into the page, `make lint` fails if it differs, and `make package` runs the same commands
with the installed wheel. `kubectl` needs a cluster: tests/e2e/test_tutorial.py types those lines.
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

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
_BLOCK = re.compile(r"(?P<before>[^\n]*\n\n)```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVED = re.compile(r"`([\w.-]+)`[^`]*:\n\n$")
"""The line above a file's block: it ends with the name and a colon."""


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

        def block(match: re.Match[str]) -> str:
            saved = _SAVED.search(match["before"])
            if saved:
                (folder / saved[1]).write_text(match["body"])
            if match["language"] != "console":
                return match[0]
            body = "".join(f"$ {line}\n{_output(line, folder, programs, apply)}" for line in _commands(match["body"]))
            kubectl = apply is None and "$ kubectl" in match["body"]
            return match[0] if kubectl else match[0].replace(match["body"], body)

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

    from webhook.evaluation import review
    from webhook.evaluation.policy import builtin
    from webhook.vllm.facts import Facts

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
