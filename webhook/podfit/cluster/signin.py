"""Users of a kubeconfig who sign in by a program (`exec`) or have a provider's token: credentials made of them.

Programs run here because of the client's ExecProvider (read in 37.0.2, `config/exec_provider.py`). It waits for ever,
hands over standard input (which may be the manifest of `podfit check -`), and runs in the cluster's folder. It
raises AttributeError if a plugin fails in a terminal, and its caller logs each error and continues as system:anonymous.
The client's loader renews OpenID Connect's tokens. It waits for ever, and verifies no provider without a CA of its own.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from podfit.cluster.kubeconfig import AccessError, Context
from podfit.kube.path import mapping

PLUGIN_TIMEOUT = 60.0
"""Seconds that a sign-in may take: some ask a person in a browser."""
_STATIC = ("token", "tokenFile", "username", "client-certificate", "client-certificate-data")
"""Credentials that client-go prefers to signing in (`plugin/pkg/client/auth/exec/exec.go`, UpdateTransportConfig)."""
_CLUSTER = (
    "server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url",
    "disable-compression",
)  # fmt: skip
"""Fields of the cluster that a program may get (client.authentication.k8s.io/v1, Cluster)."""

_PEM = {"clientCertificateData": "client-certificate-data", "clientKeyData": "client-key-data"}
"""Fields of an ExecCredential that are fields of a kubeconfig's user, there in base64."""

_EARLY = 10.0
"""Seconds before its end from which an id-token is not used (client-go, plugin/pkg/client/auth/oidc)."""
Credentials = dict[str, Any]
"""Fields of a kubeconfig's user that are valid without signing in."""


def way(context: Context) -> str:
    """How the user signs in: "exec", "auth-provider", or empty for credentials in the file."""
    if any(key in context.user for key in _STATIC):
        return ""
    return next((method for method in ("exec", "auth-provider") if method in context.user), "")


def credentials(context: Context, patience: float = PLUGIN_TIMEOUT) -> tuple[Credentials, float | None]:
    """The user's credentials, and when they expire (Unix time; None if not known); raises AccessError."""
    match way(context):
        case "exec":
            return _by_program(context, mapping(context.user["exec"]), patience)
        case "auth-provider":
            return _by_provider(context, mapping(context.user["auth-provider"])), None
        case _:
            return dict(context.user), None


# ── a program ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _by_program(context: Context, plugin: Mapping[str, Any], patience: float) -> tuple[Credentials, float | None]:
    """(credentials, their end in seconds since the epoch, None without one) of a credential plugin, which has
    `patience` seconds. Raises AccessError. https://kubernetes.io/docs/reference/access-authn-authz/authentication/
    #client-go-credential-plugins"""
    command, version = str(plugin.get("command") or ""), plugin.get("apiVersion")
    about = f'{context}: sign-in program "{command}"'
    if not command or not version:
        raise AccessError(f"{context}: exec: command and apiVersion are required")
    args, variables = plugin.get("args") or [], plugin.get("env") or []
    if not isinstance(args, list) or not all(isinstance(argument, str) for argument in args):
        raise AccessError(f"{context}: exec: args is not a list of texts")
    if not isinstance(variables, list) or not all(
        isinstance(mapping(variable).get("name"), str) for variable in variables
    ):
        raise AccessError(f"{context}: exec: env is not a list of entries with a name")
    if plugin.get("interactiveMode") == "Always":
        raise AccessError(f"{about}: needs standard input (interactiveMode: Always), which podfit does not give it")
    spec = {"interactive": False, **({"cluster": _cluster(context)} if plugin.get("provideClusterInfo") else {})}
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    given = {variable["name"]: str(variable.get("value") or "") for variable in variables}
    env = {**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(info, default=str)}  # YAML has dates
    # As client-go: a relative path starts at the kubeconfig, a bare name is looked up in PATH.
    program = str(context.file.absolute().parent / command) if os.sep in command else command
    by_hand = "Fix: sign in with it once by hand"
    try:
        out = _output([program, *args], env, patience)
    except subprocess.TimeoutExpired as error:
        raise AccessError(f"{about}: no answer within {patience:g} s. {by_hand}") from error
    except subprocess.CalledProcessError as error:
        why = "".join(f": {line}" for line in str(error.stderr or "").strip().splitlines()[-1:])
        raise AccessError(f"{about}: exit code {error.returncode}{why}. {by_hand}") from error
    except OSError as error:
        hint = " ".join(str(plugin.get("installHint") or "install it, or correct the path").split())
        raise AccessError(f"{about}: {(error.strerror or str(error)).lower()}. Fix: {hint}") from error
    except ValueError as error:  # a NUL, or a "=" in a variable's name
        raise AccessError(f"{about}: it can't be started: {error}. Fix: correct exec in the kubeconfig") from error
    try:
        return _credential(json.loads(out), version)
    except (ValueError, RecursionError) as error:
        raise AccessError(f"{about}: its output is not a valid {version} ExecCredential: {error}") from error


