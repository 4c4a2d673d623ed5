"""Credentials for one API server, and requests to it, by the `kubernetes` client.

`kubernetes.config` turns a Pod's account or one context into credentials. `podfit.cluster.kubeconfig` chooses the
context, `podfit.cluster.signin` signs in, `kubernetes.dynamic` sends requests. podfit decodes bodies itself, because
the client's typed models keep all fields. Unused fields are dropped while the text is parsed. docs/dependencies.md
lists what is podfit's own, with the reason in the client and the measurement.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError
from urllib3.exceptions import HTTPError

from podfit import __version__
from podfit.cluster import configuration, decoding, kubeconfig, signin
from podfit.cluster.configuration import in_words
from podfit.cluster.kubeconfig import AccessError
from podfit.kube.path import mapping

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder that the kubelet mounts into a Pod with its account's token (rest.InClusterConfig of client-go)."""
CONNECT_TIMEOUT, READ_TIMEOUT = 5.0, 30.0
"""Seconds."""
EARLY = 30.0
"""Seconds before credentials expire at which podfit signs in again."""
APPLY = {"content_type": "application/apply-patch+yaml", "field_manager": "podfit", "force_conflicts": True}
"""Options of a server-side apply by podfit, which takes over fields that another manager set."""
MAX_ANSWER_BYTES = 64 << 20
"""Bytes of an answer to a list: 500 nodes are about 10 MiB."""
MAX_ERROR_LENGTH = 200
"""Characters of an answer that is not a Status of Kubernetes."""
DENIED = (401, 403)
"""Codes of an API server that does not know the credentials, or whose user must not do this."""


class UnreachableError(AccessError):
    """The API server does not answer; names it and says why."""


