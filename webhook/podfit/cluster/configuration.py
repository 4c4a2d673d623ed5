"""The client's configuration for one context: TLS, proxies, and users that act as others.

The client's loader (read in 37.0.2) leaves keys in files, ignores `as`, and has proxies that differ from kubectl's.
"""

from __future__ import annotations

import signal
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies_environment

import urllib3
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config_from_dict
from urllib3.exceptions import (
    ConnectTimeoutError,
    LocationParseError,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from podfit.cluster.kubeconfig import AccessError, Context
from podfit.kube.path import mapping

_PROXIES = ("http", "https", "socks5", "socks5h")
"""Schemes of a proxy's URL that urllib3 can use, the last two with PySocks."""
_HEADER = "!#$&'*+-.^_`|~"
"""Besides letters and digits, what may be in a header's name (RFC 9110, token): client-go escapes the rest."""


def load(context: Context, user: Mapping[str, Any]) -> tuple[Configuration, ssl.SSLContext]:
    """The client's configuration for a context, and its TLS context; raises AccessError. The loader writes keys into
    files; their folder is deleted before any signal is handled, and the TLS context keeps what they contain."""
    configuration = Configuration()
    try:
        with _uninterrupted(), TemporaryDirectory(prefix="podfit-") as folder:  # mode 0700
            load_kube_config_from_dict(
                _one_context(context.cluster, user), client_configuration=configuration, temp_file_path=folder
            )
            configuration.refresh_api_key_hook = None  # it would only ever set the same token
            ssl_context = tls(configuration)
        set_proxy(configuration, context.cluster.get("proxy-url"))
    except Exception as error:  # the loader raises many types
        raise AccessError(f"{context}: {in_words(error)}") from error
    return configuration, ssl_context


def _one_context(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> dict[str, Any]:
    """A kubeconfig of one context, for the client's loader. Its entries have any name; here all are called "it"."""
    return {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": dict(cluster)}],
        "users": [{"name": "it", "user": dict(user)}],
    }


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delays signals that end the process until the block is left, if the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def tls(configuration: Configuration) -> ssl.SSLContext:
    """The TLS context of a configuration, with its CA (None: the system's CAs) and client certificate, if any.

    Removes the names of their files from the configuration, because the caller deletes the files. Raises ValueError if
    a file can't be read as PEM."""
    ca, certificate, key = configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
    configuration.ssl_ca_cert = configuration.cert_file = configuration.key_file = None
    try:
        context = ssl.create_default_context(cafile=ca, cadata=configuration.ca_cert_data)
    except OSError as error:
        raise ValueError(f"certificate-authority: {in_words(error)}") from error
    # Python 3.13 wants key identifiers that the CAs of many clusters lack; kubectl does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if certificate:
        try:
            context.load_cert_chain(certificate, key, password="")  # or OpenSSL would ask the terminal
        except OSError as error:
            raise ValueError(f"client-certificate and client-key: {in_words(error)}") from error
    return context


def set_proxy(configuration: Configuration, own: str | None = None) -> None:
    """Set the proxy of a configuration as kubectl does. `own`: the cluster's proxy-url; None: it has none.

    `own` is used whatever NO_PROXY says; the client's loader has put it into `configuration.proxy`. Else HTTPS_PROXY or
    HTTP_PROXY of the environment is used, but not for this machine, and not ALL_PROXY (Go's net/http). A URL without a
    scheme is an http proxy; a SOCKS proxy resolves names; user and password in the URL are sent.

    Raises ValueError for an invalid URL of a proxy, without showing it: it may contain a password."""
    if own:
        configuration.no_proxy = None
    else:
        configuration.no_proxy = f"{configuration.no_proxy or ''},localhost,127.0.0.0/8,::1"
        configuration.proxy = getproxies_environment().get(urlsplit(configuration.host).scheme)
    if not configuration.proxy:
        return
    proxy = configuration.proxy if "://" in configuration.proxy else f"http://{configuration.proxy}"
    try:
        parsed = urllib3.util.parse_url(proxy)
        is_valid = bool(parsed.host) and parsed.scheme in _PROXIES
    except LocationParseError:
        is_valid = False
    if not is_valid:
        where = "proxy-url" if own else "the proxy of HTTPS_PROXY or HTTP_PROXY"
        raise ValueError(f"{where} is not a URL of a proxy (expected SCHEME://HOST:PORT, scheme {', '.join(_PROXIES)})")
    configuration.proxy = proxy.replace("socks5://", "socks5h://", 1)  # PySocks: with h, the proxy resolves names
    parts = urlsplit(proxy)
    if parts.username is not None and parts.scheme.startswith("http"):
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=login)


def impersonated(context: Context) -> list[tuple[str, str]]:
    """(name, value) of the headers of a user that acts as another one; empty if it does not. Raises AccessError for a
    value that is not text. The client library itself ignores `as`."""
    user = context.user
    fields: dict[str, object] = {
        "Impersonate-User": [user.get("as") or ""],
        "Impersonate-Uid": [user.get("as-uid") or ""],
        "Impersonate-Group": user.get("as-groups") or [],
    }
    for key, extra in mapping(user.get("as-user-extra")).items():
        fields[f"Impersonate-Extra-{quote(str(key), safe=_HEADER)}"] = extra or []
    headers: list[tuple[str, str]] = []
    for name, values in fields.items():
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise AccessError(f"{context}: {name} is not a list of texts")
        if not all(value.isprintable() for value in values):
            raise AccessError(f"{context}: {name} has a character that no header may have")
        # UTF-8, as client-go sends it: http.client encodes each character of a header as one byte of Latin-1.
        headers += [(name, value.encode().decode("latin-1")) for value in values if value]
    return headers


def in_words(error: BaseException) -> str:
    """One line that describes an exception for people, without names of classes, numbers and repeated addresses.

    urllib3 wraps the error that counts, so the wrappers are taken off from the outside in."""
    if isinstance(error, MaxRetryError) and error.reason is not None:
        return in_words(error.reason)
    if isinstance(error, ProxyError):
        return f"the proxy: {in_words(error.original_error)}"
    if isinstance(cause := getattr(error, "socket_err", None), OSError):  # PySocks
        return f"the proxy: {in_words(cause)}"
    if isinstance(error, NewConnectionError) and isinstance(error.__context__, OSError):
        return in_words(error.__context__)
    if isinstance(error, ProtocolError | SSLError) and isinstance(cause := error.args[-1], OSError) and cause.strerror:
        return in_words(cause)
    if isinstance(error, ProtocolError):
        return "the connection ended before the whole answer"
    if isinstance(error, TimeoutError | ConnectTimeoutError | ReadTimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not a valid PEM file").replace("_", " ").lower()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or ''}: {error.strerror[0].lower()}{error.strerror[1:]}".removeprefix(": ")
    return " ".join(str(error).split()) or type(error).__name__
