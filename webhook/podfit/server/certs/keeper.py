"""Keeps a certificate in the Secret, and its CA in our own configurations, so that the API server trusts it.

Every replica follows the steps of `renewal`. There is no leader, so none can fail. Each write carries the version that
was read; the replica that writes second reads again.
"""

from __future__ import annotations

import base64
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from podfit.cluster.access import Access, Client, StatusError
from podfit.server import certs, registration
from podfit.server.certs import renewal
from podfit.server.certs.renewal import CertificateView, Clocks, RenewalPolicy, StoredCertificates
from podfit.server.certs.serving import Contexts

LOOK = 10.0
"""Seconds between two looks, or a sixth of the pause if that is shorter."""
EAGER = 1.0
"""Seconds between two looks while there is nothing that the API server trusts."""
JITTER = (0.75, 1.25)
"""Random factors of the seconds between two looks: replicas do not look at the same time."""
ROUNDS = 12
"""Writes, conflicts included, that one look makes at most. A choice: a step has few writes, and other replicas may be
faster."""

JSONDict = dict[str, Any]
Clock = Callable[[], float]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observation:
    """The cluster at one look."""

    secret: JSONDict | None
    """The Secret's object; None: there is none."""
    configurations: Mapping[str, JSONDict]
    """Path → webhook configuration, of those that exist and can be read."""
    unreadable: str
    """Why a configuration can't be read; empty if all can."""
    now: datetime
    """The API server's time."""

    @property
    def stored(self) -> StoredCertificates:
        """The certificates in the Secret."""
        return renewal.read_secret((self.secret or {}).get("data") or {})

    @property
    def bundles(self) -> dict[str, tuple[bytes, ...]] | None:
        """PATH NUMBER of each webhook → its CAs; None if a configuration can't be read."""
        if self.unreadable:
            return None
        return {
            f"{path} {number}": renewal.bundle_of(hook)
            for path, configuration in self.configurations.items()
            for number, hook in enumerate(configuration.get("webhooks") or ())
        }

    @property
    def labels(self) -> dict[str, str]:
        """The release's labels, from its configurations, for new objects."""
        first = next(iter(self.configurations.values()), {})
        labels = first.get("metadata", {}).get("labels") or {}
        return {key: labels[key] for key in ("app.kubernetes.io/name", "app.kubernetes.io/instance") if key in labels}


@dataclass
class KeeperStatus:
    """The result of the last look, as reported by /readyz and metrics."""

    problem: str = "not looked yet"
    """Why the last look failed; empty if it did not."""
    trusted: bool = False
    """True if every live configuration contains the CA of the certificate that is served."""
    rights: str = field(default="")
    """Why a configuration can't be read; empty if all can."""
    off: bool | None = None
    """True if `podfit off` has paused a webhook; None: unknown."""


