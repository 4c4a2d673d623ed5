"""`podfit mcp` behind the official client, and behind lines that no client should send."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import CallToolResult, TextContent

from podfit.cli import main
from podfit.mcp.confine import MAX_FILE_BYTES
from podfit.mcp.tools import MAX_OBJECTS, count_objects

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
BAD = "llama-70b-without-shm.yaml"
LOG = "ValueError: Free memory on device (1.2/22.03 GiB) on startup is less than desired GPU memory utilization"
SECONDS = 60
"""After which a test fails instead of waiting for ever."""


def started(root: Path) -> StdioServerParameters:
    """How a client starts the server."""
    args = ["-m", "podfit.cli", "mcp", "--root", str(root)]
    return StdioServerParameters(command=sys.executable, args=args, env=dict(os.environ))


def ask(root: Path, *calls: tuple[str, Mapping[str, Any]]) -> list[CallToolResult]:
    """The answers of one server, in order."""

    async def run() -> list[CallToolResult]:
        with anyio.fail_after(SECONDS):
            async with Client(stdio_client(started(root))) as client:
                return [await client.call_tool(name, dict(arguments)) for name, arguments in calls]

    return anyio.run(run)


def text(answer: CallToolResult) -> str:
    """All text of an answer."""
    return "\n".join(block.text for block in answer.content if isinstance(block, TextContent))


def data(answer: CallToolResult) -> dict[str, Any]:
    """The structured answer."""
    assert not answer.is_error, text(answer)
    assert answer.structured_content is not None
    found: dict[str, Any] = answer.structured_content["data"]
    return found


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Iterator[Path]:
    """A folder of manifests next to one with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.yaml").write_text("word: violet-otter\n")
    (tmp_path / "outside" / "config.json").write_text('{"model_type": "violet-otter"}')
    inside = tmp_path / "inside"
    inside.mkdir()
    for path in EXAMPLES.glob("*.yaml"):
        shutil.copy(path, inside)
    return (yield inside)


def test_each_tool_answers_and_says_what_it_takes(root: Path) -> None:
    async def run() -> dict[str, tuple[bool, bool]]:
        with anyio.fail_after(SECONDS):
            async with Client(stdio_client(started(root))) as client:
                tools = (await client.list_tools()).tools
                return {
                    one.name: (bool(one.annotations and one.annotations.read_only_hint), bool(one.output_schema))
                    for one in tools
                }

    assert anyio.run(run) == dict.fromkeys(("check", "fix", "plan", "explain", "diagnose", "models"), (True, True))


def test_check_finds_what_the_command_finds(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--no-config", "--format", "json", str(root / BAD)])
    printed = json.loads(capsys.readouterr().out)
    expected = [(one["rule"], one["level"], one["message"]) for one in printed["results"][0]["findings"]]

    by_path, by_text = ask(root, ("check", {"path": BAD}), ("check", {"text": (root / BAD).read_text()}))

    for answer in (by_path, by_text):
        (container,) = data(answer)["containers"]
        assert [(one["rule"], one["level"], one["message"]) for one in container["findings"]] == expected
        assert container["denied"]
    assert by_path.structured_content
    assert "1 denied" in by_path.structured_content["summary"]


def test_the_diff_of_fix_applies_and_nothing_is_written(root: Path) -> None:
    before = (root / BAD).read_text()
    (answer,) = ask(root, ("fix", {"path": BAD}))

    diff = data(answer)["diff"]
    assert (root / BAD).read_text() == before
    subprocess.run(["git", "apply", "-p1", "-"], input=diff, text=True, cwd=root, check=True)
    (again,) = ask(root, ("check", {"path": BAD}))
    assert not data(again)["containers"][0]["denied"]


def test_plan_explain_diagnose_and_models(root: Path) -> None:
    command = {"command": "vllm serve Qwen/Qwen3-8B --max-model-len 16k", "gpu": "l4"}
    planned, offers, rule, ledger, cause, found, shown = ask(
        root,
        ("plan", command),
        ("plan", {"model": "Qwen/Qwen3-8B", "context": 16384, "users": 4}),
        ("explain", {"rule": "shm-missing"}),
        ("explain", {"path": "good.yaml"}),
        ("diagnose", {"text": LOG}),
        ("models", {"search": "qwen3 coder"}),
        ("models", {"show": "Qwen/Qwen3-8B"}),
    )

    assert data(planned)["plan"]["verdict"] == "fits"
    assert data(offers)["plan"]["offers"]
    assert data(rule)["explanation"][0]["rule"] == "shm-missing"
    assert data(ledger)["explanation"]["results"]
    assert data(cause)["diagnosis"]["results"][0]["cause"] == "gpu-memory-taken"
    assert "Qwen/Qwen3-Coder-30B-A3B-Instruct" in data(found)["models"]
    assert data(shown)["models"][0]["num_hidden_layers"] == 36


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("check", {"path": "../outside/secret.yaml"}),
    ("check", {"path": "link.yaml"}),
    ("check", {"path": "/etc/passwd"}),
    ("check", {"path": "deploy/llama"}),
    ("check", {"path": "-"}),
    ("check", {"path": "--kubeconfig=/etc/passwd"}),
    ("check", {"path": "good.yaml\0/../../outside/secret.yaml"}),
    ("check", {"path": "x" * 70_000}),
    ("check", {"path": "good.yaml", "text": "a: 1"}),
    ("check", {"path": "good.yaml", "policy": "/etc/passwd"}),
    ("check", {"text": "a" * (1 << 20) + "b"}),
    ("check", {}),
    ("fix", {"path": "../outside/secret.yaml"}),
    ("plan", {"command": "vllm serve 'unclosed", "gpu": "l4"}),
    ("plan", {"command": "cat ../outside/secret.yaml"}),
    ("plan", {"model": "--model-config=../outside/secret.yaml"}),
    ("plan", {"model": "a b", "command": "c"}),
    ("plan", {"model": "Qwen/Qwen3-8B", "context": -1}),
    ("plan", {"model": "Qwen/Qwen3-8B", "context": 10**400}),
    ("plan", {"model": "Qwen/Qwen3-8B", "gpu": "--nodes=cluster"}),
    ("explain", {"rule": "../outside/secret.yaml"}),
    ("diagnose", {"path": "pod/llama-0"}),
    ("diagnose", {"text": "x", "manifest": "../outside/secret.yaml"}),
    ("models", {"show": "../outside"}),
    ("models", {"search": "qwen3", "show": "Qwen/Qwen3-8B"}),
    ("exec", {"command": "id"}),
]


