from __future__ import annotations

from collections.abc import Iterator

from podfit.rules._flags import certainty, uncertain
from podfit.rules.engine import Engine
from podfit.rules.rule import Finding, Rule
from podfit.vllm.args import EngineArgs
from podfit.vllm.release import Release, is_official, is_read

SHARED_SINCE, NOT_SHARED_SINCE = Release(0, 7, 3), Release(0, 28)
"""From the first release until before the second a server shares its port with other servers (SO_REUSEPORT; vLLM 0.7.3
to 0.27.1 entrypoints/openai/api_server.py create_server_socket). Other releases only share it among several API servers
of one vLLM (vLLM 0.33 entrypoints/cli/serve.py). Linux requires the option on both sockets, and the same user."""
EVERYWHERE = (None, "", "0.0.0.0", "::")  # noqa: S104
"""Values of --host with which a server listens on every address; None: not set."""


class PortTaken(Rule):
    """Two vLLM servers of one Pod listen on the same port.

    The containers of a Pod share its network: one port, one server. The default of each is 8000, and the second to
    start ends, is started again, and ends again:

        OSError: [Errno 98] Address already in use

    From v0.7.3 until v0.27 vLLM shares its port with other servers that share it too (SO_REUSEPORT). Both then start,
    and the kernel spreads the requests over them. If they serve different models, half of all requests get
    `404 The model does not exist`.
    """

    plane = "network"
    event = "the second server exits: address already in use"
    mode = "deny"

    def check(self, engine: Engine) -> Iterator[Finding]:
        """Certain if both run vLLM's own images and one of them does not share its port; else likely. One finding for a
        pair, at the container that is read second (`siblings` are in the order of reading)."""
        if engine.port is None or _ends(engine, engine.container.name) or engine.command.branched:
            return
        for other in engine.siblings:
            if other.container == engine.container.name:
                return  # the later ones report their own pairs
            if other.port != engine.port or _ends(engine, other.container):
                continue
            if not _share_an_address(engine.args.get("host"), other.host):
                continue
            fails = _refuses_to_share(engine.release, engine.args) or _refuses_to_share(other.release, other.args)
            sure = fails and certainty(engine) == "certain" and _is_vllms(engine, other.container)
            what = "the second to start ends" if fails else "both get the other's requests"
            yield Finding(
                path=engine.argument("port"),
                message=f"port {engine.port} is that of container {other.container!r} too, in the same Pod: {what}",
                certainty="certain" if sure else "likely",
                uncertain=uncertain(engine) or (None if fails else "both start: these releases share their port"),
                suggestions=(f"--port {engine.port + 1}, in the probes and the Service, too",),
            )
            return


def _share_an_address(host: object, other_host: object) -> bool:
    """True if servers with these values of --host listen on a common address: the same one, or one of them on all."""
    return host == other_host or host in EVERYWHERE or other_host in EVERYWHERE


def _refuses_to_share(release: Release | None, args: EngineArgs) -> bool:
    """True if a server of that release with these arguments lets no other process listen on its port. False if the
    release is unknown or not read, and if its several API servers, or an unknown number of them, share the port."""
    if release is None or not is_read(release):
        return False
    if release < SHARED_SINCE:
        return True
    server_counts = ("api_server_count", "data_parallel_size")
    several = any((args.get(dest) or 1) != 1 for dest in server_counts)
    return release >= NOT_SHARED_SINCE and not several and args.unresolved.keys().isdisjoint(server_counts)


def _is_vllms(engine: Engine, name: str) -> bool:
    """True if the Pod's container of that name runs vLLM's own image."""
    container = engine.workload.by_name.get(name)
    image = container.spec.get("image") if container else None
    return isinstance(image, str) and is_official(image)


def _ends(engine: Engine, name: str) -> bool:
    """True for an init container that is done before the others start; a restartable one is a sidecar."""
    container = engine.workload.by_name.get(name)
    return container is not None and container.init and container.spec.get("restartPolicy") != "Always"