class Keeper:
    """The certificate of a Service, self-managed. It serves from memory: whatever happens to the API server or to the
    Secret, what is served is served on."""

    def __init__(
        self,
        access: Access,
        secret: str,
        configurations: str,
        terms: RenewalPolicy,
        client_ca: Path | None = None,
        clock: Clock = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`secret`: the name of a Secret in the namespace of `access`; `configurations`: the name of both webhook
        configurations. `client_ca`: the file with the CAs of clients that may show a certificate; None: none may."""
        self._client = Client(access)
        self._secrets = f"/api/v1/namespaces/{access.namespace}/secrets"
        self._secret = secret
        self._paths = tuple(
            f"{registration.ROOT}/{kind}/{configurations}" for kind in registration.WEBHOOK_CONFIGURATIONS
        )
        self._terms = terms
        self._contexts = Contexts(client_ca)
        self._clock, self._today = clock, today
        self._replica = CertificateView()
        # Until there is a certificate: probes and metrics are answered, and say why.
        self._pair = certs.issue_leaf(certs.issue_ca(datetime.now(UTC)), terms.hosts, datetime.now(UTC))
        self._contexts.of(self._pair)
        self.state = KeeperStatus()

    # ── serving.Serving ──────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Looks in the background, for as long as the process lives."""
        Thread(target=self.run, args=(Event(),), name="certificate", daemon=True).start()

    def context(self) -> ssl.SSLContext:
        """For the next handshake."""
        return self._contexts.of(self._pair)

    def problem(self) -> str | None:
        """The reason why the API server can't trust this replica; None if it can."""
        if self._replica.leaf is None:
            return f"there is no certificate yet: {self.state.problem}"
        if not self.state.trusted:
            why = self.state.problem or self.state.rights or "it is being written"
            return f"the webhook configurations do not hold the certificate's CA: {why}"
        return None

    def worry(self) -> str | None:
        """A problem that does not stop the API server from trusting this replica; None if there is none."""
        if self.problem() is None and self.state.problem:
            return f"the certificate can't be looked after: {self.state.problem}"
        return None

    def not_after(self) -> float:
        """Seconds since the epoch at which the certificate that is served expires; 0 if it is not from the Secret."""
        leaf = self._replica.leaf
        return certs.not_after(leaf.certificate).timestamp() if leaf else 0.0

    def is_off(self) -> bool | None:
        """True if `podfit off` had paused a webhook at the last look; None if it is unknown."""
        return self.state.off

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, stop: Event) -> None:
        """Looks until `stop` is set. Never raises."""
        usual = min(LOOK, self._terms.pause.total_seconds() / 6)
        while True:
            self.look()
            pause = usual if self.state.trusted else min(EAGER, usual)
            if stop.wait(pause * random.uniform(*JITTER)):  # noqa: S311 - not for secrets
                return

    def look(self) -> None:
        """Takes every step that is due now. Never raises: a failure is reported, and tried again."""
        problem_before, problem = self.state.problem, ""
        try:
            self._reconcile()
        except (StatusError, OSError, ValueError) as error:
            problem = str(error)
        except Exception as error:  # our fault; only the type, since a text might hold a key
            problem = f"internal error: {type(error).__name__}"
            log.exception("looking after the certificate failed")
        self.state.problem = problem
        if problem and problem != problem_before:
            log.warning("the certificate can't be looked after, what is served is served on: %s", problem)
        elif problem_before and not problem:
            log.info("the certificate is looked after")

    def _reconcile(self) -> None:
        """Reads everything and does what the next step says, until nothing is left to do. A `podfit off` that is over
        comes first, then the Secret, then the bundles: after each write everything is read again. Raises OSError or
        StatusError, also if the Secret can't be written; then the bundles are written nevertheless."""
        for _ in range(ROUNDS):
            observation = self._observe()
            clocks = Clocks(observation.now, self._today(), self._clock())
            step = renewal.next_step(self._replica, observation.stored, observation.bundles, self._terms, clocks)
            self._adopt(step.replica)
            self._set_state(observation)
            if self._switch_on(observation):
                continue
            if step.secret is not None:
                try:
                    self._store(observation, step.secret)
                except (StatusError, OSError):
                    self._write_bundles(observation.configurations, step.bundles)
                    raise
            elif step.bundles:
                self._write_bundles(observation.configurations, step.bundles)
            elif step.doubt:  # nothing is left to do that does not need the API server's clock
                raise OSError(step.doubt)
            else:
                return
        raise OSError("another client keeps changing the Secret or the webhook configurations")

    def _observe(self) -> Observation:
        """The Secret and the webhook configurations as they are now. Raises StatusError or OSError if the Secret can't
        be read; a configuration that must not be read is noted in the result."""
        secret, now = self._get(f"{self._secrets}/{self._secret}")
        by_path, unreadable = {}, ""
        for path in self._paths:
            try:
                configuration, _ = self._get(path)
            except StatusError as error:
                unreadable = str(error)
                continue
            if configuration is not None:
                by_path[path] = configuration
        return Observation(secret, by_path, unreadable, now)

    def _get(self, path: str) -> tuple[JSONDict | None, datetime]:
        """An object, None if it is absent, and the API server's time. Raises StatusError or OSError."""
        try:
            return self._client.send("GET", path)
        except StatusError as error:
            if error.code == 404:
                return None, error.date
            raise

    def _adopt(self, replica: CertificateView) -> None:
        """Replace the view of this replica by that of the next step, and serve its certificate if it is a new one."""
        if replica.leaf is not None and replica.leaf != self._replica.leaf:
            self._pair = replica.leaf
            log.info(
                "serving the certificate that ends %s",
                f"{certs.not_after(replica.leaf.certificate):%Y-%m-%dT%H:%M:%SZ}",
            )
        self._replica = replica

    def _set_state(self, observation: Observation) -> None:
        """Set the state that readiness and metrics show: unread objects, pause, and trust in the CA."""
        self.state.rights = observation.unreadable
        states = [registration.state(value, observation.now) for value in observation.configurations.values()]
        self.state.off = None if observation.unreadable else any(state != "on" for state in states)
        self.state.trusted = observation.bundles is not None and renewal.trusted(self._replica, observation.bundles)

    def _switch_on(self, observation: Observation) -> bool:
        """Ends a `podfit off --for` whose time is over by both clocks, in each configuration. Returns True if there was
        one."""
        now = min(observation.now, self._today())
        is_written = False
        for path, configuration in observation.configurations.items():
            end = registration.ends(configuration)
            if end and end <= now:
                self._write("PUT", path, registration.switched_on(configuration))
                is_written = True
        return is_written

    def _store(self, observation: Observation, certificates: StoredCertificates) -> None:
        """Writes the certificates into the Secret, a new one if there is none. Does nothing if another replica was
        faster (`_write`)."""
        data, before = renewal.secret_data(certificates), observation.secret
        if before is None:
            metadata = {"name": self._secret, "labels": observation.labels}
            new = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
            self._write("POST", self._secrets, new)
        else:
            self._write("PUT", f"{self._secrets}/{self._secret}", {**before, "data": data})

    def _write_bundles(self, configurations: Mapping[str, JSONDict], bundles: renewal.Bundles) -> None:
        """Writes the CA bundles into the webhooks that `bundles` names ("PATH NUMBER", as `Observation.bundles`), and
        leaves all others as they are. `configurations`: path → object."""
        for path, configuration in configurations.items():
            hooks = list(configuration.get("webhooks") or ())
            for number, hook in enumerate(hooks):
                bundle = bundles.get(f"{path} {number}")
                if bundle is not None:
                    hooks[number] = _with_bundle(hook, bundle)
            if hooks != configuration.get("webhooks"):
                self._write("PUT", path, {**configuration, "webhooks": hooks})

    def _write(self, method: str, path: str, body: JSONDict) -> None:
        """Create or replace an object. Logs that it did, unless it is gone or another client was faster."""
        try:
            self._client.send(method, path, body)
        except StatusError as error:
            if error.code not in (404, 409):  # gone, or another client was faster: the next look sees it
                raise
            return
        log.info("%s written", path.partition("/v1/")[2])


def _with_bundle(hook: JSONDict, bundle: tuple[bytes, ...]) -> JSONDict:
    """The webhook with these CAs, PEM each, as its caBundle."""
    text = base64.b64encode(b"".join(bundle)).decode()
    return {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": text}}
