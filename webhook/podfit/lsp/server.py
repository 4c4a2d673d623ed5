"""The language server: listens to an editor, checks a text when typing pauses, and answers about it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from podfit import __version__
from podfit.lsp import features
from podfit.lsp.document import CheckedText, Reader, Settings, check_text
from podfit.lsp.features import Places

PAUSE = 0.2
"""Seconds without typing after which a text is checked."""
MAX_CHARACTERS = 1 << 20
"""A longer text is not checked while it is edited."""


@dataclass
class Open:
    """A text that an editor has open."""

    version: int | None = None
    checked: CheckedText | None = None
    """The last check; of an older version while a new one runs."""
    task: asyncio.Task[None] | None = None
    """The check that waits for a pause, or runs."""


@dataclass
class State:
    """The server's state: the open texts, and the settings of each folder until a file is saved."""

    reader: Reader
    texts: dict[str, Open] = field(default_factory=dict)
    settings: dict[str, Settings] = field(default_factory=dict)
    completing: dict[str, Settings] = field(default_factory=dict)
    """Folder → the settings that a thread is completing."""

    def settings_of(self, path: str) -> Settings:
        """The settings for the manifests of a folder."""
        folder = folder_of(path)
        if folder not in self.settings:
            self.settings[folder] = self.reader.settings_of(path)
        return self.settings[folder]


def folder_of(path: str) -> str:
    """The folder of a manifest."""
    return path.rpartition("/")[0]


def create(reader: Reader) -> LanguageServer:
    """The server, before it listens."""
    # Whole texts: what pygls makes of an edit counts other lines than the editor where a text has U+0085 or U+2028.
    server = LanguageServer("podfit", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
    state = State(reader)

    async def check(uri: str, version: int | None, wait: float) -> None:
        """Check a text after `wait` seconds and publish its diagnostics, if its version is still the same. One that is
        too long gets a single one that says so."""
        await asyncio.sleep(wait)
        document = server.workspace.get_text_document(uri)
        path, text = document.path, document.source
        if len(text) > MAX_CHARACTERS:
            opened = state.texts.get(uri)
            if opened is not None and opened.version == version:
                opened.checked = None
                server.text_document_publish_diagnostics(
                    types.PublishDiagnosticsParams(uri, [features.not_checked(len(text), MAX_CHARACTERS)], version)
                )
            return
        checked = await asyncio.to_thread(lambda: check_text(path, text, state.settings_of(path), reader))
        opened = state.texts.get(uri)
        if opened is None or opened.version != version:
            return
        opened.checked = checked
        places = _places(server, uri, checked)
        server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, features.diagnostics(checked, places), version)
        )
        if _refreshes_lenses(server):
            server.workspace_code_lens_refresh(None)
        complete(folder_of(path))

    def complete(folder: str) -> None:
        """Read the rest of a folder's settings in a thread, which an editor that exits does not wait for. Nothing to do
        if they are complete, or being read already."""
        settings = state.settings.get(folder)
        if settings is None or settings.complete is None or state.completing.get(folder) is settings:
            return
        state.completing[folder] = settings
        read, loop = settings.complete, asyncio.get_running_loop()

        def run() -> None:
            completed = read()
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(apply, folder, settings, completed)

        threading.Thread(target=run, daemon=True).start()

    def apply(folder: str, settings: Settings, completed: Settings) -> None:
        """Check the folder's texts again, unless its settings were read again meanwhile."""
        if state.completing.get(folder) is settings:
            del state.completing[folder]
        if state.settings.get(folder) is not settings:
            return
        state.settings[folder] = completed
        for uri, opened in state.texts.items():
            if folder_of(server.workspace.get_text_document(uri).path) == folder:
                changed(uri, opened.version, 0)

    def changed(uri: str, version: int | None, wait: float) -> None:
        """Check the document after `wait` seconds, instead of an earlier check that is still to come."""
        if not uri.endswith(reader.suffixes):
            return
        opened = state.texts.setdefault(uri, Open())
        if opened.task is not None:
            opened.task.cancel()
        opened.version = version
        opened.task = asyncio.get_running_loop().create_task(check(uri, version, wait))

    async def checked_of(uri: str) -> CheckedText | None:
        """The check of the text as it is now, after waiting for it; None if the text was closed, changed meanwhile, or
        is too long."""
        opened = state.texts.get(uri)
        if opened is None:
            return None
        if opened.task is not None and not opened.task.done():
            await asyncio.wait([opened.task])
        document = server.workspace.get_text_document(uri)
        return opened.checked if opened.checked is not None and opened.checked.text == document.source else None

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(parameters: types.DidOpenTextDocumentParams) -> None:
        changed(parameters.text_document.uri, parameters.text_document.version, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(parameters: types.DidChangeTextDocumentParams) -> None:
        changed(parameters.text_document.uri, parameters.text_document.version, PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: types.DidSaveTextDocumentParams) -> None:
        """A project file, a policy or a list of nodes may have changed."""
        state.settings.clear()
        for uri, opened in state.texts.items():
            changed(uri, opened.version, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(parameters: types.DidCloseTextDocumentParams) -> None:
        uri = parameters.text_document.uri
        if (opened := state.texts.pop(uri, None)) is not None:
            if opened.task is not None:
                opened.task.cancel()
            server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(parameters: types.HoverParams) -> types.Hover | None:
        checked = await checked_of(uri := parameters.text_document.uri)
        return features.hover(checked, _places(server, uri, checked), parameters.position) if checked else None

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix]))
    async def actions(parameters: types.CodeActionParams) -> list[types.CodeAction]:
        checked = await checked_of(uri := parameters.text_document.uri)
        if checked is None:
            return []
        return await asyncio.to_thread(features.actions, checked, _places(server, uri, checked), uri, parameters.range)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    async def lenses(parameters: types.CodeLensParams) -> list[types.CodeLens]:
        checked = await checked_of(uri := parameters.text_document.uri)
        return features.lenses(checked, _places(server, uri, checked)) if checked else []

    return server


def _places(server: LanguageServer, uri: str, checked: CheckedText) -> Places:
    return Places(checked.text, server.workspace.get_text_document(uri).position_codec)


def _refreshes_lenses(server: LanguageServer) -> bool:
    """The editor can be made to ask for lenses again."""
    workspace: Any = server.client_capabilities.workspace
    return bool(workspace and workspace.code_lens and workspace.code_lens.refresh_support)