class StatusError(Exception):
    """The API server answers with an error.

    `code`: the HTTP status. `retry_after`: seconds until the next try; None: the server names none."""

    def __init__(
        self,
        code: int,
        message: str,
        retry_after: float | None = None,
        resume: str | None = None,
        date: datetime | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.retry_after = retry_after
        self.resume = resume
        """The token to continue a list whose resource version is gone (410); None: there is none."""
        self.date = date or datetime.now(UTC)
        """The time of the answer, by the API server's clock; by this machine's if it does not say."""


@dataclass(frozen=True)
class Access:
    """A way to one API server."""

    configuration: Configuration
    """The client's own: server, proxy, token."""
    namespace: str
    """podfit's own in a Pod, the context's otherwise."""
    title: str = "this Pod's account"
    """The account or context with its user and file, for messages."""
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    """With the client's certificate, so that its key need not stay in a file."""
    token_file: Path | None = None
    """Read at every request: the kubelet renews a Pod's token every hour. The client would read it once a minute (a
    kubeconfig's `tokenFile` only once), and send a line break with it."""
    headers: Sequence[tuple[str, str]] = ()
    """Sent with each request; a name may be there several times."""
    ends: float | None = None
    """Unix time at which the credentials expire; None if that is not known."""
    again: Callable[[], Access] | None = None
    """Signs in again; None: the credentials do not expire, or not at a known time."""
    in_pod: bool = False
    """True for the account of the Pod in which podfit runs."""


def in_cluster(folder: Path = ACCOUNT, env: Mapping[str, str] = os.environ) -> Access | None:
    """The account of the Pod in which podfit runs; None outside a Pod, or in one without a token. Raises AccessError.

    Never through a proxy, whatever the environment says: the API server is in the same network.
    """
    token, ca = folder / "token", folder / "ca.crt"
    if not env.get("KUBERNETES_SERVICE_HOST") or not token.is_file():
        return None
    loaded = Configuration()
    try:
        environ = {"KUBERNETES_SERVICE_PORT": "443", **env}
        InClusterConfigLoader(str(token), str(ca), False, environ).load_and_set(loaded)
        namespace = (folder / "namespace").read_text().strip()
        loaded.proxy = None
        return Access(loaded, namespace, tls=configuration.tls(loaded), token_file=token, in_pod=True)
    except Exception as error:  # the loader raises many types
        raise AccessError(f"{folder}: {in_words(error)}") from error


def from_kubeconfig(
    files: Path | Sequence[Path],
    context: str | None = None,
    *,
    plugins: bool = False,
    patience: float = signin.PLUGIN_TIMEOUT,
) -> Access:
    """A context of kubeconfigs, by default the current one; raises AccessError if it can't be used.

    `plugins`: users may sign in, by a program or at a provider, within `patience` seconds. False, as for a server:
    such a user is an AccessError.
    """
    chosen = kubeconfig.read([files] if isinstance(files, Path) else files, context)
    if not plugins and (way := signin.way(chosen)):
        raise AccessError(f"{chosen}: signs in by {way}, which a server does not run. Fix: use a token or certificate")
    # As client-go: without TLS podfit does not sign in, since anyone on the network could read the credentials.
    signed_in = signin.credentials(chosen, patience) if chosen.is_secure else signin.SignedIn({})
    user, ends = signed_in.user, signed_in.ends
    loaded, tls = configuration.load(chosen, user)
    if not loaded.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # as the kubeconfig says
    again = partial(from_kubeconfig, files, context, plugins=plugins, patience=patience)
    return Access(
        configuration=loaded,
        namespace=chosen.namespace,
        title=str(chosen),
        tls=tls,
        token_file=Path(user["tokenFile"]) if "tokenFile" in user else None,
        headers=configuration.impersonated(chosen),
        ends=ends,
        again=again if ends else None,
    )


class Client:
    """Requests to one API server. Each watch has a client, and with it a connection, of its own."""

    def __init__(self, access: Access) -> None:
        self._connect(access)

    def _connect(self, access: Access) -> None:
        """Make the client for these credentials: no retries, no discovery, and TLS in memory."""
        self._access = access
        access.configuration.retries = urllib3.Retry(False)  # callers decide what to try again, and when
        self._api = ApiClient(access.configuration)
        self._api.user_agent = f"podfit/{__version__}"
        self._api.rest_client.request = partial(_with_headers, self._api.rest_client.request, access.headers)
        # The client itself makes TLS contexts only from files, at each connection.
        self._api.rest_client.pool_manager.connection_pool_kw["ssl_context"] = access.tls
        # Without its discovery, which trusts a file of a known name in /tmp and takes a group that is down for empty.
        self._dynamic = DynamicClient(self._api, discoverer=lambda *_: None)

    @property
    def namespace(self) -> str:
        """podfit's own in a Pod, the context's otherwise."""
        return self._access.namespace

    @property
    def in_pod(self) -> bool:
        """True if this is a Pod, and its account asks."""
        return self._access.in_pod

    def get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        """One JSON object without the fields in `decoding.UNUSED`; raises StatusError for an error of the server,
        UnreachableError if it does not answer, AccessError if the credentials can't be used."""
        with self._ask("GET", path, query) as answer:
            return self._decoded(answer, decoding.without_unused)

    def page(
        self, path: str, query: Mapping[str, str], take: Callable[[Mapping[str, Any]], object]
    ) -> Mapping[str, Any]:
        """The `metadata` of a list, of which `take` gets each object as soon as it is decoded.

        Raises as `get`, and decoding.UnreadableError if the list, or an object in it, is too large to be decoded."""
        with self._ask("GET", path, query) as answer:
            text = answer.read(decoding.MAX_BYTES + 1)
        try:
            return decoding.page(text, take)
        except ValueError as error:
            raise self._away("the answer is not JSON of a list, so this may be no API server") from error

    def get_unreduced(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """One JSON object with all that is in it; raises as `get`."""
        with self._ask("GET", path, query) as answer:
            return self._decoded(answer)

    def text(self, path: str, query: Mapping[str, str], most: int) -> str:
        """At most `most` bytes of text, such as a container's log; raises as `get`."""
        with self._ask("GET", path, query) as answer:
            return answer.read(most).decode("utf-8", "replace")

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Changes an object by a JSON merge patch; raises as `get`."""
        with self._ask("PATCH", path, body=change, options={"content_type": "application/merge-patch+json"}) as answer:
            answer.drain_conn()

    def apply(self, path: str, obj: Mapping[str, Any], dry_run: str | None = None) -> None:
        """Creates an object, or sets the fields in `obj` (server-side apply in podfit's name); raises as `get`.

        `dry_run`: "All" runs admission and stores nothing; None stores the object."""
        with self._ask("PATCH", path, body=obj, options=APPLY | {"dry_run": dry_run}) as answer:
            answer.drain_conn()

    def delete(self, path: str) -> None:
        """Removes an object; raises as `get`."""
        with self._ask("DELETE", path) as answer:
            answer.drain_conn()

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], datetime]:
        """Sends any request (GET, POST of a new object, PUT of an entire one). Returns the object in the answer, and
        the server's time with a zone. Raises as `get`, with code 409 if another client was faster."""
        with self._ask(method, path, body=body) as answer:
            return self._decoded(answer), _date(answer.headers.get("Date"))

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str], silence: float) -> Iterator[Iterator[bytes]]:
        """The lines of a watch as they arrive, for `decoding.event`. Raises as `get`, also while they are read:
        UnreachableError after `silence` seconds without a byte."""
        with self._ask("GET", path, query, silence) as answer:
            yield decoding.lines(answer.stream())

    @contextmanager
    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        read: float = READ_TIMEOUT,
        body: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """The answer to one request, closed at the end. Raises AccessError, StatusError or UnreachableError, also for
        errors while the caller reads the answer.

        `read`: seconds without a byte after which the server counts as away. `body`: sent as JSON; None: none.
        `options`: further arguments of `DynamicClient.request`."""
        self._renew_credentials()
        try:
            answer = self._dynamic.request(
                method,
                path,
                query_params=list((query or {}).items()),
                body=body,
                serialize=False,
                _request_timeout=(CONNECT_TIMEOUT, read),
                **(options or {}),
            )
            try:
                yield answer
            finally:
                answer.close()  # does not wait for an unread rest
        except DynamicApiError as error:
            if not error.status:  # no HTTP answer but an error of TLS: "SSLError\n[SSL: WHAT] why (_ssl.c:1006)"
                last_line = error.reason.splitlines()[-1]
                raise self._away(re.sub(r"^\[.*?\] | \(_ssl.*", "", last_line)) from error
            raise self._refusal(error) from error
        except HTTPError as error:
            raise self._away(in_words(error)) from error

    def _renew_credentials(self) -> None:
        """Signs in again EARLY seconds before the credentials expire, and reads the token file, if there are any.

        Raises AccessError if signing in fails, or the token is absent or not valid in a header."""
        access = self._access
        if access.again and access.ends is not None and time.time() > access.ends - EARLY:
            self.close()
            access = access.again()
            self._connect(access)
        keys = access.configuration.api_key
        if access.token_file is not None:
            try:
                token = access.token_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise AccessError(f"{access.title}: {in_words(error)}") from error
            if not token:
                raise AccessError(f"{access.title}: {access.token_file} is empty")
            keys["BearerToken"] = f"Bearer {token}"
        token_header = keys.get("BearerToken", "")  # absent: the user has a certificate, or no credentials
        if not token_header.isprintable() or not token_header.isascii():
            # Checked here, because the HTTP client's own error would show the token.
            raise AccessError(f"{access.title}: the token has a character that no header may have")

    def _decoded(
        self, answer: urllib3.BaseHTTPResponse, hook: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """The JSON object of an answer; raises UnreachableError if it is not one. Go writes an empty list as null, so
        `items: null` becomes an empty list.

        `hook`: makes each object from its fields (`object_pairs_hook`); None keeps all fields."""
        try:
            value = json.loads(answer.read(MAX_ANSWER_BYTES), object_pairs_hook=hook)
        except (ValueError, RecursionError) as error:
            raise self._away("the answer is not JSON, so this may be no API server") from error
        if not isinstance(value, dict):
            raise self._away("the answer is not a JSON object, so this may be no API server")
        if "items" in value and not value["items"]:
            return {**value, "items": []}
        return value

    def _away(self, why: str) -> UnreachableError:
        """The error that the API server does not answer: its URL and the account, then the reason `why`."""
        return UnreachableError(f"{self._access.configuration.host} ({self._access.title}): {why}")

    def _refusal(self, error: DynamicApiError) -> StatusError:
        """The API server's error, with the message and the continue token of its Status and with the seconds in
        Retry-After, each if there is one. An answer that is not a Status gives the beginning of its text instead."""
        body, headers, resume = error.body or "", error.headers or {}, None
        try:
            status = json.loads(body)
            text = str(status["message"])
            resume = mapping(status.get("metadata")).get("continue")
        except (ValueError, KeyError, TypeError):  # a page of a proxy or load balancer
            text = " ".join(body.split())[:MAX_ERROR_LENGTH] or error.reason or ""
        if error.status in DENIED:
            text = f"{text} ({self._access.title})"
        if error.status == 401:
            text = f"{text}. Fix: renew these credentials"
        after = headers.get("Retry-After", "")
        seconds = float(after) if after.isdecimal() else None
        return StatusError(error.status, text, seconds, resume, _date(headers.get("Date")))

    def close(self) -> None:
        """Close all connections to the API server."""
        self._api.close()


def _with_headers(
    request: Callable[..., Any],
    more: Sequence[tuple[str, str]],
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> Any:
    """The result of `request` with the client's own `headers` and those of `more`, which are (name, value).

    The client keeps headers in a dict. Here a name may have several values, as several Impersonate-Group have."""
    all_headers = urllib3.HTTPHeaderDict(headers)
    all_headers.extend(more)
    return request(method, url, headers=all_headers, **options)


def _date(header: str | None) -> datetime:
    """The time in an HTTP header `Date`, in UTC; this machine's time if there is none, or it is not a date."""
    try:
        return parsedate_to_datetime(header or "").astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)
