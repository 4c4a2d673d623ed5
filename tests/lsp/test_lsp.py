"""`podfit lsp` behind pygls' own client."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from podfit.cli import main
from podfit.lsp.server import MAX_CHARACTERS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LONG = "llama-8b-with-131072-tokens.yaml"
SECONDS = 60
"""After which a test fails instead of waiting for ever."""
Whole = types.Range(types.Position(0, 0), types.Position(10_000, 0))


def lines_of(text: str) -> list[str]:
    """The lines as an editor has them: only CR LF, LF and CR end one."""
    return re.findall(r"[^\r\n]*(?:\r\n|[\r\n])|[^\r\n]+", text)


class Editor:
    """An editor with one text."""

    def __init__(self, client: LanguageClient) -> None:
        self.client = client
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda parameters: self.published.put_nowait(parameters)
        )
        self.uri = ""
        self.text = ""
        self.version = 0

    async def open(self, path: Path, text: str) -> Sequence[types.Diagnostic]:
        """Open a text; its diagnostics."""
        self.uri, self.text, self.version = path.as_uri(), text, 1
        self.client.text_document_did_open(
            types.DidOpenTextDocumentParams(types.TextDocumentItem(self.uri, "yaml", 1, text))
        )
        return await self.diagnostics()

    def type(self, text: str) -> None:
        """Replace the whole text."""
        self.text, self.version = text, self.version + 1
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.version, self.uri),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def diagnostics(self) -> Sequence[types.Diagnostic]:
        """What is published for the present version."""
        while True:
            parameters = await asyncio.wait_for(self.published.get(), SECONDS)
            if parameters.version == self.version:
                return parameters.diagnostics

    async def actions(self, asked: types.Range = Whole) -> Sequence[types.CodeAction]:
        """The quick fixes in a range."""
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(types.TextDocumentIdentifier(self.uri), asked, types.CodeActionContext([]))
        )
        return [one for one in found or () if isinstance(one, types.CodeAction)]

    def apply(self, action: types.CodeAction) -> None:
        """Make an action's edits, which are of whole lines, and type the text."""
        assert action.edit
        assert action.edit.changes
        lines = lines_of(self.text)
        for edit in sorted(action.edit.changes[self.uri], key=lambda one: -one.range.start.line):
            lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
        self.type("".join(lines))


@asynccontextmanager
async def editing() -> AsyncIterator[Editor]:
    """A server of its own, and an editor."""
    client = LanguageClient("editor", "1")
    editor = Editor(client)
    await client.start_io(sys.executable, "-m", "podfit.cli", "lsp", env=dict(os.environ))
    await client.initialize_async(types.InitializeParams(types.ClientCapabilities()))
    client.initialized(types.InitializedParams())
    yield editor
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()  # type: ignore[no-untyped-call]


def in_an_editor(test: Callable[[Editor], Awaitable[None]]) -> None:
    """Run a test in an editor."""

    async def run() -> None:
        async with asyncio.timeout(SECONDS), editing() as editor:
            await test(editor)

    asyncio.run(run())


