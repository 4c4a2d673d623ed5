"""The extras of the package, and what a command prints if one is not installed."""

from __future__ import annotations

COMMANDS = {
    "certs": "server",
    "doctor": "cluster",
    "lsp": "lsp",
    "mcp": "mcp",
    "off": "cluster",
    "on": "cluster",
    "scan": "cluster",
    "serve": "server",
    "ui": "ui",
}
"""Command → the extra without which it can do nothing. All other commands run without an extra."""
LIBRARIES = {
    "cryptography": "cluster",
    "kubernetes": "cluster",
    "prometheus_client": "cluster",
    "urllib3": "cluster",
    "a2wsgi": "server",
    "gunicorn": "server",
    "httptools": "server",
    "uvicorn": "server",
    "uvloop": "server",
    "flask": "ui",
    "werkzeug": "ui",
    "huggingface_hub": "hub",
    "mcp": "mcp",
    "pygls": "lsp",
}
"""Top-level module of an optional dependency → the smallest extra that installs it."""
_MARKERS = {"cluster": "kubernetes", "server": "uvicorn", "ui": "flask", "mcp": "mcp", "lsp": "pygls"}
"""Extra → a module that no smaller extra installs."""
_PURPOSES = {"cluster": " to read from a cluster", "hub": " to read from the Hugging Face hub"}


def missing(command: str) -> str | None:
    """Name the extra that this command needs if it is not installed."""
    from importlib.util import find_spec

    extra = COMMANDS.get(command)
    return None if extra is None or find_spec(_MARKERS[extra]) else _advice(command, extra)


def missing_for(command: str, error: Exception) -> str | None:
    """Name the extra to install if the error is that a library of an extra can't be imported; None otherwise."""
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    extra = LIBRARIES.get((module or "").partition(".")[0])
    if extra is None:
        return None
    own = COMMANDS.get(command)
    return _advice(command, own) if own else _advice(command, extra, _PURPOSES.get(extra, ""))


def _advice(command: str, extra: str, purpose: str = "") -> str:
    return f"podfit {command} needs podfit[{extra}]{purpose}: pip install 'podfit[{extra}]'"