def test_hostile_calls_are_refused_and_the_server_answers_on(root: Path) -> None:
    (root / "link.yaml").symlink_to(root.parent / "outside" / "secret.yaml")

    *refused, last = ask(root, *HOSTILE, ("check", {"path": BAD}))

    for (name, arguments), answer in zip(HOSTILE, refused, strict=True):
        assert answer.is_error, (name, str(arguments)[:200], text(answer)[:300])
        assert "violet-otter" not in text(answer)
        assert len(text(answer)) < 2_000
    assert data(last)["containers"]


MANY = MAX_OBJECTS + 1


@pytest.mark.parametrize(
    "manifest",
    [
        "---\na: 1\n" * MANY,
        '{"apiVersion": "v1", "kind": "List", "items": [' + ", ".join(["{}"] * MANY) + "]}",
        "kind: List\nitems: [" + ", ".join(["{}"] * MANY) + "]\n",
        "kind: List\nitems:\n" + "- {}\n" * MANY,
        "kind: List\nitems:\n" + "  - {}\n" * MANY,
    ],
    ids=["documents", "json", "brackets", "items", "indented"],
)
def test_more_objects_than_a_call_may_have_are_refused_before_they_are_read(root: Path, manifest: str) -> None:
    (root / "many.yaml").write_text(manifest)
    *refused, last = ask(
        root, ("check", {"text": manifest}), ("fix", {"path": "many.yaml"}), ("explain", {"text": manifest}),
        ("check", {"path": BAD}),
    )  # fmt: skip
    for answer in refused:
        assert answer.is_error
        assert f"objects, more than {MAX_OBJECTS:,}" in text(answer)
    assert data(last)["containers"]


def test_a_log_of_any_number_of_lines_is_no_manifest() -> None:
    assert count_objects("kind: Pod\nspec:\n  containers:\n" + "  - {}\n" * MANY) == 1
    assert count_objects("") == 1


def test_a_pipe_below_the_root_is_refused_and_does_not_stop_the_server(root: Path) -> None:
    os.mkfifo(root / "pipe.yaml")
    (root / "podfit.yaml").write_text("policies: [pipe.yaml]\n")

    *refused, last = ask(
        root,
        ("check", {"path": "pipe.yaml"}),
        ("diagnose", {"path": "pipe.yaml"}),
        ("diagnose", {"text": "x", "manifest": "pipe.yaml"}),
        ("check", {"path": BAD}),
        ("explain", {"rule": "shm-missing"}),
    )

    for answer in refused:
        assert answer.is_error
    assert "not a regular file" in text(refused[-1])
    assert data(last)["explanation"]