def example(name: str) -> tuple[Path, str]:
    """The path of an example and its text."""
    return EXAMPLES / name, (EXAMPLES / name).read_text()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_diagnostics_are_the_findings_of_check(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--no-config", "--format", "json", str(path)])
    printed = json.loads(capsys.readouterr().out)
    expected = [
        (one["rule"], one["line"], one["message"])
        for row in printed["results"]
        for one in row["findings"]
        if one["line"] is not None and one["accepted"] is None
    ]

    async def test(editor: Editor) -> None:
        found = await editor.open(path, path.read_text())
        shown = [(one.code, one.range.start.line + 1, one.message.splitlines()[0]) for one in found]
        assert sorted(map(str, shown)) == sorted(map(str, expected))

    in_an_editor(test)


def test_a_suggestion_is_a_quick_fix_after_which_the_finding_is_gone() -> None:
    async def test(editor: Editor) -> None:
        found = await editor.open(*example(LONG))
        assert "kv-cache-too-small" in [one.code for one in found]
        (shorter, *_) = [one for one in await editor.actions() if one.title.startswith("podfit: --max-model-len")]

        editor.apply(shorter)

        assert "kv-cache-too-small" not in [one.code for one in await editor.diagnostics()]

    in_an_editor(test)


@pytest.mark.parametrize("odd", ["\x85", "\u2028", "\u2029"])
def test_lines_that_only_yaml_ends_do_not_move_findings_and_repairs(odd: str) -> None:
    async def test(editor: Editor) -> None:
        path, text = example(LONG)
        found = await editor.open(path, text.replace("kind:", f"# a{odd}# b\nkind:", 1))
        (mark,) = [one.range for one in found if one.code == "kv-cache-too-small"]
        assert "args: [" in lines_of(editor.text)[mark.start.line]
        (shorter, *_) = [one for one in await editor.actions() if one.title.startswith("podfit: --max-model-len")]

        editor.apply(shorter)

        assert odd in editor.text
        after = await editor.diagnostics()
        assert "kv-cache-too-small" not in [one.code for one in after]
        assert all(one.code for one in after), "the text can be read"

    in_an_editor(test)


def test_the_repair_of_fix_is_the_preferred_action() -> None:
    async def test(editor: Editor) -> None:
        await editor.open(*example("llama-70b-without-shm.yaml"))
        (repair,) = [one for one in await editor.actions() if one.title == "podfit: repair shm-missing"]
        assert repair.is_preferred

        editor.apply(repair)

        assert "shm-missing" not in [one.code for one in await editor.diagnostics()]

    in_an_editor(test)


def test_hover_over_the_arguments_shows_the_memory_and_the_lens_the_verdict() -> None:
    async def test(editor: Editor) -> None:
        path, text = example("good.yaml")
        await editor.open(path, text)
        this = types.TextDocumentIdentifier(editor.uri)
        at = next(number for number, line in enumerate(text.splitlines()) if line.lstrip().startswith("args:"))

        hover = await editor.client.text_document_hover_async(types.HoverParams(this, types.Position(at, 12)))
        elsewhere = await editor.client.text_document_hover_async(types.HoverParams(this, types.Position(0, 0)))
        (lens, *_) = await editor.client.text_document_code_lens_async(types.CodeLensParams(this)) or ()

        assert hover
        assert isinstance(hover.contents, types.MarkupContent)
        assert "| weights |" in hover.contents.value
        assert elsewhere is None
        assert lens.command
        assert lens.command.title.startswith("fits: ")

    in_an_editor(test)


def test_positions_count_utf_16_units() -> None:
    """A character outside of the Basic Multilingual Plane is two units."""
    text = (EXAMPLES / "old-flags-on-a-new-image.yaml").read_text()
    line = next(one for one in text.splitlines() if "--swap-space" in one)
    odd = text.replace(line, line.replace("args: [", 'args: ["--served-model-name", "😀😀", ', 1))

    async def test(editor: Editor) -> None:
        found = await editor.open(EXAMPLES / "odd.yaml", odd)
        (mark,) = [one.range for one in found if one.code == "removed-flag" and "--swap-space" in one.message]
        shown = odd.splitlines()[mark.start.line].encode("utf-16-le")
        assert shown[2 * mark.start.character : 2 * mark.end.character].decode("utf-16-le") == "--swap-space"

    in_an_editor(test)


def test_a_newer_version_replaces_an_older_one_while_one_types() -> None:
    async def test(editor: Editor) -> None:
        path, text = example(LONG)
        await editor.open(path, text)
        for number in range(30):
            editor.type(text.replace("131072", str(131072 + number)) + f"# {number}\n")
        await editor.diagnostics()

        assert editor.published.empty()
        assert editor.version == 31

    in_an_editor(test)


def test_what_cannot_be_read_is_a_diagnostic_and_the_server_goes_on() -> None:
    async def test(editor: Editor) -> None:
        path, text = example(LONG)
        (problem,) = await editor.open(path, "kind: [\n")
        assert "not YAML" in problem.message

        editor.type("kind: Pod\nspec: {{ .Values.spec }}\n")
        assert list(await editor.diagnostics()) == []

        editor.type(text)
        assert await editor.diagnostics()

    in_an_editor(test)


def test_a_text_that_is_too_long_has_a_note_instead_of_its_old_findings() -> None:
    async def test(editor: Editor) -> None:
        path, text = example(LONG)
        assert len(await editor.open(path, text)) > 1

        editor.type(text + "#" * MAX_CHARACTERS)
        (note,) = await editor.diagnostics()
        assert note.severity is types.DiagnosticSeverity.Information
        assert "not checked" in note.message

        editor.type(text)
        assert len(await editor.diagnostics()) > 1

    in_an_editor(test)


def test_a_policy_that_is_a_pipe_is_a_problem_and_the_server_goes_on(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "podfit.yaml").write_text("policies: [pipe.yaml]\n")
    path = tmp_path / LONG

    async def test(editor: Editor) -> None:
        found = await editor.open(path, (EXAMPLES / LONG).read_text())
        assert any("not a regular file ('pipe.yaml')" in diagnostic.message for diagnostic in found)

        (tmp_path / "podfit.yaml").write_text("policies: [.]\n")  # a folder with a pipe in it, which is left out
        editor.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(editor.uri)))
        assert await editor.diagnostics()

    in_an_editor(test)


