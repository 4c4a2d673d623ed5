"""Users of a kubeconfig who sign in by a program (`exec`) or at an OpenID Connect provider: credentials made of them.

Programs run here because of the client's ExecProvider (read in 37.0.2, `config/exec_provider.py`). It waits for ever,
hands over standard input (which may be the manifest of `podfit check -`), and runs in the cluster's folder. It
raises AttributeError if a plugin fails in a terminal, and its caller logs each error and continues as system:anonymous.
OpenID Connect requests are sent here, as client-go did. The client's loader waits for ever, and verifies no provider
without a CA of its own. It identifies itself only by Basic authentication, which providers reject for public clients.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote_plus

import certifi
import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from urllib3.exceptions import HTTPError

from podfit.cluster import configuration
from podfit.cluster.configuration import in_words
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
"""Seconds before an id-token ends at which it is renewed (client-go, plugin/pkg/client/auth/oidc)."""
_LONGEST = 200
"""Characters of a provider's reason."""
Credentials = dict[str, Any]
"""Fields of a kubeconfig's user that are valid without signing in."""


def way(context: Context) -> str:
    """How the user signs in: "exec", "auth-provider", or empty for credentials in the file."""
    if any(key in context.user for key in _STATIC):
        return ""
    return next((one for one in ("exec", "auth-provider") if one in context.user), "")


def credentials(context: Context, patience: float = PLUGIN_TIMEOUT) -> tuple[Credentials, float | None]:
    """The user's credentials, and when they expire (Unix time; None if not known); raises AccessError."""
    match way(context):
        case "exec":
            return _by_program(context, mapping(context.user["exec"]), patience)
        case "auth-provider":
            return _by_provider(context, mapping(context.user["auth-provider"]), patience), None
        case _:
            return dict(context.user), None


# ── a program ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _by_program(context: Context, plugin: Mapping[str, Any], patience: float) -> tuple[Credentials, float | None]:
    """Runs a credential plugin (https://kubernetes.io/docs/reference/access-authn-authz/authentication/
    #client-go-credential-plugins)."""
    command, version = str(plugin.get("command") or ""), plugin.get("apiVersion")
    about = f'{context}: sign-in program "{command}"'
    if not command or not version:
        raise AccessError(f"{context}: exec: command and apiVersion are required")
    args, variables = plugin.get("args") or [], plugin.get("env") or []
    if not isinstance(args, list) or not all(isinstance(one, str) for one in args):
        raise AccessError(f"{context}: exec: args is not a list of texts")
    if not isinstance(variables, list) or not all(isinstance(mapping(one).get("name"), str) for one in variables):
        raise AccessError(f"{context}: exec: env is not a list of entries with a name")
    if plugin.get("interactiveMode") == "Always":
        raise AccessError(f"{about}: needs standard input (interactiveMode: Always), which podfit does not give it")
    spec = {"interactive": False, **({"cluster": _cluster(context)} if plugin.get("provideClusterInfo") else {})}
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    given = {one["name"]: str(one.get("value") or "") for one in variables}
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
    found = {key: context.cluster[key] for key in _CLUSTER if key in context.cluster}
    if "certificate-authority" in context.cluster:
        with suppress(OSError):  # reported when it is loaded
            ca = Path(context.cluster["certificate-authority"]).read_bytes()
            found.setdefault("certificate-authority-data", base64.b64encode(ca).decode())
    extensions = context.cluster.get("extensions")
    for one in extensions if isinstance(extensions, list) else ():
        if mapping(one).get("name") == "client.authentication.k8s.io/exec":
            found["config"] = one.get("extension")
    return found


def _credential(answer: object, version: object) -> tuple[Credentials, float | None]:
    """What an ExecCredential contains, and until when it is valid; raises ValueError."""
    fields = mapping(answer)
    if (kind := (fields.get("apiVersion"), fields.get("kind"))) != (version, "ExecCredential"):
        raise ValueError(f"it is a {kind[0]} {kind[1]}")
    status = mapping(fields.get("status"))
    made: Credentials = {"token": str(status["token"])} if status.get("token") else {}
    for name in ("clientCertificateData", "clientKeyData"):
        if status.get(name):
            made[_PEM[name]] = base64.b64encode(str(status[name]).encode()).decode()
    if "token" not in made and len(made) < len(_PEM):
        raise ValueError("it has neither a token nor a client certificate with its key")
    end = status.get("expirationTimestamp")
    return made, datetime.fromisoformat(str(end)).timestamp() if end else None


# ── an OpenID Connect provider ───────────────────────────────────────────────────────────────────────────────────────