def test_a_large_file_that_the_project_file_names_is_not_read(root: Path) -> None:
    with (root / "large.yaml").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    (root / "podfit.yaml").write_text("policies: [large.yaml]\n")

    (answer,) = ask(root, ("check", {"path": BAD}))

    assert answer.is_error
    assert "larger than" in text(answer)


def test_a_link_in_a_folder_is_not_followed_out(root: Path) -> None:
    (root / "link.yaml").symlink_to(root.parent / "outside" / "secret.yaml")

    (answer,) = ask(root, ("check", {"path": "."}))

    assert "violet-otter" not in text(answer)
    (error,) = data(answer)["errors"]
    assert error["file"] == "link.yaml"
    assert "outside --root" in error["message"]


@pytest.mark.parametrize(
    "project",
    [
        "policies: [../outside/secret.yaml]",
        "models: ../outside",
        "models: /",
        "baseline: ../outside/secret.yaml",
        "nodes: ../outside/secret.yaml",
        "nodes: cluster",
        "formats: [json=../outside/report.json]",
    ],
)
def test_a_project_file_names_nothing_outside(root: Path, project: str) -> None:
    (root / "podfit.yaml").write_text(f"{project}\n")

    check, fix = ask(root, ("check", {"path": BAD}), ("fix", {"path": BAD}))

    for answer in (check, fix):
        assert "violet-otter" not in text(answer)
    assert not (root.parent / "outside" / "report.json").exists()
    assert check.is_error or project.startswith("formats")


def test_a_project_file_of_the_root_holds(root: Path) -> None:
    (root / "podfit.yaml").write_text("policies: [quiet.yaml]\n")
    (root / "quiet.yaml").write_text(
        "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: quiet}\nspec: {enforce: {mode: warn}}\n"
    )

    (answer,) = ask(root, ("check", {"path": BAD}))

    assert not data(answer)["containers"][0]["denied"]


LINES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    b'{"jsonrpc": "2.0", "id": 1}',
    b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": 5}}',
    b'{"jsonrpc": "2.0", "method": "nothing/known"}',
    b"[" * 50_000,
    b'{"jsonrpc": "2.0", "id": 3, "method": "' + b"x" * 3_000_000 + b'"}',
]


def test_lines_that_are_no_messages_do_not_end_the_server(root: Path) -> None:
    opening = {
        "jsonrpc": "2.0", "id": "a", "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    calls = [
        {
            "jsonrpc": "2.0",
            "id": f"c{number}",
            "method": "tools/call",
            "params": {"name": "explain", "arguments": {"rule": "shm-missing"}},
        }
        for number in range(len(LINES))
    ]
    lines = [json.dumps(opening).encode(), json.dumps(begun).encode()]
    for line, call in zip(LINES, calls, strict=True):
        lines += [line, json.dumps(call).encode()]
    expected = {"a", *(str(one["id"]) for one in calls)}

    command = [sys.executable, "-m", "podfit.cli", "mcp", "--root", str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"\n".join(lines) + b"\n")
        process.stdin.flush()
        results: set[str] = set()
        while results < expected and (line := process.stdout.readline()):
            answer = json.loads(line)
            results |= {answer["id"]} if "result" in answer else set()
        process.stdin.close()

    assert results == expected
    assert process.returncode == 0


def test_a_confined_process_reads_its_root_alone_and_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("in")
    (tmp_path / "out").write_text("out")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "more.py").write_text("seen = 1")
    program = """
import os, socket, subprocess, sys
from pathlib import Path
from podfit.mcp.confine import confine
root = Path(sys.argv[1])
sys.path.insert(0, str(root.parent))  # as `python -m` does
confine(root)
assert (root / "file").read_text() == "in"
import colorsys  # a module that is not loaded yet
import more
def refused(action):
    try:
        action()
    except PermissionError:
        return
    raise SystemExit(f"allowed: {action}")
refused(lambda: (root.parent / "out").read_text())
refused(lambda: (root / "link").read_text())
refused(lambda: (root / ".." / "out").read_text())
refused(lambda: os.listdir("/"))
refused(lambda: (root / "new").write_text("x"))
refused(lambda: os.open(root / "file", os.O_RDWR))
refused(lambda: os.remove(root / "file"))
refused(lambda: subprocess.run(["true"]))
refused(lambda: os.system("true"))
refused(lambda: __import__("sqlite3").connect(root / "base"))
refused(lambda: os.execv("/bin/true", ["true"]))
refused(lambda: socket.create_connection(("127.0.0.1", 9)))
"""

    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "in")], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