def test_the_project_file_above_the_manifest_holds(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "podfit.yaml").write_text("policies: [quiet.yaml]\n")
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: quiet}\n"
    (tmp_path / "quiet.yaml").write_text(f"{head}spec: {{rules: {{kv-cache-too-small: {{mode: ignore}}}}}}\n")
    path = tmp_path / "deploy" / LONG
    path.parent.mkdir()

    async def test(editor: Editor) -> None:
        found = await editor.open(path, (EXAMPLES / LONG).read_text())
        assert "kv-cache-too-small" not in [one.code for one in found]

        (tmp_path / "podfit.yaml").write_text("polices: [quiet.yaml]\n")
        editor.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(editor.uri)))
        assert "unknown field" in [*await editor.diagnostics()][-1].message

    in_an_editor(test)


POD = """apiVersion: v1
kind: Pod
metadata: {name: llama}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.27.1
    args: [unsloth/Llama-3.1-8B-Instruct, --max-model-len, '8192']
    resources: {limits: {nvidia.com/gpu: '1', memory: 48Gi}}
"""
NODE = {
    "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "Tesla-T4"}},
    "status": {"allocatable": {"nvidia.com/gpu": "4"}},
}


@pytest.fixture(name="repository")
def _repository(tmp_path: Path) -> Path:
    """A repository whose nodes are those of the cluster, with a policy of its own."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "podfit.yaml").write_text("nodes: cluster\npolicies: [quiet.yaml]\n")
    head = "apiVersion: podfit.dev/v1alpha1\nkind: Policy\nmetadata: {name: quiet}\n"
    (tmp_path / "quiet.yaml").write_text(f"{head}spec: {{rules: {{startup-probe-missing: {{mode: ignore}}}}}}\n")
    return tmp_path


def codes(diagnostics: Sequence[types.Diagnostic]) -> set[str]:
    """The rules of the diagnostics, "note" for those of no rule."""
    return {str(diagnostic.code or "note") for diagnostic in diagnostics}


def test_the_nodes_of_the_cluster_come_in_later(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = pytest.importorskip("tests.cluster.server", reason="its API server needs the server extra")
    with server.serving(repository / "api", tls=False) as api:
        api.answers["/api/v1/nodes"] = {"items": [NODE]}
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig()))

        async def test(editor: Editor) -> None:
            first = codes(await editor.open(repository / "pod.yaml", POD))
            assert "unknown-gpu" in first
            assert not first & {"gpu-memory-exceeded", "startup-probe-missing", "note"}
            later = codes(await editor.diagnostics())
            assert "gpu-memory-exceeded" in later
            assert "unknown-gpu" not in later

            parameters = types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(editor.uri))
            editor.client.text_document_did_save(parameters)
            assert codes(await editor.diagnostics()) == later

        in_an_editor(test)
        assert [asked.path for asked in api.asked].count("/api/v1/nodes") == 1


def test_a_cluster_that_refuses_is_a_note(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = pytest.importorskip("tests.cluster.server", reason="its API server needs the server extra")
    with server.serving(repository / "api", tls=False) as api:
        refusal = {"kind": "Status", "message": "nodes is forbidden", "reason": "Forbidden", "code": 403}
        api.answers["/api/v1/nodes"] = (403, {}, refusal)
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig()))

        async def test(editor: Editor) -> None:
            await editor.open(repository / "pod.yaml", POD)
            diagnostics = await editor.diagnostics()
            assert "startup-probe-missing" not in codes(diagnostics)
            (note,) = [diagnostic for diagnostic in diagnostics if diagnostic.code is None]
            assert note.severity == types.DiagnosticSeverity.Information
            assert note.message.startswith("`nodes: cluster` in podfit.yaml: ")
            assert "nodes is forbidden" in note.message

        in_an_editor(test)


def test_a_cluster_that_does_not_answer_delays_neither_findings_nor_the_exit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kubernetes", reason="reading a cluster needs the cluster extra")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        config = {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {}}],
        }
        (repository / "config").write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(repository / "config"))

        async def test(editor: Editor) -> None:
            assert "unknown-gpu" in codes(await editor.open(repository / "pod.yaml", POD))
            silent.accept()[0].close()  # the server asks now, and tries again
            editor.type(POD.replace("8192", "4096"))
            assert "unknown-gpu" in codes(await editor.diagnostics())

        in_an_editor(test)