def _by_provider(context: Context, provider: Mapping[str, Any], patience: float) -> Credentials:
    """The id-token, renewed if it ends (https://kubernetes.io/docs/reference/access-authn-authz/authentication/
    #option-1-oidc-authenticator)."""
    name = provider.get("name")
    if name != "oidc":
        raise AccessError(
            f'{context}: auth-provider "{name}" is not supported (Kubernetes removed it in 1.26). Fix: use its '
            "exec plugin"
        )
    config = {key: value for key, value in mapping(provider.get("config")).items() if isinstance(value, str) and value}
    try:
        if not (token := config.get("id-token", "")) or _end(token) < time.time() + _EARLY:
            renewed = _renewed(config, patience)
            _keep(context, renewed)
            token = renewed["id-token"]
    except (OSError, ValueError) as error:
        again = "Fix: sign in again, with the program that wrote the tokens"
        raise AccessError(f"{context}: OpenID Connect: {in_words(error)}. {again}") from error
    return {"token": token}


def _end(token: str) -> float:
    """Until when a JWT is valid (Unix time); raises ValueError."""
    try:
        _, claims, _ = token.split(".")
        return float(mapping(json.loads(base64.urlsafe_b64decode(f"{claims}=="))).get("exp", "inf"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError("the id-token is not a JWT") from error


def _renewed(config: Mapping[str, str], patience: float) -> dict[str, str]:
    """New tokens for the refresh-token; raises OSError or ValueError."""
    for key in ("refresh-token", "client-id", "idp-issuer-url"):
        if key not in config:
            raise ValueError(f"the id-token has ended, and without {key} there is no new one")
    tls = _provider_tls(config)
    found = _ask(f"{config['idp-issuer-url'].rstrip('/')}/.well-known/openid-configuration", tls, patience)
    endpoint = found.get("token_endpoint")
    if not isinstance(endpoint, str):
        raise ValueError("the provider names no token_endpoint")
    identity, secret = config["client-id"], config.get("client-secret", "")
    form = {"grant_type": "refresh_token", "refresh_token": config["refresh-token"]}
    basic = urllib3.make_headers(basic_auth=f"{quote_plus(identity)}:{quote_plus(secret)}")
    try:
        answer = _ask(endpoint, tls, patience, form, basic)
    except ValueError:  # as client-go: a provider may want them in the form, above all of a client without a secret
        named = {"client_id": identity, "client_secret": secret}
        answer = _ask(endpoint, tls, patience, form | {key: value for key, value in named.items() if value})
    if not isinstance(answer.get("id_token"), str):
        raise ValueError("the provider's answer has no id_token")
    refresh = answer.get("refresh_token")
    return {"id-token": answer["id_token"]} | ({"refresh-token": refresh} if isinstance(refresh, str) else {})


def _provider_tls(config: Mapping[str, str]) -> ssl.SSLContext:
    """A provider is verified by the CA that the kubeconfig names, otherwise by the system's."""
    made, data = Configuration(), config.get("idp-certificate-authority-data")
    made.ca_cert_data = base64.b64decode(data).decode() if data else None
    made.ssl_ca_cert = config.get("idp-certificate-authority") or ssl.get_default_verify_paths().cafile
    made.ssl_ca_cert = None if data else made.ssl_ca_cert or certifi.where()
    return configuration.tls(made)


def _ask(
    url: str,
    tls: ssl.SSLContext,
    patience: float,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """A provider's JSON; raises OSError if it is away, ValueError for an answer that is an error."""
    made = Configuration(host=url)
    configuration.set_proxy(made)
    pool = RESTClientObject(made).pool_manager
    pool.connection_pool_kw["ssl_context"] = tls
    tries = urllib3.Retry(connect=0, read=0, other=0, redirect=3)
    try:
        answer = pool.request(
            "POST" if form else "GET", url, fields=form, headers=headers, timeout=patience, retries=tries,
            **({"encode_multipart": False} if form else {}),
        )  # fmt: skip
    except HTTPError as error:
        raise OSError(f"{url}: {in_words(error)}") from error
    finally:
        pool.clear()
    try:
        said = mapping(json.loads(answer.data))
    except (ValueError, RecursionError):
        said = {}
    if answer.status != 200 or not said:
        why = ": ".join(str(said[key])[:_LONGEST] for key in ("error", "error_description") if key in said)
        raise ValueError(f"{url}: HTTP {answer.status}{why and f', {why}'}")
    return said


def _keep(context: Context, renewed: Mapping[str, Any]) -> None:
    """Writes renewed tokens into the kubeconfig, as kubectl does: a provider may accept a refresh-token only once."""
    file = context.file.resolve()
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
        entry = next(one for one in config["users"] if str(one["name"]) == context.user_name)
        entry["user"]["auth-provider"]["config"] |= renewed
        with TemporaryDirectory(dir=file.parent, prefix=".podfit-") as folder:  # mode 0700
            new = Path(folder) / file.name
            new.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
            was = file.stat()
            with suppress(PermissionError, AttributeError):  # only root gives files away; Windows has no owners
                os.chown(new, was.st_uid, was.st_gid)
            new.chmod(was.st_mode & 0o777)
            new.replace(file)
    except OSError as error:
        print(f"note: {context}: the renewed tokens can't be written: {in_words(error)}", file=sys.stderr)