def _output(command: list[str], env: Mapping[str, str], patience: float) -> str:
    """The program's output. Its messages go to the terminal if there is one, since they may say where to sign in. A
    timeout, Ctrl-C or a signal that ends podfit ends the program and all that it started."""
    stderr = None if sys.stderr.isatty() else subprocess.PIPE
    with _exits_on_signals(), subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
        errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            out, messages = process.communicate(timeout=patience)
        except BaseException:
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, out, messages)
    return out


@contextmanager
def _exits_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit, unless they are ignored or handled: what is started here ends, too."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    main = threading.current_thread() is threading.main_thread()
    taken = [number for number in numbers if main and signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _cluster(context: Context) -> dict[str, Any]:
    """The cluster as a program gets it: the CA by value, and the plugin's own configuration."""
    entries = {key: context.cluster[key] for key in _CLUSTER if key in context.cluster}
    if "certificate-authority" in context.cluster:
        with suppress(OSError):  # reported when it is loaded
            ca = Path(context.cluster["certificate-authority"]).read_bytes()
            entries.setdefault("certificate-authority-data", base64.b64encode(ca).decode())
    extensions = context.cluster.get("extensions")
    for item in extensions if isinstance(extensions, list) else ():
        if mapping(item).get("name") == "client.authentication.k8s.io/exec":
            entries["config"] = item.get("extension")
    return entries


def _credential(answer: object, version: object) -> tuple[Credentials, float | None]:
    """The credentials of an ExecCredential, and the Unix time in seconds at which they expire (None: not given); raises
    ValueError."""
    fields = mapping(answer)
    if (kind := (fields.get("apiVersion"), fields.get("kind"))) != (version, "ExecCredential"):
        raise ValueError(f"it is a {kind[0]} {kind[1]}")
    status = mapping(fields.get("status"))
    entries: Credentials = {"token": str(status["token"])} if status.get("token") else {}
    for name in ("clientCertificateData", "clientKeyData"):
        if status.get(name):
            entries[_PEM[name]] = base64.b64encode(str(status[name]).encode()).decode()
    if "token" not in entries and len(entries) < len(_PEM):
        raise ValueError("it has neither a token nor a client certificate with its key")
    end = status.get("expirationTimestamp")
    return entries, datetime.fromisoformat(str(end)).timestamp() if end else None


# ── an OpenID Connect provider ───────────────────────────────────────────────────────────────────────────────────────


def _by_provider(context: Context, provider: Mapping[str, Any]) -> Credentials:
    """The id-token of a user with an auth-provider
    (https://kubernetes.io/docs/reference/access-authn-authz/authentication/ #option-1-oidc-authenticator). kubectl
    renews it and writes it into the kubeconfig."""
    name = provider.get("name")
    if name != "oidc":
        raise AccessError(
            f'{context}: auth-provider "{name}" is not supported (Kubernetes removed it in 1.26). Fix: use its '
            "exec plugin"
        )
    token = str(mapping(provider.get("config")).get("id-token") or "")
    if _end(token) < time.time() + _EARLY:
        raise AccessError(
            f"{context}: OpenID Connect: there is no valid id-token. Fix: run kubectl get ns, which renews it, or sign "
            "in again with the program that wrote it"
        )
    return {"token": token}


def _end(token: str) -> float:
    """Until when a JWT is valid (Unix time); 0 if it is not one."""
    try:
        _, claims, _ = token.split(".")
        return float(mapping(json.loads(base64.urlsafe_b64decode(f"{claims}=="))).get("exp", "inf"))
    except (ValueError, TypeError, RecursionError):
        return 0.0
