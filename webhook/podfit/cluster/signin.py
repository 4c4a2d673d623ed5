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
from typing import Any, Literal, NamedTuple

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


class SignedIn(NamedTuple):
    """The credentials of a user."""

    user: Credentials
    ends: float | None = None
    """Unix time at which they expire; None: not known."""


def way(context: Context) -> Literal["exec", "auth-provider", ""]:
    """How the user signs in: by a program ("exec"), with a provider's token ("auth-provider"), or empty for credentials
    in the file, and without any."""
    if any(key in context.user for key in _STATIC):
        return ""
    if "exec" in context.user:
        return "exec"
    return "auth-provider" if "auth-provider" in context.user else ""


def credentials(context: Context, patience: float = PLUGIN_TIMEOUT) -> SignedIn:
    """The user's credentials; raises AccessError. `patience`: seconds that a sign-in by a program may take."""
    match way(context):
        case "exec":
            return _by_program(context, mapping(context.user["exec"]), patience)
        case "auth-provider":
            return SignedIn(_by_provider(context, mapping(context.user["auth-provider"])))
        case _:
            return SignedIn(dict(context.user))


# ── a program ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _by_program(context: Context, plugin: Mapping[str, Any], patience: float) -> SignedIn:
    """The credentials that a credential plugin prints within `patience` seconds. `plugin`: `exec` of the user. Raises
    AccessError. https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"""
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
    # As client-go: a relative path starts at the kubeconfig, a bare name is looked up in PATH.
    program = str(context.file.absolute().parent / command) if os.sep in command else command
    by_hand = "Fix: sign in with it once by hand"
    try:
        output = _output([program, *args], _environment(context, plugin), patience)
    except subprocess.TimeoutExpired as error:
        raise AccessError(f"{about}: no answer within {patience:g} s. {by_hand}") from error
    except subprocess.CalledProcessError as error:
        messages = str(error.stderr or "").strip().splitlines()
        why = f": {messages[-1]}" if messages else ""
        raise AccessError(f"{about}: exit code {error.returncode}{why}. {by_hand}") from error
    except OSError as error:
        hint = " ".join(str(plugin.get("installHint") or "install it, or correct the path").split())
        raise AccessError(f"{about}: {(error.strerror or str(error)).lower()}. Fix: {hint}") from error
    except ValueError as error:  # a NUL, or a "=" in a variable's name
        raise AccessError(f"{about}: it can't be started: {error}. Fix: correct exec in the kubeconfig") from error
    try:
        return _credential(json.loads(output), version)
    except (ValueError, RecursionError) as error:
        raise AccessError(f"{about}: its output is not a valid {version} ExecCredential: {error}") from error


def _environment(context: Context, plugin: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a credential plugin: podfit's own, the variables of the kubeconfig, and the request to the
    plugin in KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _cluster(context)
    request = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    variables = {variable["name"]: str(variable.get("value") or "") for variable in plugin.get("env") or ()}
    # default: YAML has dates, which JSON has not.
    return {**os.environ, **variables, "KUBERNETES_EXEC_INFO": json.dumps(request, default=str)}


def _output(command: list[str], env: Mapping[str, str], patience: float) -> str:
    """The program's standard output, within `patience` seconds. Its messages go to the terminal if there is one, since
    they may say where to sign in. A timeout, Ctrl-C or a signal that ends podfit ends the program and all that it
    started. Raises subprocess.TimeoutExpired, subprocess.CalledProcessError, OSError or ValueError."""
    stderr = None if sys.stderr.isatty() else subprocess.PIPE
    with _exits_on_signals(), subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
        errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            output, messages = process.communicate(timeout=patience)
        except BaseException:
            if hasattr(os, "killpg"):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # it leads a group, by start_new_session
            process.kill()
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output, messages)
    return output


@contextmanager
def _exits_on_signals() -> Iterator[None]:
    """Until the block is left, SIGTERM and SIGHUP raise SystemExit, so that what was started in the block is ended,
    too. Signals that are ignored or handled already stay so."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)  # a shell's exit code for a process that a signal ended

    handled: list[int] = []
    if threading.current_thread() is threading.main_thread():  # Python sets handlers in no other thread
        signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
        handled = [number for number in signals if signal.getsignal(number) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _cluster(context: Context) -> dict[str, Any]:
    """The cluster as a program gets it: the CA by value in base64, and the plugin's own configuration, if any."""
    cluster = {key: context.cluster[key] for key in _CLUSTER if key in context.cluster}
    if "certificate-authority" in context.cluster:
        with suppress(OSError):  # reported when it is loaded
            ca = Path(context.cluster["certificate-authority"]).read_bytes()
            cluster.setdefault("certificate-authority-data", base64.b64encode(ca).decode())
    extensions = context.cluster.get("extensions")
    for extension in extensions if isinstance(extensions, list) else ():
        if mapping(extension).get("name") == "client.authentication.k8s.io/exec":
            cluster["config"] = extension.get("extension")
    return cluster


def _credential(answer: object, version: object) -> SignedIn:
    """The credentials in a program's answer, an ExecCredential of the API `version`; raises ValueError."""
    fields = mapping(answer)
    api, kind = fields.get("apiVersion"), fields.get("kind")
    if (api, kind) != (version, "ExecCredential"):
        raise ValueError(f"it is a {api} {kind}")
    status = mapping(fields.get("status"))
    user: Credentials = {"token": str(status["token"])} if status.get("token") else {}
    for name, user_field in _PEM.items():
        if status.get(name):
            user[user_field] = base64.b64encode(str(status[name]).encode()).decode()
    has_certificate = all(user_field in user for user_field in _PEM.values())
    if "token" not in user and not has_certificate:
        raise ValueError("it has neither a token nor a client certificate with its key")
    end = status.get("expirationTimestamp")  # RFC 3339
    return SignedIn(user, datetime.fromisoformat(str(end)).timestamp() if end else None)


# ── an OpenID Connect provider ───────────────────────────────────────────────────────────────────────────────────────


def _by_provider(context: Context, provider: Mapping[str, Any]) -> Credentials:
    """The id-token of a user with an auth-provider, which kubectl renews and writes into the kubeconfig
    (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#option-1-oidc-authenticator).

    Raises AccessError for another provider than OpenID Connect, and if the token has expired."""
    name = provider.get("name")
    if name != "oidc":
        raise AccessError(
            f'{context}: auth-provider "{name}" is not supported (Kubernetes removed it in 1.26). Fix: use its '
            "exec plugin"
        )
    token = str(mapping(provider.get("config")).get("id-token") or "")
    if _expiry(token) < time.time() + _EARLY:
        raise AccessError(
            f"{context}: OpenID Connect: there is no valid id-token. Fix: run kubectl get ns, which renews it, or sign "
            "in again with the program that wrote it"
        )
    return {"token": token}


def _expiry(token: str) -> float:
    """The Unix time at which a JWT expires; infinite if it does not say, 0 if the text is not a JWT."""
    try:
        _, encoded, _ = token.split(".")  # header, claims and signature
        claims = mapping(json.loads(base64.urlsafe_b64decode(f"{encoded}==")))  # a JWT leaves the padding out
        return float(claims.get("exp", "inf"))
    except (ValueError, TypeError, RecursionError):
        return 0.0
