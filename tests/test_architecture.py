"""The house keeps its order: who may import whom, and where input and output may happen."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import webhook

PACKAGE = Path(webhook.__file__).parent
ORDER = [
    {"frozen"},
    {"path", "quantity", "data"},
    {"patch", "secret", "selector", "registration", "revisions"},
    {"snapshot"},
    {"manifest"},
    {"workload", "release"},
    {"command"},
    {"args"},
    {"companions", "measured"},
    {"everywhere"},
    {"facts"},
    {"model"},
    {"gpu", "volumes", "limits"},
    {"group"},
    {"memory"},
    {"rule"},
    {"engine"},
    {"rules"},
    {"glance"},
    {"policy"},
    {"lint"},
    {"repair", "diagnose", "generate", "compare", "scan"},
    {"calibrate"},
    {"report"},
    {"review"},
    {"rehearsal"},
    {"verdicts", "cluster", "live", "readiness", "deadline", "lines"},
    {"accesslog"},
    {"certs"},
    {"doctor"},
    {"metrics", "acceptance"},
    {"reviews"},
    {"app"},
    {"cli"},
]
"""docs/design.md, "The straight line": a room imports only rooms before it, and itself."""
EDGE = {
    "verdicts",
    "certs",
    "doctor",
    "cluster",
    "live",
    "readiness",
    "deadline",
    "lines",
    "accesslog",
    "metrics",
    "acceptance",
    "reviews",
    "app",
    "cli",
}
IO_MODULES = {
    "os", "sys", "subprocess", "socket", "ssl", "logging", "time", "random", "tempfile", "threading", "urllib",
    "http", "pathlib", "flask", "gunicorn", "urllib3", "prometheus_client", "cryptography",
}  # fmt: skip
IO_CALLS = {"open", "print", "input", "exec", "eval"}


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def _imports(path: Path) -> set[str]:
    """Every module named by an import that runs, `TYPE_CHECKING` blocks left out."""
    tree = ast.parse(path.read_text())
    typing_only = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    found = set()
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_before_it(path: Path) -> None:
    level = {room: index for index, rooms in enumerate(ORDER) for room in rooms}
    mine = _room(path)

    later = {
        name
        for name in _imports(path)
        if name.startswith("webhook.")
        and (room := name.split(".")[1]) not in (mine, "__version__")
        and level[room] >= level[mine]
    }

    assert not later


@pytest.mark.parametrize(
    "path",
    [path for path in _modules() if _room(path) not in EDGE | {"data"}],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_the_core_does_no_input_or_output(path: Path) -> None:
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }

    assert not {name.split(".")[0] for name in _imports(path)} & IO_MODULES
    assert not calls & IO_CALLS


def test_the_design_draws_these_rooms_in_this_order() -> None:
    text = (PACKAGE.parent / "docs" / "design.md").read_text()
    drawing = text.partition("```\nwebhook/\n")[2].partition("```")[0]
    names = [line[2:].partition("  ")[0] for line in drawing.splitlines() if re.match(r"  \w", line)]
    drawn = [name.removesuffix("/").removesuffix(".py") for line in names for name in line.split()]
    level = {room: index for index, rooms in enumerate(ORDER) for room in rooms}

    assert sorted(drawn) == sorted(level)
    assert [level[room] for room in drawn] == sorted(level[room] for room in drawn)

    below = drawing.partition("── below this line")[2]
    assert {room for room in drawn if re.search(rf"^  (?:\S+ )*{room}(?:\.py|/)", below, re.MULTILINE)} == EDGE


NOT_FOR_A_CHECK = {
    # libraries that serve, draw, sign, or read policies and scripts
    "asyncio", "concurrent", "cryptography", "flask", "gunicorn", "huggingface_hub", "jsonpatch", "matplotlib",
    "prometheus_client", "pydantic", "shtab", "tree_sitter", "urllib3",
    # parts of Python that cost milliseconds
    "difflib", "email", "hashlib", "http", "importlib.resources", "logging", "multiprocessing", "socket", "ssl",
    "subprocess", "tempfile", "threading", "unittest",
    # rooms of other commands
    "webhook.app", "webhook.calibrate", "webhook.certs", "webhook.cluster", "webhook.command.script", "webhook.compare",
    "webhook.diagnose", "webhook.generate", "webhook.memory.sweep", "webhook.metrics", "webhook.policy.shape",
    "webhook.rehearsal", "webhook.repair", "webhook.review", "webhook.scan",
}  # fmt: skip
"""What a start need not wait for where one plain manifest is checked: imported where it is used."""


def test_a_plain_check_imports_only_what_it_needs() -> None:
    example = str(PACKAGE.parent / "examples" / "good.yaml")
    script = (
        f"import sys; sys.path += {[path for path in sys.path if path]!r}; from webhook.cli import main; "
        f"code = main(['check', {example!r}]); print(*sys.modules); sys.exit(code)"
    )
    # -S: what this machine's site-packages import at every start is no matter of ours.
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    imported = done.stdout.splitlines()[-1].split()

    assert "webhook.cli.check" in imported
    assert not {name for name in NOT_FOR_A_CHECK if any(f"{one}.".startswith(f"{name}.") for one in imported)}
