"""The house keeps its order: who may import whom, and where input and output may happen."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import podfit
from podfit.cli import COMMANDS

PACKAGE = Path(podfit.__file__).parent
ORDER = ["base", "kube", "vllm", "rules", "evaluation", "diagnose", "generate", "report", "cluster", "server", "ui",
         "mcp", "lsp", "cli"]  # fmt: skip
"""docs/design.md, "The packages": a package imports only packages before it, and itself."""
IO_MODULES = {
    "os", "sys", "subprocess", "socket", "ssl", "logging", "time", "random", "tempfile", "threading", "urllib",
    "http", "pathlib", "shutil", "select", "selectors", "asyncio", "a2wsgi", "cryptography", "flask", "gunicorn",
    "httptools", "kubernetes", "prometheus_client", "urllib3", "uvicorn", "uvloop",
}  # fmt: skip
IO_CALLS = {"open", "print", "input", "exec", "eval"}


def _package(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


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
def test_a_package_imports_only_packages_before_it(path: Path) -> None:
    before = ORDER[: ORDER.index(_package(path)) + 1]

    later = {
        name
        for name in _imports(path)
        if name.startswith("podfit.") and name.split(".")[1] not in (*before, "__version__")
    }

    assert not later


@pytest.mark.parametrize(
    "path",
    [path for path in _modules() if _package(path) not in {"cluster", "server", "ui", "mcp", "lsp", "cli"}],
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


ROOT = PACKAGE.parents[1]


def test_the_design_lists_these_packages_in_this_order() -> None:
    text = (ROOT / "docs" / "design.md").read_text()

    assert re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE) == ORDER
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} == set(ORDER)


def test_the_design_is_short_enough_to_read_first() -> None:
    assert len((ROOT / "docs" / "design.md").read_text().split()) <= 1500


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/design.md"])
def test_the_paths_that_a_newcomer_is_sent_to_exist(name: str) -> None:
    """`ID` stands for the name of any rule, cause or line."""
    text = (ROOT / name).read_text()
    paths = set(re.findall(r"`((?:webhook|tests|scripts|charts|docs|benchmarks)/[\w./-]+)`", text))

    assert len(paths) > 5
    assert not {path for path in paths if not any(ROOT.glob(path.rstrip("/").replace("ID", "*")))}


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_private_name_crosses_a_package(path: Path) -> None:
    """A name that begins with an underscore belongs to its package."""
    here = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1])

    private = {
        name
        for name in _imports(path)
        if name.startswith("podfit.")
        and any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
        and not name.startswith(f"{here}.")
        and not here.startswith(re.split(r"\._(?!_)", name)[0])
    }

    assert not private


def test_the_wheel_has_one_top_level_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        folders = {name.split("/")[0] for name in archive.namelist()}

    assert {name for name in folders if not name.startswith("podfit-")} == {"podfit"}


def test_each_module_of_cli_is_a_command() -> None:
    """What commands share is in `cli/support/`."""
    modules = {path.stem for path in (PACKAGE / "cli").glob("*.py")} - {"__init__", "__main__"}

    assert modules == set(COMMANDS)


LONG = {
    "rules/engine.py": "what rules see of a container, each a short property",
    "rules/command_line/_combinations.py": "a table of checks",
    "rules/command_line/invalid_flag_value.py": "a table of checks",
    "server/doctor.py": "a list of independent checks, each a function",
    "vllm/command/entry.py": "a table of programs that start vLLM",
    "vllm/command/script.py": "one walk through a shell's grammar",
    "vllm/command/start.py": "one walk from a container's words to the server",
    "vllm/gpu/labels.py": "a table of label keys and what they say",
    "vllm/memory/activations.py": "one line of the ledger",
    "vllm/memory/kv_specs.py": "one layer type after the other, as in vLLM's kv_cache_interface.py",
    "vllm/memory/solve.py": "one kind of change after the other",
    "vllm/memory/shape.py": "one kind of layer after the other, as in vLLM's modules",
    "vllm/memory/settings.py": "one table of what an engine's arguments become",
    "vllm/memory/weights.py": "one line of the ledger",
}
"""Modules of more than 400 lines, and why each is not split."""


def test_a_module_is_short_or_says_why_not() -> None:
    long = {str(path.relative_to(PACKAGE)) for path in _modules() if len(path.read_text().splitlines()) > 400}

    assert long == LONG.keys()


NOT_FOR_A_CHECK = {
    # libraries that serve, draw, sign, or read policies and scripts
    "a2wsgi", "asyncio", "concurrent", "cryptography", "flask", "gunicorn", "httptools", "huggingface_hub",
    "jsonpatch", "kubernetes", "matplotlib", "prometheus_client", "pydantic", "requests", "shtab", "tree_sitter",
    "urllib3", "uvicorn", "uvloop",
    # parts of Python that cost milliseconds
    "difflib", "email", "hashlib", "http", "importlib.resources", "logging", "multiprocessing", "shutil", "socket",
    "ssl", "subprocess", "tempfile", "threading", "unittest",
    # packages and modules of other commands
    "podfit.cluster", "podfit.diagnose", "podfit.generate", "podfit.server", "podfit.evaluation.compare",
    "podfit.evaluation.policy.shape", "podfit.evaluation.rehearsal", "podfit.evaluation.repair",
    "podfit.evaluation.review", "podfit.evaluation.scan", "podfit.vllm.command.script", "podfit.vllm.memory.sweep",
}  # fmt: skip
"""What a start need not wait for where one plain manifest is checked: imported where it is used."""


def _imported(*words: str) -> set[str]:
    """Every module that a command imports."""
    script = (
        f"import sys; sys.path += {[path for path in sys.path if path]!r}; from podfit.cli import main; "
        f"code = main({list(words)!r}); print(); print(*sys.modules); sys.exit(code)"
    )
    # -S: what this machine's site-packages import at every start is not podfit's.
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_a_plain_check_imports_only_what_it_needs() -> None:
    imported = _imported("check", str(ROOT / "examples" / "good.yaml"))

    assert "podfit.cli.check" in imported
    assert not {name for name in NOT_FOR_A_CHECK if any(f"{one}.".startswith(f"{name}.") for one in imported)}


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--gpu", "l4", "--", "vllm", "serve", "Qwen/Qwen2.5-7B-Instruct"),
        ("plan", "Qwen/Qwen2.5-7B-Instruct"),
        ("explain", "unknown-flag"),
    ],
)
def test_a_command_without_a_cluster_or_a_manifest_does_not_import_what_reads_them(words: tuple[str, ...]) -> None:
    imported = _imported(*words)

    assert f"podfit.cli.{words[0]}" in imported
    assert not {"kubernetes", "podfit.cluster", "yaml"} & imported


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Also not by imports inside functions. Names for annotations alone are left out."""
    names = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in _modules()}
    modules = {path: name.removesuffix(".__init__") for path, name in names.items()}
    known = set(modules.values())
    imports = dict[str, set[str]]()
    for path, name in modules.items():
        imported = _imports(path)
        parents = {one.rpartition(".")[0] for one in imported}  # `from a import b` names a, and b of a
        named = imported - parents
        imports[name] = {one if one in known else one.rpartition(".")[0] for one in named} & known - {name}

    assert sum(map(len, imports.values())) > 1000
    assert [*TopologicalSorter(imports).static_order()], "raises CycleError if there is a circle"
